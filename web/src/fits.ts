/** Checks whether a device has the limits and features that a program needs. */

import { type Device, type Limit } from "./device.js";
import { TargetError } from "./errors.js";
import { type Dispatch, type Kernel, dispatches } from "./plan.js";
import { type Program } from "./program.js";

/** The maximum number of a dispatch's bindings that move with iterations: each needs a dynamic offset. */
const MOST_MOVING = 4;
const AXES = ["X", "Y", "Z"] as const;
const DIRECTIVE = /(?:\s|\/\/[^\n]*\n)*enable\s([\w\s,]{1,200});/y;
const SUBGROUPS = /\b(?:subgroup(?:[A-Z]\w*|_size|_invocation_id)|quad(?:Broadcast|Swap[XYD]\w*))\b/;
const INT64 = /\b(?:[iu]64|\d+l[iu])\b/;
const ELSEWHERE = "save the program with target='webgpu-default', which every WebGPU device runs";

/** Checks that a device can run a program. @throws {TargetError} It can't; says what it lacks. */
export function checkFits(program: Program, device: Device): void {
  const { limits } = device.gpu;
  const within = (limit: Limit, value: number, where: string): void => {
    if (value > limits[limit])
      throw new TargetError(`${where}: ${value} exceeds ${limit} = ${limits[limit]} of this device`);
  };
  for (const { name, size } of program.buffers) within("maxBufferSize", size, `buffer '${name}'`);
  const outputs = program.buffers.filter(({ role }) => role === "output");
  within(
    "maxBufferSize",
    outputs.reduce((sum, { size }) => sum + size, 0),
    "a step's outputs",
  );
  for (const kernel of program.kernels) checkKernel(kernel, program, device, within);
  for (const one of dispatches(program.plan)) checkDispatch(one, limits.minStorageBufferOffsetAlignment, within);
}

type Within = (limit: Limit, value: number, where: string) => void;

function checkKernel(kernel: Kernel, program: Program, { gpu, info }: Device, within: Within): void {
  const where = `kernel '${kernel.entry}'`;
  const extents = kernel.workgroup_size;
  AXES.forEach((axis, index) => within(`maxComputeWorkgroupSize${axis}`, extents[index] as number, where));
  const invocations = extents.reduce((product, extent) => product * extent, 1);
  within("maxComputeInvocationsPerWorkgroup", invocations, where);
  within("maxComputeWorkgroupStorageSize", kernel.workgroup_storage, where);
  const enabled = enabledBy(kernel.code);
  const needs = (feature: GPUFeatureName, used: boolean): void => {
    if (used && !gpu.features.has(feature))
      throw new TargetError(`${where} uses ${feature}, which this device lacks: ${ELSEWHERE}`);
  };
  needs("shader-f16", enabled.has("f16"));
  if (INT64.test(kernel.code)) {
    throw new TargetError(`${where} uses 64-bit integers, which browsers don't support: ${ELSEWHERE}`);
  }
  if (!SUBGROUPS.test(kernel.code)) return;
  needs("subgroups", true);
  if (!enabled.has("subgroups")) {
    throw new TargetError(`${where} uses subgroups without 'enable subgroups;', which browsers require: ${ELSEWHERE}`);
  }
  const size = program.target?.subgroup_size ?? null;
  if (size !== null && (size !== info.subgroupMinSize || size !== info.subgroupMaxSize)) {
    const there = `${info.subgroupMinSize} to ${info.subgroupMaxSize}`;
    throw new TargetError(
      `program '${program.name}' was compiled for subgroups of ${size}, this device has ${there}: ${ELSEWHERE}`,
    );
  }
}

/** Returns the extensions that a shader's `enable` directives name; directives precede all other code. */
function enabledBy(code: string): Set<string> {
  const names = new Set<string>();
  DIRECTIVE.lastIndex = 0;
  for (let found = DIRECTIVE.exec(code); found; found = DIRECTIVE.exec(code)) {
    for (const name of (found[1] as string).split(",")) names.add(name.trim());
  }
  return names;
}

function checkDispatch(one: Dispatch, alignment: number, within: Within): void {
  const where = `dispatch '${one.label}'`;
  within("maxStorageBuffersPerShaderStage", one.bindings.length, `${where}: its bindings`);
  for (const extent of one.workgroups) within("maxComputeWorkgroupsPerDimension", extent, `${where}: workgroups`);
  const moving = one.bindings.filter(({ strides }) => strides.length).length;
  if (moving > MOST_MOVING)
    throw new TargetError(`${where}: ${moving} bindings move with iterations, devices take ${MOST_MOVING}`);
  one.bindings.forEach(({ size, offset, strides }, index) => {
    within("maxStorageBufferBindingSize", size, `${where}, binding ${index}`);
    const odd = [offset, ...strides].find((bytes) => bytes % alignment);
    if (odd !== undefined) {
      throw new TargetError(
        `${where}, binding ${index}: offset ${odd} is not a multiple of this device's ${alignment} bytes`,
      );
    }
  });
}
