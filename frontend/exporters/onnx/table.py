"""The table of rules: for each op of `tg`, the nodes that compute it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from tensorgrad.dialects.tg.base import TensorOp, numpy_dtype, prepared
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


@dataclass(frozen=True)
class Match:
    """What computes an op together with some of those that its operands come from.

    Attributes:
        reads: The values that it reads in place of the operands.
        build: Appends the nodes, and returns the name of the result.
    """

    reads: tuple[SSAValue, ...]
    build: Callable[[Graph], str]


PATTERNS: dict[type[Operation], list[Callable[[Any], Match | None]]] = {}
"""Functions that match an op of a kind, which are tried in order before its rule."""

PatternT = TypeVar("PatternT", bound=Callable[[Any], Match | None])


def pattern(op: type[Operation]) -> Callable[[PatternT], PatternT]:
    """Registers a pattern that ends in an op."""

    def enter(function: PatternT) -> PatternT:
        PATTERNS.setdefault(op, []).append(function)
        return function

    return enter


def _matched(op: Operation) -> Match | None:
    matches = (function(op) for function in PATTERNS.get(type(op), ()))
    return next((match for match in matches if match is not None), None)


def emit_block(graph: Graph, block: Block) -> None:
    """Appends the nodes of the ops of a block that its terminator needs; each has a rule.

    Raises:
        ProgramError: A rule refuses an op; names the user's line.
    """
    chosen: dict[Operation, Match | None] = {}
    needed: set[SSAValue] = set()
    for op in reversed([*block.ops]):
        if op.has_trait(IsTerminator):
            needed.update(op.operands)
        elif not needed.isdisjoint(op.results):
            match = chosen[op] = _matched(op)
            needed.update(op.operands if match is None else match.reads)
    for op, match in reversed(chosen.items()):
        graph.at(op)
        if isinstance(op, TensorOp) and _is_empty(graph, op):
            continue
        names = RULES[type(op)](graph, op) if match is None else match.build(graph)
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
    graph.bind(op.results[0], graph.constant(cast(np.ndarray, prepared(op)(*zeros))))
    return True
