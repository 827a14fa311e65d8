/** Dtypes: their representations on the device and on the host, and the conversion of values to them. */

import { InputError } from "./errors.js";

/** Device offsets and sizes are multiples of four bytes. */
export const WORD = 4;

/** The dtypes of programs; browsers don't support those in `ELSEWHERE`. */
export const DTYPES = [
  "f32", "bf16", "f16", "f64", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "bool",
] as const; // prettier-ignore
export type DType = (typeof DTYPES)[number];
type Computed = Exclude<DType, "f64" | "i64" | "u64">;
export const ELSEWHERE: readonly DType[] = ["f64", "i64", "u64"];

/** The typed arrays that hold tensors on the host: f16 and bf16 are read as f32, and a bool is a byte of 0 or 1. */
export type Data = Float32Array | Int8Array | Uint8Array | Int16Array | Uint16Array | Int32Array | Uint32Array;

/** The typed array of each dtype's elements on the device, where bools, bf16 and narrow integers are 32-bit words. */
const STORED = {
  f32: Float32Array,
  bf16: Float32Array,
  f16: Uint16Array,
  f64: Float64Array,
  i8: Int32Array,
  u8: Uint32Array,
  i16: Int32Array,
  u16: Uint32Array,
  i32: Int32Array,
  u32: Uint32Array,
  i64: BigInt64Array,
  u64: BigUint64Array,
  bool: Uint32Array,
} as const;

/** The typed array of integer and bool elements on the host and in files, and of the bits of bf16 in files. */
const HOST = {
  bf16: Uint16Array,
  i8: Int8Array,
  u8: Uint8Array,
  i16: Int16Array,
  u16: Uint16Array,
  i32: Int32Array,
  u32: Uint32Array,
  bool: Uint8Array,
} as const;

/** Returns whether the elements of a dtype are wider on the device than on the host. */
export function isConverted(dtype: DType): dtype is keyof typeof HOST {
  return dtype in HOST && HOST[dtype as keyof typeof HOST].BYTES_PER_ELEMENT < STORED[dtype].BYTES_PER_ELEMENT;
}

/** A tensor's values on the host, in row-major order. */
export interface HostTensor {
  readonly shape: readonly number[];
  readonly dtype: DType;
  readonly data: Data;
}

/** An input: a number or boolean, nested lists of them, a typed array in row-major order, or a tensor. */
export type Numbers = number | boolean | bigint | NumberList | ArrayBufferView | HostTensor;
export type NumberList = readonly (number | boolean | bigint | NumberList)[];

/** The inputs of a call, by name. */
export type Inputs<Names extends string = string> = Readonly<Record<Names, Numbers>>;

/** The shape and dtype of an input. */
export interface InputType {
  readonly shape: readonly number[];
  readonly dtype: DType;
}

/** Bytes of a file. TypeScript calls this type `Uint8Array` before 5.7 and `Uint8Array<ArrayBuffer>` since. */
export type Bytes = ReturnType<Uint8ArrayConstructor["from"]>;

/** Returns the number of elements of a shape. */
export function elementCount(shape: readonly number[]): number {
  return shape.reduce((product, extent) => product * extent, 1);
}

/** Returns a tensor's size in bytes on the device, rounded up to whole words. */
export function deviceBytes(shape: readonly number[], dtype: DType): number {
  return Math.ceil((elementCount(shape) * STORED[dtype].BYTES_PER_ELEMENT) / WORD) * WORD;
}

/** Decodes a tensor from the device bytes `raw`, from byte `offset`; returns a copy. */
export function decode(raw: ArrayBuffer, offset: number, shape: readonly number[], dtype: DType): Data {
  const bytes = raw.slice(offset, offset + elementCount(shape) * STORED[dtype].BYTES_PER_ELEMENT);
  if (dtype === "f16") return Float32Array.from(new Uint16Array(bytes), halfToNumber);
  if (dtype === "bool") return Uint8Array.from(new Uint32Array(bytes), (word) => +(word !== 0));
  const stored = new STORED[dtype](bytes) as Float32Array | Int32Array | Uint32Array;
  return isConverted(dtype) && dtype !== "bf16" ? HOST[dtype].from(stored) : stored;
}

