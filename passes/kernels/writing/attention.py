"""What all kernels of attention share: where operands lie, and who attends to whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import f16, f32
from xdsl.ir import SSAValue

from tensorgrad.dialects.attention import Attention, AttentionOp
from tensorgrad.dialects.buf import element_of, shape_of
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.affine import Linear
from tensorgrad.passes.kernels.writing.emission import Code

GROUP, QUERY, KEY, FEATURE = range(4)
"""The loops that maps are over."""

LOWEST = -3.4028234663852886e38
"""Where running maxima start: finite, so that a row without any score gives no NaN on its way."""


@dataclass(frozen=True)
class Element:
    """The position of an operand's element, as far as it is known: a value, and terms that wait for loops."""

    buffer: SSAValue
    rest: Linear
    value: SSAValue | None = None
    known: tuple[SSAValue | None, ...] = (None,) * 4

    @staticmethod
    def of(stage: AttentionOp, operand: int, code: Code) -> Element:
        """Returns an operand's element, of which no loop is known yet."""
        a, part = stage.attention, stage.part.data
        buffer = stage.operands[operand]
        extents = [1] * 4
        for loop, extent in zip(a.spaces(part)[operand], a.shapes(part)[operand], strict=True):
            extents[loop] = extent
        binding = code.bindings[buffer]
        total = affine.linear_index(stage.affine_maps()[operand].results, shape_of(buffer)) + binding.start
        return Element(buffer, affine.linear(total, extents), binding.moved)

    def with_loops(self, code: Code, loops: dict[int, SSAValue]) -> Element:
        """Adds the terms that depend on known loops alone."""
        known = tuple(loops.get(loop, value) for loop, value in enumerate(self.known))
        missing = {loop for loop, value in enumerate(known) if value is None}
        ready = {atom: c for atom, c in self.rest.terms.items() if not atom.used_dims() & missing}
        later = {atom: c for atom, c in self.rest.terms.items() if atom not in ready}
        part = Linear(ready, self.rest.constant)
        value = self.value
        if ready or part.constant:
            term = code.expression(part.expression(), cast("list[SSAValue]", list(known)))
            value = term if value is None else code.index_op(arith.AddiOp, value, term)
        return Element(self.buffer, Linear(later), value, known)

    def load(self, code: Code) -> SSAValue:
        """Returns the element, half floats as f32; every loop is known."""
        assert not self.rest.terms
        at = code.number(0) if self.value is None else self.value
        found = code.element(code.bindings[self.buffer].memory, at)
        return code.add(arith.ExtFOp(found, f32)) if found.type == f16 else found

    def store(self, code: Code, value: SSAValue) -> None:
        """Writes the element; every loop is known."""
        at = code.number(0) if self.value is None else self.value
        if element_of(self.buffer) == f16:
            value = code.add(arith.TruncFOp(value, f16))
        code.put(value, code.bindings[self.buffer].memory, at)


def is_seen(code: Code, attention: Attention, place: SSAValue, key: SSAValue) -> SSAValue:
    """Returns whether causality lets the query at a place of its head attend to a key."""
    ahead = attention.causal or 0
    left = code.index_op(arith.AddiOp, key, max(-ahead, 0))
    right = code.index_op(arith.AddiOp, place, max(ahead, 0))
    return code.add(arith.CmpiOp(left, right, "ule"))


def seen_keys(code: Code, attention: Attention, behind: SSAValue) -> SSAValue:
    """Returns how many keys the queries in front of the place `behind` of their head attend to."""
    ahead = attention.causal or 0
    if ahead < 0:
        behind = code.index_op(arith.SubiOp, code.index_op(arith.MaxUIOp, behind, -ahead), -ahead)
    return code.index_op(arith.MinUIOp, code.index_op(arith.AddiOp, behind, max(ahead, 0)), attention.keys)


def first_place(code: Code, attention: Attention, key: SSAValue) -> SSAValue:
    """Returns the first place of a head whose query attends to a key, or to one behind it."""
    ahead = attention.causal or 0
    first = code.index_op(arith.SubiOp, code.index_op(arith.MaxUIOp, key, max(ahead, 0)), max(ahead, 0))
    return code.index_op(arith.AddiOp, first, max(-ahead, 0))
