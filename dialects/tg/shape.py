"""Shape ops, which move or repeat elements and compute nothing. All except the last three lower to index maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def, var_operand_def
from xdsl.traits import Pure

from tensorgrad.dialects.tg.base import (
    INT_LIST,
    INTEGER,
    BinaryEvaluate,
    Evaluate,
    Moves,
    NumpyArray,
    Properties,
    Tensor,
    TensorOp,
    UnaryEvaluate,
    check_axes,
    dense,
    int_list,
    int_lists,
    int_value,
    is_splat,
    numpy_dtype,
    require,
    size_of,
    tensor,
)
from tensorgrad.dialects.tg.traits import KeepsNan, NeverOverflows, Rearrangement, View


class ShapeOp(TensorOp):
    """An op on one tensor that only moves, drops or repeats its elements."""

    operand = operand_def()
    result = result_def()
    traits = traits_def(Pure(), View())

    def fold_splat(self, values: Sequence[NumpyArray]) -> Attribute | None:
        if not values[0].size or not is_splat(values[0]) or not size_of(self.shape):
            return None
        return dense(np.broadcast_to(values[0].reshape(-1)[0], self.shape))


@irdl_op_definition
class ReshapeOp(ShapeOp):
    """The same elements in row-major order, in another shape.

    Example:
        %1 = tg.reshape %0 shape = [2, 8] : tensor<4x4xf32>
    """

    name = "tg.reshape"
    new_shape = prop_def(INT_LIST, prop_name="shape")
    traits = traits_def(Pure(), Rearrangement())
    PROPERTIES: ClassVar = ("shape",)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        shape, old = int_list(properties, "shape"), operands[0].get_shape()
        require(
            all(extent >= 0 for extent in shape) and size_of(shape) == size_of(old),
            f"cannot reshape {list(old)} ({size_of(old)} elements) to {list(shape)}",
        )
        return tensor(shape, operands[0].get_element_type())

    def prepare(self) -> UnaryEvaluate:
        shape = self.shape
        return lambda x: x.reshape(shape)

    def simplified(self) -> SSAValue | None:
        return self.operand if self.operand.type == self.type else None


@irdl_op_definition
class TransposeOp(ShapeOp):
    """Axis `i` of the result is axis `permutation[i]` of the operand.

    Example:
        %1 = tg.transpose %0 permutation = [1, 0] : tensor<4x3xf32>
    """

    name = "tg.transpose"
    permutation = prop_def(INT_LIST)
    traits = traits_def(Pure(), Rearrangement())
    PROPERTIES: ClassVar = ("permutation",)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        permutation, shape = int_list(properties, "permutation"), operands[0].get_shape()
        require(
            sorted(permutation) == list(range(len(shape))),
            f"{list(permutation)} is not a permutation of the {len(shape)} axes",
        )
        return tensor([shape[axis] for axis in permutation], operands[0].get_element_type())

    def prepare(self) -> UnaryEvaluate:
        permutation = self.permutation.get_values()
        return lambda x: x.transpose(permutation)

    def simplified(self) -> SSAValue | None:
        permutation = self.permutation.get_values()
        return self.operand if permutation == tuple(range(len(permutation))) else None


@irdl_op_definition
class BroadcastOp(ShapeOp):
    """Broadcasts: axis `i` of the operand becomes axis `dims[i]` of the result, which repeats along all other axes.

    Extents must agree, and `dims` must be increasing. This is the only op that broadcasts; its derivative is `tg.sum`.

    Example:
        %1 = tg.broadcast %0 shape = [4, 3] dims = [1] : tensor<3xf32>
    """

    name = "tg.broadcast"
    new_shape = prop_def(INT_LIST, prop_name="shape")
    dims = prop_def(INT_LIST)
    traits = traits_def(Pure(), Rearrangement())
    PROPERTIES: ClassVar = ("shape", "dims")
    REPEATS: ClassVar = True

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        shape, dims = int_list(properties, "shape"), int_list(properties, "dims")
        old = operands[0].get_shape()
        check_axes(dims, len(shape), "dims")
        require(len(dims) == len(old), f"dims {list(dims)} must name an axis for each of the {len(old)}")
        require(list(dims) == sorted(dims), f"dims {list(dims)} must be increasing")
        require(
            all(extent >= 0 for extent in shape)
            and all(shape[axis] == extent for axis, extent in zip(dims, old, strict=True)),
            f"cannot broadcast {list(old)} along dims {list(dims)} to {list(shape)}",
        )
        return tensor(shape, operands[0].get_element_type())

    def prepare(self) -> UnaryEvaluate:
        shape, view = self.shape, [1] * len(self.shape)
        kind = cast(Tensor, self.operand.type)
        dtype, step = numpy_dtype(kind), numpy_dtype(kind).itemsize
        strides = [0] * len(shape)
        for axis, extent in reversed([*zip(self.dims.get_values(), kind.get_shape(), strict=True)]):
            view[axis], strides[axis] = extent, step
            step *= extent

        def repeat(x: NumpyArray) -> NumpyArray:
            if x.flags.c_contiguous:  # known strides take a tenth of the time
                return np.ndarray(shape, dtype, x, 0, strides)
            return np.broadcast_to(x.reshape(view), shape)

        return repeat

    def is_leading(self) -> bool:
        """Returns whether the operand's axes become the result's last axes, as in NumPy's broadcasting."""
        rank, dims = len(self.shape), self.dims.get_values()
        return dims == tuple(range(rank - len(dims), rank))

    def simplified(self) -> SSAValue | None:
        return self.operand if self.operand.type == self.type else None


