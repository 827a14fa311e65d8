"""Builds `tg` ops. The tracer, the derivative rules and all other rewrites create ops through this class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np
from xdsl.dialects.builtin import LocationAttr, StringAttr, UnknownLoc
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tensorgrad.dialects.tg import collective, contract, convolution, index, leaves, reduce, shape
from tensorgrad.dialects.tg.base import (
    NumpyArray,
    Tensor,
    TensorOp,
    dense,
    integer,
    ints,
    numpy_dtype,
    tensor,
)
from tensorgrad.dialects.tg.elementwise import arithmetic


def type_of(value: SSAValue) -> Tensor:
    """Returns the tensor type of a value."""
    return cast(Tensor, value.type)


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """Returns the shape of a value."""
    return type_of(value).get_shape()


def element_of(value: SSAValue) -> Attribute:
    """Returns the element type of a value."""
    return type_of(value).get_element_type()


class TensorBuilder:
    """Appends `tg` ops to a block, or inserts them before an op.

    Attributes:
        location: The location of the next ops.
    """

    def __init__(self, block: Block, before: Operation | None = None, location: LocationAttr | None = None):
        self.block = block
        self.before = before
        self.location: LocationAttr = UnknownLoc() if location is None else location

    def emit(self, kind: type[TensorOp], operands: Sequence[SSAValue] = (), **properties: Attribute) -> SSAValue:
        """Creates an op of inferred type, and returns its result.

        Raises:
            VerifyException: The operands are invalid for the op.
        """
        result = kind.infer([cast(Tensor, operand.type) for operand in operands], properties)
        op = kind.create(operands=operands, result_types=[result], properties=properties, location=self.location)
        self.insert(op)
        return op.results[0]

    def insert(self, op: Operation) -> None:
        """Inserts a finished op, which keeps its location, at the insertion point."""
        if self.before is None:
            self.block.add_op(op)
        else:
            self.block.insert_op_before(op, self.before)

    # Leaves

    def constant(self, value: NumpyArray) -> SSAValue:
        """Returns a constant of an array's values."""
        return self.emit(leaves.ConstantOp, value=dense(value))

    def full(self, kind: Tensor, number: float) -> SSAValue:
        """Returns a tensor of `kind` filled with `number`."""
        return self.constant(np.broadcast_to(np.asarray(number, numpy_dtype(kind)), kind.get_shape()))

    def full_like(self, x: SSAValue, number: float) -> SSAValue:
        """Returns a tensor of `x`'s type filled with `number`."""
        return self.full(type_of(x), number)

    def iota(self, extents: Sequence[int], axis: int, element: Attribute) -> SSAValue:
        """Returns positions along `axis`."""
        return self.emit(leaves.IotaOp, shape=ints(extents), axis=integer(axis), element=element)

    # Elementwise

    def unary(self, kind: type[arithmetic.UnaryOp], x: SSAValue) -> SSAValue:
        """Returns a unary op on `x`."""
        return self.emit(kind, [x])

    def binary(self, kind: type[arithmetic.BinaryOp], x: SSAValue, y: SSAValue) -> SSAValue:
        """Returns a binary op on two values of one type."""
        return self.emit(kind, [x, y])

    def neg(self, x: SSAValue) -> SSAValue:
        """Returns `-x`."""
        return self.emit(arithmetic.NegOp, [x])

    def add(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """Returns `x + y`."""
        return self.emit(arithmetic.AddOp, [x, y])

    def sub(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """Returns `x - y`."""
        return self.emit(arithmetic.SubOp, [x, y])

    def mul(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """Returns `x * y`."""
        return self.emit(arithmetic.MulOp, [x, y])

    def div(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """Returns `x / y`."""
        return self.emit(arithmetic.DivOp, [x, y])

    def scale(self, x: SSAValue, number: float) -> SSAValue:
        """Returns `number * x`."""
        return self.mul(x, self.full_like(x, number))

    def compare(self, predicate: str, x: SSAValue, y: SSAValue) -> SSAValue:
        """Returns the booleans of `x predicate y`."""
        return self.emit(arithmetic.CompareOp, [x, y], predicate=StringAttr(predicate))

    def select(self, condition: SSAValue, on_true: SSAValue, on_false: SSAValue) -> SSAValue:
        """Returns `on_true` where `condition` holds, else `on_false`."""
        return self.emit(arithmetic.SelectOp, [condition, on_true, on_false])

    def cast(self, x: SSAValue, to: Attribute) -> SSAValue:
        """Returns `x` converted to element type `to`, or `x` itself if it has that type."""
        return x if element_of(x) == to else self.emit(arithmetic.CastOp, [x], to=to)

    # Shape

    def reshape(self, x: SSAValue, extents: Sequence[int]) -> SSAValue:
        """Returns `x` in another shape, or `x` itself if it has that shape."""
        return x if shape_of(x) == tuple(extents) else self.emit(shape.ReshapeOp, [x], shape=ints(extents))

    def transpose(self, x: SSAValue, permutation: Sequence[int]) -> SSAValue:
        """Returns `x` with its axes permuted, or `x` itself for the identity permutation."""
        if list(permutation) == list(range(len(permutation))):
            return x
        return self.emit(shape.TransposeOp, [x], permutation=ints(permutation))

    def broadcast(self, x: SSAValue, extents: Sequence[int], dims: Sequence[int]) -> SSAValue:
        """Returns `x` broadcast to `extents`, or `x` itself if it has that shape."""
        if shape_of(x) == tuple(extents):
            return x
        return self.emit(shape.BroadcastOp, [x], shape=ints(extents), dims=ints(dims))

    def broadcast_like(self, x: SSAValue, like: SSAValue, dropped: Sequence[int]) -> SSAValue:
        """Returns `x` broadcast to the shape of `like` along the axes `dropped`: the transpose of a sum over them."""
        dims = [axis for axis in range(len(shape_of(like))) if axis not in dropped]
        return self.broadcast(x, shape_of(like), dims)

    def slice(self, x: SSAValue, start: Sequence[int], stop: Sequence[int], step: Sequence[int]) -> SSAValue:
        """Returns `x[start:stop:step]`, sliced along every axis."""
        return self.emit(shape.SliceOp, [x], start=ints(start), stop=ints(stop), step=ints(step))

    def reverse(self, x: SSAValue, axes: Sequence[int]) -> SSAValue:
        """Returns `x` reversed along `axes`, or `x` itself if there are none."""
        return self.emit(shape.ReverseOp, [x], axes=ints(axes)) if axes else x

    def pad(
        self, x: SSAValue, value: SSAValue, low: Sequence[int], high: Sequence[int], interior: Sequence[int]
    ) -> SSAValue:
        """Returns `x` padded with `value`."""
        return self.emit(shape.PadOp, [x, value], low=ints(low), high=ints(high), interior=ints(interior))

    def concat(self, parts: Sequence[SSAValue], axis: int) -> SSAValue:
        """Returns tensors concatenated along `axis`."""
        return parts[0] if len(parts) == 1 else self.emit(shape.ConcatOp, parts, axis=integer(axis))

    def pack(self, parts: Sequence[SSAValue], offsets: Sequence[int], size: int) -> SSAValue:
        """Returns a row of `size` elements that contains each tensor at its offset."""
        return self.emit(shape.PackOp, parts, offsets=ints(offsets), size=integer(size))

    def part(self, x: SSAValue, offset: int, extents: Sequence[int]) -> SSAValue:
        """Returns the tensor of shape `extents` that a row contains at `offset`."""
        return self.reshape(self.slice(x, [offset], [offset + math.prod(extents)], [1]), extents)

    # Reductions, contractions, indexing

    def reduce(self, kind: type[reduce.ReduceOp], x: SSAValue, axes: Sequence[int]) -> SSAValue:
        """Returns a reduction over `axes`, or `x` itself if there are none."""
        return self.emit(kind, [x], axes=ints(axes)) if axes else x

    def sum(self, x: SSAValue, axes: Sequence[int]) -> SSAValue:
        """Returns the sum over `axes`."""
        return self.reduce(reduce.SumOp, x, axes)

    def dot_general(
        self,
        x: SSAValue,
        y: SSAValue,
        batch: tuple[Sequence[int], Sequence[int]],
        contracting: tuple[Sequence[int], Sequence[int]],
    ) -> SSAValue:
        """Returns a contraction; `batch` and `contracting` list the axes of both operands."""
        return self.emit(
            contract.DotGeneralOp,
            [x, y],
            lhs_batch=ints(batch[0]),
            rhs_batch=ints(batch[1]),
            lhs_contracting=ints(contracting[0]),
            rhs_contracting=ints(contracting[1]),
        )

    def conv(
        self,
        x: SSAValue,
        w: SSAValue,
        stride: Sequence[int],
        low: Sequence[int],
        high: Sequence[int],
        dilation: tuple[Sequence[int], Sequence[int]],
        groups: int = 1,
    ) -> SSAValue:
        """Returns a convolution; `dilation` lists those of the left and of the right operand."""
        return self.emit(
            convolution.ConvOp,
            [x, w],
            stride=ints(stride),
            low=ints(low),
            high=ints(high),
            lhs_dilation=ints(dilation[0]),
            rhs_dilation=ints(dilation[1]),
            groups=integer(groups),
        )

    def take(self, x: SSAValue, indices: SSAValue, axis: int) -> SSAValue:
        """Returns slices of `x` along `axis`."""
        return self.emit(index.TakeOp, [x, indices], axis=integer(axis))

    def scatter(self, updates: SSAValue, indices: SSAValue, axis: int, extent: int, reduction: str = "sum") -> SSAValue:
        """Returns slices of updates, reduced at their indices along `axis`; a sum is the transpose of `take`."""
        bounds = {"axis": integer(axis), "extent": integer(extent)}
        if reduction == "sum":
            return self.emit(index.ScatterAddOp, [updates, indices], **bounds)
        return self.emit(index.ScatterReduceOp, [updates, indices], **bounds, reduction=StringAttr(reduction))

    def take_along_axis(self, x: SSAValue, indices: SSAValue, axis: int) -> SSAValue:
        """Returns elements of `x` along `axis`, at an index for each position."""
        return self.emit(index.TakeAlongAxisOp, [x, indices], axis=integer(axis))

    def scatter_along_axis(
        self, updates: SSAValue, indices: SSAValue, axis: int, extent: int, reduction: str = "sum"
    ) -> SSAValue:
        """Returns updates reduced at an index for each; a sum is the transpose of `take_along_axis`."""
        bounds = {"axis": integer(axis), "extent": integer(extent)}
        if reduction == "sum":
            return self.emit(index.ScatterAddAlongAxisOp, [updates, indices], **bounds)
        return self.emit(index.ScatterReduceAlongAxisOp, [updates, indices], **bounds, reduction=StringAttr(reduction))

    # Between processes

    def all_reduce(self, x: SSAValue, size: int, reduction: str = "sum") -> SSAValue:
        """Returns `x` reduced over all processes of a group."""
        return self.emit(collective.AllReduceOp, [x], reduction=StringAttr(reduction), size=integer(size))

    def reduce_scatter(self, x: SSAValue, axis: int, size: int) -> SSAValue:
        """Returns this process's part, along `axis`, of the sum of `x` over all processes of a group."""
        return self.emit(collective.ReduceScatterOp, [x], axis=integer(axis), size=integer(size))

    def all_gather(self, x: SSAValue, axis: int, size: int) -> SSAValue:
        """Returns `x` of all processes of a group, concatenated along `axis`."""
        return self.emit(collective.AllGatherOp, [x], axis=integer(axis), size=integer(size))

    def zeros(self, extents: Sequence[int], element: Attribute) -> SSAValue:
        """Returns a tensor of zeros."""
        return self.full(tensor(extents, element), 0)
