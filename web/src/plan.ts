/** The parts of a program, named as in files: kernels, buffers, named tensors, and the steps of its plan. */

import { DTYPES, deviceBytes } from "./dtypes.js";
import {
  anything,
  list,
  name,
  nullable,
  object,
  oneOf,
  optional,
  positive,
  type Read,
  type Reader,
  record,
  require,
  text,
  whole,
} from "./schema.js";

export const BUFFER_ROLES = ["parameter", "state", "input", "output", "constant", "workspace"] as const;
export const TENSOR_ROLES = ["parameter", "state", "input", "scalar", "output"] as const;
export const PERSISTENT_ROLES: readonly string[] = ["parameter", "state"];
const ACCESSES = ["read", "read_write"] as const;

/** One compute shader. */
export const kernel = record({
  language: oneOf(["wgsl", "llvm"]),
  entry: name,
  code: text,
  workgroup_size: list(positive, 3),
  workgroup_storage: whole,
});
export type Kernel = Read<typeof kernel>;

/** One device allocation of `size` bytes; all but constants are initialized to zeros. */
export const buffer = record({ name, size: positive, role: oneOf(BUFFER_ROLES), data: anything });
export type Buffer = Read<typeof buffer>;

/** Reads a shape, with no more axes than NumPy's arrays have. */
const axes: Reader<readonly number[]> = (value, where) => {
  const shape = list(whole)(value, where);
  require(shape.length <= 64, `${where} has ${shape.length} axes, at most 64`);
  return shape;
};

/** The location of a named tensor: row-major, in the buffer of index `buffer`, from byte `offset`. */
export const tensorSlot = record({
  name,
  role: oneOf(TENSOR_ROLES),
  shape: axes,
  dtype: oneOf(DTYPES),
  buffer: whole,
  offset: whole,
  formula: nullable(text),
  stored: anything,
});
export type TensorSlot = Read<typeof tensorSlot>;

/** A range of a buffer that is bound to a kernel; if it moves, `strides` has its byte stride in each enclosing loop. */
const binding = record({
  buffer: whole,
  offset: whole,
  size: positive,
  access: oneOf(ACCESSES),
  strides: optional(list(whole), []),
});
export type Binding = Read<typeof binding>;

const dispatch = record({
  op: oneOf(["dispatch"]),
  kernel: whole,
  bindings: list(binding),
  workgroups: list(positive, 3),
  label: text,
  indirect: nullable(list(whole, 2)),
});
/** One run of a kernel; with `indirect`, a buffer and an offset, the number of workgroups is read there. */
export type Dispatch = Read<typeof dispatch>;

const copy = record({
  op: oneOf(["copy"]),
  source: whole,
  source_offset: whole,
  destination: whole,
  destination_offset: whole,
  size: positive,
});
/** A copy of bytes from one buffer to another. */
export type Copy = Read<typeof copy>;

/** Runs its steps `count` times. */
export interface Repeat {
  readonly op: "repeat";
  readonly count: number;
  readonly steps: readonly Step[];
}
export type Step = Dispatch | Copy | Repeat;

const repeat: Reader<Repeat> = (value, where) =>
  record({ op: oneOf(["repeat"]), count: positive, steps: list(step) })(value, where);
const STEPS = { dispatch, copy, repeat };

export const step: Reader<Step> = (value, where) => {
  const kind = oneOf(Object.keys(STEPS) as (keyof typeof STEPS)[])(object(value, where)["op"], `${where}.op`);
  return STEPS[kind](value, where);
};

/** Returns a tensor's size in bytes on the device. */
export function slotBytes(slot: TensorSlot): number {
  return deviceBytes(slot.shape, slot.dtype);
}

/** Yields each dispatch and copy of a plan once, with the iteration counts of its enclosing loops, outermost first. */
export function* runs(
  steps: readonly Step[],
  counts: readonly number[] = [],
): Generator<[Dispatch | Copy, readonly number[]]> {
  for (const one of steps) {
    if (one.op === "repeat") yield* runs(one.steps, [...counts, one.count]);
    else yield [one, counts];
  }
}

/** Returns all dispatches of a plan, each once. */
export function dispatches(steps: readonly Step[]): Dispatch[] {
  return [...runs(steps)].map(([one]) => one).filter((one) => one.op === "dispatch");
}
