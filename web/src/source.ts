/** Loads files from URLs, and from bytes in memory. */

import { ProgramError, messageOf } from "./errors.js";

/** A file: its URL, or an object with its bytes. */
export type Source = string | URL | Blob | Response | ArrayBuffer | Uint8Array<ArrayBuffer>;

/**
 * Returns the bytes of a file, and its name in error messages.
 *
 * @throws {ProgramError} It can't be loaded.
 */
export async function bytesOf(source: Source): Promise<[Uint8Array<ArrayBuffer>, string]> {
  if (source instanceof Uint8Array) return [source, "the file"];
  if (source instanceof ArrayBuffer) return [new Uint8Array(source), "the file"];
  if (source instanceof Blob)
    return [new Uint8Array(await source.arrayBuffer()), source instanceof File ? source.name : "the file"];
  if (!(source instanceof Response || source instanceof URL || typeof source === "string")) {
    throw new ProgramError(`source must be a URL, a Blob, a Response or bytes, got ${source}`);
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
