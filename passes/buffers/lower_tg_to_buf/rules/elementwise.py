"""The scalar bodies of elementwise ops, in `arith` and `math`.

They don't rely on behavior that upstream leaves undefined: divisors and shift amounts are made safe first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    FloatAttr,
    IntegerType,
    f16,
    f32,
    i1,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation
from xdsl.ir.affine import AffineMap

from tensorgrad.dialects import wgsl
from tensorgrad.dialects.tg.base import TensorOp, is_float, is_unsigned
from tensorgrad.dialects.tg.build import element_of
from tensorgrad.dialects.tg.elementwise import arithmetic, functions, gamma
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.buffers.lower_tg_to_buf.registry import pointwise, view
from tensorgrad.passes.buffers.lower_tg_to_buf.scalars import (
    Body,
    by_kind,
    predicate,
    storage,
)
from tensorgrad.passes.scalars import ScalarBuilder, Value, constant_integer


def _numeric(name: str) -> Body:
    def body(b: ScalarBuilder, op: TensorOp, args: Sequence[Value]) -> Value:
        return b.apply(by_kind(name, element_of(op.results[0])), *args)

    return body


def _direct(kind: type[Operation]) -> Body:
    return lambda b, op, args: b.apply(kind, *args)


def _neg(b: ScalarBuilder, op: TensorOp, args: Sequence[Value]) -> Value:
    return -args[0] if is_float(args[0].type) else 0 - args[0]


def _abs(b: ScalarBuilder, op: TensorOp, args: Sequence[Value]) -> Value:
    if is_float(args[0].type):
        return abs(args[0])
    return args[0] if is_unsigned(element_of(op.results[0])) else b.apply(math.AbsIOp, args[0])


MOST_PRODUCTS = 17
"""A power with a constant exponent down to minus this is one over products: also the derivative of `x**-16`."""


def _pow(b: ScalarBuilder, op: TensorOp, args: Sequence[Value]) -> Value:
    """A power; with a small constant whole exponent below -1, one over repeated squares."""
    base, exponent = args
    owner = exponent.ssa.owner
    number = owner.value.value.data if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, FloatAttr) else 0
    if base.type == f16 or number % 1 or not -MOST_PRODUCTS <= number <= -2:
        return b.apply(math.PowFOp, base, exponent)
    product, square, count = b.constant(1, base.type), base, int(-number)
    while count:
        product = product * square if count & 1 else product
        square, count = square * square, count >> 1
    return b.constant(1, base.type) / product


def _sigmoid(b: ScalarBuilder, op: TensorOp, args: Sequence[Value]) -> Value:
    x = args[0]
    one = b.constant(1, x.type)
    small = (-abs(x)).exp()
    share = one / (one + small)
    return b.select(x >= 0, share, small * share)


def _relu(b: ScalarBuilder, op: TensorOp, args: Sequence[Value]) -> Value:
    x, element = args[0], element_of(op.results[0])
    zero = b.constant(0, x.type)
    if not is_float(element):
        return x if is_unsigned(element) else b.apply(arith.MaxSIOp, x, zero)
    return b.select(x <= zero, zero, x)


def _not(b: ScalarBuilder, op: TensorOp, args: Sequence[Value]) -> Value:
    return args[0] ^ (1 if args[0].type == i1 else -1)


def _compare(b: ScalarBuilder, op: TensorOp, args: Sequence[Value]) -> Value:
    name = cast(arithmetic.CompareOp, op).predicate.data
    return args[0].compare(predicate(name, element_of(op.operands[0])), args[1])


def _select(b: ScalarBuilder, op: TensorOp, args: Sequence[Value]) -> Value:
    return b.select(*args)


def _saturated(b: ScalarBuilder, x: Value, to: Attribute) -> Value:
    """Converts a float to an integer, since `arith` leaves conversions of NaN and out of range undefined."""
    target, unsigned = storage(to), is_unsigned(to)
    bits = cast(IntegerType, target).bitwidth
    if x.type == f16:  # which can't represent the bounds of wide integers
        x = x.cast(arith.ExtFOp, f32)
    first, end = (0, 1 << bits) if unsigned else (-(1 << bits - 1), 1 << bits - 1)
    low, high = b.constant(first, x.type), b.constant(end, x.type)
    safe = b.select((x >= low) & (x < high), x, 0)
    whole = safe.cast(arith.FPToUIOp if unsigned else arith.FPToSIOp, target)
    whole = b.select(x >= high, end - 1, whole)
    return whole if unsigned else b.select(x < low, first, whole)


def _cast(b: ScalarBuilder, op: TensorOp, args: Sequence[Value]) -> Value:
    x, source, to = args[0], element_of(op.operands[0]), element_of(op.results[0])
    target = storage(to)
    if x.type == target:
        return x
    if to == i1:
        return x.compare("une" if is_float(source) else "ne", 0)
    if source == i1:
        return x.cast(arith.UIToFPOp if is_float(to) else arith.ExtUIOp, target)
    wider, unsigned = cast(Any, target).bitwidth > cast(Any, x.type).bitwidth, is_unsigned(source)
    if is_float(source) and is_float(to):
        return x.cast(arith.ExtFOp if wider else arith.TruncFOp, target)
    if is_float(source):
        return _saturated(b, x, to)
    if is_float(to):
        return x.cast(arith.UIToFPOp if unsigned else arith.SIToFPOp, target)
    return x.cast((arith.ExtUIOp if unsigned else arith.ExtSIOp) if wider else arith.TruncIOp, target)


def _softplus(b: ScalarBuilder, op: TensorOp, args: Sequence[Value]) -> Value:
    x = args[0]
    small = (-abs(x)).exp()
    return x.at_least(0) + b.apply(math.Log1pOp, small)


_ERFC = (
    -3.25333705404773e-4,
    -4.83177165733650e-4,
    3.08032842846078e-3,
    -1.22643040958792e-3,
    -2.68398262560368e-2,
    1.19529068470001e-1,
    -3.10466021299362e-1,
    5.90228319168091e-1,
    -8.83394479751587e-1,
    1.07400691509247,
)
"""`erfc(z) exp(z * z) (z + 3)` within 2.2e-8 for z from 0 to 10.2, as a polynomial in `(z - 3) / (z + 3)`, the highest
power first: a minimax fit, by Lawson's iteration on Chebyshev points. The variable is that of

