"""Bits and whole quotients: element by element, equal types in and out."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from xdsl.irdl import irdl_op_definition

from tensorgrad.dialects.tg.base import NumpyArray, by_numpy
from tensorgrad.dialects.tg.binary import BinaryOp


@irdl_op_definition
class XorOp(BinaryOp):
    """Bitwise exclusive or of integers, logical of booleans.

    Example:
        %2 = tg.xor %0, %1 : tensor<4xi32>, tensor<4xi32>
    """

    name = "tg.xor"
    ELEMENTS: ClassVar = "bits"

    function = by_numpy(np.bitwise_xor)


@irdl_op_definition
class ShiftLeftOp(BinaryOp):
    """`x << y` on integers. The amount is read unsigned; one of 32 or more gives 0.

    Example:
        %2 = tg.shift_left %0, %1 : tensor<4xi32>, tensor<4xi32>
    """

    name = "tg.shift_left"
    ELEMENTS: ClassVar = "integer"
    NEUTRAL_RIGHT: ClassVar = 0

    @staticmethod
    def function(x: NumpyArray, y: NumpyArray) -> NumpyArray:
        inside = y.astype(np.uint32) < 32
        return np.where(inside, np.left_shift(x, np.where(inside, y, 0).astype(y.dtype)), np.zeros((), x.dtype))


@irdl_op_definition
class ShiftRightOp(BinaryOp):
    """`x >> y` on integers, which keeps the sign of signed ones. The amount is read unsigned.

    An amount of 32 or more gives 0, or -1 for a negative number.

    Example:
        %2 = tg.shift_right %0, %1 : tensor<4xi32>, tensor<4xi32>
    """

    name = "tg.shift_right"
    ELEMENTS: ClassVar = "integer"
    NEUTRAL_RIGHT: ClassVar = 0

    @staticmethod
    def function(x: NumpyArray, y: NumpyArray) -> NumpyArray:
        amount = y.astype(np.uint32)
        moved = np.right_shift(x, np.minimum(amount, 31).astype(x.dtype))
        return moved if x.dtype.kind == "i" else np.where(amount < 32, moved, np.zeros((), x.dtype))


@irdl_op_definition
class FloorDivideOp(BinaryOp):
    """The largest whole number that is not above `x / y`, as Python's `//`.

    On integers, by 0 it is 0, and the smallest integer by -1 wraps. On floats it is Python's and numpy's: exact where
    the quotient is below 2^22, by 0 the infinity or NaN that `x / y` is, NaN for an infinite `x`.

    Example:
        %2 = tg.floor_divide %0, %1 : tensor<4xi32>, tensor<4xi32>
    """

    name = "tg.floor_divide"

    function = by_numpy(np.floor_divide)


@irdl_op_definition
class RemainderOp(BinaryOp):
    """What `x // y` leaves, with the sign of `y`, as Python's `%`.

    On integers, by 0 it is 0. On floats the remainder with the sign of `x` is exact, and `y` is added where the signs
    differ: within half an ulp of `y`. It is NaN by 0 and for an infinite `x`.

    Example:
        %2 = tg.remainder %0, %1 : tensor<4xi32>, tensor<4xi32>
    """

    name = "tg.remainder"

    function = by_numpy(np.remainder)


OPS = (XorOp, ShiftLeftOp, ShiftRightOp, FloorDivideOp, RemainderOp)
