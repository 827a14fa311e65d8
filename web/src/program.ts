/** A compiled program as data, and the validation of all its indices, ranges, alignments, accesses and names. */

import { ELSEWHERE, WORD } from "./dtypes.js";
import { ProgramError } from "./errors.js";
import {
  type Binding,
  type Buffer,
  type Copy,
  type Dispatch,
  type Kernel,
  PERSISTENT_ROLES,
  type Step,
  type TensorSlot,
  buffer,
  kernel,
  runs,
  slotBytes,
  step,
  tensorSlot,
} from "./plan.js";
import { type FileTensor } from "./safetensors.js";
import {
  anything,
  list,
  name,
  nullable,
  object,
  parsedJson,
  positive,
  type Read,
  record,
  require,
  whole,
} from "./schema.js";
import { checkShader } from "./shaders.js";

/** The version of the format that this module reads. */
export const FORMAT_VERSION = 2;
/** The most dispatches and copies in a step, as each is encoded anew in every step. */
const MOST_COMMANDS = 1 << 22;
const MOST_LOOPS = 32;
/** The role of the buffer that holds tensors of each role. */
const TENSOR_BUFFERS = { parameter: "parameter", state: "state", input: "input", scalar: "input", output: "output" };

const content = record({
  name,
  kernels: list(kernel),
  buffers: list(buffer),
  tensors: list(tensorSlot),
  plan: list(step),
  statistics: anything,
  format_version: whole,
  target: nullable(record({ subgroup_size: nullable(positive) }, true)),
});

/** A compiled program: everything that a device needs to run it. */
export interface Program extends Read<typeof content> {
  /** The bytes of each constant, by the name of its buffer. */
  readonly constants: ReadonlyMap<string, Uint8Array<ArrayBuffer>>;
}

/**
 * Deserializes a program.
 *
 * @param json Untrusted text.
 * @param tensors The tensors of its file, which include the program's constants.
 * @param source The file's name in error messages.
 * @param prefix The prefix of its constants' names.
 * @throws {ProgramError} It is malformed; says how.
 */
export function readProgram(
  json: string | undefined,
  tensors: ReadonlyMap<string, FileTensor>,
  source: string,
  prefix = "",
): Program {
  require(json !== undefined, `${source} holds no program`);
  try {
    const parsed = content(object(parsedJson(json, "its program"), "its program"), "program");
    const constants = new Map<string, Uint8Array<ArrayBuffer>>();
    for (const { role, name: own } of parsed.buffers) {
      const data = tensors.get(`${prefix}constant/${own}`);
      if (role === "constant" && data) constants.set(own, data.bytes.slice()); // so that the file can be freed
    }
    const program = { ...parsed, constants };
    validate(program);
    return program;
  } catch (error) {
    if (error instanceof RangeError)
      throw new ProgramError(`${source} holds a malformed program: it is nested too deeply`);
    if (!(error instanceof ProgramError)) throw error;
    throw new ProgramError(`${source} holds a malformed program: ${error.message}`);
  }
}

/** Returns the tensors of these roles, by name. */
export function slotsOf(program: Program, ...roles: readonly string[]): Map<string, TensorSlot> {
  return new Map(program.tensors.filter((slot) => roles.includes(slot.role)).map((slot) => [slot.name, slot]));
}

/** Checks the version of a format, and says who is behind: the file or this release. */
export function checkVersion(version: string | undefined, what: string): void {
  const advice = Number(version) > FORMAT_VERSION ? "update tensorgrad" : "save the program again";
  const reads = `this release reads version ${FORMAT_VERSION}`;
  require(version === `${FORMAT_VERSION}`, `${what} ${version}; ${reads}: ${advice}`);
}

