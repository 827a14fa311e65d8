"""Resizing.

Each axis is resized separately, as a weighted sum over a few input elements per output element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import tensorgrad as tg
from tensorgrad.importers.onnx.elements import NumpyArray
from tensorgrad.importers.onnx.table import OnnxNode, rule
from tensorgrad.ops.sampling import taken
from tensorgrad.tracing.dtypes import NAMES, is_float
from tensorgrad.tracing.tensor import Array, Tensor

_COORDINATES = (
    "coordinate_transformation_mode=half_pixel|half_pixel_symmetric|pytorch_half_pixel|align_corners|asymmetric"
    "|tf_crop_and_resize"
)
_NEAREST = "nearest_mode=round_prefer_floor|round_prefer_ceil|floor|ceil"


@dataclass(frozen=True)
class _Axis:
    """How one axis is resized: extents, scale, and region of interest."""

    extent: int
    new_extent: int
    scale: float
    roi: tuple[float, float]


@rule(
    "Resize",
    f"{_COORDINATES} {_NEAREST} antialias axes cubic_coeff_a exclude_outside extrapolation_value "
    "keep_aspect_ratio_policy=stretch|not_larger|not_smaller mode=nearest|linear|cubic",
    constants=(1, 2, 3),
    carries=(0,),
)
def _resize(node: OnnxNode) -> Tensor:
    x = node.tensor(0)
    default = "half_pixel" if node.version >= 11 else "asymmetric"
    axes = [int(axis) % x.ndim for axis in node.attribute("axes", range(x.ndim))]
    position = 2 if node.version >= 11 else 1
    scales = node.constant(position).reshape(-1) if node.has(position) else np.zeros(0)
    sizes = node.integers(3) if node.has(3) else None
    roi = node.constant(1).reshape(-1) if position == 2 and node.has(1) else np.zeros(0)
    chosen = _chosen(node, [x.shape[axis] for axis in axes], scales, sizes, roi)
    transformation = node.attribute("coordinate_transformation_mode", default)
    changed = [
        (axis, resized)
        for axis, resized in zip(axes, chosen, strict=True)
        if resized.new_extent != resized.extent or transformation == "tf_crop_and_resize"
    ]
    return _along_all(node, x, changed, transformation)


@rule("Upsample", "height_scale mode=nearest|linear|bilinear scales width_scale", constants=(1,), carries=(0,))
def _upsample(node: OnnxNode) -> Tensor:
    x = node.tensor(0)
    if node.has(1):
        scales = node.constant(1).reshape(-1)
    elif node.version >= 7:
        scales = np.asarray(node.attribute("scales"))
    else:
        scales = np.array([1.0, 1.0, node.attribute("height_scale"), node.attribute("width_scale")])
    chosen = enumerate(_chosen(node, list(x.shape), scales, None, np.zeros(0)))
    return _along_all(
        node, x, [(axis, resized) for axis, resized in chosen if resized.new_extent != resized.extent], "asymmetric"
    )


def _along_all(node: OnnxNode, x: Tensor, axes: Sequence[tuple[int, _Axis]], transformation: str) -> Tensor:
    """Returns `x` resized along axes; integers are interpolated as f32, and rounded to the nearest in range."""
    is_rounded = bool(axes) and node.attribute("mode", "nearest") != "nearest" and not is_float(x.dtype)
    result = tg.cast(x, NAMES["f32"]) if is_rounded else x
    for axis, resized in axes:
        result = _along(node, result, axis, resized, transformation)
    return tg.cast(tg.round(result), x.dtype) if is_rounded else result


def _chosen(
    node: OnnxNode, extents: Sequence[int], scales: NumpyArray, sizes: list[int] | None, roi: NumpyArray
) -> list[_Axis]:
    count = len(extents)
    parts = [(float(roi[i]), float(roi[i + count])) if roi.size else (0.0, 1.0) for i in range(count)]
    if not sizes:
        return [
            _Axis(n, math.floor(n * float(scale)), float(scale), part)
            for n, scale, part in zip(extents, scales, parts, strict=True)
        ]
    policy = node.attribute("keep_aspect_ratio_policy", "stretch")
    ratios = [size / n for size, n in zip(sizes, extents, strict=True)]
    if policy != "stretch":
        ratio = min(ratios) if policy == "not_larger" else max(ratios)
        sizes = [math.floor(ratio * n + 0.5) for n in extents]
        ratios = [ratio] * count
    return [_Axis(*entry) for entry in zip(extents, sizes, ratios, parts, strict=True)]


def _origins(resized: _Axis, transformation: str) -> NumpyArray:
    """Returns the input coordinate of each output element."""
    at, exact = np.arange(resized.new_extent, dtype=np.float64), resized.scale * resized.extent
    if transformation == "align_corners":
        return at * ((resized.extent - 1) / (exact - 1)) if exact != 1 else at * 0
    if transformation == "asymmetric":
        return at / resized.scale
    if transformation == "tf_crop_and_resize":
        first, last = resized.roi
        if exact == 1:
            return at * 0 + (last - first) * (resized.extent - 1) / 2 + first * (resized.extent - 1)
        return at * (last - first) * (resized.extent - 1) / (exact - 1) + first * (resized.extent - 1)
    if transformation == "pytorch_half_pixel" and exact == 1:
        return at * 0 - 0.5
    shift = resized.extent / 2 * (1 - resized.new_extent / exact) if transformation == "half_pixel_symmetric" else 0.0
    return shift + (at + 0.5) / resized.scale - 0.5


def _nearest(ratio: NumpyArray, how: str) -> NumpyArray:
    """Returns which of the two neighbours is used: 0 or 1; `ratio` is in (0, 1], 1 at a neighbour."""
    upper = {
        "round_prefer_floor": ratio > 0.5,
        "round_prefer_ceil": ratio >= 0.5,
        "floor": ratio >= 1.0,
        "ceil": ratio > 0.0,
    }[how]
    return upper.astype(np.int64)


def _triangle(distance: NumpyArray) -> NumpyArray:
    return np.clip(1 - distance, 0, 1)


def _cubic(a: float) -> Callable[[NumpyArray], NumpyArray]:
    """Returns Keys' cubic convolution kernel, for nonnegative distances."""

    def kernel(distance: NumpyArray) -> NumpyArray:
        near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
        far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
        return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))

    return kernel


