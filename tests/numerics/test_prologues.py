"""Contractions with prologues: values on the device, for software adapters and GPUs, at odd sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scheduled import GPU, RNG, SOFTWARE, floats, on_device
from xdsl.passes import ModulePass

import tensorgrad as tg
from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.schedule import ScheduleAttr
from tensorgrad.passes import pipelines
from tensorgrad.passes.analyses.kinds import contraction_of
from tensorgrad.passes.buffers.fuse import FusePass
from tensorgrad.passes.codegen.choose import neighbours
from tensorgrad.runtime.target import Target
from tensorgrad.runtime.webgpu import WebGPUDevice


def indices(below: int, *shape: int) -> np.ndarray:
    return RNG.integers(0, below, shape).astype(np.int32)


def both_sides(x: Any, w: Any) -> Any:
    """A prologue that maps zero to one: elements beyond an edge must not count."""
    return tg.exp(x) @ (tg.relu(w) + 1.0)


def masked(x: Any, m: Any, w: Any) -> Any:
    return tg.where(m > 0.5, tg.relu(x) * 2.0, 0.25) @ w


def normalized(x: Any, gain: Any, shift: Any, w: Any) -> Any:
    centred = x - tg.mean(x, axis=-1, keepdims=True)
    scale = tg.rsqrt(tg.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)
    return (centred * scale * gain + shift) @ w


def of_one_hot(i: Any, w: Any) -> Any:
    return tg.one_hot(i, w.shape[0]) @ w


def against_one_hot(g: Any, i: Any) -> Any:
    return tg.one_hot(i, 11).T @ g


def cast(i: Any, w: Any) -> Any:
    return (tg.cast(i, "f32") * 0.125) @ w


def gathered(t: Any, i: Any, w: Any) -> Any:
    return (tg.take(t, i) * 0.5 + 1.0) @ w


def batched(x: Any, m: Any, w: Any) -> Any:
    """One mask for the whole batch."""
    return (x * tg.sigmoid(m)) @ (w + 1.0)


def convolved(x: Any, w: Any) -> Any:
    """Padding stays zero, whatever the prologue would make of zeros."""
    return tg.relu(tg.conv2d(tg.exp(x), w * w + 1.0, padding=1, stride=2))


def weights(x: Any, w: Any) -> Any:
    return tg.grad(lambda v: tg.sum(tg.conv2d(tg.tanh(x) + 1.0, v, padding=1) ** 2))(w)


def squared(x: Any) -> Any:
    """Both operands read the same buffer."""
    y = tg.relu(x) + 0.5
    return y @ y.T


def triangular(x: Any) -> Any:
    """An operand computed from indices alone."""
    n = x.shape[0]
    i, k = tg.arange(n), tg.arange(n)
    return tg.cast(k[None, :] <= i[:, None], "f32") @ x


FORMS: dict[str, tuple[Callable[..., Any], Callable[[], list[np.ndarray]]]] = {
    "both sides": (both_sides, lambda: [floats(67, 45), floats(45, 70)]),
    "both sides, aligned": (both_sides, lambda: [floats(64, 32), floats(32, 64)]),
    "masked": (masked, lambda: [floats(45, 132), RNG.random((45, 132)).astype(np.float32), floats(132, 75)]),
    "masked, aligned": (masked, lambda: [floats(33, 64), RNG.random((33, 64)).astype(np.float32), floats(64, 9)]),
    "normalized": (normalized, lambda: [floats(35, 52), floats(52), floats(52), floats(52, 71)]),
    "of one-hot": (of_one_hot, lambda: [indices(37, 50), floats(37, 66)]),
    "against one-hot": (against_one_hot, lambda: [floats(133, 35), indices(11, 133)]),
    "cast": (cast, lambda: [indices(99, 34, 61), floats(61, 40)]),
    "gathered": (gathered, lambda: [floats(19, 44), indices(19, 70), floats(44, 38)]),
    "batched": (batched, lambda: [floats(3, 17, 39), floats(17, 39), floats(3, 39, 20)]),
    "convolved": (convolved, lambda: [floats(3, 5, 11, 13), floats(7, 5, 3, 3)]),
    "gradient of weights": (weights, lambda: [floats(2, 3, 9, 7), floats(5, 3, 3, 3)]),
    "squared": (squared, lambda: [floats(43, 37)]),
    "triangular": (triangular, lambda: [floats(51, 36)]),
}


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes prologues fuse wherever possible, regardless of their cost."""
    passes = pipelines.device_passes

    def forced(*args: Any, **options: Any) -> list[ModulePass]:
        planned = passes(*args, **options)
        return [replace(pass_, all_prologues=True) if isinstance(pass_, FusePass) else pass_ for pass_ in planned]

    monkeypatch.setattr(pipelines, "device_passes", forced)


