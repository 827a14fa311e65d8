"""Programs with loops and indirect dispatches: validation, files, and execution."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorgrad.runtime.errors import ProgramError, TargetError
from tensorgrad.runtime.program import (
    Binding,
    Buffer,
    Copy,
    Dispatch,
    Kernel,
    Program,
    Repeat,
    TensorSlot,
    runs,
    unrolled,
)
from tensorgrad.runtime.target import Target
from tensorgrad.runtime.webgpu import WebGPUDevice, WebGPUExecutable

ADD = """
@group(0) @binding(0) var<storage, read> row: array<f32>;
@group(0) @binding(1) var<storage, read_write> total: array<f32>;
@compute @workgroup_size(1)
fn add() { total[0] = 2.0 * total[0] + row[0]; }
"""

DECIDE = """
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> groups: array<u32>;
@compute @workgroup_size(1)
fn decide() {
  for (var i = 0u; i < 3u; i++) { groups[i] = select(0u, 1u, x[0] > 0.0); groups[i + 3u] = 1u - groups[i]; }
}
"""

X, WORK, OUT, GROUPS = range(4)
ROW = 256


def add(*strides: int, **changes: Any) -> Dispatch:
    row = Binding(X, 0, 4, "read", strides)
    return dataclasses.replace(Dispatch(0, (row, Binding(WORK, 0, 4, "read_write")), (1, 1, 1), "add"), **changes)


def program(*plan: Any) -> Program:
    return Program(
        name="loops",
        kernels=(Kernel("wgsl", "add", ADD, (1, 1, 1)), Kernel("wgsl", "decide", DECIDE, (1, 1, 1))),
        buffers=(
            Buffer("inputs", 6 * ROW, "input"),
            Buffer("work", 4, "workspace"),
            Buffer("outputs", 4, "output"),
            Buffer("groups", 24, "workspace"),
        ),
        tensors=(
            TensorSlot("x", "input", (6, 64), "f32", X, 0),
            TensorSlot("total", "output", (), "f32", OUT, 0),
        ),
        plan=(*plan, Copy(WORK, 0, OUT, 0, 4)),
        target=Target.named("webgpu-default"),
    )


LOOPS = program(Repeat(2, (Repeat(3, (add(3 * ROW, ROW),)), add(0))), add())

MALFORMED = [
    (program(Repeat(0, (add(ROW),))), r"plan\[0\], count: expected a positive integer, got 0"),
    (
        program(Repeat(2, (Repeat(-1, (add(0, 0),)),))),
        r"plan\[0\], steps\[0\], count: expected a positive integer, got -1",
    ),
    (program(add(ROW)), "binding 0 moves in 1 of 0 loops"),
    (program(Repeat(2, (add(ROW, ROW),))), "binding 0 moves in 2 of 1 loops"),
    (program(Repeat(2, (add(-ROW),))), "strides"),
    (program(Repeat(2, (add(2),))), "strides"),
    (program(Repeat(8, (add(ROW),))), "bytes 0 to 1796 of buffer 'inputs', which has 1536"),
    (program(Repeat(2, (add(bindings=(Binding(WORK, 0, 4, "read_write", (0,)),)),))), "moves and is written"),
    (program(add(indirect=(GROUPS, 16))), "numbers of workgroups: bytes 16 to 28 of buffer 'groups'"),
    (program(add(indirect=(WORK, 0))), "numbers of workgroups: bytes 0 to 12 of buffer 'work'"),
    (program(add(indirect=(9, 0))), "there is no buffer 9"),
    (program(add(indirect=(X, 0))), "binds its own numbers of workgroups"),
]


@pytest.mark.parametrize(("malformed", "message"), MALFORMED, ids=range(len(MALFORMED)))
def test_malformed(malformed: Program, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        malformed.validate()


def test_limits() -> None:
    target = Target.named("webgpu-default")
    LOOPS.check_fits(target)
    with pytest.raises(TargetError, match="offset 128 is not a multiple of the 256 bytes"):
        program(Repeat(2, (add(128),))).check_fits(target)
    moving = tuple(Binding(X, 0, 4, "read", (ROW,)) for _ in range(5))
    with pytest.raises(TargetError, match="5 bindings move with iterations, devices take 4"):
        program(Repeat(2, (add(bindings=moving),))).check_fits(target)


def test_order() -> None:
    assert [counts for _, counts in runs(LOOPS.plan)] == [(2, 3), (2,), (), ()]
    assert [times for _, times in unrolled(LOOPS.plan)] == [
        *[(0, 0), (0, 1), (0, 2), (0,)],
        *[(1, 0), (1, 1), (1, 2), (1,)],
        *[(), ()],
    ]


@pytest.mark.usefixtures("encoder")
def test_loops_run(device: WebGPUDevice, tmp_path: Path) -> None:
    LOOPS.save(tmp_path / "loops.safetensors")
    loaded, _ = Program.load(tmp_path / "loops.safetensors")
    assert loaded.plan == LOOPS.plan
    executable = WebGPUExecutable(loaded, device)
    x = np.random.default_rng(0).integers(0, 9, (6, 64)).astype(np.float32)
    total = 0.0
    for row in (0, 1, 2, 0, 3, 4, 5, 0, 0):
        total = 2 * total + float(x[row, 0])
    assert float(executable.step({"x": x}, {})["total"]) == total
    counts = executable.statistics()
    assert (counts["dispatches"], counts["copies"], counts["kernels"], counts["submits"]) == (9, 1, 1, 1)


@pytest.mark.usefixtures("encoder")
def test_copies_in_loops(device: WebGPUDevice) -> None:
    """A copy in a loop only splits the loop's compute pass."""
    copy = Copy(X, ROW, WORK, 0, 4)
    executable = WebGPUExecutable(program(Repeat(3, (add(ROW), copy, add(0)))), device)
    x = np.arange(6 * 64, dtype=np.float32).reshape(6, 64)
    assert float(executable.step({"x": x}, {})["total"]) == 2 * x[1, 0] + x[0, 0]
    assert executable.statistics()["copies"] == 4


@pytest.mark.usefixtures("encoder")
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_indirect(device: WebGPUDevice, sign: float) -> None:
    decide = Dispatch(1, (Binding(X, 0, 4, "read"), Binding(GROUPS, 0, 24, "read_write")), (1, 1, 1), "decide")
    other = (Binding(X, ROW, 4, "read"), Binding(WORK, 0, 4, "read_write"))
    plan = program(decide, add(indirect=(GROUPS, 0)), add(indirect=(GROUPS, 12), bindings=other))
    x = np.ones((6, 64), np.float32) * np.arange(1, 7, dtype=np.float32)[:, None] * sign
    assert float(WebGPUExecutable(plan, device).step({"x": x}, {})["total"]) == (1.0 if sign > 0 else -2.0)
