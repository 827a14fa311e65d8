"""The tape: applications on tensors that require gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import ClassVar, TypeAlias

from tensorgrad.eager.templates import Derivative
from tensorgrad.eager.values import Value
from tensorgrad.tracing.location import user_place
from tensorgrad.tracing.tensor import Array

Hook: TypeAlias = Callable[[Array], "Array | None"]
Edge: TypeAlias = "tuple[TapeNode | Leaf, int]"
"""Where the derivative of a value flows: its producer, and the index of the value among its results."""
Operand: TypeAlias = "tuple[Value, Edge | None]"


_numbers = count()

WITHIN = 4
"""The minimum number of internal callers of a new node: the one that applies a template, and its caller."""


class Leaf:
    """The end of a derivative: a tensor created by the user, with its gradient.

    Attributes:
        grad: The accumulated gradient.
        hooks: The functions called with each gradient.
        gathers: Whether passes accumulate in it unless they name other leaves.
    """

    __slots__ = ("gathers", "grad", "hooks")

    def __init__(self, gathers: bool = True) -> None:
        self.gathers = gathers
        self.grad: Array | None = None
        self.hooks: dict[int, Hook] = {}


class TapeNode:
    """One application on the tape.

    Attributes:
        number: Increases with each application.
        results: The types of its results.
        derivative: Computes the cotangents of its operands.
        edges: The edges of these operands.
        values: The values that the derivative uses, with `None` for cotangents; empty once freed.
        line: The user's line.
        hooks: For each result, the functions called with its gradient.
        retained: For some results, the accumulator of their gradient.
        crosses: Whether it is a copy from another device.

    Args:
        derivative: Computes the cotangents of the operands that have an edge.
        edges: The edges of the operands' derivatives.
        operands: The operands.
        results: The results.
    """

    __slots__ = ("derivative", "edges", "hooks", "line", "number", "results", "retained", "values")
    crosses: ClassVar[bool] = False

    def __init__(
        self, derivative: Derivative, edges: Sequence[Edge | None], operands: Sequence[Value], results: Sequence[Value]
    ):
        self.number = next(_numbers)
        self.derivative = derivative
        self.edges: Sequence[Edge | None] = edges
        self.results = derivative.results
        both = [*operands, *results]
        self.values: list[Value | None] | None = [None if i is None else both[i] for i in derivative.positions]
        self.line = user_place(WITHIN)
        self.hooks: dict[int, dict[int, Hook]] = {}
        self.retained: dict[int, Leaf] = {}

    def made(self) -> list[Edge | None]:
        """Returns the edge of each result that depends on an operand with an edge."""
        return [(self, i) if active else None for i, active in enumerate(self.derivative.active)]

    def let_go(self) -> None:
        """Frees what only a backward pass needs, and the graph it depends on."""
        self.values, self.edges = None, ()

    def __lt__(self, other: TapeNode) -> bool:
        return self.number > other.number  # the latest one is the first of a heap
