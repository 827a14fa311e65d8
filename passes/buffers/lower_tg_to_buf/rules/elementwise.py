"""What ops that work element by element do to one element, in `arith` and `math`.

Nothing here relies on what upstream leaves undefined: divisors and shift amounts are made harmless first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    IntegerType,
    f16,
    f32,
    i1,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from tensorgrad.dialects import wgsl
from tensorgrad.dialects.tg.base import TensorOp, is_float, is_unsigned
from tensorgrad.dialects.tg.build import element_of
from tensorgrad.dialects.tg.elementwise import arithmetic, functions
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.buffers.lower_tg_to_buf.registry import pointwise, view
from tensorgrad.passes.buffers.lower_tg_to_buf.scalars import (
    Body,
    ScalarBuilder,
    by_kind,
    constant_integer,
    polynomial,
    predicate,
    storage,
)


def _numeric(name: str) -> Body:
    def body(b: ScalarBuilder, op: TensorOp, args: Sequence[SSAValue]) -> SSAValue:
        return b.apply(by_kind(name, element_of(op.results[0])), *args)

    return body


def _direct(kind: type[Operation]) -> Body:
    return lambda b, op, args: b.apply(kind, *args)


def _neg(b: ScalarBuilder, op: TensorOp, args: Sequence[SSAValue]) -> SSAValue:
    if is_float(args[0].type):
        return b.apply(arith.NegfOp, args[0])
    return b.apply(arith.SubiOp, b.constant(0, args[0].type), args[0])


def _abs(b: ScalarBuilder, op: TensorOp, args: Sequence[SSAValue]) -> SSAValue:
    if is_float(args[0].type):
        return b.apply(math.AbsFOp, args[0])
    return args[0] if is_unsigned(element_of(op.results[0])) else b.apply(math.AbsIOp, args[0])


def _sigmoid(b: ScalarBuilder, op: TensorOp, args: Sequence[SSAValue]) -> SSAValue:
    x = args[0]
    one = b.constant(1, x.type)
    small = b.apply(math.ExpOp, b.apply(arith.NegfOp, b.apply(math.AbsFOp, x)))
    share = b.apply(arith.DivfOp, one, b.apply(arith.AddfOp, one, small))
    positive = b.compare("oge", x, b.constant(0, x.type))
    return b.select(positive, share, b.apply(arith.MulfOp, small, share))


def _relu(b: ScalarBuilder, op: TensorOp, args: Sequence[SSAValue]) -> SSAValue:
    x, element = args[0], element_of(op.results[0])
    zero = b.constant(0, x.type)
    if not is_float(element):
        return x if is_unsigned(element) else b.apply(arith.MaxSIOp, x, zero)
    return b.select(b.compare("ole", x, zero), zero, x)


def _not(b: ScalarBuilder, op: TensorOp, args: Sequence[SSAValue]) -> SSAValue:
    return b.apply(arith.XOrIOp, args[0], b.constant(1 if args[0].type == i1 else -1, args[0].type))


def _compare(b: ScalarBuilder, op: TensorOp, args: Sequence[SSAValue]) -> SSAValue:
    name = cast(arithmetic.CompareOp, op).predicate.data
    return b.compare(predicate(name, element_of(op.operands[0])), *args)


def _select(b: ScalarBuilder, op: TensorOp, args: Sequence[SSAValue]) -> SSAValue:
    return b.select(*args)


def _saturated(b: ScalarBuilder, x: SSAValue, to: Attribute) -> SSAValue:
    """Returns a float as an integer. Out of its range, and for NaN, `arith` leaves a conversion undefined."""
    target, unsigned = storage(to), is_unsigned(to)
    bits = cast(IntegerType, target).bitwidth
    if x.type == f16:  # which holds no bound of the range
        x = b.convert(arith.ExtFOp, x, f32)
    first, end = (0, 1 << bits) if unsigned else (-(1 << bits - 1), 1 << bits - 1)
    low, high = b.constant(first, x.type), b.constant(end, x.type)
    inside = b.apply(arith.AndIOp, b.compare("oge", x, low), b.compare("olt", x, high))
    safe = b.select(inside, x, b.constant(0, x.type))
    whole = b.convert(arith.FPToUIOp if unsigned else arith.FPToSIOp, safe, target)
    whole = b.select(b.compare("oge", x, high), b.constant(end - 1, target), whole)
    return whole if unsigned else b.select(b.compare("olt", x, low), b.constant(first, target), whole)


def _cast(b: ScalarBuilder, op: TensorOp, args: Sequence[SSAValue]) -> SSAValue:
    x, source, to = args[0], element_of(op.operands[0]), element_of(op.results[0])
    target = storage(to)
    if x.type == target:
        return x
    if to == i1:
        return b.compare("une" if is_float(source) else "ne", x, b.constant(0, x.type))
    if source == i1:
        return b.convert(arith.UIToFPOp if is_float(to) else arith.ExtUIOp, x, target)
    wider, unsigned = cast(Any, target).bitwidth > cast(Any, x.type).bitwidth, is_unsigned(source)
    if is_float(source) and is_float(to):
        return b.convert(arith.ExtFOp if wider else arith.TruncFOp, x, target)
    if is_float(source):
        return _saturated(b, x, to)
    if is_float(to):
        return b.convert(arith.UIToFPOp if unsigned else arith.SIToFPOp, x, target)
    return b.convert((arith.ExtUIOp if unsigned else arith.ExtSIOp) if wider else arith.TruncIOp, x, target)


def _softplus(b: ScalarBuilder, op: TensorOp, args: Sequence[SSAValue]) -> SSAValue:
    x = args[0]
    small = b.apply(math.ExpOp, b.apply(arith.NegfOp, b.apply(math.AbsFOp, x)))
    return b.apply(arith.AddfOp, b.apply(arith.MaximumfOp, x, b.constant(0, x.type)), b.apply(math.Log1pOp, small))


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
"""From here on, f32 has only 0 for erfc."""


def _erfc_in_f32(b: ScalarBuilder, x: SSAValue) -> SSAValue:
    """Returns erfc within 8 ulp of f32, by one exponential and one division.

    Exp would amplify the rounding error of the square. So `z` is split into `c`, which has 12 bits, so that its square
    is exact, and a rest: `exp(-z * z)` is `exp(-c * c) exp((c - z) (c + z))`, and the second is near 1.
    """
    kind = x.type

    def number(value: float) -> SSAValue:
        return b.constant(value, kind)

    def add(left: SSAValue, right: SSAValue) -> SSAValue:
        return b.apply(arith.AddfOp, left, right)

    def mul(left: SSAValue, right: SSAValue) -> SSAValue:
        return b.apply(arith.MulfOp, left, right)

    z = b.apply(arith.MinimumfOp, b.apply(math.AbsFOp, x), number(_ERFC_END))
    coarse = mul(b.apply(math.FloorOp, add(mul(z, number(256)), number(0.5))), number(1 / 256))
    rest = mul(b.apply(arith.SubfOp, coarse, z), add(coarse, z))
    inverse = b.apply(arith.DivfOp, number(1), add(z, number(3)))
    ratio = mul(polynomial(b, mul(b.apply(arith.SubfOp, z, number(3)), inverse), _ERFC), inverse)
    more = add(mul(mul(polynomial(b, rest, (1 / 24, 1 / 6, 1 / 2)), rest), rest), rest)
    tail = mul(add(ratio, mul(ratio, more)), b.apply(math.ExpOp, b.apply(arith.NegfOp, mul(coarse, coarse))))
    return b.select(b.compare("olt", x, number(0)), b.apply(arith.SubfOp, number(2), tail), tail)


def _erfc_from_one(b: ScalarBuilder, size: SSAValue) -> SSAValue:
    """`functions.erfc` of a magnitude from 1 on."""
    kind = size.type
    z = b.apply(arith.MinimumfOp, size, b.constant(28, kind))
    sixteenths = b.apply(math.FloorOp, b.apply(arith.MulfOp, z, b.constant(16, kind)))
    coarse = b.apply(arith.MulfOp, sixteenths, b.constant(1 / 16, kind))
    square = b.apply(arith.MulfOp, coarse, coarse)
    rest = b.apply(arith.MulfOp, b.apply(arith.SubfOp, coarse, z), b.apply(arith.AddfOp, coarse, z))
    power = b.apply(arith.MulfOp, b.apply(math.ExpOp, b.apply(arith.NegfOp, square)), b.apply(math.ExpOp, rest))
    near, far = (
        b.apply(arith.DivfOp, polynomial(b, z, above), polynomial(b, z, below))
        for above, below in (
            (functions.ERFC_NUMERATOR, functions.ERFC_DENOMINATOR),
            (functions.ERFC_TAIL_NUMERATOR, functions.ERFC_TAIL_DENOMINATOR),
        )
    )
    tail = b.select(b.compare("olt", z, b.constant(8, kind)), near, far)
    return b.apply(arith.MulfOp, power, tail)


def _erfc(b: ScalarBuilder, op: TensorOp, args: Sequence[SSAValue]) -> SSAValue:
    x = args[0]
    if x.type == f16:
        return b.convert(arith.TruncFOp, _erfc_in_f32(b, b.convert(arith.ExtFOp, x, f32)), f16)
    if x.type == f32:
        return _erfc_in_f32(b, x)
    one = b.constant(1, x.type)
    size = b.apply(math.AbsFOp, x)
    tail = _erfc_from_one(b, size)
    negative = b.compare("olt", x, b.constant(0, x.type))
    large = b.select(negative, b.apply(arith.SubfOp, b.constant(2, x.type), tail), tail)
    small = b.apply(arith.SubfOp, one, b.apply(math.ErfOp, x))
    return b.select(b.compare("ogt", size, one), large, small)


def _bitcast(b: ScalarBuilder, op: TensorOp, args: Sequence[SSAValue]) -> SSAValue:
    target = storage(element_of(op.results[0]))
    return args[0] if args[0].type == target else b.convert(arith.BitcastOp, args[0], target)


_EXPONENTS: dict[int, tuple[Attribute, int]] = {
    16: (i16, 0x7C00),
    32: (i32, 0x7F800000),
    64: (i64, 0x7FF0000000000000),
}
"""By the width of a float: the integer of its width, and its exponent's bits, all set in infinities and NaN alone."""


