"""The derivatives of the elementary functions of `dialects/tg/elementary.py` and of the remainder."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from tensorgrad.dialects.tg import binary, elementary, integer, unary
from tensorgrad.dialects.tg.build import TensorBuilder
from tensorgrad.passes.tensors.grad.rules import Cotangents, rule


def _one_minus_square(b: TensorBuilder, x: SSAValue) -> SSAValue:
    """`1 - x * x` as a product, which is exact near 1."""
    one = b.full_like(x, 1)
    return b.mul(b.sub(one, x), b.add(one, x))


@rule(elementary.Exp2Op)
def _exp2(b: TensorBuilder, op: elementary.Exp2Op, g: SSAValue) -> Cotangents:
    return [b.mul(g, b.scale(op.result, math.log(2)))]


@rule(elementary.Expm1Op)
def _expm1(b: TensorBuilder, op: elementary.Expm1Op, g: SSAValue) -> Cotangents:
    return [b.mul(g, b.unary(unary.ExpOp, op.operand))]


@rule(elementary.Log2Op)
def _log2(b: TensorBuilder, op: elementary.Log2Op, g: SSAValue) -> Cotangents:
    return [b.div(b.scale(g, 1 / math.log(2)), op.operand)]


@rule(elementary.Log1pOp)
def _log1p(b: TensorBuilder, op: elementary.Log1pOp, g: SSAValue) -> Cotangents:
    return [b.div(g, b.add(b.full_like(g, 1), op.operand))]


@rule(elementary.TanOp)
def _tan(b: TensorBuilder, op: elementary.TanOp, g: SSAValue) -> Cotangents:
    return [b.mul(g, b.add(b.full_like(g, 1), b.mul(op.result, op.result)))]


@rule(elementary.AsinOp)
def _asin(b: TensorBuilder, op: elementary.AsinOp, g: SSAValue) -> Cotangents:
    return [b.div(g, b.unary(unary.SqrtOp, _one_minus_square(b, op.operand)))]


@rule(elementary.AcosOp)
def _acos(b: TensorBuilder, op: elementary.AcosOp, g: SSAValue) -> Cotangents:
    return [b.neg(b.div(g, b.unary(unary.SqrtOp, _one_minus_square(b, op.operand))))]


@rule(elementary.AtanOp)
def _atan(b: TensorBuilder, op: elementary.AtanOp, g: SSAValue) -> Cotangents:
    return [b.div(g, b.add(b.full_like(g, 1), b.mul(op.operand, op.operand)))]


@rule(elementary.SinhOp)
def _sinh(b: TensorBuilder, op: elementary.SinhOp, g: SSAValue) -> Cotangents:
    return [b.mul(g, b.unary(elementary.CoshOp, op.operand))]


@rule(elementary.CoshOp)
def _cosh(b: TensorBuilder, op: elementary.CoshOp, g: SSAValue) -> Cotangents:
    return [b.mul(g, b.unary(elementary.SinhOp, op.operand))]


@rule(elementary.AsinhOp)
def _asinh(b: TensorBuilder, op: elementary.AsinhOp, g: SSAValue) -> Cotangents:
    """`1 / sqrt(x * x + 1)`, scaled by the larger of `|x|` and 1 so that no square overflows."""
    x, one = op.operand, b.full_like(g, 1)
    large = b.binary(binary.MaximumOp, b.unary(unary.AbsOp, x), one)
    scale = b.unary(unary.StopGradientOp, large)
    share, rest = b.div(x, scale), b.div(one, scale)
    root = b.unary(unary.SqrtOp, b.add(b.mul(share, share), b.mul(rest, rest)))
    return [b.div(b.div(g, root), scale)]


@rule(elementary.AcoshOp)
def _acosh(b: TensorBuilder, op: elementary.AcoshOp, g: SSAValue) -> Cotangents:
    x, one = op.operand, b.full_like(g, 1)
    below, above = b.unary(unary.SqrtOp, b.sub(x, one)), b.unary(unary.SqrtOp, b.add(x, one))
    return [b.div(b.div(g, below), above)]


@rule(elementary.AtanhOp)
def _atanh(b: TensorBuilder, op: elementary.AtanhOp, g: SSAValue) -> Cotangents:
    return [b.div(g, _one_minus_square(b, op.operand))]


def _bell(b: TensorBuilder, x: SSAValue) -> SSAValue:
    """The slope of the error function, `2 / sqrt(pi) * exp(-x * x)`."""
    return b.scale(b.unary(unary.ExpOp, b.neg(b.mul(x, x))), 2 / math.sqrt(math.pi))


@rule(elementary.ErfOp)
def _erf(b: TensorBuilder, op: elementary.ErfOp, g: SSAValue) -> Cotangents:
    return [b.mul(g, _bell(b, op.operand))]


@rule(elementary.ErfcOp)
def _erfc(b: TensorBuilder, op: elementary.ErfcOp, g: SSAValue) -> Cotangents:
    return [b.neg(b.mul(g, _bell(b, op.operand)))]


@rule(elementary.SoftplusOp)
def _softplus(b: TensorBuilder, op: elementary.SoftplusOp, g: SSAValue) -> Cotangents:
    return [b.mul(g, b.unary(unary.SigmoidOp, op.operand))]


@rule(elementary.Atan2Op)
def _atan2(b: TensorBuilder, op: elementary.Atan2Op, g: SSAValue) -> Cotangents:
    """`x / (x * x + y * y)` and `-y / (...)`, scaled by the larger of `|x|` and `|y|`; 0 at the origin."""
    y, x, zero, one = op.lhs, op.rhs, b.full_like(g, 0), b.full_like(g, 1)
    large = b.binary(binary.MaximumOp, b.unary(unary.AbsOp, x), b.unary(unary.AbsOp, y))
    scale = b.unary(unary.StopGradientOp, b.select(b.compare("eq", large, zero), one, large))
    u, v = b.div(x, scale), b.div(y, scale)
    norm = b.add(b.mul(u, u), b.mul(v, v))
    share = b.div(g, b.mul(scale, b.select(b.compare("eq", large, zero), one, norm)))
    return [b.mul(share, u), b.neg(b.mul(share, v))]


@rule(integer.RemainderOp)
def _remainder(b: TensorBuilder, op: integer.RemainderOp, g: SSAValue) -> Cotangents:
    """`x - y * floor_divide(x, y)` with the quotient constant."""
    return [g, b.neg(b.mul(g, b.binary(integer.FloorDivideOp, op.lhs, op.rhs)))]
