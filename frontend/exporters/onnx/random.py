"""What draws random numbers: a cipher on counters, in arithmetic of integers, and the inverse error function."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tensorgrad.dialects.tg.random import ERFINV_F64, PARITY, ROTATIONS, ErfinvOp, ThreefryOp
from tensorgrad.exporters.onnx.functions import polynomial
from tensorgrad.exporters.onnx.graph import F64, I32, U32, Graph
from tensorgrad.exporters.onnx.table import rule


@rule(ThreefryOp)
def _threefry(graph: Graph, op: ThreefryOp) -> str:
    first, second = graph.call("threefry", _encrypted, *graph.broadcast(op.operands))
    word = op.word.data
    return graph.node("BitwiseXor", first, second) if word == "both" else {"first": first, "second": second}[word]


def _encrypted(graph: Graph, names: Sequence[str]) -> list[str]:
    """Appends 20 rounds of Threefry-2x32, as `tensorgrad.dialects.tg.random.threefry` defines them.

    Sums are of signed integers, which every runtime has, and wrap to the same bits.
    """
    first, second, high, low = (graph.cast(name, I32) for name in names)
    parity = graph.number(np.uint32(PARITY).astype(np.int32), I32)
    third = graph.node("BitwiseXor", graph.node("BitwiseXor", first, second), parity)
    keys = (first, second, third)
    x, y = graph.node("Add", high, first), graph.node("Add", low, second)
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            x = graph.node("Add", x, y)
            y = graph.node("BitwiseXor", _rotated(graph, y, rotation), x)
        x = graph.node("Add", x, keys[(group + 1) % 3])
        y = graph.node("Add", graph.node("Add", y, keys[(group + 2) % 3]), graph.number(group + 1, I32))
    return [graph.cast(x, U32), graph.cast(y, U32)]


def _rotated(graph: Graph, x: str, amount: int) -> str:
    bits = graph.cast(x, U32)
    left = graph.node("BitShift", bits, graph.number(amount, U32), direction="LEFT")
    right = graph.node("BitShift", bits, graph.number(32 - amount, U32), direction="RIGHT")
    return graph.cast(graph.node("BitwiseOr", left, right), I32)


@rule(ErfinvOp)
def _erfinv(graph: Graph, op: ErfinvOp) -> str:
    return graph.call("erfinv", lambda body, names: [_inverse(body, names[0])], graph.value(op.operand))[0]


def _inverse(graph: Graph, x: str) -> str:
    """Appends `tg.erfinv`'s definition, which computes in f64, and converts the result to the type of `x`."""
    one, wide = graph.number(1, F64), graph.cast(x, F64)
    product = graph.node("Mul", graph.node("Sub", one, wide), graph.node("Add", one, wide))
    w = graph.node("Neg", graph.node("Log", product))
    root = graph.node("Sqrt", w)
    result = graph.number(math.nan, F64)
    for place, (bound, shift, coefficients) in reversed([*enumerate(ERFINV_F64)]):
        moved = graph.node("Sub", root if place else w, graph.number(shift, F64))
        inside = graph.node("Less", w, graph.number(bound, F64))
        result = graph.node("Where", inside, polynomial(graph, moved, coefficients), result)
    is_end = graph.node("Equal", graph.node("Abs", wide), one)
    result = graph.node("Where", is_end, graph.number(math.inf, F64), result)
    return graph.node("CastLike", graph.node("Mul", result, wide), x)
