"""Elementwise elementary functions, rounding, and tests for finite numbers.

The error bounds are those of f32 on a device, in units in the last place (ulp); `expand-math` guarantees them. The
reference calls NumPy, which is within 4 ulp of the operand's dtype. NaN operands give NaN. The error function, which
NumPy lacks, is that of Cephes' ndtr.c (S. Moshier), in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import i1
from xdsl.irdl import irdl_op_definition, traits_def
from xdsl.traits import Pure

from tensorgrad.dialects.tg.base import (
    NumpyArray,
    Properties,
    Tensor,
    by_numpy,
    require_elements,
    tensor,
)
from tensorgrad.dialects.tg.elementwise.arithmetic import BinaryOp, UnaryOp
from tensorgrad.dialects.tg.traits import Elementwise, KeepsNan, NeverOverflows


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
    traits = traits_def(Pure(), Elementwise(), NeverOverflows())
    ELEMENTS: ClassVar = "number"

    @staticmethod
    def function(x: NumpyArray) -> NumpyArray:
        return np.where(x <= 0, np.zeros((), x.dtype), x)


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
    """`exp(x) - 1` within 2 ulp, even near 0.

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
    """`log(1 + x)` within 3 ulp, even near 0; `-inf` at -1, NaN below.

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
        return erf(x)


@irdl_op_definition
class ErfcOp(UnaryOp):
    """One minus the error function, within 12 ulp, even in its tail.

    Example:
        %1 = tg.erfc %0 : tensor<4xf32>
    """

    name = "tg.erfc"

    @staticmethod
    def function(x: NumpyArray) -> NumpyArray:
        return erfc(x)


@irdl_op_definition
class SoftplusOp(UnaryOp):
    """`log(1 + exp(x))` within 4 ulp, without overflow.

    A primitive, because its derivative is the sigmoid even at 0, where that of a composition would have ties.

    Example:
        %1 = tg.softplus %0 : tensor<4xf32>
    """

    name = "tg.softplus"

    @staticmethod
    def function(x: NumpyArray) -> NumpyArray:
        return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


@irdl_op_definition
class FloorOp(UnaryOp):
    """The largest integer not above `x`; exact.

    Example:
        %1 = tg.floor %0 : tensor<4xf32>
    """

    name = "tg.floor"

    function = by_numpy(np.floor)


@irdl_op_definition
class CeilOp(UnaryOp):
    """The smallest integer not below `x`; exact.

    Example:
        %1 = tg.ceil %0 : tensor<4xf32>
    """

    name = "tg.ceil"

    function = by_numpy(np.ceil)


@irdl_op_definition
class RoundOp(UnaryOp):
    """The nearest integer, ties to even; exact.

    Example:
        %1 = tg.round %0 : tensor<4xf32>
    """

    name = "tg.round"

    function = by_numpy(np.rint)


@irdl_op_definition
class TruncOp(UnaryOp):
    """`x` rounded toward 0; exact.

    Example:
        %1 = tg.trunc %0 : tensor<4xf32>
    """

    name = "tg.trunc"

    function = by_numpy(np.trunc)


@irdl_op_definition
class IsFiniteOp(UnaryOp):
    """Whether `x` is neither infinite nor NaN. It tests the bits, since devices may assume that neither occurs.

    Example:
        %1 = tg.is_finite %0 : tensor<4xf32>
    """

    name = "tg.is_finite"

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        element = operands[0].get_element_type()
        require_elements(element, "float")
        return tensor(operands[0].get_shape(), i1)

    function = by_numpy(np.isfinite)


@irdl_op_definition
class Atan2Op(BinaryOp):
    """The angle of the point (`y`, `x`), in that order, within 4 ulp, in all quadrants; NaN if either is NaN.

    Zeros and infinities are as in C: the sign of a zero determines the quadrant, so `atan2(0, -0)` is pi. Its
    derivative at the origin is 0.

    Example:
        %2 = tg.atan2 %0, %1 : tensor<4xf32>, tensor<4xf32>
    """

    name = "tg.atan2"
    traits = traits_def(KeepsNan())
    ELEMENTS: ClassVar = "float"

    function = by_numpy(np.arctan2)


ERF_NUMERATOR = (
    9.60497373987051638749,
    9.00260197203842689217e1,
    2.23200534594684319226e3,
    7.00332514112805075473e3,
    5.55923013010394962768e4,
)


ERF_DENOMINATOR = (
    1.0,
    3.35617141647503099647e1,
    5.21357949780152679795e2,
    4.59432382970980127987e3,
    2.26290000613890934246e4,
    4.92673942608635921086e4,
)


ERFC_NUMERATOR = (
    2.46196981473530512524e-10,
    5.64189564831068821977e-1,
    7.46321056442269912687,
    4.86371970985681366614e1,
    1.96520832956077098242e2,
    5.26445194995477358631e2,
    9.34528527171957607540e2,
    1.02755188689515710272e3,
    5.57535335369399327526e2,
)


ERFC_DENOMINATOR = (
    1.0,
    1.32281951154744992508e1,
    8.67072140885989742329e1,
    3.54937778887819891062e2,
    9.75708501743205489753e2,
    1.82390916687909736289e3,
    2.24633760818710981792e3,
    1.65666309194161350182e3,
    5.57535340817727675546e2,
)
"""For 1 <= x < 8, `erfc(x) exp(x * x)` is the ratio of these polynomials; highest power first, here and below."""


ERFC_TAIL_NUMERATOR = (
    5.64189583547755073984e-1,
    1.27536670759978104416,
    5.01905042251180477414,
    6.16021097993053585195,
    7.40974269950448939160,
    2.97886665372100240670,
)


ERFC_TAIL_DENOMINATOR = (
    1.0,
    2.26052863220117276590,
    9.39603524938001434673,
    1.20489539808096656605e1,
    1.70814450747565897222e1,
    9.60896809063285878198,
    3.36907645100081516050,
)
"""The same for x >= 8."""


def _ratio(x: NumpyArray, numerator: Sequence[float], denominator: Sequence[float]) -> NumpyArray:
    return np.polyval(numerator, x) / np.polyval(denominator, x)


def _erfc_from_one(size: NumpyArray) -> NumpyArray:
    """Returns erfc of numbers >= 1. The square's rounding error, which exp would amplify, is split off."""
    z = np.minimum(size, 28.0)
    coarse = np.floor(z * 16) / 16
    power = np.exp(-coarse * coarse) * np.exp((coarse - z) * (coarse + z))
    near = _ratio(z, ERFC_NUMERATOR, ERFC_DENOMINATOR)
    return power * np.where(z < 8, near, _ratio(z, ERFC_TAIL_NUMERATOR, ERFC_TAIL_DENOMINATOR))


def _erf_to_one(x: NumpyArray) -> NumpyArray:
    return x * _ratio(x * x, ERF_NUMERATOR, ERF_DENOMINATOR)


def erf(x: NumpyArray) -> NumpyArray:
    """Returns the error function within 2 ulp of float64."""
    wide = np.asarray(x, np.float64)
    size = np.abs(wide)
    large = np.copysign(1 - _erfc_from_one(size), wide)
    return np.asarray(np.where(size > 1, large, _erf_to_one(np.clip(wide, -1, 1))))


def erfc(x: NumpyArray) -> NumpyArray:
    """Returns one minus the error function within 8 ulp of float64, even in its tail."""
    wide = np.asarray(x, np.float64)
    tail = _erfc_from_one(np.abs(wide))
    return np.asarray(np.where(wide > 1, tail, np.where(wide < -1, 2 - tail, 1 - _erf_to_one(np.clip(wide, -1, 1)))))


OPS = (
    ExpOp,
    LogOp,
    SqrtOp,
    SinOp,
    CosOp,
    TanhOp,
    SigmoidOp,
    ReluOp,
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
