"""Builds the bodies of stages: scalar ops of `arith` and `math`.

Buffers are signless: `ui8` is `i8` here, and the sign sits in the op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import TypeAlias, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IndexType, IntegerAttr, IntegerType, i1
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tensorgrad.dialects import wgsl
from tensorgrad.dialects.signature import Slot
from tensorgrad.dialects.tg.base import SIGNLESS, TensorOp, is_float, is_unsigned
from tensorgrad.dialects.tg.build import element_of

index = IndexType()


def storage(element: Attribute) -> Attribute:
    """Returns the signless element type that buffers use for a tensor's element type."""
    return SIGNLESS.get(element, element)


def typed(slot: Slot, value: SSAValue) -> Slot:
    """Says of an unsigned tensor what it is, unless its slot does: buffers are signless."""
    element = element_of(value)
    if slot.dtype is not None or not is_unsigned(element):
        return slot
    return replace(slot, dtype=f"u{cast(IntegerType, element).bitwidth}")


class ScalarBuilder:
    """Appends scalar ops to the body of a stage."""

    def __init__(self, block: Block):
        self.block = block

    def add_op(self, op: Operation) -> SSAValue:
        """Appends an op and gives its first result."""
        self.block.add_op(op)
        return op.results[0]

    def constant(self, number: float, element: Attribute) -> SSAValue:
        """Returns a constant of a buffer's element type; patterns above the signed range wrap."""
        if is_float(element):
            return self.add_op(arith.ConstantOp(FloatAttr(float(number), cast(AnyFloat, element))))
        value, kind = int(number), cast("IntegerType | IndexType", element)
        if isinstance(kind, IntegerType) and kind != i1 and value >= 1 << kind.bitwidth - 1:
            value -= 1 << kind.bitwidth
        return self.add_op(arith.ConstantOp(IntegerAttr(value, kind)))

    def apply(self, kind: type[Operation], *operands: SSAValue) -> SSAValue:
        """Returns an op whose result has its first operand's type."""
        return self.add_op(kind.create(operands=operands, result_types=[operands[0].type], properties=_flags(kind)))

    def convert(self, kind: type[Operation], operand: SSAValue, to: Attribute) -> SSAValue:
        """Returns a conversion."""
        return self.add_op(kind.create(operands=[operand], result_types=[to], properties=_flags(kind)))

    def compare(self, predicate: str, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Returns a comparison by a predicate of `arith.cmpf` or `arith.cmpi`."""
        kind = arith.CmpfOp if is_float(lhs.type) else arith.CmpiOp
        return self.add_op(kind(lhs, rhs, predicate))

    def select(self, condition: SSAValue, on_true: SSAValue, on_false: SSAValue) -> SSAValue:
        """Returns a choice."""
        return self.add_op(arith.SelectOp(condition, on_true, on_false))


def constant_integer(value: SSAValue) -> int | None:
    """Returns the integer that a scalar is, where it is a constant."""
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None


@cache
def _flags(kind: type[Operation]) -> dict[str, Attribute]:
    """Float arithmetic carries flags: none of its rules may be bent."""
    if kind in _FLAGLESS:
        return {}
    return {"fastmath": arith.FastMathFlagsAttr("none")}


_FLAGLESS: set[type[Operation]] = {
    arith.AddiOp,
    arith.SubiOp,
    arith.MuliOp,
    arith.AndIOp,
    arith.OrIOp,
    arith.XOrIOp,
    arith.MaxSIOp,
    arith.MaxUIOp,
    arith.MinSIOp,
    arith.MinUIOp,
    arith.DivUIOp,
    arith.RemUIOp,
    arith.FPToSIOp,
    arith.FPToUIOp,
    arith.SIToFPOp,
    arith.UIToFPOp,
    arith.ExtUIOp,
    arith.ExtSIOp,
    arith.TruncIOp,
    arith.ExtFOp,
    arith.TruncFOp,
    arith.IndexCastOp,
    math.AbsIOp,
    arith.DivSIOp,
    arith.RemSIOp,
    arith.ShLIOp,
    arith.ShRSIOp,
    arith.ShRUIOp,
    arith.BitcastOp,
    wgsl.RemFOp,
}


Body: TypeAlias = Callable[[ScalarBuilder, TensorOp, Sequence[SSAValue]], SSAValue]
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
    """`arith`'s predicate for one of `tg.compare`'s, on a tensor's element type."""
    if is_float(element):
        return "une" if name == "ne" else f"o{name}"
    if name in ("eq", "ne"):
        return name
    return f"{'u' if element == i1 or is_unsigned(element) else 's'}{name}"


def polynomial(b: ScalarBuilder, x: SSAValue, coefficients: Sequence[float]) -> SSAValue:
    """Returns a polynomial by Horner's rule; the coefficient of the highest power comes first."""
    value = b.constant(coefficients[0], x.type)
    for coefficient in coefficients[1:]:
        value = b.apply(arith.AddfOp, b.apply(arith.MulfOp, value, x), b.constant(coefficient, x.type))
    return value
