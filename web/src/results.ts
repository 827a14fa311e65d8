/** The results of a program: a tree of values, which are read on request. */

import { type Data, type DType, type HostTensor, elementCount } from "./dtypes.js";
import { checkNamed } from "./named.js";
import { list, object, require } from "./schema.js";

/** The results of a program: a leaf, `null`, or nested arrays and objects of them. */
export type Tree<T> = T | null | Tree<T>[] | { [name: string]: Tree<T> };

/** A value that was read: a number if it has no axes. */
export type Reading = number | HostTensor;

/** What `read` returns for results of a type: each value in them becomes its reading. */
export type Readings<T> = [Tree<Value>] extends [T] ? Tree<Reading> : ReadingsOf<T>;
type ReadingsOf<T> = T extends Value<infer R> ? R : T extends null ? null : { [K in keyof T]: Readings<T[K]> };

/**
 * An output of a step: a number or an array. It is read on request, and later steps don't change it.
 *
 * `Value<number>` has no axes, and `Value<HostTensor>` has some.
 */
export class Value<R extends Reading = Reading> {
  readonly shape: readonly number[];
  readonly dtype: DType;
  #read: () => Promise<Data>;
  #data: Data | undefined;

  constructor(slot: { readonly shape: readonly number[]; readonly dtype: DType }, read: () => Promise<Data>) {
    this.shape = slot.shape;
    this.dtype = slot.dtype;
    this.#read = read;
  }

  /**
   * Returns the elements in row-major order, once the step has run.
   *
   * @throws {DeviceError} The device reported an error.
   */
  async read(): Promise<Data> {
    this.#data ??= await this.#read();
    this.#read = gone; // releases the page
    return this.#data;
  }

  /**
   * Returns the only element.
   *
   * @throws {RangeError} There isn't exactly one.
   * @throws {DeviceError} The device reported an error.
   */
  async item(): Promise<number> {
    if (elementCount(this.shape) !== 1) throw new RangeError(`an array of shape [${this.shape}] is not a number`);
    return (await this.read())[0] as number;
  }

  /**
   * Returns a number if there are no axes, and otherwise the elements with their shape and dtype.
   *
   * @throws {DeviceError} The device reported an error.
   */
  async reading(): Promise<R> {
    const data = await this.read();
    const { shape, dtype } = this;
    return (shape.length ? { shape, dtype, data } : data[0]) as R;
  }
}

function gone(): Promise<Data> {
  throw new Error("a value was read from its page twice");
}

/**
 * Reads all values of results: scalars become numbers, and arrays objects with shape, dtype and data.
 *
 * @throws {InputError} They are no tree of results, such as a promise of them.
 * @throws {DeviceError} The device reported an error.
 */
export async function read<T extends Tree<Value>>(results: T): Promise<Readings<T>> {
  return (await readTree(results)) as Readings<T>;
}

async function readTree(results: Tree<Value>): Promise<Tree<Reading>> {
  if (results === null) return null;
  if (results instanceof Value) return results.reading();
  if (Array.isArray(results)) return Promise.all(results.map(readTree));
  checkNamed(results, "results");
  const entries = Object.entries(results).map(async ([name, part]) => [name, await readTree(part)] as const);
  return Object.fromEntries(await Promise.all(entries));
}

/** Returns a tree of results with each output's name replaced by its leaf. @throws {ProgramError} It is malformed. */
export function fill<T>(tree: unknown, leaf: (name: string) => T): Tree<T> {
  if (tree === null) return null;
  if (typeof tree === "string") return leaf(tree);
  const entries = Object.entries(object(tree, "results"));
  require(entries.length === 1, `results must be a tree, got a node of ${entries.length} kinds`);
  const [kind, parts] = entries[0] as [string, unknown];
  if (kind === "dict") {
    const filled = Object.entries(object(parts, "results")).map(([name, part]) => [name, fill(part, leaf)]);
    return Object.fromEntries(filled) as { [name: string]: Tree<T> };
  }
  require(kind === "list" || kind === "tuple", `results have no nodes of kind '${kind}'`);
  return list((part) => fill(part, leaf))(parts, "results") as Tree<T>[];
}
