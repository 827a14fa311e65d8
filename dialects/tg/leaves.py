"""Leaves: ops without operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, prop_def, result_def, traits_def
from xdsl.traits import ConstantLike, Pure

from tensorgrad.dialects.tg.base import (
    INT_LIST,
    INTEGER,
    Evaluate,
    Moves,
    Properties,
    Tensor,
    TensorOp,
    dense_to_numpy,
    int_list,
    int_value,
    is_float,
    is_integer,
    numpy_dtype,
    require,
    tensor,
)
from tensorgrad.dialects.tg.traits import Leaf


@irdl_op_definition
class ConstantOp(TensorOp):
    """A constant tensor; equal elements are stored once.

    Example:
        %0 = tg.constant value = dense<5.000000e-01> : tensor<4x3xf32>
    """

    name = "tg.constant"
    value = prop_def(DenseIntOrFPElementsAttr)
    result = result_def()
    traits = traits_def(Pure(), ConstantLike(), Leaf(), Moves())
    PROPERTIES: ClassVar = ("value",)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        value = properties["value"]
        require(isinstance(value, DenseIntOrFPElementsAttr), "value must be a dense attribute")
        kind = cast("DenseIntOrFPElementsAttr[Any]", value).type
        require(all(extent >= 0 for extent in kind.get_shape()), "a constant's shape must be static")
        return cast(Tensor, kind)

    def prepare(self) -> Evaluate:
        value = dense_to_numpy(cast("DenseIntOrFPElementsAttr[Any]", self.value))
        return lambda: value

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        return (self.value,)


@irdl_op_definition
class IotaOp(TensorOp):
    """A tensor whose elements are their positions along `axis`.

    Example:
        %0 = tg.iota shape = [2, 3] axis = 1 element = i32   // [[0, 1, 2], [0, 1, 2]]
    """

    name = "tg.iota"
    iota_shape = prop_def(INT_LIST, prop_name="shape")
    axis = prop_def(INTEGER)
    element = prop_def()
    result = result_def()
    traits = traits_def(Pure(), Leaf())
    PROPERTIES: ClassVar = ("shape", "axis", "element")

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        shape, axis = int_list(properties, "shape"), int_value(properties, "axis")
        require(0 <= axis < len(shape), f"axis {axis} is out of range for rank {len(shape)}")
        require(all(extent >= 0 for extent in shape), f"shape {list(shape)} has a negative extent")
        element = properties["element"]
        require(is_float(element) or is_integer(element), lambda: f"positions must be numbers, got {element}")
        largest = int(np.iinfo(numpy_dtype(element)).max) if is_integer(element) else (1 << 32) - 1
        require(shape[axis] - 1 <= largest, lambda: f"positions on an axis of {shape[axis]} don't fit {element}")
        return tensor(shape, element)

    def prepare(self) -> Evaluate:
        axis, shape = self.axis.value.data, self.shape
        positions = np.arange(shape[axis]).astype(numpy_dtype(self.type))
        view = [1] * len(shape)
        view[axis] = shape[axis]
        value = np.broadcast_to(positions.reshape(view), shape)
        return lambda: value


OPS = (ConstantOp, IotaOp)
