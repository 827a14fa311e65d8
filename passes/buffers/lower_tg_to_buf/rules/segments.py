"""Sorts rows that no kernel can bind, in segments.

The segments of a row have equal lengths, and each is sorted on its own. The rank of an element in its row is the sum,
over all segments, of the number of elements that precede it, which bisection finds. Each kernel reads pairs of
segments, so `cut-grids` can divide it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, i1, i32
from xdsl.ir import Attribute

from tensorgrad.dialects.buf import element_bytes, shape_of
from tensorgrad.dialects.tg.base import TensorOp, is_float, is_unsigned
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.storage import bindings_of, chunk_bytes
from tensorgrad.passes.buffers.lower_tg_to_buf.kernels import KernelSpec, StageBody
from tensorgrad.passes.buffers.lower_tg_to_buf.registry import Emit
from tensorgrad.passes.buffers.lower_tg_to_buf.scalars import storage
from tensorgrad.passes.buffers.lower_tg_to_buf.searching import counted, keeps_order
from tensorgrad.passes.buffers.lower_tg_to_buf.views import View
from tensorgrad.passes.scalars import Value

POSITION_BYTES = 4
"""The bytes of an element of an order."""


@dataclass(frozen=True)
class Segments:
    """Rows whose segments are sorted. The last segment is padded with keys that sort last.

    Attributes:
        rows: The extents of the axes before the one that is sorted.
        extent: The number of elements of a row.
        count: The number of segments of a row.
        length: The number of elements of a segment.
        keys: The keys, of shape `[*rows, count, length]`.
        order: For each segment, the positions in it that sort its keys; of the same shape.
        ordered: The keys in that order; of the same shape.
    """

    rows: tuple[int, ...]
    extent: int
    count: int
    length: int
    keys: View
    order: View
    ordered: View

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the keys."""
        return (*self.rows, self.count, self.length)


def whole_rows(keys: View, shape: Sequence[int], element: Attribute, emit: Emit, op: TensorOp) -> View | None:
    """Returns the keys as kernels that sort whole rows read them; `None` if no kernel can bind a row.

    A sort binds the keys and two orders. If these are too large as a whole, but not by rows, the keys are copied so
    that rows are contiguous, and `cut-grids` divides the kernels.
    """
    if _needed(math.prod(shape), element, emit, 0) <= emit.bindings:
        return keys
    if _needed(shape[-1], element, emit, emit.target.min_storage_buffer_offset_alignment) > emit.bindings:
        return None
    if affine.is_identity(keys.map) and shape_of(keys.buffer) == tuple(shape):
        return keys
    return emit(KernelSpec(tuple(shape), [keys], storage(element), lambda b, args: args[0], location=op.location))


def _needed(count: int, element: Attribute, emit: Emit, before: int) -> int:
    """Returns the bindings of `count` keys and two orders, if each starts up to `before` bytes into a binding."""
    sizes = [element_bytes(storage(element)), POSITION_BYTES, POSITION_BYTES]
    return sum(bindings_of(count * size + before, emit.target) for size in sizes)


def segment_length(extent: int, element: Attribute, emit: Emit, beside: int = 0) -> int:
    """Returns the length of segments, a power of two.

    Args:
        extent: The number of elements of a row.
        element: The type of the keys.
        emit: Has the target.
        beside: The bytes per key of a further buffer that a kernel binds together with three others.
    """
    most = chunk_bytes(emit.target)
    wide = max(emit.bindings - 3, 1) * most - emit.target.min_storage_buffer_offset_alignment
    length = 1
    while length < extent:
        if 2 * length * max(element_bytes(storage(element)), POSITION_BYTES) > most or 2 * length * beside > wide:
            break
        length *= 2
    return length