def _taps(
    node: OnnxNode, resized: _Axis, origins: NumpyArray, reach: int, kernel: Callable[[NumpyArray], NumpyArray]
) -> tuple[NumpyArray, NumpyArray]:
    """Returns the indices of the input elements of each output element, `[new, taps]`, and their weights."""
    base = np.ceil(origins) - 1
    ratio = origins - base
    stretch = min(resized.scale, 1.0) if node.attribute("antialias", 0) else 1.0
    start = math.floor(-reach / stretch) + 1
    offsets = np.arange(start, 2 - start)
    weights = kernel(np.abs(offsets - ratio[:, None]) * stretch)
    places = (base[:, None] + offsets).astype(np.int64)
    if node.attribute("exclude_outside", 0):
        weights = weights * ((places >= 0) & (places < resized.extent))
    if stretch != 1.0 or node.attribute("exclude_outside", 0):
        weights = weights / weights.sum(1, keepdims=True)
    return np.clip(places, 0, resized.extent - 1), weights


def _along(node: OnnxNode, x: Tensor, axis: int, resized: _Axis, transformation: str) -> Tensor:
    origins = _origins(resized, transformation)
    mode = node.attribute("mode", "nearest")
    if mode == "nearest":
        base = np.ceil(origins) - 1
        places = base + _nearest(origins - base, node.attribute("nearest_mode", "round_prefer_floor"))
        if node.op == "Upsample" or (node.version < 11 and node.op == "Resize"):
            places = np.floor(origins)
        result = taken(x, axis, np.clip(places, 0, resized.extent - 1).astype(np.int64))
    else:
        reach, kernel = (2, _cubic(node.attribute("cubic_coeff_a", -0.75))) if mode == "cubic" else (1, _triangle)
        places, weights = _taps(node, resized, origins, reach, kernel)
        result = _weighted(x, axis, places, weights)
    if transformation != "tf_crop_and_resize":
        return result
    outside = (origins < 0) | (origins > resized.extent - 1)
    if not outside.any():
        return result
    return tg.where(_shaped(outside, axis, x.ndim), node.attribute("extrapolation_value", 0.0), result)


def _shaped(values: NumpyArray, axis: int, rank: int) -> Array:
    return Array(values.reshape([-1 if i == axis else 1 for i in range(rank)]))


def _weighted(x: Tensor, axis: int, places: NumpyArray, weights: NumpyArray) -> Tensor:
    result: Tensor | None = None
    for tap in range(places.shape[1]):
        if not weights[:, tap].any():
            continue
        term = taken(x, axis, places[:, tap]) * _shaped(weights[:, tap].astype(x.dtype), axis, x.ndim)
        result = term if result is None else result + term
    assert result is not None
    return result
