"""Bitcasts of f16 by exact arithmetic on the bits of f32, for shaders, which have no 16-bit integers."""

from __future__ import annotations

from xdsl.dialects.builtin import f16, f32
from xdsl.ir import SSAValue

from tensorgrad.dialects.tg.base import ui32
from tensorgrad.dialects.tg.build import TensorBuilder
from tensorgrad.dialects.tg.elementwise.arithmetic import (
    AddOp,
    AndOp,
    BitcastOp,
    MulOp,
    OrOp,
    ShiftLeftOp,
    ShiftRightOp,
    SubOp,
)

SHIFT = 13
"""The number of bits by which the fraction of f32 is longer than that of f16."""
BIAS = (127 - 15) << 23
"""The difference between the exponent biases of f32 and f16, in the exponent field of f32."""
FIRST_NORMAL, INFINITY = 1 << 10, 0x7C00
"""The bits of the smallest normal f16, and of its infinity; those of NaN are larger."""
SMALLEST = 2.0**-24
"""The smallest positive f16; subnormal ones are multiples of it."""


def bits_of_half(b: TensorBuilder, x: SSAValue) -> SSAValue:
    """Returns the bits of f16 values as ui32; for a NaN they may be those of another NaN."""
    bits = b.emit(BitcastOp, [b.cast(x, f32)], to=ui32)
    sign = _and(b, _right(b, bits, 16), 0x8000)
    size = _and(b, bits, 0x7FFFFFFF)
    normal = _right(b, b.binary(SubOp, size, b.full_like(size, BIAS)), SHIFT)
    small = b.cast(b.scale(b.emit(BitcastOp, [size], to=f32), 1 / SMALLEST), ui32)
    special = _or(b, _and(b, _right(b, size, SHIFT), FIRST_NORMAL - 1), INFINITY)
    finite = b.select(_below(b, size, BIAS + (1 << 23)), small, normal)
    return b.binary(OrOp, sign, b.select(_below(b, size, 0xFF << 23), finite, special))


def half_of_bits(b: TensorBuilder, x: SSAValue) -> SSAValue:
    """Returns the f16 values whose bits are the lower halves of words; a NaN may become another NaN."""
    word = b.cast(x, ui32)
    sign = _left(b, _and(b, word, 0x8000), 16)
    size = _and(b, word, 0x7FFF)
    moved = _left(b, size, SHIFT)
    normal = b.binary(AddOp, moved, b.full_like(moved, BIAS))
    number = b.cast(size, f32)
    small = b.emit(BitcastOp, [b.binary(MulOp, number, b.full_like(number, SMALLEST))], to=ui32)
    value = b.select(_below(b, size, FIRST_NORMAL), small, normal)
    bits = b.binary(OrOp, sign, b.select(_below(b, size, INFINITY), value, _or(b, moved, 0xFF << 23)))
    return b.cast(b.emit(BitcastOp, [bits], to=f32), f16)


def _and(b: TensorBuilder, x: SSAValue, mask: int) -> SSAValue:
    return b.binary(AndOp, x, b.full_like(x, mask))


def _or(b: TensorBuilder, x: SSAValue, bits: int) -> SSAValue:
    return b.binary(OrOp, x, b.full_like(x, bits))


def _left(b: TensorBuilder, x: SSAValue, amount: int) -> SSAValue:
    return b.binary(ShiftLeftOp, x, b.full_like(x, amount))


def _right(b: TensorBuilder, x: SSAValue, amount: int) -> SSAValue:
    return b.binary(ShiftRightOp, x, b.full_like(x, amount))


def _below(b: TensorBuilder, x: SSAValue, bound: int) -> SSAValue:
    return b.compare("lt", x, b.full_like(x, bound))
