"""Float maxima and minima as integer ones, which LLVM vectorizes in every loop.

The bits of floats, with those below the sign inverted if it is set, are integers ordered like the floats, with -0
before 0. NaN becomes the largest integer for a maximum and the smallest for a minimum, so that it propagates.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IntegerType
from xdsl.ir import Operation

from tensorgrad.passes.scalars import Value

ORDERED: dict[type[Operation], type[Operation]] = {arith.MaximumfOp: arith.MaxSIOp, arith.MinimumfOp: arith.MinSIOp}
"""The integer op for each float op."""


def ordered(kind: type[Operation], value: Value) -> Value:
    """Returns the ordered integer of a float for an op of `ORDERED`."""
    integer = IntegerType(cast("AnyFloat", value.type).bitwidth)
    bits = _inverted(value.cast(arith.BitcastOp, integer))
    last = (1 << integer.width.data - 1) - 1
    is_nan = value.compare("uno", value)
    return value.builder.select(is_nan, last if kind is arith.MaximumfOp else -last - 1, bits)


def as_float(value: Value, element: AnyFloat) -> Value:
    """Inverts `ordered`, also on a maximum or minimum of its results."""
    return _inverted(value).cast(arith.BitcastOp, element)


def _inverted(bits: Value) -> Value:
    """Inverts the bits below the sign if it is set."""
    width = cast("IntegerType", bits.type).width.data
    return bits ^ (bits.shifted_with_sign(width - 1) & ((1 << width - 1) - 1))
