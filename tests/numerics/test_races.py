"""Barriers of shaders: kernels as they are have no race, and a missing barrier is found wherever it stood."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from replay import Variant, passes_of
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

import tensorgrad as tg
from tensorgrad.dialects import wgsl
from tensorgrad.errors import NumericsError
from tensorgrad.interpreters.races import check_races
from tensorgrad.passes.running import apply_pass
from tensorgrad.runtime.target import Target
from tensorgrad.tracing.tracer import trace

TARGETS = [Target.named("lavapipe"), Target.named("webgpu-default")]


def shapes(*extents: tuple[int, ...]) -> list[np.ndarray]:
    return [np.ones(one, np.float32) for one in extents]


def gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    return tg.grad(lambda *inputs: tg.sum(function(*inputs) ** 2), argnums=(0, 1))


def rows(x: Any, y: Any) -> Any:
    """Several reductions over one row, with work between them and behind."""
    return tg.softmax(x * y, axis=-1) * tg.mean(x, axis=-1, keepdims=True)


def attention(x: Any, y: Any) -> Any:
    return tg.nn.scaled_dot_product_attention(x, y, x + y, is_causal=True)


PROGRAMS: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "row": (rows, shapes((6, 700), (6, 700))),
    "row gradient": (gradients(rows), shapes((6, 700), (6, 700))),
    "staged": (lambda x, y: x @ y, shapes((96, 160), (160, 96))),
    "staged gradient": (gradients(lambda x, y: tg.tanh(x @ y)), shapes((96, 160), (160, 96))),
    "attention": (attention, shapes((1, 2, 300, 16), (1, 2, 300, 16))),
    "attention gradient": (gradients(attention), shapes((1, 2, 300, 16), (1, 2, 300, 16))),
    "sort": (lambda x, y: tg.sort(x * y), shapes((3, 600), (3, 600))),
    "sums": (lambda x, y: (tg.sum(x), tg.sum(y, axis=0)), shapes((300, 70), (300, 70))),
}

ALTERNATING = {("attention gradient", "webgpu-default"): ["attention2 0 of 4", "attention2 2 of 4"]}
"""A loop that uses two arrays in turn: the barriers around the one stand in for either of the other's."""


def kernels_of(module: ModuleOp) -> Iterator[wgsl.KernelOp]:
    return (op for op in module.walk() if isinstance(op, wgsl.KernelOp))


def lowered(name: str, variant: Variant, target: Target) -> ModuleOp:
    """A program's kernels."""
    function, inputs = PROGRAMS[name]
    module = trace(function, *inputs)
    passes = passes_of(variant, target)
    for number in range(len(passes)):
        apply_pass(passes, number, Context(), module, None)
    return module


def without(kernel: wgsl.KernelOp, number: int) -> wgsl.KernelOp:
    """The kernel without one of its barriers."""
    made = kernel.clone()
    barrier = [op for op in made.walk() if isinstance(op, wgsl.BarrierOp)][number]
    barrier.detach()
    barrier.erase()
    return made


def unnoticed(module: ModuleOp) -> list[str]:
    """The barriers that nothing is said of when one of them is gone."""
    missed: list[str] = []
    for kernel in kernels_of(module):
        count = sum(isinstance(op, wgsl.BarrierOp) for op in kernel.walk())
        for number in range(count):
            try:
                check_races([without(kernel, number)])
            except NumericsError:
                continue
            missed.append(f"{kernel.sym_name.data} {number} of {count}")
    return missed


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_have_every_barrier_and_no_race(name: str, target: Target) -> None:
    module = lowered(name, Variant(), target)
    check_races(kernels_of(module))
    assert unnoticed(module) == ALTERNATING.get((name, target.name), [])


@pytest.mark.parametrize("schedules", [1, 2, 3])
@pytest.mark.parametrize("name", PROGRAMS)
def test_drawn_schedules_and_relayed_loops_have_no_race(name: str, schedules: int) -> None:
    for target in TARGETS:
        check_races(kernels_of(lowered(name, Variant(schedules=schedules), target)))