def agree(results: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for result, correct in zip(results, expected, strict=True):
        scale = max(1.0, float(np.abs(correct).max()))
        np.testing.assert_allclose(result, correct, rtol=2e-5, atol=2e-5 * scale)


@pytest.mark.in_turns(3)
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("target", [SOFTWARE, GPU], ids=lambda target: target.name)
@pytest.mark.parametrize("form", FORMS)
def test_operands_are_computed(device: WebGPUDevice, target: Target, form: str) -> None:
    function, inputs = FORMS[form]
    archetypes, results, expected = on_device(device, function, inputs(), target)
    assert archetypes["contraction"] == 1 + (form == "gradient of weights"), archetypes
    assert archetypes["thread"] + archetypes["group"] == (form == "normalized"), archetypes
    agree(results, expected)


@pytest.mark.in_turns(10, 5)
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("target", [SOFTWARE, GPU], ids=lambda target: target.name)
@pytest.mark.parametrize("form", ["both sides", "normalized", "of one-hot", "gathered", "convolved"])
def test_under_every_schedule_nearby(device: WebGPUDevice, target: Target, form: str) -> None:
    """Blocks, chunks in workgroup memory, broadcasts and unrolling that the tuner would try."""
    function, make = FORMS[form]
    inputs, tried, count = make(), 0, 1
    while tried < count:

        def change(kernel: KernelOp, number: int = tried) -> None:
            nonlocal count
            if contraction_of(kernel) is not None and kernel.schedule is not None:
                near = neighbours(kernel.schedule.data, kernel, target)
                count = len(near)
                kernel.schedule = ScheduleAttr(near[number])

        _, results, expected = on_device(device, function, inputs, target, change)
        agree(results, expected)
        tried += 1
    assert tried > 5


def by_repeated(w: Any, x: Any) -> Any:
    return w @ (tg.broadcast_to(x, (w.shape[1], x.shape[0])) + 1.0)


def repeated_by(x: Any, w: Any) -> Any:
    return (tg.broadcast_to(x, (5, x.shape[0])) + 1.0) @ w.T


def learned_first_state(h: Any, w: Any) -> Any:
    return tg.grad(lambda v: tg.sum(((tg.broadcast_to(tg.tanh(v), (8, v.shape[0])) + 1.0) @ w) ** 2))(h)


def running_sums_of_repeated(x: Any) -> Any:
    rows = tg.take(x, [0, 0])
    return tg.sum(rows), tg.cumsum(rows, 0)


NOTHING_TO_REUSE: dict[str, tuple[Callable[..., Any], Callable[[], list[np.ndarray]]]] = {
    "by repeated": (by_repeated, lambda: [floats(3, 4), floats(5)]),
    "by one repeated": (by_repeated, lambda: [floats(3, 4), floats(1)]),
    "repeated by": (repeated_by, lambda: [floats(4), floats(3, 4)]),
    "learned first state": (learned_first_state, lambda: [floats(5), floats(5, 3)]),
    "running sums of repeated": (running_sums_of_repeated, lambda: [floats(2, 3)]),
}
"""Contractions one of whose operands is computed from values that are the same for all rows, or all columns."""


@pytest.mark.parametrize("target", [SOFTWARE, GPU], ids=lambda target: target.name)
@pytest.mark.parametrize("form", NOTHING_TO_REUSE)
def test_contractions_stay_contractions(device: WebGPUDevice, target: Target, form: str) -> None:
    function, inputs = NOTHING_TO_REUSE[form]
    archetypes, results, expected = on_device(device, function, inputs(), target)
    assert (archetypes["contraction"] > 0) == (form != "by one repeated"), archetypes
    agree(results, expected)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("target", [SOFTWARE, GPU], ids=lambda target: target.name)
@pytest.mark.parametrize("form", NOTHING_TO_REUSE)
def test_contractions_may_end_as_rows(device: WebGPUDevice, target: Target, form: str) -> None:
    function, inputs = NOTHING_TO_REUSE[form]
    _, results, expected = on_device(device, function, inputs(), target)
    agree(results, expected)
