"""The element types of buffers, and the `arith` ops on them.

Buffers are signless: `ui8` becomes `i8`, and the op determines the signedness.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerType, i1
from xdsl.ir import Attribute, Operation

from tensorgrad.dialects.signature import Slot
from tensorgrad.dialects.tg.base import SIGNLESS, Tensor, TensorOp, is_float, is_unsigned
from tensorgrad.passes.scalars import ScalarBuilder, Value

index = IndexType()


def storage(element: Attribute) -> Attribute:
    """Returns the signless element type that buffers use for a tensor's element type."""
    return SIGNLESS.get(element, element)


def typed(slot: Slot, kind: Attribute) -> Slot:
    """Records the element type of an unsigned tensor type in its slot, unless it has one: buffers are signless."""
    element = cast(Tensor, kind).element_type
    if slot.dtype is not None or not is_unsigned(element):
        return slot
    return replace(slot, dtype=f"u{cast(IntegerType, element).bitwidth}")


Body: TypeAlias = Callable[[ScalarBuilder, TensorOp, Sequence[Value]], Value]
"""Computes a result's element from the operands' elements."""


BY_KIND: dict[str, tuple[type[Operation], type[Operation], type[Operation]]] = {
    "add": (arith.AddfOp, arith.AddiOp, arith.AddiOp),
    "sub": (arith.SubfOp, arith.SubiOp, arith.SubiOp),
    "mul": (arith.MulfOp, arith.MuliOp, arith.MuliOp),
    "max": (arith.MaximumfOp, arith.MaxSIOp, arith.MaxUIOp),
    "min": (arith.MinimumfOp, arith.MinSIOp, arith.MinUIOp),
}
"""The ops on floats, signed and unsigned integers."""


def by_kind(name: str, element: Attribute) -> type[Operation]:
    """Returns the op of a family for a tensor's element type."""
    floats, signed, unsigned = BY_KIND[name]
    return floats if is_float(element) else unsigned if is_unsigned(element) else signed


def predicate(name: str, element: Attribute) -> str:
    """Returns the `arith` predicate for a predicate of `tg.compare` on a tensor's element type."""
    if is_float(element):
        return "une" if name == "ne" else f"o{name}"
    if name in ("eq", "ne"):
        return name
    return f"{'u' if element == i1 or is_unsigned(element) else 's'}{name}"
