/** Exceptions, named as in Python; all derive from `TensorgradError`. */

/** The base class of all exceptions of this module. */
export class TensorgradError extends Error {
  override name = "TensorgradError";
}

/** A malformed program, or one of another format version. */
export class ProgramError extends TensorgradError {
  override name = "ProgramError";
}

/** A host formula with syntax that is not allowed, or without a value. */
export class FormulaError extends TensorgradError {
  override name = "FormulaError";
}

/** An unknown or missing input, or one of the wrong shape or dtype; names the input. */
export class InputError extends TensorgradError {
  override name = "InputError";
}

/** A program that the device can't run; names the limit or feature. */
export class TargetError extends TensorgradError {
  override name = "TargetError";
}

/** A device error: failed validation, out of memory, or device loss. */
export class DeviceError extends TensorgradError {
  override name = "DeviceError";
}

/** A device was lost with everything on it. */
export class DeviceLostError extends DeviceError {
  override name = "DeviceLostError";
}

/** WebGPU is not available, or no adapter was found. */
export class NoAdapterError extends DeviceError {
  override name = "NoAdapterError";
}

/** Returns the message of a thrown value, which need not be an `Error`. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
