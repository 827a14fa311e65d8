"""Workload `mlp` as handwritten shaders, fused as far as possible, in twelve dispatches.

Each forward layer is one kernel with bias and relu; logits, softmax, loss and its gradient are one kernel; backward
products have the relu mask as an epilogue, and those that compute a weight's gradient have Adam as one. The products
are written for software adapters: eight lanes share rows through `subgroupBroadcast`, each with a block of outputs in
registers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import wgpu

from benchmarks.harness import Contestant

LANES = 8
ROWS, INPUTS, FIRST, SECOND, CLASSES = 256, 784, 256, 128, 10

ADAM = """
fn adam(at: u32, gradient: f32, parameter: f32) -> f32 {
  let first = 0.9 * M[at] + 0.1 * gradient;
  let second = 0.999 * V[at] + 0.001 * gradient * gradient;
  M[at] = first;
  V[at] = second;
  return parameter - 0.001 * (first * T.x) / (sqrt(second * T.y) + 1e-8);
}
"""
HEAD = """
@compute @workgroup_size({lanes}) fn main(@builtin(global_invocation_id) thread: vec3u) {{
  let row = thread.x;
  var z: array<f32, {classes}>;
  for (var j = 0u; j < {classes}u; j++) {{ z[j] = B[j]; }}
  for (var k = 0u; k < {inner}u; k++) {{
    let h = H[row * {inner}u + k];
    for (var j = 0u; j < {classes}u; j++) {{ z[j] = fma(h, W[k * {classes}u + j], z[j]); }}
  }}
  var largest = z[0];
  for (var j = 1u; j < {classes}u; j++) {{ largest = max(largest, z[j]); }}
  var total = 0.0;
  for (var j = 0u; j < {classes}u; j++) {{ total += exp(z[j] - largest); }}
  let label = u32(Y[row]);
  for (var j = 0u; j < {classes}u; j++) {{
    D[row * {classes}u + j] = (exp(z[j] - largest) / total - select(0.0, 1.0, j == label)) / {rows}.0;
  }}
  L[row] = log(total) + largest - z[label];
}}
"""
MEAN = """
@compute @workgroup_size(1) fn main() {{
  var total = 0.0;
  for (var row = 0u; row < {rows}u; row++) {{ total += L[row]; }}
  R[0] = total / {rows}.0;
}}
"""
COLUMN = """
@compute @workgroup_size({lanes}) fn main(@builtin(global_invocation_id) thread: vec3u) {{
  let at = thread.x;
  if (at >= {count}u) {{ return; }}
  var c = 0.0;
  for (var k = 0u; k < {rows}u; k++) {{ c += {term}; }}
  C[at] = adam(at, c, C[at]);
}}
"""


def _declared(names: str, written: str) -> str:
    """Returns the binding declarations: `Y` is i32, `T` holds Adam's two bias corrections, all others are f32."""
    kinds = {"Y": "array<i32>", "T": "vec2f"}
    return "\n".join(
        f"@group(0) @binding({place}) var<storage, {'read_write' if name in written else 'read'}> {name}: "
        f"{kinds.get(name, 'array<f32>')};"
        for place, name in enumerate(names)
    )


def _product(
    rows: int, columns: int, inner: int, a: tuple[int, int], b: tuple[int, int], block: tuple[int, int], store: str
) -> str:
    """Returns a kernel for `c[row, column]`, the sum over k of A times B with the given strides.

    The statement `store` stores each element `c`.
    """
    high, wide = block
    places = [(i, j) for i in range(high) for j in range(wide)]
    lines = [
        f"@compute @workgroup_size({LANES}) fn main("
        "@builtin(workgroup_id) group: vec3u, @builtin(subgroup_invocation_id) lane: u32) {",
        f"  let first_column = group.x * {wide * LANES}u + lane;",
        f"  let first_row = group.y * {high}u;",
        f"  let start = (first_row + lane % {high}u) * {a[0]}u;",
        *(f"  var c{i}_{j} = 0.0;" for i, j in places),
        f"  for (var k = 0u; k < {inner}u; k++) {{",
        f"    let mine = A[start + k * {a[1]}u];",
        *(f"    let b{j} = B[k * {b[0]}u + (first_column + {j * LANES}u) * {b[1]}u];" for j in range(wide)),
    ]
    for i in range(high):
        lines.append(f"    let a{i} = subgroupBroadcast(mine, {i}u);")
        lines.extend(f"    c{i}_{j} = fma(a{i}, b{j}, c{i}_{j});" for j in range(wide))
    lines.append("  }")
    for i, j in places:
        lines.append(
            f"  {{ let at = (first_row + {i}u) * {columns}u + first_column + {j * LANES}u; "
            f"let column = first_column + {j * LANES}u; let c = c{i}_{j}; {store} }}"
        )
    return "\n".join([*lines, "}"])


