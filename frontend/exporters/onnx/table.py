"""The table of rules: for each op of `tg`, the nodes that compute it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar, cast

import numpy as np
from xdsl.ir import Block, Operation
from xdsl.traits import IsTerminator

from tensorgrad.dialects.tg.base import TensorOp, numpy_dtype
from tensorgrad.dialects.tg.build import shape_of
from tensorgrad.exporters.onnx.graph import Graph

Rule: TypeAlias = Callable[[Graph, Operation], "str | Sequence[str] | None"]
"""Appends the nodes of an op; returns the names of its results, or None if it has bound or deferred them itself."""

RULES: dict[type[Operation], Rule] = {}
"""The table."""

RuleT = TypeVar("RuleT", bound=Callable[..., "str | Sequence[str] | None"])


def rule(*ops: type[Operation]) -> Callable[[RuleT], RuleT]:
    """Registers a function for ops."""

    def enter(function: RuleT) -> RuleT:
        for op in ops:
            assert op not in RULES, op.name
            RULES[op] = function
        return function

    return enter


def emit_block(graph: Graph, block: Block) -> None:
    """Appends the nodes of all ops of a block but its terminator; each has a rule.

    Raises:
        ProgramError: A rule refuses an op; names the user's line.
    """
    for op in block.ops:
        if op.has_trait(IsTerminator):
            continue
        graph.at(op)
        if isinstance(op, TensorOp) and _is_empty(graph, op):
            continue
        names = RULES[type(op)](graph, op)
        if names is not None:
            for result, name in zip(op.results, [names] if isinstance(names, str) else names, strict=True):
                graph.bind(result, name)


FILLING = ("tg.pad", "tg.concat", "tg.pack")
"""The ops whose result may contain elements even of operands beside an empty one."""


def _is_empty(graph: Graph, op: TensorOp) -> bool:
    """Binds a result that depends on no element: it has none, or is a reduction of none. Runtimes differ on these."""
    if 0 in op.shape:
        graph.bind(op.results[0], graph.constant(np.zeros(op.shape, numpy_dtype(op.type))))
        return True
    if op.name in FILLING or not any(0 in shape_of(operand) for operand in op.operands):
        return False
    zeros = [np.zeros(shape_of(operand), numpy_dtype(operand.type)) for operand in op.operands]
    graph.bind(op.results[0], graph.constant(cast(np.ndarray, op.evaluate(*zeros))))
    return True
