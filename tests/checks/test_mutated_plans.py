"""A memory plan that overlaps any two simultaneously live buffers is detected."""

from __future__ import annotations

import itertools
from typing import Any, cast

import numpy as np
import pytest
from buffer_text import parse
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp

import tensorgrad as tg
from tensorgrad.dialects.buf import ArenaOp, KernelOp, ViewOp
from tensorgrad.interpreters.buffers import BufferExecutor
from tensorgrad.passes.analyses.graph import steps_of

MUTATIONS = 3
"""The number of pairs of buffers to try."""


class Model(tg.nn.Module):
    """Pointwise kernels, a row kernel and products, with opportunities for in-place updates and reuse."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = tg.nn.Linear(6, 12), tg.nn.LayerNorm(12), tg.nn.Linear(12, 5)

    def __call__(self, x: tg.Tensor) -> tg.Tensor:
        return self.last(tg.softmax(self.norm(tg.gelu(self.first(x)))))


def loss(model: Model, x: tg.Tensor, y: tg.Tensor) -> tg.Tensor:
    return tg.cross_entropy(model(x), y)


def values() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    return {"x": rng.standard_normal((4, 6)).astype(np.float32), "y": np.array([0, 4, 2, 1], np.int32)}


def planned() -> tuple[str, dict[str, Any]]:
    """Returns the plan of a training step as text, and its inputs."""
    training = tg.compile(
        Model(),
        loss=loss,
        optimizer=tg.optim.sgd(0.1),
        inputs={"x": tg.spec((4, 6)), "y": tg.spec((4,), "i32")},
        device="numpy",
        seed=1,
    )
    return training.module("buf"), {**training.parameters(), **values(), "learning_rate": np.float32(0.1)}


def temporaries(module: ModuleOp) -> list[ViewOp]:
    """Returns the views of the workspace."""
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    views = [op for op in function.body.block.ops if isinstance(op, ViewOp)]
    return [view for view in views if cast(ArenaOp, view.arena.owner).role.data == "workspace"]


def lifetimes(module: ModuleOp) -> list[tuple[int, int]]:
    """Returns the first and last use of each view of the workspace."""
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    steps = steps_of([op for op in function.body.block.ops if isinstance(op, KernelOp)])
    spans: list[tuple[int, int]] = []
    for view in temporaries(module):
        used = [steps[use.operation] for use in view.result.uses if isinstance(use.operation, KernelOp)]
        spans.append((min(used), max(used)))
    return spans


@pytest.mark.nightly
def test_buffers_that_share_bytes_while_both_are_needed_show() -> None:
    text, arguments = planned()
    clean = BufferExecutor(parse(text)).run(arguments)
    views, lives = temporaries(parse(text)), lifetimes(parse(text))
    pairs = [
        (i, j)
        for i, j in itertools.permutations(range(len(views)), 2)
        # A result may overwrite a buffer at its last read if the kernel reads each element before writing it.
        if lives[i][0] < lives[j][1]
        and lives[j][0] < lives[i][1]
        and views[i].arena is views[j].arena
        and views[j].start + views[i].size <= cast(ArenaOp, views[i].arena.owner).size
    ]
    assert len(pairs) >= MUTATIONS
    for i, j in pairs[:: len(pairs) // MUTATIONS]:
        module = parse(text)
        temporaries(module)[i].properties["offset"] = IntegerAttr(views[j].start, i64)
        mutated = BufferExecutor(module).run(arguments)
        same = all(np.array_equal(mutated[name], value) for name, value in clean.items())
        assert not same, f"buffers {i} and {j}, used at {lives[i]} and {lives[j]}, share bytes and nothing shows"
