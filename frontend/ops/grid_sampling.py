"""Reading images at fractional positions, which tensors say.

A position has a few weighted neighbors on each axis, which are gathered.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tensorgrad.errors import OptionError, ShapeError
from tensorgrad.ops.creation import ones
from tensorgrad.ops.elementwise.arithmetic import (
    abs,
    clip,
    equal,
    greater_equal,
    less_equal,
    logical_and,
    remainder,
    stop_gradient,
    where,
)
from tensorgrad.ops.elementwise.functions import floor, round
from tensorgrad.ops.promotion import as_tensor, cast
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.ops.shape import elements_at, expand_dims, reshape
from tensorgrad.tracing.dtypes import NAMES, is_float
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Tensor


@dataclass(frozen=True)
class Tap:
    """A neighbor of each position on an axis: its index, clamped to the axis, and its weight."""

    index: Tensor
    weight: Tensor


Bounded = Callable[[Tensor], Tensor]
"""Maps integral positions, as floats, into an axis."""


def _taps(extent: int, weights: Sequence[Tensor], first: Tensor, zeros: bool, bounded: Bounded) -> list[Tap]:
    results: list[Tap] = []
    for i, weight in enumerate(weights):
        place = first + float(i)
        if zeros:
            weight = where(_within(place, 0.0, extent - 1.0), weight, weight * 0.0)  # NaN where the position is
        clamped = clip(bounded(place), 0.0, extent - 1.0)
        results.append(Tap(cast(stop_gradient(clamped), NAMES["i32"]), weight))
    return results


def _within(x: Tensor, low: float, high: float) -> Tensor:
    return logical_and(greater_equal(x, low), less_equal(x, high))


def _same(place: Tensor) -> Tensor:
    return place


def linear(position: Tensor, extent: int, zeros: bool = True, bounded: Bounded = _same) -> list[Tap]:
    """Returns the two neighbors, weighted by proximity; those outside have weight 0, or are clamped to the edge."""
    first = stop_gradient(floor(position))
    share = position - first
    return _taps(extent, [1.0 - share, share], first, zeros, bounded)


def _cubic(position: Tensor, extent: int, zeros: bool, bounded: Bounded) -> list[Tap]:
    """Returns the four neighbors, weighted by Keys' kernel with a = -0.75."""
    a, first = -0.75, stop_gradient(floor(position))
    share = position - first
    rest = 1.0 - share

    def near(d: Tensor) -> Tensor:
        return ((a + 2) * d - (a + 3)) * d * d + 1.0

    def far(d: Tensor) -> Tensor:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    weights = [far(share + 1.0), near(share), near(rest), far(rest + 1.0)]
    return _taps(extent, weights, first - 1.0, zeros, bounded)


def _nearest(position: Tensor, extent: int, zeros: bool, bounded: Bounded) -> list[Tap]:
    return _taps(extent, [ones(position.shape, position.dtype)], stop_gradient(round(position)), zeros, bounded)


def read(x: Tensor, taps: Sequence[Sequence[Tap]]) -> list[Tensor]:
    """Returns each weighted combination of the axes' neighbors; their sum is the elements at the positions.

    Args:
        x: `[batch, channels, spatial...]`.
        taps: For each spatial axis, its neighbors, `[batch, positions]`.

    Returns:
        Terms of shape `[batch, channels, positions]`.
    """
    extents = x.shape[2:]
    flat = reshape(x, (*x.shape[:2], -1))
    terms: list[Tensor] = []
    for combination in itertools.product(*taps):
        index, weight = combination[0].index, combination[0].weight
        for tap, extent in zip(combination[1:], extents[1:], strict=True):
            index, weight = index * extent + tap.index, weight * tap.weight
        values = elements_at(flat, expand_dims(index, 1), 2)
        terms.append(values * expand_dims(weight, 1))
    return terms


def total(terms: Sequence[Tensor]) -> Tensor:
    """Returns the sum of terms."""
    result = terms[0]
    for term in terms[1:]:
        result = result + term
    return result


