"""What was applied to tensors that require gradients, and the backward pass over it."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Protocol, TypeAlias

from tensorgrad.eager.templates import Derivative, Place, Template
from tensorgrad.eager.values import Kind, Value
from tensorgrad.errors import GradientError
from tensorgrad.runtime.errors import user_frame
from tensorgrad.tracing.grad_mode import recording
from tensorgrad.tracing.location import user_line
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
    values = {"operand": [value for value, _ in operands], "result": list(results), "cotangent": []}
    kept = tuple([values[place][i] if place != "cotangent" else None for place, i in derivative.uses])
    node = Node(template.results, derivative, tuple([edge for _, edge in operands]), kept)
    return [(node, i) if active else None for i, active in enumerate(derivative.active)]


class Applier(Protocol):
    """The device that a backward pass runs on."""

    def applied(self, template: Template, operands: Sequence[Operand]) -> list[Operand]:
        """Applies a template, and puts that on the tape where a derivative goes through it."""
        ...

    def operand(self, x: Array) -> Operand:
        """Returns a tensor's present value, and where its derivative goes."""
        ...

    def wrap(self, value: Value, edge: Edge | None) -> Array:
        """Returns a tensor of a value."""
        ...

    def sum(self, x: Operand, y: Operand) -> Operand:
        """Returns the sum of two tensors of one type."""
        ...

    def copy(self, x: Operand) -> Operand:
        """Returns the same values, as the value of another tensor."""
        ...

    def zeros(self, kind: Kind) -> Operand:
        """Returns zeros."""
        ...


class Backward:
    """One backward pass.

    Args:
        home: Where the tensors live.
        retain_graph: Whether the tape stays for another pass.
        create_graph: Whether the pass is recorded itself, for derivatives of gradients.
        only: The leaves, and results, that gradients are asked for; `None` is all leaves.
    """

    def __init__(self, home: Applier, retain_graph: bool, create_graph: bool, only: set[Edge] | None):
        self._home, self._retain, self._only = home, retain_graph, only
        self._create = create_graph
        self._found: dict[Edge, Operand] = {}

    def run(self, root: Edge, cotangent: Operand) -> None:
        """Goes from a value back to the leaves.

        Raises:
            GradientError: A value that is needed was changed in place, or let go.
        """
        with recording(self._create):
            self._add(root, cotangent)
            for node in self._order(root):
                self._through(node)
            for edge, given in list(self._found.items()):
                if isinstance(edge[0], Leaf):
                    self._gather(edge[0], given)

    def _order(self, root: Edge) -> Iterator[Node]:
        """Yields the nodes behind a value, each once, the last one first."""
        waiting = [root[0]] if isinstance(root[0], Node) else []
        seen = set(waiting)
        while waiting:
            node = heapq.heappop(waiting)
            for edge in node.edges:
                if edge is not None and isinstance(edge[0], Node) and edge[0] not in seen:
                    seen.add(edge[0])
                    heapq.heappush(waiting, edge[0])
            yield node

    def _add(self, edge: Edge, piece: Operand) -> None:
        before = self._found.get(edge)
        self._found[edge] = piece if before is None else self._home.sum(before, piece)

    def _through(self, node: Node) -> None:
        """Takes the cotangents of a node's results to its operands."""
        if node.values is None:
            raise GradientError(
                f"{user_line()}: backward: what the line {_named(node)} left for it was let go by an earlier backward "
                "pass; backward(retain_graph=True) keeps it for another one"
            )
        given: dict[int, Operand] = {}
        for place in range(len(node.results)):
            found = self._found.pop((node, place), None)
            if found is not None:
                given[place] = self._seen(node, place, found)
        derivative = node.derivative
        if given and derivative.template is not None:
            operands = [
                self._cotangent(node, place[1], given) if value is None else self._value(node, place, value)
                for place, value in zip(derivative.uses, node.values, strict=True)
            ]
            pieces = self._home.applied(derivative.template, operands)
            for edge, piece in zip(node.edges, derivative.pieces, strict=True):
                if edge is not None and piece is not None:
                    self._add(edge, pieces[piece])
        if not self._retain:
            node.values, node.edges = None, ()

    def _seen(self, node: Node, place: int, found: Operand) -> Operand:
        """Calls the hooks of a result, and keeps its gradient where that was asked for."""
        for hook in list(node.hooks.get(place, {}).values()):
            found = self._hooked(hook, found)
        kept = node.retained.get(place)
        if kept is not None and (kept.gathers if self._only is None else (node, place) in self._only):
            self._keep(kept, found)
        return found

    def _hooked(self, hook: Hook, found: Operand) -> Operand:
        given = self._home.wrap(*found)
        result = hook(given)
        if result is None:
            return found
        value = self._home.operand(result) if isinstance(result, Array) else None
        if value is None or value[0].kind is not found[0].kind:
            raise GradientError(
                f"{user_line()}: a hook gave {result!r} for a gradient of shape {found[0].shape}; it gives a tensor of "
                "that shape and dtype, or None"
            )
        return value

    def _cotangent(self, node: Node, number: int, given: dict[int, Operand]) -> Operand:
        return given[number] if number in given else self._home.zeros(node.results[number])

    def _value(self, node: Node, place: Place, value: Value) -> Operand:
        """Returns an operand or a result of a node, as it was.

        Raises:
            GradientError: The tensor has another value by now.
        """
        if value.is_outdated:
            assert value.storage is not None
            raise GradientError(
                f"{user_line()}: backward: a tensor of shape {value.shape}, which the derivative of the line "
                f"{_named(node)} needs, was changed in place by the line {value.storage.line}; change a clone() of it"
            )
        what, number = place
        return value, (node.edges[number] if what == "operand" else (node, number))

    def _gather(self, leaf: Leaf, found: Operand) -> None:
        if self._only is not None and (leaf, 0) not in self._only:
            return
        for hook in list(leaf.hooks.values()):
            found = self._hooked(hook, found)
        self._keep(leaf, found)

    def _keep(self, leaf: Leaf, found: Operand) -> None:
        """Adds a gradient to what there is; a tensor of its own, so that changing one in place changes no other."""
        if leaf.grad is not None:
            found = self._home.sum(self._home.operand(leaf.grad), found)
        else:
            found = self._home.copy(found)
        leaf.grad = self._home.wrap(*found)


def _named(node: Node) -> str:
    return f"{node.line[0]}:{node.line[1]}"
