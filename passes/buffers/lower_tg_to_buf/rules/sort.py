"""Stable sorts in several kernels: runs are sorted by comparing all pairs, then merged; long rows in segments.

In native code short rows are sorted by comparing all pairs, and others digit by digit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    i1,
    i32,
)
from xdsl.ir import Attribute, Operation

from tensorgrad.dialects.tg import sort
from tensorgrad.dialects.tg.base import TensorOp
from tensorgrad.dialects.tg.build import element_of
from tensorgrad.passes.buffers.lower_tg_to_buf.kernels import Compute, KernelSpec, StageBody
from tensorgrad.passes.buffers.lower_tg_to_buf.registry import Emit, sequence
from tensorgrad.passes.buffers.lower_tg_to_buf.rules import segments
from tensorgrad.passes.buffers.lower_tg_to_buf.rules.counting_sort import short_digits, sorted_by_digits
from tensorgrad.passes.buffers.lower_tg_to_buf.scalars import index
from tensorgrad.passes.buffers.lower_tg_to_buf.searching import bisected, keeps_order, position_at
from tensorgrad.passes.buffers.lower_tg_to_buf.views import Lowered, View
from tensorgrad.passes.scalars import Value

RANKED = 256
"""The longest run that is sorted by comparing all pairs of its elements: two kernels instead of eight merges."""


COMPARED = 1 << 18
"""The most comparisons of all pairs within runs of shaders; beyond it, runs are shorter."""

RANKED_FOR_A_DIGIT = 20
"""The longest row, for each digit of its keys, that native code sorts by comparing all pairs instead of by digits.

Measured for 10,000 rows: for f32 rows of 80 take as long either way, for f64 rows of 160.
"""


@sequence(sort.ArgsortOp, in_memory=(0,))
def _argsort(op: sort.ArgsortOp, operands: Sequence[Lowered], emit: Emit) -> Lowered:
    keys, descending = cast(View, operands[0]), bool(op.descending.value.data)
    return sorted_positions(keys, op.shape, element_of(op.operand), descending, emit, op)


def sorted_positions(
    keys: View, shape: Sequence[int], element: Attribute, descending: bool, emit: Emit, op: TensorOp
) -> View:
    """Returns the positions that sort the last axis of a view of `shape`, in kernels that can be bound or divided."""
    if emit.target.native and shape[-1] > RANKED_FOR_A_DIGIT * short_digits(element):
        return sorted_by_digits(keys, shape, element, descending, emit, op)
    whole = segments.whole_rows(keys, shape, element, emit, op)
    if whole is not None:
        return _merged_runs(whole, shape, element, descending, emit, op)
    length = segments.segment_length(shape[-1], element, emit)
    return segments.merged(
        in_segments(keys, shape, length, element, descending, emit, op), element, descending, emit, op
    )


def in_segments(
    keys: View, shape: Sequence[int], length: int, element: Attribute, descending: bool, emit: Emit, op: TensorOp
) -> segments.Segments:
    """Sorts segments of `length` elements of each row."""
    keys = segments.divided(keys, shape, length, element, descending, emit, op)
    rows, count = tuple(shape[:-1]), -(-shape[-1] // length)
    inner = (*rows, count, length)
    order = _merged_runs(keys, inner, element, descending, emit, op)
    ordered = segments.ordered(keys, order, inner, element, emit, op)
    return segments.Segments(rows, shape[-1], count, length, keys, order, ordered)


def _merged_runs(
    keys: View, shape: Sequence[int], element: Attribute, descending: bool, emit: Emit, op: TensorOp
) -> View:
    """Returns the positions that sort the last axis of a view of `shape`: runs are ranked, then merged in pairs."""
    order: View | None = None
    run = _ranked_run(shape, emit.target.native)
    if run > 1:
        ranks = emit(_ranks(keys, run, shape, element, descending, op))
        order = emit(_by_rank(ranks, run, shape, op))
    while run < shape[-1] or order is None:
        order = emit(_merge(keys, order, run, shape, element, descending, op))
        run *= 2
    return order


def _ranked_run(shape: Sequence[int], native: bool) -> int:
    """Returns the length of the runs to rank, a power of two, or 1 where merging alone takes no more kernels."""
    elements, run = math.prod(shape), 1
    while run < min(shape[-1], RANKED) and (native or 2 * run * elements <= COMPARED):
        run *= 2
    return run if run > 4 else 1


def _in_run(b: StageBody, run: int, shape: Sequence[int]) -> tuple[Value, Value, Value]:
    """Returns the position in the run, and that of the reduction's current element in the run and in the row."""
    place, other = b.loop(len(shape) - 1), b.loop(len(shape))
    if run >= shape[-1]:
        return place, other, other
    within = place % run
    return within, other, place - within + other