def _is_finite(b: ScalarBuilder, op: TensorOp, args: Sequence[SSAValue]) -> SSAValue:
    x = b.convert(arith.ExtFOp, args[0], f32) if args[0].type == f16 else args[0]
    kind, exponent = _EXPONENTS[cast(Any, x.type).bitwidth]
    mask = b.constant(exponent, kind)
    return b.compare("ne", b.apply(arith.AndIOp, b.convert(arith.BitcastOp, x, kind), mask), mask)


def _shift(b: ScalarBuilder, kind: type[Operation], x: SSAValue, amount: SSAValue) -> SSAValue:
    """Returns a shift by an amount that may be the width or more; 0 then, but for the sign of an arithmetic one."""
    bits, known = cast(IntegerType, x.type).bitwidth, constant_integer(amount)
    if known is not None and 0 <= known < bits:
        return b.apply(kind, x, amount)
    moved = b.apply(kind, x, b.apply(arith.MinUIOp, amount, b.constant(bits - 1, amount.type)))
    if kind is arith.ShRSIOp:
        return moved
    return b.select(b.compare("ult", amount, b.constant(bits, amount.type)), moved, b.constant(0, x.type))


def _shift_left(b: ScalarBuilder, op: TensorOp, args: Sequence[SSAValue]) -> SSAValue:
    return _shift(b, arith.ShLIOp, *args)


