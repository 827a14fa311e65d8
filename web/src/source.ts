/** Where a file comes from. */

import { ProgramError, messageOf } from "./errors.js";

/** An address, or what holds the file's bytes. */
export type Source = string | URL | Blob | Response | ArrayBuffer | Uint8Array<ArrayBuffer>;

/**
 * Returns the bytes of a file, and what messages call it.
 *
 * @throws {ProgramError} There is no such file.
 */
export async function bytesOf(source: Source): Promise<[Uint8Array<ArrayBuffer>, string]> {
  if (source instanceof Uint8Array) return [source, "the file"];
  if (source instanceof ArrayBuffer) return [new Uint8Array(source), "the file"];
  if (source instanceof Blob)
    return [new Uint8Array(await source.arrayBuffer()), source instanceof File ? source.name : "the file"];
  if (!(source instanceof Response || source instanceof URL || typeof source === "string")) {
    throw new ProgramError(`there is no file to load: got ${source}`);
  }
  const where = source instanceof Response ? source.url : String(source);
  const name = where.split("/").pop() || "the file";
  try {
    const response = source instanceof Response ? source : await fetch(source);
    if (!response.ok) throw new Error(`${response.status} ${response.statusText}`);
    return [new Uint8Array(await response.arrayBuffer()), name];
  } catch (error) {
    throw new ProgramError(`${name} can't be loaded: ${messageOf(error)}`);
  }
}