def _over_run(
    source: View, run: int, shape: Sequence[int], compute: Compute, combine: type[Operation], op: TensorOp
) -> KernelSpec:
    """Returns a kernel that combines, for each position, what `compute` returns for every element of its run."""
    return KernelSpec(
        tuple(shape),
        (),
        i32,
        compute,
        reduced=(run,),
        gathered=[source.buffer],
        combine=combine,
        location=op.location,
    )


def _ranks(
    keys: View, run: int, shape: Sequence[int], element: Attribute, descending: bool, op: TensorOp
) -> KernelSpec:
    """Returns a kernel that computes the rank of each element in its run; equal elements keep their order."""
    run = min(run, shape[-1])

    def compute(b: StageBody, args: Sequence[Value]) -> Value:
        row = [b.loop(loop) for loop in range(len(shape) - 1)]
        within, other, at = _in_run(b, run, shape)

        def before() -> Value:
            mine = b.load_at(keys, [*row, b.loop(len(shape) - 1)])
            its = b.load_at(keys, [*row, at])
            stays = keeps_order(its, mine, element, descending)
            overtakes = keeps_order(mine, its, element, descending) ^ 1
            return b.select(other < within, stays, overtakes)

        inside = at < shape[-1] if shape[-1] % run else None
        counted = before() if inside is None else b.guarded(inside, before, b.constant(0, i1))
        return counted.cast(arith.ExtUIOp, i32)

    return _over_run(keys, run, shape, compute, arith.AddiOp, op)


def _by_rank(ranks: View, run: int, shape: Sequence[int], op: TensorOp) -> KernelSpec:
    """Returns a kernel that inverts ranks: for each position in a run, the row position of the element ranked there.

    One element of a run is ranked there, and the maximum is its position. A device that compares keys inconsistently
    ranks several alike, or none: the maximum is then some position of the row, at which merges read without a test.
    """
    run = min(run, shape[-1])

    def compute(b: StageBody, args: Sequence[Value]) -> Value:
        row = [b.loop(loop) for loop in range(len(shape) - 1)]
        within, _, at = _in_run(b, run, shape)
        place_of_result = within.cast(arith.IndexCastOp, i32)

        def named() -> Value:
            rank = b.load_at(ranks, [*row, at])
            return b.select(rank.equals(place_of_result), at.cast(arith.IndexCastOp, i32), 0)

        return named() if shape[-1] % run == 0 else b.guarded(at < shape[-1], named, b.constant(0, i32))

    return _over_run(ranks, run, shape, compute, arith.MaxSIOp, op)


def _smaller(b: StageBody, x: Value, y: Value) -> Value:
    return b.select(x < y, x, y)


def _merge(
    keys: View,
    order: View | None,
    run: int,
    shape: Sequence[int],
    element: Attribute,
    descending: bool,
    op: TensorOp,
) -> KernelSpec:
    """Returns a kernel that merges pairs of neighboring runs of `run` elements.

    Each position finds by bisection how many elements of the first run precede it.

    Args:
        keys: The keys to sort.
        order: The positions that sort each run; `None` means that the runs are sorted.
        run: The length of a run; the last one may be shorter.
        shape: The shape of the keys and of the result.
        element: The tensor's element type.
        descending: Whether the largest come first.
        op: The op that is lowered.
    """
    count = shape[-1]

    def compute(b: StageBody, args: Sequence[Value]) -> Value:
        row = [b.loop(loop) for loop in range(len(shape) - 1)]
        place = b.loop(len(shape) - 1)

        def key(at: Value) -> Value:
            return b.load_at(keys, [*row, position_at(b, order, row, at)])

        before = place % (2 * run)
        first = place - before
        left = right = b.constant(run, index)
        if count % (2 * run):
            rest = count - first
            left = _smaller(b, rest, left)
            right = _smaller(b, rest - left, right)
        second, one = first + left, b.constant(1, index)

        def in_order(i: Value, j: Value) -> Value:
            at_left, at_right = first + i, second + j
            return keeps_order(key(at_left), key(at_right), element, descending)

        low = b.select(right < before, before - right, 0)
        i = bisected(b, low, _smaller(b, before, left), run, lambda i: in_order(i, before - i - one))
        j = before - i
        has_left, has_right = i < left, j < right
        takes_left = b.guarded(has_left & has_right, lambda: in_order(i, j), has_left)
        at = b.select(takes_left, first + i, second + j)
        return at.cast(arith.IndexCastOp, i32) if order is None else b.load_at(order, [*row, at])

    gathered = [keys.buffer] if order is None else [keys.buffer, order.buffer]
    return KernelSpec(tuple(shape), (), i32, compute, gathered=gathered, location=op.location)
