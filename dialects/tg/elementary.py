"""Elementary functions, rounding and tests for finite numbers: element by element.

The error bounds are those of f32 on a device, in units in the last place (ulp); `passes/expand_math.py` keeps them. The
reference calls numpy, which is within 4 ulp of the operand's dtype. A NaN gives NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import i1
from xdsl.irdl import irdl_op_definition

from tensorgrad.dialects.tg import special
from tensorgrad.dialects.tg.base import NumpyArray, Properties, Tensor, by_numpy, is_float, require, tensor
from tensorgrad.dialects.tg.binary import BinaryOp
from tensorgrad.dialects.tg.unary import UnaryOp


@irdl_op_definition
class Exp2Op(UnaryOp):
    """`2` to the power of `x`, within 2 ulp, exact at integers; 0 and infinity beyond the range.

    Example:
        %1 = tg.exp2 %0 : tensor<4xf32>
    """

    name = "tg.exp2"

    function = by_numpy(np.exp2)


@irdl_op_definition
class Expm1Op(UnaryOp):
    """`exp(x) - 1` within 2 ulp, near 0 too.

    Example:
        %1 = tg.expm1 %0 : tensor<4xf32>
    """

    name = "tg.expm1"

    function = by_numpy(np.expm1)


@irdl_op_definition
class Log2Op(UnaryOp):
    """The logarithm to base 2 within 2 ulp, exact at powers of two; `-inf` at 0, NaN below.

    Example:
        %1 = tg.log2 %0 : tensor<4xf32>
    """

    name = "tg.log2"

    function = by_numpy(np.log2)


@irdl_op_definition
class Log1pOp(UnaryOp):
    """`log(1 + x)` within 3 ulp, near 0 too; `-inf` at -1, NaN below.

    Example:
        %1 = tg.log1p %0 : tensor<4xf32>
    """

    name = "tg.log1p"

    function = by_numpy(np.log1p)


@irdl_op_definition
class TanOp(UnaryOp):
    """The tangent of `x` in radians, within 5 ulp for any finite `x`; NaN at infinities.

    Example:
        %1 = tg.tan %0 : tensor<4xf32>
    """

    name = "tg.tan"

    function = by_numpy(np.tan)


@irdl_op_definition
class AsinOp(UnaryOp):
    """The inverse sine within 3 ulp; NaN outside [-1, 1].

    Example:
        %1 = tg.asin %0 : tensor<4xf32>
    """

    name = "tg.asin"

    function = by_numpy(np.arcsin)


@irdl_op_definition
class AcosOp(UnaryOp):
    """The inverse cosine within 2 ulp; NaN outside [-1, 1].

    Example:
        %1 = tg.acos %0 : tensor<4xf32>
    """

    name = "tg.acos"

    function = by_numpy(np.arccos)


@irdl_op_definition
class AtanOp(UnaryOp):
    """The inverse tangent within 3 ulp.

    Example:
        %1 = tg.atan %0 : tensor<4xf32>
    """

    name = "tg.atan"

    function = by_numpy(np.arctan)


@irdl_op_definition
class SinhOp(UnaryOp):
    """The hyperbolic sine within 2 ulp.

    Example:
        %1 = tg.sinh %0 : tensor<4xf32>
    """

    name = "tg.sinh"

    function = by_numpy(np.sinh)


@irdl_op_definition
class CoshOp(UnaryOp):
    """The hyperbolic cosine within 2 ulp.

    Example:
        %1 = tg.cosh %0 : tensor<4xf32>
    """

    name = "tg.cosh"

    function = by_numpy(np.cosh)


@irdl_op_definition
class AsinhOp(UnaryOp):
    """The inverse hyperbolic sine within 4 ulp.

    Example:
        %1 = tg.asinh %0 : tensor<4xf32>
    """

    name = "tg.asinh"

    function = by_numpy(np.arcsinh)


@irdl_op_definition
class AcoshOp(UnaryOp):
    """The inverse hyperbolic cosine within 4 ulp; NaN below 1.

    Example:
        %1 = tg.acosh %0 : tensor<4xf32>
    """

    name = "tg.acosh"

    function = by_numpy(np.arccosh)


@irdl_op_definition
class AtanhOp(UnaryOp):
    """The inverse hyperbolic tangent within 4 ulp; infinite at -1 and 1, NaN beyond.

    Example:
        %1 = tg.atanh %0 : tensor<4xf32>
    """

    name = "tg.atanh"

    function = by_numpy(np.arctanh)


@irdl_op_definition
class ErfOp(UnaryOp):
    """The error function within 3 ulp.

    Example:
        %1 = tg.erf %0 : tensor<4xf32>
    """

    name = "tg.erf"

    @staticmethod
    def function(x: NumpyArray) -> NumpyArray:
        return special.erf(x)


@irdl_op_definition
class ErfcOp(UnaryOp):
    """One minus the error function, within 12 ulp, in its tail too.

    Example:
        %1 = tg.erfc %0 : tensor<4xf32>
    """

    name = "tg.erfc"

    @staticmethod
    def function(x: NumpyArray) -> NumpyArray:
        return special.erfc(x)


@irdl_op_definition
class SoftplusOp(UnaryOp):
    """`log(1 + exp(x))` within 4 ulp, without overflow.

    A primitive, because its derivative is the sigmoid, at 0 too, where that of a composition would have ties.

    Example:
        %1 = tg.softplus %0 : tensor<4xf32>
    """

    name = "tg.softplus"

    @staticmethod
    def function(x: NumpyArray) -> NumpyArray:
        return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


@irdl_op_definition
class FloorOp(UnaryOp):
    """The largest integer that is not above `x`; exact.

    Example:
        %1 = tg.floor %0 : tensor<4xf32>
    """

    name = "tg.floor"

    function = by_numpy(np.floor)


@irdl_op_definition
class CeilOp(UnaryOp):
    """The smallest integer that is not below `x`; exact.

    Example:
        %1 = tg.ceil %0 : tensor<4xf32>
    """

    name = "tg.ceil"

    function = by_numpy(np.ceil)


@irdl_op_definition
class RoundOp(UnaryOp):
    """The nearest integer, halves to the even one; exact.

    Example:
        %1 = tg.round %0 : tensor<4xf32>
    """

    name = "tg.round"

    function = by_numpy(np.rint)


@irdl_op_definition
class TruncOp(UnaryOp):
    """The integer next to `x` towards 0; exact.

    Example:
        %1 = tg.trunc %0 : tensor<4xf32>
    """

    name = "tg.trunc"

    function = by_numpy(np.trunc)


@irdl_op_definition
class IsFiniteOp(UnaryOp):
    """Whether `x` is neither infinite nor NaN, by its bits: devices may assume that neither exists.

    Example:
        %1 = tg.is_finite %0 : tensor<4xf32>
    """

    name = "tg.is_finite"

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        element = operands[0].get_element_type()
        require(is_float(element), f"takes float elements, got {element}")
        return tensor(operands[0].get_shape(), i1)

    function = by_numpy(np.isfinite)


@irdl_op_definition
class Atan2Op(BinaryOp):
    """The angle of the point (`y`, `x`), in that order, within 4 ulp, in all quadrants; NaN when either is NaN.

    Zeros and infinities are as in C: the sign of a zero tells the side, `atan2(0, -0)` is pi. Its derivative at the
    origin is 0.

    Example:
        %2 = tg.atan2 %0, %1 : tensor<4xf32>, tensor<4xf32>
    """

    name = "tg.atan2"
    ELEMENTS: ClassVar = "float"

    function = by_numpy(np.arctan2)


OPS = (
    Exp2Op,
    Expm1Op,
    Log2Op,
    Log1pOp,
    TanOp,
    AsinOp,
    AcosOp,
    AtanOp,
    SinhOp,
    CoshOp,
    AsinhOp,
    AcoshOp,
    AtanhOp,
    ErfOp,
    ErfcOp,
    SoftplusOp,
    FloorOp,
    CeilOp,
    RoundOp,
    TruncOp,
    IsFiniteOp,
    Atan2Op,
)
