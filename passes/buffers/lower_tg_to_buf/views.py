"""Tensors as they lie in memory: a buffer and an index map, or one number everywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from tensorgrad.dialects.tg import convolution, shape, unary
from tensorgrad.dialects.tg.base import TensorOp, int_list
from tensorgrad.dialects.tg.build import shape_of
from tensorgrad.passes.analyses import affine


@dataclass(frozen=True)
class View:
    """A tensor whose element at an index is the buffer's element at `map` of that index."""

    buffer: SSAValue
    map: AffineMap

    def through(self, inner: AffineMap, extents: Sequence[int]) -> View:
        """The view of the tensor that `inner` indexes this one by, with `extents`."""
        return View(self.buffer, affine.composed(self.map, inner, extents))


@dataclass(frozen=True)
class Splat:
    """A tensor with the same number everywhere; it needs no buffer."""

    number: float
    element: Attribute


Lowered: TypeAlias = View | Splat


def _map(rank: int, results: Sequence[AffineExpr]) -> AffineMap:
    return AffineMap(rank, 0, tuple(results))


def _reshape(op: TensorOp) -> AffineMap:
    return affine.reshape_map(op.shape, shape_of(op.operands[0]))


def _transpose(op: TensorOp) -> AffineMap:
    permutation = int_list(op.properties, "permutation")
    loops = affine.dims(len(permutation))
    return _map(len(loops), [loops[permutation.index(axis)] for axis in range(len(loops))])


def _broadcast(op: TensorOp) -> AffineMap:
    loops = affine.dims(len(op.shape))
    return _map(len(loops), [loops[axis] for axis in int_list(op.properties, "dims")])


def _slice(op: TensorOp) -> AffineMap:
    start, step = int_list(op.properties, "start"), int_list(op.properties, "step")
    loops = affine.dims(len(op.shape))
    return _map(len(loops), [loop * s + a for loop, a, s in zip(loops, start, step, strict=True)])


def _reverse(op: TensorOp) -> AffineMap:
    axes = int_list(op.properties, "axes")
    loops = affine.dims(len(op.shape))
    return _map(
        len(loops),
        [loop * -1 + (op.shape[i] - 1) if i in axes else loop for i, loop in enumerate(loops)],
    )


def _windows(op: TensorOp) -> AffineMap:
    axes, _, stride, dilation = (int_list(op.properties, name) for name in op.PROPERTIES)
    loops = affine.dims(len(op.shape))
    results, places = loops[: -len(axes)] if axes else loops, loops[len(loops) - len(axes) :]
    for axis, place, s, d in zip(axes, places, stride, dilation, strict=True):
        results[axis] = results[axis] * s + place * d
    return _map(len(loops), results)


def _identity(op: TensorOp) -> AffineMap:
    return affine.identity(len(op.shape))


VIEWS: dict[type[TensorOp], Callable[[TensorOp], AffineMap]] = {
    shape.ReshapeOp: _reshape,
    shape.TransposeOp: _transpose,
    shape.BroadcastOp: _broadcast,
    shape.SliceOp: _slice,
    shape.ReverseOp: _reverse,
    convolution.WindowsOp: _windows,
    unary.StopGradientOp: _identity,
}
"""For each op that costs nothing: the map from the result's index to the operand's."""


def viewed(op: TensorOp, operand: Lowered) -> Lowered:
    """The result of an op of `VIEWS` on a lowered operand."""
    if isinstance(operand, Splat):
        return operand
    return operand.through(VIEWS[type(op)](op), op.shape)
