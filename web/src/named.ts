/** Checks what callers pass by name: inputs, parameters, settings and options. */

import { InputError } from "./errors.js";

/** The values that an option may have, in words, and a function that accepts them. */
export type Rule = readonly [expected: string, accepts: (value: unknown) => boolean];
/** The options that there are, each with its rule. */
export type Rules = Readonly<Record<string, Rule>>;

/** The most names in a message. */
const MOST_LISTED = 10;

/** Returns the kind of a value, such as Object, Array or Promise; that of objects from other windows too. */
export function kindOf(value: unknown): string {
  return Object.prototype.toString.call(value).slice(8, -1);
}

/** Returns what a value is, for messages. */
function shown(value: unknown): string {
  if (kindOf(value) === "Promise") return "a Promise: await it";
  if (typeof value === "string") return `'${value}'`;
  return typeof value === "object" && value !== null ? kindOf(value) : String(value);
}

function listed(names: readonly string[]): string {
  const first = names.slice(0, MOST_LISTED).join(", ");
  return names.length > MOST_LISTED ? `${first} and ${names.length - MOST_LISTED} more` : first;
}

/** Checks that values are given by name. @throws {InputError} They are not. */
export function checkNamed(values: unknown, what: string): asserts values is Readonly<Record<string, unknown>> {
  if (kindOf(values) !== "Object")
    throw new InputError(`${what} must be an object of values by name, got ${shown(values)}`);
}

/** Checks the names of values. @throws {InputError} Names are unknown or missing; lists them. */
export function checkNames(
  what: string,
  values: unknown,
  required: readonly string[],
  optional: readonly string[] = [],
): void {
  checkNamed(values, `${what}s`);
  const unknown = Object.keys(values).filter((name) => !required.includes(name) && !optional.includes(name));
  const missing = required.filter((name) => !Object.hasOwn(values, name));
  if (!unknown.length && !missing.length) return;
  const parts = Object.entries({ unknown, missing }).filter(([, names]) => names.length);
  const found = parts.map(([kind, names]) => `${kind} ${what}${names.length > 1 ? "s" : ""} ${listed(names)}`);
  throw new InputError(`${found.join("; ")} (expected: ${listed(required) || "none"})`);
}

/**
 * Returns the options of a call.
 *
 * @throws {InputError} One is unknown, or has a value that its rule refuses; `undefined` is as none.
 */
export function optionsOf<T extends object>(call: string, options: T | undefined, rules: Rules): T {
  const given = options ?? ({} as T);
  checkNamed(given, `${call}: options`);
  for (const [name, value] of Object.entries(given)) {
    if (!Object.hasOwn(rules, name))
      throw new InputError(`${call}: no option '${name}'; ${meant(name, Object.keys(rules))}`);
    const [expected, accepts] = rules[name] as Rule;
    if (value !== undefined && !accepts(value))
      throw new InputError(`${call}: ${name} must be ${expected}, got ${shown(value)}`);
  }
  return given;
}

/** Returns a hint at the name that was meant, which differs in a third of its letters at most, or at all names. */
function meant(name: string, names: readonly string[]): string {
  const plain = (text: string): string => text.replaceAll("_", "").toLowerCase(); // as in Python, and as in typos
  const edits = names.map((one) => distance(plain(name), plain(one)) / one.length);
  const least = Math.min(...edits);
  return least <= 1 / 3 ? `the nearest is '${names[edits.indexOf(least)]}'` : `the options are ${listed(names)}`;
}

/** Returns how many letters have to be inserted, deleted or replaced to make one text another. */
function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, place) => place);
  [...one].forEach((letter, index) => {
    const next = [index + 1];
    for (let place = 0; place < other.length; place++) {
      const replaced = (row[place] as number) + +(letter !== other[place]);
      next.push(Math.min(replaced, (row[place + 1] as number) + 1, (next[place] as number) + 1));
    }
    row = next;
  });
  return row.at(-1) as number;
}
