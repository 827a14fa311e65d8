"""Gathers and scatters, whose cost is what they read or write. Out-of-range indices read a fill value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from tensorgrad.dialects.tg.base import (
    ELEMENT_TYPES,
    INTEGER,
    BinaryEvaluate,
    Moves,
    NumpyArray,
    Properties,
    Tensor,
    TensorOp,
    int_value,
    is_float,
    is_integer,
    numpy_dtype,
    require,
    require_elements,
    rounding_once,
    size_of,
    tensor,
)
from tensorgrad.dialects.tg.summation import scattered
from tensorgrad.dialects.tg.traits import NeverOverflows


def _axis(properties: Properties, rank: int) -> int:
    axis = int_value(properties, "axis")
    require(0 <= axis < rank, f"axis {axis} is out of range for rank {rank}")
    return axis


def _require_indices(indices: Tensor, extent: int) -> None:
    """Requires integers of at least 32 bits that can represent an axis's extent, the first index out of range."""
    element = indices.get_element_type()
    fits = is_integer(element) and numpy_dtype(element).itemsize >= 4
    require(fits, lambda: f"indices must be integers of 32 or 64 bits, got {indices}")
    largest = int(np.iinfo(numpy_dtype(element)).max)
    require(extent <= largest, lambda: f"an axis of {extent} positions needs indices of 64 bits, got {indices}")


def _fill(dtype: np.dtype[Any]) -> float | int:
    return np.nan if is_float(ELEMENT_TYPES[dtype]) else 0


@irdl_op_definition
class TakeOp(TensorOp):
    """Reads slices of `operand` along `axis`; the indices' axes replace that axis.

    An index outside `[0, extent)` reads NaN, or 0 if the elements are not floats, and its cotangent is dropped.

    Example:
        %2 = tg.take %0, %1 axis = 0 : tensor<65x128xf32>, tensor<16x64xi32>   // tensor<16x64x128xf32>
    """

    name = "tg.take"
    operand = operand_def()
    indices = operand_def()
    axis = prop_def(INTEGER)
    result = result_def()
    traits = traits_def(Pure(), NeverOverflows(), Moves())
    PROPERTIES: ClassVar = ("axis",)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        operand, indices = operands
        shape = operand.get_shape()
        axis = _axis(properties, len(shape))
        _require_indices(indices, shape[axis])
        return tensor([*shape[:axis], *indices.get_shape(), *shape[axis + 1 :]], operand.get_element_type())

    def prepare(self) -> BinaryEvaluate:
        axis, shape, dtype = self.axis.value.data, self.shape, numpy_dtype(self.type)
        operand, indices = (cast(Tensor, value.type).get_shape() for value in self.operands)
        extent, fill = operand[axis], _fill(dtype)
        spread = (*indices, *(1 for _ in operand[axis + 1 :]))
        if not extent:
            return lambda x, indices: np.full(shape, fill, dtype)

        def take(x: NumpyArray, indices: NumpyArray) -> NumpyArray:
            inside = (indices >= 0) & (indices < extent)
            values = np.take(x, np.where(inside, indices, 0).astype(np.int64), axis)
            return np.where(inside.reshape(spread), values, fill).astype(dtype)

        return take


COMBINERS: Mapping[str, np.ufunc] = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
"""What combines the updates of an index, by the names of reductions."""


def identity_of(reduction: str, dtype: np.dtype[Any]) -> Any:
    """Returns the number that a reduction of elements of a dtype is not changed by."""
    if reduction in ("sum", "prod"):
        return int(reduction == "prod")
    if is_float(ELEMENT_TYPES[dtype]):
        return -np.inf if reduction == "max" else np.inf
    limits = np.iinfo(dtype)
    return limits.min if reduction == "max" else limits.max


def _reduction(properties: Properties) -> str:
    return cast(StringAttr, properties["reduction"]).data if "reduction" in properties else "sum"


def _check_updates(updates: Tensor, indices: Tensor, properties: Properties) -> None:
    """Requires updates that a scatter can combine, and indices of its axis."""
    element, extent = updates.get_element_type(), int_value(properties, "extent")
    _require_indices(indices, extent)
    require_elements(element, "number")
    require(extent >= 0, f"extent {extent} is negative")
    if "reduction" in properties:
        reduction, names = _reduction(properties), [name for name in COMBINERS if name != "sum"]
        require(reduction in names, f'reduction "{reduction}" is not one of {", ".join(names)}')


