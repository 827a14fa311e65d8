"""Elementary functions, rounding, and tests for finite numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorgrad.dialects.tg.base import TensorOp
from tensorgrad.dialects.tg.elementwise import functions as tg
from tensorgrad.exporters.onnx.graph import F64, Graph, dtype_of
from tensorgrad.exporters.onnx.table import rule

_DIRECT = {
    tg.ExpOp: "Exp",
    tg.LogOp: "Log",
    tg.SqrtOp: "Sqrt",
    tg.SinOp: "Sin",
    tg.CosOp: "Cos",
    tg.TanOp: "Tan",
    tg.AsinOp: "Asin",
    tg.AcosOp: "Acos",
    tg.AtanOp: "Atan",
    tg.SinhOp: "Sinh",
    tg.CoshOp: "Cosh",
    tg.TanhOp: "Tanh",
    tg.AsinhOp: "Asinh",
    tg.AcoshOp: "Acosh",
    tg.AtanhOp: "Atanh",
    tg.SigmoidOp: "Sigmoid",
    tg.FloorOp: "Floor",
    tg.CeilOp: "Ceil",
    tg.RoundOp: "Round",
}


@rule(*_DIRECT)
def _direct(graph: Graph, op: TensorOp) -> str:
    return graph.node(_DIRECT[type(op)], graph.value(op.operands[0]))


@rule(tg.ReluOp)
def _relu(graph: Graph, op: tg.ReluOp) -> str:
    dtype, x = dtype_of(op.operand), graph.value(op.operand)
    return graph.node("Relu", x) if dtype.kind == "f" else graph.typed("Max", dtype, x, graph.number(0, dtype))


@rule(tg.Exp2Op)
def _exp2(graph: Graph, op: tg.Exp2Op) -> str:
    return graph.node("Pow", graph.number(2, dtype_of(op.operand)), graph.value(op.operand))


@rule(tg.Log2Op)
def _log2(graph: Graph, op: tg.Log2Op) -> str:
    scale = graph.number(1 / math.log(2), dtype_of(op.operand))
    return graph.node("Mul", graph.node("Log", graph.value(op.operand)), scale)


@rule(tg.Expm1Op)
def _expm1(graph: Graph, op: tg.Expm1Op) -> str:
    """By `tanh(x / 2) (exp(x) + 1)`, which cancels nowhere."""
    x, dtype = graph.value(op.operand), dtype_of(op.operand)
    half = graph.node("Tanh", graph.node("Mul", x, graph.number(0.5, dtype)))
    return graph.node("Mul", half, graph.node("Add", graph.node("Exp", x), graph.number(1, dtype)))


@rule(tg.Log1pOp)
def _log1p(graph: Graph, op: tg.Log1pOp) -> str:
    return log1p(graph, graph.value(op.operand), dtype_of(op.operand))


def log1p(graph: Graph, x: str, dtype: np.dtype[Any]) -> str:
    """Appends `log(1 + x)`, corrected for the rounding of `1 + x`.

    W. Kahan's formula, in N. Higham: Accuracy and Stability of Numerical Algorithms (2002), section 1.14.
    """
    one = graph.number(1, dtype)
    rounded = graph.node("Add", x, one)
    taken = graph.node("Sub", rounded, one)
    logarithm = graph.node("Log", rounded)
    corrected = graph.node("Mul", logarithm, graph.node("Div", x, taken))
    corrected = graph.node("Where", graph.node("IsInf", taken), logarithm, corrected)
    return graph.node("Where", graph.node("Equal", taken, graph.number(0, dtype)), x, corrected)


@rule(tg.SoftplusOp)
def _softplus(graph: Graph, op: tg.SoftplusOp) -> str:
    x, dtype = graph.value(op.operand), dtype_of(op.operand)
    small = graph.node("Exp", graph.node("Neg", graph.node("Abs", x)))
    return graph.node("Add", graph.node("Max", x, graph.number(0, dtype)), log1p(graph, small, dtype))


@rule(tg.TruncOp)
def _trunc(graph: Graph, op: tg.TruncOp) -> str:
    x = graph.value(op.operand)
    negative = graph.node("Less", x, graph.number(0, dtype_of(op.operand)))
    return graph.node("Where", negative, graph.node("Ceil", x), graph.node("Floor", x))


@rule(tg.IsFiniteOp)
def _is_finite(graph: Graph, op: tg.IsFiniteOp) -> str:
    x = graph.value(op.operand)
    return graph.node("Not", graph.node("Or", graph.node("IsNaN", x), graph.node("IsInf", x)))


@rule(tg.Atan2Op)
def _atan2(graph: Graph, op: tg.Atan2Op) -> str:
    dtype, names = dtype_of(op.lhs), graph.broadcast(op.operands)
    return graph.call(f"atan2_{dtype}", lambda body, own: [_angle(body, own[0], own[1], dtype)], *names)[0]


def _angle(graph: Graph, y: str, x: str, dtype: np.dtype[Any]) -> str:
    """Appends the angle by the arctangent of the smaller of both over the larger, and the signs, of zeros too."""
    zero, one = graph.number(0, dtype), graph.number(1, dtype)
    wide, tall = graph.node("Abs", x), graph.node("Abs", y)
    is_steep = graph.node("Greater", tall, wide)
    smaller = graph.node("Where", is_steep, wide, tall)
    larger = graph.node("Where", is_steep, tall, wide)
    # 0 / 0 is an angle of 0, and that of two infinities a diagonal.
    ratio = graph.node("Div", smaller, graph.node("Where", graph.node("Equal", larger, zero), one, larger))
    ratio = graph.node("Where", graph.node("IsInf", smaller), one, ratio)
    angle = graph.node("Atan", ratio)
    angle = graph.node("Where", is_steep, graph.node("Sub", graph.number(math.pi / 2, dtype), angle), angle)
    turned = graph.node("Sub", graph.number(math.pi, dtype), angle)
    angle = graph.node("Where", _is_negative(graph, x, zero, one), turned, angle)
    angle = graph.node("Where", _is_negative(graph, y, zero, one), graph.node("Neg", angle), angle)
    unknown = graph.node("Or", graph.node("IsNaN", x), graph.node("IsNaN", y))
    return graph.node("Where", unknown, graph.node("Add", x, y), angle)


def _is_negative(graph: Graph, x: str, zero: str, one: str) -> str:
    """Appends whether a number is below 0, or -0, whose reciprocal is."""
    is_zero = graph.node("Equal", x, zero)
    return graph.node("Less", graph.node("Where", is_zero, graph.node("Div", one, x), x), zero)


@rule(tg.ErfOp)
def _erf(graph: Graph, op: tg.ErfOp) -> str:
    x = graph.value(op.operand)
    if dtype_of(op.operand) != F64:
        return graph.node("Erf", x)
    return graph.call("erf", lambda body, names: [_error_function(body, names[0], False)], x)[0]


@rule(tg.ErfcOp)
def _erfc(graph: Graph, op: tg.ErfcOp) -> str:
    x = graph.value(op.operand)
    return graph.call("erfc", lambda body, names: [_error_function(body, names[0], True)], x)[0]


def _error_function(graph: Graph, x: str, complement: bool) -> str:
    """Appends the definition of `tg.erf` or `tg.erfc`, in f64, and converts the result to the type of `x`."""

    def number(value: float) -> str:
        return graph.number(value, F64)

    wide = graph.cast(x, F64)
    bounded = graph.node("Max", graph.node("Min", wide, number(1)), number(-1))
    square = graph.node("Mul", bounded, bounded)
    inner = graph.node("Mul", bounded, _ratio(graph, square, tg.ERF_NUMERATOR, tg.ERF_DENOMINATOR))
    tail = _tail(graph, graph.node("Abs", wide))
    inside = graph.node("Sub", number(1), inner) if complement else inner
    above = tail if complement else graph.node("Sub", number(1), tail)
    below = graph.node("Sub", number(2) if complement else tail, tail if complement else number(1))
    result = graph.node("Where", graph.node("Less", wide, number(-1)), below, inside)
    result = graph.node("Where", graph.node("Greater", wide, number(1)), above, result)
    result = graph.node("Where", graph.node("IsNaN", wide), wide, result)
    return graph.node("CastLike", result, x)


def _tail(graph: Graph, size: str) -> str:
    """Appends erfc of numbers in f64, which is right from 1 on."""

    def number(value: float) -> str:
        return graph.number(value, F64)

    z = graph.node("Min", graph.node("Max", size, number(1)), number(28))
    coarse = graph.node("Div", graph.node("Floor", graph.node("Mul", z, number(16))), number(16))
    first = graph.node("Exp", graph.node("Neg", graph.node("Mul", coarse, coarse)))
    difference, total = graph.node("Sub", coarse, z), graph.node("Add", coarse, z)
    power = graph.node("Mul", first, graph.node("Exp", graph.node("Mul", difference, total)))
    near = _ratio(graph, z, tg.ERFC_NUMERATOR, tg.ERFC_DENOMINATOR)
    far = _ratio(graph, z, tg.ERFC_TAIL_NUMERATOR, tg.ERFC_TAIL_DENOMINATOR)
    return graph.node("Mul", power, graph.node("Where", graph.node("Less", z, number(8)), near, far))


def _ratio(graph: Graph, x: str, numerator: Sequence[float], denominator: Sequence[float]) -> str:
    return graph.node("Div", polynomial(graph, x, numerator), polynomial(graph, x, denominator))


def polynomial(graph: Graph, x: str, coefficients: Sequence[float]) -> str:
    """Appends a polynomial in f64 by Horner's rule; the highest power's coefficient comes first."""
    result = graph.number(coefficients[0], F64)
    for coefficient in coefficients[1:]:
        result = graph.node("Add", graph.node("Mul", result, x), graph.number(coefficient, F64))
    return result
