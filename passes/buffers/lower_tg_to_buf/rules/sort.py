"""Stable sorts: runs by comparing all pairs, then merges; several kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    i1,
    i32,
)
from xdsl.ir import Attribute, SSAValue

from tensorgrad.dialects.tg import sort
from tensorgrad.dialects.tg.base import TensorOp, int_value, is_float
from tensorgrad.dialects.tg.build import element_of
from tensorgrad.passes.buffers.lower_tg_to_buf.kernels import Compute, KernelSpec, StageBody
from tensorgrad.passes.buffers.lower_tg_to_buf.registry import Emit, sequence
from tensorgrad.passes.buffers.lower_tg_to_buf.scalars import index, predicate
from tensorgrad.passes.buffers.lower_tg_to_buf.views import Lowered, View

RANKED = 256
"""The longest run that is sorted by comparing each of its elements with each: two kernels instead of eight merges."""


COMPARED = 1 << 18
"""A sort compares each element with all of its run as long as that takes at most so many comparisons."""


@sequence(sort.ArgsortOp, in_memory=(0,))
def _argsort(op: sort.ArgsortOp, operands: Sequence[Lowered], emit: Emit) -> Lowered:
    keys, descending = cast(View, operands[0]), bool(int_value(op.properties, "descending"))
    return sorted_positions(keys, op.shape, element_of(op.operand), descending, emit, op)


def sorted_positions(
    keys: View, shape: Sequence[int], element: Attribute, descending: bool, emit: Emit, op: TensorOp
) -> View:
    """Returns the positions that sort the last axis of a view of `shape`: runs are ranked, then merge in pairs."""
    order: View | None = None
    run = _ranked_run(shape)
    if run > 1:
        ranks = emit(_ranks(keys, run, shape, element, descending, op))
        order = emit(_by_rank(ranks, run, shape, op))
    while run < shape[-1] or order is None:
        order = emit(_merge(keys, order, run, shape, element, descending, op))
        run *= 2
    return order


def _ranked_run(shape: Sequence[int]) -> int:
    """Returns how long the runs are that are ranked, a power of two; 1 where merging alone takes no more kernels."""
    elements, run = math.prod(shape), 1
    while run < min(shape[-1], RANKED) and 2 * run * elements <= COMPARED:
        run *= 2
    return run if run > 4 else 1


def _in_run(b: StageBody, run: int, shape: Sequence[int]) -> tuple[SSAValue, SSAValue, SSAValue]:
    """Returns the place within a run, and the element that the reduction looks at, in the run and in the row."""
    place, other = b.loop(len(shape) - 1), b.loop(len(shape))
    if run >= shape[-1]:
        return place, other, other
    within = b.apply(arith.RemUIOp, place, b.constant(run, index))
    return within, other, b.apply(arith.AddiOp, b.apply(arith.SubiOp, place, within), other)


def _over_run(source: View, run: int, shape: Sequence[int], compute: Compute, op: TensorOp) -> KernelSpec:
    """For each place: the sum of what is computed for every element of its run."""
    return KernelSpec(
        tuple(shape),
        (),
        i32,
        compute,
        reduced=(run,),
        gathered=[source.buffer],
        combine=arith.AddiOp,
        location=op.location,
    )


def _ranks(
    keys: View, run: int, shape: Sequence[int], element: Attribute, descending: bool, op: TensorOp
) -> KernelSpec:
    """Returns how many elements of its run stand before each when the run is sorted; equal ones keep their order."""
    run = min(run, shape[-1])

    def compute(b: StageBody, args: Sequence[SSAValue]) -> SSAValue:
        row = [b.loop(loop) for loop in range(len(shape) - 1)]
        within, other, at = _in_run(b, run, shape)

        def before(inner: StageBody) -> SSAValue:
            mine = inner.load(keys.buffer, inner.evaluate(keys.map, [*row, b.loop(len(shape) - 1)]))
            its = inner.load(keys.buffer, inner.evaluate(keys.map, [*row, at]))
            stays = _keeps_order(inner, its, mine, element, descending)
            passes = _keeps_order(inner, mine, its, element, descending)
            overtakes = inner.apply(arith.XOrIOp, passes, inner.constant(1, i1))
            return inner.select(inner.compare("ult", other, within), stays, overtakes)

        inside = b.compare("ult", at, b.constant(shape[-1], index)) if shape[-1] % run else None
        counted = before(b) if inside is None else b.guarded(inside, before, b.constant(0, i1))
        return b.convert(arith.ExtUIOp, counted, i32)

    return _over_run(keys, run, shape, compute, op)


def _by_rank(ranks: View, run: int, shape: Sequence[int], op: TensorOp) -> KernelSpec:
    """Returns the position in its row of the element that has each place's rank in the place's run."""
    run = min(run, shape[-1])

    def compute(b: StageBody, args: Sequence[SSAValue]) -> SSAValue:
        row = [b.loop(loop) for loop in range(len(shape) - 1)]
        within, _, at = _in_run(b, run, shape)
        wanted = b.convert(arith.IndexCastOp, within, i32)

        def named(inner: StageBody) -> SSAValue:
            rank = inner.load(ranks.buffer, inner.evaluate(ranks.map, [*row, at]))
            found = inner.convert(arith.IndexCastOp, at, i32)
            return inner.select(inner.compare("eq", rank, wanted), found, inner.constant(0, i32))

        if shape[-1] % run == 0:
            return named(b)
        return b.guarded(b.compare("ult", at, b.constant(shape[-1], index)), named, b.constant(0, i32))

    return _over_run(ranks, run, shape, compute, op)


def position_at(b: StageBody, order: View | None, row: Sequence[SSAValue], at: SSAValue) -> SSAValue:
    """Returns where in its row the element stands that comes at `at` in an order."""
    if order is None:
        return at
    return b.convert(arith.IndexCastOp, b.load(order.buffer, b.evaluate(order.map, [*row, at])), index)


def _keeps_order(b: StageBody, left: SSAValue, right: SSAValue, element: Attribute, descending: bool) -> SSAValue:
    """Returns whether `left` may stand in front of `right`; NaN is larger than every number."""
    ordered = b.compare(predicate("ge" if descending else "le", element), left, right)
    if not is_float(element):
        return ordered
    largest = left if descending else right
    return b.apply(arith.OrIOp, ordered, b.compare("une", largest, largest))


def _smaller(b: StageBody, x: SSAValue, y: SSAValue) -> SSAValue:
    return b.select(b.compare("ult", x, y), x, y)


def bisected(
    b: StageBody, low: SSAValue, high: SSAValue, most: int, rises: Callable[[StageBody, SSAValue], SSAValue]
) -> SSAValue:
    """Returns the first place in `[low, high)`, an interval of at most `most`, where `rises` no longer holds."""
    no = b.constant(0, i1)
    for _ in range(most.bit_length()):
        middle = b.apply(arith.DivUIOp, b.apply(arith.AddiOp, low, high), b.constant(2, index))
        up = b.guarded(b.compare("ult", low, high), lambda then, at=middle: rises(then, at), no)
        low = b.select(up, b.apply(arith.AddiOp, middle, b.constant(1, index)), low)
        high = b.select(up, high, middle)
    return low


def _merge(
    keys: View,
    order: View | None,
    run: int,
    shape: Sequence[int],
    element: Attribute,
    descending: bool,
    op: TensorOp,
) -> KernelSpec:
    """Merges neighbouring runs of `run` elements: each place finds by bisection how many of the first stand before it.

    Args:
        keys: What is sorted.
        order: Sorts each run; `None` stands for the elements as they are.
        run: The length of a run; the last one may be shorter.
        shape: The shape of the keys and of the result.
        element: The tensor's element type.
        descending: Whether the largest come first.
        op: Where the kernel comes from.
    """
    count = shape[-1]

    def compute(b: StageBody, args: Sequence[SSAValue]) -> SSAValue:
        row = [b.loop(loop) for loop in range(len(shape) - 1)]
        place = b.loop(len(shape) - 1)

        def number(value: int) -> SSAValue:
            return b.constant(value, index)

        def key(inner: StageBody, at: SSAValue) -> SSAValue:
            found = position_at(inner, order, row, at)
            return inner.load(keys.buffer, inner.evaluate(keys.map, [*row, found]))

        before = b.apply(arith.RemUIOp, place, number(2 * run))
        first = b.apply(arith.SubiOp, place, before)
        left = right = number(run)
        if count % (2 * run):
            rest = b.apply(arith.SubiOp, number(count), first)
            left = _smaller(b, rest, left)
            right = _smaller(b, b.apply(arith.SubiOp, rest, left), right)
        second = b.apply(arith.AddiOp, first, left)
        one = number(1)

        def in_order(inner: StageBody, i: SSAValue, j: SSAValue) -> SSAValue:
            at_left, at_right = inner.apply(arith.AddiOp, first, i), inner.apply(arith.AddiOp, second, j)
            return _keeps_order(inner, key(inner, at_left), key(inner, at_right), element, descending)

        def rises(inner: StageBody, i: SSAValue) -> SSAValue:
            j = inner.apply(arith.SubiOp, inner.apply(arith.SubiOp, before, i), one)
            return in_order(inner, i, j)

        enough = b.compare("ult", right, before)
        low = b.select(enough, b.apply(arith.SubiOp, before, right), number(0))
        i = bisected(b, low, _smaller(b, before, left), run, rises)
        j = b.apply(arith.SubiOp, before, i)
        has_left, has_right = b.compare("ult", i, left), b.compare("ult", j, right)
        both = b.apply(arith.AndIOp, has_left, has_right)
        takes_left = b.guarded(both, lambda then: in_order(then, i, j), has_left)
        at = b.select(takes_left, b.apply(arith.AddiOp, first, i), b.apply(arith.AddiOp, second, j))
        if order is None:
            return b.convert(arith.IndexCastOp, at, i32)
        return b.load(order.buffer, b.evaluate(order.map, [*row, at]))

    gathered = [keys.buffer] if order is None else [keys.buffer, order.buffer]
    return KernelSpec(tuple(shape), (), i32, compute, gathered=gathered, location=op.location)
