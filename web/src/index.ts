/** Trains and runs programs that tensorgrad compiled, in a web page. */

export { readArrays } from "./arrays.js";
export { Device } from "./device.js";
export type { Data, DType, HostTensor, NumberList, Numbers } from "./dtypes.js";
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
export type { Inputs } from "./executable.js";
export { Inference } from "./inference.js";
export { type Reading, type Value, read } from "./outputs.js";
export type { Tree } from "./saved.js";
export type { Source } from "./source.js";
export { download, store, stored } from "./storage.js";
export { type Tensors, Training } from "./training.js";