class ScatterOp(TensorOp):
    """An op that combines the slices of `updates` of equal indices, in increasing order of their position."""

    updates = operand_def()
    indices = operand_def()
    axis = prop_def(INTEGER)
    extent = prop_def(INTEGER)
    result = result_def()
    traits = traits_def(Pure())
    PROPERTIES: ClassVar[tuple[str, ...]] = ("axis", "extent")

    @property
    def combines(self) -> str:
        """The name of the reduction."""
        return _reduction(self.properties)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        updates, indices = operands
        shape, index_shape = updates.get_shape(), indices.get_shape()
        axis, extent = int_value(properties, "axis"), int_value(properties, "extent")
        _check_updates(updates, indices, properties)
        require(
            axis >= 0 and shape[axis : axis + len(index_shape)] == index_shape,
            f"the axes of updates {list(shape)} from axis {axis} on must be those of the indices {list(index_shape)}",
        )
        return tensor([*shape[:axis], extent, *shape[axis + len(index_shape) :]], updates.get_element_type())

    @rounding_once
    def prepare(self) -> BinaryEvaluate:
        axis, extent = self.axis.value.data, self.extent.value.data
        updated, indexed = (cast(Tensor, value.type).get_shape() for value in self.operands)
        lead, trail = updated[:axis], updated[axis + len(indexed) :]
        flat, name = (*lead, size_of(indexed), *trail), self.combines

        def scatter(updates: NumpyArray, indices: NumpyArray) -> NumpyArray:
            moved = np.moveaxis(updates.reshape(flat), axis, 0)
            inside = ((indices >= 0) & (indices < extent)).reshape(-1)
            position = indices.reshape(-1)[inside].astype(np.int64)
            return np.moveaxis(_combined((extent, *lead, *trail), (position,), moved[inside], name), 0, axis)

        return scatter


def _combined(
    shape: Sequence[int], position: tuple[NumpyArray, ...], updates: NumpyArray, reduction: str
) -> NumpyArray:
    """Returns identity elements with which updates at positions along the first axes are combined, in their order."""
    if reduction == "sum":
        return scattered(shape, position, updates)
    result = np.full(shape, identity_of(reduction, updates.dtype), updates.dtype)
    COMBINERS[reduction].at(result, position, updates)
    return result


@irdl_op_definition
class ScatterAddOp(ScatterOp):
    """Adds slices of `updates` into zeros along `axis`: the transpose of `tg.take`.

    Updates of equal indices are added in increasing order of their position, so the result is the same on every run.
    Updates of an index outside `[0, extent)` are dropped. On buffers, the n indices are sorted, and each element of the
    result adds its own updates: ceil(log2 n) + 2 kernels, of which one reads the updates and writes the result, once
    each; in native code 2 kernels, as one counts the indices. Scatters by the same indices share the order. If
    n * extent is small, a single kernel compares every position with every index.

    Example:
        %2 = tg.scatter_add %0, %1 axis = 0 extent = 65 : tensor<16x64x128xf32>, tensor<16x64xi32>
    """

    name = "tg.scatter_add"


@irdl_op_definition
class ScatterReduceOp(ScatterOp):
    """Multiplies slices of `updates` along `axis`, or takes their maxima or minima, as `tg.scatter_add` adds them.

    The reductions are "prod", "max" and "min". Where there are no updates, it is the identity element: 1, or the least
    or largest number, which for floats is infinite. Extrema are NaN if any update is, and equal ones share the
    derivative evenly; that of a product is exact where updates are 0. f16 is multiplied in f32 and rounded once.

    Example:
        %2 = tg.scatter_reduce %0, %1 axis = 0 extent = 65 reduction = "max" : tensor<16x8xf32>, tensor<16xi32>
    """

    name = "tg.scatter_reduce"
    reduction = prop_def(StringAttr)
    PROPERTIES: ClassVar = ("axis", "extent", "reduction")


