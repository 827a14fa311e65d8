/** Parameters that files store in fewer bits than programs use: as f16, or as int8 with a scale for each channel. */

import { elementCount, halfToNumber } from "./dtypes.js";
import { type FileTensor } from "./safetensors.js";
import { require } from "./schema.js";

/**
 * Returns the f32 parameter that a file stores, or `stored` itself if it is stored as it is.
 *
 * @param scale Its scales, whose shape broadcasts to the parameter's.
 * @throws {ProgramError} The scales don't fit.
 */
export function unpacked(stored: FileTensor, scale: FileTensor | undefined, where: string): FileTensor {
  const { dtype, shape, bytes } = stored;
  if (!scale) return dtype === "F16" ? floats(shape, Float32Array.from(wordsOf(bytes), halfToNumber)) : stored;
  const channels = scale.shape.filter((extent) => extent !== 1);
  const fits =
    scale.shape.length === shape.length && scale.shape.every((own, axis) => own === 1 || own === shape[axis]);
  require(dtype === "I8" &&
    scale.dtype === "F32" &&
    fits &&
    channels.length <= 1, `${where}: scales are F32 of one axis of I8 values`);
  const scales = new Float32Array(scale.bytes.slice().buffer);
  const axis = scale.shape.findIndex((extent) => extent !== 1);
  const stride = axis < 0 ? 1 : elementCount(shape.slice(axis + 1));
  const scaled = (value: number, index: number) =>
    value * (scales[Math.floor(index / stride) % scales.length] as number);
  return floats(shape, Float32Array.from(new Int8Array(bytes.buffer, bytes.byteOffset, bytes.length), scaled));
}

const wordsOf = (bytes: Uint8Array<ArrayBuffer>): Uint16Array => new Uint16Array(bytes.slice().buffer);

function floats(shape: readonly number[], values: Float32Array<ArrayBuffer>): FileTensor {
  return { dtype: "F32", shape, bytes: new Uint8Array(values.buffer) };
}
