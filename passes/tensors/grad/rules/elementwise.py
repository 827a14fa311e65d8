"""Derivatives of elementwise ops."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from tensorgrad.dialects.tg.base import integer, is_float
from tensorgrad.dialects.tg.build import TensorBuilder, element_of
from tensorgrad.dialects.tg.elementwise import arithmetic, functions, gamma
from tensorgrad.passes.tensors.grad.registry import Cotangents, no_rule, rule

no_rule("booleans have no derivative", arithmetic.NotOp)
no_rule("its purpose is to stop gradients", arithmetic.StopGradientOp)
no_rule("its result is boolean", arithmetic.CompareOp, functions.IsFiniteOp)
no_rule(
    "bits have no derivative",
    arithmetic.BitcastOp,
    arithmetic.AndOp,
    arithmetic.OrOp,
    arithmetic.XorOp,
    arithmetic.ShiftLeftOp,
    arithmetic.ShiftRightOp,
)
no_rule(
    "it is piecewise constant: its derivative is 0 wherever it exists",
    functions.FloorOp,
    functions.CeilOp,
    functions.RoundOp,
    functions.TruncOp,
    arithmetic.FloorDivideOp,
)


@rule(arithmetic.NegOp)
def _neg(b: TensorBuilder, op: arithmetic.NegOp, g: SSAValue) -> Cotangents:
    return [b.neg(g)]


@rule(arithmetic.AbsOp)
def _abs(b: TensorBuilder, op: arithmetic.AbsOp, g: SSAValue) -> Cotangents:
    x, zero = op.operand, b.full_like(op.operand, 0)
    negative = b.select(b.compare("lt", x, zero), b.neg(g), zero)
    return [b.select(b.compare("gt", x, zero), g, negative)]


@rule(functions.ExpOp)
def _exp(b: TensorBuilder, op: functions.ExpOp, g: SSAValue) -> Cotangents:
    return [b.mul(g, op.result)]


@rule(functions.LogOp)
def _log(b: TensorBuilder, op: functions.LogOp, g: SSAValue) -> Cotangents:
    return [b.div(g, op.operand)]


@rule(functions.SqrtOp)
def _sqrt(b: TensorBuilder, op: functions.SqrtOp, g: SSAValue) -> Cotangents:
    return [b.div(b.scale(g, 0.5), op.result)]


@rule(functions.SinOp)
def _sin(b: TensorBuilder, op: functions.SinOp, g: SSAValue) -> Cotangents:
    return [b.mul(g, b.unary(functions.CosOp, op.operand))]


@rule(functions.CosOp)
def _cos(b: TensorBuilder, op: functions.CosOp, g: SSAValue) -> Cotangents:
    return [b.neg(b.mul(g, b.unary(functions.SinOp, op.operand)))]


@rule(functions.TanhOp)
def _tanh(b: TensorBuilder, op: functions.TanhOp, g: SSAValue) -> Cotangents:
    y = op.result
    return [b.mul(g, b.sub(b.full_like(y, 1), b.mul(y, y)))]


@rule(functions.SigmoidOp)
def _sigmoid(b: TensorBuilder, op: functions.SigmoidOp, g: SSAValue) -> Cotangents:
    y = op.result
    return [b.mul(g, b.mul(y, b.sub(b.full_like(y, 1), y)))]


@rule(functions.ReluOp)
def _relu(b: TensorBuilder, op: functions.ReluOp, g: SSAValue) -> Cotangents:
    zero = b.full_like(op.result, 0)
    return [b.select(b.compare("le", op.result, zero), zero, g)]


@rule(arithmetic.AddOp)
def _add(b: TensorBuilder, op: arithmetic.AddOp, g: SSAValue) -> Cotangents:
    return [g, g]


@rule(arithmetic.SubOp)
def _sub(b: TensorBuilder, op: arithmetic.SubOp, g: SSAValue) -> Cotangents:
    return [g, b.neg(g)]


@rule(arithmetic.MulOp)
def _mul(b: TensorBuilder, op: arithmetic.MulOp, g: SSAValue) -> Cotangents:
    return [b.mul(g, op.rhs), b.mul(g, op.lhs)]


@rule(arithmetic.DivOp)
def _div(b: TensorBuilder, op: arithmetic.DivOp, g: SSAValue) -> Cotangents:
    lhs = b.div(g, op.rhs)
    return [lhs, b.neg(b.mul(lhs, op.result))]


@rule(arithmetic.PowOp)
def _pow(b: TensorBuilder, op: arithmetic.PowOp, g: SSAValue) -> Cotangents:
    """As in PyTorch, the derivative by the base is 0 at exponent 0, and by the exponent 0 at base 0 (if it is >= 0)."""
    x, y, zero, one = op.lhs, op.rhs, b.full_like(op.lhs, 0), b.full_like(op.lhs, 1)
    slope = b.mul(y, b.binary(arithmetic.PowOp, x, b.sub(y, one)))
    base = b.select(b.compare("eq", y, zero), zero, b.mul(g, slope))
    flat = b.binary(arithmetic.AndOp, b.compare("eq", x, zero), b.compare("ge", y, zero))
    logarithm = b.unary(functions.LogOp, b.select(flat, one, x))
    return [base, b.select(flat, zero, b.mul(g, b.mul(op.result, logarithm)))]


def _extremum(b: TensorBuilder, wins: str, op: arithmetic.BinaryOp, g: SSAValue) -> Cotangents:
    """As in PyTorch, equal operands get half each; if one is NaN, both get the full cotangent."""
    zero, half = b.full_like(g, 0), b.scale(g, 0.5)
    share = b.select(b.compare("eq", op.lhs, op.rhs), half, g)
    return [
        b.select(b.compare(wins, op.rhs, op.lhs), zero, share),
        b.select(b.compare(wins, op.lhs, op.rhs), zero, share),
    ]


@rule(arithmetic.MaximumOp)
def _maximum(b: TensorBuilder, op: arithmetic.MaximumOp, g: SSAValue) -> Cotangents:
    return _extremum(b, "gt", op, g)


@rule(arithmetic.MinimumOp)
def _minimum(b: TensorBuilder, op: arithmetic.MinimumOp, g: SSAValue) -> Cotangents:
    return _extremum(b, "lt", op, g)


@rule(arithmetic.SelectOp)
def _select(b: TensorBuilder, op: arithmetic.SelectOp, g: SSAValue) -> Cotangents:
    zero = b.full_like(g, 0)
    return [None, b.select(op.condition, g, zero), b.select(op.condition, zero, g)]


@rule(arithmetic.CastOp)
def _cast(b: TensorBuilder, op: arithmetic.CastOp, g: SSAValue) -> Cotangents:
    source = element_of(op.operand)
    return [b.cast(g, source) if is_float(source) and is_float(element_of(op.result)) else None]


def _one_minus_square(b: TensorBuilder, x: SSAValue) -> SSAValue:
    """`1 - x * x` as a product, which is exact near 1."""
    one = b.full_like(x, 1)
    return b.mul(b.sub(one, x), b.add(one, x))


@rule(functions.Exp2Op)
def _exp2(b: TensorBuilder, op: functions.Exp2Op, g: SSAValue) -> Cotangents:
    return [b.mul(g, b.scale(op.result, math.log(2)))]


@rule(functions.Expm1Op)
def _expm1(b: TensorBuilder, op: functions.Expm1Op, g: SSAValue) -> Cotangents:
    return [b.mul(g, b.unary(functions.ExpOp, op.operand))]


@rule(functions.Log2Op)
def _log2(b: TensorBuilder, op: functions.Log2Op, g: SSAValue) -> Cotangents:
    return [b.div(b.scale(g, 1 / math.log(2)), op.operand)]


@rule(functions.Log1pOp)
def _log1p(b: TensorBuilder, op: functions.Log1pOp, g: SSAValue) -> Cotangents:
    return [b.div(g, b.add(b.full_like(g, 1), op.operand))]


@rule(functions.TanOp)
def _tan(b: TensorBuilder, op: functions.TanOp, g: SSAValue) -> Cotangents:
    return [b.mul(g, b.add(b.full_like(g, 1), b.mul(op.result, op.result)))]


@rule(functions.AsinOp)
def _asin(b: TensorBuilder, op: functions.AsinOp, g: SSAValue) -> Cotangents:
    return [b.div(g, b.unary(functions.SqrtOp, _one_minus_square(b, op.operand)))]


@rule(functions.AcosOp)
def _acos(b: TensorBuilder, op: functions.AcosOp, g: SSAValue) -> Cotangents:
    return [b.neg(b.div(g, b.unary(functions.SqrtOp, _one_minus_square(b, op.operand))))]


@rule(functions.AtanOp)
def _atan(b: TensorBuilder, op: functions.AtanOp, g: SSAValue) -> Cotangents:
    return [b.div(g, b.add(b.full_like(g, 1), b.mul(op.operand, op.operand)))]


@rule(functions.SinhOp)
def _sinh(b: TensorBuilder, op: functions.SinhOp, g: SSAValue) -> Cotangents:
    return [b.mul(g, b.unary(functions.CoshOp, op.operand))]


@rule(functions.CoshOp)
def _cosh(b: TensorBuilder, op: functions.CoshOp, g: SSAValue) -> Cotangents:
    return [b.mul(g, b.unary(functions.SinhOp, op.operand))]


@rule(functions.AsinhOp)
def _asinh(b: TensorBuilder, op: functions.AsinhOp, g: SSAValue) -> Cotangents:
    """`1 / sqrt(x * x + 1)`, scaled by the larger of `|x|` and 1 so that no square overflows; 0 at the infinities."""
    x, one = op.operand, b.full_like(g, 1)
    large = b.binary(arithmetic.MaximumOp, b.unary(arithmetic.AbsOp, x), one)
    scale = b.unary(arithmetic.StopGradientOp, large)
    share, rest = b.select(b.unary(functions.IsFiniteOp, scale), b.div(x, scale), one), b.div(one, scale)
    root = b.unary(functions.SqrtOp, b.add(b.mul(share, share), b.mul(rest, rest)))
    return [b.div(b.div(g, root), scale)]


@rule(functions.AcoshOp)
def _acosh(b: TensorBuilder, op: functions.AcoshOp, g: SSAValue) -> Cotangents:
    x, one = op.operand, b.full_like(g, 1)
    below, above = b.unary(functions.SqrtOp, b.sub(x, one)), b.unary(functions.SqrtOp, b.add(x, one))
    return [b.div(b.div(g, below), above)]


@rule(functions.AtanhOp)
def _atanh(b: TensorBuilder, op: functions.AtanhOp, g: SSAValue) -> Cotangents:
    return [b.div(g, _one_minus_square(b, op.operand))]


def _bell(b: TensorBuilder, x: SSAValue) -> SSAValue:
    """Returns the slope of the error function, `2 / sqrt(pi) * exp(-x * x)`."""
    return b.scale(b.unary(functions.ExpOp, b.neg(b.mul(x, x))), 2 / math.sqrt(math.pi))


@rule(functions.ErfOp)
def _erf(b: TensorBuilder, op: functions.ErfOp, g: SSAValue) -> Cotangents:
    return [b.mul(g, _bell(b, op.operand))]


@rule(functions.ErfcOp)
def _erfc(b: TensorBuilder, op: functions.ErfcOp, g: SSAValue) -> Cotangents:
    return [b.neg(b.mul(g, _bell(b, op.operand)))]


@rule(gamma.LgammaOp)
def _lgamma(b: TensorBuilder, op: gamma.LgammaOp, g: SSAValue) -> Cotangents:
    return [b.mul(g, b.emit(gamma.PolygammaOp, [op.operand], order=integer(0)))]


@rule(gamma.PolygammaOp)
def _polygamma(b: TensorBuilder, op: gamma.PolygammaOp, g: SSAValue) -> Cotangents:
    following = integer(op.order.value.data + 1)
    return [b.mul(g, b.emit(gamma.PolygammaOp, [op.operand], order=following))]


@rule(functions.SoftplusOp)
def _softplus(b: TensorBuilder, op: functions.SoftplusOp, g: SSAValue) -> Cotangents:
    return [b.mul(g, b.unary(functions.SigmoidOp, op.operand))]


@rule(functions.Atan2Op)
def _atan2(b: TensorBuilder, op: functions.Atan2Op, g: SSAValue) -> Cotangents:
    """`x / (x * x + y * y)` and `-y / (...)`, scaled by the larger of `|x|` and `|y|`; 0 at the origin."""
    y, x, zero, one = op.lhs, op.rhs, b.full_like(g, 0), b.full_like(g, 1)
    large = b.binary(arithmetic.MaximumOp, b.unary(arithmetic.AbsOp, x), b.unary(arithmetic.AbsOp, y))
    origin = b.compare("eq", large, zero)
    scale = b.unary(arithmetic.StopGradientOp, b.select(origin, one, large))
    u, v = b.div(x, scale), b.div(y, scale)
    norm = b.select(origin, one, b.add(b.mul(u, u), b.mul(v, v)))
    share = b.select(origin, zero, b.div(g, b.mul(scale, norm)))
    return [b.mul(share, u), b.neg(b.mul(share, v))]


@rule(arithmetic.RemainderOp)
def _remainder(b: TensorBuilder, op: arithmetic.RemainderOp, g: SSAValue) -> Cotangents:
    """`x - y * floor_divide(x, y)` with the quotient constant."""
    return [g, b.neg(b.mul(g, b.binary(arithmetic.FloorDivideOp, op.lhs, op.rhs)))]