@irdl_op_definition
class TakeAlongAxisOp(TensorOp):
    """Reads along `axis` at an index for each position: `result[i, j] = operand[i, indices[i, j]]` for axis 1.

    All extents except that of `axis` must agree. An index out of range reads as in `tg.take`.

    Example:
        %2 = tg.take_along_axis %0, %1 axis = 1 : tensor<32x10xf32>, tensor<32x1xi32>   // tensor<32x1xf32>
    """

    name = "tg.take_along_axis"
    operand = operand_def()
    indices = operand_def()
    axis = prop_def(INTEGER)
    result = result_def()
    traits = traits_def(Pure(), NeverOverflows(), Moves())
    PROPERTIES: ClassVar = ("axis",)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        operand, indices = operands
        shape, index_shape = operand.get_shape(), indices.get_shape()
        axis = _axis(properties, len(shape))
        _require_indices(indices, shape[axis])
        require(
            len(shape) == len(index_shape)
            and all(a == b for i, (a, b) in enumerate(zip(shape, index_shape, strict=True)) if i != axis),
            f"operand {list(shape)} and indices {list(index_shape)} must agree on every axis but {axis}",
        )
        return tensor(index_shape, operand.get_element_type())

    def prepare(self) -> BinaryEvaluate:
        axis, shape, dtype = self.axis.value.data, self.shape, numpy_dtype(self.type)
        extent, fill = cast(Tensor, self.operand.type).get_shape()[axis], _fill(dtype)
        if not extent:
            return lambda x, indices: np.full(shape, fill, dtype)

        def take(x: NumpyArray, indices: NumpyArray) -> NumpyArray:
            inside = (indices >= 0) & (indices < extent)
            values = np.take_along_axis(x, np.where(inside, indices, 0).astype(np.int64), axis)
            return np.where(inside, values, fill).astype(dtype)

        return take


class ScatterAlongAxisOp(ScatterOp):
    """A scatter with an index for each position: the updates of a row are combined at indices of that row."""

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        updates, indices = operands
        shape = updates.get_shape()
        axis, extent = _axis(properties, len(shape)), int_value(properties, "extent")
        _check_updates(updates, indices, properties)
        require(
            shape == indices.get_shape(), lambda: f"updates {updates} and indices {indices} must have the same shape"
        )
        return tensor([*shape[:axis], extent, *shape[axis + 1 :]], updates.get_element_type())

    @rounding_once
    def prepare(self) -> BinaryEvaluate:
        axis, shape, name = self.axis.value.data, self.shape, self.combines

        def scatter(updates: NumpyArray, indices: NumpyArray) -> NumpyArray:
            inside = (indices >= 0) & (indices < shape[axis])
            # Row by row, as `updates[inside]` lists them.
            position: list[NumpyArray] = list(np.nonzero(inside))
            position[axis] = indices[inside].astype(np.int64)
            return _combined(shape, tuple(position), updates[inside], name)

        return scatter


@irdl_op_definition
class ScatterAddAlongAxisOp(ScatterAlongAxisOp):
    """Adds `updates` into zeros along `axis` at an index for each position: the transpose of `tg.take_along_axis`.

    It costs as much as `tg.scatter_add`, with a separate sort of each row.

    Example:
        %2 = tg.scatter_add_along_axis %0, %1 axis = 1 extent = 10 : tensor<32x1xf32>, tensor<32x1xi32>
    """

    name = "tg.scatter_add_along_axis"


@irdl_op_definition
class ScatterReduceAlongAxisOp(ScatterAlongAxisOp):
    """Reduces `updates` along `axis` at an index for each position, by "prod", "max" or "min" as `tg.scatter_reduce`.

    Example:
        %2 = tg.scatter_reduce_along_axis %0, %1 axis = 1 extent = 10 reduction = "min"
          : tensor<32x4xf32>, tensor<32x4xi32>
    """

    name = "tg.scatter_reduce_along_axis"
    reduction = prop_def(StringAttr)
    PROPERTIES: ClassVar = ("axis", "extent", "reduction")


OPS = (TakeOp, ScatterAddOp, ScatterReduceOp, TakeAlongAxisOp, ScatterAddAlongAxisOp, ScatterReduceAlongAxisOp)
