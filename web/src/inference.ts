/** A function in a page, which was attached to a training and saved. */

import { type Device, onDevice } from "./device.js";
import { ProgramError } from "./errors.js";
import { Executable, type Inputs } from "./executable.js";
import { type Value } from "./outputs.js";
import { type Source, bytesOf } from "./source.js";
import { type Saved, type State, type Tree, fill, readSaved } from "./saved.js";

/** A function with its parameters, for the shapes that it was saved with. */
export class Inference {
  private constructor(
    private readonly results: unknown,
    private readonly executable: Executable,
    private readonly owned: Device | null,
  ) {}

  /**
   * Loads a file that Python wrote with `Inference.save(path, target="webgpu-default")`.
   *
   * @param source The file's URL or bytes.
   * @param device The device to run on; by default, a new one.
   * @throws {ProgramError} The file can't be loaded, holds no function, or holds a malformed one.
   * @throws {TargetError} The device lacks what the function needs; says what.
   * @throws {NoAdapterError} WebGPU is not available.
   * @throws {DeviceError} The device reported an error.
   */
  static async load(source: Source, device?: Device): Promise<Inference> {
    const [{ program, host }, state] = await functionIn(source);
    return onDevice(device, async (where, owned) => {
      const executable = await Executable.load(program, where);
      executable.write(state);
      return new Inference(host.results, executable, owned);
    });
  }

  /** Loads a function that shares a training's parameters; see `Training.attach`. */
  static async attached(source: Source, training: Executable): Promise<Inference> {
    const [{ program, host }] = await functionIn(source);
    return new Inference(host.results, await Executable.load(program, training.device, training), null);
  }

  /** The device that it runs on. */
  get device(): Device {
    return this.executable.device;
  }

  /** The shape and dtype of each input, by name. */
  get inputs(): Record<string, { shape: readonly number[]; dtype: string }> {
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
  call(inputs: Inputs): Tree<Value> {
    const outputs = this.executable.step(inputs, new Map());
    return fill(this.results, (name) => outputs.get(name) as Value);
  }

  /** Frees its memory, except parameters that it shares, and destroys the device if `load` requested it. */
  destroy(): void {
    this.executable.destroy();
    this.owned?.destroy();
  }
}

/** Returns the shape and dtype of each input of a program, by name, except those that the host makes. */
export function described(
  executable: Executable,
  made: ReadonlyMap<string, string> = new Map(),
): Record<string, { shape: readonly number[]; dtype: string }> {
  const given = [...executable.inputs].filter(([name]) => !made.has(name));
  return Object.fromEntries(given.map(([name, { shape, dtype }]) => [name, { shape, dtype }]));
}

async function functionIn(source: Source): Promise<[Saved, State]> {
  const [bytes, name] = await bytesOf(source);
  const [saved, state] = readSaved(bytes, name);
  if (saved.host.kind !== "function") throw new ProgramError(`${name} holds a training: load it with Training.load`);
  return [saved, state];
}
