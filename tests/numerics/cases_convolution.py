"""Cases of convolutions, windows and their transposes, and einsum."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from case import Case, NumpyArray, f32, integers, normal

from tensorgrad.dialects.tg import contract, convolution
from tensorgrad.dialects.tg.base import integer, ints
from tensorgrad.ops import contract as contractions
from tensorgrad.ops import convolution as nn
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.tracing.tracer import emit

Ints = Sequence[int]


def dilated(x: NumpyArray, dilation: Ints) -> NumpyArray:
    """Inserts zeros between neighbours along the last axes."""
    first = x.ndim - len(dilation)
    extents = [(n - 1) * d + 1 if n else 0 for n, d in zip(x.shape[first:], dilation, strict=True)]
    result = np.zeros((*x.shape[:first], *extents), x.dtype)
    result[(..., *(slice(None, None, d) for d in dilation))] = x
    return result


def padded(x: NumpyArray, low: Ints, high: Ints) -> NumpyArray:
    """Pads the last axes with zeros; negative widths crop."""
    first = x.ndim - len(low)
    held = [(0, 0)] * first + [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)]
    full = np.pad(x, held)
    ends = [extent + min(b, 0) for extent, b in zip(full.shape[first:], high, strict=True)]
    return full[(..., *(slice(max(-a, 0), max(end, 0)) for a, end in zip(low, ends, strict=True)))]


def correlated(
    x: NumpyArray, w: NumpyArray, stride: Ints, low: Ints, high: Ints, lhs: Ints, rhs: Ints, groups: int
) -> NumpyArray:
    """Returns a convolution, computed for one output position after another."""
    images, window = padded(dilated(x, lhs), low, high), dilated(w, rhs)
    spans = window.shape[2:]
    counts = [(n - k) // s + 1 if n >= k else 0 for n, k, s in zip(images.shape[2:], spans, stride, strict=True)]
    result = np.zeros((len(x), len(w), *counts), x.dtype)
    each = len(w) // groups
    with np.errstate(all="ignore"):
        for out in range(len(w)):
            group = images[:, out // each * w.shape[1] :][:, : w.shape[1]]
            for place in np.ndindex(*counts):
                at = tuple(slice(p * s, p * s + k) for p, s, k in zip(place, stride, spans, strict=True))
                part = group[(slice(None), slice(None), *at)]
                result[(slice(None), out, *place)] = (part * window[out]).reshape(len(x), -1).sum(1)
    return result


def conv(stride: Ints, low: Ints, high: Ints, lhs: Ints, rhs: Ints, groups: int) -> Callable[..., Tensor]:
    return lambda x, w: emit(
        convolution.ConvOp,
        [x, w],
        stride=ints(stride),
        low=ints(low),
        high=ints(high),
        lhs_dilation=ints(lhs),
        rhs_dilation=ints(rhs),
        groups=integer(groups),
    )


CONVOLUTIONS: list[tuple[str, Ints, Ints, tuple[Ints, Ints, Ints, Ints, Ints, int]]] = [
    ("plain", (2, 2, 5), (3, 2, 3), ([1], [0], [0], [1], [1], 1)),
    ("strided and padded", (1, 2, 6), (2, 2, 3), ([2], [1], [2], [1], [1], 1)),
    ("rest behind", (1, 1, 6), (1, 1, 2), ([3], [0], [0], [1], [1], 1)),
    ("window with holes", (1, 1, 7), (2, 1, 3), ([1], [1], [0], [1], [2], 1)),
    ("image with holes", (1, 2, 3), (1, 2, 2), ([1], [1], [1], [3], [1], 1)),
    ("everything", (2, 2, 4), (2, 1, 2), ([2], [3], [1], [3], [2], 2)),
    ("cropped", (1, 1, 7), (1, 1, 2), ([1], [-1], [-2], [1], [1], 1)),
    ("cropped into holes", (1, 1, 4), (1, 1, 2), ([1], [-1], [0], [2], [1], 1)),
    ("one element", (1, 1, 1), (1, 1, 1), ([1], [0], [0], [1], [1], 1)),
    ("padding wider than the axis", (1, 1, 2), (1, 1, 2), ([2], [5], [4], [1], [1], 1)),
    ("no spatial axis", (3, 4), (2, 4), ([], [], [], [], [], 1)),
    ("no spatial axis, groups", (3, 4), (6, 2), ([], [], [], [], [], 2)),
    ("two axes", (2, 2, 4, 3), (3, 2, 2, 3), ([2, 1], [0, 1], [1, 1], [1, 1], [1, 1], 1)),
    ("depthwise", (2, 3, 4, 4), (3, 1, 2, 2), ([1, 2], [1, 0], [0, 1], [1, 1], [1, 1], 3)),
    ("depthwise, two each", (1, 2, 3, 3), (4, 1, 2, 2), ([1, 1], [0, 0], [0, 0], [1, 1], [1, 1], 2)),
    ("two axes, holes", (1, 2, 3, 4), (2, 2, 2, 2), ([1, 2], [1, 2], [0, 1], [2, 1], [1, 2], 1)),
    ("window of two strides", (2, 2, 3, 2), (3, 2, 4, 4), ([1, 1], [2, 2], [2, 2], [2, 2], [1, 1], 1)),
    ("window shorter than the holes", (1, 2, 3), (2, 2, 1), ([1], [0], [2], [3], [1], 1)),
    ("window between the holes' multiples", (1, 2, 3), (2, 2, 5), ([1], [4], [5], [3], [1], 1)),
    ("every other phase empty", (1, 1, 4), (2, 1, 3), ([1], [2], [3], [2], [2], 1)),
    ("stride and holes with a factor", (1, 2, 4), (2, 2, 5), ([2], [3], [4], [4], [1], 1)),
    ("stride wider than the holes", (1, 2, 6), (2, 2, 4), ([3], [3], [2], [2], [1], 1)),
    ("dilated by a coprime", (1, 1, 4), (1, 1, 4), ([1], [3], [4], [3], [2], 1)),
    ("fewer results than phases", (1, 2, 2), (2, 2, 4), ([1], [2], [-1], [4], [1], 1)),
    ("rest behind the phases", (1, 2, 3, 2), (2, 2, 3, 2), ([1, 1], [2, 0], [2, 3], [2, 3], [1, 1], 1)),
    ("depthwise, holes", (2, 3, 3, 3), (3, 1, 3, 3), ([1, 1], [1, 1], [2, 2], [2, 2], [1, 1], 3)),
    ("holes, few outputs", (2, 8, 3, 3), (2, 8, 4, 2), ([1, 1], [2, 0], [2, 1], [2, 3], [1, 1], 1)),
    ("holes, few outputs, strides", (1, 6, 4), (3, 6, 4), ([3], [3], [2], [2], [3], 1)),
    ("three axes, holes", (1, 2, 2, 2, 2), (2, 2, 2, 3, 1), ([1, 1, 1], [1, 1, 0], [1, 2, 1], [2, 2, 2], [1, 1, 1], 1)),
    ("three axes", (1, 2, 2, 3, 3), (2, 2, 2, 1, 2), ([1, 1, 2], [1, 0, 1], [0, 0, 1], [1, 1, 1], [1, 2, 1], 1)),
]


def conv_cases() -> Iterator[Case]:
    for note, x, w, settings in CONVOLUTIONS:
        yield Case(
            convolution.ConvOp,
            note,
            conv(*settings),
            (normal(*x), normal(*w, seed=1)),
            lambda x, w, s=settings: correlated(x, w, *s),
            derivative=True,
        )
    empty: list[tuple[str, Ints, Ints, tuple[Ints, Ints, Ints, Ints, Ints, int]]] = [
        ("no image", (0, 2, 4), (3, 2, 2), ([1], [0], [0], [1], [1], 1)),
        ("no channel", (2, 0, 4), (3, 0, 2), ([1], [0], [0], [1], [1], 1)),
        ("no output", (2, 2, 4), (0, 2, 2), ([1], [0], [0], [1], [1], 1)),
        ("no position", (2, 2, 1), (3, 2, 2), ([1], [0], [0], [1], [1], 1)),
        ("padding only", (2, 2, 0), (3, 2, 2), ([1], [1], [2], [1], [1], 1)),
        ("only holes", (1, 1, 3), (1, 1, 3), ([2], [1], [3], [2], [2], 1)),
        ("empty window", (2, 2, 3), (3, 2, 0), ([2], [0], [0], [1], [1], 1)),
    ]
    for note, x, w, settings in empty:
        result = (x[0], w[0], {"padding only": 2, "empty window": 2}.get(note, 0 if note == "no position" else 3))
        yield Case(
            convolution.ConvOp,
            note,
            conv(*settings),
            (normal(*x), normal(*w)),
            lambda x, w, r=result: np.zeros(r, np.float32),
            derivative=True,
            flat=(0, 1),
        )
    plain = ([2], [1], [1], [1], [1], 1)
    yield Case(
        convolution.ConvOp,
        "i32",
        conv(*plain),
        (integers(-9, 9, 2, 2, 5), integers(-9, 9, 3, 2, 3)),
        lambda x, w: correlated(x, w, *plain),
    )
    yield Case(
        convolution.ConvOp,
        "u32 wraps",
        conv(*plain),
        (integers(2**30, 2**32, 1, 2, 5, dtype=np.uint32), integers(2**30, 2**32, 1, 2, 3, dtype=np.uint32)),
        lambda x, w: correlated(x, w, *plain),
    )
    yield Case(
        convolution.ConvOp,
        "special",
        conv([1], [1], [1], [1], [1], 1),
        (f32(1, np.inf, 0, np.nan, 2, 3).reshape(1, 1, 6), f32(1, 2).reshape(1, 1, 2)),
        lambda x, w: f32(2, np.inf, np.inf, np.nan, np.nan, 8, 3).reshape(1, 1, 7),
    )
    yield Case(
        convolution.ConvOp,
        "an infinite weight over padding",
        conv([1], [1], [0], [1], [1], 1),
        (f32(1, 2).reshape(1, 1, 2), f32(np.inf, 1).reshape(1, 1, 2)),
        lambda x, w: f32(np.nan, np.inf).reshape(1, 1, 2),
    )
    yield Case(
        convolution.ConvOp,
        "a square",
        lambda x: conv([1], [1], [1], [1], [1], 1)(x, x),
        (normal(2, 2, 3),),
        lambda x: correlated(x, x, [1], [1], [1], [1], [1], 1),
        derivative=True,
    )
    yield Case(
        convolution.ConvOp,
        "of views",
        lambda x, w: conv([1, 1], [1, 0], [0, 1], [1, 1], [1, 1], 1)(
            x.transpose(3, 0, 2, 1)[:, :, ::-1], w.reshape(2, 3, 2, 2)
        ),
        (normal(3, 4, 3, 2), normal(6, 4, seed=1)),
        lambda x, w: correlated(
            x.transpose(3, 0, 2, 1)[:, :, ::-1], w.reshape(2, 3, 2, 2), [1, 1], [1, 0], [0, 1], [1, 1], [1, 1], 1
        ),
        derivative=True,
    )
    yield Case(
        convolution.ConvOp,
        "bias and activation",
        lambda x, w, b: nn.conv2d(x, w, b, padding=1).tanh(),
        (normal(1, 2, 3, 3), normal(2, 2, 3, 3, seed=1), normal(2)),
        lambda x, w, b: np.tanh(correlated(x, w, [1, 1], [1, 1], [1, 1], [1, 1], [1, 1], 1) + b[:, None, None]),
        derivative=True,
    )
    yield Case(
        convolution.ConvOp,
        "same",
        lambda x, w: nn.conv1d(x, w, stride=2, padding="same"),
        (normal(1, 1, 5), normal(1, 1, 4)),
        lambda x, w: correlated(x, w, [2], [1], [2], [1], [1], 1),
        derivative=True,
    )
    yield Case(
        convolution.ConvOp,
        "transposed",
        lambda x, w: nn.conv_transpose(x, w, stride=2, padding=1, output_padding=1, groups=2),
        (normal(1, 2, 3, 2), normal(2, 2, 3, 3, seed=1)),
        transposed,
        derivative=True,
    )
    for a, b in (((3, 8, 9, 9), (20, 8, 3, 3)), ((2, 16, 14, 14), (16, 1, 5, 5)), ((1, 3, 20, 33), (70, 3, 3, 3))):
        settings = ([1, 1], [1, 1], [1, 1], [1, 1], [1, 1], a[1] // b[1])
        yield Case(
            convolution.ConvOp,
            f"{a} by {b}",
            conv(*settings),
            (normal(*a), normal(*b, seed=1)),
            lambda x, w, s=settings: correlated(x.astype(np.float64), w.astype(np.float64), *s).astype(x.dtype),
            rtol=2e-5,
        )


def transposed(x: NumpyArray, w: NumpyArray) -> NumpyArray:
    """Returns a transposed convolution: stride 2, padding 1, output padding 1, two groups of one channel."""
    height, width = ((n - 1) * 2 + 4 for n in x.shape[2:])
    full = np.zeros((len(x), 4, height, width), x.dtype)
    for n, c, i, j in np.ndindex(*x.shape):
        full[n, 2 * c : 2 * c + 2, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3] += x[n, c, i, j] * w[c]
    return full[:, :, 1 : height - 1, 1 : width - 1]


def windows(axes: Ints, size: Ints, stride: Ints, dilation: Ints) -> Callable[..., Tensor]:
    return lambda x: emit(
        convolution.WindowsOp, [x], axes=ints(axes), size=ints(size), stride=ints(stride), dilation=ints(dilation)
    )


def fold(axes: Ints, stride: Ints, dilation: Ints, extents: Ints) -> Callable[..., Tensor]:
    return lambda x: emit(
        convolution.FoldOp, [x], axes=ints(axes), stride=ints(stride), dilation=ints(dilation), extents=ints(extents)
    )


def places(extents: Ints, axes: Ints, size: Ints, stride: Ints, dilation: Ints) -> NumpyArray:
    """Returns the row-major index in the tensor of every element of every window."""
    positions = np.arange(int(np.prod(extents))).reshape(extents)
    counts = [*extents]
    for axis, n, s, d in zip(axes, size, stride, dilation, strict=True):
        span = (n - 1) * d + 1
        counts[axis] = (extents[axis] - span) // s + 1 if extents[axis] >= span else 0
    result = np.zeros((*counts, *size), np.int64)
    for place in np.ndindex(*result.shape):
        at = list(place[: len(extents)])
        for axis, k, s, d in zip(axes, place[len(extents) :], stride, dilation, strict=True):
            at[axis] = at[axis] * s + k * d
        result[place] = positions[tuple(at)]
    return result


WINDOWS: list[tuple[str, Ints, tuple[Ints, Ints, Ints, Ints]]] = [
    ("overlapping", (6,), ([0], [3], [1], [1])),
    ("side by side", (3, 6), ([1], [2], [2], [1])),
    ("with a rest", (2, 7), ([1], [2], [3], [1])),
    ("gaps and a rest", (9,), ([0], [2], [4], [1])),
    ("holes", (8,), ([0], [3], [2], [2])),
    ("holes wider than steps", (9,), ([0], [2], [1], [4])),
    ("one window", (2, 5), ([1], [3], [2], [2])),
    ("windows of one", (2, 5), ([1], [1], [2], [1])),
    ("two axes", (2, 4, 5), ([1, 2], [2, 3], [2, 1], [1, 1])),
    ("crossed axes", (4, 2, 5), ([2, 0], [2, 2], [3, 1], [1, 2])),
    ("no axis", (2, 3), ([], [], [], [])),
]


def window_cases() -> Iterator[Case]:
    for note, extents, settings in WINDOWS:
        where = places(extents, *settings)
        axes, _, stride, dilation = settings
        x, updates = normal(*extents), normal(*where.shape, seed=3)

        def folded(u: NumpyArray, e: Ints = extents, at: NumpyArray = where) -> NumpyArray:
            total = np.zeros(int(np.prod(e)), u.dtype)
            np.add.at(total, at.reshape(-1), u.reshape(-1))
            return total.reshape(e)

        ours = fold(axes, stride, dilation, [extents[axis] for axis in axes])
        yield Case(
            convolution.WindowsOp,
            note,
            windows(*settings),
            (x,),
            lambda x, at=where: x.reshape(-1)[at],
            derivative=True,
            rtol=0,
        )
        yield Case(
            convolution.WindowsOp, f"{note} bool", windows(*settings), (x > 0,), lambda x, at=where: x.reshape(-1)[at]
        )
        yield Case(convolution.FoldOp, note, ours, (updates,), folded, derivative=True)
        yield Case(convolution.FoldOp, f"{note} i32", ours, ((updates * 100).astype(np.int32),), folded)
        take = windows(*settings)
        yield Case(
            convolution.FoldOp,
            f"{note} of windows",
            lambda x, f=ours, w=take: f(w(x) * w(x)),
            (x,),
            lambda x, f=folded, at=where: f(x.reshape(-1)[at] ** 2),
            derivative=True,
        )
    yield Case(
        convolution.WindowsOp,
        "none fits",
        windows([1], [3], [1], [1]),
        (normal(2, 2),),
        lambda x: np.zeros((2, 0, 3), x.dtype),
        derivative=True,
        flat=(0,),
    )
    yield Case(
        convolution.FoldOp,
        "of nothing",
        fold([1], [1], [1], [2]),
        (normal(2, 0, 3),),
        lambda x: np.zeros((2, 2), x.dtype),
        derivative=True,
        flat=(0,),
    )
    yield Case(
        convolution.FoldOp,
        "infinities stay in place",
        fold([0], [2], [1], [5]),
        (f32(np.inf, 1, np.nan, 2).reshape(2, 2),),
        lambda x: f32(np.inf, 1, np.nan, 2, 0),
    )
    yield Case(
        convolution.FoldOp,
        "overlapping infinities",
        fold([0], [1], [1], [4]),
        (f32(np.inf, 1, 3, np.nan, 2, 5).reshape(3, 2),),
        lambda x: f32(np.inf, 4, np.nan, 5),
    )


def einsum_cases() -> Iterator[Case]:
    samples: list[tuple[str, list[Ints]]] = [
        ("ij,jk->ik", [(3, 4), (4, 2)]),
        ("bij,bkj->bik", [(2, 3, 4), (2, 2, 4)]),
        ("bhid,bhjd->bhij", [(1, 2, 3, 2), (1, 2, 2, 2)]),
        ("ij,j->", [(3, 4), (4,)]),
        ("ij,kl->kj", [(3, 4), (2, 3)]),
        ("i,j,k->kji", [(2,), (3,), (2,)]),
        ("ij,jk,kl,i->l", [(2, 3), (3, 4), (4, 2), (2,)]),
        ("iij,j->ij", [(3, 3, 2), (2,)]),
        ("...ij,...jk->...ik", [(2, 1, 2, 3), (2, 3, 2)]),
        ("ij,jk->ik", [(3, 1), (4, 2)]),
    ]
    for number, (subscripts, extents) in enumerate(samples):
        values = tuple(normal(*extent, seed=seed) for seed, extent in enumerate(extents))
        yield Case(
            contract.DotGeneralOp,
            f"einsum {number} {subscripts}",
            lambda *x, s=subscripts: contractions.einsum(s, *x),
            values,
            lambda *x, s=subscripts: np.einsum(s, *x),
            derivative=True,
        )
    yield Case(
        contract.DotGeneralOp,
        "einsum sums an ellipsis",
        lambda x, y: contractions.einsum("...ij,...j->i", x, y),
        (normal(2, 3, 4), normal(2, 4, seed=1)),
        lambda x, y: np.einsum("bij,bj->i", x, y),
        derivative=True,
    )
    yield Case(
        contract.DotGeneralOp,
        "einsum i32",
        lambda x, y: contractions.einsum("ij,jk", x, y),
        (integers(-9, 9, 2, 3), integers(-9, 9, 3, 2)),
        lambda x, y: x @ y,
    )
    yield Case(
        contract.DotGeneralOp,
        "tensordot",
        lambda x, y: contractions.tensordot(x, y, ([0, -1], [1, 0])),
        (normal(2, 3, 4), normal(4, 2, 2, seed=1)),
        lambda x, y: np.tensordot(x, y, ([0, -1], [1, 0])),
        derivative=True,
    )
    yield Case(
        contract.DotGeneralOp, "outer product", contractions.outer, (normal(2, 2), normal(3)), np.outer, derivative=True
    )


def convolution_cases() -> Iterator[Case]:
    """Returns all cases of convolutions, windows and einsum."""
    yield from conv_cases()
    yield from window_cases()
    yield from einsum_cases()
