/** Runs functions that tensorgrad compiled, in a web page: everything but training. */

export { readArrays } from "./arrays.js";
export { type AdapterOptions, Device, type LoadOptions } from "./device.js";
export type { Bytes, Data, DType, HostTensor, InputType, Inputs, NumberList, Numbers } from "./dtypes.js";
export {
  DeviceError,
  DeviceLostError,
  FormulaError,
  InputError,
  NoAdapterError,
  ProgramError,
  TargetError,
  TensorgradError,
} from "./errors.js";
export { Inference } from "./inference.js";
export { type Reading, type Readings, type Tree, type Value, read } from "./results.js";
export type { FetchOptions, Progress, Source } from "./source.js";
