"""Maxima and minima of floats as those of integers, which LLVM computes in vectors in every loop.

The bits of floats, with those behind the sign inverted where it is set, are integers in the order of the floats, -0
before 0. NaN becomes the largest integer for a maximum and the smallest for a minimum, so that it stays NaN.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IntegerType
from xdsl.ir import Operation

from tensorgrad.passes.scalars import Value

ORDERED: dict[type[Operation], type[Operation]] = {arith.MaximumfOp: arith.MaxSIOp, arith.MinimumfOp: arith.MinSIOp}
"""For each extreme of floats, that of integers."""


def ordered(kind: type[Operation], value: Value) -> Value:
    """Returns the integer of a float for an op of `ORDERED`."""
    integer = IntegerType(cast("AnyFloat", value.type).bitwidth)
    found = _inverted(value.cast(arith.BitcastOp, integer))
    last = (1 << integer.width.data - 1) - 1
    is_nan = value.compare("uno", value)
    return value.builder.select(is_nan, last if kind is arith.MaximumfOp else -last - 1, found)


def as_float(value: Value, element: AnyFloat) -> Value:
    """Returns the float of an integer that `ordered` gave, or of the largest or smallest of them."""
    return _inverted(value).cast(arith.BitcastOp, element)


def _inverted(bits: Value) -> Value:
    """Returns bits with those behind the sign inverted where it is set."""
    width = cast("IntegerType", bits.type).width.data
    return bits ^ (bits.shifted_with_sign(width - 1) & ((1 << width - 1) - 1))
