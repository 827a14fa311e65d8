/** Reads the named arrays of a file, such as a page's data. */

import { type Data, type DType, type HostTensor, halfToNumber, shortsToFloats } from "./dtypes.js";
import { optionsOf } from "./named.js";
import { type FileDType, type FileTensor, readSafetensors } from "./safetensors.js";
import { require } from "./schema.js";
import { FETCHING, type FetchOptions, type Source, bytesOf } from "./source.js";

const READ: Partial<Record<FileDType, [DType, (raw: ArrayBuffer) => Data]>> = {
  F32: ["f32", (raw) => new Float32Array(raw)],
  I8: ["i8", (raw) => new Int8Array(raw)],
  U8: ["u8", (raw) => new Uint8Array(raw)],
  I16: ["i16", (raw) => new Int16Array(raw)],
  U16: ["u16", (raw) => new Uint16Array(raw)],
  I32: ["i32", (raw) => new Int32Array(raw)],
  U32: ["u32", (raw) => new Uint32Array(raw)],
  BOOL: ["bool", (raw) => new Uint8Array(raw)],
  BF16: ["bf16", (raw) => shortsToFloats(new Uint16Array(raw))],
  F16: ["f16", (raw) => Float32Array.from(new Uint16Array(raw), halfToNumber)],
};

/**
 * Returns the arrays of a safetensors file by name; they can be passed as inputs.
 *
 * @param source The file's URL or bytes.
 * @param options A callback for the progress of loading, and a signal that cancels it.
 * @throws {InputError} An option is unknown, or has a value that it can't have.
 * @throws {ProgramError} The file can't be loaded, is not a safetensors file, or has 64-bit arrays.
 */
export async function readArrays<Names extends string = string>(
  source: Source,
  options?: FetchOptions,
): Promise<Record<Names, HostTensor>> {
  const [bytes, name] = await bytesOf(source, optionsOf("readArrays", options, FETCHING));
  const { tensors } = readSafetensors(bytes, name);
  const arrays = [...tensors].map(([key, tensor]) => [key, arrayOf(tensor, `${name}: ${key}`)]);
  return Object.fromEntries(arrays) as Record<Names, HostTensor>;
}

function arrayOf({ dtype, shape, bytes }: FileTensor, where: string): HostTensor {
  const found = READ[dtype];
  require(found !== undefined, `${where} has dtype ${dtype}, which inputs don't support`);
  const [own, read] = found;
  return { shape, dtype: own, data: read(bytes.slice().buffer) };
}
