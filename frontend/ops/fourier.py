"""Discrete Fourier transforms, as products with small matrices: each length is split into factors near its root.

A transform of `n = a * b` numbers is one of `a` numbers along the columns of a matrix, a rotation, and one of `b`
numbers along its rows (Cooley and Tukey, "An algorithm for the machine calculation of complex Fourier series", Math.
Comp. 19, 1965). Factors up to `DENSE` are products with a constant matrix, which every device is good at, rather than
butterflies of two numbers (as in Fu et al., "FlashFFTConv", ICLR 2024). A prime length becomes a convolution, that is
transforms of a power of two (Bluestein, "A linear filtering approach to the computation of discrete Fourier transform",
IEEE Trans. Audio 18, 1970).

Inside, a complex tensor is one tensor with an axis of two parts in front. Everything is linear, so derivatives come
from those of products.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args, overload

import numpy as np

from tensorgrad.dialects.tg.base import NumpyArray
from tensorgrad.errors import DTypeError, OptionError, ShapeError
from tensorgrad.ops.complex_numbers import Complex, ComplexLike, parts_of
from tensorgrad.ops.contract import contracted
from tensorgrad.ops.creation import array, zeros_like
from tensorgrad.ops.joining import moveaxis, narrow, pad, roll, stack
from tensorgrad.ops.promotion import as_float, as_tensor, cast, common
from tensorgrad.ops.shape import flip, normalized_axes, normalized_axis, reshape, swapaxes
from tensorgrad.tracing.checks import checked_extent
from tensorgrad.tracing.dtypes import NAMES, DType, is_half
from tensorgrad.tracing.likes import Axes, TensorLike
from tensorgrad.tracing.tensor import Array, Tensor

Norm: TypeAlias = Literal["backward", "ortho", "forward"]
"""Which of the two transforms is divided by the number of elements: the inverse, both by its root, or the forward."""

EXCHANGED: Mapping[Norm, Norm] = {"backward": "forward", "forward": "backward"}
"""The norm of the transform in the other direction that divides by the same."""

DENSE = 128
"""Transforms of at most that many numbers are a product with one matrix."""


# Transforms along one axis of stacked parts.


@dataclass(frozen=True)
class _Line:
    """A transform along one axis.

    Attributes:
        n: The length: numbers that the input lacks are zeros.
        sign: The sign of the exponent: -1 forward, 1 backward.
        outputs: How many of the results are computed, the first ones.
        is_real: Whether the input is real: without an axis of parts in front.
        gives_real: Whether only the real part of the results is computed, without that axis.
    """

    n: int
    sign: int
    outputs: int
    is_real: bool = False
    gives_real: bool = False

    def __call__(self, x: Tensor, axis: int) -> Tensor:
        """Returns the transform of `x` along an axis, which is counted without that of the parts."""
        if self.n <= DENSE:
            return self._by_matrix(x, axis)
        divisor = _divisor(self.n)
        return self._by_convolution(x, axis) if divisor == 1 else self._by_factors(x, axis, divisor)

    def _by_matrix(self, x: Tensor, axis: int) -> Tensor:
        place = axis + (not self.is_real)
        matrix = _matrix(self.n, self.sign)[:, : x.shape[place], :, : self.outputs]
        matrix = matrix[0] if self.is_real else matrix
        matrix = matrix[..., 0, :] if self.gives_real else matrix
        own, others = ([place], [0]) if self.is_real else ([0, place], [0, 1])
        constant, parts = _constant(matrix, x.dtype), () if self.gives_real else (-2,)
        if place == x.ndim - 1:  # elements that lie side by side are read along rows, and others along columns
            results = contracted(x, constant, ([], []), (own, others))
            return moveaxis(results, (*parts, -1), (*(0 for _ in parts), axis + len(parts)))
        results = contracted(constant, x, ([], []), (others, own))
        return moveaxis(results, len(parts), axis + len(parts))

    def _by_factors(self, x: Tensor, axis: int, rows: int) -> Tensor:
        columns = self.n // rows
        place = axis + (not self.is_real)
        count = -(-x.shape[place] // columns)
        table = reshape(_padded(x, place, count * columns), (*x.shape[:place], count, columns, *x.shape[place + 1 :]))
        first = _Line(rows, self.sign, min(rows, self.outputs), self.is_real)(table, axis)
        turned = _product(first, _rotation(rows, columns, self.sign)[: first.shape[axis + 1]], axis)
        wanted = -(-self.outputs // rows)
        second = _Line(columns, self.sign, wanted, gives_real=self.gives_real)(turned, axis + 1)
        place = axis + (not self.gives_real)
        ordered = swapaxes(second, place, place + 1)
        flat = reshape(ordered, (*ordered.shape[:place], -1, *ordered.shape[place + 2 :]))
        return narrow(flat, place, 0, self.outputs)

    def _by_convolution(self, x: Tensor, axis: int) -> Tensor:
        """Bluestein's algorithm, from `2 j k = j^2 + k^2 - (k - j)^2`."""
        x = stack([x, zeros_like(x)]) if self.is_real else x
        length = 1 << (2 * self.n - 2).bit_length()
        chirp = _chirp(self.n, self.sign)
        wave = _Line(length, -1, length)(_product(x, chirp[: x.shape[axis + 1]], axis), axis)
        filtered = _product(wave, _filter(self.n, self.sign, length), axis)
        results = _product(_Line(length, 1, self.outputs)(filtered, axis), chirp[: self.outputs], axis)
        return results[0] if self.gives_real else results


