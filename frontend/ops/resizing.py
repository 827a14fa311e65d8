"""Resizing of the last axes of tensors, in any number of dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np

from tensorgrad.dialects.tg.base import NumpyArray
from tensorgrad.errors import OptionError, ShapeError
from tensorgrad.ops.promotion import as_tensor, cast
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.ops.sampling import Samples, sampled, taken
from tensorgrad.ops.windows import Sizes, last_axes, listed
from tensorgrad.tracing.dtypes import NAMES, is_float
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Tensor

FINEST_FACTOR = 10**9
"""Scale factors are rounded to the nearest fraction with a denominator up to this: 1.2 is 6/5, not the float below."""

CUBIC = -0.75
"""The parameter of Keys' convolution kernel, PyTorch's."""

SMOOTH_CUBIC = -0.5
"""The same with antialiasing, as in PyTorch and Pillow."""


@dataclass(frozen=True)
class _Line:
    """The positions of new elements among the old ones: element `i` is at `(slope * i + start) / unit`."""

    slope: int
    start: int
    unit: int

    def at(self, new_extent: int) -> tuple[NumpyArray, NumpyArray]:
        """Returns the old elements at or before the new ones, and the new ones' offsets from them, in [0, 1)."""
        numerators = self.slope * np.arange(new_extent, dtype=np.int64) + self.start
        return numerators // self.unit, numerators % self.unit / self.unit

    def period(self, new_extent: int) -> tuple[int, int]:
        """Returns the smallest numbers of new and of old elements that span exactly the same distance."""
        if not self.slope:
            return new_extent, 1
        shared = math.gcd(self.slope, self.unit)
        return self.unit // shared, self.slope // shared


def _linear(distance: NumpyArray) -> NumpyArray:
    return 1 - distance


def _keys(parameter: float) -> Callable[[NumpyArray], NumpyArray]:
    """Returns Keys' convolution kernel, of distances up to 2."""

    def kernel(distance: NumpyArray) -> NumpyArray:
        near = ((parameter + 2) * distance - (parameter + 3)) * distance**2 + 1
        far = ((parameter * distance - 5 * parameter) * distance + 8 * parameter) * distance - 4 * parameter
        return np.where(distance <= 1, near, far)

    return kernel


@dataclass(frozen=True)
class _Method:
    """How new elements are computed: from the old one at a position, or from those around it by distance.

    Attributes:
        offsets: The offsets of the old elements, from the one at or before the position.
        weight: Their weights by their distances from the position; None copies a single element.
        smooth: The kernel by which `antialias` weights elements; it is 0 from the distance of the last offset on.
        centred: Whether positions are centers of elements.
        keeps: Whether an axis of unchanged extent is copied, whatever the scale factor.
    """

    offsets: Sequence[int] = (0,)
    weight: Callable[[NumpyArray], NumpyArray] | None = None
    smooth: Callable[[NumpyArray], NumpyArray] | None = None
    centred: bool = True
    keeps: bool = False


_NEAREST = _Method()
_METHODS = {
    "nearest": _NEAREST,
    "nearest-exact": _NEAREST,
    "nearest-floor": _Method(centred=False),
    **dict.fromkeys(("linear", "bilinear", "trilinear"), _Method((0, 1), _linear, _linear, keeps=True)),
    **dict.fromkeys(("cubic", "bicubic"), _Method((-1, 0, 1, 2), _keys(CUBIC), _keys(SMOOTH_CUBIC))),
}


@recorded_whole
def resize(
    x: TensorLike,
    size: Sizes | None = None,
    method: str = "nearest",
    align_corners: bool = False,
    scale_factor: float | Sequence[float] | None = None,
    recompute_scale_factor: bool = False,
    antialias: bool = False,
) -> Tensor:
    """Returns the tensor with its last axes stretched or shrunk, as `torch.nn.functional.interpolate` does.

    Element centers are at half-integer positions, unless `align_corners` says otherwise. Coordinates are computed
    without rounding; only elements with a nonzero weight are read, so NaN and infinities don't spread further than
    that.

    Args:
        x: A tensor whose last axes are resized: as many as `size` or `scale_factor` lists, or all but the first two for
            one number.
        size: The new extents; or None, if `scale_factor` determines them.
        method: `"nearest"`: the element under the new element's center (PyTorch's `nearest-exact`, which is accepted
            too); integer factors cost nothing. `"nearest-floor"`: the element at `floor(i * extent / size)` (PyTorch's
            `nearest`). `"linear"`, `"bilinear"` or `"trilinear"`, which are equivalent: along each axis the two
            elements around it, weighted by closeness. `"cubic"` or `"bicubic"`: along each axis the four around it, by
            Keys' kernel with -0.75. Integers become f32 if elements are weighted.
        align_corners: Whether the centers of the first and last elements keep their positions; for methods that weight
            elements.
        scale_factor: The ratio of new to old extents, which are rounded down: one number, or one for each axis. New
            elements are `1 / scale_factor` apart, even if rounding changed the extents; but linear methods, and all
            with `antialias`, copy an axis whose extent stays the same.
        recompute_scale_factor: Whether they are `extent / size` apart instead, with the rounded sizes.
        antialias: Whether the kernel is stretched when downscaling, so that each new element averages all the elements
            that it covers, as in Pillow; for methods that weight elements. Only elements inside the tensor count, and
            Keys' kernel is the one with -0.5. With `align_corners` the spacing of new elements is that of the corners,
            but the first lies at half that distance from the border.

    Raises:
        ShapeError: An extent is 0, or there are no such axes.
        OptionError: There is no such method; `align_corners` or `antialias` is given for a method that copies elements;
            or not exactly one of `size` and `scale_factor` is given, or a factor is not positive.

    Example:
        >>> tg.resize([[[1.0, 2.0]]], 4)
        Array([[[1., 1., 2., 2.]]], dtype=f32)
        >>> tg.resize(tg.ones((1, 3, 8, 8)), scale_factor=2, method="bilinear").shape
        (1, 3, 16, 16)
    """
    tensor = as_tensor(x)
    rule = _METHODS.get(method)
    if rule is None:
        raise OptionError(f"resize: the method must be one of {', '.join(_METHODS)}, got {method!r}")
    for option, is_set in (("align_corners", align_corners), ("antialias", antialias)):
        if is_set and rule.weight is None:
            raise OptionError(f"resize: {option} is for methods that weigh elements, not {method!r}")
    axes, new_extents, ratios = _extents(tensor, size, scale_factor, recompute_scale_factor)
    if rule.weight is not None and not is_float(tensor.dtype):
        tensor = cast(tensor, NAMES["f32"])
    for axis, new, ratio in zip(axes, new_extents, ratios, strict=True):
        extent = tensor.shape[axis]
        if antialias:
            tensor = _averaged(tensor, axis, new, _between_corners(extent, new) if align_corners else ratio, rule)
        else:
            tensor = _along(tensor, axis, new, _line(extent, new, ratio, rule, align_corners), rule)
    return tensor


