/** A WebGPU device: its limits, what it reports, and whether it is still there. */

import { DeviceError, DeviceLostError, NoAdapterError, messageOf } from "./errors.js";

/** The limits that programs need; a device is asked for all that its adapter has. */
const LIMITS = [
  "maxStorageBuffersPerShaderStage",
  "maxStorageBufferBindingSize",
  "maxBufferSize",
  "maxComputeWorkgroupSizeX",
  "maxComputeWorkgroupSizeY",
  "maxComputeWorkgroupSizeZ",
  "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkgroupStorageSize",
  "maxComputeWorkgroupsPerDimension",
  "minStorageBufferOffsetAlignment",
] as const;
export type Limit = (typeof LIMITS)[number];
const FEATURES: readonly GPUFeatureName[] = ["shader-f16", "subgroups"];

const NOWHERE =
  "there is no WebGPU here: use a current browser, a page from https:// or localhost, and hardware acceleration";

/** A device; several programs may share one. */
export class Device {
  /** Fulfilled when the device is gone, with the error that every later call throws. */
  readonly lost: Promise<DeviceLostError>;
  #fault: DeviceError | undefined;

  private constructor(
    readonly gpu: GPUDevice,
    /** Its adapter's vendor and architecture. */
    readonly info: GPUAdapterInfo,
  ) {
    this.lost = gpu.lost.then(({ reason, message }) => {
      const why =
        message.replace(/\.+$/, "") || (reason === "destroyed" ? "it was destroyed" : "the browser gave no reason");
      const error = new DeviceLostError(`the device was lost, with all that it held: ${why}. Load the last checkpoint`);
      this.#fault = error;
      return error;
    });
    gpu.onuncapturederror = ({ error }) => {
      this.#fault ??= new DeviceError(error.message);
    };
  }

  /**
   * Returns a device with all limits of its adapter, and the features that programs may use.
   *
   * @throws {NoAdapterError} There is no WebGPU here, or no adapter.
   * @throws {DeviceError} The adapter gives no device.
   */
  static async request(options: GPURequestAdapterOptions = {}): Promise<Device> {
    const adapter = await globalThis.navigator?.gpu?.requestAdapter(options);
    if (!adapter) throw new NoAdapterError(NOWHERE);
    const requiredLimits = Object.fromEntries(LIMITS.map((name) => [name, adapter.limits[name]]));
    const requiredFeatures = FEATURES.filter((name) => adapter.features.has(name));
    try {
      return new Device(await adapter.requestDevice({ requiredFeatures, requiredLimits }), adapter.info);
    } catch (error) {
      throw new DeviceError(`the adapter gives no device: ${messageOf(error)}`);
    }
  }

  /** Returns what an error of the device's means: that it is lost, where it is. */
  async explained(error: unknown, doing: string): Promise<DeviceError> {
    // The loss is reported after what fails by it.
    const lost = await Promise.race([this.lost, new Promise<undefined>((resolve) => setTimeout(resolve, 50))]);
    return lost ?? new DeviceError(`${doing}: ${messageOf(error)}`);
  }

  /** @throws {DeviceError} The device is lost, or reported an error since. */
  check(): void {
    const fault = this.#fault;
    if (!fault) return;
    if (!(fault instanceof DeviceLostError)) this.#fault = undefined;
    throw fault;
  }

  /**
   * Awaits what a call gives, and throws whatever the device reports meanwhile.
   *
   * @param doing What messages say that this does.
   * @throws {DeviceError} What the device reported.
   */
  async reporting<T>(doing: string, call: () => T | Promise<T>): Promise<T> {
    this.check();
    this.gpu.pushErrorScope("out-of-memory");
    this.gpu.pushErrorScope("validation");
    let thrown: { error: unknown } | undefined;
    let result: T | undefined;
    let scopes: Promise<({ readonly message: string } | null)[]> | undefined;
    try {
      const pending = call();
      scopes = this.#popScopes();
      result = await pending;
    } catch (error) {
      thrown = { error };
      scopes ??= this.#popScopes();
    }
    const reported = (await scopes).find(Boolean);
    if (reported) throw await this.explained(new Error(reported.message), doing);
    if (thrown) throw await this.explained(thrown.error, doing);
    this.check();
    return result as T;
  }

  /** Returns what the scopes caught; a device that is lost may refuse to say. */
  #popScopes(): Promise<({ readonly message: string } | null)[]> {
    const popped = Promise.all([this.gpu.popErrorScope(), this.gpu.popErrorScope()]);
    return popped.catch((error: unknown) => [{ message: messageOf(error) }]);
  }

  /** Gives the device back, with all that it holds. */
  destroy(): void {
    this.gpu.destroy();
  }
}

/**
 * Loads something on a device: the one that is given, or a new one, which is given back if the load fails.
 *
 * @param load Gets the device, and the device that what is loaded has to give back, if any.
 */
export async function onDevice<T>(
  given: Device | undefined,
  load: (device: Device, owned: Device | null) => Promise<T>,
): Promise<T> {
  if (given) return load(given, null);
  const made = await Device.request();
  try {
    return await load(made, made);
  } catch (error) {
    made.destroy();
    throw error;
  }
}
