"""Hand-written programs that tests of the runtime share."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tensorgrad.runtime.program import Binding, Buffer, Copy, Dispatch, Kernel, Program, TensorSlot
from tensorgrad.runtime.target import Target

SIZE = 5

UPDATE = """
@group(0) @binding(0) var<storage, read_write> weight: array<f32>;
@group(0) @binding(1) var<storage, read> bias: array<f32>;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@group(0) @binding(3) var<storage, read> mask: array<u32>;
@group(0) @binding(4) var<storage, read> scalars: array<f32>;
@group(0) @binding(5) var<storage, read_write> y: array<f32>;
@group(0) @binding(6) var<storage, read_write> is_negative: array<u32>;
@compute @workgroup_size(8)
fn update(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = id.x;
  if (i >= arrayLength(&x)) { return; }
  let value = weight[i] * x[i] + bias[i];
  y[i] = value;
  is_negative[i] = select(0u, 1u, value < 0.0);
  if (mask[i] != 0u) { weight[i] = weight[i] - scalars[0] * x[i]; }
}
"""

COUNT = """
@group(0) @binding(0) var<storage, read_write> count: array<i32>;
@group(0) @binding(1) var<storage, read> y: array<f32>;
@group(0) @binding(2) var<storage, read_write> total: array<f32>;
@compute @workgroup_size(1)
fn count_steps() {
  count[0] = count[0] + 1;
  var sum = 0.0;
  for (var i = 0u; i < arrayLength(&y); i++) { sum = sum + y[i]; }
  total[0] = sum;
}
"""

WEIGHT, STATE, INPUTS, BIAS, WORK, OUTPUTS = range(6)
BIAS_VALUE = np.array([1, -1, 0.5, 2, -3], np.float32)


def whole(buffer: int, size: int, access: str, offset: int = 0) -> Binding:
    return Binding(buffer, offset, size, access)


def training_program() -> Program:
    """`y = weight * x + bias`, `weight -= learning_rate / 2 * x` where `mask`; counts steps, sums y, flags y < 0."""
    vector = SIZE * 4
    return Program(
        name="training",
        kernels=(Kernel("wgsl", "update", UPDATE, (8, 1, 1)), Kernel("wgsl", "count_steps", COUNT, (1, 1, 1))),
        buffers=(
            Buffer("weights", 256, "parameter"),
            Buffer("state", 512, "state"),
            Buffer("inputs", 1024, "input"),
            Buffer("bias", vector, "constant", BIAS_VALUE.tobytes()),
            Buffer("work", 256, "workspace"),
            Buffer("outputs", 1024, "output"),
        ),
        tensors=(
            TensorSlot("weight", "parameter", (SIZE,), "f32", WEIGHT, 0),
            TensorSlot("count", "state", (), "i32", STATE, 0),
            TensorSlot("frozen", "state", (3,), "bool", STATE, 256),
            TensorSlot("half", "state", (3,), "f16", STATE, 272),
            TensorSlot("empty", "state", (0, 2), "f32", STATE, 512),
            TensorSlot("x", "input", (SIZE,), "f32", INPUTS, 0),
            TensorSlot("mask", "input", (SIZE,), "bool", INPUTS, 256),
            TensorSlot("index", "input", (2,), "u32", INPUTS, 768),
            TensorSlot("rate", "scalar", (), "f32", INPUTS, 512, "learning_rate / 2"),
            TensorSlot("seed", "scalar", (), "i32", INPUTS, 516),
            TensorSlot("y", "output", (SIZE,), "f32", OUTPUTS, 0),
            TensorSlot("total", "output", (), "f32", OUTPUTS, 256),
            TensorSlot("is_negative", "output", (SIZE,), "bool", OUTPUTS, 512),
            TensorSlot("seen", "output", (2,), "u32", OUTPUTS, 768),
        ),
        plan=(
            Dispatch(
                0,
                (
                    whole(WEIGHT, vector, "read_write"),
                    whole(BIAS, vector, "read"),
                    whole(INPUTS, vector, "read"),
                    whole(INPUTS, vector, "read", 256),
                    whole(INPUTS, 8, "read", 512),
                    whole(WORK, vector, "read_write"),
                    whole(OUTPUTS, vector, "read_write", 512),
                ),
                (1, 1, 1),
                "update weight",
            ),
            Copy(WORK, 0, OUTPUTS, 0, vector),
            Copy(INPUTS, 768, OUTPUTS, 768, 8),
            Dispatch(
                1,
                (
                    whole(STATE, 4, "read_write"),
                    whole(WORK, vector, "read"),
                    whole(OUTPUTS, 4, "read_write", 256),
                ),
                (1, 1, 1),
                "count steps",
            ),
        ),
        statistics={"launches": 2, "passes": {"fuse": 0.5}},
        target=Target.named("webgpu-default"),
    )


def step_inputs(seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {
        "x": generator.normal(size=SIZE).astype(np.float32),
        "mask": generator.random(SIZE) < 0.5,
        "index": np.array([seed, 4294967295 - seed], np.uint32),
    }


SCALARS = {"learning_rate": 0.5, "seed": 3}


def expected_step(weight: np.ndarray, inputs: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the y of a step, and the weight after it."""
    y = weight * inputs["x"] + BIAS_VALUE
    updated = np.where(inputs["mask"], weight - np.float32(0.25) * inputs["x"], weight)
    return y, updated.astype(np.float32)
