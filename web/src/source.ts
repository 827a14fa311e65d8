/** Loads files from URLs, and from bytes in memory. */

import { type Bytes } from "./dtypes.js";
import { ProgramError, messageOf } from "./errors.js";
import { type Rules, kindOf } from "./named.js";

/** A file: its URL, or an object with its bytes. */
export type Source = string | URL | Blob | Response | ArrayBuffer | Bytes;

/** How much of a file has been loaded. */
export interface Progress {
  /** The last part of the file's URL, without a query. */
  readonly file: string;
  /** The number of bytes that have arrived. */
  readonly loaded: number;
  /** The file's size in bytes, or `null` if the server doesn't tell it: it needn't for a compressed response. */
  readonly total: number | null;
}

/** How a file is loaded from a URL or a response. */
export interface FetchOptions {
  /** Is called before the first byte, and after each part of the file that arrives. */
  readonly onProgress?: ((progress: Progress) => void) | undefined;
  /** Cancels loading: the call rejects with the signal's reason, and frees what it has created. */
  readonly signal?: AbortSignal | undefined;
}

/** The rules of `FetchOptions`. */
export const FETCHING: Rules = {
  onProgress: ["a function", (value) => typeof value === "function"],
  signal: ["an AbortSignal", (value) => kindOf(value) === "AbortSignal"],
};

/**
 * Returns the bytes of a file, and its name in error messages.
 *
 * @throws {ProgramError} It can't be loaded.
 * @throws {DOMException} The signal canceled it.
 */
export async function bytesOf(source: Source, options: FetchOptions = {}): Promise<[Bytes, string]> {
  const { signal } = options;
  signal?.throwIfAborted();
  if (source instanceof Uint8Array) return [source, "the file"];
  if (source instanceof ArrayBuffer) return [new Uint8Array(source), "the file"];
  if (source instanceof Blob)
    return [new Uint8Array(await source.arrayBuffer()), source instanceof File ? source.name : "the file"];
  if (!(source instanceof Response || source instanceof URL || typeof source === "string")) {
    throw new ProgramError(`source must be a URL, a Blob, a Response or bytes, got ${source}`);
  }
  const where = source instanceof Response ? source.url : String(source);
  const name = where.split(/[?#]/, 1)[0]?.split("/").pop() || "the file";
  try {
    const response = source instanceof Response ? source : await fetch(source, { signal: signal ?? null });
    if (!response.ok) throw new Error(`${response.status} ${response.statusText}`);
    return [await contentOf(response, name, options), name];
  } catch (error) {
    signal?.throwIfAborted();
    throw new ProgramError(`${name} can't be loaded: ${messageOf(error)}`);
  }
}

/** Returns a response's content, and reports its progress. */
async function contentOf(response: Response, file: string, { onProgress, signal }: FetchOptions): Promise<Bytes> {
  const { body, headers } = response;
  if (!body) return new Uint8Array(await response.arrayBuffer());
  const isPlain = ["", "identity"].includes(headers.get("content-encoding") ?? "");
  const total = isPlain ? Number(headers.get("content-length")) || null : null; // else it is the compressed size
  const parts: Bytes[] = [];
  let loaded = 0;
  onProgress?.({ file, loaded, total });
  const reader = body.getReader();
  for (let { done, value } = await reader.read(); !done && value; { done, value } = await reader.read()) {
    if (signal?.aborted) await reader.cancel(); // a response that was passed has a signal of its own, or none
    signal?.throwIfAborted();
    parts.push(value);
    loaded += value.length;
    onProgress?.({ file, loaded, total });
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}
