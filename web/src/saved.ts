/** The contents of a file: one program or two that share memory, their parameters, and their host-side state. */

import { type Data, type DType, decode, elementCount, isConverted, narrowed, widened } from "./dtypes.js";
import { ProgramError, messageOf } from "./errors.js";
import { type Key } from "./keys.js";
import { PERSISTENT_ROLES, type TensorSlot } from "./plan.js";
import { type Program, checkVersion, readProgram, slotsOf } from "./program.js";
import { fill } from "./results.js";
import { type FileDType, type FileTensor, readSafetensors, writeSafetensors } from "./safetensors.js";
import {
  anything,
  finite,
  list,
  mapping,
  oneOf,
  parsedJson,
  type Read,
  record,
  require,
  text,
  whole,
} from "./schema.js";
import { type FetchOptions, type Source, bytesOf } from "./source.js";
import { unpacked } from "./weights.js";

const FORMAT = "tensorgrad-program";
/** The name of the second program, and the prefix of its constants' names. */
const OTHERS = "accumulate";
/** What a kind of file is, and the class that loads it. */
const LOADING = {
  function: "function: load it with Inference",
  step: "training: load it with Training",
  generator: "generator: load it with TextGenerator",
};
/** The formula of a call's random key; calls count from 1, and each micro-batch is a call. */
export const STEP_KEY = "fold_in(key(seed), call)";
/** Returns a dtype's name in files: the same in capitals. */
const fileDType = (dtype: DType): FileDType => dtype.toUpperCase() as FileDType;

const hostOf = record({
  kind: oneOf(["function", "step", "generator"]),
  results: anything,
  made: mapping(text),
  key: list(whole, 2),
  step_count: whole,
  accumulate: whole,
  accumulated: whole,
  settings: mapping(finite),
});

/** The host-side part of a program: how it is called, how far a training is, and the settings that its formulas use. */
export interface Host extends Omit<Read<typeof hostOf>, "key"> {
  readonly key: Key;
}

/** The device bytes of parameters and state, by name. */
export type State = ReadonlyMap<string, Uint8Array<ArrayBuffer>>;

/** The contents of a file except its state; `others` runs the micro-batches before the last, or reads several tokens. */
export interface Saved {
  readonly program: Program;
  readonly others: Program | null;
  readonly host: Host;
  readonly metadata: ReadonlyMap<string, string>;
}

/**
 * Reads a file written by `Training.save` or `Inference.save`.
 *
 * @param source The file's name in error messages.
 * @throws {ProgramError} It holds no program, or one that is malformed or of another format version.
 */
export function readSaved(bytes: Uint8Array<ArrayBuffer>, source: string): [Saved, State] {
  const { metadata, tensors } = readSafetensors(bytes, source);
  require(metadata.get("format") === FORMAT, `${source} holds no program`);
  checkVersion(metadata.get("format_version"), `${source} is of format version`);
  const program = readProgram(metadata.get("program"), tensors, source);
  const second = metadata.get(OTHERS);
  const others = second === undefined ? null : readProgram(second, tensors, source, `${OTHERS}/`);
  const host = metadata.get("host");
  require(host !== undefined, `${source} holds a program alone: save a training or a function`);
  try {
    const read = hostOf(parsedJson(host, "its host"), "host");
    const [high, low] = read.key as [number, number];
    const saved = { program, others, host: { ...read, key: [high, low] as const }, metadata };
    validate(saved);
    return [saved, stateIn(program, tensors, read.kind === "generator")];
  } catch (error) {
    if (!(error instanceof ProgramError) && !(error instanceof RangeError)) throw error;
    throw new ProgramError(`${source} holds a malformed program: ${messageOf(error)}`);
  }
}

/** Reads a file that has to hold a function, a training's step or a generator. @throws {ProgramError} It doesn't. */
export async function savedIn(
  source: Source,
  options: FetchOptions,
  kind: keyof typeof LOADING,
): Promise<[Saved, State]> {
  const [bytes, name] = await bytesOf(source, options);
  const read = readSaved(bytes, name);
  const own = read[0].host.kind as keyof typeof LOADING;
  require(own === kind, `${name} holds a ${LOADING[own]}.load`);
  if (kind === "step") return read;
  const [scalar] = slotsOf(read[0].program, "scalar").keys();
  require(scalar === undefined, `${name} holds a ${kind} with scalar '${scalar}', which has no value`);
  return read;
}

