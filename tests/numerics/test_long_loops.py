"""Loops beyond the device's iteration limit: every archetype compared with numpy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from draws import generator
from scheduled import GPU, SOFTWARE, on_device
from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

import tensorgrad as tg
from tensorgrad.dialects import wgsl
from tensorgrad.passes import pipelines
from tensorgrad.passes.analyses.trips import ITERATIONS, kernel_iterations
from tensorgrad.passes.codegen.build_program import build_program
from tensorgrad.passes.codegen.wgsl.emit_wgsl import emit_module
from tensorgrad.passes.codegen.wgsl.relay_loops import RelayLoopsPass
from tensorgrad.passes.pipelines import inference_passes
from tensorgrad.runtime.errors import TargetError
from tensorgrad.runtime.target import Target
from tensorgrad.runtime.webgpu import WebGPUDevice
from tensorgrad.tracing.dtypes import Spec

LIMIT = 65535
LONG = 100_000
RNG = generator(5)


def small(*shape: int) -> np.ndarray:
    """Returns floats whose sums are exact in any order."""
    return RNG.integers(-3, 4, shape).astype(np.float32)


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.int32)


def scattered(i: Any) -> Any:
    return tg.zeros((3,)).at[i].add(1.0)


def of_embedding(table: Any, i: Any) -> Any:
    return tg.grad(lambda t: tg.sum(tg.take(t, i)))(table)


def of_take_along(x: Any, i: Any) -> Any:
    return tg.grad(lambda v: tg.sum(tg.take_along_axis(v, i, axis=1)))(x)


def squares_of_counts(i: Any) -> Any:
    """A reduction whose points each sum a segment; in total there are as many iterations as indices."""
    return tg.sum(tg.zeros((10_000,)).at[i].add(1.0) ** 2)


def repeated(x: Any) -> Any:
    return tg.scan(lambda c, _: (c + 1, None), x, length=70_000)[0]


def centred(x: Any) -> Any:
    return x - tg.max(x, axis=1, keepdims=True)


def attention(q: Any, k: Any, v: Any) -> Any:
    return tg.softmax(q @ tg.swapaxes(k, -1, -2) * 0.5) @ v


def of_attention(q: Any, k: Any, v: Any) -> Any:
    return tg.grad(lambda *arguments: tg.sum(attention(*arguments) ** 2), argnums=(0, 1, 2))(q, k, v)


FORMS: dict[str, tuple[Callable[..., Any], Callable[[], list[np.ndarray]]]] = {
    "segment": (scattered, lambda: [np.zeros(LONG, np.int32)]),
    "embedding": (of_embedding, lambda: [small(5, 3), np.full(LONG, 4, np.int32)]),
    "take along": (of_take_along, lambda: [small(2, 7), np.full((2, LONG), 2, np.int32)]),
    "sum over segments": (squares_of_counts, lambda: [RNG.integers(0, 10_000, LONG).astype(np.int32)]),
    "group": (tg.sum, lambda: [ones(16_777_223)]),
    "group, largest": (tg.max, lambda: [np.arange(16_777_223, dtype=np.int32)]),
    "group, smallest": (tg.min, lambda: [-np.arange(16_777_223, dtype=np.int32)]),
    "outer product": (lambda a, b: tg.sum(a[:, None] * b[None, :]), lambda: [ones(8192), ones(8192)]),
    "rows": (lambda x: tg.sum(x, axis=1), lambda: [small(40, 300_007)]),
    "rows, written": (centred, lambda: [small(40, 300_007)]),
    "columns": (lambda x: tg.sum(x, axis=0), lambda: [small(300_007, 40)]),
    "contraction": (lambda a, b: a @ b, lambda: [small(3, LONG + 3), small(LONG + 3, 5)]),
    "contraction, blocks": (lambda a, b: a @ b, lambda: [small(40, LONG + 3), small(LONG + 3, 24)]),
    "running sums": (lambda x: tg.cumsum(x, 1), lambda: [ones(3, 70_001)]),
    "sort": (tg.sort, lambda: [RNG.permutation(LONG).astype(np.int32)]),
    "repeat": (repeated, lambda: [np.zeros((), np.int32)]),
}


@pytest.mark.in_turns(16, 10)
@pytest.mark.parametrize("form", FORMS)
def test_loops_run_to_their_end(device: WebGPUDevice, form: str) -> None:
    function, inputs = FORMS[form]
    _, results, expected = on_device(device, function, inputs(), replace(SOFTWARE, max_loop_iterations=LIMIT))
    for result, correct in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, correct)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


ATTENTIONS: dict[str, tuple[Callable[..., Any], Callable[[], list[np.ndarray]]]] = {
    "over many keys": (attention, lambda: [normal(1, 4, 4), normal(1, 2 * LONG, 4), normal(1, 2 * LONG, 4)]),
    "cotangents over many keys": (
        of_attention,
        lambda: [normal(1, 4, 4), normal(1, 2 * LONG, 4), normal(1, 2 * LONG, 4)],
    ),
    "cotangents over many queries": (
        of_attention,
        lambda: [normal(1, 2 * LONG, 4), normal(1, 4, 4), normal(1, 4, 4)],
    ),
}


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("form", ATTENTIONS)
def test_attention_runs_to_its_end(device: WebGPUDevice, form: str) -> None:
    function, inputs = ATTENTIONS[form]
    archetypes, results, expected = on_device(device, function, inputs(), replace(SOFTWARE, max_loop_iterations=LIMIT))
    assert archetypes["attention"], archetypes
    for result, correct in zip(results, expected, strict=True):
        scale = float(np.abs(correct).max())
        np.testing.assert_allclose(result, correct, rtol=2e-4, atol=2e-4 * scale)


def normalized(x: Any, gain: Any) -> Any:
    centred = x - tg.mean(x, axis=-1, keepdims=True)
    return centred * tg.rsqrt(tg.mean(centred * centred, axis=-1, keepdims=True) + 1e-5) * gain


def side_by_side(x: Any, y: Any) -> Any:
    return tg.sum(x, axis=1), tg.softmax(y), tg.max(y), tg.cumsum(x, 0)


def weights(x: Any, w: Any) -> Any:
    return tg.grad(lambda v: tg.sum(tg.relu(tg.conv2d(x, v, padding=1)) ** 2))(w)


SHORT: dict[str, tuple[Callable[..., Any], Callable[[], list[np.ndarray]]]] = {
    "rows": (normalized, lambda: [normal(37, 53), normal(53)]),
    "rows, unrolled": (normalized, lambda: [normal(70, 512), normal(512)]),
    "one row": (tg.log_softmax, lambda: [normal(3, 700)]),
    "contraction": (lambda a, b, c: tg.relu(a @ b + c), lambda: [normal(45, 67), normal(67, 70), normal(70)]),
    "contraction, aligned": (lambda a, b: a @ b, lambda: [normal(64, 128), normal(128, 64)]),
    "convolution": (weights, lambda: [normal(3, 3, 9, 8), normal(5, 3, 3, 3)]),
    "attention": (attention, lambda: [normal(3, 40, 12), normal(3, 50, 12), normal(3, 50, 9)]),
    "cotangents of attention": (of_attention, lambda: [normal(2, 20, 4), normal(2, 21, 4), normal(2, 21, 3)]),
    "segments": (of_embedding, lambda: [normal(400, 3), RNG.integers(0, 400, 60).astype(np.int32)]),
    "side by side": (side_by_side, lambda: [normal(12, 31), normal(9, 17)]),
    "sort": (lambda x: tg.sort(x), lambda: [normal(5, 300)]),
    "positions": (lambda x: tg.argmax(x, axis=1), lambda: [normal(20, 77)]),
}


@pytest.mark.parametrize("inner", [False, True], ids=["outer", "inner"])
@pytest.mark.parametrize("target", [SOFTWARE, GPU], ids=lambda target: target.name)
@pytest.mark.nightly
@pytest.mark.parametrize("form", SHORT)
def test_sharing_loops_changes_no_bit(
    device: WebGPUDevice, monkeypatch: pytest.MonkeyPatch, target: Target, form: str, inner: bool
) -> None:
    function, make = SHORT[form]
    inputs = make()
    target = replace(target, max_compute_invocations_per_workgroup=1024, max_compute_workgroup_size_x=1024)
    _, alone, _ = on_device(device, function, inputs, target)
    passes, shared = pipelines.device_passes, list[ModuleOp]()

    class Forced(RelayLoopsPass):
        def apply(self, ctx: Context, op: ModuleOp) -> None:
            super().apply(ctx, op)
            shared.append(op)

    def forced(*args: Any, **options: Any) -> list[ModulePass]:
        replaced = Forced(target=target, relays=3, inner=inner)
        return [replaced if isinstance(pass_, RelayLoopsPass) else pass_ for pass_ in passes(*args, **options)]

    monkeypatch.setattr(pipelines, "device_passes", forced)
    _, together, _ = on_device(device, function, inputs, target)
    # On a GPU a row has an invocation for each element: a sort's kernels, among others, have no loop left to share.
    has_loops = any(isinstance(op, scf.ForOp) for op in shared[0].walk())
    assert any(ITERATIONS in op.attributes for op in shared[0].walk()) == has_loops
    assert has_loops or target.name != SOFTWARE.name
    for result, shared_result in zip(alone, together, strict=True):
        np.testing.assert_array_equal(result, shared_result)


def kernels_of(function: Callable[..., Any], target: Target, *specs: Spec) -> tuple[ModuleOp, list[wgsl.KernelOp]]:
    module = tg.trace(function, *specs)
    for pass_ in inference_passes(target):
        pass_.apply(Context(), module)
    module.verify()
    return module, [op for op in module.walk() if isinstance(op, wgsl.KernelOp)]


@pytest.mark.nightly
def test_short_loops_stay_as_they_are() -> None:
    """Loops with provably few iterations, including computed trip counts, have the same code as without a limit."""
    table, index = Spec((50, 8), np.dtype(np.float32)), Spec((60_000,), np.dtype(np.int32))
    for function, specs in ((of_embedding, (table, index)), (normalized, (table, Spec((8,), np.dtype(np.float32))))):
        limited, kernels = kernels_of(function, SOFTWARE, *specs)
        unlimited, _ = kernels_of(function, replace(SOFTWARE, max_loop_iterations=None), *specs)
        assert emit_module(limited) == emit_module(unlimited)
        assert not any(ITERATIONS in kernel.attributes for kernel in kernels)


@pytest.mark.nightly
def test_programs_say_how_long_their_loops_are(device: WebGPUDevice) -> None:
    """A device that would end its loops refuses a program for any device; one compiled for it runs."""
    assert device.target.max_loop_iterations == LIMIT
    index = Spec((LONG,), np.dtype(np.int32))
    for target, fits in ((replace(SOFTWARE, max_loop_iterations=None), False), (SOFTWARE, True)):
        module, kernels = kernels_of(scattered, target, index)
        program = build_program(module, target)
        assert program.statistics["loop_iterations"] == max(map(kernel_iterations, kernels))
        assert (program.statistics["loop_iterations"] <= LIMIT) == fits
        if fits:
            program.check_fits(SOFTWARE)
        else:
            most = program.statistics["loop_iterations"]
            with pytest.raises(TargetError, match=rf"up to {most} iterations .* after 65535: compile it for"):
                program.check_fits(SOFTWARE)