def _reflected(position: Tensor, low: float, high: float) -> Tensor:
    """Returns positions reflected at both ends into range."""
    span = high - low
    if span <= 0:
        return position * 0.0
    distance = abs(position - low)
    turns = floor(distance / span)
    rest = distance - turns * span
    mirrored = where(equal(remainder(turns, 2.0), 0.0), rest + low, high - rest)
    return where(_within(position, low, high), position, mirrored)


def _clamped(position: Tensor, end: float) -> Tensor:
    """Returns positions within an axis; as in PyTorch, they have no derivative at its ends."""
    return where(less_equal(position, 0.0), 0.0, where(greater_equal(position, end), end, position))


_MODES = {"linear": linear, "cubic": _cubic, "nearest": _nearest}
_PADDINGS = ("zeros", "border", "reflection")


@recorded_whole
def grid_sample(
    x: TensorLike, grid: TensorLike, mode: str = "linear", padding_mode: str = "zeros", align_corners: bool = False
) -> Tensor:
    """Returns the elements of images at the positions of a grid, as `torch.nn.functional.grid_sample` does.

    M. Jaderberg et al., Spatial Transformer Networks, 2015. It is differentiable with respect to the images and, unless
    the mode is `nearest`, the grid.

    Args:
        x: `[batch, channels, spatial...]`, floats.
        grid: `[batch, *positions, axes]`: coordinates from -1 to 1 along each spatial axis, the last axis first.
        mode: `linear` (or `bilinear`): the neighbors of a position, weighted by proximity; `cubic` (or `bicubic`): the
            four along each axis, by Keys' kernel with -0.75; `nearest`: one, half to even.
        padding_mode: What is outside: `zeros`; `border`: the nearest element; `reflection`: positions are reflected.
        align_corners: Whether -1 and 1 are the centers of the first and last elements, instead of their outer edges.

    Returns:
        `[batch, channels, *positions]`.

    Raises:
        ShapeError: The batches, or the axes of the image and the last extent of the grid, differ.
        OptionError: There is no such mode.

    Example:
        >>> image = tg.reshape(tg.arange(4.0), (1, 1, 2, 2))
        >>> tg.grid_sample(image, np.zeros((1, 1, 1, 2)))
        Array([[[[1.5]]]], dtype=f32)
    """
    images, points = as_tensor(x), as_tensor(grid)
    count, kind = images.ndim - 2, mode.removeprefix("bi") if isinstance(mode, str) else mode
    if count < 1 or points.ndim < 2 or points.shape[-1] != count or points.shape[0] != images.shape[0]:
        raise ShapeError(
            "grid_sample: takes [batch, channels, spatial...] and a grid [batch, positions..., spatial axes], got "
            f"{images.shape} and {points.shape}"
        )
    if kind not in _MODES or padding_mode not in _PADDINGS:
        raise OptionError(
            f"grid_sample: the mode is one of {', '.join(_MODES)}, the padding one of {', '.join(_PADDINGS)}, got "
            f"{mode!r} and {padding_mode!r}"
        )
    if not is_float(points.dtype):
        points = cast(points, images.dtype)
    coordinates = reshape(points, (points.shape[0], -1, count))
    taps: list[list[Tap]] = []
    for axis, extent in enumerate(images.shape[2:]):
        low, high = (0.0, extent - 1.0) if align_corners else (-0.5, extent - 0.5)
        position = (coordinates[..., count - 1 - axis] + 1.0) * ((high - low) / 2) + low
        taps.append(_axis_taps(position, extent, (low, high), kind, padding_mode))
    return reshape(total(read(images, taps)), (*images.shape[:2], *points.shape[1:-1]))


def _axis_taps(position: Tensor, extent: int, ends: tuple[float, float], mode: str, padding: str) -> list[Tap]:
    """Returns the neighbors of positions on an axis."""
    bounded: Bounded = _same
    # The kernel of four elements reads beyond the border, so each of its neighbors is bounded instead.
    if padding == "reflection":
        if mode != "cubic":
            position = _clamped(_reflected(position, *ends), extent - 1.0)
        bounded = partial(_reflected, low=ends[0], high=ends[1])
    elif padding == "border" and mode != "cubic":
        position = _clamped(position, extent - 1.0)
    return _MODES[mode](position, extent, padding == "zeros", bounded)
