"""Reading images at fractional positions.

A position has a few weighted neighbours on each axis, which are gathered.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import tensorgrad as tg
from tensorgrad.onnx.table import OnnxNode, Role, rule
from tensorgrad.onnx.windows import listed, pairs
from tensorgrad.tracing.dtypes import NAMES
from tensorgrad.tracing.tensor import Array, Tensor


@dataclass(frozen=True)
class _Tap:
    """One neighbour of each position on an axis: its index, clamped to the axis, and its weight."""

    place: Tensor
    weight: Tensor


Bounded = Callable[[Tensor, int], Tensor]
"""Maps integral positions, as floats, into an axis of a given extent."""


def _taps(extent: int, weights: Sequence[Tensor], first: Tensor, zeros: bool, bounded: Bounded) -> list[_Tap]:
    results: list[_Tap] = []
    for i, weight in enumerate(weights):
        place = first + float(i)
        if zeros:
            inside = tg.greater_equal(place, 0.0) & tg.less_equal(place, float(extent - 1))
            weight = tg.where(inside, weight, 0.0)
        held = tg.clip(bounded(place, extent), 0.0, float(extent - 1))
        results.append(_Tap(tg.cast(tg.stop_gradient(held), NAMES["i32"]), weight))
    return results


def _same(place: Tensor, extent: int) -> Tensor:
    return place


def linear(at: Tensor, extent: int, zeros: bool = True) -> list[_Tap]:
    """Returns the two neighbours, weighted by proximity; those outside have weight 0, or are clamped to the edge."""
    first = tg.floor(at)
    share = at - first
    return _taps(extent, [1.0 - share, share], first, zeros, _same)


def _cubic(at: Tensor, extent: int, zeros: bool, bounded: Bounded) -> list[_Tap]:
    """Returns the four neighbours, weighted by Keys' kernel with a = -0.75."""
    a, first = -0.75, tg.floor(at)
    share = at - first
    rest = 1.0 - share

    def near(d: Tensor) -> Tensor:
        return ((a + 2) * d - (a + 3)) * d * d + 1.0

    def far(d: Tensor) -> Tensor:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    weights = [far(share + 1.0), near(share), near(rest), far(rest + 1.0)]
    return _taps(extent, weights, first - 1.0, zeros, bounded)


def read(x: Tensor, taps: Sequence[Sequence[_Tap]]) -> list[Tensor]:
    """Returns each weighted combination of the axes' neighbours; their sum is the elements at the positions.

    Args:
        x: `[batch, channels, spatial...]`.
        taps: For each spatial axis, its neighbours, `[batch, positions]`.

    Returns:
        Terms of shape `[batch, channels, positions]`.
    """
    extents = x.shape[2:]
    flat = tg.reshape(x, (*x.shape[:2], -1))
    terms: list[Tensor] = []
    for combination in itertools.product(*taps):
        place, weight = combination[0].place, combination[0].weight
        for tap, extent in zip(combination[1:], extents[1:], strict=True):
            place, weight = place * extent + tap.place, weight * tap.weight
        values = tg.take_along_axis(flat, tg.expand_dims(place, 1), 2)
        terms.append(values * tg.expand_dims(weight, 1))
    return terms


def _total(terms: Sequence[Tensor]) -> Tensor:
    result = terms[0]
    for term in terms[1:]:
        result = result + term
    return result


def _reflected(at: Tensor, low: float, high: float) -> Tensor:
    """Returns positions reflected at both ends into range."""
    span = high - low
    if span <= 0:
        return at * 0.0
    inside = tg.greater_equal(at, low) & tg.less_equal(at, high)
    distance = tg.abs(at - low)
    turns = tg.floor(distance / span)
    rest = distance - turns * span
    mirrored = tg.where(tg.equal(tg.remainder(turns, 2.0), 0.0), rest + low, high - rest)
    return tg.where(inside, at, mirrored)


@rule(
    "GridSample",
    "align_corners mode=linear|bilinear|nearest|cubic|bicubic padding_mode=zeros|border|reflection",
)
def _grid_sample(node: OnnxNode) -> Tensor:
    x, grid = node.tensor(0), node.tensor(1)
    corners, padding = node.attribute("align_corners", 0), node.attribute("padding_mode", "zeros")
    mode = node.attribute("mode", "linear").removeprefix("bi")
    zeros, count = padding == "zeros", x.ndim - 2
    points = tg.reshape(grid, (grid.shape[0], -1, count))
    taps: list[list[_Tap]] = []
    for axis, extent in enumerate(x.shape[2:]):
        low, high = (0.0, extent - 1.0) if corners else (-0.5, extent - 0.5)
        at = (points[..., count - 1 - axis] + 1.0) * ((high - low) / 2) + low
        at = tg.round(at) if mode == "nearest" else at

        def bounded(place: Tensor, extent: int, ends: tuple[float, float] = (low, high)) -> Tensor:
            return _reflected(place, *ends) if padding == "reflection" else place

        if padding == "border":
            beyond = tg.less(at, low) | tg.greater(at, high)
            at = tg.where(beyond, tg.clip(at, 0.0, extent - 1.0), at)
        elif padding == "reflection":
            at = _reflected(at, low, high)
        if mode == "linear":
            first = tg.floor(at)
            taps.append(_taps(extent, [1.0 - (at - first), at - first], first, zeros, bounded))
        elif mode == "cubic":
            taps.append(_cubic(at, extent, zeros, bounded))
        else:
            taps.append(_taps(extent, [tg.ones(at.shape, at.dtype)], at, zeros, bounded))
    return tg.reshape(_total(read(x, taps)), (*x.shape[:2], *grid.shape[1:-1]))


