/** A WebGPU device: its limits, its errors, and whether it is lost. */

import { DeviceError, DeviceLostError, NoAdapterError, messageOf } from "./errors.js";
import { type Rules, kindOf, optionsOf } from "./named.js";
import { FETCHING, type FetchOptions } from "./source.js";

/** The limits that programs depend on; devices are requested with the adapter's values of them. */
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
  "WebGPU is not available: use a current browser, a page from https:// or localhost, and hardware acceleration";

/** Names of WebGPU's types: TypeScript declares them from 6 on, `@webgpu/types` for others; here they merge with those. */
declare global {
  interface GPUDevice {}
  interface GPUAdapterInfo {}
}

/** How an adapter is chosen; the same as WebGPU's `GPURequestAdapterOptions`. */
export interface AdapterOptions {
  readonly powerPreference?: "low-power" | "high-performance";
  readonly forceFallbackAdapter?: boolean;
  readonly featureLevel?: string;
}

const POWER: readonly unknown[] = ["low-power", "high-performance"];
const CHOOSING: Rules = {
  powerPreference: [POWER.join(" or "), (value) => POWER.includes(value)],
  forceFallbackAdapter: ["true or false", (value) => typeof value === "boolean"],
  featureLevel: ["a text", (value) => typeof value === "string"],
};

/** A WebGPU device, which several programs may share. */
export class Device {
  /** Resolves when the device is lost, to the error that every later call throws. */
  readonly lost: Promise<DeviceLostError>;
  #fault: DeviceError | undefined;

  private constructor(
    readonly gpu: GPUDevice,
    /** The adapter's vendor, architecture and subgroup sizes. */
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
   * Requests a device with the adapter's limits, and those of its features that programs may use.
   *
   * @throws {InputError} An option is unknown, or has a value that it can't have.
   * @throws {NoAdapterError} WebGPU is not available, or there is no adapter.
   * @throws {DeviceError} The adapter returns no device.
   */
  static async request(options: AdapterOptions = {}): Promise<Device> {
    const given = optionsOf("request", options, CHOOSING);
    const adapter = await globalThis.navigator?.gpu?.requestAdapter(given);
    if (!adapter) throw new NoAdapterError(NOWHERE);
    const requiredLimits = Object.fromEntries(LIMITS.map((name) => [name, adapter.limits[name]]));
    const requiredFeatures = FEATURES.filter((name) => adapter.features.has(name));
    try {
      return new Device(await adapter.requestDevice({ requiredFeatures, requiredLimits }), adapter.info);
    } catch (error) {
      throw new DeviceError(`the adapter returned no device: ${messageOf(error)}`);
    }
  }

  /** Returns the error to throw after a failed operation: the device's loss, or else what failed, and why. */
  async explained(error: unknown, doing: string): Promise<DeviceError> {
    // The loss is reported after the operations that fail because of it.
    const lost = await Promise.race([this.lost, new Promise<undefined>((resolve) => setTimeout(resolve, 50))]);
    return lost ?? new DeviceError(`${doing}: ${messageOf(error)}`);
  }

  /** @throws {DeviceError} The device is lost, or has reported an error since the last check. */
  check(): void {
    const fault = this.#fault;
    if (!fault) return;
    if (!(fault instanceof DeviceLostError)) this.#fault = undefined;
    throw fault;
  }

  /**
   * Awaits a call's result, and throws the error that the device reports meanwhile, if any.
   *
   * @param doing What the call does, for error messages.
   * @throws {DeviceError} The device reported an error, or the call threw one.
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

  /** Returns the errors that the scopes captured, or why a lost device can't return them. */
  #popScopes(): Promise<({ readonly message: string } | null)[]> {
    const popped = Promise.all([this.gpu.popErrorScope(), this.gpu.popErrorScope()]);
    return popped.catch((error: unknown) => [{ message: messageOf(error) }]);
  }

  /** Destroys the device and everything on it. */
  destroy(): void {
    this.gpu.destroy();
  }
}

/** How a file is loaded, and where it runs. */
export interface LoadOptions extends FetchOptions {
  /** The device to run on; by default, a new one. */
  readonly device?: Device | undefined;
}

const LOADING: Rules = {
  device: ["a Device, as Device.request() returns", (value) => value instanceof Device],
  ...FETCHING,
};

/** Returns options, of which the device alone may be given. @throws {InputError} One is unknown, or is no such thing. */
export function loadOptions(options: Device | LoadOptions = {}): LoadOptions {
  const isOne = options instanceof Device || kindOf(options) !== "Object"; // the rule says what it is if it is none
  return optionsOf("load", isOne ? { device: options as Device } : options, LOADING);
}

/**
 * Loads something on a device: the given one, or a new one, which is destroyed if loading fails or is canceled.
 *
 * @param load Takes the device, and the device that its result must destroy: the same one, or `null` if it was given.
 */
export async function onDevice<T extends { destroy(): void }>(
  { device: given, signal }: LoadOptions,
  load: (device: Device, owned: Device | null) => Promise<T>,
): Promise<T> {
  signal?.throwIfAborted();
  const device = given ?? (await Device.request());
  try {
    const loaded = await load(device, given ? null : device);
    if (signal?.aborted) loaded.destroy();
    signal?.throwIfAborted();
    return loaded;
  } catch (error) {
    if (!given) device.destroy();
    throw error;
  }
}
