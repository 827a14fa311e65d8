"""Sorts by counting, in native code: of the indices of a scatter, and digit by digit of any keys."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, f32, f64, i1, i32, i64
from xdsl.ir import Attribute, Block, SSAValue

from tensorgrad.dialects.buf import KernelOp, shape_of
from tensorgrad.dialects.counting_sort import CountingSortOp
from tensorgrad.dialects.tg.base import TensorOp, is_float, is_unsigned
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.buffers.lower_tg_to_buf.kernels import KernelSpec, StageBody, alloc, set_location
from tensorgrad.passes.buffers.lower_tg_to_buf.registry import Emit
from tensorgrad.passes.buffers.lower_tg_to_buf.searching import position_at
from tensorgrad.passes.buffers.lower_tg_to_buf.views import View
from tensorgrad.passes.scalars import Value

SHORT_DIGIT, LONG_DIGIT = 8, 11
"""The bits of a digit: of longer ones there are fewer, but each takes as long as a row of all their values."""


def sorted_by_counting(
    numbers: View, shape: Sequence[int], buckets: int, emit: Emit, op: TensorOp
) -> tuple[View, View]:
    """Sorts each row of numbers below `buckets`, stably; others come last.

    Returns:
        The positions in that order, of the same shape; and how many numbers of a row are in the buckets before each
        one, the last axis counting the buckets and two more.
    """
    starts = alloc([math.prod(shape[:-1]), buckets + 2], i32, op.location)
    emit.add(starts)
    return _sorted(numbers, shape, buckets, starts.memref, emit, op), _over(shape[:-1], starts.memref)


def _sorted(
    numbers: View, shape: Sequence[int], buckets: int, starts: SSAValue | None, emit: Emit, op: TensorOp
) -> View:
    """Emits a counting sort, and returns the positions in that order."""
    flat = [math.prod(shape[:-1]), shape[-1]]
    numbers = numbers.through(affine.reshape_map(flat, shape), flat)
    order = alloc(flat, i32, op.location)
    results = [order.memref] if starts is None else [order.memref, starts]
    block = Block(arg_types=[numbers.buffer.type, *(result.type for result in results)])
    inside, ordered, *others = block.args
    block.add_op(CountingSortOp.of(inside, ordered, others[0] if others else None, buckets, numbers.map))
    kernel = KernelOp.build_kernel(flat[:1], [numbers.buffer], results, block)
    set_location(kernel, op.location)
    emit.add(order)
    emit.add(kernel)
    return _over(shape[:-1], order.memref)


def _over(rows: Sequence[int], matrix: SSAValue) -> View:
    """Returns a matrix as a tensor with these axes in place of its rows."""
    extents = shape_of(matrix)
    return View(matrix, affine.reshape_map([*rows, extents[1]], extents))


def sorted_by_digits(
    keys: View, shape: Sequence[int], element: Attribute, descending: bool, emit: Emit, op: TensorOp
) -> View:
    """Returns the positions that sort each row of keys: by each digit in turn, the lowest one first.

    L. Comrie: The Hollerith and Powers Tabulating Machines (1929); for keys as bits, M. Herf: Radix Tricks (2001).
    """
    row, word = range(len(shape) - 1), i64 if _bits(element) > 32 else i32
    words = emit(
        KernelSpec(
            tuple(shape), [keys], word, lambda b, args: _word(b, args[0], element, descending), location=op.location
        )
    )
    width = LONG_DIGIT if shape[-1] >= 1 << LONG_DIGIT else SHORT_DIGIT
    order: View | None = None
    for shift in range(0, _bits(element), width):

        def digit(b: StageBody, _: Sequence[Value], order: View | None = order, shift: int = shift) -> Value:
            at = position_at(b, order, [b.loop(loop) for loop in row], b.loop(len(row)))
            bits = (b.load_at(words, [*(b.loop(loop) for loop in row), at]) >> shift) & ((1 << width) - 1)
            return bits if word == i32 else bits.cast(arith.TruncIOp, i32)

        gathered = [words.buffer] if order is None else [words.buffer, order.buffer]
        digits = emit(KernelSpec(tuple(shape), (), i32, digit, gathered=gathered, location=op.location))
        places = _sorted(digits, shape, 1 << width, None, emit, op)
        order = places if order is None else emit(_composed(order, places, shape, op))
    assert order is not None
    return order


def short_digits(element: Attribute) -> int:
    """Returns the number of short digits of keys."""
    return -(-_bits(element) // SHORT_DIGIT)


def _composed(order: View, places: View, shape: Sequence[int], op: TensorOp) -> KernelSpec:
    """Returns a kernel that reads an order at places."""

    def compute(b: StageBody, _: Sequence[Value]) -> Value:
        row, at = [b.loop(loop) for loop in range(len(shape) - 1)], b.loop(len(shape) - 1)
        return b.load_at(order, [*row, position_at(b, places, row, at)])

    return KernelSpec(tuple(shape), (), i32, compute, gathered=[order.buffer, places.buffer], location=op.location)


def _bits(element: Attribute) -> int:
    """Returns the bits of a key's word that may differ; a short float is extended to f32."""
    if isinstance(element, IntegerType):
        return element.bitwidth
    return 64 if element == f64 else 32


def _word(b: StageBody, key: Value, element: Attribute, descending: bool) -> Value:
    """Returns an unsigned number that orders as a key does: its bits, of a negative float inverted, and the sign too.

    Zeros are equal, and NaN is larger than every number.
    """
    bits = _bits(element)
    word = i64 if bits > 32 else i32
    if is_float(element):
        number = key + 0.0  # -0 becomes 0
        if number.type not in (f32, f64):
            number = number.cast(arith.ExtFOp, f32)
        signed = number.cast(arith.BitcastOp, word)
        ordered = signed ^ (signed.shifted_with_sign(bits - 1) | (1 << bits - 1))
        result = b.select(number.compare("une", number), b.constant((1 << bits) - 1, word), ordered)
    else:
        result = key if key.type == word else key.cast(arith.ExtUIOp, word)
        if not is_unsigned(element) and element != i1:
            result = result ^ (1 << bits - 1)
    return result ^ ((1 << bits) - 1) if descending else result