@rule("DeformConv", "dilations group kernel_shape offset_group pads strides", roles={1: Role.WEIGHT, 3: Role.WEIGHT})
def _deformable_convolution(node: OnnxNode) -> Tensor:
    """Samples the elements of every window at their offsets, and contracts them with the weights."""
    x, w, offset = node.tensor(0), node.tensor(1), node.tensor(2)
    count, window, out = x.ndim - 2, w.shape[2:], offset.shape[2:]
    steps, holes = listed(node, "strides", count), listed(node, "dilations", count)
    low = [before for before, _ in pairs(listed(node, "pads", 2 * count, 0))]
    groups, shared, size = node.attribute("group", 1), node.attribute("offset_group", 1), math.prod(window)
    moved = tg.reshape(offset, (x.shape[0] * shared, size, count, *out))
    taps: list[list[_Tap]] = []
    for axis, extent in enumerate(x.shape[2:]):
        inner = (np.arange(window[axis]) * holes[axis]).reshape([-1 if i == axis else 1 for i in range(count)])
        outer = (np.arange(out[axis]) * steps[axis] - low[axis]).reshape([-1 if i == axis else 1 for i in range(count)])
        own = np.broadcast_to(inner, window).reshape(size, *[1] * count) + outer
        at = moved[:, :, axis] + Array(own.astype(x.dtype))
        taps.append(linear(tg.reshape(at, (at.shape[0], -1)), extent))
    per_offset = tg.reshape(x, (x.shape[0] * shared, x.shape[1] // shared, *x.shape[2:]))
    values = _total(read(per_offset, taps))
    if node.has(4):
        values = values * tg.reshape(node.tensor(4), (x.shape[0] * shared, 1, -1))
    columns = tg.reshape(values, (x.shape[0], groups, x.shape[1] // groups * size, math.prod(out)))
    rows = tg.reshape(w, (groups, w.shape[0] // groups, -1))
    result = tg.reshape(tg.matmul(rows, columns), (x.shape[0], w.shape[0], *out))
    return result if not node.has(3) else result + tg.reshape(node.tensor(3), (-1, *[1] * count))


@rule(
    "RoiAlign",
    "coordinate_transformation_mode=half_pixel|output_half_pixel mode=avg|max output_height output_width "
    "sampling_ratio spatial_scale",
)
def _roi_align(node: OnnxNode) -> Tensor:
    x, regions, images = node.tensor(0), node.tensor(1), node.tensor(2)
    samples = node.attribute("sampling_ratio", 0)
    if samples <= 0:
        node.refuse("its sampling_ratio must be positive: else the number of samples depends on the regions")
    half = node.attribute("coordinate_transformation_mode", "half_pixel" if node.version >= 16 else "") == "half_pixel"
    corners = regions * node.attribute("spatial_scale", 1.0) - (0.5 if half else 0.0)
    count, height, width = regions.shape[0], node.attribute("output_height", 1), node.attribute("output_width", 1)
    taps: list[list[_Tap]] = []
    for axis, bins in enumerate((height, width)):
        extent = x.shape[2 + axis]
        start, end = corners[:, 1 - axis], corners[:, 3 - axis]
        size = (end - start) if half else tg.maximum(end - start, 1.0)
        steps = (np.arange(bins * samples) + 0.5) / (bins * samples)
        at = tg.expand_dims(start, 1) + tg.expand_dims(size, 1) * Array(steps.astype(x.dtype))
        outside = tg.less(at, -1.0) | tg.greater(at, float(extent))
        held = linear(tg.clip(at, 0.0, extent - 1.0), extent, zeros=False)
        shape = (count, bins, 1, samples, 1) if axis == 0 else (count, 1, bins, 1, samples)
        whole = (count, height, width, samples, samples)
        taps.append(
            [
                _Tap(
                    tg.reshape(tg.broadcast_to(tg.reshape(tap.place, shape), whole), (count, -1)),
                    tg.reshape(
                        tg.broadcast_to(tg.reshape(tg.where(outside, 0.0, tap.weight), shape), whole), (count, -1)
                    ),
                )
                for tap in held
            ]
        )
    terms = [tg.reshape(term, (count, x.shape[1], height, width, -1)) for term in read(tg.take(x, images, 0), taps)]
    if node.attribute("mode", "avg") == "avg":
        return tg.mean(_total(terms), -1)
    return tg.max(tg.stack(terms, -1), (-2, -1))
