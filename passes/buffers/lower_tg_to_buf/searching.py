"""Scalar code that compares keys and searches sorted ones, for sorts and for scatters that sort."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute

from tensorgrad.dialects.tg.base import is_float
from tensorgrad.passes.buffers.lower_tg_to_buf.kernels import StageBody
from tensorgrad.passes.buffers.lower_tg_to_buf.scalars import index, predicate
from tensorgrad.passes.buffers.lower_tg_to_buf.views import View
from tensorgrad.passes.scalars import Value


def position_at(b: StageBody, order: View | None, row: Sequence[Value], at: Value) -> Value:
    """Returns the position in its row of the element at `at` in an order."""
    return at if order is None else b.load_at(order, [*row, at]).as_index()


def keeps_order(left: Value, right: Value, element: Attribute, descending: bool) -> Value:
    """Returns whether `left` may precede `right`; NaN is larger than every number."""
    ordered = left.compare(predicate("ge" if descending else "le", element), right)
    if not is_float(element):
        return ordered
    largest = left if descending else right
    return ordered | largest.compare("une", largest)


def bisected(b: StageBody, low: Value, high: Value, most: int, rises: Callable[[Value], Value]) -> Value:
    """Emits a bisection: the first position in `[low, high)`, at most `most` long, where `rises` no longer holds."""
    no = b.constant(0, i1)
    for _ in range(most.bit_length()):
        middle = (low + high) // 2
        up = b.guarded(low < high, partial(rises, middle), no)
        low = b.select(up, middle + 1, low)
        high = b.select(up, high, middle)
    return low


def counted(b: StageBody, length: int, rises: Callable[[Value], Value]) -> Value:
    """Emits a bisection without branches: the number of positions in `[0, length)` where `rises` holds.

    Args:
        b: The body.
        length: The length of the interval, a power of two.
        rises: Emits the condition at a position of the interval. It holds on a prefix of the interval.
    """
    count, step = b.constant(0, index), length // 2
    while step:
        count = b.select(rises(count + (step - 1)), count + step, count)
        step //= 2
    return b.select(rises(count), count + 1, count)
