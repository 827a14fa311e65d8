"""Unary ops: one operand, the same type out, element by element.

The error bounds are those of f32 on a device, in units in the last place (ulp); the reference calls numpy, which is
within 4 ulp of the operand's dtype. A NaN gives NaN.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure

from tensorgrad.dialects.tg.base import (
    Evaluate,
    NumpyArray,
    Properties,
    Tensor,
    TensorOp,
    by_numpy,
    dense,
    giving_arrays,
    is_float,
    is_integer,
    is_splat,
    require,
)
from tensorgrad.dialects.tg.traits import Elementwise


def fold_splats(op: TensorOp, values: Sequence[NumpyArray]) -> Attribute | None:
    """Folds an element-by-element op whose operands are all splats, whatever their size."""
    if op.type.element_count() == 0 or not all(value.size and is_splat(value) for value in values):
        return None
    with np.errstate(all="ignore"):
        scalar = op.evaluate(*(value.reshape(-1)[:1].reshape(()) for value in values))
    return dense(np.broadcast_to(np.asarray(scalar), op.shape))


class UnaryOp(TensorOp):
    """An op that works on each element alone and keeps the type."""

    operand = operand_def()
    result = result_def()
    traits = traits_def(Pure(), Elementwise())

    ELEMENTS: ClassVar[str] = "float"
    """Which elements the op takes: "float", "number" (float or integer), "bits" (integer or bool) or "any"."""

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        element = operands[0].get_element_type()
        takes = {
            "float": is_float(element),
            "number": is_float(element) or is_integer(element),
            "bits": is_integer(element) or element == i1,
            "any": True,
        }[cls.ELEMENTS]
        require(takes, f"takes {cls.ELEMENTS} elements, got {element}")
        return operands[0]

    def prepare(self) -> Evaluate:
        return giving_arrays(self.function, self.type)

    @staticmethod
    @abstractmethod
    def function(x: NumpyArray) -> NumpyArray:
        """The op on a numpy array."""

    def fold_splat(self, values: Sequence[NumpyArray]) -> Attribute | None:
        return fold_splats(self, values)


@irdl_op_definition
class NegOp(UnaryOp):
    """`-x`; integers wrap.

    Example:
        %1 = tg.neg %0 : tensor<4xf32>
    """

    name = "tg.neg"
    ELEMENTS: ClassVar = "number"

    function = by_numpy(np.negative)

    def simplified(self) -> SSAValue | None:
        owner = self.operand.owner
        return owner.operand if isinstance(owner, NegOp) else None


@irdl_op_definition
class AbsOp(UnaryOp):
    """`|x|`; its derivative at 0 is 0. The smallest integer stays what it is.

    Example:
        %1 = tg.abs %0 : tensor<4xf32>
    """

    name = "tg.abs"
    ELEMENTS: ClassVar = "number"

    function = by_numpy(np.abs)


@irdl_op_definition
class ExpOp(UnaryOp):
    """`e` to the power of `x`, within 2 ulp; 0 and infinity beyond the range.

    Example:
        %1 = tg.exp %0 : tensor<4xf32>
    """

    name = "tg.exp"

    function = by_numpy(np.exp)


@irdl_op_definition
class LogOp(UnaryOp):
    """The natural logarithm within 1 ulp; `-inf` at 0, NaN below.

    Example:
        %1 = tg.log %0 : tensor<4xf32>
    """

    name = "tg.log"

    function = by_numpy(np.log)


@irdl_op_definition
class SqrtOp(UnaryOp):
    """The square root within 5 ulp (WGSL promises no more; most devices round correctly); NaN below 0.

    Example:
        %1 = tg.sqrt %0 : tensor<4xf32>
    """

    name = "tg.sqrt"

    function = by_numpy(np.sqrt)


@irdl_op_definition
class SinOp(UnaryOp):
    """The sine of `x` in radians, within 3 ulp for any finite `x`; NaN at infinities.

    Example:
        %1 = tg.sin %0 : tensor<4xf32>
    """

    name = "tg.sin"

    function = by_numpy(np.sin)


@irdl_op_definition
class CosOp(UnaryOp):
    """The cosine of `x` in radians, within 3 ulp for any finite `x`; NaN at infinities.

    Example:
        %1 = tg.cos %0 : tensor<4xf32>
    """

    name = "tg.cos"

    function = by_numpy(np.cos)


@irdl_op_definition
class TanhOp(UnaryOp):
    """The hyperbolic tangent within 2 ulp.

    Example:
        %1 = tg.tanh %0 : tensor<4xf32>
    """

    name = "tg.tanh"

    function = by_numpy(np.tanh)


@irdl_op_definition
class SigmoidOp(UnaryOp):
    """`1 / (1 + exp(-x))` within 6 ulp, without overflow on either side.

    Example:
        %1 = tg.sigmoid %0 : tensor<4xf32>
    """

    name = "tg.sigmoid"

    @staticmethod
    def function(x: NumpyArray) -> NumpyArray:
        small = np.exp(-np.abs(x))
        return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


@irdl_op_definition
class ReluOp(UnaryOp):
    """`x` where `x > 0`, else 0; NaN stays NaN. Its derivative at 0 is 0.

    A primitive, because its derivative needs only the result: nothing else is kept for the backward pass.

    Example:
        %1 = tg.relu %0 : tensor<4xf32>
    """

    name = "tg.relu"
    ELEMENTS: ClassVar = "number"

    @staticmethod
    def function(x: NumpyArray) -> NumpyArray:
        return np.where(x <= 0, np.zeros((), x.dtype), x)


@irdl_op_definition
class NotOp(UnaryOp):
    """Logical negation of booleans, bitwise of integers.

    Example:
        %1 = tg.not %0 : tensor<4xi1>
    """

    name = "tg.not"
    ELEMENTS: ClassVar = "bits"

    function = by_numpy(np.invert)


@irdl_op_definition
class StopGradientOp(UnaryOp):
    """`x`, seen as a constant by `grad`; costs nothing.

    Example:
        %1 = tg.stop_gradient %0 : tensor<4xf32>
    """

    name = "tg.stop_gradient"
    ELEMENTS: ClassVar = "any"

    @staticmethod
    def function(x: NumpyArray) -> NumpyArray:
        return x


OPS = (
    NegOp,
    AbsOp,
    ExpOp,
    LogOp,
    SqrtOp,
    SinOp,
    CosOp,
    TanhOp,
    SigmoidOp,
    ReluOp,
    NotOp,
    StopGradientOp,
)
