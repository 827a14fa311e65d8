"""Arithmetic, comparisons, selection, casts and bit operations."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorgrad.dialects.tg.base import TensorOp, splat_value
from tensorgrad.dialects.tg.elementwise import arithmetic as tg
from tensorgrad.exporters.onnx.graph import BITCAST_OPSET, BOOL, F64, I64, U64, Graph, dtype_of, element
from tensorgrad.exporters.onnx.table import rule

_DIRECT = {
    tg.AbsOp: "Abs",
    tg.AddOp: "Add",
    tg.SubOp: "Sub",
    tg.MulOp: "Mul",
    tg.DivOp: "Div",
    tg.PowOp: "Pow",
    tg.MaximumOp: "Max",
    tg.MinimumOp: "Min",
}
_BITS = {tg.NotOp: "Not", tg.AndOp: "And", tg.OrOp: "Or", tg.XorOp: "Xor"}
_COMPARISONS = {"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual"}


@rule(*_DIRECT)
def _direct(graph: Graph, op: TensorOp) -> str:
    return graph.typed(_DIRECT[type(op)], dtype_of(op.operands[0]), *graph.broadcast(op.operands))


@rule(*_BITS)
def _bitwise(graph: Graph, op: TensorOp) -> str:
    name = _BITS[type(op)]
    kind = name if dtype_of(op.operands[0]) == BOOL else f"Bitwise{name}"
    return graph.node(kind, *graph.broadcast(op.operands))


@rule(tg.NegOp)
def _negative(graph: Graph, op: tg.NegOp) -> str:
    dtype, x = dtype_of(op.operand), graph.value(op.operand)
    return graph.node("Sub", graph.number(0, dtype), x) if dtype.kind == "u" else graph.node("Neg", x)


@rule(tg.StopGradientOp)
def _same(graph: Graph, op: tg.StopGradientOp) -> str:
    return graph.value(op.operand)


@rule(tg.CompareOp)
def _compare(graph: Graph, op: tg.CompareOp) -> str:
    names, predicate = graph.broadcast(op.operands), op.predicate.data
    if predicate == "ne":
        return graph.node("Not", graph.node("Equal", *names))
    return graph.node(_COMPARISONS[predicate], *names)


@rule(tg.SelectOp)
def _select(graph: Graph, op: tg.SelectOp) -> str:
    return graph.where(dtype_of(op.on_true), *graph.broadcast(op.operands))


@rule(tg.CastOp)
def _cast(graph: Graph, op: tg.CastOp) -> str:
    return converted(graph, graph.value(op.operand), dtype_of(op.operand), dtype_of(op.results[0]))


def converted(graph: Graph, x: str, source: np.dtype[Any], target: np.dtype[Any]) -> str:
    """Appends a conversion as `tg.cast` defines it: from floats to integers it saturates, and NaN becomes 0."""
    if source.kind != "f" or target.kind not in "iu":
        return graph.cast(x, target)
    limits = np.iinfo(target)
    wide = x if source == F64 else graph.cast(x, F64)
    number = graph.node("Where", graph.node("IsNaN", wide), graph.number(0, F64), wide)
    # The largest f64 that fits, which is the largest integer unless that has 64 bits.
    most = float(limits.max) if int(float(limits.max)) == limits.max else np.nextafter(float(limits.max), 0)
    inside = graph.node("Max", graph.node("Min", number, graph.number(most, F64)), graph.number(limits.min, F64))
    result = graph.cast(inside, target)
    if most == float(limits.max):
        return result
    above = graph.node("GreaterOrEqual", wide, graph.number(float(limits.max), F64))
    return graph.where(target, above, graph.number(limits.max, target), result)


@rule(tg.BitcastOp)
def _bitcast(graph: Graph, op: tg.BitcastOp) -> str:
    graph.file.opset = BITCAST_OPSET
    return graph.node("BitCast", graph.value(op.operand), to=element(dtype_of(op.results[0])))


@rule(tg.ShiftLeftOp)
def _shift_left(graph: Graph, op: tg.ShiftLeftOp) -> str:
    dtype = dtype_of(op.lhs)
    unsigned = np.dtype(f"u{dtype.itemsize}")
    x, amount = (_as(graph, name, dtype, unsigned) for name in graph.broadcast(op.operands))
    moved = _bounded_shift(graph, x, amount, unsigned, "LEFT", _is_within(op))
    return _as(graph, moved, unsigned, dtype)


@rule(tg.ShiftRightOp)
def _shift_right(graph: Graph, op: tg.ShiftRightOp) -> str:
    dtype = dtype_of(op.lhs)
    unsigned = np.dtype(f"u{dtype.itemsize}")
    x, amount = graph.broadcast(op.operands)
    if dtype.kind == "u":
        return _bounded_shift(graph, x, amount, unsigned, "RIGHT", _is_within(op))
    # An arithmetic shift of a negative number shifts its complement, in whose place zeros come in.
    negative = graph.node("Less", x, graph.number(0, dtype))
    flipped = graph.where(dtype, negative, graph.node("BitwiseNot", x), x)
    flipped, amount = (graph.cast(name, unsigned) for name in (flipped, amount))
    moved = graph.cast(_bounded_shift(graph, flipped, amount, unsigned, "RIGHT", _is_within(op)), dtype)
    return graph.where(dtype, negative, graph.node("BitwiseNot", moved), moved)


def _as(graph: Graph, name: str, source: np.dtype[Any], target: np.dtype[Any]) -> str:
    return name if source == target else graph.cast(name, target)


def _is_within(op: tg.ShiftLeftOp | tg.ShiftRightOp) -> bool:
    """Returns whether the amount is known, and less than the width."""
    amount = splat_value(op.rhs)
    return amount is not None and 0 <= amount < 8 * dtype_of(op.lhs).itemsize


def _bounded_shift(graph: Graph, x: str, amount: str, unsigned: np.dtype[Any], direction: str, is_within: bool) -> str:
    """Appends a shift of unsigned integers that is 0 for amounts of the width or more, which ONNX doesn't define."""
    if is_within:
        return graph.node("BitShift", x, amount, direction=direction)
    inside = graph.node("Less", amount, graph.number(8 * unsigned.itemsize, unsigned))
    zero = graph.number(0, unsigned)
    moved = graph.node("BitShift", x, graph.where(unsigned, inside, amount, zero), direction=direction)
    return graph.where(unsigned, inside, moved, zero)


