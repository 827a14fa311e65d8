/** Readers of untrusted JSON: each checks a value's type and returns it. */

import { ProgramError, messageOf } from "./errors.js";

/** Checks a value; `where` is its name in error messages. @throws {ProgramError} It is of another type. */
export type Reader<T> = (value: unknown, where: string) => T;

/** The type that a reader returns. */
export type Read<R> = R extends Reader<infer T> ? T : never;

/** Checks a condition; messages that are slow to format are functions. @throws {ProgramError} It is false. */
export function require(condition: boolean, message: string | (() => string)): asserts condition {
  if (!condition) throw new ProgramError(typeof message === "string" ? message : message());
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
}

export const text: Reader<string> = (value, where) => {
  require(typeof value === "string", () => `${where} must be a string, got ${shown(value)}`);
  return value;
};

/** Reads a non-empty string. */
export const name: Reader<string> = (value, where) => {
  require(typeof value === "string" && value !== "", () => `${where} must be a non-empty string, got ${shown(value)}`);
  return value;
};

/** Reads a non-negative integer. */
export const whole: Reader<number> = (value, where) => {
  const isWhole = Number.isSafeInteger(value) && (value as number) >= 0;
  require(isWhole, () => `${where} must be a non-negative integer, got ${shown(value)}`);
  return value as number;
};

export const positive: Reader<number> = (value, where) => {
  require(whole(value, where) > 0, `${where} must be a positive integer, got 0`);
  return value as number;
};

export const finite: Reader<number> = (value, where) => {
  require(Number.isFinite(value), () => `${where} must be a finite number, got ${shown(value)}`);
  return value as number;
};

export function oneOf<const T extends string>(choices: readonly T[]): Reader<T> {
  return (value, where) => {
    require(choices.includes(value as T), () => `${where} must be one of ${choices.join(", ")}, got ${shown(value)}`);
    return value as T;
  };
}

export function nullable<T>(read: Reader<T>): Reader<T | null> {
  return (value, where) => (value === null || value === undefined ? null : read(value, where));
}

/** Reads a value that may be absent; returns `absent` then. */
export function optional<T>(read: Reader<T>, absent: T): Reader<T> {
  return (value, where) => (value === undefined ? absent : read(value, where));
}

export function list<T>(read: Reader<T>, count?: number): Reader<readonly T[]> {
  return (value, where) => {
    require(Array.isArray(value), () => `${where} must be a list, got ${shown(value)}`);
    require(count === undefined || value.length === count, `${where} must have ${count} entries, got ${value.length}`);
    return value.map((entry, index) => read(entry, `${where}[${index}]`));
  };
}

/** Reads an object with arbitrary keys. */
export function mapping<T>(read: Reader<T>): Reader<ReadonlyMap<string, T>> {
  return (value, where) => {
    const entries = Object.entries(object(value, where));
    return new Map(entries.map(([key, entry]) => [key, read(entry, `${where}.${key}`)]));
  };
}

/** Reads a value of any type. */
export const anything: Reader<unknown> = (value) => value;

/** Reads an object with these fields; ignores others if it is open, and otherwise refuses them. */
export function record<F extends Record<string, Reader<unknown>>>(
  fields: F,
  isOpen = false,
): Reader<{ readonly [K in keyof F]: Read<F[K]> }> {
  return (value, where) => {
    const found = object(value, where);
    const read = Object.entries(fields).map(([key, reader]) => {
      const own = Object.hasOwn(found, key) ? found[key] : undefined;
      return [key, reader(own, `${where}.${key}`)];
    });
    const unknown = Object.keys(found).find((key) => !isOpen && !Object.hasOwn(fields, key));
    require(unknown === undefined, () => `${where}: unknown field ${shown(unknown)}`);
    return Object.fromEntries(read) as { [K in keyof F]: Read<F[K]> };
  };
}

export function object(value: unknown, where: string): Record<string, unknown> {
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  require(isObject, () => `${where} must be an object, got ${shown(value)}`);
  return value as Record<string, unknown>;
}

/** The most arrays and objects inside each other. */
const MOST_NESTED = 100;

/** Parses JSON. @throws {ProgramError} The text is not JSON, nests too deeply, or has text that is not Unicode. */
export function parsedJson(content: string, where: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(content);
  } catch (error) {
    throw new ProgramError(`${where} is not JSON: ${messageOf(error)}`);
  }
  let level = [value];
  for (let depth = 0; level.length > 0; depth++) {
    require(depth <= MOST_NESTED, `${where} is nested too deeply`);
    level = level.flatMap((part) => (typeof part === "object" && part !== null ? entriesOf(part) : []));
    require(!level.some(isBroken), `${where} has text that is not Unicode`);
  }
  require(!isBroken(value), `${where} has text that is not Unicode`);
  return value;
}

const entriesOf = (part: object): unknown[] => (Array.isArray(part) ? part : Object.entries(part).flat());

/** Returns whether a value is a text with a half of a surrogate pair. */
const isBroken = (value: unknown): boolean => typeof value === "string" && /\p{Surrogate}/u.test(value);
