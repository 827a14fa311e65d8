"""Functions of the bits of integers, and of booleans as single bits."""

from __future__ import annotations

from typing import Any

from tensorgrad.dialects.tg.base import TensorOp
from tensorgrad.dialects.tg.elementwise import arithmetic
from tensorgrad.errors import DTypeError
from tensorgrad.ops.elementwise.arithmetic import emit_of_kinds
from tensorgrad.ops.promotion import (
    as_tensor,
)
from tensorgrad.tracing.dtypes import SHORT, is_float
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.tracing.tracer import emit


def _bits(what: str, kind: type[TensorOp], x: Any, y: Any) -> Tensor:
    return emit_of_kinds(what, kind, x, y, "iub", "integers or bool")


def bitwise_and(x: TensorLike, y: TensorLike) -> Tensor:
    """Bitwise and of integers, logical and of booleans.

    Raises:
        DTypeError: The operands are floats, or have no common dtype.

    Example:
        >>> tg.bitwise_and(6, [3, 4])
        Array([2, 4], dtype=i32)
    """
    return _bits("bitwise_and", arithmetic.AndOp, x, y)


def bitwise_or(x: TensorLike, y: TensorLike) -> Tensor:
    """Bitwise or of integers, logical or of booleans.

    Raises:
        DTypeError: The operands are floats, or have no common dtype.

    Example:
        >>> tg.bitwise_or(6, [3, 8])
        Array([ 7, 14], dtype=i32)
    """
    return _bits("bitwise_or", arithmetic.OrOp, x, y)


def bitwise_xor(x: TensorLike, y: TensorLike) -> Tensor:
    """Bitwise exclusive or of integers, logical of booleans.

    Raises:
        DTypeError: The operands are floats, or have no common dtype.

    Example:
        >>> tg.bitwise_xor(6, [3, 6])
        Array([5, 0], dtype=i32)
    """
    return _bits("bitwise_xor", arithmetic.XorOp, x, y)


def bitwise_invert(x: TensorLike) -> Tensor:
    """Inverts every bit of integers; negates booleans.

    Raises:
        DTypeError: `x` is of floats.

    Example:
        >>> tg.bitwise_invert([0, 5])
        Array([-1, -6], dtype=i32)
    """
    tensor = as_tensor(x)
    if is_float(tensor.dtype):
        raise DTypeError(f"bitwise_invert: takes integers or bool, not {SHORT[tensor.dtype]}; cast first")
    return emit(arithmetic.NotOp, [tensor])


def bitwise_left_shift(x: TensorLike, y: TensorLike) -> Tensor:
    """`x << y` on integers; a negative amount, or one of at least the bit width, gives 0.

    Raises:
        DTypeError: The operands are not integers, or of different kinds.

    Example:
        >>> tg.bitwise_left_shift(1, [0, 1, 4])
        Array([ 1,  2, 16], dtype=i32)
    """
    return emit_of_kinds("bitwise_left_shift", arithmetic.ShiftLeftOp, x, y, "iu", "integers")


def bitwise_right_shift(x: TensorLike, y: TensorLike) -> Tensor:
    """`x >> y` on integers, preserving the sign.

    A negative amount, or one of at least the bit width, gives 0, or -1 for a negative `x`.

    Raises:
        DTypeError: The operands are not integers, or of different kinds.

    Example:
        >>> tg.bitwise_right_shift([16, -16], 2)
        Array([ 4, -4], dtype=i32)
    """
    return emit_of_kinds("bitwise_right_shift", arithmetic.ShiftRightOp, x, y, "iu", "integers")