M. Shepherd, J. Laframboise: Chebyshev Approximation of (1 + 2x) exp(x^2) erfc x (Mathematics of Computation 36, 1981).
"""
_ERFC_END = 10.1
"""From here on, erfc rounds to 0 in f32."""


def _erfc_in_f32(b: ScalarBuilder, x: Value) -> Value:
    """Computes erfc within 8 ulp of f32, with one exponential and one division.

    Exp would amplify the rounding error of the square. So `z` is split into `c`, which has 12 bits, so that its square
    is exact, and a rest: `exp(-z * z)` is `exp(-c * c) exp((c - z) (c + z))`, and the second factor is near 1.
    """
    z = abs(x).at_most(_ERFC_END)
    coarse = (z * 256 + 0.5).floor() * (1 / 256)
    rest = (coarse - z) * (coarse + z)
    inverse = 1 / (z + 3)
    ratio = b.polynomial((z - 3) * inverse, _ERFC) * inverse
    more = b.polynomial(rest, (1 / 24, 1 / 6, 1 / 2)) * rest * rest + rest
    tail = (ratio + ratio * more) * (-(coarse * coarse)).exp()
    return b.select(x < 0, 2 - tail, tail)


def _erfc_from_one(b: ScalarBuilder, size: Value) -> Value:
    """Computes `functions.erfc` of a magnitude of at least 1."""
    z = size.at_most(28)
    coarse = (z * 16).floor() * (1 / 16)
    square = coarse * coarse
    rest = (coarse - z) * (coarse + z)
    power = (-square).exp() * rest.exp()
    near, far = (
        b.polynomial(z, above) / b.polynomial(z, below)
        for above, below in (
            (functions.ERFC_NUMERATOR, functions.ERFC_DENOMINATOR),
            (functions.ERFC_TAIL_NUMERATOR, functions.ERFC_TAIL_DENOMINATOR),
        )
    )
    return power * b.select(z < 8, near, far)


def _widened(x: Value, formula: Callable[[Value], Value]) -> Value:
    """Applies a formula to a float, in f32 to one in f16."""
    return formula(x.cast(arith.ExtFOp, f32)).cast(arith.TruncFOp, f16) if x.type == f16 else formula(x)


def _erfc(b: ScalarBuilder, op: TensorOp, args: Sequence[Value]) -> Value:
    x = args[0]
    if x.type in (f16, f32):
        return _widened(x, lambda x: _erfc_in_f32(b, x))
    one = b.constant(1, x.type)
    size = abs(x)
    tail = _erfc_from_one(b, size)
    large = b.select(x < 0, 2 - tail, tail)
    small = one - b.apply(math.ErfOp, x)
    return b.select(size > one, large, small)


def _elements(b: ScalarBuilder) -> gamma.Elements[Value]:
    return gamma.Elements(Value.floor, Value.log, b.select)


def _precision(x: Value) -> gamma.Precision:
    return gamma.F32 if x.type == f32 else gamma.F64


def _lgamma(b: ScalarBuilder, op: TensorOp, args: Sequence[Value]) -> Value:
    return _widened(args[0], lambda x: gamma.lgamma(_elements(b), x, _precision(x)))


def _polygamma(b: ScalarBuilder, op: TensorOp, args: Sequence[Value]) -> Value:
    assert isinstance(op, gamma.PolygammaOp)
    order = op.order.value.data
    return _widened(args[0], lambda x: gamma.polygamma(_elements(b), x, order, _precision(x)))


def _bitcast(b: ScalarBuilder, op: TensorOp, args: Sequence[Value]) -> Value:
    target = storage(element_of(op.results[0]))
    return args[0] if args[0].type == target else args[0].cast(arith.BitcastOp, target)


_EXPONENTS: dict[int, tuple[Attribute, int]] = {
    16: (i16, 0x7C00),
    32: (i32, 0x7F800000),
    64: (i64, 0x7FF0000000000000),
}
"""By width of a float: the integer type of that width, and the mask of the exponent, all set only for inf and NaN."""


def _is_finite(b: ScalarBuilder, op: TensorOp, args: Sequence[Value]) -> Value:
    x = args[0].cast(arith.ExtFOp, f32) if args[0].type == f16 else args[0]
    kind, exponent = _EXPONENTS[cast(Any, x.type).bitwidth]
    mask = b.constant(exponent, kind)
    return (x.cast(arith.BitcastOp, kind) & mask).differs(mask)


def _shift(b: ScalarBuilder, kind: type[Operation], x: Value, amount: Value) -> Value:
    """Emits a shift. By the width or more the result is 0, or the sign if the shift is arithmetic."""
    bits, known = cast(IntegerType, x.type).bitwidth, constant_integer(amount.ssa)
    if known is not None and 0 <= known < bits:
        return b.apply(kind, x, amount)
    moved = b.apply(kind, x, amount.at_most(bits - 1))
    return moved if kind is arith.ShRSIOp else b.select(amount < bits, moved, 0)


def _shift_left(b: ScalarBuilder, op: TensorOp, args: Sequence[Value]) -> Value:
    return _shift(b, arith.ShLIOp, *args)


def _shift_right(b: ScalarBuilder, op: TensorOp, args: Sequence[Value]) -> Value:
    return _shift(b, arith.ShRUIOp if is_unsigned(element_of(op.results[0])) else arith.ShRSIOp, *args)


def _signs_differ(b: ScalarBuilder, rest: Value, y: Value) -> Value:
    """Emits whether a remainder is not 0 and its sign differs from the divisor's."""
    zero = b.constant(0, y.type)
    less = "olt" if is_float(y.type) else "slt"
    other = rest.compare(less, zero) ^ y.compare(less, zero)
    return rest.differs(zero) & other


