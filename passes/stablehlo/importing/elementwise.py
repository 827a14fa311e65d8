"""Elementwise ops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import IntegerType, bf16, f16, f32, f64, i1, i32
from xdsl.ir import Attribute, SSAValue

from tensorgrad.dialects.stablehlo import elementwise as hlo
from tensorgrad.dialects.stablehlo.base import HloOp, int_of
from tensorgrad.dialects.tg.base import SIGNLESS, TensorOp, integer, is_float, is_unsigned
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.dialects.tg.elementwise import arithmetic, functions, gamma
from tensorgrad.passes.stablehlo.correspondence import ELEMENTWISE, ON_BOOLEANS, RELU, STOP_GRADIENT
from tensorgrad.passes.stablehlo.importing.reader import Reader, Rule, Unsupported, scalar_constant

BITS: dict[Attribute, tuple[int, int]] = {bf16: (8, 7), f16: (5, 10), f32: (8, 23), f64: (11, 52)}
"""The bits of the exponents and of the mantissas of floats."""

UNSIGNED: dict[Attribute, Attribute] = {signless: unsigned for unsigned, signless in SIGNLESS.items()}


def _corresponding(name: str) -> Rule:
    """Returns the rule of an op with this name, or of a composite."""

    def rule(reader: Reader, op: HloOp) -> SSAValue:
        operands = reader.operands(op)
        return reader.builder.emit(meaning(name, operands), operands)

    return rule


def _unary(kind: type[arithmetic.UnaryOp]) -> Rule:
    return lambda reader, op: reader.builder.unary(kind, reader[op.operands[0]])


def meaning(name: str, operands: Sequence[SSAValue]) -> type[TensorOp]:
    """Returns the op of `tg` that means the same as StableHLO's of this name, on these operands."""
    table = ON_BOOLEANS if element_of(operands[0]) == i1 and name in ON_BOOLEANS else ELEMENTWISE
    return table[name]


def _multiply(reader: Reader, op: HloOp) -> SSAValue:
    """A factor of an infinite constant has no derivative here: JAX writes it in branches that `select` discards.

    There, 0 times the infinity would be NaN.
    """
    operands = reader.operands(op)
    constants = [scalar_constant(operand) for operand in op.operands]
    if any(isinstance(number, float) and math.isinf(number) for number in constants):
        operands = [reader.builder.unary(arithmetic.StopGradientOp, operand) for operand in operands]
    return reader.builder.emit(meaning(op.name, operands), operands)


def _divide(reader: Reader, op: HloOp) -> SSAValue:
    x, y = reader.operands(op)
    b = reader.builder
    if is_float(element_of(x)):
        return b.div(x, y)
    quotient = b.binary(arithmetic.FloorDivideOp, x, y)
    if is_unsigned(element_of(x)):
        return quotient
    # The floor of a negative quotient with a remainder is one below the quotient rounded to zero.
    inexact = b.compare("ne", b.mul(quotient, y), x)
    negative = b.compare("lt", quotient, b.full_like(x, 0))
    return b.select(b.emit(arithmetic.AndOp, [inexact, negative]), b.add(quotient, b.full_like(x, 1)), quotient)


def _remainder(reader: Reader, op: HloOp) -> SSAValue:
    x, y = reader.operands(op)
    b = reader.builder
    if not is_float(element_of(x)):
        rest = b.binary(arithmetic.RemainderOp, x, y)  # of the sign of `y`
        if is_unsigned(element_of(x)):
            return rest
        signs = b.emit(arithmetic.XorOp, [b.compare("lt", value, b.full_like(x, 0)) for value in (rest, x)])
        other = b.emit(arithmetic.AndOp, [b.compare("ne", rest, b.full_like(x, 0)), signs])
        return b.select(other, b.sub(rest, y), rest)
    magnitude = b.binary(arithmetic.RemainderOp, b.unary(arithmetic.AbsOp, x), b.unary(arithmetic.AbsOp, y))
    return b.select(b.compare("lt", x, b.full_like(x, 0)), b.neg(magnitude), magnitude)


def sign(b: TensorBuilder, x: SSAValue) -> SSAValue:
    """Returns the sign of each element: 1, -1, or what is neither above nor below 0. Its derivative is 0."""
    zero = b.full_like(x, 0)
    negative = b.select(b.compare("lt", x, zero), b.full_like(x, -1), x)
    return b.unary(arithmetic.StopGradientOp, b.select(b.compare("gt", x, zero), b.full_like(x, 1), negative))


