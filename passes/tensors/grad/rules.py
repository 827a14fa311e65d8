"""Every derivative on one page: for each op, the cotangents of its operands from the cotangent of its result.

A rule emits `tg` ops that have rules themselves, so gradients nest to any order, and stays linear in the cotangent. It
returns `None` for an operand without a derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar, cast

from xdsl.ir import SSAValue

from tensorgrad.dialects.tg import binary, contract, elementary, index, integer, leaves, reduce, shape, unary
from tensorgrad.dialects.tg.base import TensorOp, int_list, int_value, is_float
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.dialects.tg.contract import free_axes

Cotangents: TypeAlias = Sequence[SSAValue | None]
OpT = TypeVar("OpT", bound=TensorOp)
Rule: TypeAlias = Callable[[TensorBuilder, OpT, SSAValue], Cotangents]

RULES: dict[type[TensorOp], Callable[[TensorBuilder, TensorOp, SSAValue], Cotangents]] = {}

_STEPS = "it is constant between its steps: the derivative is 0 wherever there is one"

NO_DERIVATIVE: dict[type[TensorOp], str] = {
    leaves.ConstantOp: "it has no operands",
    leaves.IotaOp: "it has no operands",
    unary.NotOp: "booleans have no derivative",
    unary.StopGradientOp: "it exists to have none",
    binary.AndOp: "bits have no derivative",
    binary.OrOp: "bits have no derivative",
    binary.CompareOp: "its result is boolean",
    elementary.FloorOp: _STEPS,
    elementary.CeilOp: _STEPS,
    elementary.RoundOp: _STEPS,
    elementary.TruncOp: _STEPS,
    elementary.IsFiniteOp: "its result is boolean",
    integer.XorOp: "bits have no derivative",
    integer.ShiftLeftOp: "bits have no derivative",
    integer.ShiftRightOp: "bits have no derivative",
    integer.FloorDivideOp: _STEPS,
}
"""The ops without a rule, each with its reason."""


def rule(kind: type[OpT]) -> Callable[[Rule[OpT]], Rule[OpT]]:
    """Registers the derivative of an op."""

    def register(function: Rule[OpT]) -> Rule[OpT]:
        RULES[kind] = cast("Callable[[TensorBuilder, TensorOp, SSAValue], Cotangents]", function)
        return function

    return register


# Element by element


@rule(unary.NegOp)
def _neg(b: TensorBuilder, op: unary.NegOp, g: SSAValue) -> Cotangents:
    return [b.neg(g)]


@rule(unary.AbsOp)
def _abs(b: TensorBuilder, op: unary.AbsOp, g: SSAValue) -> Cotangents:
    x, zero = op.operand, b.full_like(op.operand, 0)
    negative = b.select(b.compare("lt", x, zero), b.neg(g), zero)
    return [b.select(b.compare("gt", x, zero), g, negative)]


@rule(unary.ExpOp)
def _exp(b: TensorBuilder, op: unary.ExpOp, g: SSAValue) -> Cotangents:
    return [b.mul(g, op.result)]


@rule(unary.LogOp)
def _log(b: TensorBuilder, op: unary.LogOp, g: SSAValue) -> Cotangents:
    return [b.div(g, op.operand)]


@rule(unary.SqrtOp)
def _sqrt(b: TensorBuilder, op: unary.SqrtOp, g: SSAValue) -> Cotangents:
    return [b.div(b.scale(g, 0.5), op.result)]


@rule(unary.SinOp)
def _sin(b: TensorBuilder, op: unary.SinOp, g: SSAValue) -> Cotangents:
    return [b.mul(g, b.unary(unary.CosOp, op.operand))]


@rule(unary.CosOp)
def _cos(b: TensorBuilder, op: unary.CosOp, g: SSAValue) -> Cotangents:
    return [b.neg(b.mul(g, b.unary(unary.SinOp, op.operand)))]


@rule(unary.TanhOp)
def _tanh(b: TensorBuilder, op: unary.TanhOp, g: SSAValue) -> Cotangents:
    y = op.result
    return [b.mul(g, b.sub(b.full_like(y, 1), b.mul(y, y)))]


@rule(unary.SigmoidOp)
def _sigmoid(b: TensorBuilder, op: unary.SigmoidOp, g: SSAValue) -> Cotangents:
    y = op.result
    return [b.mul(g, b.mul(y, b.sub(b.full_like(y, 1), y)))]


@rule(unary.ReluOp)
def _relu(b: TensorBuilder, op: unary.ReluOp, g: SSAValue) -> Cotangents:
    zero = b.full_like(op.result, 0)
    return [b.select(b.compare("le", op.result, zero), zero, g)]


@rule(binary.AddOp)
def _add(b: TensorBuilder, op: binary.AddOp, g: SSAValue) -> Cotangents:
    return [g, g]


@rule(binary.SubOp)
def _sub(b: TensorBuilder, op: binary.SubOp, g: SSAValue) -> Cotangents:
    return [g, b.neg(g)]


@rule(binary.MulOp)
def _mul(b: TensorBuilder, op: binary.MulOp, g: SSAValue) -> Cotangents:
    return [b.mul(g, op.rhs), b.mul(g, op.lhs)]


@rule(binary.DivOp)
def _div(b: TensorBuilder, op: binary.DivOp, g: SSAValue) -> Cotangents:
    lhs = b.div(g, op.rhs)
    return [lhs, b.neg(b.mul(lhs, op.result))]


@rule(binary.PowOp)
def _pow(b: TensorBuilder, op: binary.PowOp, g: SSAValue) -> Cotangents:
    """As PyTorch: no derivative in the base where the exponent is 0, nor in the exponent at base 0 (if it is >= 0)."""
    x, y, zero, one = op.lhs, op.rhs, b.full_like(op.lhs, 0), b.full_like(op.lhs, 1)
    slope = b.mul(y, b.binary(binary.PowOp, x, b.sub(y, one)))
    base = b.select(b.compare("eq", y, zero), zero, b.mul(g, slope))
    flat = b.binary(binary.AndOp, b.compare("eq", x, zero), b.compare("ge", y, zero))
    logarithm = b.unary(unary.LogOp, b.select(flat, one, x))
    return [base, b.select(flat, zero, b.mul(g, b.mul(op.result, logarithm)))]


def _extremum(b: TensorBuilder, wins: str, op: binary.BinaryOp, g: SSAValue) -> Cotangents:
    """As PyTorch: equal operands have half each, and where one is NaN both have all, so that it is seen."""
    zero, half = b.full_like(g, 0), b.scale(g, 0.5)
    share = b.select(b.compare("eq", op.lhs, op.rhs), half, g)
    return [
        b.select(b.compare(wins, op.rhs, op.lhs), zero, share),
        b.select(b.compare(wins, op.lhs, op.rhs), zero, share),
    ]


@rule(binary.MaximumOp)
def _maximum(b: TensorBuilder, op: binary.MaximumOp, g: SSAValue) -> Cotangents:
    return _extremum(b, "gt", op, g)


@rule(binary.MinimumOp)
def _minimum(b: TensorBuilder, op: binary.MinimumOp, g: SSAValue) -> Cotangents:
    return _extremum(b, "lt", op, g)


@rule(binary.SelectOp)
def _select(b: TensorBuilder, op: binary.SelectOp, g: SSAValue) -> Cotangents:
    zero = b.full_like(g, 0)
    return [None, b.select(op.condition, g, zero), b.select(op.condition, zero, g)]


@rule(binary.CastOp)
def _cast(b: TensorBuilder, op: binary.CastOp, g: SSAValue) -> Cotangents:
    source = element_of(op.operand)
    return [b.cast(g, source) if is_float(source) and is_float(element_of(op.result)) else None]


# Shape


@rule(shape.ReshapeOp)
def _reshape(b: TensorBuilder, op: shape.ReshapeOp, g: SSAValue) -> Cotangents:
    return [b.reshape(g, shape_of(op.operand))]


@rule(shape.TransposeOp)
def _transpose(b: TensorBuilder, op: shape.TransposeOp, g: SSAValue) -> Cotangents:
    permutation = int_list(op.properties, "permutation")
    return [b.transpose(g, sorted(range(len(permutation)), key=lambda axis: permutation[axis]))]


@rule(shape.BroadcastOp)
def _broadcast(b: TensorBuilder, op: shape.BroadcastOp, g: SSAValue) -> Cotangents:
    dims = int_list(op.properties, "dims")
    return [b.sum(g, [axis for axis in range(len(op.shape)) if axis not in dims])]


@rule(shape.SliceOp)
def _slice(b: TensorBuilder, op: shape.SliceOp, g: SSAValue) -> Cotangents:
    start, step = int_list(op.properties, "start"), int_list(op.properties, "step")
    low: list[int] = []
    high: list[int] = []
    for axis, extent in enumerate(shape_of(op.operand)):
        kept = op.shape[axis]
        covered = (kept - 1) * step[axis] + 1 if kept else 0
        low.append(start[axis])
        high.append(extent - start[axis] - covered)
    zero = b.zeros((), element_of(g))
    return [b.pad(g, zero, low, high, [one - 1 for one in step])]


@rule(shape.ReverseOp)
def _reverse(b: TensorBuilder, op: shape.ReverseOp, g: SSAValue) -> Cotangents:
    return [b.reverse(g, int_list(op.properties, "axes"))]


@rule(shape.PadOp)
def _pad(b: TensorBuilder, op: shape.PadOp, g: SSAValue) -> Cotangents:
    low, interior = int_list(op.properties, "low"), int_list(op.properties, "interior")
    extents = shape_of(op.operand)
    stop = [a + (n - 1) * (i + 1) + 1 if n else a for a, n, i in zip(low, extents, interior, strict=True)]
    inner = b.slice(g, low, stop, [i + 1 for i in interior])
    axes = range(len(extents))
    return [inner, b.sub(b.sum(g, axes), b.sum(inner, axes))]


# Reductions and contractions


@rule(reduce.SumOp)
def _sum(b: TensorBuilder, op: reduce.SumOp, g: SSAValue) -> Cotangents:
    return [b.broadcast_like(g, op.operand, int_list(op.properties, "axes"))]


def _extreme(b: TensorBuilder, op: reduce.ReduceOp, g: SSAValue) -> Cotangents:
    """Equal extremes share the cotangent evenly; where there is NaN, which is the extreme then, every NaN does."""
    x, axes = op.operand, int_list(op.properties, "axes")
    ties = b.compare("eq", x, b.broadcast_like(op.result, x, axes))
    ties = b.binary(binary.OrOp, ties, b.compare("ne", x, x))
    count = b.sum(b.cast(ties, element_of(x)), axes)
    share = b.broadcast_like(b.div(g, count), x, axes)
    return [b.select(ties, share, b.full_like(x, 0))]


@rule(reduce.MaxOp)
def _max(b: TensorBuilder, op: reduce.MaxOp, g: SSAValue) -> Cotangents:
    return _extreme(b, op, g)


@rule(reduce.MinOp)
def _min(b: TensorBuilder, op: reduce.MinOp, g: SSAValue) -> Cotangents:
    return _extreme(b, op, g)


@rule(contract.DotGeneralOp)
def _dot_general(b: TensorBuilder, op: contract.DotGeneralOp, g: SSAValue) -> Cotangents:
    lb, rb, lc, rc = (int_list(op.properties, name) for name in op.PROPERTIES)
    lf = free_axes(len(shape_of(op.lhs)), lb, lc)
    rf = free_axes(len(shape_of(op.rhs)), rb, rc)
    batch = list(range(len(lb)))
    left_free = list(range(len(lb), len(lb) + len(lf)))
    right_free = list(range(len(lb) + len(lf), len(op.shape)))
    # Both come with the axes of one side in another order: put each axis back.
    lhs = b.dot_general(g, op.rhs, (batch, rb), (right_free, rf))
    rhs = b.dot_general(op.lhs, g, (lb, batch), (lf, left_free))
    left_order = [*lb, *lf, *(axis for _, axis in sorted(zip(rc, lc, strict=True)))]
    right_order = [*rb, *(axis for _, axis in sorted(zip(lc, rc, strict=True))), *rf]
    return [b.transpose(lhs, _inverse(left_order)), b.transpose(rhs, _inverse(right_order))]


def _inverse(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=lambda axis: order[axis])


# Indexing


@rule(index.TakeOp)
def _take(b: TensorBuilder, op: index.TakeOp, g: SSAValue) -> Cotangents:
    axis = int_value(op.properties, "axis")
    return [b.scatter_add(g, op.indices, axis, shape_of(op.operand)[axis]), None]


@rule(index.ScatterAddOp)
def _scatter_add(b: TensorBuilder, op: index.ScatterAddOp, g: SSAValue) -> Cotangents:
    taken = b.take(g, op.indices, int_value(op.properties, "axis"))
    return [_where_inside(b, op, taken, int_value(op.properties, "axis")), None]


@rule(index.TakeAlongAxisOp)
def _take_along_axis(b: TensorBuilder, op: index.TakeAlongAxisOp, g: SSAValue) -> Cotangents:
    axis = int_value(op.properties, "axis")
    return [b.scatter_add_along_axis(g, op.indices, axis, shape_of(op.operand)[axis]), None]


@rule(index.ScatterAddAlongAxisOp)
def _scatter_add_along_axis(b: TensorBuilder, op: index.ScatterAddAlongAxisOp, g: SSAValue) -> Cotangents:
    taken = b.take_along_axis(g, op.indices, int_value(op.properties, "axis"))
    return [_where_inside(b, op, taken, 0), None]


def _where_inside(
    b: TensorBuilder, op: index.ScatterAddOp | index.ScatterAddAlongAxisOp, taken: SSAValue, axis: int
) -> SSAValue:
    """Dropped updates have no derivative, whatever a gather reads out of range."""
    indices = op.indices
    extent = int_value(op.properties, "extent")
    inside = b.binary(
        binary.AndOp,
        b.compare("ge", indices, b.full_like(indices, 0)),
        b.compare("lt", indices, b.full_like(indices, extent)),
    )
    dims = range(axis, axis + len(shape_of(indices)))
    return b.select(b.broadcast(inside, shape_of(taken), dims), taken, b.full_like(taken, 0))