/** Serializes programs, host-side part and state to a file's bytes. */
export function writeSaved({ program, others, host, metadata }: Saved, state: State): Uint8Array<ArrayBuffer> {
  const content = { ...host, made: Object.fromEntries(host.made), settings: Object.fromEntries(host.settings) };
  const tensors = new Map([...constantsOf(program, ""), ...(others ? constantsOf(others, `${OTHERS}/`) : [])]);
  for (const [name, slot] of slotsOf(program, ...PERSISTENT_ROLES)) {
    const raw = state.get(name) as Uint8Array<ArrayBuffer>;
    const [dtype, bytes] = [fileDType(slot.dtype), hostBytes(slot, raw)];
    tensors.set(`${slot.role}/${name}`, { dtype, shape: slot.shape, bytes });
  }
  return writeSafetensors({ metadata: new Map([...metadata, ["host", JSON.stringify(content)]]), tensors });
}

function constantsOf({ constants }: Program, prefix: string): [string, FileTensor][] {
  return [...constants].map(([name, bytes]) => [
    `${prefix}constant/${name}`,
    { dtype: "U8", shape: [bytes.length], bytes },
  ]);
}

/** Decodes a tensor from its device bytes. */
export function valueOf(slot: TensorSlot, raw: Uint8Array<ArrayBuffer>): Data {
  return decode(raw.buffer, raw.byteOffset, slot.shape, slot.dtype);
}

/** Converts device bytes to a file's, which store bools and narrow integers in their own widths, and no padding. */
function hostBytes(slot: TensorSlot, raw: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  if (isConverted(slot.dtype)) return narrowed(valueOf(slot, raw), slot.dtype);
  return slot.dtype === "f16" ? raw.subarray(0, 2 * elementCount(slot.shape)) : raw;
}

function deviceBytesOf(slot: TensorSlot, bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  if (isConverted(slot.dtype)) return widened(bytes, slot.dtype);
  const padded = new Uint8Array(Math.ceil(bytes.length / 4) * 4);
  padded.set(bytes);
  return padded;
}

/** Returns parameters and state; those of a generator's state that a file lacks start at zero. */
function stateIn(program: Program, tensors: ReadonlyMap<string, FileTensor>, isGenerator: boolean): State {
  const state = new Map<string, Uint8Array<ArrayBuffer>>();
  for (const [name, slot] of slotsOf(program, ...PERSISTENT_ROLES)) {
    const stored = tensors.get(`${slot.role}/${name}`);
    if (!stored && isGenerator && slot.role === "state") continue;
    require(stored !== undefined, `there are no values of ${name}`);
    const scale = tensors.get(`scale/${name}`);
    const found = slot.dtype === "f32" ? unpacked(stored, scale, `${slot.role} '${name}'`) : stored;
    const fits = found.dtype === fileDType(slot.dtype) && found.shape.join() === slot.shape.join();
    const got = `${found.dtype} of shape [${found.shape}]`;
    require(fits, `${slot.role} '${name}': expected ${slot.dtype} of shape [${slot.shape}], got ${got}`);
    state.set(name, deviceBytesOf(slot, found.bytes));
  }
  return state;
}

function validate({ program, others, host }: Saved): void {
  const { accumulate, accumulated, key, kind, made, results } = host;
  require(accumulated < accumulate, `${accumulated} of ${accumulate} micro-batches have run`);
  const isRight = kind === "generator" || accumulate > 1 === (others !== null);
  require(isRight, "a second program is for steps of micro-batches");
  require(key.every((word) => word < 2 ** 32), `key must be two words, got [${key}]`);
  const inputs = slotsOf(program, "input");
  for (const [name, how] of made) {
    const slot = inputs.get(name);
    const fits = slot !== undefined && slot.dtype === "u32" && slot.shape.join() === "2";
    require(how === STEP_KEY && fits, `the host can't make input '${name}' by '${how}'`);
  }
  for (const one of others === null ? [program] : [program, others]) {
    const outputs = slotsOf(one, "output"); // each of them computes what a micro-batch returns
    fill(results, (name) => require(outputs.has(name), `there is no output '${name}'`));
  }
}
