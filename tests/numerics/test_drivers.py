"""A check for each row of the table of driver limits in docs/reference/drivers.md."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from arithmetic import flushes_subnormals
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

import tensorgrad as tg
from tensorgrad.dialects import wgsl
from tensorgrad.passes.analyses.machine import DEEPEST_NESTING
from tensorgrad.passes.analyses.trips import kernel_iterations
from tensorgrad.passes.codegen.wgsl.emit_wgsl import emit_module
from tensorgrad.passes.pipelines import inference_passes
from tensorgrad.runtime.errors import ProgramError, TargetError
from tensorgrad.runtime.program import LOOP_ITERATIONS, Program
from tensorgrad.runtime.target import Target
from tensorgrad.runtime.webgpu import WebGPUDevice
from tensorgrad.runtime.webgpu.device import LOOP_PROBE
from tensorgrad.tracing.dtypes import Spec

MESA = Target.named("lavapipe")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "drivers.md"
LEAST, MOST = -(2**31), 2**31 - 1


def rows() -> list[str]:
    """Returns the first cells of the table under "Limits of drivers"."""
    section = PAGE.read_text(encoding="utf-8").split("## Limits of drivers")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [line.split("|")[1].strip() for line in lines[1:]]


def same(function: Callable[..., Any], *inputs: np.ndarray) -> np.ndarray:
    """Asserts that the device's results equal the reference's, bit for bit, and returns them."""
    actual, expected = (np.asarray(tg.jit(function, device=device)(*inputs)) for device in ("wgpu", "numpy"))
    np.testing.assert_array_equal(actual, expected)
    if expected.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(actual), np.signbit(expected))
    return actual


def compiled(function: Callable[..., Any], target: str | Target, *shapes: tuple[int, ...]) -> ModuleOp:
    module = tg.trace(function, *[Spec(shape, np.dtype(np.float32)) for shape in shapes])
    for pass_ in inference_passes(target if isinstance(target, Target) else Target.from_spec(target)):
        pass_.apply(Context(), module)
    return module


def iterations(device: WebGPUDevice) -> None:
    """A device has Mesa's limit, or none."""
    limit = device.target.max_loop_iterations
    if limit is None:
        assert device.info.type == "hardware"
        trips = 200_000
        assert device.probe("a loop", LOOP_PROBE.format(trips=trips)) == trips
        return
    assert limit == MESA.max_loop_iterations
    for trips in (limit, limit + 1, 3 * limit):
        assert device.probe("a loop", LOOP_PROBE.format(trips=trips)) == limit
    # Other loops count too.
    nested = LOOP_PROBE.replace("count += 1u", "for (var k = zero; k < 300u; k += 1u) {{ count += 1u; }} count += 0u")
    assert device.probe("loops", nested.format(trips=1000)) < limit
    kernels = [op for op in compiled(tg.sum, device.target, (2**23,)).walk() if isinstance(op, wgsl.KernelOp)]
    assert all(kernel_iterations(kernel) <= limit for kernel in kernels)


def programs(device: WebGPUDevice) -> None:
    program = Program("f", (), (), (), (), statistics={LOOP_ITERATIONS: 65536})
    program.check_fits(Target.named("webgpu-default"))
    with pytest.raises(TargetError, match="compile it for this target"):
        program.check_fits(MESA)


def conditions(device: WebGPUDevice) -> None:
    def nested(depth: int) -> str:
        tests = "".join(f"if (result[0] < {number + 1000}u) {{ result[0] += 1u; " for number in range(depth))
        body = f"{tests} if (result[0] == 0u) {{ result[0] = 7u; }} {'}' * depth}"
        binding = "@group(0) @binding(0) var<storage, read_write> result: array<u32>;"
        return f"{binding} @compute @workgroup_size(1) fn probe() {{ {body} }}"

    assert device.probe("conditions", nested(DEEPEST_NESTING)) == DEEPEST_NESTING
    assert device.probe("conditions", nested(90)) == (7 if device.info.type == "software" else 90)

    def shifted(x: Any) -> Any:
        for _ in range(90):
            x = tg.concat([x[1:], tg.zeros((1,))])
        return x

    text, depth, deepest = emit_module(compiled(shifted, "lavapipe", (300,))), 0, 0
    for character in text:
        depth += (character == "{") - (character == "}")
        deepest = max(deepest, depth)
    assert 20 < deepest <= DEEPEST_NESTING + 1