@rule(tg.RemainderOp)
def _remainder(graph: Graph, op: tg.RemainderOp) -> str:
    dtype, (x, y) = dtype_of(op.lhs), graph.broadcast(op.operands)
    if dtype.kind == "f":
        rest = graph.node("Mod", x, y, fmod=1)
        return graph.where(dtype, _differs(graph, rest, y, dtype), graph.node("Add", rest, y), rest)
    # The remainder by 0 is 0, as those by 1 and -1, at which processors trap.
    return graph.node("Mod", x, _safe_divisor(graph, y, dtype))


@rule(tg.FloorDivideOp)
def _floor_divide(graph: Graph, op: tg.FloorDivideOp) -> str:
    dtype, (x, y) = dtype_of(op.lhs), graph.broadcast(op.operands)
    if dtype.kind == "f":
        return _float_floor_divide(graph, x, y, dtype)
    wide = U64 if dtype == U64 else I64
    x, y = (_as(graph, name, dtype, wide) for name in (x, y))
    zero, safe = graph.number(0, wide), _safe_divisor(graph, y, wide)
    quotient = graph.node("Div", x, safe)
    if wide == I64:
        rest = graph.node("Sub", x, graph.node("Mul", quotient, safe))
        below = graph.node("Sub", quotient, graph.number(1, wide))
        quotient = graph.node("Where", _differs(graph, rest, safe, wide), below, quotient)
        is_minus_one = graph.node("Equal", y, graph.number(-1, wide))
        quotient = graph.node("Where", is_minus_one, graph.node("Neg", x), quotient)
    quotient = graph.where(wide, graph.node("Equal", y, zero), zero, quotient)
    return _as(graph, quotient, wide, dtype)


def _safe_divisor(graph: Graph, y: str, dtype: np.dtype[Any]) -> str:
    """Appends the divisor with 1 in place of 0 and -1: dividing by these may trap."""
    traps = graph.node("Equal", y, graph.number(0, dtype))
    if dtype.kind == "i":
        traps = graph.node("Or", traps, graph.node("Equal", y, graph.number(-1, dtype)))
    return graph.where(dtype, traps, graph.number(1, dtype), y)


def _differs(graph: Graph, rest: str, y: str, dtype: np.dtype[Any]) -> str:
    """Appends whether a remainder is not 0 and has another sign than the divisor."""
    zero = graph.number(0, dtype)
    signs = graph.node("Xor", graph.node("Less", rest, zero), graph.node("Less", y, zero))
    return graph.node("And", signs, graph.node("Not", graph.node("Equal", rest, zero)))


def _float_floor_divide(graph: Graph, x: str, y: str, dtype: np.dtype[Any]) -> str:
    """Appends Python's algorithm: the quotient of what the remainder leaves, rounded to the nearest integer."""
    one, rest = graph.number(1, dtype), graph.node("Mod", x, y, fmod=1)
    exact = graph.node("Div", graph.node("Sub", x, rest), y)
    lower = graph.node("Sub", exact, one)
    exact = graph.where(dtype, _differs(graph, rest, y, dtype), lower, exact)
    floor = graph.node("Floor", exact)
    is_short = graph.node("Greater", graph.node("Sub", exact, floor), graph.number(0.5, dtype))
    nearest = graph.where(dtype, is_short, graph.node("Add", floor, one), floor)
    by_zero = graph.node("Equal", y, graph.number(0, dtype))
    return graph.where(dtype, by_zero, graph.node("Div", x, y), nearest)
