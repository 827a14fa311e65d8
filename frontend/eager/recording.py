"""Blocks of recorded ops, which are computed once a value is read."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tensorgrad.dialects.tg.base import NumpyArray
from tensorgrad.eager.tape import Edge, TapeNode
from tensorgrad.eager.templates import Derivative, Template
from tensorgrad.eager.values import Recorder, Value, kind_of

Numbers: TypeAlias = tuple[int, ...]
"""The operands of an op: results count up from 0, inputs of the block down from -1."""

Targets: TypeAlias = "tuple[int | None, ...]"
"""The targets of operands' derivatives: the numbers of edges in the order in which a block met them, or `None`.

Edges of the block's own ops are numbered on creation, so that blocks of one structure have the same graph.
"""

FIXED_BYTES = 8
"""Host arrays of at most this many bytes are assumed to be constants, until a different one occurs in their place."""

MOST_STRUCTURES = 50_000
"""How many structures a device keeps before it starts over."""


@dataclass(frozen=True)
class KnownPass:
    """A backward pass over ops of a block, reusable for all blocks of its structure.

    Attributes:
        template: Takes the cotangent that the pass starts from, then the values that the derivatives of `nodes` use.
        nodes: The numbers of the ops that it covers.
        leaves: The numbers of the edges to its leaves.
        answered: For each result of the template, the index of the leaf whose gradient it is.
    """

    template: Template
    nodes: Sequence[int]
    leaves: Sequence[int]
    answered: Sequence[int]


class Structure:
    """The ops of a block so far and their operands. Blocks of one structure share this object.

    Structures form a trie whose root is the empty block: recording an op moves to a child. A recurring block is thus
    recognized while it is being recorded, and what is cached for it is found without inspecting its ops.

    Attributes:
        count: The number of results.
        size: The total number of `tg` ops.
        passes: Cached backward passes from here, by the number of the edge that they start from.
    """

    __slots__ = ("_children", "_total", "count", "passes", "size")

    def __init__(self) -> None:
        self.count = self.size = 0
        self.passes: dict[int, KnownPass] = {}
        self._children: dict[tuple[Template, Numbers, Targets | None], Entry] = {}
        self._total = [1]

    def then(self, template: Template, operands: Numbers, targets: Targets | None) -> Entry:
        """Returns the structure of the block with another op appended."""
        key = (template, operands, targets)
        result = self._children.get(key)
        if result is None:
            result = self._children[key] = Entry(self, self._total, template, operands, targets)
        return result

    @property
    def total(self) -> int:
        """The number of structures in the trie."""
        return self._total[0]

    def entries(self) -> list[Entry]:
        """Returns the block's prefixes up to each of its ops, in order."""
        entries: list[Entry] = []
        structure: Structure = self
        while isinstance(structure, Entry):
            entries.append(structure)
            structure = structure.before
        return entries[::-1]


class Entry(Structure):
    """A block whose last op is this one.

    Attributes:
        before: The block without it.
        template: The op.
        operands: Its operands.
        first: The number of its first result.
        derivative: The derivative with respect to the operands that have targets, if it has one.
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
            derivative = template.derivative(tuple([target is not None for target in targets]))
            self.derivative = derivative if derivative.has_any else None


class Recording:
    """A block of ops that are not computed yet.

    Attributes:
        recorder: The device that computes it.
        structure: Its structure.
        inputs: The values from outside the block that its ops use.
        nodes: For each op, its node on the tape; held only until the block is computed.
        results: The results of its ops.
    """

    def __init__(self, recorder: Recorder, root: Structure):
        self.recorder = recorder
        self.structure = root
        self.inputs: list[Value] = []
        self.nodes: list[TapeNode | None] = []
        self._numbers: dict[Value, int] = {}
        self._constants: list[int] = []
        self._has_ended = False
        self._targets: dict[Edge, int] = {}
        self.results: list[weakref.ref[Value]] = []

    def record(
        self, template: Template, operands: Sequence[Value], edges: Sequence[Edge | None] | None
    ) -> tuple[list[Value], list[Edge | None] | None]:
        """Records an application.

        Args:
            template: The template.
            operands: Its operands.
            edges: The edges of the operands' derivatives; `None` if no derivative is recorded.

        Returns:
            Its results, which are not computed yet, and their edges, if any have one.
        """
        known = self._numbers.get
        numbers = tuple(
            [
                operand.number if operand.recording is self else known(operand) or self._input(operand)
                for operand in operands
            ]
        )
        structure = self.structure.then(template, numbers, None if edges is None else self._targets_of(edges))
        self.structure = structure
        results = [Value(kind, None, self, number) for number, kind in enumerate(template.results, structure.first)]
        self.results += map(weakref.ref, results)
        if edges is None or structure.derivative is None:
            self.nodes.append(None)
            return results, None
        node = TapeNode(structure.derivative, edges, operands, results)
        self.nodes.append(node)
        new_edges = node.made()
        for edge in new_edges:
            if edge is not None:
                self._targets[edge] = len(self._targets)
        return results, new_edges

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
        """Returns the number of an edge, if it occurs in the block and passes through it may be cached."""
        return None if self._has_ended else self._targets.get(edge)

    def edges(self) -> list[Edge]:
        """Returns the edges by number."""
        return list(self._targets)

    def end(self) -> list[Value]:
        """Releases what only the tape holds; returns the results that are still reachable, in order.

        More may be recorded afterwards, if they could not be computed yet, but the edges are then renumbered.
        """
        self.nodes, self._targets, self._has_ended = [], {}, True
        values = [reference() for reference in self.results]
        return [value for value in values if value is not None]

    def key(self, alive: Sequence[Value]) -> Hashable:
        """Returns a key that is equal for blocks that one program computes, regardless of the numbers."""
        return self.structure, tuple(self._constants), tuple([value.number for value in alive])

    def period(self) -> int:
        """Returns the period of the ops at the end of the block, or 0 if they don't repeat.

        If a block is cut at a multiple of it, the following blocks have the same structure.
        """
        entries = self.structure.entries()
        names = [id(entry.template) for entry in entries]
        for length in range(1, len(names) // 3 + 1):
            if names[-length:] == names[-2 * length : -length] == names[-3 * length : -2 * length]:
                return entries[-1].size - entries[-1 - length].size
        return 0


def constant_of(array: NumpyArray) -> Value:
    """Returns a small host array as a value that is a constant of blocks."""
    value = Value(kind_of(array.shape, array.dtype), array)
    value.is_constant = True
    return value


def is_constant(array: NumpyArray) -> bool:
    """Returns whether a host array is treated as a constant."""
    return array.nbytes <= FIXED_BYTES


def splat_of(array: NumpyArray) -> NumpyArray | None:
    """Returns the single element of an array that broadcasts it (stride 0), or `None`."""
    if array.ndim and array.size > 1 and not any(array.strides):
        return np.asarray(array[(0,) * array.ndim])
    return None