def _shift_right(b: ScalarBuilder, op: TensorOp, args: Sequence[SSAValue]) -> SSAValue:
    return _shift(b, arith.ShRUIOp if is_unsigned(element_of(op.results[0])) else arith.ShRSIOp, *args)


def _signs_differ(b: ScalarBuilder, rest: SSAValue, y: SSAValue) -> SSAValue:
    """Returns whether a remainder that is not 0 has another sign than the divisor."""
    zero = b.constant(0, y.type)
    less, differs = ("olt", "one") if is_float(y.type) else ("slt", "ne")
    other = b.apply(arith.XOrIOp, b.compare(less, rest, zero), b.compare(less, y, zero))
    return b.apply(arith.AndIOp, b.compare(differs, rest, zero), other)


def _harmless(b: ScalarBuilder, y: SSAValue, unsigned: bool) -> SSAValue:
    """Returns a divisor with 1 for 0, and for -1, by which the smallest integer has no quotient."""
    one = b.constant(1, y.type)
    bad = b.compare("eq", y, b.constant(0, y.type))
    if not unsigned:
        bad = b.apply(arith.OrIOp, bad, b.compare("eq", y, b.constant(-1, y.type)))
    return b.select(bad, one, y)


def _integer_floor_divide(b: ScalarBuilder, x: SSAValue, y: SSAValue, unsigned: bool) -> SSAValue:
    safe, zero = _harmless(b, y, unsigned), b.constant(0, x.type)
    if unsigned:
        quotient = b.apply(arith.DivUIOp, x, safe)
    else:
        lower = _signs_differ(b, b.apply(arith.RemSIOp, x, safe), safe)
        quotient = b.apply(arith.DivSIOp, x, safe)
        quotient = b.apply(arith.SubiOp, quotient, b.convert(arith.ExtUIOp, lower, x.type))
        negated = b.compare("eq", y, b.constant(-1, y.type))
        quotient = b.select(negated, b.apply(arith.SubiOp, zero, x), quotient)
    return b.select(b.compare("eq", y, zero), zero, quotient)