function validate(program: Program): void {
  const { format_version: version, kernels, buffers, tensors, plan } = program;
  checkVersion(`${version}`, "format version");
  kernels.forEach(checkKernel);
  checkBuffers(program);
  checkTensors(tensors, buffers);
  const commands = countCommands(plan);
  require(commands <= MOST_COMMANDS, `a step runs ${commands} dispatches and copies, at most ${MOST_COMMANDS}`);
  let position = 0;
  for (const [one, counts] of runs(plan)) {
    if (one.op === "dispatch") checkDispatch(one, `dispatch ${position} ('${one.label}')`, program, counts);
    else checkCopy(one, `copy ${position}`, buffers);
    position++;
  }
  checkWritten(program);
}

function checkKernel({ language, entry, code }: Kernel, index: number): void {
  const where = `kernel ${index} ('${entry}')`;
  require(language === "wgsl", `${where} is in ${language}; pages run wgsl: save it with target='webgpu-default'`);
  require(/^[A-Za-z_]\w*$/.test(entry), `${where}: its entry point is not an identifier`);
  checkShader(code, where);
}

function checkBuffers({ buffers, constants }: Program): void {
  unique(buffers, "buffer");
  for (const { name: own, size, role } of buffers) {
    const where = `buffer '${own}'`;
    require(size % WORD === 0, `${where}: its size must be a multiple of ${WORD} bytes, it is ${size}`);
    const data = constants.get(own);
    require(role !== "constant" || data !== undefined, `${where}: a constant has no data`);
    require((data?.length ?? 0) <= size, `${where}: ${data?.length} bytes of data in ${size}`);
  }
  const inputs = buffers.filter(({ role }) => role === "input");
  require(inputs.length <= 1, `more than one input buffer: ${inputs.map((one) => one.name).join(", ")}`);
}

function checkTensors(tensors: readonly TensorSlot[], buffers: readonly Buffer[]): void {
  for (const slot of tensors) {
    const where = `${slot.role} '${slot.name}'`;
    require(!ELSEWHERE.includes(slot.dtype), `${where}: browsers don't support ${slot.dtype}`);
    const { role } = checkRange(where, slot.buffer, slot.offset, slotBytes(slot), buffers);
    const needed = TENSOR_BUFFERS[slot.role];
    require(role === needed, `${where} lies in a buffer of role '${role}', not '${needed}'`);
    require(slot.role !== "scalar" || !slot.shape.length, `${where}: a scalar of shape [${slot.shape}]`);
    require(slot.formula === null || slot.role === "scalar", `${where}: only scalars have a formula`);
  }
  unique(
    tensors.filter(({ role }) => PERSISTENT_ROLES.includes(role)),
    "parameter or state tensor",
  );
  for (const role of ["input", "scalar", "output"])
    unique(
      tensors.filter((slot) => slot.role === role),
      role,
    );
  checkDisjoint(tensors.filter((slot) => slot.role !== "output" && slotBytes(slot) > 0));
}

/** Checks that tensors don't overlap. The caller excludes outputs, which may share one value. */
function checkDisjoint(slots: TensorSlot[]): void {
  slots.sort((a, b) => a.buffer - b.buffer || a.offset - b.offset);
  slots.slice(1).forEach((second, index) => {
    const first = slots[index] as TensorSlot;
    const apart = first.buffer !== second.buffer || first.offset + slotBytes(first) <= second.offset;
    require(apart, `${first.role} '${first.name}' and ${second.role} '${second.name}' overlap`);
  });
}

function checkRange(where: string, index: number, offset: number, size: number, buffers: readonly Buffer[]): Buffer {
  const found = buffers[index];
  require(found !== undefined, `${where}: there is no buffer ${index}`);
  require(offset % WORD === 0 && size % WORD === 0, `${where}: range ${offset}, ${size} is not in whole words`);
  require(offset + size <=
    found.size, `${where}: bytes ${offset} to ${offset + size} of buffer '${found.name}', which has ${found.size}`);
  return found;
}

