"""Lowered tensors: a buffer with an index map, or a splat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineMap

from tensorgrad.passes.analyses import affine


@dataclass(frozen=True)
class View:
    """A tensor whose element at index `i` is the buffer's element at `map(i)`."""

    buffer: SSAValue
    map: AffineMap

    def through(self, inner: AffineMap, extents: Sequence[int]) -> View:
        """Returns the view of shape `extents` whose element at index `i` is this view's element at `inner(i)`."""
        return View(self.buffer, affine.composed(self.map, inner, extents))


@dataclass(frozen=True)
class Splat:
    """A tensor with the same number everywhere, which needs no buffer."""

    number: float
    element: Attribute


Lowered: TypeAlias = View | Splat


def through(operand: Lowered, inner: AffineMap, extents: Sequence[int]) -> Lowered:
    """Returns an operand indexed through `inner`; a splat stays the same."""
    return operand.through(inner, extents) if isinstance(operand, View) else operand