def _float_floor_divide(b: ScalarBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """As numpy: the quotient is nearly whole once the remainder is taken off, and is rounded."""
    zero, one, half = (b.constant(number, x.type) for number in (0, 1, 0.5))
    rest = b.apply(wgsl.RemFOp, x, y)
    plain = b.apply(arith.DivfOp, x, y)
    quotient = b.apply(arith.DivfOp, b.apply(arith.SubfOp, x, rest), y)
    lower = _signs_differ(b, rest, y)
    quotient = b.select(lower, b.apply(arith.SubfOp, quotient, one), quotient)
    floor = b.apply(math.FloorOp, quotient)
    up = b.compare("ogt", b.apply(arith.SubfOp, quotient, floor), half)
    floor = b.select(up, b.apply(arith.AddfOp, floor, one), floor)
    floor = b.select(b.compare("oeq", quotient, zero), b.apply(math.CopySignOp, zero, plain), floor)
    return b.select(b.compare("oeq", y, zero), plain, floor)


def _floor_divide(b: ScalarBuilder, op: TensorOp, args: Sequence[SSAValue]) -> SSAValue:
    element = element_of(op.results[0])
    if is_float(element):
        return _float_floor_divide(b, *args)
    return _integer_floor_divide(b, args[0], args[1], is_unsigned(element))


def _remainder(b: ScalarBuilder, op: TensorOp, args: Sequence[SSAValue]) -> SSAValue:
    (x, y), element = args, element_of(op.results[0])
    zero = b.constant(0, x.type)
    if is_unsigned(element):
        return b.apply(arith.RemUIOp, x, _harmless(b, y, unsigned=True))
    if not is_float(element):
        safe = _harmless(b, y, unsigned=False)
        rest = b.apply(arith.RemSIOp, x, safe)
        return b.apply(arith.AddiOp, rest, b.select(_signs_differ(b, rest, safe), safe, zero))
    rest = b.apply(wgsl.RemFOp, x, y)
    rest = b.select(_signs_differ(b, rest, y), b.apply(arith.AddfOp, rest, y), rest)
    return b.select(b.compare("oeq", rest, zero), b.apply(math.CopySignOp, zero, y), rest)


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
    arithmetic.PowOp: math.PowFOp,
    arithmetic.DivOp: arith.DivfOp,
    arithmetic.AndOp: arith.AndIOp,
    arithmetic.OrOp: arith.OrIOp,
    arithmetic.XorOp: arith.XOrIOp,
}
"""The ops that are one op of `math` or `arith`."""

NUMERIC: dict[type[TensorOp], str] = {
    arithmetic.AddOp: "add",
    arithmetic.SubOp: "sub",
    arithmetic.MulOp: "mul",
    arithmetic.MaximumOp: "max",
    arithmetic.MinimumOp: "min",
}
"""The ops that are one op for each kind of elements; see `BY_KIND`."""

pointwise(
    {
        **{op: _direct(kind) for op, kind in DIRECT.items()},
        **{op: _numeric(name) for op, name in NUMERIC.items()},
        arithmetic.NegOp: _neg,
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
        functions.IsFiniteOp: _is_finite,
    }
)


@view(arithmetic.StopGradientOp)
def _identity(op: TensorOp) -> AffineMap:
    return affine.identity(len(op.shape))
