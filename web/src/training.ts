/** A training step in a page: it resumes where it was saved, in Python or in a page, and its files resume in both. */

import { type Bytes, type HostTensor, type InputType, type Inputs, type Numbers, checked } from "./dtypes.js";
import { type Device, type LoadOptions, loadOptions, onDevice } from "./device.js";
import { type DeviceLostError, InputError, ProgramError } from "./errors.js";
import { Executable } from "./executable.js";
import { Inference, described } from "./inference.js";
import { foldIn } from "./keys.js";
import { checkNamed, checkNames, optionsOf } from "./named.js";
import { type TensorSlot, slotBytes } from "./plan.js";
import { slotsOf } from "./program.js";
import { type Readings, type Tree, type Value, fill, read } from "./results.js";
import { type Host, type Saved, savedIn, valueOf, writeSaved } from "./saved.js";
import { Scalars } from "./scalars.js";
import { FETCHING, type FetchOptions, type Source } from "./source.js";

/** The names of a training's position that formulas can use. */
const PLACE = ["step", "micro_step"];
/** The number of steps that `run` submits before it waits for their results. */
const MOST_AHEAD = 64;

/** Parameters or state, by path. */
export type Tensors = Record<string, HostTensor>;

/**
 * A training step with its parameters, state, settings and random key.
 *
 * The type parameters say what the file holds, which isn't checked: the type of a step's results, by default the loss
 * alone, and the inputs' names. A loss with metrics is `Training<[Value<number>, { accuracy: Value<number> }]>`.
 */
export class Training<Results extends Tree<Value> = Value<number>, Names extends string = string> {
  #saved: Saved;
  readonly #scalars: ReadonlyMap<Executable, Scalars>;