def workgroups(device: WebGPUDevice) -> None:
    assert device.target.max_compute_workgroups_per_dimension == 65535
    x = np.arange(2**22 + 3, dtype=np.int32)
    np.testing.assert_array_equal(same(lambda x: tg.cumsum(x, 0)[::-1] * 2, x), np.cumsum(x, dtype=np.int32)[::-1] * 2)


def bindings(device: WebGPUDevice) -> None:
    most = device.target.max_storage_buffer_binding_size
    assert most == 2**27 or device.info.type == "hardware"
    x = np.arange(2**25 + 4, dtype=np.int32)  # a little more than 128 MiB
    np.testing.assert_array_equal(tg.jit(lambda x: x[::-1] + 1, device="wgpu")(x), x[::-1] + 1)


def indices(device: WebGPUDevice) -> None:
    def product(a: Any) -> Any:
        return tg.max(a[:, None, None] * a[None, :, None] * a[None, None, :])

    for target in ("webgpu-default", "lavapipe"):
        with pytest.raises(Exception, match="reduces 8036054027 values at a point, more than indices of 32 bits"):
            compiled(product, target, (2003,))


def division(device: WebGPUDevice) -> None:
    x, zero = np.array([7, -7, 0, LEAST, MOST], np.int32), np.zeros(5, np.int32)
    assert not same(lambda x, y: x // y, x, zero).any()
    assert not same(lambda x, y: x % y, x, zero).any()
    assert not same(lambda x, y: x // y, x.view(np.uint32), zero.view(np.uint32)).any()
    assert not same(lambda x, y: x % y, x.view(np.uint32), zero.view(np.uint32)).any()


def least_integer(device: WebGPUDevice) -> None:
    x, y = np.array([LEAST, LEAST, 5], np.int32), np.array([-1, 1, -1], np.int32)
    assert same(lambda x, y: x // y, x, y).tolist() == [LEAST, LEAST, -5]
    assert not same(lambda x, y: x % y, x, y).any()


def overflow(device: WebGPUDevice) -> None:
    x, y = np.array([MOST, LEAST, 123456789], np.int32), np.array([1, -1, 987654321], np.int32)
    assert same(lambda x, y: x + y, x, y)[:2].tolist() == [LEAST, MOST]
    same(lambda x, y: x * y, x, y)
    same(lambda x: tg.concat([-x, tg.abs(x)]), x)


def narrow_integers(device: WebGPUDevice) -> None:
    x = np.array([-128, 127, 100], np.int8)
    assert same(lambda x: x + x, x).tolist() == [0, -2, -56]
    assert same(lambda x: x * x, x.view(np.uint8)).dtype == np.uint8


def wide_integers(device: WebGPUDevice) -> None:
    x = np.array([2**62, -(2**63), 3], np.int64)
    function = tg.jit(lambda x: x + x, device="wgpu")
    if device.target.int64:
        assert np.asarray(function(tg.array(x, "i64"))).tolist() == [-(2**63), 0, 6]
        return
    with pytest.raises(ProgramError, match="has elements of i64, which"):
        function(tg.array(x, "i64"))


def shifts(device: WebGPUDevice) -> None:
    x, count = np.full(7, -123456789, np.int32), np.array([0, 1, 31, 32, 33, 64, -1], np.int32)
    assert not same(lambda x, y: x << y, x, count)[3:].any()
    assert same(lambda x, y: x >> y, x, count)[3:].tolist() == [-1] * 4
    assert not same(lambda x, y: x << y, x.view(np.uint32), count.view(np.uint32))[3:].any()
    assert not same(lambda x, y: x >> y, x.view(np.uint32), count.view(np.uint32))[3:].any()


def to_integers(device: WebGPUDevice) -> None:
    x = np.array([1.9, -1.9, 2.0**31, -(2.0**31), 1e20, -1e20, np.inf, -np.inf, np.nan, 3e9], np.float32)
    expected = [1, -1, MOST, LEAST, MOST, LEAST, MOST, LEAST, 0, MOST]
    assert same(lambda x: tg.cast(x, "i32"), x).tolist() == expected
    most = 2**32 - 1
    assert same(lambda x: tg.cast(x, "u32"), x).tolist() == [1, 0, 2**31, 0, most, 0, most, 0, 0, 3_000_000_000]


def to_floats(device: WebGPUDevice) -> None:
    x = np.array([2**24 + 1, 2**24 + 3, -(2**24) - 1, MOST, LEAST, 2**30 + 65], np.int32)
    np.testing.assert_array_equal(same(lambda x: tg.cast(x, "f32"), x), x.astype(np.float32))
    whole = np.array([2**32 - 1, 2**32 - 129, 2**31, 4000000001], np.uint32)
    np.testing.assert_array_equal(same(lambda x: tg.cast(x, "f32"), whole), whole.astype(np.float32))


def to_half(device: WebGPUDevice) -> None:
    x = np.array([65504, 65519, 65520, -1e5, 6e-8, 3e-8, 2e-8, 6.1e-5, 2049, 2051], np.float32)
    halves = same(lambda x: tg.cast(x, "f16"), x)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(halves, x.astype(np.float16))


def subnormals(device: WebGPUDevice) -> None:
    """A device keeps them all, or takes all for zeros."""
    x = np.array([1e-38, 1e-39, 1e-45, -1e-40], np.float32)
    if flushes_subnormals():
        assert device.info.type == "hardware"
        assert not np.asarray(tg.jit(lambda x: x * 0.5, device="wgpu")(x)).any()
        return
    assert same(lambda x: x * 0.5, x)[0] != 0
    same(lambda x: x + x, x)
    same(lambda x: x * x, np.array([1e-20, 1e-22], np.float32))


def two_roundings(device: WebGPUDevice) -> None:
    x, y = (np.random.default_rng(seed).standard_normal(10_000).astype(np.float32) for seed in range(2))
    if device.info.type == "software":
        same(lambda x, y: x * y + x, x, y)
        return
    actual = np.asarray(tg.jit(lambda x, y: x * y + x, device="wgpu")(x, y))
    once = (x.astype(np.float64) * y + x).astype(np.float32)  # a product of f32 is exact in f64
    assert ((actual == x * y + x) | (actual == once)).all()


def remainders(device: WebGPUDevice) -> None:
    x, y = (np.random.default_rng(seed).integers(-(2**31), 2**31, 1000).astype(np.int32) for seed in range(2))
    for divisor in (y, y % 100 - 50, np.full_like(y, -3)):
        same(lambda x, y: x % y, x, divisor)
        same(lambda x, y: x // y, x, divisor)
    same(lambda x: x % 7, x)


def quotients(device: WebGPUDevice) -> None:
    x, y = (np.random.default_rng(seed).normal(size=1000).astype(np.float32) for seed in range(2))
    np.testing.assert_allclose(np.asarray(tg.jit(lambda x, y: x / y, device="wgpu")(x, y)), x / y, rtol=3e-7)
    if device.info.type == "software":
        same(lambda x, y: x / y, x, y)
        same(lambda x, y: x / y, x, np.full_like(y, 3e38))


CHECKS: dict[str, Callable[[WebGPUDevice], None]] = {
    "Iterations of an invocation": iterations,
    "Programs for other devices": programs,
    "Nested conditions": conditions,
    "Workgroups in a dimension": workgroups,
    "Bytes of a binding": bindings,
    "Indices": indices,
    "Integer division by zero": division,
    "The smallest integer divided by -1": least_integer,
    "Remainders of negative integers": remainders,
    "Integer overflow": overflow,
    "Integers of 8 and 16 bits": narrow_integers,
    "Integers of 64 bits": wide_integers,
    "Shifts by the width or more": shifts,
    "Floats to integers": to_integers,
    "Integers to floats": to_floats,
    "Floats to half floats": to_half,
    "Subnormal numbers": subnormals,
    "Quotients": quotients,
    "Products and sums": two_roundings,
}


@pytest.mark.in_turns(4, 1)
@pytest.mark.parametrize("row", rows())
def test_limits(device: WebGPUDevice, row: str) -> None:
    CHECKS[row](device)


def test_every_check_has_a_row() -> None:
    assert rows() == list(CHECKS)