def _harmless(b: ScalarBuilder, y: Value, unsigned: bool) -> Value:
    """Replaces a divisor of 0 with 1, and a signed one of -1, by which division of the smallest integer overflows."""
    one = b.constant(1, y.type)
    bad = y.equals(0)
    return b.select(bad if unsigned else bad | y.equals(-1), one, y)


def _integer_floor_divide(b: ScalarBuilder, x: Value, y: Value, unsigned: bool) -> Value:
    safe, zero = _harmless(b, y, unsigned), b.constant(0, x.type)
    if unsigned:
        quotient = x // safe
    else:
        lower = _signs_differ(b, b.apply(arith.RemSIOp, x, safe), safe)
        quotient = b.apply(arith.DivSIOp, x, safe) - lower.cast(arith.ExtUIOp, x.type)
        quotient = b.select(y.equals(-1), zero - x, quotient)
    return b.select(y.equals(zero), zero, quotient)


def _float_floor_divide(b: ScalarBuilder, x: Value, y: Value) -> Value:
    """Computes the floor of a quotient as NumPy does: subtracts the remainder first, then rounds the quotient."""
    zero, one, half = (b.constant(number, x.type) for number in (0, 1, 0.5))
    rest = b.apply(wgsl.RemFOp, x, y)
    plain = x / y
    quotient = (x - rest) / y
    lower = _signs_differ(b, rest, y)
    quotient = b.select(lower, quotient - one, quotient)
    floor = quotient.floor()
    up = quotient - floor > half
    floor = b.select(up, floor + one, floor)
    floor = b.select(quotient.equals(zero), b.apply(math.CopySignOp, zero, plain), floor)
    return b.select(y.equals(zero), plain, floor)


