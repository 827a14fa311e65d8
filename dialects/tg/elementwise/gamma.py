"""The gamma function's logarithm and that logarithm's derivatives, the polygamma functions.

Each is one formula for all that computes elements: NumPy's arrays in f64, which are the reference, scalars of kernels
in f32 and f64, and nodes of ONNX. `Elements` is what the formula needs beside operators, `Precision` its constants.

From 1 to 8, `log Γ(z) / ((z - 1) (z - 2))` and `ψ(z) / (z - z₀)`, z₀ being ψ's zero, are polynomials in
`(z - c) / (z + c)`, c² = 8: interpolations at Chebyshev's points by 60 digits, which keep the zeros' relative accuracy.
Beyond, they are Stirling's series (DLMF 5.11.1 and 5.11.2); below 1 it is `Γ(z + 1) = z Γ(z)`, and below 0 reflection
(5.5.3 and 5.5.4). The others are Hurwitz's zeta function (5.15.1), by Euler's and Maclaurin's summation (25.11.28).

DLMF is NIST's Digital Library of Mathematical Functions, https://dlmf.nist.gov.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from tensorgrad.dialects.tg.base import (
    INTEGER,
    Evaluate,
    NumpyArray,
    Properties,
    Tensor,
    TensorOp,
    giving_arrays,
    int_value,
    require,
    require_elements,
)
from tensorgrad.dialects.tg.elementwise.arithmetic import UnaryOp, fold_splats
from tensorgrad.dialects.tg.traits import Elementwise, KeepsNan

_LGAMMA_F32 = (
    0.0706058346,
    -0.0802403663,
    0.0285586554,
    -0.0346741356,
    0.0497523033,
    -0.061498963,
    0.0595412063,
    -0.0798237516,
    0.0793601063,
    -0.125927616,
    0.123152006,
    -0.358044495,
    0.357009874,
)

_LGAMMA_F64 = (
    -0.08498971607866675,
    0.08559825071304834,
    0.03485668763877102,
    -0.0350785913657485,
    -0.04577963836233834,
    0.04612687799881979,
    -0.018009536277556238,
    0.018174355024451416,
    -0.02798354808171592,
    0.028227459628099742,
    -0.030044754432232652,
    0.0303110285348221,
    -0.03438420618296402,
    0.03468017109796364,
    -0.03995918141578591,
    0.04026836640695202,
    -0.04777659358302603,
    0.04804543149900015,
    -0.059590730976118306,
    0.0596587199244339,
    -0.07995506836909937,
    0.07935669350276053,
    -0.12592380336256798,
    0.12315203357980635,
    -0.3580445262583912,
    0.3570098737600876,
)

_DIGAMMA_F32 = (
    -1.1646035,
    1.16046482,
    -0.235625796,
    0.233369197,
    -0.528107487,
    0.523817123,
    -0.485497715,
    0.479725513,
    -0.498473289,
    0.491713637,
    -0.537936979,
    0.537043707,
    -0.830167901,
    0.623832197,
)

_DIGAMMA_F64 = (
    -2.795201176916315,
    2.7929623625776343,
    1.6676279627916797,
    -1.6666260217916047,
    -1.513509909707606,
    1.5120815298567902,
    -0.17849705024607224,
    0.17789516080487078,
    -0.5449615970546264,
    0.5439124501354753,
    -0.47604404020962887,
    0.4747902020628721,
    -0.48533918364011996,
    0.48371736802139725,
    -0.48475231722552226,
    0.482598100014208,
    -0.48526981022946053,
    0.48230828940897197,
    -0.48625938142858904,
    0.48208535350964177,
    -0.48898099608644724,
    0.4831991946997631,
    -0.49833767173565485,
    0.4915783913864768,
    -0.537938935469515,
    0.5370456583539044,
    -0.8301678961712056,
    0.6238321921012093,
)


BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330)
"""Bernoulli's numbers B₂, B₄, … (DLMF 24.2.2)."""

CENTER = 2.8284271247461903
"""The square root of 8: `(z - c) / (z + c)` maps 1 and 8 to numbers of the same magnitude."""