def _extents(x: Tensor, size: Any, factor: Any, recompute: bool) -> tuple[list[int], list[int], list[Fraction]]:
    """Returns the axes, their new extents, and the spacing of new elements in old elements."""
    if (size is None) == (factor is None):
        raise OptionError("resize: takes size= or scale_factor=, one of them")
    if recompute and factor is None:
        raise OptionError("resize: recompute_scale_factor is for scale_factor=, not for size=")
    axes = last_axes("resize", x, size if factor is None else factor)
    if not all(x.shape[axis] for axis in axes):
        raise ShapeError(f"resize: {x.shape} has an axis without elements")
    if factor is None:
        new_extents, factors = listed(size, len(axes), "resize: sizes"), None
    else:
        factors = _factors(factor, len(axes))
        new_extents = [math.floor(x.shape[axis] * ratio) for axis, ratio in zip(axes, factors, strict=True)]
    if not all(new_extents):
        raise ShapeError(f"resize: {factor!r} times the extents of {x.shape} leaves an axis no element")
    if factors is None or recompute:
        return axes, new_extents, [Fraction(x.shape[axis], new) for axis, new in zip(axes, new_extents, strict=True)]
    return axes, new_extents, [1 / Fraction(ratio).limit_denominator(FINEST_FACTOR) for ratio in factors]


def _factors(value: Any, count: int) -> list[float]:
    factors = list(value) if isinstance(value, (tuple, list)) else [value] * count
    if not all(
        isinstance(factor, Real) and math.isfinite(factor) and float(factor) > 1 / FINEST_FACTOR for factor in factors
    ):
        raise OptionError(f"resize: scale factors must be positive numbers, got {value!r}")
    return [float(factor) for factor in factors]


def _between_corners(extent: int, new_extent: int) -> Fraction:
    """Returns the spacing of new elements from the center of the first old one to that of the last."""
    return Fraction(extent - 1, new_extent - 1) if new_extent > 1 else Fraction(0)


def _line(extent: int, new_extent: int, ratio: Fraction, method: _Method, align_corners: bool) -> _Line:
    if align_corners:
        corners = _between_corners(extent, new_extent)
        return _Line(corners.numerator, 0, corners.denominator)
    p, q = ratio.numerator, ratio.denominator
    if not method.centred:
        return _Line(p, 0, q)
    return _Line(2 * p, p if method.weight is None else p - q, 2 * q)


def _along(x: Tensor, axis: int, new_extent: int, line: _Line, method: _Method) -> Tensor:
    extent = x.shape[axis]
    if method.keeps and new_extent == extent:
        return x
    first, fraction = line.at(new_extent)
    if method.weight is None or not fraction.any():
        places = np.clip(first, 0, extent - 1)
        return x if np.array_equal(places, np.arange(extent)) else taken(x, axis, places)
    offsets = np.array(method.offsets)
    weights = method.weight(np.abs(offsets - fraction[:, None]))
    return sampled(x, axis, Samples(first[:, None] + offsets, weights, *line.period(new_extent)))


def _averaged(x: Tensor, axis: int, new_extent: int, ratio: Fraction, method: _Method) -> Tensor:
    """Weights the old elements by a kernel as wide as the spacing of new ones, and at least as that of old ones."""
    extent = x.shape[axis]
    if new_extent == extent:
        return x
    assert method.smooth is not None
    first, fraction = _line(extent, new_extent, ratio, method, align_corners=False).at(new_extent)
    stretch, reach = max(ratio, Fraction(1)), method.offsets[-1]
    farthest = math.ceil(reach * stretch)
    offsets = np.arange(1 - farthest, farthest + 1)
    places = first[:, None] + offsets
    distances = np.abs(offsets - fraction[:, None]) / float(stretch)
    counted = (distances < reach) & (places >= 0) & (places < extent)
    weights = np.where(counted, method.smooth(distances), 0)
    return sampled(x, axis, Samples(places, weights / weights.sum(1, keepdims=True), new_extent, extent))
