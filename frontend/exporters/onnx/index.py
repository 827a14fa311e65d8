"""Gathers and scatters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from tensorgrad.dialects.tg import index
from tensorgrad.dialects.tg.base import constant_value, int_value
from tensorgrad.dialects.tg.build import shape_of
from tensorgrad.exporters.onnx.graph import I64, Graph, dtype_of
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
    axis, dtype, shape = int_value(op.properties, "axis"), dtype_of(op.operand), shape_of(op.operand)
    indices, inside = _inside(graph, op.indices, shape[axis])
    if inside is None:
        return graph.node("Gather", graph.value(op.operand), indices, axis=axis)
    indices = graph.node("Where", inside, indices, graph.number(0, I64))
    values = graph.node("Gather", graph.value(op.operand), indices, axis=axis)
    mask = graph.reshape(inside, [*shape_of(op.indices), *(1 for _ in shape[axis + 1 :])])
    return graph.where(dtype, mask, values, graph.number(_fill(dtype), dtype))


@rule(index.TakeAlongAxisOp)
def _take_along_axis(graph: Graph, op: index.TakeAlongAxisOp) -> str:
    axis, dtype = int_value(op.properties, "axis"), dtype_of(op.operand)
    indices, inside = _inside(graph, op.indices, shape_of(op.operand)[axis])
    if inside is None:
        return graph.node("GatherElements", graph.value(op.operand), indices, axis=axis)
    indices = graph.node("Where", inside, indices, graph.number(0, I64))
    values = graph.node("GatherElements", graph.value(op.operand), indices, axis=axis)
    return graph.where(dtype, inside, values, graph.number(_fill(dtype), dtype))


@rule(index.ScatterAddOp)
def _scatter_add(graph: Graph, op: index.ScatterAddOp) -> str:
    """Adds rows: the axes of the indices become one, and each index repeats along the others."""
    axis, extent = int_value(op.properties, "axis"), int_value(op.properties, "extent")
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
    return _added(graph, op.updates, updates, indices, rows, axis, extent)


@rule(index.ScatterAddAlongAxisOp)
def _scatter_add_along_axis(graph: Graph, op: index.ScatterAddAlongAxisOp) -> str:
    axis, extent = int_value(op.properties, "axis"), int_value(op.properties, "extent")
    indices, inside = _inside(graph, op.indices, extent)
    if inside is not None:
        indices = graph.node("Where", inside, indices, graph.number(extent, I64))
    return _added(graph, op.updates, graph.value(op.updates), indices, shape_of(op.updates), axis, extent)


def _added(graph: Graph, value: SSAValue, updates: str, indices: str, shape: Any, axis: int, extent: int) -> str:
    """Appends a sum of updates at indices, of which those out of range are `extent`: a place that is cut off again."""
    dtype = dtype_of(value)
    longer = [extent + 1 if at == axis else n for at, n in enumerate(shape)]
    zeros = graph.node("Expand", graph.number(0, dtype), graph.integers(longer))
    total = graph.typed("ScatterElements", dtype, zeros, indices, updates, data=(0, 2), axis=axis, reduction="add")
    return graph.node("Slice", total, *(graph.integers([n]) for n in (0, extent, axis)))
