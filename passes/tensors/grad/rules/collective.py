"""Derivatives of collectives, with respect to the sum over all processes: each is a collective itself."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tensorgrad.dialects.tg import collective
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.dialects.tg.elementwise import arithmetic
from tensorgrad.passes.tensors.grad.registry import Cotangents, rule


@rule(collective.AllReduceOp)
def _all_reduce(b: TensorBuilder, op: collective.AllReduceOp, g: SSAValue) -> Cotangents:
    total = b.all_reduce(g, op.size)
    if op.reduction.data == "sum":
        return [total]
    x = op.operand
    ties = b.compare("eq", x, op.result)
    ties = b.binary(arithmetic.OrOp, ties, b.compare("ne", x, x))
    count = b.all_reduce(b.cast(ties, element_of(x)), op.size)
    return [b.select(ties, b.div(total, count), b.full_like(x, 0))]


@rule(collective.ReduceScatterOp)
def _reduce_scatter(b: TensorBuilder, op: collective.ReduceScatterOp, g: SSAValue) -> Cotangents:
    return [b.all_gather(g, op.axis.value.data, op.size)]


@rule(collective.AllGatherOp)
def _all_gather(b: TensorBuilder, op: collective.AllGatherOp, g: SSAValue) -> Cotangents:
    return [b.reduce_scatter(g, op.axis.value.data, op.size)]


@rule(collective.CollectiveBroadcastOp)
def _collective_broadcast(b: TensorBuilder, op: collective.CollectiveBroadcastOp, g: SSAValue) -> Cotangents:
    """Returns the sum of all cotangents in the root, 0 elsewhere: reduce-scatters rows that are 0 except the root's."""
    root, shape = op.root.value.data, shape_of(g)
    row, still = b.reshape(g, (1, *shape)), [0] * len(shape)
    zero = b.zeros((), element_of(g))
    rows = b.pad(row, zero, [root, *still], [op.size - 1 - root, *still], [0, *still])
    return [b.reshape(b.reduce_scatter(rows, 0, op.size), shape)]
