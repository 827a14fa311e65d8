"""Shapes: reshape, slice, pad, join, split."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import tensorgrad as tg
from tensorgrad.importers.onnx.table import OnnxNode, rule
from tensorgrad.tracing.dtypes import NAMES
from tensorgrad.tracing.tensor import Tensor


def _shape_of(value: Any) -> tuple[int, ...]:
    return tuple(value.shape)


@rule("Shape", "start end")
def _shape(node: OnnxNode) -> np.ndarray[Any, Any]:
    extents = _shape_of(node.value(0))
    return np.array(extents[slice(node.attribute("start", 0), node.attribute("end"))], np.int64)


@rule("Size")
def _size(node: OnnxNode) -> np.ndarray[Any, Any]:
    return np.array(math.prod(_shape_of(node.value(0))), np.int64)


@rule("Reshape", "allowzero shape", constants=(1,), carries=(0,))
def _reshape(node: OnnxNode) -> Tensor:
    x = node.tensor(0)
    extents = node.integers(1) if node.has(1) else list(node.attribute("shape", []))
    if not node.attribute("allowzero", 0):
        extents = [x.shape[i] if extent == 0 else extent for i, extent in enumerate(extents)]
    return tg.reshape(x, extents)


@rule("Flatten", "axis", carries=(0,))
def _flatten(node: OnnxNode) -> Tensor:
    x, axis = node.tensor(0), node.attribute("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return tg.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@rule("Transpose", "perm", carries=(0,))
def _transpose(node: OnnxNode) -> Tensor:
    x = node.tensor(0)
    order = node.attribute("perm")
    return tg.transpose(x) if order is None or not x.ndim else tg.transpose(x, list(order))


@rule("Squeeze", "axes", constants=(1,), carries=(0,))
def _squeeze(node: OnnxNode) -> Tensor:
    return tg.squeeze(node.tensor(0), node.axes(1))


@rule("Unsqueeze", "axes", constants=(1,), carries=(0,))
def _unsqueeze(node: OnnxNode) -> Tensor:
    return tg.expand_dims(node.tensor(0), node.axes(1) or ())


@rule("Expand", constants=(1,), carries=(0,))
def _expand(node: OnnxNode) -> Tensor:
    x, extents = node.tensor(0), tuple(node.integers(1))
    rank = max(len(extents), x.ndim)
    padded = (1,) * (rank - len(extents)) + extents
    mine = (1,) * (rank - x.ndim) + x.shape
    return tg.broadcast_to(x, [m if w == 1 else w for m, w in zip(mine, padded, strict=True)])


@rule("Tile", constants=(1, 2), carries=(0,))
def _tile(node: OnnxNode) -> Tensor:
    x = node.tensor(0)
    if node.has(2):  # version 1: a number of tiles along one axis
        counts = [1] * x.ndim
        counts[int(node.scalar(2))] = int(node.scalar(1))
        return tg.tile(x, counts)
    return tg.tile(x, node.integers(1))


@rule("Concat", "axis", carries=(-1,))
def _concat(node: OnnxNode) -> Tensor:
    return tg.concat(node.tensors, node.attribute("axis", 1))


def split_sizes(node: OnnxNode, extent: int, sizes: Sequence[int] | None, count: int) -> list[int]:
    """Returns the extents of the parts of an axis."""
    if sizes is not None:
        if sum(sizes) != extent:
            node.refuse(f"the parts {list(sizes)} do not make up the extent {extent}")
        return list(sizes)
    size = -(-extent // count)
    return [max(min(size, extent - i * size), 0) for i in range(count)]


@rule("Split", "axis split num_outputs", constants=(1,), carries=(0,))
def _split(node: OnnxNode) -> Any:
    x, axis = node.tensor(0), node.attribute("axis", 0)
    sizes = split_sizes(node, x.shape[axis], node.axes(1, "split"), node.attribute("num_outputs", len(node.outputs)))
    return tuple(parts(x, axis, sizes))


def parts(x: Tensor, axis: int, sizes: Sequence[int]) -> list[Tensor]:
    """Returns the parts of a tensor along an axis, of these extents."""
    starts = np.cumsum([0, *sizes])[:-1]
    return [tg.narrow(x, axis, int(start), size) for start, size in zip(starts, sizes, strict=True)]


@rule("Slice", "starts ends axes", constants=(1, 2, 3, 4), carries=(0,))
def _slice(node: OnnxNode) -> Tensor:
    x = node.tensor(0)
    starts, ends = node.axes(1, "starts"), node.axes(2, "ends")
    assert starts is not None and ends is not None
    axes = node.axes(3)
    axes = list(range(len(starts))) if axes is None else axes
    steps = node.integers(4) if node.has(4) else [1] * len(starts)
    key = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        key[axis] = _bounds(start, end, step, x.shape[axis])
    return x[tuple(key)]


def _bounds(start: int, end: int, step: int, extent: int) -> slice:
    """Returns a Python slice with ONNX's bounds: negative ones count from the end once, and are then clamped."""
    start = start + extent if start < 0 else start
    end = end + extent if end < 0 else end
    if step > 0:
        return slice(min(max(start, 0), extent), min(max(end, 0), extent), step)
    start, end = min(max(start, 0), extent - 1), min(max(end, -1), extent - 1)
    return slice(start, None if end < 0 else end, step)


