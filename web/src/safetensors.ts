/** Safetensors files: a JSON header, then the bytes of named arrays. https://huggingface.co/docs/safetensors */

import { ProgramError } from "./errors.js";
import { elementCount } from "./dtypes.js";
import { list, object, oneOf, parsedJson, record, require, text, whole } from "./schema.js";

const BYTES = {
  F32: 4, I32: 4, U32: 4, F16: 2, BF16: 2, BOOL: 1, U8: 1, F64: 8, I64: 8, U64: 8, I8: 1, I16: 2, U16: 2,
} as const; // prettier-ignore
export type FileDType = keyof typeof BYTES;

/** An array in a file. */
export interface FileTensor {
  readonly dtype: FileDType;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array<ArrayBuffer>;
}

export interface SafetensorsFile {
  readonly metadata: ReadonlyMap<string, string>;
  readonly tensors: ReadonlyMap<string, FileTensor>;
}

const PREFIX = 8;
const MOST_HEADER = 100_000_000;
const METADATA = "__metadata__";

const entryOf = record(
  {
    dtype: oneOf(Object.keys(BYTES) as FileDType[]),
    shape: list(whole),
    data_offsets: list(whole, 2),
  },
  true,
);

/** Parses a file; arrays share its memory. @throws {ProgramError} It is not a valid safetensors file. */
export function readSafetensors(file: Uint8Array<ArrayBuffer>, source: string): SafetensorsFile {
  const header = headerOf(file, source);
  const data = file.subarray(PREFIX + header.size);
  const metadata = new Map<string, string>();
  const tensors = new Map<string, FileTensor>();
  let end = 0;
  const entries: [string, unknown][] = [];
  for (const [key, value] of Object.entries(header.content)) {
    if (key !== METADATA) entries.push([key, value]);
    else for (const [own, one] of Object.entries(object(value, METADATA))) metadata.set(own, text(one, own));
  }
  const read = entries.map(([key, value]) => [key, entryOf(value, `${source}: ${key}`)] as const);
  read.sort(([, a], [, b]) => (a.data_offsets[0] as number) - (b.data_offsets[0] as number));
  for (const [key, { dtype, shape, data_offsets }] of read) {
    const [start, stop] = data_offsets as [number, number];
    const size = elementCount(shape) * BYTES[dtype];
    require(start === end &&
      stop - start === size &&
      stop <= data.length, `${source}: the data_offsets of ${key} are invalid`);
    tensors.set(key, { dtype, shape, bytes: data.subarray(start, stop) });
    end = stop;
  }
  require(end === data.length, `${source}: ${data.length - end} bytes belong to no array`);
  return { metadata, tensors };
}

function headerOf(file: Uint8Array<ArrayBuffer>, source: string): { size: number; content: Record<string, unknown> } {
  require(file.length >= PREFIX, `${source} is not a safetensors file: it has ${file.length} bytes`);
  const length = new DataView(file.buffer, file.byteOffset, PREFIX).getBigUint64(0, true);
  const most = Math.min(MOST_HEADER, file.length - PREFIX);
  require(length <= most, `${source} is not a safetensors file: its header would have ${length} bytes`);
  const size = Number(length);
  let header: string;
  try {
    header = new TextDecoder("utf-8", { fatal: true }).decode(file.subarray(PREFIX, PREFIX + size));
  } catch {
    throw new ProgramError(`${source} is not a safetensors file: its header is not UTF-8`);
  }
  return { size, content: object(parsedJson(header, `the header of ${source}`), `the header of ${source}`) };
}

/** Serializes arrays to a file's bytes. Arrays with wider elements come first, so that all are aligned. */
export function writeSafetensors({ metadata, tensors }: SafetensorsFile): Uint8Array<ArrayBuffer> {
  const ordered = [...tensors].sort(
    ([a, one], [b, other]) => BYTES[other.dtype] - BYTES[one.dtype] || (a < b ? -1 : 1),
  );
  const header: [string, unknown][] = [[METADATA, Object.fromEntries(metadata)]];
  let end = 0;
  for (const [key, { dtype, shape, bytes }] of ordered) {
    header.push([key, { dtype, shape, data_offsets: [end, end + bytes.length] }]);
    end += bytes.length;
  }
  const encoded = new TextEncoder().encode(JSON.stringify(Object.fromEntries(header)));
  const padded = Math.ceil(encoded.length / PREFIX) * PREFIX;
  const file = new Uint8Array(PREFIX + padded + end);
  new DataView(file.buffer).setBigUint64(0, BigInt(padded), true);
  file.fill(0x20, PREFIX, PREFIX + padded);
  file.set(encoded, PREFIX);
  let place = PREFIX + padded;
  for (const [, { bytes }] of ordered) {
    file.set(bytes, place);
    place += bytes.length;
  }
  return file;
}
