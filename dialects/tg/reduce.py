"""Reductions over any set of axes. The reduced axes disappear."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from tensorgrad.dialects.tg.base import (
    NumpyArray,
    Properties,
    Tensor,
    TensorOp,
    check_axes,
    int_list,
    is_float,
    is_integer,
    require,
    rounding_once,
    tensor,
)


class ReduceOp(TensorOp):
    """An op that folds the elements along `axes` into one."""

    operand = operand_def()
    axes = prop_def()
    result = result_def()
    traits = traits_def(Pure())
    PROPERTIES: ClassVar = ("axes",)
    NEEDS_ELEMENTS: ClassVar = False

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        axes, shape = int_list(properties, "axes"), operands[0].get_shape()
        element = operands[0].get_element_type()
        require(is_float(element) or is_integer(element), f"reduces numbers, not {element}")
        check_axes(axes, len(shape), "axes")
        if cls.NEEDS_ELEMENTS:
            require(all(shape[axis] > 0 for axis in axes), f"axes {list(axes)} of {list(shape)} are empty")
        return tensor([extent for axis, extent in enumerate(shape) if axis not in axes], element)

    @rounding_once
    def evaluate(self, *operands: NumpyArray) -> NumpyArray:
        return np.asarray(self.function(operands[0], int_list(self.properties, "axes")), operands[0].dtype)

    @staticmethod
    @abstractmethod
    def function(x: NumpyArray, axes: tuple[int, ...]) -> NumpyArray:
        """The reduction of a numpy array."""

    def simplified(self) -> SSAValue | None:
        return self.operand if not int_list(self.properties, "axes") else None


@irdl_op_definition
class SumOp(ReduceOp):
    """The sum along `axes`; 0 where they are empty. Integers wrap; f16 is summed in f32 and rounded once.

    Example:
        %1 = tg.sum %0 axes = [0] : tensor<4x3xf32>
    """

    name = "tg.sum"

    @staticmethod
    def function(x: NumpyArray, axes: tuple[int, ...]) -> NumpyArray:
        return np.sum(x, axes, dtype=x.dtype)


@irdl_op_definition
class MaxOp(ReduceOp):
    """The largest element along `axes`, NaN if any is NaN; equal maxima share the derivative evenly.

    Example:
        %1 = tg.max %0 axes = [1] : tensor<4x3xf32>
    """

    name = "tg.max"
    NEEDS_ELEMENTS: ClassVar = True

    @staticmethod
    def function(x: NumpyArray, axes: tuple[int, ...]) -> NumpyArray:
        return np.max(x, axes)


@irdl_op_definition
class MinOp(ReduceOp):
    """The smallest element along `axes`, NaN if any is NaN; equal minima share the derivative evenly.

    Example:
        %1 = tg.min %0 axes = [1] : tensor<4x3xf32>
    """

    name = "tg.min"
    NEEDS_ELEMENTS: ClassVar = True

    @staticmethod
    def function(x: NumpyArray, axes: tuple[int, ...]) -> NumpyArray:
        return np.min(x, axes)


@irdl_op_definition
class ProdOp(ReduceOp):
    """The product along `axes`; 1 where they are empty. Integers wrap; the derivative is exact where elements are 0.

    A product of n floats is within n - 1 roundings of the exact one, in no stated order; one of f16 is computed in f32
    and rounded once. NaN where any element is NaN.

    Example:
        %1 = tg.prod %0 axes = [0] : tensor<4x3xf32>
    """

    name = "tg.prod"

    @staticmethod
    def function(x: NumpyArray, axes: tuple[int, ...]) -> NumpyArray:
        return np.prod(x, axes, dtype=x.dtype)


OPS = (SumOp, MaxOp, MinOp, ProdOp)
