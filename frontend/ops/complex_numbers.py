"""Complex numbers, as pairs of real tensors: devices and the levels of IR have real numbers only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tensorgrad.ops.elementwise.arithmetic import abs as absolute
from tensorgrad.ops.elementwise.arithmetic import less, logical_and, maximum, stop_gradient, where
from tensorgrad.ops.elementwise.composed import hypot
from tensorgrad.ops.elementwise.functions import atan2, isfinite
from tensorgrad.ops.promotion import broadcast_to
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Tensor


@dataclass(frozen=True, eq=False)
class Complex:
    """A complex tensor, as the pair of its real and its imaginary part: what Fourier transforms take and return.

    `+`, `-`, `*`, `/` and indexing work with other complex tensors and, element-wise with broadcasting, with real
    tensors, arrays of NumPy, complex ones too, and Python's numbers. It is a pytree of two leaves, so it passes through
    `tg.jit`, `tg.vmap`, `tg.scan` and the like. Gradients are again pairs: of the derivatives with respect to the real
    and the imaginary part, as in PyTorch.

    Attributes:
        real: The real part.
        imag: The imaginary part, of the same shape and dtype.

    Example:
        >>> x = tg.fft.Complex(tg.array([3.0, 0.0]), tg.array([4.0, 1.0]))
        >>> abs(x), (x * 1j).real, (x / x).numpy()
        (Array([5., 1.], dtype=f32), Array([-4., -1.], dtype=f32), array([1.+0.j, 1.+0.j], dtype=complex64))
    """

    real: Tensor
    imag: Tensor

    __array_ufunc__ = None  # operators of NumPy's arrays leave the work to ours

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of each part."""
        return self.real.shape

    @property
    def ndim(self) -> int:
        """The number of axes of each part."""
        return self.real.ndim

    def conj(self) -> Complex:
        """Returns the complex conjugate."""
        return Complex(self.real, -self.imag)

    def angle(self) -> Tensor:
        """Returns the argument, from -pi to pi."""
        return atan2(self.imag, self.real)

    def numpy(self) -> np.ndarray[Any, Any]:
        """Returns the values as an array of NumPy's `complex64`, or `complex128` for f64.

        Raises:
            TraceError: They are not known yet, inside a trace.
        """
        return self.real.numpy() + 1j * self.imag.numpy()

    def __abs__(self) -> Tensor:
        return hypot(self.real, self.imag)

    def __neg__(self) -> Complex:
        return Complex(-self.real, -self.imag)

    def __getitem__(self, key: Any) -> Complex:
        return Complex(self.real[key], self.imag[key])

    def __add__(self, other: ComplexLike) -> Complex:
        real, imag = parts_of(other)
        return _filled(self.real + real, self.imag if imag is None else self.imag + imag)

    def __sub__(self, other: ComplexLike) -> Complex:
        real, imag = parts_of(other)
        return _filled(self.real - real, self.imag if imag is None else self.imag - imag)

    def __mul__(self, other: ComplexLike) -> Complex:
        real, imag = parts_of(other)
        if imag is None:
            return Complex(self.real * real, self.imag * real)
        return Complex(self.real * real - self.imag * imag, self.real * imag + self.imag * real)

    def __truediv__(self, other: ComplexLike) -> Complex:
        if isinstance(other, Complex):
            return _quotient(self, other)
        real, imag = parts_of(other)
        if imag is None:
            return Complex(self.real / real, self.imag / real)
        return self * (1 / np.asarray(other))

    def __rsub__(self, other: ComplexLike) -> Complex:
        return -self + other

    def __rtruediv__(self, other: ComplexLike) -> Complex:
        return _quotient(other, self)

    __radd__ = __add__
    __rmul__ = __mul__


ComplexLike: TypeAlias = "Complex | TensorLike | complex"
"""What stands for a complex tensor: one, or whatever stands for a real one, or complex numbers of Python or NumPy."""


def parts_of(x: Any) -> tuple[Any, Any | None]:
    """Returns the real and the imaginary part of what stands for a complex tensor; `None` for the latter of a real."""
    if isinstance(x, Complex):
        return x.real, x.imag
    if not isinstance(x, Tensor) and np.iscomplexobj(x):
        return np.real(x), np.imag(x)
    return x, None


def _quotient(x: ComplexLike, y: Complex) -> Complex:
    """Returns `x / y`, with `y` scaled to magnitudes around 1, so that no square exceeds the range of floats."""
    largest = stop_gradient(maximum(absolute(y.real), absolute(y.imag)))
    scale = where(logical_and(less(0, largest), isfinite(largest)), largest, 1)
    real, imag = y.real / scale, y.imag / scale
    size = real * real + imag * imag
    quotient = Complex(real / size, -imag / size) * x
    return Complex(quotient.real / scale, quotient.imag / scale)


def _filled(real: Tensor, imag: Tensor) -> Complex:
    """Returns a complex tensor of parts of which one may lack axes that broadcasting gave the other."""
    return Complex(real, imag if imag.shape == real.shape else broadcast_to(imag, real.shape))
