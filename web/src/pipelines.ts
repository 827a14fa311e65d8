/** Compiles pipelines: each kernel of a program once for each combination of access modes and dynamic offsets. */

import { type Device } from "./device.js";
import { DeviceError, messageOf } from "./errors.js";
import { type Dispatch, type Kernel, dispatches } from "./plan.js";
import { type Program } from "./program.js";

/** A compiled kernel, and the layout of its bind groups. */
export interface Pipeline {
  readonly compiled: GPUComputePipeline;
  readonly layout: GPUBindGroupLayout;
}

/**
 * Compiles all kernels of a program in parallel, without blocking the page.
 *
 * @throws {DeviceError} A kernel doesn't compile; names it and its origin, and quotes the compiler.
 */
export async function compilePipelines(program: Program, device: Device): Promise<Map<Dispatch, Pipeline>> {
  const compiler = new Compiler(program, device);
  const compiling = dispatches(program.plan).map(async (one) => [one, await compiler.pipelineOf(one)] as const);
  return new Map(await Promise.all(compiling));
}

class Compiler {
  readonly #modules = new Map<number, GPUShaderModule>();
  readonly #layouts = new Map<string, { group: GPUBindGroupLayout; layout: GPUPipelineLayout }>();
  readonly #pipelines = new Map<string, Promise<Pipeline>>();

  constructor(
    private readonly program: Program,
    private readonly device: Device,
  ) {}

  pipelineOf(one: Dispatch): Promise<Pipeline> {
    const bindings = one.bindings.map(({ access, strides }) => `${access} ${strides.length > 0}`).join();
    const key = `${one.kernel} ${bindings}`;
    const found = this.#pipelines.get(key) ?? this.#compiled(one, bindings);
    this.#pipelines.set(key, found);
    return found;
  }

  async #compiled(one: Dispatch, bindings: string): Promise<Pipeline> {
    const kernel = this.program.kernels[one.kernel] as Kernel;
    const { gpu } = this.device;
    const { group, layout } = this.#layoutOf(one, bindings);
    const module = this.#moduleOf(one.kernel, kernel);
    try {
      const compute = { module, entryPoint: kernel.entry };
      const compiled = await gpu.createComputePipelineAsync({ label: kernel.entry, layout, compute });
      return { compiled, layout: group };
    } catch (error) {
      const said = (await module.getCompilationInfo()).messages.find(({ type }) => type === "error");
      const what = said ? `line ${said.lineNum}: ${said.message}` : messageOf(error);
      throw await this.device.explained(
        new DeviceError(what),
        `compiling kernel '${kernel.entry}' of ${one.label || this.program.name}`,
      );
    }
  }

  #moduleOf(index: number, { entry, code }: Kernel): GPUShaderModule {
    const { gpu } = this.device;
    let module = this.#modules.get(index);
    if (!module) {
      // Errors in the code are reported when the pipeline is created.
      gpu.pushErrorScope("validation");
      module = gpu.createShaderModule({ label: entry, code });
      gpu.popErrorScope().catch(() => undefined);
      this.#modules.set(index, module);
    }
    return module;
  }

  #layoutOf(one: Dispatch, key: string): { group: GPUBindGroupLayout; layout: GPUPipelineLayout } {
    const { gpu } = this.device;
    let found = this.#layouts.get(key);
    if (!found) {
      const entries = one.bindings.map(({ access, strides }, binding) => {
        const type = access === "read" ? ("read-only-storage" as const) : ("storage" as const);
        return { binding, visibility: GPUShaderStage.COMPUTE, buffer: { type, hasDynamicOffset: strides.length > 0 } };
      });
      const group = gpu.createBindGroupLayout({ entries });
      found = { group, layout: gpu.createPipelineLayout({ bindGroupLayouts: [group] }) };
      this.#layouts.set(key, found);
    }
    return found;
  }
}
