"""Cases of pooling, resizing, and of windows as columns."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from case import Case, NumpyArray, distinct, f32, integers, normal

from tensorgrad.dialects.tg import convolution, index, reduce
from tensorgrad.ops import columns, pooling, resizing


def pooled(x: NumpyArray, size: int, stride: int, low: int, high: int, filling: float) -> NumpyArray:
    """Returns the windows over the last two axes, each flattened along a last axis."""
    full = np.pad(x, [(0, 0), (0, 0), (low, high), (low, high)], constant_values=filling)
    rows, columns = ((n - size) // stride + 1 for n in full.shape[2:])
    result = np.zeros((*x.shape[:2], rows, columns, size * size), x.dtype)
    for i, j in itertools.product(range(rows), range(columns)):
        part = full[:, :, i * stride : i * stride + size, j * stride : j * stride + size]
        result[:, :, i, j] = part.reshape(*x.shape[:2], -1)
    return result


def holed_means(x: NumpyArray, count_padding: bool) -> NumpyArray:
    """Returns means of pairs 3 apart, with stride 2, of rows padded with 1 zero before and 2 after."""
    full = np.pad(x, [(0, 0), (1, 2)], constant_values=0 if count_padding else np.nan)
    return np.nanmean([full[:, 0:8:2], full[:, 3:11:2]], 0)


def pool_cases() -> Iterator[Case]:
    for note, size, stride, low, high in (
        ("side by side", 2, 2, 0, 0),
        ("overlapping", 3, 2, 1, 1),
        ("one sided", 2, 1, 1, 0),
    ):
        settings: dict[str, Any] = {"stride": stride, "padding": [(low, high)] * 2}
        sample = (1, 2, 4, 4)
        yield Case(
            convolution.WindowsOp,
            f"max pool {note}",
            lambda x, n=size, s=settings: pooling.max_pool(x, n, **s),
            (distinct(*sample),),
            lambda x, n=size, s=stride, a=low, b=high: pooled(x, n, s, a, b, -np.inf).max(-1),
            derivative=True,
        )
        yield Case(
            convolution.WindowsOp,
            f"avg pool {note}",
            lambda x, n=size, s=settings: pooling.avg_pool(x, n, **s),
            (normal(*sample),),
            lambda x, n=size, s=stride, a=low, b=high: pooled(x, n, s, a, b, 0).mean(-1),
            derivative=True,
        )
        yield Case(
            convolution.WindowsOp,
            f"avg pool {note}, counted",
            lambda x, n=size, s=settings: pooling.avg_pool(x, n, count_padding=False, **s),
            (normal(*sample),),
            lambda x, n=size, s=stride, a=low, b=high: np.nanmean(pooled(x, n, s, a, b, np.nan), -1),
            derivative=True,
        )
        yield Case(
            convolution.WindowsOp,
            f"avg pool {note}, divided by 5",
            lambda x, n=size, s=settings: pooling.avg_pool(x, n, divisor_override=5, **s),
            (normal(*sample),),
            lambda x, n=size, s=stride, a=low, b=high: pooled(x, n, s, a, b, 0).sum(-1) / x.dtype.type(5),
            derivative=True,
        )
        yield Case(
            convolution.WindowsOp,
            f"max pool {note}, indices",
            lambda x, n=size, s=settings: pooling.max_pool(x, n, return_indices=True, **s)[1],
            (distinct(*sample),),
            lambda x, n=size, s=stride, a=low, b=high: highest(x, n, s, a, b),
        )
    for count_padding in (True, False):
        yield Case(
            convolution.WindowsOp,
            f"avg pool dilated {count_padding}",
            lambda x, c=count_padding: pooling.avg_pool(x, [2], 2, [(1, 2)], dilation=3, count_padding=c),
            (normal(2, 8),),
            lambda x, c=count_padding: holed_means(x, c),
            derivative=True,
        )
    yield Case(
        convolution.WindowsOp,
        "max pool i32",
        lambda x: pooling.max_pool(x, 3, 2, 1),
        (integers(-99, -9, 1, 2, 5, 5),),
        lambda x: pooled(x, 3, 2, 1, 1, -(2**31)).max(-1),
    )
    yield Case(
        convolution.WindowsOp,
        "max pool NaN",
        lambda x: pooling.max_pool(x, [2], 1),
        (f32(1, np.nan, -np.inf, -np.inf, np.inf),),
        lambda x: f32(np.nan, np.nan, -np.inf, np.inf),
    )
    yield Case(
        reduce.MaxOp,
        "global max pool",
        pooling.global_max_pool,
        (distinct(2, 2, 2, 3),),
        lambda x: x.max((2, 3)),
        derivative=True,
    )
    yield Case(
        reduce.SumOp,
        "global average pool",
        lambda x: pooling.global_avg_pool(x, keepdims=True),
        (normal(2, 2, 2, 3),),
        lambda x: x.mean((2, 3), keepdims=True),
        derivative=True,
    )


def highest(x: NumpyArray, size: int, stride: int, low: int, high: int) -> NumpyArray:
    """Returns the indices in the plane of the maxima of the windows over the last two axes."""
    places = np.broadcast_to(np.arange(x[0, 0].size).reshape(x.shape[2:]), x.shape)
    argmax = pooled(x, size, stride, low, high, -np.inf).argmax(-1)[..., None]
    return np.take_along_axis(pooled(places, size, stride, low, high, -1), argmax, -1)[..., 0].astype(np.int32)


def parts(extent: int, count: int) -> list[slice]:
    """Returns the ranges along an axis that adaptive pooling reduces."""
    return [slice(int(np.floor(i * extent / count)), int(np.ceil((i + 1) * extent / count))) for i in range(count)]


def in_parts(x: NumpyArray, counts: Sequence[int], function: Any) -> NumpyArray:
    """Applies a function to the adaptive pooling parts of the last two axes."""
    rows, columns = (parts(n, count) for n, count in zip(x.shape[-2:], counts, strict=True))
    return np.stack([np.stack([function(x[..., r, c], (-2, -1)) for c in columns], -1) for r in rows], -2)


def adaptive_cases() -> Iterator[Case]:
    for counts in ((2, 3), (1, 2), (3, 5), (4, 7)):
        for name, function, ours in (
            ("average", np.mean, pooling.adaptive_avg_pool),
            ("max", np.max, pooling.adaptive_max_pool),
        ):
            even = counts == (1, 2) or (counts == (2, 3) and name == "max")
            yield Case(
                convolution.WindowsOp if even or name == "average" else index.TakeOp,
                f"adaptive {name} pool {counts}",
                lambda x, n=counts, f=ours: f(x, n) * 1.5,
                (distinct(2, 4, 6),),
                lambda x, n=counts, f=function: in_parts(x, n, f) * np.float32(1.5),
                derivative=True,
                rtol=2e-6,
            )
        yield Case(
            reduce.MaxOp,
            f"adaptive max pool {counts}, indices",
            lambda x, n=counts: pooling.adaptive_max_pool(x, n, return_indices=True)[1],
            (distinct(4, 6),),
            lambda x, n=counts: (x.reshape(-1) == in_parts(x, n, np.max)[..., None]).argmax(-1).astype(np.int32),
        )
    yield Case(
        index.ScatterReduceAlongAxisOp,
        "max unpool",
        lambda x, i: pooling.max_unpool(x, i, 2, output_size=(4, 5)) * 1.5,
        (normal(1, 2, 2, 2), np.array([[[[0, 6], [12, 18]], [[1, 4], [15, 13]]]], np.int32)),
        lambda x, i: unpooled(x, i, (4, 5)) * np.float32(1.5),
        derivative=True,
    )


def unpooled(x: NumpyArray, indices: NumpyArray, extents: tuple[int, int]) -> NumpyArray:
    """Returns zeros with the elements at their indices in the plane."""
    result = np.zeros((*x.shape[:2], extents[0] * extents[1]), x.dtype)
    np.put_along_axis(result, indices.reshape(*x.shape[:2], -1), x.reshape(*x.shape[:2], -1), -1)
    return result.reshape(*x.shape[:2], *extents)


def column_cases() -> Iterator[Case]:
    for axis, size, step in ((0, 2, 1), (1, 3, 2), (-1, 2, 4)):
        yield Case(
            convolution.WindowsOp,
            f"unfold {axis} {size} {step}",
            lambda x, a=axis, n=size, s=step: columns.unfold(x, a, n, s),
            (normal(3, 5),),
            lambda x, a=axis, n=size, s=step: np.stack(
                [np.moveaxis(x, a, 0)[i : i + n] for i in range(0, x.shape[a] - n + 1, s)]
            ).transpose([0, 2, 1] if a == 0 else [2, 0, 1]),
            derivative=True,
            rtol=0,
        )
    for stride, margin in ((1, 0), (2, 1)):
        yield Case(
            convolution.WindowsOp,
            f"im2col {stride} {margin}",
            lambda x, s=stride, m=margin: columns.im2col(x, 2, s, m),
            (normal(2, 2, 3, 4),),
            lambda x, s=stride, m=margin: in_columns(x, 2, s, m),
            derivative=True,
            rtol=0,
        )
        count = in_columns(normal(1, 1, 3, 4), 2, stride, margin).shape[-1]
        yield Case(
            convolution.FoldOp,
            f"col2im {stride} {margin}",
            lambda x, s=stride, m=margin: columns.col2im(x, (3, 4), 2, s, m),
            (normal(2, 8, count),),
            lambda x, s=stride, m=margin: folded(x, (3, 4), 2, s, m),
            derivative=True,
        )


def in_columns(x: NumpyArray, size: int, stride: int, margin: int) -> NumpyArray:
    """Returns the windows over the last two axes as columns."""
    flat = pooled(x, size, stride, margin, margin, 0)
    return np.moveaxis(flat, -1, 2).reshape(len(x), x.shape[1] * size * size, -1)


def folded(x: NumpyArray, extents: tuple[int, int], size: int, stride: int, margin: int) -> NumpyArray:
    """Adds each column to the positions of its window."""
    channels = x.shape[1] // size**2
    places = np.arange(1, extents[0] * extents[1] + 1, dtype=np.float64).reshape(1, 1, *extents)
    at = in_columns(places, size, stride, margin).astype(int).reshape(-1)
    total = np.zeros((len(x), channels, extents[0] * extents[1] + 1), x.dtype)
    for n, c in np.ndindex(len(x), channels):
        np.add.at(total[n, c], at, x.reshape(len(x), channels, -1)[n, c])
    return total[:, :, 1:].reshape(len(x), channels, *extents)


def interpolated(x: NumpyArray, extent: int) -> NumpyArray:
    """Interpolates linearly along the last axis, between the centers of elements."""
    at = np.clip((np.arange(extent) + 0.5) * x.shape[-1] / extent - 0.5, 0, x.shape[-1] - 1)
    first = np.minimum(at.astype(np.int64), x.shape[-1] - 2) if x.shape[-1] > 1 else np.zeros(extent, np.int64)
    second = np.minimum(first + 1, x.shape[-1] - 1)
    return (x[..., first] * (1 - (at - first)) + x[..., second] * (at - first)).astype(x.dtype)


def aligned(x: NumpyArray, extent: int) -> NumpyArray:
    """Interpolates linearly along the last axis, keeping the first and the last element in place."""
    at = np.linspace(0, x.shape[-1] - 1, extent)
    return np.stack([np.interp(at, np.arange(x.shape[-1]), row) for row in x]).astype(x.dtype)


def triangle(distance: NumpyArray) -> NumpyArray:
    return np.maximum(1 - distance, 0)


def keys(distance: NumpyArray) -> NumpyArray:
    """Returns Keys' cubic kernel with a = -3/4."""
    near = 1.25 * distance**3 - 2.25 * distance**2 + 1
    return np.where(distance < 1, near, np.where(distance < 2, -0.75 * (distance - 1) * (distance - 2) ** 2, 0))


