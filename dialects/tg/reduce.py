"""Reductions over any set of axes. The reduced axes disappear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

import numpy as np
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from tensorgrad.dialects.tg.base import (
    INT_LIST,
    Properties,
    Tensor,
    TensorOp,
    UnaryEvaluate,
    check_axes,
    int_list,
    is_float,
    numpy_dtype,
    require,
    require_elements,
    rounding_once,
    size_of,
    tensor,
)
from tensorgrad.dialects.tg.summation import MOST_TERMS, summed
from tensorgrad.dialects.tg.traits import KeepsNan, NeverOverflows


class ReduceOp(TensorOp):
    """An op that combines the elements along `axes` into one."""

    operand = operand_def()
    axes = prop_def(INT_LIST)
    result = result_def()
    traits = traits_def(Pure(), KeepsNan())
    PROPERTIES: ClassVar = ("axes",)
    NEEDS_ELEMENTS: ClassVar = False
    COMBINER: ClassVar[np.ufunc]
    """The ufunc that combines two elements."""

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        axes, shape = int_list(properties, "axes"), operands[0].get_shape()
        element = operands[0].get_element_type()
        require_elements(element, "number")
        check_axes(axes, len(shape), "axes")
        if cls.NEEDS_ELEMENTS:
            require(all(shape[axis] > 0 for axis in axes), f"axes {list(axes)} of {list(shape)} are empty")
        return tensor([extent for axis, extent in enumerate(shape) if axis not in axes], element)

    @rounding_once
    def prepare(self) -> UnaryEvaluate:
        reduce, array, kind = self.COMBINER.reduce, np.asarray, cast(Tensor, self.operand.type)
        listed = self.axes.get_values()
        axes = None if len(listed) == len(kind.get_shape()) else listed
        # NumPy widens small integers unless `dtype` is given.
        dtype = None if is_float(kind.get_element_type()) else numpy_dtype(kind)
        return lambda x: array(reduce(x, axes, dtype))

    def simplified(self) -> SSAValue | None:
        return self.operand if not self.axes.get_values() else None


@irdl_op_definition
class SumOp(ReduceOp):
    """The sum along `axes`; 0 where they are empty. Integers wrap; f16 is summed in f32 and rounded once.

    Floats are added in blocks, then in blocks of these: errors grow with the logarithm of the number of terms.

    Example:
        %1 = tg.sum %0 axes = [0] : tensor<4x3xf32>
    """

    name = "tg.sum"
    COMBINER: ClassVar = np.add

    @rounding_once
    def prepare(self) -> UnaryEvaluate:
        kind, axes = cast(Tensor, self.operand.type), self.axes.get_values()
        terms = size_of([kind.get_shape()[axis] for axis in axes])
        if terms > MOST_TERMS and is_float(kind.get_element_type()):
            return lambda x: summed(x, axes)
        return ReduceOp.prepare(self)


@irdl_op_definition
class MaxOp(ReduceOp):
    """The largest element along `axes`, NaN if any is NaN; equal maxima share the derivative evenly.

    Example:
        %1 = tg.max %0 axes = [1] : tensor<4x3xf32>
    """

    name = "tg.max"
    traits = traits_def(Pure(), NeverOverflows())
    NEEDS_ELEMENTS: ClassVar = True
    COMBINER: ClassVar = np.maximum


@irdl_op_definition
class MinOp(ReduceOp):
    """The smallest element along `axes`, NaN if any is NaN; equal minima share the derivative evenly.

    Example:
        %1 = tg.min %0 axes = [1] : tensor<4x3xf32>
    """

    name = "tg.min"
    traits = traits_def(Pure(), NeverOverflows())
    NEEDS_ELEMENTS: ClassVar = True
    COMBINER: ClassVar = np.minimum


@irdl_op_definition
class ProdOp(ReduceOp):
    """The product along `axes`; 1 where they are empty. Integers wrap; the derivative is exact where elements are 0.

    A product of n floats is within n - 1 roundings of the exact one. They are multiplied in row-major order, one after
    another: in another order, factors of which some are large and some small could overflow on the way to a finite
    product. f16 is multiplied in f32 and rounded once. The result is NaN if any element is.

    Example:
        %1 = tg.prod %0 axes = [0] : tensor<4x3xf32>
    """

    name = "tg.prod"
    COMBINER: ClassVar = np.multiply


OPS = (SumOp, MaxOp, MinOp, ProdOp)
