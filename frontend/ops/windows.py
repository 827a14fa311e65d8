"""Shared by convolutions, pooling and resizing: settings for each axis, and windows."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, TypeAlias

from tensorgrad.errors import ShapeError
from tensorgrad.tracing.tensor import Tensor

Sizes: TypeAlias = "int | Sequence[int]"
Padding: TypeAlias = "int | str | Sequence[int] | Sequence[tuple[int, int]]"


def listed(value: Any, count: int, what: str, least: int = 1) -> list[int]:
    """Returns a number for each of `count` axes, from a single one or from a sequence of `count`."""
    numbers = list(value) if isinstance(value, (tuple, list)) else [value] * count
    try:
        indices = [operator.index(number) for number in numbers]
    except TypeError:
        raise ShapeError(f"{what}: integers, not {value!r}") from None
    if len(indices) != count or any(number < least for number in indices):
        raise ShapeError(f"{what}: one integer or {count}, at least {least}, not {value!r}")
    return indices


def paddings(value: Any, totals: Sequence[int], what: str) -> tuple[list[int], list[int]]:
    """Returns the padding before and after each axis; `totals` are the sums of both that `"same"` needs."""
    if isinstance(value, str):
        if value not in ("same", "valid"):
            raise ShapeError(f"{what}: the padding must be 'same', 'valid' or integers, got {value!r}")
        both = [total if value == "same" else 0 for total in totals]
        return [total // 2 for total in both], [total - total // 2 for total in both]
    if isinstance(value, (tuple, list)) and any(isinstance(part, (tuple, list)) for part in value):
        if len(value) != len(totals) or not all(isinstance(part, (tuple, list)) and len(part) == 2 for part in value):
            raise ShapeError(f"{what}: {len(totals)} axes need as many pairs of paddings, not {value!r}")
        before, behind = ([part[side] for part in value] for side in (0, 1))
        name = f"{what}: paddings"
        return listed(before, len(totals), name, 0), listed(behind, len(totals), name, 0)
    low = listed(value, len(totals), f"{what}: paddings", 0)
    return low, list(low)


def same_padding(extents: Sequence[int], sizes: Sequence[int], stride: Sequence[int]) -> list[int]:
    """Returns the padding that gives `ceil(extent / stride)` windows."""
    return [
        max((-(-extent // s) - 1) * s + size - extent, 0)
        for extent, size, s in zip(extents, sizes, stride, strict=True)
    ]


def last_axes(what: str, x: Tensor, sizes: Any) -> list[int]:
    """Returns the last axes of `x`: one for each number in `sizes`, or all but the first two for a single number."""
    count = len(sizes) if isinstance(sizes, (tuple, list)) else x.ndim - 2
    if not 0 < count <= x.ndim:
        raise ShapeError(f"{what}: {x.shape} has no spatial axes for {sizes!r}")
    return list(range(x.ndim - count, x.ndim))
