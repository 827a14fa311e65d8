"""Shared parts of attention kernels: addressing of operands, and causal masks."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, SSAValue

from tensorgrad.dialects.attention import Attention, AttentionOp
from tensorgrad.dialects.buf import element_of, shape_of
from tensorgrad.dialects.short_floats import SHORT_FLOATS
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.affine import Linear
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.scalars import Value

GROUP, QUERY, KEY, FEATURE = range(4)
"""The loops that index maps are over."""


@dataclass(frozen=True)
class Element:
    """The partially evaluated position of an operand's element: a value, and terms of loops not yet known."""

    buffer: SSAValue
    rest: Linear
    value: Value | None = None
    known: tuple[Value | None, ...] = (None,) * 4

    @staticmethod
    def of(stage: AttentionOp, operand: int, code: Code) -> Element:
        """Returns an operand's element, with no loop known yet."""
        a, part = stage.attention, stage.part.data
        buffer = stage.operands[operand]
        extents = [1] * 4
        for loop, extent in zip(a.spaces(part)[operand], a.shapes(part)[operand], strict=True):
            extents[loop] = extent
        binding = code.bindings[buffer]
        total = affine.linear_index(stage.affine_maps()[operand].results, shape_of(buffer)) + binding.start
        return Element(
            buffer, affine.linear(total, extents), None if binding.moved is None else code.value(binding.moved)
        )

    def with_loops(self, code: Code, loops: dict[int, Value]) -> Element:
        """Adds the terms that depend only on known loops."""
        known = tuple(loops.get(loop, value) for loop, value in enumerate(self.known))
        missing = {loop for loop, value in enumerate(known) if value is None}
        ready = {atom: c for atom, c in self.rest.terms.items() if not atom.used_dims() & missing}
        later = {atom: c for atom, c in self.rest.terms.items() if atom not in ready}
        part = Linear(ready, self.rest.constant)
        value = self.value
        if ready or part.constant:
            term = code.expression(part.expression(), cast("list[Value]", list(known)))
            value = term if value is None else value + term
        return Element(self.buffer, Linear(later), value, known)

    def load(self, code: Code) -> Value:
        """Returns the element, a short float as f32; all loops must be known."""
        assert not self.rest.terms
        at = code.number(0) if self.value is None else self.value
        element = code.element(code.bindings[self.buffer].memory, at)
        return element.cast(arith.ExtFOp, f32) if element.type in SHORT_FLOATS.values() else element

    def store(self, code: Code, value: Value) -> None:
        """Stores the element; all loops must be known."""
        at = code.number(0) if self.value is None else self.value
        element = element_of(self.buffer)
        if element in SHORT_FLOATS.values():
            value = value.cast(arith.TruncFOp, element)
        code.put(value, code.bindings[self.buffer].memory, at)


@dataclass(frozen=True)
class Scores:
    """The scores of a tile, in memory: for each column, a line of all rows."""

    memory: SSAValue


@dataclass(frozen=True)
class Numbers:
    """A number for each row of a block, or for each column of a tile, in memory."""

    memory: SSAValue
    of_columns: bool = False


def lowest(element: Attribute) -> float:
    """Returns the initial running maximum: finite, so that a row without scores produces no NaN."""
    return -3.4028234663852886e38 if element == f32 else -sys.float_info.max


def is_seen(attention: Attention, place: Value, key: Value) -> Value:
    """Returns whether the causal mask lets the query at a position in its head attend to a key."""
    ahead = attention.causal or 0
    return key + max(-ahead, 0) <= place + max(ahead, 0)


def seen_keys(attention: Attention, behind: Value) -> Value:
    """Returns the number of keys that the queries before position `behind` of their head attend to."""
    ahead = attention.causal or 0
    if ahead < 0:
        behind = behind.at_least(-ahead) - -ahead
    return (behind + max(ahead, 0)).at_most(attention.keys)


def first_place(attention: Attention, key: Value) -> Value:
    """Returns the first position of a head whose query attends to a key, or to a later one."""
    ahead = attention.causal or 0
    first = key.at_least(max(ahead, 0)) - max(ahead, 0)
    return first + max(-ahead, 0)
