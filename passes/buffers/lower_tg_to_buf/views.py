"""Tensors as they lie in memory: a buffer and an index map, or one number everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineMap

from tensorgrad.passes.analyses import affine


@dataclass(frozen=True)
class View:
    """A tensor whose element at an index is the buffer's element at `map` of that index."""

    buffer: SSAValue
    map: AffineMap

    def through(self, inner: AffineMap, extents: Sequence[int]) -> View:
        """Returns the view of the tensor that `inner` indexes this one by, with `extents`."""
        return View(self.buffer, affine.composed(self.map, inner, extents))


@dataclass(frozen=True)
class Splat:
    """A tensor with the same number everywhere; it needs no buffer."""

    number: float
    element: Attribute


Lowered: TypeAlias = View | Splat


def through(operand: Lowered, inner: AffineMap, extents: Sequence[int]) -> Lowered:
    """Returns an operand as `inner` indexes it; a number is the same everywhere."""
    return operand.through(inner, extents) if isinstance(operand, View) else operand