/** Converts the elements of a converted dtype from a file's bytes to device bytes. */
export function widened(bytes: Bytes, dtype: keyof typeof HOST): Bytes {
  const elements = new HOST[dtype](bytes.slice().buffer);
  if (dtype === "bf16") return new Uint8Array(shortsToFloats(elements).buffer as ArrayBuffer);
  const words = dtype === "bool" ? Uint32Array.from(elements, (byte) => +(byte !== 0)) : STORED[dtype].from(elements);
  return new Uint8Array(words.buffer);
}

/** Converts values of a converted dtype to a file's bytes; the inverse of `widened`. */
export function narrowed(values: Data, dtype: keyof typeof HOST): Bytes {
  const bits = dtype === "bf16" ? new Uint32Array(values.buffer, values.byteOffset, values.length) : null;
  return new Uint8Array((bits ? Uint16Array.from(bits, (word) => word >>> 16) : values).buffer as ArrayBuffer);
}

/** Writes a value to the device bytes `raw`, at a byte offset. */
export type Write = (raw: ArrayBuffer, offset: number) => void;

/**
 * Checks a value against a tensor's shape and dtype, and returns a function that writes it.
 *
 * Integers convert if every value fits, and floats round to narrower floats unless that overflows. Arrays of floats
 * don't convert to integers, and only booleans, lists of 0 and 1, and bytes of 0 and 1 convert to bool.
 *
 * @throws {InputError} The value has another shape, or doesn't convert.
 */
export function checked(value: Numbers, shape: readonly number[], dtype: DType, where: string): Write {
  if (ELSEWHERE.includes(dtype)) throw new InputError(`${where} is ${dtype}, which browsers don't support`);
  const flat = flattened(value, shape, where);
  const Stored = STORED[dtype as Computed];
  if (flat instanceof Stored && AS_THEY_ARE.includes(dtype)) {
    return (raw, offset) => new Stored(raw, offset, flat.length).set(flat);
  }
  const numbers = Array.isArray(flat) ? flat : Array.from(flat as unknown as ArrayLike<number | bigint>);
  const isFloat = !Array.isArray(flat) && /^Float\d+Array$/.test(flat.constructor.name);
  if (isFloat && !FLOATS.includes(dtype))
    throw new InputError(`${where} is a ${flat.constructor.name}, which does not convert to ${dtype}`);
  if (dtype === "bool" && !Array.isArray(flat) && !(flat instanceof Uint8Array)) {
    throw new InputError(`${where} is not an array of bools: pass booleans, or bytes of 0 and 1`);
  }
  const words = numbers.map((one) => converted(one, dtype, where));
  return (raw, offset) => new Stored(raw, offset, words.length).set(words);
}

const FLOATS: readonly DType[] = ["f32", "bf16", "f16", "f64"];
/** The dtypes whose elements are the same on the device and in typed arrays of the host. */
const AS_THEY_ARE: readonly DType[] = ["f32", "i32", "u32"];
const LARGEST: Partial<Record<DType, number>> = {
  f32: 3.4028234663852886e38,
  bf16: 3.3895313892515355e38,
  f16: 65504,
};

/** Converts a value to its element on the device. @throws {InputError} It doesn't convert to the dtype. */
function converted(value: number | boolean | bigint, dtype: DType, where: string): number {
  if (dtype === "f32") return float(value, dtype, Math.fround, where);
  if (dtype === "bf16") return float(value, dtype, nearestShort, where);
  if (dtype === "f16") return numberToHalf(float(value, dtype, (one) => halfToNumber(numberToHalf(one)), where));
  if (dtype !== "bool") return integer(value, dtype, where);
  if (typeof value === "boolean" || value === 0 || value === 1) return Number(value);
  throw new InputError(`${where} has ${value}, which is not a bool`);
}

function float(
  value: number | boolean | bigint,
  dtype: DType,
  round: (value: number) => number,
  where: string,
): number {
  const number = Number(value);
  const rounded = round(number);
  if (Number.isFinite(number) && !Number.isFinite(rounded)) {
    throw new InputError(`${where} has values too large for ${dtype}, whose largest is ${LARGEST[dtype]}`);
  }
  return rounded;
}

function integer(value: number | boolean | bigint, dtype: DType, where: string): number {
  const number = Number(value);
  const span = 2 ** Number(dtype.slice(1));
  const [least, most] = dtype[0] === "u" ? [0, span - 1] : [-span / 2, span / 2 - 1];
  if (!Number.isInteger(number)) throw new InputError(`${where} has ${number}, which is not an integer`);
  if (number < least || number > most) throw new InputError(`${where} has ${number}, outside of ${dtype}`);
  return number;
}

