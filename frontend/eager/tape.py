"""What was applied to tensors that require gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import TypeAlias

from tensorgrad.eager.templates import Derivative, Template
from tensorgrad.eager.values import Kind, Value
from tensorgrad.runtime.errors import user_frame
from tensorgrad.tracing.tensor import Array

Hook: TypeAlias = Callable[[Array], "Array | None"]
Edge: TypeAlias = "tuple[Node | Leaf, int]"
"""Where the derivative by a value goes: what made the value, and which of its results it is."""
Operand: TypeAlias = "tuple[Value, Edge | None]"


_numbers = count()


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
    """

    __slots__ = ("derivative", "edges", "hooks", "line", "number", "results", "retained", "values")

    def __init__(
        self,
        results: tuple[Kind, ...],
        derivative: Derivative,
        edges: tuple[Edge | None, ...],
        values: tuple[Value | None, ...] | None,
    ):
        self.number = next(_numbers)
        self.results, self.derivative, self.edges, self.values = results, derivative, edges, values
        frame = user_frame()
        self.line = ("<unknown>", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
        self.hooks: dict[int, dict[int, Hook]] = {}
        self.retained: dict[int, Leaf] = {}

    def let_go(self) -> None:
        """Lets go of what only a backward pass needs, and of the graph behind it."""
        self.values, self.edges = None, ()

    def __lt__(self, other: Node) -> bool:
        return self.number > other.number  # the last one is the first of a heap


def on_tape(template: Template, operands: Sequence[Operand], results: Sequence[Value]) -> list[Edge | None]:
    """Puts an application on the tape, where a result depends on an operand that requires a gradient.

    Returns:
        The edge of each result.
    """
    derivative = template.derivative(tuple([edge is not None for _, edge in operands]))
    if derivative.template is None or True not in derivative.active:
        return [None] * len(results)
    kept = tuple(
        [
            operands[i][0] if place == "operand" else results[i] if place == "result" else None
            for place, i in derivative.uses
        ]
    )
    node = Node(template.results, derivative, tuple([edge for _, edge in operands]), kept)
    return [(node, i) if active else None for i, active in enumerate(derivative.active)]