@rule("Pad", "mode=constant|edge|reflect|wrap pads paddings value", constants=(1, 3), carries=(0,))
def _pad(node: OnnxNode) -> Tensor:
    x = node.tensor(0)
    widths = node.integers(1) if node.has(1) else list(node.attribute("pads", node.attribute("paddings", [])))
    axes = node.integers(3) if node.has(3) else list(range(x.ndim))
    pairs = [(0, 0)] * x.ndim
    for i, axis in enumerate(axes):
        pairs[axis] = (widths[i], widths[i + len(axes)])
    # Negative widths crop.
    window = tuple(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(pairs, x.shape, strict=True))
    x = x[window] if any(a < 0 or b < 0 for a, b in pairs) else x
    grown = [(max(a, 0), max(b, 0)) for a, b in pairs]
    value = node.tensor(2) if node.has(2) else node.attribute("value", 0.0)
    mode = node.attribute("mode", "constant")
    return tg.pad(x, grown, mode, value) if mode == "constant" else tg.pad(x, grown, mode)


@rule("DepthToSpace", "blocksize mode=DCR|CRD", carries=(0,))
def _depth_to_space(node: OnnxNode) -> Tensor:
    x, size = node.tensor(0), node.attribute("blocksize")
    n, c, h, w = x.shape
    if node.attribute("mode", "DCR") == "DCR":
        apart = tg.transpose(tg.reshape(x, (n, size, size, c // size**2, h, w)), (0, 3, 4, 1, 5, 2))
    else:
        apart = tg.transpose(tg.reshape(x, (n, c // size**2, size, size, h, w)), (0, 1, 4, 2, 5, 3))
    return tg.reshape(apart, (n, c // size**2, h * size, w * size))


@rule("SpaceToDepth", "blocksize mode=DCR|CRD", carries=(0,))
def _space_to_depth(node: OnnxNode) -> Tensor:
    x, size = node.tensor(0), node.attribute("blocksize")
    n, c, h, w = x.shape
    apart = tg.reshape(x, (n, c, h // size, size, w // size, size))
    order = (0, 3, 5, 1, 2, 4) if node.attribute("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    return tg.reshape(tg.transpose(apart, order), (n, c * size**2, h // size, w // size))


@rule("Trilu", "upper", constants=(1,), carries=(0,))
def _trilu(node: OnnxNode) -> Tensor:
    x, k = node.tensor(0), int(node.scalar(1, 0))
    return tg.triu(x, k) if node.attribute("upper", 1) else tg.tril(x, k)


@rule("CenterCropPad", "axes", constants=(1,), carries=(0,))
def _center_crop_pad(node: OnnxNode) -> Tensor:
    x, extents = node.tensor(0), node.integers(1)
    axes = node.attribute("axes", range(x.ndim))
    for axis, extent in zip(axes, extents, strict=True):
        have = x.shape[axis]
        if have > extent:
            x = tg.narrow(x, axis, (have - extent) // 2, extent)
        elif have < extent:
            low = (extent - have) // 2
            pairs = [(0, 0)] * x.ndim
            pairs[axis] = (low, extent - have - low)
            x = tg.pad(x, pairs)
    return x


@rule("ReverseSequence", "batch_axis time_axis", carries=(0,))
def _reverse_sequence(node: OnnxNode) -> Tensor:
    x, lengths = node.tensor(0), node.tensor(1)
    batch, time = node.attribute("batch_axis", 1), node.attribute("time_axis", 0)
    rows = tg.moveaxis(x, (batch, time), (0, 1))
    steps = tg.arange(rows.shape[1])
    size = tg.reshape(lengths, (-1, 1))
    at = tg.where(tg.less(steps, size), size - 1 - steps, steps)
    at = tg.reshape(at, (*at.shape, *[1] * (x.ndim - 2)))
    return tg.moveaxis(tg.take_along_axis(rows, at, 1), (0, 1), (batch, time))


@rule("EyeLike", "k dtype")
def _eye_like(node: OnnxNode) -> Tensor:
    x = node.tensor(0)
    element = node.attribute("dtype")
    dtype = x.dtype if element is None else node.dtype(element)
    rows, columns = x.shape
    identity = tg.eye(rows, columns, node.attribute("k", 0), NAMES["i32"])
    return tg.cast(identity, dtype)