def _sign(reader: Reader, op: HloOp) -> SSAValue:
    (x,) = reader.operands(op)
    if is_unsigned(element_of(x)):
        return reader.builder.emit(arithmetic.MinimumOp, [x, reader.builder.full_like(x, 1)])
    return sign(reader.builder, x)


def _rsqrt(reader: Reader, op: HloOp) -> SSAValue:
    (x,) = reader.operands(op)
    b = reader.builder
    return b.div(b.full_like(x, 1), b.unary(functions.SqrtOp, x))


def _cbrt(reader: Reader, op: HloOp) -> SSAValue:
    (x,) = reader.operands(op)
    b = reader.builder
    magnitude = b.binary(arithmetic.PowOp, b.unary(arithmetic.AbsOp, x), b.full_like(x, 1 / 3))
    return b.mul(sign(b, x), magnitude)


def _round_away(reader: Reader, op: HloOp) -> SSAValue:
    (x,) = reader.operands(op)
    b = reader.builder
    whole = b.unary(functions.TruncOp, x)
    rest = b.unary(arithmetic.AbsOp, b.sub(x, whole))
    up = b.compare("ge", rest, b.full_like(x, 0.5))
    return b.select(up, b.add(whole, sign(b, x)), whole)


def _shift_right_arithmetic(reader: Reader, op: HloOp) -> SSAValue:
    x, y = reader.operands(op)
    b, element = reader.builder, element_of(x)
    if not is_unsigned(element):
        return b.binary(arithmetic.ShiftRightOp, x, y)
    signed = [b.emit(arithmetic.BitcastOp, [value], to=SIGNLESS[element]) for value in (x, y)]
    return b.emit(arithmetic.BitcastOp, [b.emit(arithmetic.ShiftRightOp, signed)], to=element)


def _shift_right_logical(reader: Reader, op: HloOp) -> SSAValue:
    x, y = reader.operands(op)
    b, element = reader.builder, element_of(x)
    if is_unsigned(element):
        return b.binary(arithmetic.ShiftRightOp, x, y)
    unsigned = [b.emit(arithmetic.BitcastOp, [value], to=UNSIGNED[element]) for value in (x, y)]
    return b.emit(arithmetic.BitcastOp, [b.emit(arithmetic.ShiftRightOp, unsigned)], to=element)


def _convert(reader: Reader, op: HloOp) -> SSAValue:
    return reader.builder.cast(reader[op.operands[0]], reader.kind(op.kind).get_element_type())


def _bitcast(reader: Reader, op: HloOp) -> SSAValue:
    (x,), kind = reader.operands(op), reader.kind(op.kind)
    if shape_of(x) != kind.get_shape():
        raise Unsupported("elements of another width can't be reinterpreted")
    if element_of(x) == kind.get_element_type():
        return x
    return reader.builder.emit(arithmetic.BitcastOp, [x], to=kind.get_element_type())


def _reduce_precision(reader: Reader, op: hlo.ReducePrecisionOp) -> SSAValue:
    (x,) = reader.operands(op)
    bits = int_of(op.exponent_bits), int_of(op.mantissa_bits)
    element = element_of(x)
    own = BITS.get(element)
    if own is not None and all(few >= many for few, many in zip(bits, own, strict=True)):
        return x
    if element != f32 or bits != BITS[bf16]:
        raise Unsupported("floats of f32 can be rounded to those of bf16, e8m7, only")
    return reader.builder.cast(reader.builder.cast(x, bf16), f32)


def _compare(reader: Reader, op: hlo.CompareOp) -> SSAValue:
    operands = reader.operands(op)
    element = element_of(operands[0])
    if element == i1 and op.direction not in ("eq", "ne"):
        operands = [reader.builder.cast(operand, i32) for operand in operands]
    elif is_float(element) and op.is_total:
        operands = [_place_in_total_order(reader.builder, operand) for operand in operands]
    return reader.builder.compare(op.direction, *cast("tuple[SSAValue, SSAValue]", tuple(operands)))


def _place_in_total_order(b: TensorBuilder, x: SSAValue) -> SSAValue:
    """Returns integers that compare as floats do in their total order: the bits, of which a sign flips the others."""
    bits = sum(BITS[element_of(x)])
    word = b.emit(arithmetic.BitcastOp, [x], to=IntegerType(bits + 1))
    sign_bits = b.emit(arithmetic.ShiftRightOp, [word, b.full_like(word, bits)])
    return b.binary(arithmetic.XorOp, word, b.binary(arithmetic.AndOp, sign_bits, b.full_like(word, (1 << bits) - 1)))


def _select(reader: Reader, op: HloOp) -> SSAValue:
    condition, on_true, on_false = reader.operands(op)
    return reader.builder.select(reader.spread(condition, shape_of(on_true)), on_true, on_false)


