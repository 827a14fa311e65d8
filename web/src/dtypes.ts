/** Element types: what they take on the device, what they are on the host, and how values convert to them. */

import { InputError } from "./errors.js";

/** Offsets and sizes on a device are multiples of four bytes. */
export const WORD = 4;

export const DTYPES = ["f32", "i32", "u32", "bool", "f16", "f64"] as const;
export type DType = (typeof DTYPES)[number];

/** Bytes of an element on the device, where a bool is one 32-bit word. */
export const ELEMENT_BYTES: Record<DType, number> = { f32: 4, i32: 4, u32: 4, bool: 4, f16: 2, f64: 8 };

/** Typed arrays of what tensors hold: f16 is read as f32, and a bool is a byte of 0 or 1. */
export type Data = Float32Array | Int32Array | Uint32Array | Uint8Array;

/** A tensor's values on the host, row-major. */
export interface HostTensor {
  readonly shape: readonly number[];
  readonly dtype: DType;
  readonly data: Data;
}

/** What an input may be: a number, nested lists of numbers or booleans, a typed array in row-major order, or a tensor. */
export type Numbers = number | boolean | bigint | NumberList | ArrayBufferView | HostTensor;
export type NumberList = readonly (number | boolean | bigint | NumberList)[];

/** Returns how many elements a shape has. */
export function elementCount(shape: readonly number[]): number {
  return shape.reduce((product, extent) => product * extent, 1);
}

/** Returns a tensor's bytes on the device, rounded up to whole words. */
export function deviceBytes(shape: readonly number[], dtype: DType): number {
  return Math.ceil((elementCount(shape) * ELEMENT_BYTES[dtype]) / WORD) * WORD;
}

/** Returns the values of a tensor in the device's bytes `raw`, from `offset`; a copy. */
export function decode(raw: ArrayBuffer, offset: number, shape: readonly number[], dtype: DType): Data {
  const count = elementCount(shape);
  const end = offset + count * ELEMENT_BYTES[dtype];
  const bytes = raw.slice(offset, end);
  if (dtype === "f32") return new Float32Array(bytes);
  if (dtype === "i32") return new Int32Array(bytes);
  if (dtype === "u32") return new Uint32Array(bytes);
  if (dtype === "bool") return Uint8Array.from(new Uint32Array(bytes), (word) => +(word !== 0));
  return Float32Array.from(new Uint16Array(bytes), halfToNumber);
}

/** Writes a value to the device's bytes `raw`, at an offset. */
export type Write = (raw: ArrayBuffer, offset: number) => void;

/**
 * Checks a value against a tensor's shape and dtype, and returns what writes it.
 *
 * Integers convert where every value fits, floats round to narrower floats unless that overflows; an array of floats is
 * none of integers, and only booleans, lists of 0 and 1, and bytes of these are bools.
 *
 * @throws {InputError} The value has another shape, or doesn't convert.
 */
export function checked(value: Numbers, shape: readonly number[], dtype: DType, where: string): Write {
  const flat = flattened(value, shape, where);
  const Stored = STORED[dtype];
  if (flat instanceof Stored && AS_THEY_ARE.includes(dtype)) {
    return (raw, offset) => new Stored(raw, offset, flat.length).set(flat);
  }
  const numbers = Array.isArray(flat) ? flat : Array.from(flat as unknown as ArrayLike<number | bigint>);
  const convert = CONVERSIONS[dtype];
  if (!convert) throw new InputError(`${where} is ${dtype}, which no page computes in`);
  const isFloat = !Array.isArray(flat) && /^Float\d+Array$/.test(flat.constructor.name);
  if (isFloat && !FLOATS.includes(dtype))
    throw new InputError(`${where} is of floats, which don't convert to ${dtype}`);
  if (dtype === "bool" && !Array.isArray(flat) && !(flat instanceof Uint8Array)) {
    throw new InputError(`${where} is no array of bools: give booleans, or bytes of 0 and 1`);
  }
  const words = numbers.map((one) => convert(one, where));
  return (raw, offset) => new Stored(raw, offset, words.length).set(words);
}

const FLOATS: readonly DType[] = ["f32", "f16", "f64"];
/** The dtypes whose typed arrays hold what the device does. */
const AS_THEY_ARE: readonly DType[] = ["f32", "i32", "u32"];
const STORED = {
  f32: Float32Array,
  i32: Int32Array,
  u32: Uint32Array,
  bool: Uint32Array,
  f16: Uint16Array,
  f64: Float64Array,
} as const;
const LARGEST: Partial<Record<DType, number>> = { f32: 3.4028234663852886e38, f16: 65504 };
const RANGES: Partial<Record<DType, readonly [number, number]>> = {
  i32: [-(2 ** 31), 2 ** 31 - 1],
  u32: [0, 2 ** 32 - 1],
};

type Conversion = (value: number | boolean | bigint, where: string) => number;

const CONVERSIONS: Partial<Record<DType, Conversion>> = {
  f32: (value, where) => float(value, "f32", Math.fround, where),
  f16: (value, where) => numberToHalf(float(value, "f16", (one) => halfToNumber(numberToHalf(one)), where)),
  i32: (value, where) => integer(value, "i32", where),
  u32: (value, where) => integer(value, "u32", where),
  bool: (value, where) => {
    if (typeof value === "boolean" || value === 0 || value === 1) return Number(value);
    throw new InputError(`${where} has ${value}, which is no bool`);
  },
};

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
  const [least, most] = RANGES[dtype] as readonly [number, number];
  if (!Number.isInteger(number)) throw new InputError(`${where} has ${number}, which is no integer`);
  if (number < least || number > most) throw new InputError(`${where} has ${number}, outside of ${dtype}`);
  return number;
}

/** Returns a value's elements in row-major order. @throws {InputError} Its shape differs. */
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
    throw new InputError(`${where} is ${tensor === null ? "null" : typeof tensor}, which is no array of numbers`);
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
    const kinds = Array.from(value, (one) => typeof one); // of holes, too
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

/** Returns the number that the 16 bits of an IEEE 754 binary16 say. */
export function halfToNumber(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0x1f) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24);
}

/** Returns the 16 bits of the binary16 that is nearest to a number, ties to even. */
export function numberToHalf(value: number): number {
  scratch.setFloat32(0, value);
  const sign = (scratch.getUint32(0) >>> 16) & 0x8000;
  const magnitude = Math.abs(value);
  if (Number.isNaN(value)) return 0x7e00;
  if (magnitude >= 65520) return sign | 0x7c00;
  const exponent = magnitude < 2 ** -14 ? -14 : Math.floor(Math.log2(magnitude));
  const steps = roundedToEven(magnitude / 2 ** (exponent - 10));
  // A fraction that rounds up to 2048 steps carries into the exponent by itself.
  return sign | (steps < 1024 ? steps : ((exponent + 15) << 10) + steps - 1024);
}

function roundedToEven(value: number): number {
  const down = Math.floor(value);
  const rest = value - down;
  return rest > 0.5 || (rest === 0.5 && down % 2 === 1) ? down + 1 : down;
}
