"""The memory plans of whole programs, as the API compiles them, are certified for native code and for GPUs."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

import tensorgrad as tg
from tensorgrad.checks.certify import certify_plan
from tensorgrad.dialects.buf import ArenaOp, ViewOp
from tensorgrad.driver.compiling.recipe import passes_to_kernels
from tensorgrad.passes.buffers.plan_memory import PlanMemoryPass
from tensorgrad.runtime.target import CPU, WEBGPU_DEFAULT, Target

COARSE = replace(WEBGPU_DEFAULT, name="coarse", max_buffer_size=1 << 14, max_storage_buffer_binding_size=1 << 14)
"""A target whose workspace needs several arenas."""


@dataclass
class Certified:
    """The plans that were certified during a test.

    Attributes:
        plans: The number of plans.
        shared: The number of pairs of views of the workspace that share bytes.
    """

    plans: int = 0
    shared: int = 0


@pytest.fixture
def certified(monkeypatch: pytest.MonkeyPatch) -> Certified:
    """Certifies each plan that is made during a test, for the target that is compiled for and for `COARSE`."""
    count, rewrite = Certified(), PlanMemoryPass.rewrite

    def checked(pass_: PlanMemoryPass, ctx: Context, module: ModuleOp) -> None:
        before = module.clone()
        rewrite(pass_, ctx, module)
        certify_plan(before, module)
        other = before.clone()
        rewrite(PlanMemoryPass(COARSE), ctx, other)
        certify_plan(before, other)
        count.plans += 1
        count.shared += shared(module)

    monkeypatch.setattr(PlanMemoryPass, "rewrite", checked)
    return count


def shared(module: ModuleOp) -> int:
    """Returns the number of pairs of views of the workspace that share bytes."""
    views = [op for op in module.walk() if isinstance(op, ViewOp)]
    spans = [
        (view.arena, view.start, view.start + view.size)
        for view in views
        if isinstance(view.arena.owner, ArenaOp) and view.arena.owner.role.data == "workspace"
    ]
    return sum(
        arena is other and start < last and first < end
        for number, (arena, start, end) in enumerate(spans)
        for other, first, last in spans[:number]
    )


class Model(tg.nn.Module):
    """Layers of different widths, so that the ranges of large values are nested in those of small ones."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = [tg.nn.Linear(*pair) for pair in itertools.pairwise((6, 33, 5, 9))]
        self.norm = tg.nn.LayerNorm(9)

    def __call__(self, x: tg.Tensor) -> tg.Tensor:
        for layer in self.layers:
            x = tg.gelu(layer(x))
        return tg.softmax(self.norm(x))


def plain(model: Model, x: tg.Tensor) -> tg.Tensor:
    return tg.mean(model(x[:, 0]) ** 2)


def with_loops(model: Model, x: tg.Tensor) -> tg.Tensor:
    """A branch in a loop, whose plans are made for the whole program at once."""

    def body(carry: tg.Tensor, row: tg.Tensor) -> tuple[tg.Tensor, tg.Tensor]:
        new = tg.cond(tg.sum(row) > 0.0, lambda: tg.tanh(carry) * row, lambda: tg.exp(row - carry))
        return new, new * tg.sin(carry)

    last, rows = tg.scan(body, tg.zeros((4, 9)), tg.transpose(model(x), (1, 0, 2)))
    return tg.mean(rows**2) + tg.sum(last)


OPTIONS: dict[str, dict[str, Any]] = {
    "sgd": {"optimizer": tg.optim.sgd(0.1, momentum=0.9)},
    "clipped": {"optimizer": tg.optim.adamw(1e-2, clip_norm=0.5, weight_decay=0.1, decay="*.weight")},
    "checked": {"optimizer": tg.optim.sgd(0.1), "check_numerics": True},
    "half": {"optimizer": tg.optim.rmsprop(1e-2, centered=True), "precision": "f16"},
}
INPUTS = {"x": (4, 3, 6)}


@pytest.mark.in_turns(4)
@pytest.mark.parametrize(
    ("name", "target"),
    [("clipped", CPU), ("clipped", WEBGPU_DEFAULT), ("half", CPU), ("checked", WEBGPU_DEFAULT)],
    ids=lambda argument: argument if isinstance(argument, str) else argument.name,
)
def test_training_steps(certified: Certified, name: str, target: Target) -> None:
    plan(tg.compile(Model(), loss=plain, inputs=INPUTS, device="numpy", **OPTIONS[name]), target)
    assert certified.shared


@pytest.mark.nightly
@pytest.mark.parametrize("target", [CPU, WEBGPU_DEFAULT], ids=lambda target: target.name)
def test_loops_and_branches(certified: Certified, target: Target) -> None:
    plan(tg.compile(Model(), loss=with_loops, inputs=INPUTS, device="numpy", **OPTIONS["sgd"]), target)
    assert certified.shared


def plan(training: tg.Training[Any], target: Target) -> None:
    """Lowers a training step down to its memory plan."""
    compilation = training._compilation
    module = compilation.recipe.traced.clone()
    for pass_ in passes_to_kernels(compilation.recipe, compilation.choice, target):
        pass_.apply(Context(), module)
        if pass_.name == PlanMemoryPass.name:
            return
    raise AssertionError("there is no plan")


@pytest.mark.nightly
def test_the_programs_of_an_accumulation(certified: Certified) -> None:
    training = tg.compile(Model(), loss=plain, inputs=INPUTS, device="cpu", accumulate=2, **OPTIONS["sgd"])
    for _ in range(2):
        training.step(x=np.ones(INPUTS["x"], np.float32))
    assert certified.plans >= 2 and certified.shared


def test_other_batch_sizes_and_donated_arguments(certified: Certified) -> None:
    @tg.jit(device="cpu", donate=("x",))
    def function(x: tg.Tensor, y: tg.Tensor) -> tuple[tg.Tensor, tg.Tensor]:
        for width in (9, 40, 3):
            y = tg.tanh(y @ tg.ones((y.shape[-1], width)))
        return x + 1.0, tg.sum(y, axis=1) * tg.sum(x)

    for rows in (1, 3, 17):
        function(np.ones((rows, 40), np.float32), np.ones((rows, 5), np.float32))
    assert certified.plans == 3