def _product(x: Tensor, factors: NumpyArray, axis: int) -> Tensor:
    """Returns stacked parts times complex constants along an axis, and along those that follow it."""
    trailing = x.ndim - 1 - axis - factors.ndim
    spread = np.reshape(factors, (*factors.shape, *(1,) * trailing))
    turned = np.reshape([-np.imag(spread), np.imag(spread)], (2, *(1,) * axis, *spread.shape))
    return x * _constant(np.real(spread), x.dtype) + flip(x, 0) * _constant(turned, x.dtype)


def _constant(values: NumpyArray, dtype: DType) -> Array:
    return Array(np.ascontiguousarray(values, dtype))


def _padded(x: Tensor, axis: int, extent: int) -> Tensor:
    widths = [(0, extent - x.shape[axis] if i == axis else 0) for i in range(x.ndim)]
    return pad(x, widths) if extent > x.shape[axis] else x


# Constants, in f64. Angles are multiples of a whole turn over n, reduced as integers: exact for any n.


def _turns(steps: NumpyArray, n: int, sign: int) -> NumpyArray:
    """Returns `exp(sign 2 pi i steps / n)`, exact at quarter turns: real numbers stay real at half the frequencies."""
    turns = np.exp(sign * 2j * np.pi * (steps % n) / n)
    real, imag = (np.where(np.abs(part) < 1e-15, 0.0, part) for part in (np.real(turns), np.imag(turns)))
    return real + 1j * imag


def _divisor(n: int) -> int:
    """Returns the largest divisor up to the root; 1 of a prime."""
    return next(d for d in range(math.isqrt(n), 0, -1) if n % d == 0)


def _matrix(n: int, sign: int) -> NumpyArray:
    """Returns the matrix of a transform, of shape (2, n, 2, n): from parts and positions to parts and positions."""
    turns = _turns(np.outer(np.arange(n), np.arange(n)), n, sign)
    real, imag = np.real(turns), np.imag(turns)
    return np.stack([np.stack([real, imag], 1), np.stack([-imag, real], 1)])


def _rotation(rows: int, columns: int, sign: int) -> NumpyArray:
    return _turns(np.outer(np.arange(rows), np.arange(columns)), rows * columns, sign)


def _chirp(n: int, sign: int) -> NumpyArray:
    return _turns(np.arange(n) ** 2, 2 * n, sign)


def _filter(n: int, sign: int, length: int) -> NumpyArray:
    """Returns the transform of the conjugate chirp at distances -n + 1 to n - 1, over the length of the convolution."""
    taps = np.zeros(length, np.complex128)
    taps[:n] = np.conj(_chirp(n, sign))
    taps[-n + 1 :] = taps[1:n][::-1]
    return np.fft.fft(taps) / length


# Transforms along several axes.


def _stacked(what: str, x: ComplexLike) -> tuple[Tensor, bool, DType]:
    """Returns floats to compute with, whether they are real, that is without an axis of parts, and the results' dtype.

    Raises:
        DTypeError: They are no numbers.
        ShapeError: The parts' shapes don't broadcast.
    """
    real, imag = parts_of(x)
    stacked = as_float(real) if imag is None else stack(common(what, as_float(real), as_float(imag)))
    dtype = stacked.dtype
    return cast(stacked, NAMES["f32"]) if is_half(dtype) else stacked, imag is None, dtype


