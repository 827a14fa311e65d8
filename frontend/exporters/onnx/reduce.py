"""Sums, products and extrema along axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tensorgrad.dialects.tg import reduce
from tensorgrad.dialects.tg.build import shape_of
from tensorgrad.exporters.onnx.graph import BOOL, F32, I64, U64, Graph, dtype_of
from tensorgrad.exporters.onnx.table import rule

_EXTREMES = {reduce.MaxOp: "ReduceMax", reduce.MinOp: "ReduceMin"}


@rule(reduce.SumOp)
def _sum(graph: Graph, op: reduce.SumOp) -> str:
    dtype, x = dtype_of(op.operand), graph.value(op.operand)
    return _by_halves(graph, "Add", x, op) if dtype in (I64, U64) else _reduced(graph, "ReduceSum", dtype, x, op)


@rule(reduce.ProdOp)
def _prod(graph: Graph, op: reduce.ProdOp) -> str:
    dtype, x = dtype_of(op.operand), graph.value(op.operand)
    return _reduced(graph, "ReduceProd", dtype, x, op) if dtype.kind == "f" else _by_halves(graph, "Mul", x, op)


def _by_halves(graph: Graph, name: str, x: str, op: reduce.ReduceOp) -> str:
    """Appends a reduction of integers that wraps: ONNX Runtime's own computes in f64, and saturates."""
    axes, extents = op.axes.get_values(), shape_of(op.operand)
    rest = [axis for axis in range(len(extents)) if axis not in axes]
    count = math.prod(extents[axis] for axis in axes)
    x = graph.reshape(graph.transpose(x, [*rest, *axes]), [*op.shape, count])

    def part(start: int, stop: int) -> str:
        return graph.node("Slice", x, *(graph.integers([n]) for n in (start, stop, len(rest))))

    while count > 1:
        half = count // 2
        both = graph.node(name, part(0, half), part(half, 2 * half))
        x = graph.node("Concat", both, part(2 * half, count), axis=len(rest)) if count % 2 else both
        count -= half
    return graph.reshape(x, op.shape)


@rule(*_EXTREMES)
def _extreme(graph: Graph, op: reduce.ReduceOp) -> str:
    name, dtype, x = _EXTREMES[type(op)], dtype_of(op.operand), graph.value(op.operand)
    if dtype == U64:  # no runtime reduces these: without their top bit they are ordered as signed integers
        top = graph.number(1 << 63, U64)
        signed = graph.cast(graph.node("BitwiseXor", x, top), I64)
        return graph.node("BitwiseXor", graph.cast(_reduced(graph, name, I64, signed, op), U64), top)
    if dtype.kind != "f":
        return _reduced(graph, name, dtype, x, op)
    is_unknown = partial(_reduced, graph, "ReduceMax", op=op)
    return with_nan(graph, dtype, x, _reduced(graph, name, dtype, x, op), is_unknown)


def with_nan(
    graph: Graph, dtype: np.dtype[Any], x: str, extremes: str, largest: Callable[[np.dtype[Any], str], str]
) -> str:
    """Appends extremes of floats that are NaN if one of the elements is: ONNX doesn't say what they are then.

    Args:
        graph: The graph.
        dtype: The dtype of the elements.
        x: The elements.
        extremes: Their extremes.
        largest: Appends the largest of the same elements of another array, of a dtype.
    """
    unknown = graph.cast(largest(F32, graph.cast(graph.node("IsNaN", x), F32)), BOOL)
    return graph.node("Where", unknown, graph.number(np.nan, dtype), extremes)


def _reduced(graph: Graph, name: str, dtype: np.dtype[Any], x: str, op: reduce.ReduceOp) -> str:
    axes = graph.integers(op.axes.get_values())
    return graph.typed(name, dtype, x, axes, data=(0,), keepdims=0, noop_with_empty_axes=1)
