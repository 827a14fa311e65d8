"""Barriers of shaders: emitted kernels have no race, and the removal of any barrier is detected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from replay import Variant, apply_as, passes_of
from xdsl.dialects.builtin import ModuleOp

import tensorgrad as tg
from tensorgrad.checks.races import check_kernel, check_races, dispatches_of
from tensorgrad.dialects import wgsl
from tensorgrad.errors import NumericsError
from tensorgrad.runtime.target import Target
from tensorgrad.tracing.tracer import trace

TARGETS = [Target.named("lavapipe"), Target.named("webgpu-default")]


def shapes(*extents: tuple[int, ...]) -> list[np.ndarray]:
    return [np.ones(extent, np.float32) for extent in extents]


def gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    return tg.grad(lambda *inputs: tg.sum(function(*inputs) ** 2), argnums=(0, 1))


def rows(x: Any, y: Any) -> Any:
    """Several reductions over one row, with work between and after them."""
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


def kernels_of(module: ModuleOp) -> Iterator[wgsl.KernelOp]:
    return (op for op in module.walk() if isinstance(op, wgsl.KernelOp))


def lowered(name: str, variant: Variant, target: Target) -> ModuleOp:
    """Returns a program's kernels."""
    function, inputs = PROGRAMS[name]
    module = trace(function, *inputs)
    for pass_ in passes_of(variant, target):
        apply_as(pass_, module, variant, target)
    return module


def without(kernel: wgsl.KernelOp, number: int) -> wgsl.KernelOp:
    """Returns the kernel without one of its barriers."""
    copy = kernel.clone()
    barrier = [op for op in copy.walk() if isinstance(op, wgsl.BarrierOp)][number]
    barrier.detach()
    barrier.erase()
    return copy


def unnoticed(module: ModuleOp) -> list[str]:
    """Returns the barriers whose removal is not detected."""
    missed: list[str] = []
    for name, dispatches in dispatches_of(module).items():
        kernel = next(candidate for candidate in kernels_of(module) if candidate.sym_name.data == name)
        count = sum(isinstance(op, wgsl.BarrierOp) for op in kernel.walk())
        for number in range(count):
            try:
                for contents in dispatches:
                    check_kernel(without(kernel, number), contents)
            except NumericsError:
                continue
            missed.append(f"{name} {number} of {count}")
    return missed


@pytest.mark.in_turns(16)
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_have_every_barrier_and_no_race(name: str, target: Target) -> None:
    module = lowered(name, Variant(), target)
    check_races(module)
    assert unnoticed(module) == []


@pytest.mark.in_turns(24, 6)
@pytest.mark.parametrize("schedules", [1, 2, 3])
@pytest.mark.parametrize("name", PROGRAMS)
def test_drawn_schedules_and_relayed_loops_have_no_race(name: str, schedules: int) -> None:
    for target in TARGETS:
        check_races(lowered(name, Variant(schedules=schedules), target))


@pytest.mark.in_turns(6, 3)
@pytest.mark.parametrize("inner", [False, True], ids=["outer", "inner"])
@pytest.mark.parametrize("name", ["row", "sort", "sums"])
def test_relayed_loops_have_no_barrier_too_many(name: str, inner: bool) -> None:
    module = lowered(name, Variant(schedules=1 + inner), TARGETS[0])
    assert any("wgsl.iterations" in kernel.attributes for kernel in kernels_of(module))
    assert unnoticed(module) == []
