"""Sums of arrays whose rounding errors grow with the logarithm of the number of terms.

NumPy adds pairwise only along contiguous memory; along other axes, in `np.add.at`, and over the blocks of a matrix
product's inner axis, it adds one term after another.

N. Higham: The Accuracy of Floating Point Summation (SIAM J. Sci. Comput. 14, 1993).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from tensorgrad.dialects.tg.base import NumpyArray

MOST_TERMS = 256
"""The most terms that are added one after another."""

MOST_INNER = 1024
"""The longest inner axis of a single matrix product: libraries divide it into shorter blocks."""


def summed(x: NumpyArray, axes: Sequence[int]) -> NumpyArray:
    """Returns the sum of floats along axes, which disappear: pairwise, or in blocks of at most `MOST_TERMS`."""
    trailing = list(axes) == list(range(x.ndim - len(axes), x.ndim)) and x.flags.c_contiguous
    if trailing or math.prod(x.shape[axis] for axis in axes) <= MOST_TERMS:
        return np.asarray(np.add.reduce(x, tuple(axes)))
    for axis in sorted(axes, reverse=True):
        x = _along(x, axis)
    return x


def _along(x: NumpyArray, axis: int) -> NumpyArray:
    """Returns the sum along one axis, in blocks, then in blocks of these."""
    while (extent := x.shape[axis]) > MOST_TERMS:
        whole = extent // MOST_TERMS
        lead, trail = x.shape[:axis], x.shape[axis + 1 :]
        before = (slice(None),) * axis
        blocks = x[(*before, slice(whole * MOST_TERMS))].reshape(*lead, whole, MOST_TERMS, *trail)
        rest = x[(*before, slice(whole * MOST_TERMS, None))]
        sums = [np.add.reduce(blocks, axis + 1)]
        if rest.shape[axis]:
            sums.append(np.add.reduce(rest, axis, keepdims=True))
        x = np.concatenate(sums, axis) if len(sums) > 1 else sums[0]
    return np.asarray(np.add.reduce(x, axis))


def added_pairwise(terms: Iterable[NumpyArray]) -> NumpyArray:
    """Returns the sum of at least one array, pairwise; keeps as many partial sums as their number has digits."""
    sums: list[tuple[int, NumpyArray]] = []
    for term in terms:
        level = 0
        while sums and sums[-1][0] == level:
            term = sums.pop()[1] + term
            level += 1
        sums.append((level, term))
    *others, (_, total) = sums
    for _, partial in reversed(others):
        total = partial + total
    return total


def multiplied(x: NumpyArray, y: NumpyArray) -> NumpyArray:
    """Returns the product of batches of matrices; a long inner axis of floats is divided into blocks."""
    inner = x.shape[-1]
    if inner <= MOST_INNER or x.dtype.kind != "f":
        return np.matmul(x, y)
    starts = range(0, inner, MOST_INNER)
    return added_pairwise(
        np.matmul(x[..., start : start + MOST_INNER], y[..., start : start + MOST_INNER, :]) for start in starts
    )


def scattered(shape: Sequence[int], position: tuple[NumpyArray, ...], updates: NumpyArray) -> NumpyArray:
    """Returns zeros to which updates are added, in their order; many floats at one position in a wider type.

    Args:
        shape: The shape of the result.
        position: The indices of each update along the first axes.
        updates: The updates; their other axes are those of the result.
    """
    kind = wide = updates.dtype
    if kind.kind == "f" and len(updates) > MOST_TERMS:
        counts = np.bincount(np.ravel_multi_index(position, tuple(shape[: len(position)])))
        if counts.max() > MOST_TERMS:
            wide = np.dtype(np.float64 if kind.itemsize < 8 else np.longdouble)
    result = np.zeros(shape, wide)
    np.add.at(result, position, updates)
    return result.astype(kind, copy=False)
