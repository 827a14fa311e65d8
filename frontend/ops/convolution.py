"""Convolutions, pooling and resizing of tensors `[batch, channels, spatial...]`, in any number of dimensions."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from tensorgrad.dialects.tg import convolution, shape
from tensorgrad.dialects.tg.base import integer, ints
from tensorgrad.dialects.tg.convolution import spread, window_count
from tensorgrad.errors import OptionError, ShapeError
from tensorgrad.ops.contract import numbers, whole
from tensorgrad.ops.elementwise.arithmetic import add, divide, equal, multiply, where
from tensorgrad.ops.promotion import as_tensor, broadcast_to, cast
from tensorgrad.ops.reduce import max as largest
from tensorgrad.ops.reduce import mean
from tensorgrad.ops.reduce import sum as sum_over
from tensorgrad.ops.shape import flip, reshape, take, transpose
from tensorgrad.tracing.dtypes import NAMES, is_float
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Array, Tensor
from tensorgrad.tracing.tracer import emit

Sizes: TypeAlias = "int | Sequence[int]"
Padding: TypeAlias = "int | str | Sequence[int] | Sequence[tuple[int, int]]"

WIDEST_WINDOW = 8
"""`resize` reads windows of at most so many elements; between sizes that share no larger factor it gathers."""


def _listed(value: Any, count: int, what: str, least: int = 1) -> list[int]:
    """Returns a number for each of `count` axes, from one or from as many."""
    given = list(value) if isinstance(value, (tuple, list)) else [value] * count
    try:
        found = [operator.index(number) for number in given]
    except TypeError:
        raise ShapeError(f"{user_line()}: {what}: integers, not {value!r}") from None
    if len(found) != count or any(number < least for number in found):
        raise ShapeError(f"{user_line()}: {what}: one integer or {count}, at least {least}, not {value!r}")
    return found


def _padding(value: Any, totals: Sequence[int], what: str) -> tuple[list[int], list[int]]:
    """Returns the padding before and behind each axis; `totals` is what `"same"` needs of both together."""
    if isinstance(value, str):
        if value not in ("same", "valid"):
            raise ShapeError(f"{user_line()}: {what}: the padding is 'same', 'valid' or integers, not {value!r}")
        both = [total if value == "same" else 0 for total in totals]
        return [total // 2 for total in both], [total - total // 2 for total in both]
    if isinstance(value, (tuple, list)) and any(isinstance(part, (tuple, list)) for part in value):
        if len(value) != len(totals) or not all(isinstance(part, (tuple, list)) and len(part) == 2 for part in value):
            raise ShapeError(f"{user_line()}: {what}: {len(totals)} axes need as many pairs of paddings, not {value!r}")
        before, behind = ([part[side] for part in value] for side in (0, 1))
        name = f"{what}: paddings"
        return _listed(before, len(totals), name, 0), _listed(behind, len(totals), name, 0)
    low = _listed(value, len(totals), f"{what}: paddings", 0)
    return low, list(low)


def _same(extents: Sequence[int], sizes: Sequence[int], stride: Sequence[int]) -> list[int]:
    """Returns the padding that gives `ceil(extent / stride)` windows."""
    return [
        max((-(-extent // s) - 1) * s + size - extent, 0)
        for extent, size, s in zip(extents, sizes, stride, strict=True)
    ]


def _conv_operands(what: str, x: Any, w: Any, spatial: int | None) -> tuple[Tensor, Tensor, int]:
    images, weights = numbers(what, x, w)
    count = images.ndim - 2
    wanted = "" if spatial is None else f" ({spatial} of them)"
    if count < 0 or weights.ndim != images.ndim or spatial not in (None, count):
        raise ShapeError(
            f"{user_line()}: {what}: [batch, channels, spatial...] and weights with as many spatial ones{wanted}, "
            f"got {images.shape} and {weights.shape}"
        )
    return images, weights, count


def _check_groups(what: str, groups: Any, channels: int, taken: int, outputs: int) -> int:
    """Returns the number of groups, when it splits the channels as the weights take them."""
    number = whole(groups, f"{what}: groups")
    if number < 1 or channels != number * taken or outputs % number:
        raise ShapeError(
            f"{user_line()}: {what}: {number} groups do not split {channels} channels into {taken} each "
            f"and {outputs} outputs evenly"
        )
    return number


def _with_bias(what: str, result: Tensor, bias: Any) -> Tensor:
    if bias is None:
        return result
    term = as_tensor(bias)
    if term.shape != (result.shape[1],):
        raise ShapeError(f"{user_line()}: {what}: the bias is {term.shape}, expected ({result.shape[1]},)")
    return add(result, reshape(term, [-1, *[1] * (result.ndim - 2)]))


def _conv(
    what: str, spatial: int | None, x: Any, w: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: Any
) -> Tensor:
    images, weights, count = _conv_operands(what, x, w, spatial)
    steps, holes = _listed(stride, count, f"{what}: strides"), _listed(dilation, count, f"{what}: dilations")
    number = _check_groups(what, groups, images.shape[1], weights.shape[1], weights.shape[0])
    sizes = [spread(size, hole) for size, hole in zip(weights.shape[2:], holes, strict=True)]
    low, high = _padding(padding, _same(images.shape[2:], sizes, steps), what)
    for axis, (extent, size, a, b) in enumerate(zip(images.shape[2:], sizes, low, high, strict=True)):
        if extent + a + b < size:
            raise ShapeError(
                f"{user_line()}: {what}: a window of {size} does not fit into spatial axis {axis} of extent {extent} "
                f"padded by {a} and {b}"
            )
    ones = ints([1] * count)
    result = emit(
        convolution.ConvOp,
        [images, weights],
        stride=ints(steps),
        low=ints(low),
        high=ints(high),
        lhs_dilation=ones,
        rhs_dilation=ints(holes),
        groups=integer(number),
    )
    return _with_bias(what, result, bias)


def conv(
    x: Any, w: Any, bias: Any = None, stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1, groups: int = 1
) -> Tensor:
    """Returns the convolution of images with windows of weights, as neural networks mean it: nothing is reversed.

    Args:
        x: `[batch, channels, spatial...]`.
        w: `[outputs, channels / groups, window...]`, with as many spatial axes.
        bias: `[outputs]`, added to each output, or None.
        stride: Elements between neighbouring windows; one number, or one for each spatial axis.
        padding: Zeros around the images: a number, one for each axis, a pair (before, behind) for each, `"valid"` for
            none, or `"same"` for as many as give `ceil(extent / stride)` positions (the odd one behind).
        dilation: Elements between neighbours in a window.
        groups: How many separate convolutions lie side by side; with as many groups as channels it is depthwise.

    Returns:
        `[batch, outputs, spatial'...]`.

    Raises:
        ShapeError: The shapes don't fit each other, or a window does not fit into the padded images.
        DTypeError: The operands have no common dtype, or it is bool.
    """
    return _conv("conv", None, x, w, bias, stride, padding, dilation, groups)


def conv1d(
    x: Any, w: Any, bias: Any = None, stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1, groups: int = 1
) -> Tensor:
    """`conv` along one axis: `x` is `[batch, channels, length]`."""
    return _conv("conv1d", 1, x, w, bias, stride, padding, dilation, groups)


def conv2d(
    x: Any, w: Any, bias: Any = None, stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1, groups: int = 1
) -> Tensor:
    """`conv` on images: `x` is `[batch, channels, height, width]`."""
    return _conv("conv2d", 2, x, w, bias, stride, padding, dilation, groups)


def conv3d(
    x: Any, w: Any, bias: Any = None, stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1, groups: int = 1
) -> Tensor:
    """`conv` on volumes: `x` is `[batch, channels, depth, height, width]`."""
    return _conv("conv3d", 3, x, w, bias, stride, padding, dilation, groups)


def conv_transpose(
    x: Any,
    w: Any,
    bias: Any = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    output_padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Returns the transposed convolution: what `conv` with these settings does to its input, backwards.

    Each element of `x` adds its multiple of the window to the result, the windows `stride` apart.

    Args:
        x: `[batch, channels, spatial...]`.
        w: `[channels, outputs / groups, window...]`, as PyTorch has them.
        bias: `[outputs]`, or None.
        stride: Elements between neighbouring windows in the result.
        padding: Elements cut off around the result: as in `conv`; `"same"` leaves `extent * stride`.
        output_padding: Elements more behind the result, which few or no windows reach.
        dilation: Elements between neighbours in a window.
        groups: How many separate convolutions lie side by side.

    Returns:
        `[batch, outputs, spatial'...]` of extents
        `(extent - 1) * stride + dilation * (window - 1) + 1 + output_padding - padding before - padding behind`.

    Raises:
        ShapeError: The shapes don't fit each other, or nothing is left of the result.
        DTypeError: The operands have no common dtype, or it is bool.
    """
    what = "conv_transpose"
    images, weights, count = _conv_operands(what, x, w, None)
    steps, holes = _listed(stride, count, f"{what}: strides"), _listed(dilation, count, f"{what}: dilations")
    more = _listed(output_padding, count, f"{what}: output paddings", 0)
    channels, taken, *window = weights.shape
    number = whole(groups, f"{what}: groups")
    if channels != images.shape[1] or number < 1 or channels % number:
        raise ShapeError(
            f"{user_line()}: {what}: {number} groups do not split {images.shape[1]} channels evenly between weights "
            f"for {channels}"
        )
    sizes = [spread(size, hole) for size, hole in zip(window, holes, strict=True)]
    low, high = _transposed_padding(padding, [size - s for size, s in zip(sizes, steps, strict=True)], what)
    for axis, (extent, size, s) in enumerate(zip(images.shape[2:], sizes, steps, strict=True)):
        if spread(extent, s) + size - 1 - low[axis] - high[axis] + more[axis] < 0:
            raise ShapeError(f"{user_line()}: {what}: the padding leaves nothing of spatial axis {axis}")
    split = reshape(weights, [number, channels // number, taken, *window])
    swapped = transpose(split, [0, 2, 1, *range(3, 3 + count)])
    turned = reshape(swapped, [number * taken, channels // number, *window])
    result = emit(
        convolution.ConvOp,
        [images, flip(turned, list(range(2, 2 + count)))],
        stride=ints([1] * count),
        low=ints([size - 1 - a for size, a in zip(sizes, low, strict=True)]),
        high=ints([size - 1 - a + b for size, a, b in zip(sizes, high, more, strict=True)]),
        lhs_dilation=ints(steps),
        rhs_dilation=ints(holes),
        groups=integer(number),
    )
    return _with_bias(what, result, bias)


def _transposed_padding(padding: Any, totals: Sequence[int], what: str) -> tuple[list[int], list[int]]:
    """As `_padding`; `"same"` may cut off less than nothing, where the stride is wider than the window."""
    if padding != "same":
        return _padding(padding, totals, what)
    return [total // 2 for total in totals], [total - total // 2 for total in totals]


# Pooling


def _pooled_axes(what: str, x: Tensor, size: Any) -> tuple[list[int], list[int]]:
    """Returns the last axes that windows slide over, and the windows' sizes."""
    count = len(size) if isinstance(size, (tuple, list)) else x.ndim - 2
    if not 0 < count <= x.ndim:
        raise ShapeError(f"{user_line()}: {what}: {x.shape} has no spatial axes for windows of {size!r}")
    return list(range(x.ndim - count, x.ndim)), _listed(size, count, f"{what}: sizes")


class Pool:
    """The windows of a pooling: where they lie, and how much padding they need."""

    def __init__(
        self, what: str, x: Tensor, size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
    ) -> None:
        self.axes, self.size = _pooled_axes(what, x, size)
        count = len(self.axes)
        self.stride = self.size if stride is None else _listed(stride, count, f"{what}: strides")
        self.dilation = _listed(dilation, count, f"{what}: dilations")
        self.extents = [x.shape[axis] for axis in self.axes]
        spans = [spread(n, d) for n, d in zip(self.size, self.dilation, strict=True)]
        self.low, self.high = _padding(padding, _same(self.extents, spans, self.stride), what)
        self.extra = [0] * count
        for i, (axis, extent, span, s) in enumerate(zip(self.axes, self.extents, spans, self.stride, strict=True)):
            padded = self.low[i] + extent + self.high[i]
            if max(self.low[i], self.high[i]) >= span or not extent or padded < span:
                raise ShapeError(
                    f"{user_line()}: {what}: windows that span {span} do not fit axis {axis} of extent {extent} padded "
                    f"by {self.low[i]} and {self.high[i]}: each must hold an element, and one must fit"
                )
            rest = (padded - span) % s
            # A last window that is cut off counts if it starts inside, as in PyTorch.
            if ceil_mode and rest and padded - rest - span + s < self.low[i] + extent:
                self.extra[i] = s - rest

    def windows(self, x: Tensor, filling: float) -> Tensor:
        """Returns the windows, their own axes last."""
        rank, high = x.ndim, [a + b for a, b in zip(self.high, self.extra, strict=True)]
        if any(self.low) or any(high):
            before, behind = [0] * rank, [0] * rank
            for axis, a, b in zip(self.axes, self.low, high, strict=True):
                before[axis], behind[axis] = a, b
            value = Array(np.asarray(filling, x.dtype))
            x = emit(shape.PadOp, [x, value], low=ints(before), high=ints(behind), interior=ints([0] * rank))
        return emit(
            convolution.WindowsOp,
            [x],
            axes=ints(self.axes),
            size=ints(self.size),
            stride=ints(self.stride),
            dilation=ints(self.dilation),
        )

    def shares(self) -> list[np.ndarray[Any, np.dtype[Any]]]:
        """For each axis and window, its extent over how much of it is not padding."""
        found: list[np.ndarray[Any, np.dtype[Any]]] = []
        for i, (extent, size, s, hole) in enumerate(
            zip(self.extents, self.size, self.stride, self.dilation, strict=True)
        ):
            padded = self.low[i] + extent + self.high[i] + self.extra[i]
            starts = np.arange(window_count(padded, spread(size, hole), s))[:, None] * s - self.low[i]
            at = starts + np.arange(size) * hole
            found.append(size / np.maximum(((at >= 0) & (at < extent)).sum(1), 1))
        return found

    def counts(self, count_padding: bool) -> np.ndarray[Any, np.dtype[Any]]:
        """Returns how many elements each window averages over."""
        total = np.ones((), np.int64)
        settings = zip(self.extents, self.size, self.stride, self.dilation, strict=True)
        for i, (extent, size, s, hole) in enumerate(settings):
            padded = self.low[i] + extent + self.high[i]
            first, last = (0, padded) if count_padding else (self.low[i], self.low[i] + extent)
            starts = np.arange(window_count(padded + self.extra[i], spread(size, hole), s))[:, None] * s
            at = starts + np.arange(size) * hole
            total = total[..., None] * ((at >= first) & (at < last)).sum(1)
        return total


def max_pool(
    x: Any,
    size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """Returns the largest element of each window, NaN if one is NaN.

    Equal maxima of a window, and several NaN, share its derivative evenly, as in `max` (PyTorch gives it to one). The
    padding has no share.

    Args:
        x: `[batch, channels, spatial...]`, or with any leading axes where `size` lists the windows' extents.
        size: The windows' extents; one number means all axes but the first two.
        stride: Elements between neighbouring windows; as far as the windows are wide by default.
        padding: As in `conv`, but never larger than any element: it wins nowhere.
        dilation: Elements between neighbours in a window.
        ceil_mode: Whether a last window that is cut off counts, if it starts inside.

    Raises:
        ShapeError: A window fits nowhere, or would hold padding only.
    """
    tensor = numbers("max_pool", x)[0]
    pool = Pool("max_pool", tensor, size, stride, padding, dilation, ceil_mode)
    lowest = -math.inf if is_float(tensor.dtype) else np.iinfo(tensor.dtype).min
    rank = tensor.ndim
    result = largest(pool.windows(tensor, lowest), tuple(range(rank, rank + len(pool.axes))))
    if not is_float(tensor.dtype):
        return result
    for axis, share in zip(pool.axes, pool.shares(), strict=True):
        if share.max(initial=1.0) > 1:
            # Elements of -inf are equal to the padding, which is to have no share of the derivative.
            factor = Array(share.astype(tensor.dtype).reshape([-1, *[1] * (rank - 1 - axis)]))
            result = where(equal(result, -math.inf), multiply(result, factor), result)
    return result


def avg_pool(
    x: Any,
    size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_padding: bool = True,
    dilation: Sizes = 1,
) -> Tensor:
    """Returns the mean of each window; integers average as f32.

    Args:
        x: As in `max_pool`, like all that follows.
        size: The windows' extents.
        stride: Elements between neighbouring windows.
        padding: Zeros around `x`.
        ceil_mode: Whether a last window that is cut off counts.
        count_padding: Whether zeros of the padding count as elements; if not, a window averages over what it holds of
            `x`. What `ceil_mode` adds never counts.
        dilation: Elements between neighbours in a window.

    Raises:
        ShapeError: A window fits nowhere, or would hold padding only.
    """
    tensor = numbers("avg_pool", x)[0]
    tensor = tensor if is_float(tensor.dtype) else cast(tensor, NAMES["f32"])
    pool = Pool("avg_pool", tensor, size, stride, padding, dilation, ceil_mode)
    rank = tensor.ndim
    total = sum_over(pool.windows(tensor, 0.0), tuple(range(rank, rank + len(pool.axes))))
    counts = pool.counts(count_padding)
    if counts.size and bool((counts == counts.flat[0]).all()):
        return multiply(total, 1.0 / int(counts.flat[0]))
    return divide(total, Array(counts.astype(tensor.dtype)))


def global_max_pool(x: Any, keepdims: bool = False) -> Tensor:
    """Returns the largest element of each channel of `[batch, channels, spatial...]`."""
    tensor = as_tensor(x)
    return largest(tensor, tuple(range(2, tensor.ndim)), keepdims)


def global_avg_pool(x: Any, keepdims: bool = False) -> Tensor:
    """Returns the mean of each channel of `[batch, channels, spatial...]`."""
    tensor = as_tensor(x)
    return mean(tensor, tuple(range(2, tensor.ndim)), keepdims)


# Resizing


def resize(x: Any, size: Sizes, method: str = "nearest") -> Tensor:
    """Returns the tensor with its last axes stretched or shrunk to `size`; element centres lie at half positions.

    Args:
        x: A tensor whose last axes are resized: `len(size)` of them, or all but the first two for one number.
        size: The new extents.
        method: `"nearest"`: the element under the new element's centre (PyTorch's `nearest-exact`); whole factors cost
            nothing. `"bilinear"`: along each axis the two elements around it, weighted by closeness (PyTorch's
            `linear`, `bilinear` and `trilinear` without `align_corners` or antialiasing); integers become f32. Only
            the elements that have a weight are looked at, so NaN and infinities don't spread further than that.

    Raises:
        ShapeError: An extent is 0, or there are no such axes.
        OptionError: There is no such method.
    """
    tensor = as_tensor(x)
    axes, wanted = _pooled_axes("resize", tensor, size)
    if method not in ("nearest", "bilinear"):
        raise OptionError(f"{user_line()}: resize: the method is 'nearest' or 'bilinear', not {method!r}")
    if not all(tensor.shape[axis] for axis in axes):
        raise ShapeError(f"{user_line()}: resize: {tensor.shape} has an axis without elements")
    if method == "bilinear" and not is_float(tensor.dtype):
        tensor = cast(tensor, NAMES["f32"])
    for axis, extent in zip(axes, wanted, strict=True):
        if tensor.shape[axis] != extent:
            tensor = (_nearest if method == "nearest" else _linear)(tensor, axis, extent)
    return tensor


def _nearest(x: Tensor, axis: int, wanted: int) -> Tensor:
    extent = x.shape[axis]
    if wanted % extent == 0:
        factor, before, behind = wanted // extent, x.shape[: axis + 1], x.shape[axis + 1 :]
        repeated = broadcast_to(reshape(x, [*before, 1, *behind]), [*before, factor, *behind])
        return reshape(repeated, [*x.shape[:axis], wanted, *behind])
    if extent % wanted == 0:
        step = extent // wanted
        return x[(*[slice(None)] * axis, slice(step // 2, None, step))]
    return take(x, Array(((2 * np.arange(wanted) + 1) * extent // (2 * wanted)).astype(np.int32)), axis)


def _linear(x: Tensor, axis: int, wanted: int) -> Tensor:
    extent = x.shape[axis]
    # The new element's centre is at (numerator / denominator) elements from the first one's.
    numerator, denominator = (2 * np.arange(wanted) + 1) * extent - wanted, 2 * wanted
    first, fraction = numerator // denominator, (numerator % denominator) / denominator
    second = first + (fraction > 0)
    shared = math.gcd(extent, wanted)
    period, step = wanted // shared, extent // shared
    low, high = int(first[:period].min()), int(second[:period].max())
    if high - low < WIDEST_WINDOW:
        return _by_windows(x, axis, (low, high, step), first[:period], fraction[:period])
    rest = [-1, *[1] * (x.ndim - 1 - axis)]
    weight = Array(fraction.astype(x.dtype).reshape(rest))
    at = [np.clip(part, 0, extent - 1).astype(np.int32) for part in (first, second)]
    left, right = (take(x, Array(part), axis) for part in at)
    return where(Array((fraction > 0).reshape(rest)), left * (1.0 - weight) + right * weight, left)


def _by_windows(
    x: Tensor,
    axis: int,
    window: tuple[int, int, int],
    first: np.ndarray[Any, np.dtype[Any]],
    fraction: np.ndarray[Any, np.dtype[Any]],
) -> Tensor:
    """Computes every period of new elements from a window over the old ones, as a sum of the few that have a weight."""
    low, high, step = window
    extent, rank, period = x.shape[axis], x.ndim, len(first)
    count, size = extent // step, high - low + 1
    behind = max((count - 1) * step + high - (extent - 1), 0)
    everything = [slice(None)] * axis
    edges = [x[(*everything, slice(0, 1))]] * max(-low, 0), [x[(*everything, slice(extent - 1, extent))]] * behind
    if any(edges):
        x = emit(shape.ConcatOp, [*edges[0], x, *edges[1]], axis=integer(axis))
    if low > 0:
        x = x[(*everything, slice(low, None))]
    windows = emit(
        convolution.WindowsOp, [x], axes=ints([axis]), size=ints([size]), stride=ints([step]), dilation=ints([1])
    )
    assert windows.shape[axis] == count
    weights = np.zeros((period, size))
    weights[np.arange(period), first - low] = 1 - fraction
    held = fraction > 0
    weights[np.arange(period)[held], first[held] - low + 1] = fraction[held]
    rest = windows.shape[axis + 1 : rank]
    spread_out = reshape(windows, [*windows.shape[: axis + 1], 1, *rest, size])
    shaped = [period, *[1] * len(rest), size]
    terms = multiply(spread_out, Array(weights.astype(x.dtype).reshape(shaped)))
    terms = where(Array((weights > 0).reshape(shaped)), terms, 0.0)
    result = sum_over(terms, -1)
    return reshape(result, [*x.shape[:axis], count * period, *rest])