def spaced(x: NumpyArray, factor: float, kernel: Callable[[NumpyArray], NumpyArray]) -> NumpyArray:
    """Interpolates along the last axis by a kernel, with new elements `1 / factor` apart; edges are repeated."""
    extent = x.shape[-1]
    at = (np.arange(int(extent * factor)) + 0.5) / factor - 0.5
    old = np.arange(-3, extent + 3)
    return (x[:, np.clip(old, 0, extent - 1)] @ kernel(np.abs(old[:, None] - at))).astype(x.dtype)


def resize_cases() -> Iterator[Case]:
    for extent, new_extent in ((2, 4), (3, 9), (4, 6), (6, 4), (8, 2), (1, 3), (4, 1)):
        yield Case(
            convolution.WindowsOp,
            f"resize {extent} to {new_extent}",
            lambda x, n=new_extent: resizing.resize(x, [n], "bilinear") * 1.5,
            (normal(2, extent),),
            lambda x, n=new_extent: interpolated(x, n) * np.float32(1.5),
            derivative=True,
        )
    yield Case(
        convolution.WindowsOp,
        "resize two axes",
        lambda x: resizing.resize(x, [4, 6], "bilinear"),
        (normal(2, 2, 4),),
        lambda x: interpolated(interpolated(x, 6).swapaxes(1, 2), 4).swapaxes(1, 2),
        derivative=True,
    )
    for extent, new_extent in ((3, 5), (5, 4), (4, 9), (6, 3)):
        yield Case(
            convolution.WindowsOp,
            f"resize {extent} to {new_extent}, aligned",
            lambda x, n=new_extent: resizing.resize(x, [n], "linear", align_corners=True) * 1.5,
            (normal(2, extent),),
            lambda x, n=new_extent: aligned(x, n) * np.float32(1.5),
            derivative=True,
        )
    for method, factor, places in (
        ("nearest", 1.5, [0, 1, 1, 2, 3, 3]),
        ("nearest-floor", 1.5, [0, 0, 1, 2, 2, 3]),
        ("nearest-floor", 1.3, [0, 0, 1, 2, 3]),
    ):
        yield Case(
            index.TakeOp,
            f"resize {method} by {factor}",
            lambda x, m=method, f=factor: resizing.resize(x, method=m, scale_factor=[f]) * 1.5,
            (normal(2, 4),),
            lambda x, p=places: x[:, p] * np.float32(1.5),
            derivative=True,
        )
    for extent, factor in ((5, 1.3), (6, 0.75), (3, 2.0), (7, 0.5), (30, 0.9)):
        for method, kernel in (("linear", triangle), ("cubic", keys)):
            yield Case(
                index.TakeOp if extent == 30 else convolution.WindowsOp,
                f"resize {method} {extent} by {factor}",
                lambda x, m=method, f=factor: resizing.resize(x, method=m, scale_factor=[f]) * 1.5,
                (normal(2, extent),),
                lambda x, f=factor, k=kernel: spaced(x, f, k) * np.float32(1.5),
                derivative=True,
            )
    yield Case(
        convolution.WindowsOp,
        "resize keeps infinities apart",
        lambda x: resizing.resize(x, [6], "bilinear"),
        (f32(1, np.inf, 2),),
        lambda x: f32(1, np.inf, np.inf, np.inf, np.inf, 2),
    )


def window_function_cases() -> Iterator[Case]:
    """Returns all cases of pooling, resizing and columns."""
    yield from pool_cases()
    yield from adaptive_cases()
    yield from column_cases()
    yield from resize_cases()
