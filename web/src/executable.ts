/** A program on a device: its buffers, pipelines and bind groups, which are created once, and its steps. */

import { WORD, type Inputs, type Numbers, type Write, checked } from "./dtypes.js";
import { type Device } from "./device.js";
import { InputError, ProgramError } from "./errors.js";
import { checkFits } from "./fits.js";
import { checkNames } from "./named.js";
import { Outputs } from "./outputs.js";
import { type Pipeline, compilePipelines } from "./pipelines.js";
import { type Dispatch, PERSISTENT_ROLES, type Step, type TensorSlot, dispatches, slotBytes } from "./plan.js";
import { type Program, slotsOf } from "./program.js";
import { type Value } from "./results.js";
import { type State } from "./saved.js";

/** The maximum size in bytes of a staging buffer for reading parameters; only a single parameter may exceed it. */
const MOST_STAGING = 64 << 20;

/** The roles of buffers that a step fills before it reads them. */
const TEMPORARY_ROLES: readonly string[] = ["input", "workspace"];

export class Executable {
  /** The inputs of a step, by name. */
  readonly inputs: ReadonlyMap<string, TensorSlot>;
  /** Parameters and state, by name. */
  readonly persistent: ReadonlyMap<string, TensorSlot>;
  readonly #scalars: ReadonlyMap<string, TensorSlot>;
  readonly #outputs: Outputs;
  readonly #host: ArrayBuffer;
  readonly #inputBuffer: GPUBuffer | undefined;
  readonly #groups = new Map<Dispatch, GPUBindGroup>();
  /** The strides of each dispatch's bindings that move with iterations. */
  readonly #moving = new Map<Dispatch, readonly (readonly number[])[]>();
  #isDestroyed = false;

