"""Gathers and scatters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from tensorgrad.dialects.tg import index
from tensorgrad.dialects.tg.base import constant_value
from tensorgrad.dialects.tg.build import shape_of
from tensorgrad.exporters.onnx.graph import I64, Graph, dtype_of
from tensorgrad.exporters.onnx.reduce import with_nan
from tensorgrad.exporters.onnx.table import rule
from tensorgrad.runtime.conversion import kind_of


def _fill(dtype: np.dtype[Any]) -> Any:
    """Returns what an index out of range reads."""
    return np.nan if kind_of(dtype) == "f" else dtype.type(0)


def _inside(graph: Graph, indices: SSAValue, extent: int) -> tuple[str, str | None]:
    """Returns indices of an axis as i64, and whether each is in range; None if all are known to be."""
    known = constant_value(indices)
    dtype, name = dtype_of(indices), graph.value(indices)
    wide = name if dtype == I64 else graph.cast(name, I64)
    if known is not None and bool(((known >= 0) & (known < extent)).all()):
        return wide, None
    from_zero = graph.node("GreaterOrEqual", wide, graph.number(0, I64))
    return wide, graph.node("And", from_zero, graph.node("Less", wide, graph.number(extent, I64)))


@rule(index.TakeOp)
def _take(graph: Graph, op: index.TakeOp) -> str:
    axis, dtype, shape = op.axis.value.data, dtype_of(op.operand), shape_of(op.operand)
    indices, inside = _inside(graph, op.indices, shape[axis])
    if inside is None:
        return graph.node("Gather", graph.value(op.operand), indices, axis=axis)
    indices = graph.node("Where", inside, indices, graph.number(0, I64))
    values = graph.node("Gather", graph.value(op.operand), indices, axis=axis)
    mask = graph.reshape(inside, [*shape_of(op.indices), *(1 for _ in shape[axis + 1 :])])
    return graph.where(dtype, mask, values, graph.number(_fill(dtype), dtype))


@rule(index.TakeAlongAxisOp)
def _take_along_axis(graph: Graph, op: index.TakeAlongAxisOp) -> str:
    axis, dtype = op.axis.value.data, dtype_of(op.operand)
    indices, inside = _inside(graph, op.indices, shape_of(op.operand)[axis])
    if inside is None:
        return graph.node("GatherElements", graph.value(op.operand), indices, axis=axis)
    indices = graph.node("Where", inside, indices, graph.number(0, I64))
    values = graph.node("GatherElements", graph.value(op.operand), indices, axis=axis)
    return graph.where(dtype, inside, values, graph.number(_fill(dtype), dtype))


@rule(index.ScatterAddOp, index.ScatterReduceOp)
def _scatter(graph: Graph, op: index.ScatterOp) -> str:
    """Reduces rows: the axes of the indices become one, and each index repeats along the others."""
    axis, extent = op.axis.value.data, op.extent.value.data
    shape, indexed = shape_of(op.updates), shape_of(op.indices)
    lead, trail = shape[:axis], shape[axis + len(indexed) :]
    rows = [*lead, math.prod(indexed), *trail]
    updates = graph.value(op.updates)
    updates = updates if list(shape) == rows else graph.reshape(updates, rows)
    indices, inside = _inside(graph, op.indices, extent)
    if inside is not None:
        indices = graph.node("Where", inside, indices, graph.number(extent, I64))
    indices = graph.reshape(indices, [math.prod(indexed), *(1 for _ in trail)])
    indices = graph.node("Expand", indices, graph.integers(rows))
    return _reduced(graph, op, updates, indices, rows)


@rule(index.ScatterAddAlongAxisOp, index.ScatterReduceAlongAxisOp)
def _scatter_along_axis(graph: Graph, op: index.ScatterAlongAxisOp) -> str:
    extent = op.extent.value.data
    indices, inside = _inside(graph, op.indices, extent)
    if inside is not None:
        indices = graph.node("Where", inside, indices, graph.number(extent, I64))
    return _reduced(graph, op, graph.value(op.updates), indices, shape_of(op.updates))


REDUCTIONS = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}
"""ONNX's names of the reductions of scatters."""


def _reduced(graph: Graph, op: index.ScatterOp, updates: str, indices: str, shape: Sequence[int]) -> str:
    """Appends a reduction of updates at indices; those out of range are the extent: a place that is cut off again."""
    axis, extent, dtype = op.axis.value.data, op.extent.value.data, dtype_of(op.updates)
    longer = graph.integers([extent + 1 if at == axis else n for at, n in enumerate(shape)])
    bounds = [graph.integers([n]) for n in (0, extent, axis)]

    def scattered(dtype: np.dtype[Any], values: str, reduction: str, start: Any) -> str:
        inputs = graph.node("Expand", graph.number(start, dtype), longer), indices, values
        whole = graph.typed("ScatterElements", dtype, *inputs, data=(0, 2), axis=axis, reduction=reduction)
        return graph.node("Slice", whole, *bounds)

    reduced = scattered(dtype, updates, REDUCTIONS[op.combines], index.identity_of(op.combines, dtype))
    if op.combines in ("sum", "prod") or kind_of(dtype) != "f":
        return reduced
    return with_nan(graph, dtype, updates, reduced, lambda kind, flags: scattered(kind, flags, "max", 0))
