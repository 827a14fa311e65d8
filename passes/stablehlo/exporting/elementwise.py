"""Elementwise ops."""

from __future__ import annotations

import math

import numpy as np
from xdsl.ir import Attribute, Operation, SSAValue

from tensorgrad.dialects.tg.base import TensorOp, is_float, is_integer, is_unsigned, numpy_dtype
from tensorgrad.dialects.tg.build import element_of, type_of
from tensorgrad.dialects.tg.elementwise import arithmetic, functions
from tensorgrad.dialects.tg.random import PARITY, ROTATIONS, ThreefryOp
from tensorgrad.passes.stablehlo.correspondence import ELEMENTWISE, RELU, STOP_GRADIENT
from tensorgrad.passes.stablehlo.exporting.writer import Rule, Writer

NAMES: dict[type[TensorOp], str] = {kind: name for name, kind in ELEMENTWISE.items()}


def _corresponding(writer: Writer, op: TensorOp) -> SSAValue:
    return writer.one(NAMES[type(op)], writer.operands(op), op.type)


def _abs(writer: Writer, op: arithmetic.AbsOp) -> SSAValue:
    x = writer[op.operand]
    return x if is_unsigned(element_of(x)) else writer.unary("abs", x)


def _relu(writer: Writer, op: functions.ReluOp) -> SSAValue:
    return writer.composite(RELU, writer[op.operand], lambda inside, x: inside.binary("maximum", x, 0))


def _exp2(writer: Writer, op: functions.Exp2Op) -> SSAValue:
    x = writer[op.operand]
    return writer.one("stablehlo.power", [writer.full_like(x, 2), x])


def _log2(writer: Writer, op: functions.Log2Op) -> SSAValue:
    return writer.binary("divide", writer.unary("log", writer[op.operand]), math.log(2))


def _softplus(writer: Writer, op: functions.SoftplusOp) -> SSAValue:
    x = writer[op.operand]
    tail = writer.unary("log_plus_one", writer.unary("exponential", writer.unary("negate", writer.unary("abs", x))))
    return writer.binary("add", writer.binary("maximum", x, 0), tail)


def _trunc(writer: Writer, op: functions.TruncOp) -> SSAValue:
    x = writer[op.operand]
    return writer.select(writer.compare("lt", x, 0), writer.unary("ceil", x), writer.unary("floor", x))


def _shift_right(writer: Writer, op: arithmetic.ShiftRightOp) -> SSAValue:
    x, y = writer.operands(op)
    return writer.binary("shift_right_logical" if is_unsigned(element_of(x)) else "shift_right_arithmetic", x, y)


def _floor_divide(writer: Writer, op: arithmetic.FloorDivideOp) -> SSAValue:
    x, y = writer.operands(op)
    if is_float(element_of(x)):
        return _float_floor(writer, x, y)
    by_zero, divisor = _nonzero(writer, y)
    quotient = writer.binary("divide", x, divisor)
    if not is_unsigned(element_of(x)):
        rest = writer.binary("remainder", x, divisor)
        below = _opposite(writer, rest, divisor)
        quotient = writer.select(below, writer.binary("subtract", quotient, 1), quotient)
    return writer.select(by_zero, writer.full_like(x, 0), quotient)


def _remainder(writer: Writer, op: arithmetic.RemainderOp) -> SSAValue:
    x, y = writer.operands(op)
    if is_float(element_of(x)):
        return _float_rest(writer, x, y)
    by_zero, divisor = _nonzero(writer, y)
    rest = writer.binary("remainder", x, divisor)
    if not is_unsigned(element_of(x)):
        rest = writer.select(_opposite(writer, rest, divisor), writer.binary("add", rest, divisor), rest)
    return writer.select(by_zero, writer.full_like(x, 0), rest)