def divided(
    keys: View, shape: Sequence[int], length: int, element: Attribute, descending: bool, emit: Emit, op: TensorOp
) -> View:
    """Returns the keys in segments, the last of which is padded with keys that sort last."""
    rows, extent = tuple(shape[:-1]), shape[-1]
    count = -(-extent // length)

    def compute(b: StageBody, args: Sequence[Value]) -> Value:
        row = _row(b, rows)
        at = b.loop(len(rows)) * length + b.loop(len(rows) + 1)
        last = b.constant(_last(element, descending), storage(element))
        if extent == count * length:
            return b.load_at(keys, [*row, at])
        return b.guarded(at < extent, lambda: b.load_at(keys, [*row, at]), last)

    grid = (*rows, count, length)
    return emit(KernelSpec(grid, (), storage(element), compute, gathered=[keys.buffer], location=op.location))


def _last(element: Attribute, descending: bool) -> float:
    """Returns a key that no other key follows, except equal ones."""
    if is_float(element):
        return float("-inf") if descending else float("nan")
    bits = cast(IntegerType, element).bitwidth
    if is_unsigned(element) or element == i1:
        return 0 if descending else (1 << bits) - 1
    return -(1 << bits - 1) if descending else (1 << bits - 1) - 1


def ordered(keys: View, order: View, shape: Sequence[int], element: Attribute, emit: Emit, op: TensorOp) -> View:
    """Returns the keys at the positions of an order of their last axis."""
    rank = len(shape)

    def compute(b: StageBody, args: Sequence[Value]) -> Value:
        return b.load_at(keys, [*_row(b, shape[:-1]), args[0].as_index()])

    reads = [View(order.buffer, affine.composed(order.map, affine.identity(rank), shape))]
    return emit(
        KernelSpec(tuple(shape), reads, storage(element), compute, gathered=[keys.buffer], location=op.location)
    )


def merged(segments: Segments, element: Attribute, descending: bool, emit: Emit, op: TensorOp) -> View:
    """Returns the positions that sort each row."""
    return emit(_positions(segments, emit(_ranks(segments, element, descending, op)), op))


def _row(b: StageBody, rows: Sequence[int]) -> list[Value]:
    return [b.loop(loop) for loop in range(len(rows))]


def _ranks(segments: Segments, element: Attribute, descending: bool, op: TensorOp) -> KernelSpec:
    """Computes, for each element of a sorted segment, how many elements of its row precede it.

    The element is read from the unsorted keys and compared with the sorted ones: these are different buffers, so a part
    of the kernel binds one window of each.
    """
    place, length = len(segments.rows), segments.length

    def compute(b: StageBody, args: Sequence[Value]) -> Value:
        row = _row(b, segments.rows)
        mine, within, other = b.loop(place), b.loop(place + 1), b.loop(place + 2)
        key = b.load_at(segments.keys, [*row, mine, b.load_at(segments.order, [*row, mine, within]).as_index()])

        def before(at: Value) -> Value:
            its = b.load_at(segments.ordered, [*row, other, at])
            stays = keeps_order(its, key, element, descending)
            return b.select(other < mine, stays, keeps_order(key, its, element, descending) ^ 1)

        return b.select(other.equals(mine), within, counted(b, length, before)).cast(arith.IndexCastOp, i32)

    gathered = list(dict.fromkeys([segments.keys.buffer, segments.order.buffer, segments.ordered.buffer]))
    return KernelSpec(
        segments.shape,
        (),
        i32,
        compute,
        reduced=(segments.count,),
        gathered=gathered,
        combine=arith.AddiOp,
        location=op.location,
    )


def _positions(segments: Segments, ranks: View, op: TensorOp) -> KernelSpec:
    """Computes, for each rank, the position of its element: one segment contains it, the others add 0."""
    place, length = len(segments.rows), segments.length

    def compute(b: StageBody, args: Sequence[Value]) -> Value:
        row, other = _row(b, segments.rows), b.loop(place + 1)
        segment = b.loop(place).cast(arith.IndexCastOp, i32)

        def rank(at: Value) -> Value:
            return b.load_at(ranks, [*row, other, at])

        at = counted(b, length, lambda at: rank(at) < segment)
        matches = b.guarded(at < length, lambda: rank(at).equals(segment), b.constant(0, i1))
        first = (other * length).cast(arith.IndexCastOp, i32)
        return b.guarded(matches, lambda: b.load_at(segments.order, [*row, other, at]) + first, b.constant(0, i32))

    return KernelSpec(
        (*segments.rows, segments.extent),
        (),
        i32,
        compute,
        reduced=(segments.count,),
        gathered=[ranks.buffer, segments.order.buffer],
        combine=arith.AddiOp,
        location=op.location,
    )