/** Returns a value's elements in row-major order. @throws {InputError} It has another shape, or is not numeric. */
function flattened(
  value: Numbers,
  shape: readonly number[],
  where: string,
): NumberArray | (number | boolean | bigint)[] {
  if (typeof value === "number" || typeof value === "boolean" || typeof value === "bigint") {
    checkShape([], shape, where);
    return [value];
  }
  if (ArrayBuffer.isView(value)) return typed(value, shape, where);
  if (Array.isArray(value)) {
    checkShape(shapeOf(value as NumberList, where), shape, where);
    return (value as unknown[]).flat(Infinity) as (number | boolean | bigint)[];
  }
  const tensor = value as HostTensor | null | undefined;
  if (!tensor || !Array.isArray(tensor.shape) || !ArrayBuffer.isView(tensor.data)) {
    throw new InputError(`${where} is ${tensor === null ? "null" : typeof tensor}, which is not an array`);
  }
  checkShape(tensor.shape, shape, where);
  return typed(tensor.data, shape, where);
}

type NumberArray = Exclude<ArrayBufferView, DataView>;

function typed(value: ArrayBufferView, shape: readonly number[], where: string): NumberArray {
  if (value instanceof DataView) throw new InputError(`${where} is a DataView, which has no dtype`);
  const { length } = value as unknown as { length: number };
  if (length !== elementCount(shape)) {
    throw new InputError(`${where} has ${length} elements, expected ${elementCount(shape)} in shape [${shape}]`);
  }
  return value as NumberArray;
}

function checkShape(found: readonly number[], shape: readonly number[], where: string): void {
  if (found.length !== shape.length || found.some((extent, axis) => extent !== shape[axis])) {
    throw new InputError(`${where} has shape [${found}], expected [${shape}]`);
  }
}

function shapeOf(value: NumberList, where: string): number[] {
  const [first] = value;
  if (!Array.isArray(first)) {
    const kinds = Array.from(value, (one) => typeof one); // unlike `map`, this visits holes too
    const odd = kinds.find((kind) => !["number", "boolean", "bigint"].includes(kind));
    if (odd !== undefined) throw new InputError(`${where} has ${odd} among its numbers`);
    return [value.length];
  }
  const inner = shapeOf(first as NumberList, where);
  for (const part of Array.from(value)) {
    const own = Array.isArray(part) ? shapeOf(part as NumberList, where) : undefined;
    if (!own || own.join() !== inner.join()) throw new InputError(`${where} has rows of different shapes`);
  }
  return [value.length, ...inner];
}

const scratch = new DataView(new ArrayBuffer(8));

/** Returns the numbers whose upper 16 bits are bf16. */
export function shortsToFloats(shorts: Iterable<number>): Float32Array {
  return new Float32Array(Uint32Array.from(shorts, (bits) => bits << 16).buffer);
}

/** Returns the bf16 nearest to an f32, ties to even; an f64 is rounded to f32 first, as NumPy does. */
function nearestShort(value: number): number {
  if (Number.isNaN(value)) return NaN;
  scratch.setFloat32(0, value);
  const bits = scratch.getUint32(0);
  scratch.setUint32(0, (bits + 0x7fff + ((bits >>> 16) & 1)) & 0xffff0000);
  return scratch.getFloat32(0);
}

/** Decodes the 16 bits of an IEEE 754 binary16 number. */
export function halfToNumber(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0x1f) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24);
}

/** Encodes a number as the 16 bits of the nearest binary16 number, ties to even. */
export function numberToHalf(value: number): number {
  scratch.setFloat32(0, value);
  const sign = (scratch.getUint32(0) >>> 16) & 0x8000;
  const magnitude = Math.abs(value);
  if (Number.isNaN(value)) return 0x7e00;
  if (magnitude >= 65520) return sign | 0x7c00;
  const exponent = magnitude < 2 ** -14 ? -14 : Math.floor(Math.log2(magnitude));
  const steps = roundedToEven(magnitude / 2 ** (exponent - 10));
  // A fraction that rounds up to 2048 steps carries into the exponent through the addition.
  return sign | (steps < 1024 ? steps : ((exponent + 15) << 10) + steps - 1024);
}

function roundedToEven(value: number): number {
  const down = Math.floor(value);
  const rest = value - down;
  return rest > 0.5 || (rest === 0.5 && down % 2 === 1) ? down + 1 : down;
}
