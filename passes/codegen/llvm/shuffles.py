"""Vectors out of the lanes of others: transposes, every second lane, sums of lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute

from tensorgrad.dialects.tg.base import ints
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.scalars import Value


def transposed(rows: Sequence[Value]) -> list[Value]:
    """Returns the transpose of a square of vectors, whose side is a power of two."""
    results, side = list(rows), len(rows)
    distance = 1
    while distance < side:
        upper = [lane if not lane & distance else side + lane - distance for lane in range(side)]
        lower = [lane + distance if not lane & distance else side + lane for lane in range(side)]
        for i in range(side):
            if not i & distance:
                pair = results[i], results[i + distance]
                results[i], results[i + distance] = (shuffled(*pair, mask) for mask in (upper, lower))
        distance *= 2
    return results


def every(stride: int, vectors: Sequence[Value], first: int) -> Value:
    """Returns every `stride`-th element of as many neighbouring vectors, from element `first` on, as one vector."""
    kind = cast("VectorType[Attribute]", vectors[0].type)
    lanes = kind.element_count()
    sources = [divmod(first + lane * stride, lanes) for lane in range(lanes)]
    result, *others = vectors
    for number, other in enumerate(others, 1):
        before = [at if number == 1 else lane for lane, (_, at) in enumerate(sources)]
        mask = [lanes + at if source == number else kept for kept, (source, at) in zip(before, sources, strict=True)]
        result = shuffled(result, other, mask)
    return result


def shuffled(left: Value, right: Value, mask: Sequence[int]) -> Value:
    """Returns the lanes of two vectors that a mask names, those of the right one after those of the left one."""
    kind = VectorType(cast("VectorType[Attribute]", left.type).element_type, [len(mask)])
    return left.builder.make(vector.ShuffleOp, (left.ssa, right.ssa), kind, {"mask": ints(mask)})


def kept_lanes(value: Value, zero: Value, first: int, stop: int) -> Value:
    """Returns a vector with zeros in place of all lanes but those from `first` to `stop`: they may be no numbers."""
    lanes = cast("VectorType[Attribute]", value.type).element_count()
    if (first, stop) == (0, lanes):
        return value
    return shuffled(value, zero, [lane if first <= lane < stop else lanes + lane for lane in range(lanes)])


def lane_sums(code: Code, values: Sequence[Value]) -> Value:
    """Returns the sum of each vector's lanes as a vector; of vectors and of lanes there are a power of two.

    The halves of all vectors are added, and two of them put into one, until there is one; then its parts' halves.
    """
    values, parts = list(values), 1
    while len(values) > 1:
        values = [_with_halves_added(code, left, right, parts) for left, right in zip(*[iter(values)] * 2, strict=True)]
        parts *= 2
    (value,) = values
    while cast("VectorType[Attribute]", value.type).element_count() > parts:
        value = _with_halves_added(code, value, None, parts)
    return value


def _with_halves_added(code: Code, left: Value, right: Value | None, parts: int) -> Value:
    """Returns the sums of the halves of each of a vector's parts, and of another vector's behind them."""
    lanes = cast("VectorType[Attribute]", left.type).element_count()
    width = lanes // parts
    starts = range(0, lanes if right is None else 2 * lanes, width)
    low, high = (
        shuffled(
            left,
            left if right is None else right,
            [start + half + lane for start in starts for lane in range(width // 2)],
        )
        for half in (0, width // 2)
    )
    return code.apply(arith.AddfOp, low, high)
