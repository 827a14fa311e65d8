"""Blocks of recorded ops: what was applied to what, until someone looks at a value."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tensorgrad.dialects.tg.base import NumpyArray
from tensorgrad.eager.tape import Edge, Node
from tensorgrad.eager.templates import Derivative, Template
from tensorgrad.eager.values import Recorder, Value, kind_of

Numbers: TypeAlias = tuple[int, ...]
"""What an op is applied to: results count from 0 up, inputs of the block from -1 down."""

Targets: TypeAlias = "tuple[int | None, ...]"
"""Where derivatives by operands go: the numbers of edges, in the order in which a block came upon them, or `None`.

Edges of its own ops are counted when they are made, so that blocks of one structure have the same graph.
"""

FIXED_BYTES = 8
"""Arrays of the host of at most so many bytes are taken for constants, until another one comes in their place."""

MOST_STRUCTURES = 50_000
"""How many structures a device knows; after that it begins anew."""


@dataclass(frozen=True)
class KnownPass:
    """A backward pass through ops of a block, for all blocks of its structure.

    Attributes:
        template: Takes the cotangent that the pass begins with, then what the derivatives of `nodes` take.
        nodes: The numbers of the ops that it goes through.
        leaves: The numbers of the edges to the leaves that it ends at.
        answered: For each result of the template, which of these leaves it is the gradient by.
    """

    template: Template
    nodes: Sequence[int]
    leaves: Sequence[int]
    answered: Sequence[int]


class Structure:
    """What was applied to what in a block so far. Blocks of one structure have the same object.

    Structures form a tree, whose root is the empty block: to record an op is to go to a child, so that a block that
    comes again is recognized as it is recorded, and what is known of it is found without a look at its ops.

    Attributes:
        count: How many results there are.
        size: How many ops of `tg` there are in all.
        passes: What is known of backward passes from here, by the number of the edge that they begin with.
    """

    __slots__ = ("_children", "_total", "count", "passes", "size")

    def __init__(self) -> None:
        self.count = self.size = 0
        self.passes: dict[int, KnownPass] = {}
        self._children: dict[tuple[Template, Numbers, Targets | None], Entry] = {}
        self._total = [1]

    def then(self, template: Template, operands: Numbers, targets: Targets | None) -> Entry:
        """Returns the structure of the block with another op at its end."""
        key = (template, operands, targets)
        found = self._children.get(key)
        if found is None:
            found = self._children[key] = Entry(self, self._total, template, operands, targets)
        return found

    @property
    def total(self) -> int:
        """How many structures there are in the tree."""
        return self._total[0]

    def entries(self) -> list[Entry]:
        """Returns the block up to each of its ops, in order."""
        found: list[Entry] = []
        one: Structure = self
        while isinstance(one, Entry):
            found.append(one)
            one = one.before
        return found[::-1]


class Entry(Structure):
    """A block that ends in an op.

    Attributes:
        before: The block without it.
        template: The op.
        operands: What it is applied to.
        first: The number of its first result.
        derivative: The derivative by the operands that have targets, where it has one.
    """

    __slots__ = ("before", "derivative", "first", "operands", "template")

    def __init__(
        self, before: Structure, total: list[int], template: Template, operands: Numbers, targets: Targets | None
    ):
        super().__init__()
        self.before, self.template, self.operands, self.first = before, template, operands, before.count
        self.count = before.count + len(template.results)
        self.size = before.size + template.size
        self._total = total
        total[0] += 1
        self.derivative: Derivative | None = None
        if targets is not None:
            derivative = template.derivative(tuple([one is not None for one in targets]))
            self.derivative = derivative if derivative.has_any else None


class Recording:
    """A block of ops that are not computed yet.

    Attributes:
        recorder: What computes it.
        structure: What was applied to what.
        inputs: What its ops take from outside the block.
        nodes: For each op, what it has put on the tape. They are held only until the block is computed.
        results: What its ops give.
    """

    def __init__(self, recorder: Recorder, root: Structure):
        self.recorder = recorder
        self.structure = root
        self.inputs: list[Value] = []
        self.nodes: list[Node | None] = []
        self._numbers: dict[Value, int] = {}
        self._constants: list[int] = []
        self._has_ended = False
        self._targets: dict[Edge, int] = {}
        self.results: list[weakref.ref[Value]] = []

    def record(
        self, template: Template, operands: Sequence[Value], edges: Sequence[Edge | None] | None
    ) -> tuple[list[Value], list[Edge | None] | None]:
        """Adds an application.

        Args:
            template: What is applied.
            operands: To what.
            edges: Where derivatives by the operands go; `None` where no derivative is recorded.

        Returns:
            Its results, which are yet to be computed, and their edges, if any have one.
        """
        known = self._numbers.get
        numbers = tuple([one.number if one.recording is self else known(one) or self._input(one) for one in operands])
        structure = self.structure.then(template, numbers, None if edges is None else self._targets_of(edges))
        self.structure = structure
        results = [Value(kind, None, self, number) for number, kind in enumerate(template.results, structure.first)]
        self.results += map(weakref.ref, results)
        if edges is None or structure.derivative is None:
            self.nodes.append(None)
            return results, None
        node = Node(structure.derivative, edges, operands, results)
        self.nodes.append(node)
        made = node.made()
        for edge in made:
            if edge is not None:
                self._targets[edge] = len(self._targets)
        return results, made

    def _targets_of(self, edges: Sequence[Edge | None]) -> Targets:
        targets = self._targets
        return tuple([None if edge is None else targets.setdefault(edge, len(targets)) for edge in edges])

    def _input(self, value: Value) -> int:
        """Returns the number of a new input."""
        if value.is_constant:
            self._constants.append(len(self.inputs))
        self.inputs.append(value)
        number = self._numbers[value] = -len(self.inputs)
        return number

    def target(self, edge: Edge) -> int | None:
        """Returns the number of an edge, if the block has had to do with it and passes through it may be known."""
        return None if self._has_ended else self._targets.get(edge)

    def edges(self) -> list[Edge]:
        """Returns the edges by number."""
        return list(self._targets)

    def end(self) -> list[Value]:
        """Lets go of what the tape alone holds; returns the results that someone may still look at, in order.

        More may be recorded afterwards, where they could not be computed yet; but the edges are counted anew then.
        """
        self.nodes, self._targets, self._has_ended = [], {}, True
        values = [reference() for reference in self.results]
        return [value for value in values if value is not None]

    def key(self, alive: Sequence[Value]) -> Hashable:
        """Returns what is equal for blocks that one program computes, whatever the numbers."""
        return self.structure, tuple(self._constants), tuple([value.number for value in alive])

    def period(self) -> int:
        """Returns after how many ops the block repeats itself at its end, or 0 where it doesn't.

        A block that is cut at a multiple of it is followed by blocks of the same structure.
        """
        entries = self.structure.entries()
        names = [id(one.template) for one in entries]
        for length in range(1, len(names) // 3 + 1):
            if names[-length:] == names[-2 * length : -length] == names[-3 * length : -2 * length]:
                return entries[-1].size - entries[-1 - length].size
        return 0


def constant_of(array: NumpyArray) -> Value:
    """Returns a small array of the host as a value that is a constant of blocks."""
    value = Value(kind_of(array.shape, array.dtype), array)
    value.is_constant = True
    return value


def is_constant(array: NumpyArray) -> bool:
    """Returns whether an array of the host is taken for a constant."""
    return array.nbytes <= FIXED_BYTES


def splat_of(array: NumpyArray) -> NumpyArray | None:
    """Returns the only element of an array that repeats it without holding it more than once, or `None`."""
    if array.ndim and array.size > 1 and not any(array.strides):
        return np.asarray(array[(0,) * array.ndim])
    return None
