/** A function in a page, which was attached to a training and saved. */

import { type Device, type LoadOptions, loadOptions, onDevice } from "./device.js";
import { type HostTensor, type InputType, type Inputs } from "./dtypes.js";
import { Executable } from "./executable.js";
import { optionsOf } from "./named.js";
import { type Tree, type Value, fill } from "./results.js";
import { savedIn } from "./saved.js";
import { FETCHING, type FetchOptions, type Source } from "./source.js";

/**
 * A function with its parameters, for the shapes that it was saved with.
 *
 * The type parameters say what the file holds, which isn't checked: the type of the results, by default one array, and
 * the inputs' names.
 */
export class Inference<Results extends Tree<Value> = Value<HostTensor>, Names extends string = string> {
  private constructor(
    private readonly results: unknown,
    private readonly executable: Executable,
    private readonly owned: Device | null,
  ) {}

  /**
   * Loads a file that Python wrote with `Inference.save(path, target="webgpu-default")`.
   *
   * @param source The file's URL or bytes.
   * @param options A device to run on, by default a new one; a callback for the progress of loading; a signal that
   *   cancels it.
   * @throws {InputError} An option is unknown, or has a value that it can't have.
   * @throws {ProgramError} The file can't be loaded, holds no function, or holds a malformed one.
   * @throws {TargetError} The device lacks what the function needs; says what.
   * @throws {NoAdapterError} WebGPU is not available.
   * @throws {DeviceError} The device reported an error.
   * @throws {DOMException} The signal canceled it.
   */
  static async load<Results extends Tree<Value> = Value<HostTensor>, Names extends string = string>(
    source: Source,
    options?: Device | LoadOptions,
  ): Promise<Inference<Results, Names>> {
    const given = loadOptions(options);
    const [{ program, host }, state] = await savedIn(source, given, "function");
    return onDevice(given, async (where, owned) => {
      const executable = await Executable.load(program, where);
      executable.write(state);
      return new Inference<Results, Names>(host.results, executable, owned);
    });
  }

  /** Loads a function that shares a training's parameters; see `Training.attach`. @internal */
  static async attached<Results extends Tree<Value>, Names extends string>(
    source: Source,
    training: Executable,
    options?: FetchOptions,
  ): Promise<Inference<Results, Names>> {
    const given = optionsOf("attach", options, FETCHING);
    const [{ program, host }] = await savedIn(source, given, "function");
    return onDevice({ ...given, device: training.device }, async (where) => {
      return new Inference<Results, Names>(host.results, await Executable.load(program, where, training), null);
    });
  }

  /** The device that it runs on. */
  get device(): Device {
    return this.executable.device;
  }

  /** The shape and dtype of each input, by name. */
  get inputs(): Record<Names, InputType> {
    return described(this.executable);
  }

  /**
   * Runs the function, asynchronously.
   *
   * @param inputs The inputs by name; see `Numbers`.
   * @returns The function's results, in their structure; lists and tuples are arrays.
   * @throws {InputError} An input is unknown, missing, or of the wrong shape or dtype.
   * @throws {DeviceError} The device is lost, or has reported an error.
   */
  call(inputs: Inputs<Names>): Results {
    const outputs = this.executable.step(inputs, new Map());
    return fill(this.results, (name) => outputs.get(name) as Value) as Results;
  }

  /** Frees its memory, except parameters that it shares, and destroys the device if `load` requested it. */
  destroy(): void {
    this.executable.destroy();
    this.owned?.destroy();
  }
}

/** Returns the shape and dtype of each input of a program, by name, except those that the host makes. @internal */
export function described<Names extends string>(
  executable: Executable,
  made: ReadonlyMap<string, string> = new Map(),
): Record<Names, InputType> {
  const given = [...executable.inputs].filter(([name]) => !made.has(name));
  const types = given.map(([name, { shape, dtype }]) => [name, { shape, dtype }]);
  return Object.fromEntries(types) as Record<Names, InputType>;
}
