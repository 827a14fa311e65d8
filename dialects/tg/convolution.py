"""Convolutions and sliding windows: a contraction, an index map, and its transpose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from tensorgrad.dialects.tg.base import (
    INT_LIST,
    INTEGER,
    Evaluate,
    NumpyArray,
    Properties,
    Tensor,
    TensorOp,
    check_axes,
    int_list,
    int_lists,
    int_value,
    require,
    require_elements,
    rounding_once,
    tensor,
)
from tensorgrad.dialects.tg.shape import ShapeOp
from tensorgrad.dialects.tg.summation import multiplied

GATHERED_ELEMENTS = 1 << 23
"""The approximate number of elements of the left operand that the reference gathers at a time."""


def spread(extent: int, dilation: int) -> int:
    """Returns the extent that `extent` elements take with `dilation - 1` holes between adjacent ones."""
    return (extent - 1) * dilation + 1 if extent else 0


def window_count(extent: int, size: int, stride: int) -> int:
    """Returns the number of windows of `size`, `stride` apart, that fit into `extent`."""
    return (extent - size) // stride + 1 if extent >= size else 0


@dataclass(frozen=True)
class Phases:
    """How an axis of a convolution whose left operand is dilated divides into dense convolutions.

    Every `count`-th result meets the same elements of the window, and holes at all others. So the result at
    `block * count + phase` is the sum, over `tap` from 0, of `x[block * advance + start[phase] + tap * step]` times
    `w[first[phase] + tap * spacing]`, as long as the latter index is below `size`.

    Attributes:
        size: The extent of the window.
        first: For each phase, the first element of the window that meets no hole; `size` if there is none.
        start: For each phase, the position in the left operand that this element meets in block 0.
        spacing: The distance between taps in the window.
        step: The distance between taps in the left operand.
        advance: The distance between blocks in the left operand.
    """

    size: int
    first: tuple[int, ...]
    start: tuple[int, ...]
    spacing: int
    step: int
    advance: int

    @property
    def count(self) -> int:
        """The number of phases."""
        return len(self.first)

    @property
    def taps(self) -> tuple[int, ...]:
        """The number of window elements that each phase meets."""
        return tuple(-(-(self.size - first) // self.spacing) for first in self.first)

    @staticmethod
    def of(extent: int, size: int, stride: int, low: int, lhs_dilation: int, rhs_dilation: int) -> Phases:
        """Returns the phases of an axis; there is one if the left operand is not dilated.

        Args:
            extent: The extent of the result, at least 1; there are at most so many phases.
            size: The extent of the window.
            stride: The distance between windows.
            low: The padding in front.
            lhs_dilation: The dilation of the left operand.
            rhs_dilation: The dilation of the window.
        """
        # A tap k of phase p meets an element where p * stride + k * rhs_dilation - low is a multiple of lhs_dilation.
        common, shared = math.gcd(lhs_dilation, rhs_dilation), math.gcd(lhs_dilation, stride)
        spacing, step = lhs_dilation // common, rhs_dilation // common
        inverse = pow(step, -1, spacing)
        first: list[int] = []
        start: list[int] = []
        for phase in range(min(lhs_dilation // shared, extent)):
            distance = low - phase * stride
            solvable = distance % common == 0
            first.append(min(distance // common * inverse % spacing, size) if solvable else size)
            start.append((first[-1] * rhs_dilation - distance) // lhs_dilation)
        return Phases(size, tuple(first), tuple(start), spacing, step, stride // shared)


def _sliding(
    x: NumpyArray,
    first: int,
    sizes: Sequence[int],
    counts: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> NumpyArray:
    """Returns the windows along the axes from `first` on, as a view: `[..., counts..., sizes...]`."""
    steps = x.strides[first:]
    return np.lib.stride_tricks.as_strided(
        x,
        (*x.shape[:first], *counts, *sizes),
        (
            *x.strides[:first],
            *(step * s for step, s in zip(steps, stride, strict=True)),
            *(step * d for step, d in zip(steps, dilation, strict=True)),
        ),
        writeable=False,
    )


@irdl_op_definition
class ConvOp(TensorOp):
    """Slides the right operand over the left one and sums products (a cross-correlation: nothing is reversed).

    With operands `x [batch, channels, spatial...]` and `w [out, channels / groups, window...]` the result is
    `y [batch, out, spatial'...]`:

        y[n, o, p...] = sum of x'[n, g * channels / groups + c, p * stride + k * rhs_dilation - low ...] * w[o, c, k...]

    over `c` and `k...`, where `g = o / (out / groups)` and `x'` is `x` with `lhs_dilation - 1` zeros between adjacent
    elements and zeros outside. Negative `low` and `high` crop. Both derivatives are convolutions. Products with the
    zeros in holes are left out; those in the padding are ordinary factors: times an infinite weight they give NaN. The
    error of a float is at most n ulp of
    the sum of the magnitudes of its n products; f16 is summed in f32 and rounded once. Integers wrap.

    Example:
        %2 = tg.conv %0, %1 stride = [2, 2] low = [1, 1] high = [1, 1] lhs_dilation = [1, 1] rhs_dilation = [1, 1]
            groups = 1 : tensor<8x3x32x32xf32>, tensor<16x3x3x3xf32>
    """

    name = "tg.conv"
    lhs = operand_def()
    rhs = operand_def()
    stride = prop_def(INT_LIST)
    low = prop_def(INT_LIST)
    high = prop_def(INT_LIST)
    lhs_dilation = prop_def(INT_LIST)
    rhs_dilation = prop_def(INT_LIST)
    groups = prop_def(INTEGER)
    result = result_def()
    traits = traits_def(Pure())
    PROPERTIES: ClassVar = ("stride", "low", "high", "lhs_dilation", "rhs_dilation", "groups")

    @property
    def window(self) -> tuple[tuple[int, ...], ...]:
        """For each spatial axis the stride, low and high padding, and the dilations of both operands."""
        return int_lists(self.stride, self.low, self.high, self.lhs_dilation, self.rhs_dilation)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        lhs, rhs = operands
        lists = [int_list(properties, name) for name in cls.PROPERTIES[:-1]]
        groups, element = int_value(properties, "groups"), lhs.get_element_type()
        ls, rs = lhs.get_shape(), rhs.get_shape()
        require(element == rhs.get_element_type(), lambda: f"element types differ: {lhs} and {rhs}")
        require_elements(element, "number")
        require(
            len(ls) == len(rs) >= 2,
            lambda: f"needs [batch, channels, ...] and [out, channels, ...], got {lhs} and {rhs}",
        )
        require(
            all(len(listed) == len(ls) - 2 for listed in lists),
            f"stride, low, high and dilations must name each of the {len(ls) - 2} spatial axes",
        )
        require(
            min((n for i in (0, 3, 4) for n in lists[i]), default=1) >= 1, "strides and dilations must be at least 1"
        )
        require(
            groups >= 1 and rs[1] * groups == ls[1] and rs[0] % groups == 0,
            f"{ls[1]} channels are not {groups} groups of {rs[1]}, or {rs[0]} outputs are not divisible by {groups}",
        )
        extents = [
            window_count(max(spread(i, ld) + a + b, 0), spread(k, rd), s)
            for i, k, s, a, b, ld, rd in zip(ls[2:], rs[2:], *lists, strict=True)
        ]
        return tensor([ls[0], rs[0], *extents], element)

    @rounding_once
    def prepare(self) -> Evaluate:
        stride, low, _, lhs_dilation, rhs_dilation = self.window
        groups, shape = self.groups.value.data, self.shape
        sizes = cast(Tensor, self.operands[1].type).get_shape()[2:]
        axes = [
            Phases.of(*settings)
            for settings in zip(shape[2:], sizes, stride, low, lhs_dilation, rhs_dilation, strict=True)
        ]
        counts = [axis.count for axis in axes]
        phases = [
            (phase, (..., *(slice(at, None, count) for at, count in zip(phase, counts, strict=True))))
            for phase in np.ndindex(*counts)
        ]

        def convolve(lhs: NumpyArray, rhs: NumpyArray) -> NumpyArray:
            result = np.zeros(shape, lhs.dtype)
            if result.size and rhs.size:
                for phase, places in phases:
                    _convolve_phase(lhs, rhs, axes, phase, groups, result[places])
            return result

        return convolve


def _convolve_phase(
    lhs: NumpyArray, rhs: NumpyArray, axes: Sequence[Phases], phase: Sequence[int], groups: int, result: NumpyArray
) -> None:
    """Writes the results of one phase of each axis: a convolution without holes in its left operand."""
    chosen = list(zip(phase, axes, strict=True))
    window = rhs[(slice(None), slice(None), *(slice(axis.first[at], None, axis.spacing) for at, axis in chosen))]
    batch, counts, sizes = lhs.shape[0], result.shape[2:], window.shape[2:]
    if not window.size:
        return
    start = [axis.start[at] for at, axis in chosen]
    stride, dilation = [axis.advance for axis in axes], [axis.step for axis in axes]
    spans = [
        (count - 1) * s + spread(size, d) for count, s, size, d in zip(counts, stride, sizes, dilation, strict=True)
    ]
    padded = _between(lhs, start, spans)
    grouped = padded.reshape(batch, groups, rhs.shape[1], *spans)
    views = _sliding(grouped, 3, sizes, counts, stride, dilation)
    rank, inner = len(counts), rhs.shape[1] * math.prod(sizes)
    order = [1, 0, *range(3, 3 + rank), 2, *range(3 + rank, 3 + 2 * rank)]
    weights = window.reshape(groups, -1, inner).swapaxes(1, 2)
    step = max(1, GATHERED_ELEMENTS // (groups * inner * math.prod(counts)))
    for begin in range(0, batch, step):
        part = views[begin : begin + step]
        rows = part.transpose(order).reshape(groups, -1, inner)
        sums = multiplied(rows, weights).reshape(groups, len(part), *counts, -1)
        moved = np.moveaxis(np.moveaxis(sums, -1, 1), 2, 0)
        result[begin : begin + step] = moved.reshape(len(part), *result.shape[1:])


def _between(x: NumpyArray, start: Sequence[int], spans: Sequence[int]) -> NumpyArray:
    """Returns `spans` elements of the spatial axes from `start` on, with zeros outside of `x`."""
    result = np.zeros((*x.shape[:2], *spans), x.dtype)
    source, target = [slice(None), slice(None)], [slice(None), slice(None)]
    for extent, begin, span in zip(x.shape[2:], start, spans, strict=True):
        low, high = max(begin, 0), max(min(begin + span, extent), 0)
        source.append(slice(low, max(high, low)))
        target.append(slice(low - begin, max(high, low) - begin))
    result[tuple(target)] = x[tuple(source)]
    return result


@irdl_op_definition
class WindowsOp(ShapeOp):
    """A view of all windows along `axes`: `y[.., o, .., k...] = x[.., o * stride + k * dilation, ..]`.

    The result has the operand's axes, of which those in `axes` count windows, then one axis of extent `size` for each
    of `axes`. Pooling is a reduction over the latter. Only whole windows count; nothing is copied.

    Example:
        %1 = tg.windows %0 axes = [2, 3] size = [2, 2] stride = [2, 2] dilation = [1, 1] : tensor<8x3x32x32xf32>
    """

    name = "tg.windows"
    axes = prop_def(INT_LIST)
    size = prop_def(INT_LIST)
    stride = prop_def(INT_LIST)
    dilation = prop_def(INT_LIST)
    PROPERTIES: ClassVar = ("axes", "size", "stride", "dilation")

    @property
    def window(self) -> tuple[tuple[int, ...], ...]:
        """The axes, and for each the size, stride and dilation."""
        return int_lists(self.axes, self.size, self.stride, self.dilation)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        shape = list(operands[0].get_shape())
        axes, size, stride, dilation = (int_list(properties, name) for name in cls.PROPERTIES)
        _check_windows(axes, len(shape), size, stride, dilation)
        for axis, n, s, d in zip(axes, size, stride, dilation, strict=True):
            shape[axis] = window_count(shape[axis], spread(n, d), s)
        return tensor([*shape, *size], operands[0].get_element_type())

    def prepare(self) -> Evaluate:
        axes, size, stride, dilation = self.window
        shape = self.shape

        def gather(x: NumpyArray) -> NumpyArray:
            result = np.empty(shape, x.dtype)
            for place in np.ndindex(*size):
                result[(..., *place)] = x[_window_at(place, axes, stride, dilation, shape)]
            return result

        return gather


@irdl_op_definition
class FoldOp(TensorOp):
    """The transpose of `tg.windows`: adds each window's elements to the positions that they come from.

    `y[.., i, ..]` is the sum of `x[.., o, .., k...]` over all `o * stride + k * dilation = i`, or 0 if there are none.
    The result's extents along `axes` are `extents`. Each element has one writer, which adds in a fixed order. The error
    of a float is at most n ulp of the sum of the n magnitudes; integers wrap.

    Example:
        %1 = tg.fold %0 axes = [1] stride = [1] dilation = [1] extents = [8] : tensor<4x6x3xf32>
    """

    name = "tg.fold"
    operand = operand_def()
    axes = prop_def(INT_LIST)
    stride = prop_def(INT_LIST)
    dilation = prop_def(INT_LIST)
    extents = prop_def(INT_LIST)
    result = result_def()
    traits = traits_def(Pure())
    PROPERTIES: ClassVar = ("axes", "stride", "dilation", "extents")

    @property
    def window(self) -> tuple[tuple[int, ...], ...]:
        """The axes, and for each the stride and dilation."""
        return int_lists(self.axes, self.stride, self.dilation)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        axes, stride, dilation, extents = (int_list(properties, name) for name in cls.PROPERTIES)
        rank, element = operands[0].get_num_dims() - len(axes), operands[0].get_element_type()
        require_elements(element, "number")
        require(rank >= 0, lambda: f"{operands[0]} has no window axis for each of {list(axes)}")
        counts, size = operands[0].get_shape()[:rank], operands[0].get_shape()[rank:]
        _check_windows(axes, rank, size, stride, dilation)
        require(
            len(extents) == len(axes) and min(extents, default=0) >= 0,
            f"extents {list(extents)} must name an extent for each of {list(axes)}",
        )
        shape = list(counts)
        for axis, extent, n, s, d in zip(axes, extents, size, stride, dilation, strict=True):
            fits = window_count(extent, spread(n, d), s)
            require(
                counts[axis] == fits,
                f"extent {extent} holds {fits} windows of {n}, {s} apart, not {counts[axis]} (axis {axis})",
            )
            shape[axis] = extent
        return tensor(shape, element)

    @rounding_once
    def prepare(self) -> Evaluate:
        axes, stride, dilation = self.window
        shape = self.shape

        def add_up(x: NumpyArray) -> NumpyArray:
            result = np.zeros(shape, x.dtype)
            for place in np.ndindex(*x.shape[len(shape) :]):
                result[_window_at(place, axes, stride, dilation, x.shape)] += x[(..., *place)]
            return result

        return add_up


def _check_windows(
    axes: Sequence[int], rank: int, size: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> None:
    check_axes(axes, rank, "axes")
    require(
        len(size) == len(stride) == len(dilation) == len(axes),
        f"size, stride and dilation must name each of the {len(axes)} axes",
    )
    require(min((*size, *stride, *dilation), default=1) >= 1, "sizes, strides and dilations must be at least 1")


def _window_at(
    place: Sequence[int], axes: Sequence[int], stride: Sequence[int], dilation: Sequence[int], counts: Sequence[int]
) -> tuple[slice, ...]:
    """Returns the slices of the elements at one place of every window."""
    window = [slice(None)] * (len(counts) - len(axes))
    for k, axis, s, d in zip(place, axes, stride, dilation, strict=True):
        window[axis] = slice(k * d, k * d + spread(counts[axis], s), s)
    return tuple(window)


OPS = (ConvOp, WindowsOp, FoldOp)