def _clamp(reader: Reader, op: HloOp) -> SSAValue:
    low, x, high = reader.operands(op)
    b, shape = reader.builder, shape_of(x)
    above = b.emit(arithmetic.MaximumOp, [reader.spread(low, shape), x])
    return b.emit(arithmetic.MinimumOp, [above, reader.spread(high, shape)])


def _square(reader: Reader, op: HloOp) -> SSAValue:
    (x,) = reader.operands(op)
    return reader.builder.mul(x, x)


def _digamma(reader: Reader, op: HloOp) -> SSAValue:
    return reader.builder.emit(gamma.PolygammaOp, reader.operands(op), order=integer(0))


_REPEATING = frozenset({"stablehlo.broadcast_in_dim", "stablehlo.convert", "stablehlo.reshape"})
"""The ops whose result holds one number if their operand does, by which JAX writes numbers in the shape of another."""


def _polygamma(reader: Reader, op: HloOp) -> SSAValue:
    number = op.operands[0]
    while isinstance(number.owner, HloOp) and number.owner.name in _REPEATING:
        number = number.owner.operands[0]
    order = scalar_constant(number)
    if order is None or order not in range(gamma.MOST_ORDER + 1):
        raise Unsupported(f"the order must be a constant, an integer from 0 to {gamma.MOST_ORDER}")
    return reader.builder.emit(gamma.PolygammaOp, [reader[op.operands[1]]], order=integer(int(order)))


def _as_word(b: TensorBuilder, x: SSAValue) -> SSAValue:
    """Returns integers as unsigned ones of the same bits."""
    word = UNSIGNED.get(element_of(x))
    return x if word is None else b.emit(arithmetic.BitcastOp, [x], to=word)


def _width(x: SSAValue) -> int:
    return cast(IntegerType, element_of(x)).bitwidth


def _ones(b: TensorBuilder, word: SSAValue) -> SSAValue:
    """Returns how many bits of each word are 1: adds the bits in pairs, then the pairs, and so on."""
    bits, width = _width(word), 1
    while width < bits:
        mask = b.full_like(word, sum(((1 << width) - 1) << at for at in range(0, bits, 2 * width)))
        upper = b.emit(arithmetic.ShiftRightOp, [word, b.full_like(word, width)])
        word = b.add(b.emit(arithmetic.AndOp, [word, mask]), b.emit(arithmetic.AndOp, [upper, mask]))
        width *= 2
    return word


def _count_ones(reader: Reader, op: HloOp) -> SSAValue:
    (x,) = reader.operands(op)
    b = reader.builder
    return b.cast(_ones(b, _as_word(b, x)), element_of(x))


def _count_leading_zeros(reader: Reader, op: HloOp) -> SSAValue:
    """Sets all bits below the highest, and counts those that are left."""
    (x,) = reader.operands(op)
    b = reader.builder
    word, width = _as_word(b, x), 1
    while width < _width(x):
        word = b.emit(arithmetic.OrOp, [word, b.emit(arithmetic.ShiftRightOp, [word, b.full_like(word, width)])])
        width *= 2
    return b.cast(_ones(b, b.emit(arithmetic.NotOp, [word])), element_of(x))


RULES: dict[str, Rule] = {
    **{name: _corresponding(name) for name in ELEMENTWISE},
    "stablehlo.divide": _divide,
    "stablehlo.multiply": _multiply,
    "stablehlo.remainder": _remainder,
    "stablehlo.sign": _sign,
    "stablehlo.rsqrt": _rsqrt,
    "stablehlo.cbrt": _cbrt,
    "stablehlo.round_nearest_afz": _round_away,
    "stablehlo.shift_right_arithmetic": _shift_right_arithmetic,
    "stablehlo.shift_right_logical": _shift_right_logical,
    "stablehlo.convert": _convert,
    "stablehlo.bitcast_convert": _bitcast,
    "stablehlo.compare": _compare,
    "stablehlo.select": _select,
    "stablehlo.clamp": _clamp,
    "stablehlo.count_leading_zeros": _count_leading_zeros,
    "stablehlo.popcnt": _count_ones,
    "stablehlo.reduce_precision": _reduce_precision,
    "stablehlo.optimization_barrier": Reader.operands,
    "chlo.digamma": _digamma,
    "chlo.polygamma": _polygamma,
    "chlo.square": _square,
    "chlo.tan": _unary(functions.TanOp),
    RELU: _unary(functions.ReluOp),
    STOP_GRADIENT: _unary(arithmetic.StopGradientOp),
}