@irdl_op_definition
class SliceOp(ShapeOp):
    """Elements `start, start + step, …` below `stop` along each axis.

    Example:
        %1 = tg.slice %0 start = [0, 1] stop = [4, 3] step = [2, 1] : tensor<4x3xf32>
    """

    name = "tg.slice"
    start = prop_def(INT_LIST)
    stop = prop_def(INT_LIST)
    step = prop_def(INT_LIST)
    PROPERTIES: ClassVar = ("start", "stop", "step")

    @property
    def bounds(self) -> tuple[tuple[int, ...], ...]:
        """For each axis the start, stop and step."""
        return int_lists(self.start, self.stop, self.step)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        start, stop, step = (int_list(properties, name) for name in cls.PROPERTIES)
        shape = operands[0].get_shape()
        require(
            len(start) == len(stop) == len(step) == len(shape),
            f"start, stop and step must name each of the {len(shape)} axes",
        )
        for axis, extent in enumerate(shape):
            require(
                0 <= start[axis] <= stop[axis] <= extent and step[axis] > 0,
                f"slice {start[axis]}:{stop[axis]}:{step[axis]} is not within axis {axis} of extent {extent}",
            )
        extents = [-(-(b - a) // s) for a, b, s in zip(start, stop, step, strict=True)]
        return tensor(extents, operands[0].get_element_type())

    def prepare(self) -> UnaryEvaluate:
        window = (..., *map(slice, *self.bounds))
        return lambda x: x[window]

    def simplified(self) -> SSAValue | None:
        return self.operand if self.operand.type == self.type else None


@irdl_op_definition
class ReverseOp(ShapeOp):
    """Reverses the order of the elements along `axes`.

    Example:
        %1 = tg.reverse %0 axes = [0] : tensor<4x3xf32>
    """

    name = "tg.reverse"
    axes = prop_def(INT_LIST)
    traits = traits_def(Pure(), Rearrangement())
    PROPERTIES: ClassVar = ("axes",)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        check_axes(int_list(properties, "axes"), operands[0].get_num_dims(), "axes")
        return operands[0]

    def prepare(self) -> UnaryEvaluate:
        axes = self.axes.get_values()
        window = (..., *(slice(None, None, -1 if axis in axes else 1) for axis in range(len(self.shape))))
        return lambda x: x[window]


@irdl_op_definition
class PadOp(TensorOp):
    """Pads the operand with `value`: `low` before, `high` after, `interior` between adjacent elements of each axis.

    Example:
        %2 = tg.pad %0, %1 low = [1] high = [2] interior = [0] : tensor<4xf32>, tensor<f32>
    """

    name = "tg.pad"
    operand = operand_def()
    value = operand_def()
    low = prop_def(INT_LIST)
    high = prop_def(INT_LIST)
    interior = prop_def(INT_LIST)
    result = result_def()
    traits = traits_def(Pure(), NeverOverflows(), Moves(), KeepsNan(1))  # the result need not contain `value`
    PROPERTIES: ClassVar = ("low", "high", "interior")

    @property
    def amounts(self) -> tuple[tuple[int, ...], ...]:
        """For each axis the elements before the first, behind the last and between two."""
        return int_lists(self.low, self.high, self.interior)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        low, high, interior = (int_list(properties, name) for name in cls.PROPERTIES)
        operand, value = operands
        shape = operand.get_shape()
        require(
            len(low) == len(high) == len(interior) == len(shape),
            f"low, high and interior must name each of the {len(shape)} axes",
        )
        require(min((*low, *high, *interior), default=0) >= 0, "padding cannot be negative")
        require(
            value == tensor((), operand.get_element_type()),
            lambda: f"the padding value is {value}, expected a scalar of {operand.get_element_type()}",
        )
        extents = [
            a + extent + max(extent - 1, 0) * inner + b
            for a, b, inner, extent in zip(low, high, interior, shape, strict=True)
        ]
        return tensor(extents, operand.get_element_type())

    def prepare(self) -> BinaryEvaluate:
        shape, low, interior = self.shape, self.low.get_values(), self.interior.get_values()
        window = tuple(
            slice(a, a + (extent - 1) * (inner + 1) + 1 if extent else a, inner + 1)
            for a, inner, extent in zip(low, interior, cast(Tensor, self.operand.type).get_shape(), strict=True)
        )

        def surround(x: NumpyArray, value: NumpyArray) -> NumpyArray:
            result = np.full(shape, value, x.dtype)
            result[window] = x
            return result

        return surround


@irdl_op_definition
class ConcatOp(TensorOp):
    """Concatenates the operands along `axis`; all other extents must agree.

    Example:
        %2 = tg.concat %0, %1 axis = 1 : tensor<4x3xf32>, tensor<4x5xf32>   // tensor<4x8xf32>
    """

    name = "tg.concat"
    parts = var_operand_def()
    axis = prop_def(INTEGER)
    result = result_def()
    traits = traits_def(Pure(), NeverOverflows(), Moves(), KeepsNan())
    PROPERTIES: ClassVar = ("axis",)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        axis = int_value(properties, "axis")
        require(bool(operands), "needs an operand")
        first = operands[0].get_shape()
        require(0 <= axis < len(first), f"axis {axis} is out of range for rank {len(first)}")
        element = operands[0].get_element_type()
        for operand in operands:
            shape = operand.get_shape()
            other = operand.get_element_type()
            require(other == element, lambda other=other: f"operands of {element} and {other}")
            require(
                len(shape) == len(first)
                and all(a == b or i == axis for i, (a, b) in enumerate(zip(shape, first, strict=True))),
                f"operands {list(first)} and {list(shape)} must agree on every axis but {axis}",
            )
        extent = sum(operand.get_shape()[axis] for operand in operands)
        return tensor([*first[:axis], extent, *first[axis + 1 :]], element)

    def prepare(self) -> Evaluate:
        axis = self.axis.value.data

        def join(*parts: NumpyArray) -> NumpyArray:
            return np.concatenate(parts, axis)

        return join

    def simplified(self) -> SSAValue | None:
        return self.parts[0] if len(self.parts) == 1 else None


@irdl_op_definition
class PackOp(TensorOp):
    """A row of `size` elements that contains each operand, in row-major order, at its offset.

    All other elements are 0. Offsets increase, and each is a multiple of 256 bytes, at which any device can bind: so
    the operands share one arena, and packing moves nothing.

    Example:
        %2 = tg.pack %0, %1 offsets = [0, 64] size = 128 : tensor<4x3xf32>, tensor<5xf32>   // tensor<128xf32>
    """

    name = "tg.pack"
    parts = var_operand_def()
    offsets = prop_def(INT_LIST)
    size = prop_def(INTEGER)
    result = result_def()
    traits = traits_def(Pure(), NeverOverflows(), Moves(), KeepsNan())
    PROPERTIES: ClassVar = ("offsets", "size")

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        offsets, size = int_list(properties, "offsets"), int_value(properties, "size")
        require(bool(operands), "needs an operand")
        require(len(offsets) == len(operands), f"has {len(operands)} operands and {len(offsets)} offsets")
        element = operands[0].get_element_type()
        alignment = PACK_ALIGNMENT // numpy_dtype(element).itemsize
        end = 0
        for operand, offset in zip(operands, offsets, strict=True):
            other = operand.get_element_type()
            require(other == element, lambda other=other: f"operands of {element} and {other}")
            require(offset % alignment == 0, f"offset {offset} is not a multiple of {alignment}")
            require(offset >= end, f"the operand at {offset} starts before {end}, the end of the preceding one")
            end = offset + size_of(operand.get_shape())
        require(end <= size, f"size {size} is less than {end}, the end of the last operand")
        return tensor([size], element)

    def prepare(self) -> Evaluate:
        shape, dtype = self.shape, numpy_dtype(self.type)
        sizes = [cast(Tensor, part.type).element_count() for part in self.parts]
        offsets = self.offsets.get_values()
        places = [slice(offset, offset + size) for offset, size in zip(offsets, sizes, strict=True)]

        def pack(*parts: NumpyArray) -> NumpyArray:
            result = np.zeros(shape, dtype)
            for part, place in zip(parts, places, strict=True):
                result[place] = part.reshape(-1)
            return result

        return pack


PACK_ALIGNMENT = 256
"""The alignment of packed tensors in bytes: the largest alignment of bindings that WebGPU allows a device to need."""


OPS = (ReshapeOp, TransposeOp, BroadcastOp, SliceOp, ReverseOp, PadOp, ConcatOp, PackOp)
