"""What was applied to tensors that require gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import ClassVar, TypeAlias

from tensorgrad.eager.templates import Derivative
from tensorgrad.eager.values import Value
from tensorgrad.tracing.location import user_place
from tensorgrad.tracing.tensor import Array

Hook: TypeAlias = Callable[[Array], "Array | None"]
Edge: TypeAlias = "tuple[Node | Leaf, int]"
"""Where the derivative by a value goes: what made the value, and which of its results it is."""
Operand: TypeAlias = "tuple[Value, Edge | None]"


_numbers = count()

WITHIN = 4
"""How many callers of a new node are ours at least: what applies a template, and what is called to do so."""


class Leaf:
    """Where a derivative ends: a tensor that the user made, with its gradient.

    Attributes:
        grad: The sum of the gradients so far.
        hooks: What is called with each gradient.
        gathers: Whether passes add to it that don't name it.
    """

    __slots__ = ("gathers", "grad", "hooks")

    def __init__(self, gathers: bool = True) -> None:
        self.gathers = gathers
        self.grad: Array | None = None
        self.hooks: dict[int, Hook] = {}


class Node:
    """One application on the tape.

    Attributes:
        number: Grows with each application.
        results: The types of its results.
        derivative: What computes the cotangents of its operands.
        edges: Where those go.
        values: What the derivative takes, with `None` for cotangents; nothing at all once that was let go.
        line: The user's line.
        hooks: For each result, what is called with its gradient.
        retained: For some results, where their gradient is kept.
        crosses: Whether it is a copy from another device.

    Args:
        derivative: What computes the cotangents of the operands that have an edge.
        edges: Where derivatives by the operands go.
        operands: What was applied to.
        results: What that gave.
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
        self.values: list[Value | None] | None = [None if place is None else both[place] for place in derivative.taken]
        self.line = user_place(WITHIN)
        self.hooks: dict[int, dict[int, Hook]] = {}
        self.retained: dict[int, Leaf] = {}

    def made(self) -> list[Edge | None]:
        """Returns the edge of each result, where it depends on an operand with an edge."""
        return [(self, i) if active else None for i, active in enumerate(self.derivative.active)]

    def let_go(self) -> None:
        """Lets go of what only a backward pass needs, and of the graph behind it."""
        self.values, self.edges = None, ()

    def __lt__(self, other: Node) -> bool:
        return self.number > other.number  # the last one is the first of a heap