ROOT_HIGH, ROOT_LOW = 1.46142578125, 0.00020636371836234125
"""The zero of ψ on the positive axis in two parts; a number near the zero less the first part is exact."""

MOST_ORDER = 100
"""The highest order of `polygamma`: kernels grow in proportion to it."""


class Real(Protocol):
    """What formulas compute with: Python's operators, comparisons among them."""

    def __abs__(self) -> Self: ...
    def __neg__(self) -> Self: ...
    def __add__(self, other: Self | float, /) -> Self: ...
    def __sub__(self, other: Self | float, /) -> Self: ...
    def __mul__(self, other: Self | float, /) -> Self: ...
    def __truediv__(self, other: Self | float, /) -> Self: ...
    def __rsub__(self, other: float, /) -> Self: ...
    def __rtruediv__(self, other: float, /) -> Self: ...
    def __lt__(self, other: float, /) -> Self: ...
    def __gt__(self, other: float, /) -> Self: ...


V = TypeVar("V")


@dataclass(frozen=True)
class Symbol(Generic[V]):
    """A value or a condition of a program that is being written, to which operators append ops.

    Attributes:
        append: Appends an op on values, which is called as in Python's `operator`, or "floor", "log" or "select".
        number: Returns a constant.
        value: The value.
    """

    append: Callable[[str, Sequence[V]], V]
    number: Callable[[float], V]
    value: V

    def apply(self, name: str, *others: Symbol[V] | float) -> Symbol[V]:
        """Appends an op on this value and others."""
        values = [other.value if isinstance(other, Symbol) else self.number(other) for other in others]
        return replace(self, value=self.append(name, [self.value, *values]))

    def __abs__(self) -> Symbol[V]:
        return self.apply("abs")

    def __neg__(self) -> Symbol[V]:
        return self.apply("neg")

    def __add__(self, other: Symbol[V] | float) -> Symbol[V]:
        return self.apply("add", other)

    def __sub__(self, other: Symbol[V] | float) -> Symbol[V]:
        return self.apply("sub", other)

    def __mul__(self, other: Symbol[V] | float) -> Symbol[V]:
        return self.apply("mul", other)

    def __truediv__(self, other: Symbol[V] | float) -> Symbol[V]:
        return self.apply("truediv", other)

    def __rsub__(self, other: float) -> Symbol[V]:
        return replace(self, value=self.number(other)) - self

    def __rtruediv__(self, other: float) -> Symbol[V]:
        return replace(self, value=self.number(other)) / self

    def __lt__(self, other: float) -> Symbol[V]:
        return self.apply("lt", other)

    def __gt__(self, other: float) -> Symbol[V]:
        return self.apply("gt", other)


R = TypeVar("R", bound=Real)


@dataclass(frozen=True)
class Elements(Generic[R]):
    """What formulas compute with beside operators.

    Attributes:
        floor: Returns the largest integer that is not above its argument.
        log: Returns the natural logarithm.
        select: Returns the second argument where the first holds, else the third; one of them may be a number.
    """

    floor: Callable[[R], R]
    log: Callable[[R], R]
    select: Callable[[R, R | float, R | float], R]


@dataclass(frozen=True)
class Precision:
    """The constants of a float type.

    Attributes:
        digits: The bits of its significand.
        lgamma: The polynomial for `lgamma` from 1 to 8; the highest power's coefficient comes first.
        digamma: The polynomial for `digamma` there.
        terms: The number of terms of asymptotic series.
        sine_terms: The number of terms of the sine's series.
    """

    digits: int
    lgamma: Sequence[float]
    digamma: Sequence[float]
    terms: int
    sine_terms: int


F32 = Precision(24, _LGAMMA_F32, _DIGAMMA_F32, 3, 7)
F64 = Precision(53, _LGAMMA_F64, _DIGAMMA_F64, 9, 11)


def _polynomial(x: R, coefficients: Sequence[float]) -> R:
    """Returns a polynomial of at least degree 1 by Horner's rule; the highest power's coefficient comes first."""
    total = x * coefficients[0] + coefficients[1]
    for coefficient in coefficients[2:]:
        total = total * x + coefficient
    return total