def _places(what: str, rank: int, s: Axes | None, axes: Axes | None) -> list[int]:
    """Returns the axes, in their order: as many of the last ones as there are lengths, or all, if there are none."""
    if axes is None:
        axes = tuple(range(-(len(s) if isinstance(s, (tuple, list)) else rank), 0))
    normalized_axes(axes, rank, what)  # each is in range, and named once
    return [normalized_axis(axis, rank, what) for axis in ([axes] if isinstance(axes, int) else axes)]


def _lengths(what: str, s: Axes | None, usual: Sequence[int]) -> list[int]:
    """Returns the length of the transform along each axis.

    Raises:
        ShapeError: There is another number of them than of axes, or one is not positive.
    """
    listed = s if isinstance(s, (tuple, list)) else [s]
    lengths = list(usual) if s is None else [checked_extent(n, f"{what}: a length") for n in listed]
    if len(lengths) != len(usual):
        raise ShapeError(f"{what}: {len(lengths)} lengths for {len(usual)} axes")
    if any(n < 1 for n in lengths):
        raise ShapeError(f"{what}: a transform has at least one number along each axis, not {min(lengths)}")
    return lengths


def _cut(x: Tensor, axis: int, extent: int) -> Tensor:
    return narrow(x, axis, 0, extent) if extent < x.shape[axis] else x


def _scaled(what: str, x: Tensor, norm: Norm, sign: int, lengths: Sequence[int], dtype: DType) -> Tensor:
    """Divides results as `norm` says, and rounds them to their dtype.

    Raises:
        OptionError: There is no such norm.
    """
    if norm not in get_args(Norm):
        raise OptionError(f"{what}: norm is {', '.join(map(repr, get_args(Norm)))}, not {norm!r}")
    divides = norm == "ortho" or (norm == "forward") == (sign < 0)
    count = math.prod(lengths)
    return cast(x * (count ** (-0.5 if norm == "ortho" else -1.0)) if divides and count > 1 else x, dtype)


def _complex_transform(what: str, x: ComplexLike, s: Axes | None, axes: Axes | None, norm: Norm, sign: int) -> Complex:
    stacked, is_real, dtype = _stacked(what, x)
    shape = stacked.shape[not is_real :]
    places = _places(what, len(shape), s, axes)
    lengths = _lengths(what, s, [shape[place] for place in places])
    for place, n in zip(places, lengths, strict=True):
        stacked = _Line(n, sign, n, is_real)(_cut(stacked, place + (not is_real), n), place)
        is_real = False
    if is_real:  # along no axis
        stacked = stack([stacked, zeros_like(stacked)])
    return Complex(*_scaled(what, stacked, norm, sign, lengths, dtype))


def _forward_of_real(what: str, x: TensorLike, s: Axes | None, axes: Axes | None, norm: Norm) -> Complex:
    stacked, is_real, dtype = _stacked(what, x)
    if not is_real:
        raise DTypeError(f"{what}: takes real numbers; tg.fft.{what[1:]} takes complex ones")
    places = _places(what, stacked.ndim, s, axes)
    lengths = _lengths(what, s, [stacked.shape[place] for place in places])
    if not places:
        raise ShapeError(f"{what}: takes at least one axis")
    for place, n in reversed(list(zip(places, lengths, strict=True))):
        outputs = n // 2 + 1 if is_real else n
        stacked = _Line(n, -1, outputs, is_real)(_cut(stacked, place + (not is_real), n), place)
        is_real = False
    return Complex(*_scaled(what, stacked, norm, -1, lengths, dtype))


