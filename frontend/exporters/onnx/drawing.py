"""Random bits: a cipher on counters, in arithmetic of integers, with the same bits everywhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorgrad.dialects.tg.random import PARITY, ROTATIONS, ThreefryOp
from tensorgrad.exporters.onnx.graph import I32, U32, Graph
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