def _power(x: R, exponent: int) -> R:
    """Returns `x` to the power of a positive integer, by squaring."""
    if exponent == 1:
        return x
    half = _power(x * x, exponent // 2)
    return half * x if exponent % 2 else half


def _ratio(z: R) -> R:
    return (z - CENTER) / (z + CENTER)


def _fraction(of: Elements[R], size: R, precision: Precision) -> R:
    """Returns the fractional part of a magnitude, exactly; numbers without room for one are integers, infinity too."""
    return of.select(size < 2.0 ** (precision.digits - 1), size - of.floor(size), 0.0)


def _sine(r: R, precision: Precision) -> R:
    """Returns `sin(πr) / π` for `|r| <= 1/2`, by Taylor's series."""
    series = [(-1) ** k * math.pi ** (2 * k) / math.factorial(2 * k + 1) for k in range(precision.sine_terms)]
    return r * _polynomial(r * r, series[::-1])


def lgamma(of: Elements[R], x: R, precision: Precision) -> R:
    """Returns `log |Γ(x)|`."""
    size = abs(x)
    moved = x < 1.0  # numbers below 0, too, of which `1 - x` is needed
    z, first = of.select(moved, size + 1.0, size), of.select(moved, size, size - 1.0)
    near = first * (first - 1.0) * _polynomial(_ratio(z), precision.lgamma)
    inverse = 1.0 / z
    series = [number / ((2 * k + 1) * (2 * k + 2)) for k, number in enumerate(BERNOULLI[: precision.terms])]
    rest = inverse * _polynomial(inverse * inverse, series[::-1])
    far = (z - 0.5) * (of.log(z) - 1.0) + (rest + (math.log(2 * math.pi) - 1) / 2)
    value = of.select(z < 8.0, near, far)
    part = _fraction(of, size, precision)
    sine = _sine(of.select(part < 0.5, part, 1.0 - part), precision)
    divisor = of.select(x < 0.0, sine, of.select(moved, size, 1.0))
    value = of.select(x < 0.0, of.select(part > 0.0, -value, 0.0), value)
    return 0.0 - of.log(divisor) + value  # in this order, as a sum of -0 and 0 is 0 at 1 and 2


def digamma(of: Elements[R], x: R, precision: Precision) -> R:
    """Returns the derivative of `log |Γ(x)|`."""
    size = abs(x)
    moved = x < 1.0
    z = of.select(moved, size + 1.0, size)
    near = (z - ROOT_HIGH - ROOT_LOW) * _polynomial(_ratio(z), precision.digamma)
    inverse = 1.0 / z
    series = [number / (2 * k + 2) for k, number in enumerate(BERNOULLI[: precision.terms])]
    far = of.log(z) - inverse * (inverse * _polynomial(inverse * inverse, series[::-1]) + 0.5)
    value = of.select(z < 8.0, near, far)
    part = _fraction(of, size, precision)
    # π times the cotangent of π times the part; at poles the limits from both sides differ.
    sine = _sine(of.select(part < 0.5, part, 1.0 - part), precision)
    reflected = _sine(0.5 - part, precision) * math.pi / sine
    reflected = of.select(sine > 0.0, reflected, math.nan)
    return value + of.select(x < 0.0, reflected, of.select(moved, -1.0 / x, 0.0))


def _shift(order: int, precision: Precision) -> int:
    """Returns from where on the series of `_zeta` is accurate to a quarter of the float type's last bit.

    The sum is at least its first term. Relative to that, the term that the series leaves out is largest at a number
    whose ratio to the shift is that of their exponents.
    """
    exponent, step, shift = order + 1, 2 * precision.terms + 1, 2
    omitted = abs(_coefficient(order, precision.terms))
    while True:
        place = shift * exponent / step
        relative = (place / (place + shift)) ** exponent * (place + shift) ** -step
        if omitted * relative < 2.0 ** -(precision.digits + 2):
            return shift
        shift += 1


def _coefficient(order: int, k: int) -> float:
    """Returns a coefficient of Euler's and Maclaurin's summation, divided by the order's factorial."""
    return BERNOULLI[k] * math.perm(2 * k + 1 + order, 2 * k + 1) / math.factorial(2 * k + 2)


def _zeta(q: R, order: int, precision: Precision) -> R:
    """Returns `order! ζ(order + 1, q)` for `q >= 0`: the sum of `order! / (q + k)^(order + 1)` over all k from 0 on.

    The factorial's root is inside of the power, so that nothing overflows before the result does.
    """
    shift = _shift(order, precision)
    root = math.exp(math.lgamma(order + 1) / (order + 1))
    moved = q + float(shift)
    inverse = 1.0 / moved
    series = [_coefficient(order, k) for k in range(precision.terms)]
    rest = inverse * (inverse * _polynomial(inverse * inverse, series[::-1]) + 0.5) + 1 / order
    total = _power(inverse * root, order) * rest * root
    for step in reversed(range(shift)):
        total = total + _power(root / (q + float(step) if step else q), order + 1)
    return total


def polygamma(of: Elements[R], x: R, order: int, precision: Precision) -> R:
    """Returns the derivative of `digamma` of an order; below 0 by three sums over the integers around `x`."""
    if not order:
        return digamma(of, x, precision)
    size = abs(x)
    part = _fraction(of, size, precision)
    above = _zeta(of.select(x < 0.0, 1.0 - part, x), order, precision)
    between = _zeta(part, order, precision) - _zeta(size + 1.0, order, precision)
    if order % 2:
        return above + of.select(x < 0.0, between, 0.0)
    return of.select(x < 0.0, of.select(part > 0.0, between, math.nan), 0.0) - above


ARRAYS: Elements[Any] = Elements(np.floor, np.log, np.where)
SYMBOLS: Elements[Any] = Elements(
    floor=lambda x: x.apply("floor"),
    log=lambda x: x.apply("log"),
    select=lambda condition, on_true, on_false: condition.apply("select", on_true, on_false),
)
"""What formulas of a `Symbol` compute with beside operators: they append, too."""


@irdl_op_definition
class LgammaOp(UnaryOp):
    """The logarithm of the gamma function's magnitude, `log |Γ(x)|`; infinite at 0, -1, -2, … and at infinities.

    Within 6 ulp above 0, near its zeros 1 and 2 too; below 0, within 12 ulp of the larger of 1 and the result.

    Example:
        %1 = tg.lgamma %0 : tensor<4xf32>
    """

    name = "tg.lgamma"

    @staticmethod
    def function(x: NumpyArray) -> NumpyArray:
        return lgamma(ARRAYS, np.asarray(x, np.float64), F64)


@irdl_op_definition
class PolygammaOp(TensorOp):
    """The derivative of order `order` of the digamma function ψ, which is that of `lgamma`; order 0 is ψ itself.

    At 0 it is infinite, of the sign of its limit on the side of the zero's sign. At -1, -2, … odd orders are infinite,
    and even ones NaN, because the limits from both sides differ. Order n is within 2 n + 10 ulp of the result where
    both are above 0, and elsewhere of the larger of the result and n! 2ⁿ⁺¹, because sums of that size cancel there.

    Example:
        %1 = tg.polygamma %0 order = 1 : tensor<4xf32>
    """

    name = "tg.polygamma"
    operand = operand_def()
    order = prop_def(INTEGER)
    result = result_def()
    traits = traits_def(Pure(), Elementwise(), KeepsNan())
    PROPERTIES: ClassVar = ("order",)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        element, order = operands[0].get_element_type(), int_value(properties, "order")
        require_elements(element, "float")
        require(0 <= order <= MOST_ORDER, f"order must be from 0 to {MOST_ORDER}, got {order}")
        return operands[0]

    def prepare(self) -> Evaluate:
        order = self.order.value.data

        def function(x: NumpyArray) -> NumpyArray:
            return polygamma(ARRAYS, np.asarray(x, np.float64), order, F64)

        return giving_arrays(function, self.type)

    def fold_splat(self, values: Sequence[NumpyArray]) -> Attribute | None:
        return fold_splats(self, values)


OPS = (LgammaOp, PolygammaOp)