class _Step:
    """The kernels on a device, with their buffers."""

    def __init__(self, device: wgpu.GPUDevice, parameters: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]):
        self._device = device
        self._inputs = [np.ascontiguousarray(batch[name]) for name in ("x", "y")]
        self._x, self._y = (self._buffer(array.nbytes) for array in self._inputs)
        self._corrections, self._result = self._buffer(8), self._buffer(4)
        self._state: dict[str, list[wgpu.GPUBuffer]] = {}
        for path, value in parameters.items():
            self._state[path] = [self._buffer(value.nbytes) for _ in range(3)]
            device.queue.write_buffer(self._state[path][0], 0, np.ascontiguousarray(value))
        self._dispatches: list[tuple[wgpu.GPUComputePipeline, wgpu.GPUBindGroup, tuple[int, int]]] = []
        self._count = 0
        self._record()

    def _buffer(self, size: int) -> wgpu.GPUBuffer:
        usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
        return self._device.create_buffer(size=size, usage=usage)

    def _add(self, code: str, written: str, grid: tuple[int, int], **buffers: wgpu.GPUBuffer) -> None:
        text = _declared("".join(buffers), written) + (ADAM if "adam(" in code else "") + code
        module = self._device.create_shader_module(code=text)
        pipeline = self._device.create_compute_pipeline(layout="auto", compute={"module": module})
        entries = [
            {"binding": place, "resource": {"buffer": buffer, "offset": 0, "size": buffer.size}}
            for place, buffer in enumerate(buffers.values())
        ]
        group = self._device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
        self._dispatches.append((pipeline, group, grid))

    def _record(self) -> None:
        values = [[self._state[f"layers.{i}.{kind}"] for kind in ("weight", "bias")] for i in range(3)]
        (w0, b0), (w1, b1), (w2, b2) = values
        h1, h2 = self._buffer(4 * ROWS * FIRST), self._buffer(4 * ROWS * SECOND)
        dh1, dh2 = self._buffer(4 * ROWS * FIRST), self._buffer(4 * ROWS * SECOND)
        logits, losses = self._buffer(4 * ROWS * CLASSES), self._buffer(4 * ROWS)
        relu, mask = "C[at] = max(c + Z[column], 0.0);", "C[at] = select(0.0, c, H[at] > 0.0);"
        update = "C[at] = adam(at, c, C[at]);"

        def product(
            sizes: tuple[int, int, int],
            a: tuple[int, int],
            b: tuple[int, int],
            block: tuple[int, int],
            store: str,
            **buffers: wgpu.GPUBuffer,
        ) -> None:
            grid = (sizes[1] // (block[1] * LANES), sizes[0] // block[0])
            self._add(_product(*sizes, a, b, block, store), "CMV", grid, **buffers)

        def adam(state: Sequence[wgpu.GPUBuffer]) -> dict[str, wgpu.GPUBuffer]:
            return {**dict(zip("CMV", state, strict=True)), "T": self._corrections}

        def column(count: int, term: str, state: Sequence[wgpu.GPUBuffer], **buffers: wgpu.GPUBuffer) -> None:
            code = COLUMN.format(lanes=LANES, count=count, rows=ROWS, term=term)
            self._add(code, "CMV", (-(-count // LANES), 1), **buffers, **adam(state))

        product((ROWS, FIRST, INPUTS), (INPUTS, 1), (FIRST, 1), (8, 8), relu, A=self._x, B=w0[0], C=h1, Z=b0[0])
        product((ROWS, SECOND, FIRST), (FIRST, 1), (SECOND, 1), (8, 4), relu, A=h1, B=w1[0], C=h2, Z=b1[0])
        head = HEAD.format(lanes=LANES, classes=CLASSES, inner=SECOND, rows=ROWS)
        self._add(head, "DL", (ROWS // LANES, 1), H=h2, W=w2[0], B=b2[0], Y=self._y, D=logits, L=losses)
        product((ROWS, SECOND, CLASSES), (CLASSES, 1), (1, CLASSES), (8, 4), mask, A=logits, B=w2[0], C=dh2, H=h2)
        product((ROWS, FIRST, SECOND), (SECOND, 1), (1, SECOND), (8, 8), mask, A=dh2, B=w1[0], C=dh1, H=h1)
        product((INPUTS, FIRST, ROWS), (1, INPUTS), (FIRST, 1), (8, 8), update, A=self._x, B=dh1, **adam(w0))
        product((FIRST, SECOND, ROWS), (1, FIRST), (SECOND, 1), (8, 4), update, A=h1, B=dh2, **adam(w1))
        term = f"A[k * {SECOND}u + at / {CLASSES}u] * B[k * {CLASSES}u + at % {CLASSES}u]"
        column(SECOND * CLASSES, term, w2, A=h2, B=logits)
        for state, size, gradient in ((b2, CLASSES, logits), (b1, SECOND, dh2), (b0, FIRST, dh1)):
            column(size, f"B[k * {size}u + at]", state, B=gradient)
        self._add(MEAN.format(rows=ROWS), "R", (1, 1), L=losses, R=self._result)

    @property
    def dispatches(self) -> int:
        """The number of dispatches in a step."""
        return len(self._dispatches)

    def __call__(self) -> float:
        """Runs a step and returns its loss."""
        self._count += 1
        queue = self._device.queue
        corrections = [1 / (1 - 0.9**self._count), 1 / (1 - 0.999**self._count)]
        queue.write_buffer(self._corrections, 0, np.array(corrections, np.float32))
        for buffer, array in zip((self._x, self._y), self._inputs, strict=True):
            queue.write_buffer(buffer, 0, array)
        encoder = self._device.create_command_encoder()
        recording = encoder.begin_compute_pass()
        for pipeline, group, grid in self._dispatches:
            recording.set_pipeline(pipeline)
            recording.set_bind_group(0, group)
            recording.dispatch_workgroups(*grid)
        recording.end()
        queue.submit([encoder.finish()])
        return float(np.asarray(queue.read_buffer(self._result)).view(np.float32)[0])


def contestant(name: str, parameters: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> Contestant | None:
    """Returns the shaders on the adapter; `None` for another workload, or an adapter without subgroups."""
    if name != "mlp":
        return None
    adapter: Any = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
    if "subgroup" not in adapter.features:
        return None
    step = _Step(adapter.request_device_sync(required_features=["subgroup"]), parameters, batch)
    return Contestant("hand-fused shaders", step, {"dispatches": step.dispatches})