def _nonzero(writer: Writer, y: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Returns where a divisor is 0, and the divisor with 1 in its place."""
    by_zero = writer.compare("eq", y, 0)
    return by_zero, writer.select(by_zero, writer.full_like(y, 1), y)


def _opposite(writer: Writer, rest: SSAValue, y: SSAValue) -> SSAValue:
    """Returns where a remainder is not 0, and of the other sign than the divisor."""
    signs = writer.binary("xor", writer.compare("lt", rest, 0), writer.compare("lt", y, 0))
    return writer.binary("and", writer.compare("ne", rest, 0), signs)


def _float_rest(writer: Writer, x: SSAValue, y: SSAValue) -> SSAValue:
    rest = writer.binary("remainder", x, y)
    return writer.select(_opposite(writer, rest, y), writer.binary("add", rest, y), rest)


def _float_floor(writer: Writer, x: SSAValue, y: SSAValue) -> SSAValue:
    """As NumPy: the quotient of what the remainder leaves, which is nearly whole, rounded."""
    rest = writer.binary("remainder", x, y)
    quotient = writer.binary("divide", writer.binary("subtract", x, rest), y)
    quotient = writer.select(_opposite(writer, rest, y), writer.binary("subtract", quotient, 1), quotient)
    floor = writer.unary("floor", quotient)
    up = writer.compare("gt", writer.binary("subtract", quotient, floor), 0.5)
    rounded = writer.select(up, writer.binary("add", floor, 1), floor)
    return writer.select(writer.compare("eq", y, 0), writer.binary("divide", x, y), rounded)


def _cast(writer: Writer, op: arithmetic.CastOp) -> SSAValue:
    x = writer[op.operand]
    element, target = element_of(x), op.type.get_element_type()
    if not is_float(element) or not is_integer(target):
        return writer.convert(x, target)
    return _saturated(writer, x, target)


def _saturated(writer: Writer, x: SSAValue, target: Attribute) -> SSAValue:
    """Returns floats as integers: StableHLO leaves open what those beyond the range and NaN become."""
    limits, dtype = np.iinfo(numpy_dtype(target)), numpy_dtype(type_of(x))
    highest, lowest = dtype.type(min(limits.max, np.finfo(dtype).max)), dtype.type(max(limits.min, np.finfo(dtype).min))
    if float(highest) > limits.max:
        highest = np.nextafter(highest, dtype.type(0))
    numbers = writer.select(writer.compare("ne", x, x), writer.full_like(x, 0), x)
    inside = writer.binary("minimum", writer.binary("maximum", numbers, float(lowest)), float(highest))
    converted = writer.convert(inside, target)
    above = writer.compare("gt", numbers, float(highest))
    return writer.select(above, writer.full_like(converted, limits.max), converted)


def _bitcast(writer: Writer, op: arithmetic.BitcastOp) -> SSAValue:
    return writer.one("stablehlo.bitcast_convert", [writer[op.operand]], op.type)


def _compare(writer: Writer, op: arithmetic.CompareOp) -> SSAValue:
    return writer.compare(op.predicate.data, writer[op.lhs], writer[op.rhs])


def _select(writer: Writer, op: arithmetic.SelectOp) -> SSAValue:
    condition, on_true, on_false = writer.operands(op)
    return writer.select(condition, on_true, on_false)


def _threefry(writer: Writer, op: ThreefryOp) -> SSAValue:
    """The rounds of `tensorgrad.dialects.tg.random.threefry`."""
    first, second, high, low = writer.operands(op)
    parity = writer.binary("xor", writer.binary("xor", first, second), PARITY)
    keys = (first, second, parity)
    x, y = writer.binary("add", high, first), writer.binary("add", low, second)
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            x = writer.binary("add", x, y)
            turned = writer.binary("shift_right_logical", y, 32 - rotation)
            y = writer.binary("or", writer.binary("shift_left", y, rotation), turned)
            y = writer.binary("xor", y, x)
        x = writer.binary("add", x, keys[(group + 1) % 3])
        y = writer.binary("add", writer.binary("add", y, keys[(group + 2) % 3]), group + 1)
    word = op.word.data
    return {"first": x, "second": y}.get(word) or writer.binary("xor", x, y)


def _stop_gradient(writer: Writer, op: arithmetic.StopGradientOp) -> SSAValue:
    return writer.composite(STOP_GRADIENT, writer[op.operands[0]], lambda _, x: x)


RULES: dict[type[Operation], Rule] = {
    **dict.fromkeys(NAMES, _corresponding),
    arithmetic.StopGradientOp: _stop_gradient,
    arithmetic.AbsOp: _abs,
    functions.ReluOp: _relu,
    functions.Exp2Op: _exp2,
    functions.Log2Op: _log2,
    functions.SoftplusOp: _softplus,
    functions.TruncOp: _trunc,
    arithmetic.ShiftRightOp: _shift_right,
    arithmetic.FloorDivideOp: _floor_divide,
    arithmetic.RemainderOp: _remainder,
    arithmetic.CastOp: _cast,
    arithmetic.BitcastOp: _bitcast,
    arithmetic.CompareOp: _compare,
    arithmetic.SelectOp: _select,
    ThreefryOp: _threefry,
}
