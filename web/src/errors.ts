/** Exceptions, under the names that they have in Python; every one derives from `TensorgradError`. */

/** The base of every exception of this module. */
export class TensorgradError extends Error {
  override name = "TensorgradError";
}

/** A program that is malformed, or of another format version. */
export class ProgramError extends TensorgradError {
  override name = "ProgramError";
}

/** A host formula that is not arithmetic, or has no value. */
export class FormulaError extends TensorgradError {
  override name = "FormulaError";
}

/** An unknown or missing input, or one of the wrong shape or dtype; names it. */
export class InputError extends TensorgradError {
  override name = "InputError";
}

/** A program that this device can't run; says which limit or feature is missing. */
export class TargetError extends TensorgradError {
  override name = "TargetError";
}

/** What a device reports: validation, out of memory, lost. */
export class DeviceError extends TensorgradError {
  override name = "DeviceError";
}

/** A device that is gone with all that it held. */
export class DeviceLostError extends DeviceError {
  override name = "DeviceLostError";
}

/** There is no WebGPU here. */
export class NoAdapterError extends DeviceError {
  override name = "NoAdapterError";
}

/** Returns the message of whatever was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