  private constructor(
    readonly program: Program,
    readonly device: Device,
    private readonly pipelines: ReadonlyMap<Dispatch, Pipeline>,
    private readonly buffers: readonly GPUBuffer[],
    private readonly shared: ReadonlySet<GPUBuffer>,
  ) {
    this.inputs = slotsOf(program, "input");
    this.persistent = slotsOf(program, ...PERSISTENT_ROLES);
    this.#scalars = slotsOf(program, "scalar");
    this.#outputs = new Outputs(device, slotsOf(program, "output").values(), program.buffers);
    const index = program.buffers.findIndex(({ role }) => role === "input");
    this.#inputBuffer = buffers[index];
    this.#host = new ArrayBuffer(program.buffers[index]?.size ?? 0);
    for (const [one, { layout }] of pipelines) {
      this.#groups.set(one, this.#bindGroup(one, layout));
      this.#moving.set(
        one,
        one.bindings.map(({ strides }) => strides).filter((strides) => strides.length),
      );
    }
  }

  /**
   * Loads a program; parameters and state start at zero.
   *
   * @param share An executable on the same device whose parameters and state this one shares.
   * @param inTurn Whether to reuse its inputs and temporaries too, where they are large enough: possible because steps
   *   don't overlap.
   * @throws {TargetError} The device can't run it.
   * @throws {ProgramError} Its parameters are laid out differently from those of `share`.
   * @throws {DeviceError} A kernel doesn't compile, or there is not enough memory.
   */
  static async load(program: Program, device: Device, share?: Executable, inTurn = false): Promise<Executable> {
    checkFits(program, device);
    const common = share ? persistentIn(program, share) : new Map<number, GPUBuffer>();
    if (share && inTurn) for (const [index, buffer] of temporaryIn(program, share)) common.set(index, buffer);
    const pipelines = await compilePipelines(program, device);
    const allocating = `allocating the buffers of '${program.name}'`;
    const made: GPUBuffer[] = [];
    try {
      return await device.reporting(allocating, () => {
        const buffers = allocated(program, device, common, made);
        return new Executable(program, device, pipelines, buffers, new Set(common.values()));
      });
    } catch (error) {
      for (const buffer of made) buffer.destroy();
      throw error;
    }
  }

  /**
   * Runs the program once, asynchronously.
   *
   * @param inputs A value for each input.
   * @param scalars The value of each scalar, by name.
   * @param isRead Whether its outputs will be read; they are not transferred otherwise.
   * @returns The outputs by name; none if they aren't read.
   * @throws {InputError} An input is missing, unknown, or of the wrong shape or dtype; nothing has changed.
   * @throws {DeviceError} The device is lost, or has reported an error.
   */
  step(inputs: Inputs, scalars: ReadonlyMap<string, number>, isRead = true): Map<string, Value> {
    const { gpu } = this.device;
    const writes = [...this.#checkedInputs(inputs), ...this.#checkedScalars(scalars)];
    this.device.check();
    if (this.#isDestroyed) throw new InputError(`'${this.program.name}' was destroyed`);
    for (const [slot, write] of writes) write(this.#host, slot.offset);
    if (this.#inputBuffer) gpu.queue.writeBuffer(this.#inputBuffer, 0, this.#host);
    const encoder = gpu.createCommandEncoder();
    this.#encode(encoder);
    const outputs = isRead ? this.#outputs.encode(encoder, this.buffers) : new Map<string, Value>();
    gpu.queue.submit([encoder.finish()]);
    return outputs;
  }

  #checkedInputs(inputs: Inputs): [TensorSlot, Write][] {
    checkNames("input", inputs, [...this.inputs.keys()]);
    return [...this.inputs].map(([name, slot]) => {
      return [slot, checked(inputs[name] as Numbers, slot.shape, slot.dtype, `input '${name}'`)];
    });
  }

  #checkedScalars(scalars: ReadonlyMap<string, number>): [TensorSlot, Write][] {
    return [...this.#scalars].map(([name, slot]) => {
      return [slot, checked(scalars.get(name) as number, slot.shape, slot.dtype, `scalar '${name}'`)];
    });
  }

  #encode(encoder: GPUCommandEncoder): void {
    let pass: GPUComputePassEncoder | undefined;
    const run = (steps: readonly Step[], indices: readonly number[]): void => {
      for (const one of steps) {
        if (one.op === "repeat") {
          for (let index = 0; index < one.count; index++) run(one.steps, [...indices, index]);
        } else if (one.op === "dispatch") {
          pass ??= encoder.beginComputePass();
          this.#dispatch(pass, one, indices);
        } else {
          pass?.end();
          pass = undefined;
          const [source, destination] = [this.buffers[one.source], this.buffers[one.destination]] as [
            GPUBuffer,
            GPUBuffer,
          ];
          encoder.copyBufferToBuffer(source, one.source_offset, destination, one.destination_offset, one.size);
        }
      }
    };
    run(this.program.plan, []);
    pass?.end();
  }

  #dispatch(pass: GPUComputePassEncoder, one: Dispatch, indices: readonly number[]): void {
    pass.setPipeline((this.pipelines.get(one) as Pipeline).compiled);
    const moving = this.#moving.get(one) as readonly (readonly number[])[];
    const offsets = moving.map((strides) =>
      strides.reduce((sum, stride, loop) => sum + stride * (indices[loop] ?? 0), 0),
    );
    pass.setBindGroup(0, this.#groups.get(one) as GPUBindGroup, offsets);
    if (one.indirect) {
      const [index, offset] = one.indirect as [number, number];
      pass.dispatchWorkgroupsIndirect(this.buffers[index] as GPUBuffer, offset);
    } else {
      pass.dispatchWorkgroups(...(one.workgroups as [number, number, number]));
    }
  }

  #bindGroup(one: Dispatch, layout: GPUBindGroupLayout): GPUBindGroup {
    const entries = one.bindings.map(({ buffer, offset, size }, binding) => {
      return { binding, resource: { buffer: this.buffers[buffer] as GPUBuffer, offset, size } };
    });
    return this.device.gpu.createBindGroup({ label: one.label, layout, entries });
  }

  /** Returns the device bytes of these parameters and state, or of all, after all submitted work. */
  async read(names: Iterable<string> = this.persistent.keys()): Promise<Map<string, Uint8Array<ArrayBuffer>>> {
    const result = new Map<string, Uint8Array<ArrayBuffer>>();
    const slots = [...names].map((name) => this.persistent.get(name) as TensorSlot);
    await this.device.reporting(`reading parameters of '${this.program.name}'`, async () => {
      // All are copied before the first is awaited, so that they belong to the same step.
      const batches = batched(slots).map((batch) => ({ batch, staging: this.#staged(batch) }));
      try {
        for (const { batch, staging } of batches) {
          await staging.mapAsync(GPUMapMode.READ);
          const bytes = new Uint8Array(staging.getMappedRange().slice(0));
          let place = 0;
          for (const slot of batch) {
            result.set(slot.name, bytes.subarray(place, place + slotBytes(slot)));
            place += slotBytes(slot);
          }
        }
      } finally {
        for (const { staging } of batches) staging.destroy();
      }
    });
    return result;
  }

  #staged(batch: readonly TensorSlot[]): GPUBuffer {
    const { gpu } = this.device;
    const size = batch.reduce((sum, slot) => sum + slotBytes(slot), 0);
    const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
    const staging = gpu.createBuffer({ label: "parameters to read", size: Math.max(size, WORD), usage });
    const encoder = gpu.createCommandEncoder();
    let place = 0;
    for (const slot of batch) {
      const bytes = slotBytes(slot);
      if (bytes) encoder.copyBufferToBuffer(this.buffers[slot.buffer] as GPUBuffer, slot.offset, staging, place, bytes);
      place += bytes;
    }
    gpu.queue.submit([encoder.finish()]);
    return staging;
  }

  /** Returns the buffers of parameters and state by name; programs that share them use the same names. */
  persistentBuffers(): Map<string, GPUBuffer> {
    const named = this.program.buffers.map(
      ({ name, role }, index) => [name, role, this.buffers[index] as GPUBuffer] as const,
    );
    return new Map(
      named.filter(([, role]) => PERSISTENT_ROLES.includes(role)).map(([name, , buffer]) => [name, buffer]),
    );
  }

  /**
   * Returns the buffers that a step fills before it reads them, by role and name.
   *
   * Packed ones are left out, as their gaps must stay zero.
   */
  temporaryBuffers(): Map<string, GPUBuffer> {
    const named = this.program.buffers.map(
      ({ name, role }, index) => [role, name, this.buffers[index] as GPUBuffer] as const,
    );
    const temporary = named.filter(([role, name]) => TEMPORARY_ROLES.includes(role) && !name.startsWith("packed"));
    return new Map(temporary.map(([role, name, buffer]) => [`${role} ${name}`, buffer]));
  }

  /** Sets parameters and state to these device bytes, after all submitted work. */
  write(values: State): void {
    this.device.check();
    for (const [name, bytes] of values) {
      const slot = this.persistent.get(name) as TensorSlot;
      if (bytes.length) this.device.gpu.queue.writeBuffer(this.buffers[slot.buffer] as GPUBuffer, slot.offset, bytes);
    }
  }

  /** Destroys all buffers that are not another executable's. */
  destroy(): void {
    this.#isDestroyed = true;
    this.#outputs.destroy();
    for (const buffer of this.buffers) if (!this.shared.has(buffer)) buffer.destroy();
  }
}

/** Returns a program's buffers: shared ones from `common`, and new ones, which are also added to `made`. */
function allocated(
  program: Program,
  { gpu }: Device,
  common: ReadonlyMap<number, GPUBuffer>,
  made: GPUBuffer[],
): GPUBuffer[] {
  const indirect = indirectBuffers(program);
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
  return program.buffers.map(({ name, size }, index) => {
    const there = common.get(index);
    if (there) return there;
    const more = indirect.has(index) ? GPUBufferUsage.INDIRECT : 0;
    const buffer = gpu.createBuffer({ label: name, size, usage: usage | more });
    made.push(buffer);
    const data = program.constants.get(name);
    if (data?.length) {
      const padded = new Uint8Array(Math.ceil(data.length / WORD) * WORD);
      padded.set(data);
      gpu.queue.writeBuffer(buffer, 0, padded);
    }
    return buffer;
  });
}

/** Returns another executable's parameter and state buffers by our indices. @throws {ProgramError} Layouts differ. */
function persistentIn(program: Program, other: Executable): Map<number, GPUBuffer> {
  const theirs = other.persistentBuffers();
  const found = new Map<number, GPUBuffer>();
  program.buffers.forEach(({ name, role, size }, index) => {
    if (!PERSISTENT_ROLES.includes(role)) return;
    const there = theirs.get(name);
    if (there === undefined || there.size !== size) {
      const has = there ? `has ${there.size}` : "lacks it";
      throw new ProgramError(`${role} buffer '${name}' has ${size} bytes, the shared program ${has}`);
    }
    found.set(index, there);
  });
  for (const [name, slot] of slotsOf(program, ...PERSISTENT_ROLES)) {
    const there = other.persistent.get(name);
    if (!there || place(program, slot) !== place(other.program, there)) {
      throw new ProgramError(`${slot.role} '${name}' is at a different place than in the shared program`);
    }
  }
  return found;
}

/** Returns another executable's input and temporary buffers that are large enough for ours, by our indices. */
function temporaryIn(program: Program, other: Executable): Map<number, GPUBuffer> {
  const indirect = indirectBuffers(program);
  const theirs = other.temporaryBuffers();
  const found = new Map<number, GPUBuffer>();
  program.buffers.forEach(({ name, role, size }, index) => {
    const there = theirs.get(`${role} ${name}`);
    if (there && there.size >= size && !indirect.has(index)) found.set(index, there);
  });
  return found;
}

function indirectBuffers(program: Program): ReadonlySet<number> {
  return new Set(dispatches(program.plan).flatMap(({ indirect }) => (indirect ? [indirect[0] as number] : [])));
}

function place(program: Program, slot: TensorSlot): string {
  return JSON.stringify([slot.role, program.buffers[slot.buffer]?.name, slot.offset, slot.shape, slot.dtype]);
}

function batched(slots: readonly TensorSlot[]): TensorSlot[][] {
  const batches: TensorSlot[][] = [];
  let bytes = Infinity;
  for (const slot of slots) {
    bytes += slotBytes(slot);
    if (bytes > MOST_STAGING) {
      batches.push([]);
      bytes = slotBytes(slot);
    }
    batches.at(-1)?.push(slot);
  }
  return batches;
}
