"""Reading images at fractional positions."""

from __future__ import annotations

import math

import numpy as np

import tensorgrad as tg
from tensorgrad.importers.onnx.table import OnnxNode, Role, rule
from tensorgrad.importers.onnx.windows import listed, pairs
from tensorgrad.ops.grid_sampling import Tap, linear, read, total
from tensorgrad.tracing.tensor import Array, Tensor


@rule(
    "GridSample",
    "align_corners mode=linear|bilinear|nearest|cubic|bicubic padding_mode=zeros|border|reflection",
)
def _grid_sample(node: OnnxNode) -> Tensor:
    mode, padding = node.attribute("mode", "linear"), node.attribute("padding_mode", "zeros")
    return tg.grid_sample(node.tensor(0), node.tensor(1), mode, padding, bool(node.attribute("align_corners", 0)))


@rule("DeformConv", "dilations group kernel_shape offset_group pads strides", roles={1: Role.WEIGHT, 3: Role.WEIGHT})
def _deformable_convolution(node: OnnxNode) -> Tensor:
    """Samples the elements of every window at their offsets, and contracts them with the weights."""
    x, w, offset = node.tensor(0), node.tensor(1), node.tensor(2)
    count, window, out = x.ndim - 2, w.shape[2:], offset.shape[2:]
    steps, holes = listed(node, "strides", count), listed(node, "dilations", count)
    low = [before for before, _ in pairs(listed(node, "pads", 2 * count, 0))]
    groups, shared, size = node.attribute("group", 1), node.attribute("offset_group", 1), math.prod(window)
    moved = tg.reshape(offset, (x.shape[0] * shared, size, count, *out))
    taps: list[list[Tap]] = []
    for axis, extent in enumerate(x.shape[2:]):
        inner = (np.arange(window[axis]) * holes[axis]).reshape([-1 if i == axis else 1 for i in range(count)])
        outer = (np.arange(out[axis]) * steps[axis] - low[axis]).reshape([-1 if i == axis else 1 for i in range(count)])
        own = np.broadcast_to(inner, window).reshape(size, *[1] * count) + outer
        at = moved[:, :, axis] + Array(own.astype(x.dtype))
        taps.append(linear(tg.reshape(at, (at.shape[0], -1)), extent))
    per_offset = tg.reshape(x, (x.shape[0] * shared, x.shape[1] // shared, *x.shape[2:]))
    values = total(read(per_offset, taps))
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
    taps: list[list[Tap]] = []
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
                Tap(
                    tg.reshape(tg.broadcast_to(tg.reshape(tap.index, shape), whole), (count, -1)),
                    tg.reshape(
                        tg.broadcast_to(tg.reshape(tg.where(outside, 0.0, tap.weight), shape), whole), (count, -1)
                    ),
                )
                for tap in held
            ]
        )
    terms = [tg.reshape(term, (count, x.shape[1], height, width, -1)) for term in read(tg.take(x, images, 0), taps)]
    if node.attribute("mode", "avg") == "avg":
        return tg.mean(total(terms), -1)
    return tg.max(tg.stack(terms, -1), (-2, -1))
