/** Where a file comes from. */

import { ProgramError } from "./errors.js";

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
  const response = source instanceof Response ? source : await fetched(source);
  const name = response.url.split("/").pop() || "the file";
  if (!response.ok) throw new ProgramError(`${name} can't be loaded: ${response.status} ${response.statusText}`);
  return [new Uint8Array(await response.arrayBuffer()), name];
}

async function fetched(address: string | URL): Promise<Response> {
  try {
    return await fetch(address);
  } catch (error) {
    throw new ProgramError(`${address} can't be loaded: ${(error as Error).message}`);
  }
}
