"""Maxima and minima of floats as those of integers, which LLVM computes in vectors in every loop.

The bits of floats, with those behind the sign inverted where it is set, are integers in the order of the floats, -0
before 0. NaN becomes the largest integer for a maximum and the smallest for a minimum, so that it stays NaN.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IntegerType
from xdsl.ir import Operation, SSAValue

from tensorgrad.passes.kernels.writing.emission import Code

ORDERED: dict[type[Operation], type[Operation]] = {arith.MaximumfOp: arith.MaxSIOp, arith.MinimumfOp: arith.MinSIOp}
"""For each extreme of floats, that of integers."""


def ordered(code: Code, kind: type[Operation], value: SSAValue) -> SSAValue:
    """Returns the integer of a float for an op of `ORDERED`."""
    integer = _integer(value)
    found = _inverted(code, code.add(arith.BitcastOp(value, integer)), integer)
    is_nan = code.add(arith.CmpfOp(value, value, "uno"))
    last = (1 << integer.width.data - 1) - 1
    nan = code.scalar(last if kind is arith.MaximumfOp else -last - 1, integer)
    return code.add(arith.SelectOp(is_nan, nan, found))


def as_float(code: Code, value: SSAValue, element: AnyFloat) -> SSAValue:
    """Returns the float of an integer that `ordered` gave, or of the largest or smallest of them."""
    return code.add(arith.BitcastOp(_inverted(code, value, cast("IntegerType", value.type)), element))


def _integer(value: SSAValue) -> IntegerType:
    return IntegerType(cast("AnyFloat", value.type).bitwidth)


def _inverted(code: Code, bits: SSAValue, integer: IntegerType) -> SSAValue:
    """Returns bits with those behind the sign inverted where it is set."""
    width = integer.width.data
    sign = code.add(arith.ShRSIOp(bits, code.scalar(width - 1, integer)))
    mask = code.add(arith.AndIOp(sign, code.scalar((1 << width - 1) - 1, integer)))
    return code.add(arith.XOrIOp(bits, mask))