def _floor_divide(b: ScalarBuilder, op: TensorOp, args: Sequence[Value]) -> Value:
    element = element_of(op.results[0])
    if element == f16:  # as NumPy: the difference of the dividend and the remainder has more digits than f16
        return _float_floor_divide(b, *(x.cast(arith.ExtFOp, f32) for x in args)).cast(arith.TruncFOp, f16)
    if is_float(element):
        return _float_floor_divide(b, *args)
    return _integer_floor_divide(b, args[0], args[1], is_unsigned(element))


def _remainder(b: ScalarBuilder, op: TensorOp, args: Sequence[Value]) -> Value:
    (x, y), element = args, element_of(op.results[0])
    zero = b.constant(0, x.type)
    if is_unsigned(element):
        return x % _harmless(b, y, unsigned=True)
    if not is_float(element):
        safe = _harmless(b, y, unsigned=False)
        rest = b.apply(arith.RemSIOp, x, safe)
        return rest + b.select(_signs_differ(b, rest, safe), safe, zero)
    rest = b.apply(wgsl.RemFOp, x, y)
    rest = b.select(_signs_differ(b, rest, y), rest + y, rest)
    return b.select(rest.equals(zero), b.apply(math.CopySignOp, zero, y), rest)


DIRECT: dict[type[TensorOp], type[Operation]] = {
    functions.ExpOp: math.ExpOp,
    functions.Exp2Op: math.Exp2Op,
    functions.Expm1Op: math.ExpM1Op,
    functions.LogOp: math.LogOp,
    functions.Log2Op: math.Log2Op,
    functions.Log1pOp: math.Log1pOp,
    functions.SqrtOp: math.SqrtOp,
    functions.SinOp: math.SinOp,
    functions.CosOp: math.CosOp,
    functions.TanOp: math.TanOp,
    functions.AsinOp: math.AsinOp,
    functions.AcosOp: math.AcosOp,
    functions.AtanOp: math.AtanOp,
    functions.Atan2Op: math.Atan2Op,
    functions.SinhOp: math.SinhOp,
    functions.CoshOp: math.CoshOp,
    functions.TanhOp: math.TanhOp,
    functions.AsinhOp: math.AsinhOp,
    functions.AcoshOp: math.AcoshOp,
    functions.AtanhOp: math.AtanhOp,
    functions.ErfOp: math.ErfOp,
    functions.FloorOp: math.FloorOp,
    functions.CeilOp: math.CeilOp,
    functions.RoundOp: math.RoundEvenOp,
    functions.TruncOp: math.TruncOp,
    arithmetic.DivOp: arith.DivfOp,
    arithmetic.AndOp: arith.AndIOp,
    arithmetic.OrOp: arith.OrIOp,
    arithmetic.XorOp: arith.XOrIOp,
}
"""The ops that correspond to one op of `math` or `arith`."""

NUMERIC: dict[type[TensorOp], str] = {
    arithmetic.AddOp: "add",
    arithmetic.SubOp: "sub",
    arithmetic.MulOp: "mul",
    arithmetic.MaximumOp: "max",
    arithmetic.MinimumOp: "min",
}
"""The ops that correspond to one op for each kind of element type; see `BY_KIND`."""

pointwise(
    {
        **{op: _direct(kind) for op, kind in DIRECT.items()},
        **{op: _numeric(name) for op, name in NUMERIC.items()},
        arithmetic.NegOp: _neg,
        arithmetic.PowOp: _pow,
        arithmetic.AbsOp: _abs,
        arithmetic.NotOp: _not,
        arithmetic.CompareOp: _compare,
        arithmetic.SelectOp: _select,
        arithmetic.CastOp: _cast,
        arithmetic.BitcastOp: _bitcast,
        arithmetic.ShiftLeftOp: _shift_left,
        arithmetic.ShiftRightOp: _shift_right,
        arithmetic.FloorDivideOp: _floor_divide,
        arithmetic.RemainderOp: _remainder,
        functions.SigmoidOp: _sigmoid,
        functions.ReluOp: _relu,
        functions.SoftplusOp: _softplus,
        functions.ErfcOp: _erfc,
        gamma.LgammaOp: _lgamma,
        gamma.PolygammaOp: _polygamma,
        functions.IsFiniteOp: _is_finite,
    }
)


@view(arithmetic.StopGradientOp)
def _identity(op: TensorOp) -> AffineMap:
    return affine.identity(len(op.shape))