  private constructor(
    saved: Saved,
    private readonly executable: Executable,
    private readonly others: Executable | null,
    private readonly owned: Device | null,
  ) {
    this.#saved = saved;
    const executables = others ? [executable, others] : [executable];
    this.#scalars = new Map(executables.map((one) => [one, new Scalars(one.program)]));
    const wanted = new Set([...this.#scalars.values()].flatMap(({ names }) => [...names]));
    const missing = [...wanted].filter((name) => !PLACE.includes(name) && !saved.host.settings.has(name));
    if (missing.length)
      throw new ProgramError(`program '${saved.program.name}' has no value for ${missing.sort().join(", ")}`);
  }

  /**
   * Loads a file written by Python's `Training.save(path, target="webgpu-default")`, or by `save`.
   *
   * @param source The file's URL or bytes.
   * @param options A device to run on, by default a new one; a callback for the progress of loading; a signal that
   *   cancels it.
   * @throws {InputError} An option is unknown, or has a value that it can't have.
   * @throws {ProgramError} The file can't be loaded, holds no training, or holds a malformed one.
   * @throws {TargetError} The device lacks what the training needs; says what.
   * @throws {NoAdapterError} WebGPU is not available.
   * @throws {DeviceError} The device reported an error.
   * @throws {DOMException} The signal canceled it.
   */
  static async load<Results extends Tree<Value> = Value<number>, Names extends string = string>(
    source: Source,
    options?: Device | LoadOptions,
  ): Promise<Training<Results, Names>> {
    const given = loadOptions(options);
    const [saved, state] = await savedIn(source, given, "step");
    return onDevice(given, async (where, owned) => {
      const executable = await Executable.load(saved.program, where);
      try {
        const others = saved.others && (await Executable.load(saved.others, where, executable, true));
        executable.write(state);
        return new Training<Results, Names>(saved, executable, others, owned);
      } catch (error) {
        executable.destroy();
        throw error;
      }
    });
  }

  /** The device that it runs on. */
  get device(): Device {
    return this.executable.device;
  }

  /** Resolves when the device is lost: load a checkpoint then. */
  get lost(): Promise<DeviceLostError> {
    return this.device.lost;
  }

  /** The number of steps that have run. */
  get stepCount(): number {
    return this.#host.step_count;
  }

  /** The values that the optimizer's formulas use, such as `learning_rate`. */
  get settings(): Record<string, number> {
    return Object.fromEntries(this.#host.settings);
  }

  /** The shape and dtype of each input that the caller passes, by name. */
  get inputs(): Record<Names, InputType> {
    return described(this.executable, this.#host.made);
  }

  get #host(): Host {
    return this.#saved.host;
  }

  #goOn(changes: Partial<Host>): void {
    this.#saved = { ...this.#saved, host: { ...this.#host, ...changes } };
  }

  /**
   * Changes settings for the following steps.
   *
   * @throws {InputError} There is no such setting, or a value is not a finite number; nothing has changed.
   */
  set(settings: Readonly<Record<string, number>>): void {
    checkNamed(settings, "set: settings");
    const present = this.#host.settings;
    for (const [name, value] of Object.entries(settings)) {
      if (!present.has(name))
        throw new InputError(`set: no setting '${name}'; the settings are ${[...present.keys()].join(", ") || "none"}`);
      if (!Number.isFinite(value)) throw new InputError(`set: ${name} must be a finite number, got ${value}`);
    }
    this.#goOn({ settings: new Map([...present, ...Object.entries(settings)]) });
  }

  /**
   * Runs one step, or one micro-batch of it, asynchronously.
   *
   * @param inputs The inputs by name; random keys are made by the step itself.
   * @returns The loss before the update, or an array of the loss and its metrics, as the loss function returned them.
   * @throws {InputError} An input is unknown, missing, or of the wrong shape or dtype; nothing has changed.
   * @throws {DeviceError} The device is lost, or has reported an error.
   */
  step(inputs: Inputs<Names>): Results {
    const { accumulate, accumulated, key, made, results, settings, step_count } = this.#host;
    const isLast = accumulated === accumulate - 1;
    const executable = isLast || !this.others ? this.executable : this.others;
    const call = step_count * accumulate + accumulated + 1;
    const wanted = [...executable.inputs.keys()].filter((name) => !made.has(name));
    checkNames("input", inputs, wanted);
    const keys = [...made.keys()].map((name) => [name, Uint32Array.from(foldIn(key, call))] as const);
    const given: Record<string, Numbers> = Object.fromEntries([...Object.entries<Numbers>(inputs), ...keys]);
    const known = new Map([...settings, ["step", step_count + 1], ["micro_step", accumulated + 1]]);
    const outputs = executable.step(given, (this.#scalars.get(executable) as Scalars).evaluate(known));
    this.#goOn({ step_count: step_count + +isLast, accumulated: isLast ? 0 : accumulated + 1 });
    return fill(results, (name) => outputs.get(name) as Value) as Results;
  }

  /**
   * Calls `step` repeatedly, and reads the results of some dozens of calls at a time.
   *
   * @param steps The number of calls.
   * @param data The inputs of every step, or a function that returns them for a step's index, which counts from 0.
   * @returns The results of each step, read; those without axes are numbers.
   * @throws {InputError} A step's inputs are invalid; the earlier steps have run.
   * @throws {DeviceError} The device reported an error.
   */
  async run(
    steps: number,
    data: Inputs<Names> | ((index: number) => Inputs<Names> | Promise<Inputs<Names>>),
  ): Promise<Readings<Results>[]> {
    if (!Number.isSafeInteger(steps) || steps < 1)
      throw new InputError(`run: steps must be a positive integer, got ${steps}`);
    const results: Readings<Results>[] = [];
    let ahead: Results[] = [];
    for (let index = 0; index < steps; index++) {
      ahead.push(this.step(typeof data === "function" ? await data(index) : data));
      if (ahead.length === MOST_AHEAD || index === steps - 1) {
        results.push(...(await Promise.all(ahead.map((one) => read(one)))));
        ahead = [];
      }
    }
    return results;
  }

  /**
   * Loads a function that uses the current parameters of this training in each call.
   *
   * @param source A file written by Python's `training.attach(...).save(path, target="webgpu-default")`.
   * @param options A callback for the progress of loading, and a signal that cancels it.
   * @throws {InputError} An option is unknown, or has a value that it can't have.
   * @throws {ProgramError} The file holds no function, or one of another training.
   * @throws {TargetError} The device lacks what the function needs.
   * @throws {DeviceError} The device reported an error.
   * @throws {DOMException} The signal canceled it.
   */
  attach<Own extends Tree<Value> = Value<HostTensor>, OwnNames extends string = string>(
    source: Source,
    options?: FetchOptions,
  ): Promise<Inference<Own, OwnNames>> {
    return Inference.attached(source, this.executable, options);
  }

  /** Returns the current values of parameters, by path. @throws {DeviceError} The device reported an error. */
  async parameters(): Promise<Tensors> {
    const slots = [...this.executable.persistent.values()].filter(({ role }) => role === "parameter");
    const raws = await this.executable.read(slots.map(({ name }) => name));
    const values = slots.map((slot) => {
      const data = valueOf(slot, raws.get(slot.name) as Uint8Array<ArrayBuffer>);
      return [slot.name, { shape: slot.shape, dtype: slot.dtype, data }];
    });
    return Object.fromEntries(values) as Tensors;
  }

  /**
   * Sets all parameters, and other state if given, by path.
   *
   * @throws {InputError} A path is unknown or missing, a shape differs or a value doesn't convert; nothing has changed.
   * @throws {DeviceError} The device is lost.
   */
  loadParameters(values: Readonly<Record<string, Numbers>>): void {
    const { program, persistent } = this.executable;
    checkNames("parameter", values, [...slotsOf(program, "parameter").keys()], [...persistent.keys()]);
    const encoded = Object.entries(values).map(([name, value]) => {
      const slot = persistent.get(name) as TensorSlot;
      const bytes = new Uint8Array(slotBytes(slot));
      checked(value, slot.shape, slot.dtype, `${slot.role} '${name}'`)(bytes.buffer, 0);
      return [name, bytes] as const;
    });
    this.executable.write(new Map(encoded));
  }

  /**
   * Returns the bytes of a file with the current state, to resume from: here by `load` or `restore`, in Python by
   * `tg.load` or `load_checkpoint`.
   *
   * @throws {DeviceError} The device reported an error.
   */
  async save(): Promise<Bytes> {
    const saved = this.#saved; // steps may follow while the values are read
    return writeSaved(saved, await this.executable.read());
  }

  /**
   * Resumes from a file of the same training, written by `save` here or in Python.
   *
   * @throws {ProgramError} The file can't be loaded, holds no training, or holds one with other parameters, state or
   *   settings; nothing has changed.
   * @throws {DeviceError} The device is lost.
   * @throws {InputError} An option is unknown, or has a value that it can't have.
   * @throws {DOMException} The signal of `options` canceled it.
   */
  async restore(source: Source, options?: FetchOptions): Promise<void> {
    const [{ program, host }, state] = await savedIn(source, optionsOf("restore", options, FETCHING), "step");
    const own = layoutOf(this.#saved.program, this.#host);
    if (layoutOf(program, host) !== own)
      throw new ProgramError("the file is of another training: parameters, state or settings differ");
    this.executable.write(state);
    const { key, step_count, accumulated, settings } = host;
    this.#goOn({ key, step_count, accumulated, settings });
  }

  /** Frees its memory, after which attached functions can't run, and destroys the device if `load` requested it. */
  destroy(): void {
    this.others?.destroy();
    this.executable.destroy();
    this.owned?.destroy();
  }
}

/** Returns a description that is equal for trainings that can resume from each other's files. */
function layoutOf({ tensors }: Saved["program"], { accumulate, settings, made }: Host): string {
  const persistent = tensors.filter(({ role }) => role === "parameter" || role === "state");
  const described = persistent.map(({ name, role, shape, dtype }) => JSON.stringify([name, role, shape, dtype])).sort();
  return JSON.stringify([described, accumulate, [...settings.keys()].sort(), [...made.keys()].sort()]);
}
