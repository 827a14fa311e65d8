"""Sorting."""

from __future__ import annotations

import numpy as np

from tensorgrad.dialects.tg.sort import ArgsortOp
from tensorgrad.exporters.onnx.graph import F32, I32, I64, LACKING, U64, Graph, dtype_of
from tensorgrad.exporters.onnx.table import rule


@rule(ArgsortOp)
def _argsort(graph: Graph, op: ArgsortOp) -> str:
    """By `TopK`, which keeps the order of equal elements; floats again by whether they are NaN, which is largest."""
    falling, dtype, x = op.descending.value.data, dtype_of(op.operand), graph.value(op.operand)
    extent = op.shape[-1]
    if dtype == U64:
        x = graph.cast(graph.node("BitwiseXor", x, graph.number(1 << 63, U64)), I64)
    elif dtype.kind == "f":
        unknown = graph.node("IsNaN", x)
        x = graph.where(dtype, unknown, graph.number(np.inf, dtype), x)
        order = _sorted(graph, x, extent, falling)
        flags = graph.node("GatherElements", graph.cast(unknown, F32), order, axis=-1)
        return graph.cast(graph.node("GatherElements", order, _sorted(graph, flags, extent, falling), axis=-1), I32)
    wide = LACKING["TopK"].get(dtype)
    return graph.cast(_sorted(graph, x if wide is None else graph.cast(x, wide), extent, falling), I32)


def _sorted(graph: Graph, x: str, extent: int, falling: int) -> str:
    return graph.nodes_of("TopK", x, graph.integers([extent]), outputs=2, axis=-1, largest=falling, sorted=1)[1]