def _backward_to_real(what: str, x: ComplexLike, s: Axes | None, axes: Axes | None, norm: Norm) -> Tensor:
    stacked, is_real, dtype = _stacked(what, x)
    stacked = stack([stacked, zeros_like(stacked)]) if is_real else stacked
    shape = stacked.shape[1:]
    places = _places(what, len(shape), s, axes)
    if not places:
        raise ShapeError(f"{what}: takes at least one axis")
    lengths = _lengths(what, s, [*(shape[place] for place in places[:-1]), 2 * (shape[places[-1]] - 1)])
    for place, n in zip(places[:-1], lengths[:-1], strict=True):
        stacked = _Line(n, 1, n)(_cut(stacked, place + 1, n), place)
    place, n = places[-1], lengths[-1]
    half = _cut(stacked, place + 1, n // 2 + 1)
    # Each number but the first, and the middle one of an even length, stands for itself and its conjugate.
    weights = np.where(2 * np.arange(half.shape[place + 1]) % n == 0, 1.0, 2.0)
    weighted = half * _constant(np.reshape(weights, (-1, *(1,) * (half.ndim - place - 2))), half.dtype)
    return _scaled(what, _Line(n, 1, n, gives_real=True)(weighted, place), norm, 1, lengths, dtype)


# The public functions.


def fft(x: ComplexLike, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Complex:
    """Returns the discrete Fourier transform along an axis, as `numpy.fft.fft`.

    Element k is the sum over j of `x[j] * exp(-2 pi i j k / n)`. f16 and bf16 are computed in f32.

    Args:
        x: Real or complex numbers: a `tg.fft.Complex`, a tensor or an array; integers become f32.
        n: The number of elements to transform: the first `n`, or with zeros behind. That of `x` if `None`.
        axis: The axis.
        norm: What is divided by n: "backward", the inverse; "forward", this one; "ortho", both by the root.

    Returns:
        A complex tensor of x's shape, with n elements along the axis.

    Raises:
        ShapeError: `n` is not positive, or the axis is out of range.
        DTypeError: `x` has no numbers.
        OptionError: There is no such norm.

    Example:
        >>> tg.fft.fft([1.0, 0.0, 0.0, 0.0]).numpy()
        array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    return _complex_transform("fft", x, n, axis, norm, -1)


def ifft(x: ComplexLike, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Complex:
    """Returns the inverse of `fft` along an axis, as `numpy.fft.ifft`.

    Args:
        x: Real or complex numbers, see `fft`.
        n: The number of elements, see `fft`.
        axis: The axis.
        norm: What is divided by n: "backward", this one; "forward", `fft`; "ortho", both by the root.

    Raises:
        ShapeError: `n` is not positive, or the axis is out of range.
        DTypeError: `x` has no numbers.
        OptionError: There is no such norm.

    Example:
        >>> np.round(tg.fft.ifft(tg.fft.fft([1.0, 2.0, 5.0])).real.numpy(), 4)
        array([1., 2., 5.], dtype=float32)
    """
    return _complex_transform("ifft", x, n, axis, norm, 1)


def rfft(x: TensorLike, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Complex:
    """Returns the first `n // 2 + 1` elements of the transform of real numbers, as `numpy.fft.rfft`.

    The others are the conjugates of these.

    Args:
        x: Real numbers.
        n: The number of elements to transform, see `fft`.
        axis: The axis.
        norm: What is divided by n, see `fft`.

    Raises:
        ShapeError: `n` is not positive, or the axis is out of range.
        DTypeError: `x` is complex, or has no numbers.
        OptionError: There is no such norm.

    Example:
        >>> abs(tg.fft.rfft([1.0, -1.0, 1.0, -1.0]))
        Array([0., 0., 4.], dtype=f32)
    """
    return _forward_of_real("rfft", x, n, axis, norm)


def irfft(x: ComplexLike, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Returns the real numbers of which `rfft` gives these elements, as `numpy.fft.irfft`.

    The imaginary parts of the first element, and of the middle one of an even length, don't count.

    Args:
        x: Complex numbers: the first `n // 2 + 1` along the axis count.
        n: The number of results; `2 * (m - 1)` for m elements if `None`, so odd lengths need it.
        axis: The axis.
        norm: What is divided by n, see `ifft`.

    Raises:
        ShapeError: `n` is not positive, or the axis is out of range.
        DTypeError: `x` has no numbers.
        OptionError: There is no such norm.

    Example:
        >>> np.round(tg.fft.irfft(tg.fft.rfft([1.0, 2.0, 4.0]), n=3).numpy(), 4)
        array([1., 2., 4.], dtype=float32)
    """
    return _backward_to_real("irfft", x, n, axis, norm)


def hfft(x: ComplexLike, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Returns the real transform of numbers whose other half are their conjugates, as `numpy.fft.hfft`.

    Args:
        x: Complex numbers: the first `n // 2 + 1` along the axis count.
        n: The number of results, see `irfft`.
        axis: The axis.
        norm: What is divided by n, see `fft`.

    Raises:
        ShapeError: `n` is not positive, or the axis is out of range.
        DTypeError: `x` has no numbers.
        OptionError: There is no such norm.

    Example:
        >>> tg.fft.hfft([1.0, 0.0, 0.0])
        Array([1., 1., 1., 1.], dtype=f32)
    """
    real, imag = parts_of(x)
    return _backward_to_real("hfft", real if imag is None else Complex(real, -imag), n, axis, EXCHANGED.get(norm, norm))


def ihfft(x: TensorLike, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Complex:
    """Returns the inverse of `hfft`, as `numpy.fft.ihfft`.

    Args:
        x: Real numbers.
        n: The number of elements to transform, see `fft`.
        axis: The axis.
        norm: What is divided by n, see `ifft`.

    Raises:
        ShapeError: `n` is not positive, or the axis is out of range.
        DTypeError: `x` is complex, or has no numbers.
        OptionError: There is no such norm.

    Example:
        >>> tg.fft.ihfft([1.0, 1.0, 1.0, 1.0]).real
        Array([1., 0., 0.], dtype=f32)
    """
    return _forward_of_real("ihfft", x, n, axis, EXCHANGED.get(norm, norm)).conj()


def fftn(x: ComplexLike, s: Axes | None = None, axes: Axes | None = None, norm: Norm = "backward") -> Complex:
    """Returns the Fourier transform along several axes, as `numpy.fft.fftn`.

    Args:
        x: Real or complex numbers, see `fft`.
        s: The number of elements along each axis, see `fft`; those of `x` if `None`.
        axes: The axes; all, or as many of the last ones as there are lengths, if `None`.
        norm: What is divided by the product of the lengths, see `fft`.

    Raises:
        ShapeError: A length is not positive, an axis is out of range or named twice, or there are more or fewer
            lengths than axes.
        DTypeError: `x` has no numbers.
        OptionError: There is no such norm.

    Example:
        >>> tg.fft.fftn(tg.ones((2, 3))).real
        Array([[6., 0., 0.],
         [0., 0., 0.]], dtype=f32)
    """
    return _complex_transform("fftn", x, s, axes, norm, -1)


def ifftn(x: ComplexLike, s: Axes | None = None, axes: Axes | None = None, norm: Norm = "backward") -> Complex:
    """Returns the inverse of `fftn`, as `numpy.fft.ifftn`; arguments and errors are those of `fftn`.

    Example:
        >>> np.round(tg.fft.ifftn(tg.fft.fftn(tg.eye(2))).real.numpy(), 4)
        array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    return _complex_transform("ifftn", x, s, axes, norm, 1)


def rfftn(x: TensorLike, s: Axes | None = None, axes: Axes | None = None, norm: Norm = "backward") -> Complex:
    """Returns `rfft` along the last of some axes, then `fft` along the others, as `numpy.fft.rfftn`.

    Arguments and errors are those of `fftn`, but `x` is real, and there is at least one axis.

    Example:
        >>> tg.fft.rfftn(tg.ones((5, 8, 8)), axes=(1, 2)).shape
        (5, 8, 5)
    """
    return _forward_of_real("rfftn", x, s, axes, norm)


def irfftn(x: ComplexLike, s: Axes | None = None, axes: Axes | None = None, norm: Norm = "backward") -> Tensor:
    """Returns the inverse of `rfftn`, as `numpy.fft.irfftn`.

    Arguments and errors are those of `fftn`; there is at least one axis, whose length is `2 * (m - 1)` for m elements
    if `s` is `None`.

    Example:
        >>> tg.fft.irfftn(tg.fft.rfftn(tg.ones((4, 6)))).shape
        (4, 6)
    """
    return _backward_to_real("irfftn", x, s, axes, norm)


def fft2(x: ComplexLike, s: Axes | None = None, axes: Axes = (-2, -1), norm: Norm = "backward") -> Complex:
    """Returns `fftn` along two axes, the last ones unless others are named, as `numpy.fft.fft2`.

    Example:
        >>> tg.fft.fft2(tg.ones((5, 8, 6))).shape
        (5, 8, 6)
    """
    return _complex_transform("fft2", x, s, axes, norm, -1)


def ifft2(x: ComplexLike, s: Axes | None = None, axes: Axes = (-2, -1), norm: Norm = "backward") -> Complex:
    """Returns `ifftn` along two axes, the last ones unless others are named, as `numpy.fft.ifft2`.

    Example:
        >>> tg.fft.ifft2(tg.ones((5, 8, 6))).shape
        (5, 8, 6)
    """
    return _complex_transform("ifft2", x, s, axes, norm, 1)


def rfft2(x: TensorLike, s: Axes | None = None, axes: Axes = (-2, -1), norm: Norm = "backward") -> Complex:
    """Returns `rfftn` along two axes, the last ones unless others are named, as `numpy.fft.rfft2`.

    Example:
        >>> tg.fft.rfft2(tg.ones((5, 8, 6))).shape
        (5, 8, 4)
    """
    return _forward_of_real("rfft2", x, s, axes, norm)


def irfft2(x: ComplexLike, s: Axes | None = None, axes: Axes = (-2, -1), norm: Norm = "backward") -> Tensor:
    """Returns `irfftn` along two axes, the last ones unless others are named, as `numpy.fft.irfft2`.

    Example:
        >>> tg.fft.irfft2(tg.fft.rfft2(tg.ones((5, 8, 7))), (8, 7)).shape
        (5, 8, 7)
    """
    return _backward_to_real("irfft2", x, s, axes, norm)


def fftfreq(n: int, d: float = 1.0) -> Tensor:
    """Returns the frequency of each element of `fft`, in cycles per unit of `d`, as `numpy.fft.fftfreq`.

    Args:
        n: The number of elements.
        d: The distance between samples.

    Raises:
        ShapeError: `n` is not positive.
        OptionError: `d` is 0.

    Example:
        >>> tg.fft.fftfreq(4, d=0.5)
        Array([ 0. ,  0.5, -1. , -0.5], dtype=f32)
    """
    (count,) = _lengths("fftfreq", n, [1])
    return array(np.fft.fftfreq(count, _spacing("fftfreq", d)), "f32")


def rfftfreq(n: int, d: float = 1.0) -> Tensor:
    """Returns the frequency of each element of `rfft`, in cycles per unit of `d`, as `numpy.fft.rfftfreq`.

    Args:
        n: The number of elements that are transformed.
        d: The distance between samples.

    Raises:
        ShapeError: `n` is not positive.
        OptionError: `d` is 0.

    Example:
        >>> tg.fft.rfftfreq(4)
        Array([0.  , 0.25, 0.5 ], dtype=f32)
    """
    (count,) = _lengths("rfftfreq", n, [1])
    return array(np.fft.rfftfreq(count, _spacing("rfftfreq", d)), "f32")


def _spacing(what: str, distance: float) -> float:
    if distance == 0:
        raise OptionError(f"{what}: samples at a distance of 0 have no frequencies")
    return distance


@overload
def fftshift(x: Complex, axes: Axes | None = None) -> Complex: ...
@overload
def fftshift(x: TensorLike, axes: Axes | None = None) -> Tensor: ...
def fftshift(x: ComplexLike, axes: Axes | None = None) -> Tensor | Complex:
    """Moves the element of frequency 0 from the first place to the middle, as `numpy.fft.fftshift`.

    Args:
        x: Real or complex numbers.
        axes: The axes; all if `None`.

    Raises:
        ShapeError: An axis is out of range.

    Example:
        >>> tg.fft.fftshift(tg.fft.fftfreq(4))
        Array([-0.5 , -0.25,  0.  ,  0.25], dtype=f32)
    """
    return _shifted("fftshift", x, axes, lambda extent: extent // 2)


@overload
def ifftshift(x: Complex, axes: Axes | None = None) -> Complex: ...
@overload
def ifftshift(x: TensorLike, axes: Axes | None = None) -> Tensor: ...
def ifftshift(x: ComplexLike, axes: Axes | None = None) -> Tensor | Complex:
    """Returns the inverse of `fftshift`, as `numpy.fft.ifftshift`.

    Args:
        x: Real or complex numbers.
        axes: The axes; all if `None`.

    Raises:
        ShapeError: An axis is out of range.

    Example:
        >>> tg.fft.ifftshift(tg.fft.fftshift(tg.arange(5)))
        Array([0, 1, 2, 3, 4], dtype=i32)
    """
    return _shifted("ifftshift", x, axes, lambda extent: -(extent // 2))


def _shifted(what: str, x: Any, axes: Axes | None, distance: Callable[[int], int]) -> Any:
    if isinstance(x, Complex):
        return Complex(*(_shifted(what, part, axes, distance) for part in (x.real, x.imag)))
    tensor = as_tensor(x)
    places = normalized_axes(axes, tensor.ndim, what)
    return roll(tensor, [distance(tensor.shape[place]) for place in places], places)