/** Returns the number of dispatches and copies that run, over all loop iterations. */
function countCommands(steps: readonly Step[], depth = 0): number {
  require(depth <= MOST_LOOPS, `more than ${MOST_LOOPS} loops are nested`);
  let count = 0;
  for (const one of steps) {
    require(one.op !== "repeat" || one.steps.length > 0, "a loop has no steps");
    count += one.op === "repeat" ? one.count * countCommands(one.steps, depth + 1) : 1;
  }
  return count;
}

function checkDispatch(one: Dispatch, where: string, { kernels, buffers }: Program, counts: readonly number[]): void {
  require(one.kernel < kernels.length, `${where}: no kernel ${one.kernel}`);
  one.bindings.forEach((binding, index) => checkBinding(binding, `${where}, binding ${index}`, buffers, counts));
  checkAliasing(one.bindings, where, buffers);
  if (!one.indirect) return;
  const [index, offset] = one.indirect as [number, number];
  checkRange(`${where}, numbers of workgroups`, index, offset, 3 * WORD, buffers);
  const bound = one.bindings.some((binding) => binding.buffer === index);
  require(!bound, `${where} binds its own numbers of workgroups`);
}

function checkBinding(binding: Binding, where: string, buffers: readonly Buffer[], counts: readonly number[]): void {
  const { strides, access, size } = binding;
  const loops = strides.length;
  require(!loops || loops === counts.length, `${where} moves in ${loops} of ${counts.length} loops`);
  require(strides.every((stride) => stride % WORD === 0), `${where}: strides [${strides}]`);
  require(!loops || access === "read", `${where} moves and is written`);
  const moved = strides.reduce((sum, stride, loop) => sum + stride * ((counts[loop] as number) - 1), 0);
  const { role, name: own } = checkRange(where, binding.buffer, binding.offset, size + moved, buffers);
  require(role !== "constant" || access === "read", `${where} writes constant '${own}'`);
}

/** Checks that a dispatch uses each buffer with one access, as devices track it, and writes disjoint ranges. */
function checkAliasing(bindings: readonly Binding[], where: string, buffers: readonly Buffer[]): void {
  const ordered = [...bindings].sort((a, b) => a.buffer - b.buffer || a.offset - b.offset);
  ordered.slice(1).forEach((second, index) => {
    const first = ordered[index] as Binding;
    if (first.buffer !== second.buffer) return;
    const own = buffers[first.buffer]?.name;
    require(first.access === second.access, `${where}: buffer '${own}' is bound both 'read' and 'read_write'`);
    const apart = first.access === "read" || first.offset + first.size <= second.offset;
    require(apart, `${where}: two writable bindings of buffer '${own}' overlap`);
  });
}

function checkCopy(one: Copy, where: string, buffers: readonly Buffer[]): void {
  const source = checkRange(`${where}, source`, one.source, one.source_offset, one.size, buffers);
  const destination = checkRange(`${where}, destination`, one.destination, one.destination_offset, one.size, buffers);
  require(source !== destination, `${where}: within buffer '${source.name}'`);
  require(destination.role !== "constant", `${where} writes a constant`);
}

/** Checks that something writes each output, which would stay zero; what passes through is copied. */
function checkWritten({ tensors, buffers, plan }: Program): void {
  const written = [...runs(plan)].flatMap(([one]) =>
    one.op === "copy"
      ? [{ buffer: one.destination, offset: one.destination_offset, size: one.size }]
      : one.bindings.filter(({ access }) => access !== "read"),
  );
  const outputs = written.filter(({ buffer }) => buffers[buffer]?.role === "output");
  for (const slot of tensors) {
    const size = slotBytes(slot);
    if (slot.role !== "output" || !size) continue;
    const isWritten = outputs.some(
      (one) => one.buffer === slot.buffer && one.offset < slot.offset + size && slot.offset < one.offset + one.size,
    );
    require(isWritten, `no step of the plan writes output '${slot.name}'`);
  }
}

function unique(named: readonly { readonly name: string }[], what: string): void {
  const seen = new Set<string>();
  for (const { name: own } of named) {
    require(!seen.has(own), `two ${what}s are named '${own}'`);
    seen.add(own);
  }
}
