"""Contractions, as products of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tensorgrad.dialects.tg.build import shape_of
from tensorgrad.dialects.tg.contract import DotGeneralOp, free_axes
from tensorgrad.exporters.onnx.graph import Graph, dtype_of
from tensorgrad.exporters.onnx.table import rule


@rule(DotGeneralOp)
def _dot_general(graph: Graph, op: DotGeneralOp) -> str:
    lb, rb, lc, rc = op.dimension_numbers
    ls, rs = shape_of(op.lhs), shape_of(op.rhs)
    lf, rf = free_axes(len(ls), lb, lc), free_axes(len(rs), rb, rc)
    batch, inner = [ls[axis] for axis in lb], [ls[axis] for axis in lc]
    rows, columns = [ls[axis] for axis in lf], [rs[axis] for axis in rf]
    if batch:
        rows, columns = [math.prod(rows)], [math.prod(columns)]
    else:
        rows, columns = rows or [1], [math.prod(columns)]  # MatMul takes any number of axes on the left
    left = _arranged(graph, graph.value(op.lhs), ls, [*lb, *lf, *lc], [*batch, *rows, math.prod(inner)])
    right = _arranged(graph, graph.value(op.rhs), rs, [*rb, *rc, *rf], [*batch, math.prod(inner), *columns])
    product = graph.typed("MatMul", dtype_of(op.lhs), left, right)
    shape = op.shape
    return product if shape == (*batch, *rows, *columns) else graph.reshape(product, shape)


def _arranged(graph: Graph, x: str, extents: Sequence[int], order: Sequence[int], shape: Sequence[int]) -> str:
    """Appends the transposition and the reshape that an operand needs."""
    x = graph.transpose(x, order)
    return x if [extents[axis] for axis in order] == list(shape) else graph.reshape(x, shape)
