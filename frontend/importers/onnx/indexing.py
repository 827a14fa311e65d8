"""Gathers, scatters and other indexed accesses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import tensorgrad as tg
from tensorgrad.dialects.tg import index as index_ops
from tensorgrad.dialects.tg.base import integer
from tensorgrad.importers.onnx.table import OnnxNode, Role, rule
from tensorgrad.tracing.dtypes import NAMES
from tensorgrad.tracing.tensor import Array, Tensor
from tensorgrad.tracing.tracer import emit

MOST_PAIRS = 1 << 26
"""The most (position, update) pairs that a scatter with a product or an extreme may compare."""


def _counted(indices: Tensor, extent: int) -> Tensor:
    """Returns indices with negative ones counted from the end."""
    if indices.dtype.kind == "u":
        return indices
    return tg.where(tg.less(indices, 0), indices + extent, indices)


@rule("Gather", "axis", roles={0: Role.TABLE}, carries=(0,))
def _gather(node: OnnxNode) -> Any:
    table, indices, axis = node.value(0), node.value(1), node.attribute("axis", 0)
    if isinstance(table, np.ndarray) and isinstance(indices, np.ndarray):
        return np.take(table, indices, axis)
    x, at = node.tensor(0), node.tensor(1)
    if isinstance(at, Array) and not at.shape:  # a slice costs nothing
        position = int(at)
        return x[(*[slice(None)] * (axis % x.ndim), position)]
    return tg.take(x, at, axis)


@rule("GatherElements", "axis", carries=(0,))
def _gather_elements(node: OnnxNode) -> Tensor:
    return tg.gather(node.tensor(0), node.attribute("axis", 0), node.tensor(1))


def _rows(extents: tuple[int, ...], indices: Tensor) -> Tensor:
    """Returns the row-major linear index of each index tuple in `extents`; out of range if a component is."""
    flat: Tensor = tg.full(indices.shape[:-1], 0, NAMES["i32"])
    valid: Tensor = tg.full(indices.shape[:-1], True, "bool")
    for axis, extent in enumerate(extents):
        at = _counted(indices[..., axis], extent)
        valid = valid & tg.greater_equal(at, 0) & tg.less(at, extent)
        flat = flat * extent + at
    return tg.where(valid, flat, math.prod(extents))


@rule("GatherND", "batch_dims", carries=(0,))
def _gather_nd(node: OnnxNode) -> Tensor:
    x, indices, batch = node.tensor(0), node.tensor(1), node.attribute("batch_dims", 0)
    depth = indices.shape[-1]
    indexed, rest = x.shape[batch : batch + depth], x.shape[batch + depth :]
    at = _rows(indexed, indices)
    lead = math.prod(x.shape[:batch])
    size = math.prod(indexed)
    if batch:
        rows = tg.reshape(at, (lead, -1))
        inside = tg.less(rows, size)
        rows = tg.where(inside, rows + tg.reshape(tg.arange(lead), (-1, 1)) * size, lead * size)
        rows_taken = tg.take(tg.reshape(x, (lead * size, *rest)), rows, 0)
    else:
        rows_taken = tg.take(tg.reshape(x, (size, *rest)), at, 0)
    return tg.reshape(rows_taken, (*indices.shape[:-1], *rest))


def combined(old: Tensor, indices: Tensor, updates: Tensor, how: str, node: OnnxNode) -> Tensor:
    """Returns `old`, `[rows, width]`, with the rows at `indices` updated by `updates`, `[count, width]`.

    Additions are in ascending order. Without a reduction the last of duplicate indices wins. Products and extremes
    combine the updates of each row in order, over all pairs of a row and an update.
    """
    if how == "none":
        return old.at[indices].set(updates)
    if how == "add":
        return old.at[indices].add(updates)
    places = old.shape[0]
    if places * updates.size > MOST_PAIRS:
        node.refuse(f"reduction {how!r} looks at {places} places for each of {updates.size} updates: too many")
    at = _counted(indices, places)
    hit = tg.equal(tg.reshape(tg.arange(places), (-1, 1, 1)), tg.reshape(at, (1, -1, 1)))
    neutral: Any = {"mul": 1, "max": _least(old), "min": _most(old)}[how]
    spread = tg.where(hit, tg.expand_dims(updates, 0), neutral)
    reduce, join = {"mul": (tg.prod, tg.multiply), "max": (tg.max, tg.maximum), "min": (tg.min, tg.minimum)}[how]
    return join(old, reduce(spread, 1))


def _least(x: Tensor) -> float:
    return -math.inf if x.dtype.kind == "f" else int(np.iinfo(x.dtype).min)


def _most(x: Tensor) -> float:
    return math.inf if x.dtype.kind == "f" else int(np.iinfo(x.dtype).max)


@rule("ScatterND", "reduction=none|add|mul|max|min")
def _scatter_nd(node: OnnxNode) -> Tensor:
    x, indices, updates = node.tensor(0), node.tensor(1), node.tensor(2)
    depth = indices.shape[-1]
    indexed, rest = x.shape[:depth], x.shape[depth:]
    size, width = math.prod(indexed), math.prod(rest)
    at = tg.reshape(_rows(indexed, indices), (-1,))
    rows = tg.reshape(x, (size, width))
    update_rows = tg.reshape(updates, (at.shape[0], width))
    return tg.reshape(combined(rows, at, update_rows, node.attribute("reduction", "none"), node), x.shape)


@rule("ScatterElements Scatter", "axis reduction=none|add|mul|max|min")
def _scatter_elements(node: OnnxNode) -> Tensor:
    x, indices, updates = node.tensor(0), node.tensor(1), node.tensor(2)
    axis = node.attribute("axis", 0) % x.ndim
    how = node.attribute("reduction", "none")
    if how == "add":
        return tg.scatter_add(x, axis, indices, updates)
    at = _counted(indices, x.shape[axis])
    valid = tg.greater_equal(at, 0) & tg.less(at, x.shape[axis])
    flat: Tensor = tg.full(indices.shape, 0, NAMES["i32"])
    for place, extent in enumerate(x.shape):
        index = at if place == axis else _positions(indices.shape, place)
        flat = flat * extent + index
    flat = tg.where(valid, flat, x.size)
    changed = combined(tg.reshape(x, (-1, 1)), tg.reshape(flat, (-1,)), tg.reshape(updates, (-1, 1)), how, node)
    return tg.reshape(changed, x.shape)


def _positions(extents: tuple[int, ...], axis: int) -> Tensor:
    shape = [-1 if i == axis else 1 for i in range(len(extents))]
    return tg.broadcast_to(tg.reshape(tg.arange(extents[axis]), shape), extents)


@rule("OneHot", "axis", constants=(1,))
def _one_hot(node: OnnxNode) -> Tensor:
    indices, values = node.tensor(0), node.tensor(2)
    depth, axis = int(node.scalar(1)), node.attribute("axis", -1)
    if indices.dtype.kind == "f" or indices.dtype.itemsize < 4:
        indices = tg.cast(indices, NAMES["i32"])  # narrow integers may not represent the depth
    hit = tg.one_hot(_counted(indices, depth), depth, "bool")
    return tg.moveaxis(tg.where(hit, values[1], values[0]), -1, axis)


@rule("Compress", "axis", constants=(1,))
def _compress(node: OnnxNode) -> Tensor:
    x, axis = node.tensor(0), node.attribute("axis")
    places = np.flatnonzero(node.constant(1)).astype(np.int32)
    if axis is None:
        return tg.take(tg.reshape(x, (-1,)), Array(places), 0)
    return tg.take(x, Array(places), axis)


@rule("NonZero", constants=(0,))
def _non_zero(node: OnnxNode) -> np.ndarray[Any, Any]:
    return np.array(np.nonzero(np.atleast_1d(node.constant(0))), np.int64)


@rule("ArrayFeatureExtractor", domain="ai.onnx.ml")
def _array_feature_extractor(node: OnnxNode) -> Tensor:
    x, at = node.tensor(0), tg.reshape(node.tensor(1), (-1,))
    columns = tg.take(x, at, -1)
    return tg.reshape(columns, (1, -1)) if x.ndim == 1 else columns


@rule("TensorScatter", "axis mode=linear|circular")
def _tensor_scatter(node: OnnxNode) -> Tensor:
    """Returns a cache with consecutive positions replaced, starting at an index per batch element."""
    cache, update = node.tensor(0), node.tensor(1)
    axis = node.attribute("axis", -2) % cache.ndim
    extent, count = cache.shape[axis], update.shape[axis]
    start = node.tensor(2) if node.has(2) else tg.zeros((cache.shape[0],), "i32")
    first = tg.reshape(start, (-1, 1))
    place = tg.arange(extent) - first  # offset of each position from the first replaced one
    if node.attribute("mode", "linear") == "circular":
        place = tg.remainder(place, extent)
    inside = tg.greater_equal(place, 0) & tg.less(place, count)
    shape = [cache.shape[0], *(extent if i == axis else 1 for i in range(1, cache.ndim))]
    at = tg.reshape(tg.clip(place, 0, count - 1), shape)
    return tg.where(tg.reshape(inside, shape), tg.take_along_axis(update, at, axis), cache)


@rule("MaxUnpool", "kernel_shape pads strides", constants=(2,))
def _max_unpool(node: OnnxNode) -> Tensor:
    x, indices = node.tensor(0), node.tensor(1)
    window = list(node.attribute("kernel_shape"))
    stride = list(node.attribute("strides", [1] * len(window)))
    pads = list(node.attribute("pads", [0] * 2 * len(window)))
    count = len(window)
    own = [
        (n - 1) * s + w - pads[i] - pads[i + count]
        for i, (n, s, w) in enumerate(zip(x.shape[2:], stride, window, strict=True))
    ]
    extents = (*x.shape[:2], *own)
    new_extents = tuple(node.integers(2)) if node.has(2) else extents
    placed = tg.reshape(_spread(x, indices, math.prod(extents)), extents)
    # The indices refer to the result without its padding.
    return tg.pad(placed, [(0, want - have) for want, have in zip(new_extents, extents, strict=True)])


def _spread(x: Tensor, indices: Tensor, size: int) -> Tensor:
    flat = tg.reshape(_counted(indices, size), (-1,))
    values = tg.reshape(x, (-1,))
    return emit(index_ops.ScatterAddOp, [values, flat], axis=integer(0), extent=integer(size))
