"""The cost of an embedding, forward and backward: bytes, buffers and loops; one-hot rows are never stored."""

from __future__ import annotations

from typing import Any

import numpy as np
from harness import Names, apply, on_buffers, reference, traced
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.memref import AllocOp

import tensorgrad as tg
from tensorgrad.dialects.buf import DispatchOp, KernelOp, loop_extents, shape_of
from tensorgrad.passes.analyses.traffic import BYTES_MOVED
from tensorgrad.passes.buffers.fuse import FusePass
from tensorgrad.passes.buffers.lower_tg_to_buf import LowerTgToBufPass
from tensorgrad.passes.pipelines import inference_passes
from tensorgrad.passes.tensors.simplify import SimplifyPass

ROWS, WIDTH, COUNT = 50_000, 64, 4_096


def forward_and_gradient(table: Any, indices: Any, cotangent: Any) -> Any:
    value, pullback = (
        tg.embedding(table, indices),
        tg.grad(lambda t: tg.sum(tg.embedding(t, indices) * cotangent))(table),
    )
    return value, pullback


def samples() -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [
        random.normal(size=(ROWS, WIDTH)).astype(np.float32),
        random.integers(0, ROWS, COUNT).astype(np.int32),
        random.normal(size=(COUNT, WIDTH)).astype(np.float32),
    ]


def test_bytes_are_those_that_must_move() -> None:
    inputs = samples()
    module = traced(forward_and_gradient, inputs)
    for pass_ in inference_passes():
        apply(pass_, module)
    moved = 0
    for op in module.walk():
        if isinstance(op, DispatchOp):
            count = op.attributes[BYTES_MOVED]
            assert isinstance(count, IntegerAttr)
            moved += count.value.data
    # Forward: indices, their rows, the result. Backward: indices, the cotangent, the whole gradient.
    needed = 4 * (COUNT + 2 * COUNT * WIDTH + COUNT + COUNT * WIDTH + ROWS * WIDTH)
    assert moved <= 1.5 * needed


def lowered(function: Any, inputs: list[np.ndarray]) -> ModuleOp:
    module = traced(function, inputs)
    for pass_ in (SimplifyPass(), LowerTgToBufPass(), FusePass()):
        apply(pass_, module)
    return module


def test_no_buffer_and_no_loop_has_the_size_of_indices_times_rows() -> None:
    module = lowered(forward_and_gradient, samples())
    largest = ROWS * WIDTH
    for op in module.walk():
        if isinstance(op, AllocOp):
            assert np.prod(shape_of(op.memref)) <= largest
        if isinstance(op, KernelOp):
            assert all(np.prod(loop_extents(stage)) <= largest for stage in op.stages)


def test_the_gradient_is_that_of_the_reference_bit_for_bit() -> None:
    inputs = samples()
    module = traced(forward_and_gradient, inputs)
    expected, names = reference(module, inputs), Names(module)
    for pass_ in (SimplifyPass(), LowerTgToBufPass(), FusePass()):
        apply(pass_, module)
    for result, correct in zip(on_buffers(module, inputs, names), expected, strict=True):
        np.testing.assert_array_equal(result, correct)


def test_one_hot_rows_are_computed_where_they_are_multiplied_and_summed() -> None:
    indices, weights = np.arange(64, dtype=np.int32) % 50, np.ones((50, 8), np.float32)
    for function in (lambda i, w: tg.one_hot(i, 50) @ w, lambda i, w: tg.sum(tg.one_hot(i, 50), 0)):
        module = lowered(function, [indices, weights])
        assert sum(isinstance(op, KernelOp) for op in module.walk()) == 1
        assert not any(isinstance(op, AllocOp) for op in module.walk())
