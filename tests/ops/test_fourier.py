"""Fourier transforms compared with NumPy's, and complex numbers; derivatives are among the cases of the op table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from draws import generator

import tensorgrad as tg
from tensorgrad.errors import AxisError, DTypeError, OptionError, ShapeError

RANDOM = generator(0)
LENGTHS = (1, 2, 3, 8, 9, 64, 97, 128, 131, 132, 255, 256, 500, 1018, 4096)
"""Products with one matrix, of two to four factors, and convolutions: of a prime, and of twice one."""

NORMS = ("backward", "ortho", "forward")
untyped: Any = tg


def real(*shape: int) -> Any:
    return RANDOM.normal(size=shape).astype(np.float32)


def complex64(*shape: int) -> Any:
    return real(*shape) + np.complex64(1j) * real(*shape)


def check(ours: Any, expected: Any, tolerance: float = 2e-6) -> None:
    """Compares with the largest element: rounding errors are spread over all frequencies."""
    values = ours.numpy()
    assert values.shape == expected.shape and np.iscomplexobj(values) == np.iscomplexobj(expected)
    assert np.max(np.abs(values - expected), initial=0) <= tolerance * np.max(np.abs(expected), initial=0)


@pytest.mark.parametrize("n", LENGTHS)
def test_lengths(n: int) -> None:
    x, z = real(3, n), complex64(3, n)
    for norm in NORMS:
        check(tg.fft.fft(x, norm=norm), np.fft.fft(x, norm=norm))
        check(tg.fft.fft(z, norm=norm), np.fft.fft(z, norm=norm))
        check(tg.fft.ifft(z, norm=norm), np.fft.ifft(z, norm=norm))
        check(tg.fft.rfft(x, norm=norm), np.fft.rfft(x, norm=norm))
        check(tg.fft.irfft(z, n, norm=norm), np.fft.irfft(z, n, norm=norm))
    wide = tg.array(x.astype(np.float64), "f64")
    check(tg.fft.fft(wide), np.fft.fft(np.asarray(wide)), 1e-14)


@pytest.mark.parametrize("n", [9, 97, 132, 256, 131])
def test_fewer_and_more_numbers(n: int) -> None:
    x, z = real(2, n), complex64(2, n)
    for length in (1, n // 3, n - 1, n + 1, 2 * n + 3):
        check(tg.fft.fft(z, length), np.fft.fft(z, length))
        check(tg.fft.rfft(x, length), np.fft.rfft(x, length))
        check(tg.fft.irfft(z, length), np.fft.irfft(z, length))


@pytest.mark.parametrize("axes", [None, (1,), (0, 2), (2, 1), (-1, 0, 1)])
@pytest.mark.parametrize("is_cut", [False, True])
def test_axes(axes: tuple[int, ...] | None, is_cut: bool) -> None:
    x, z = real(4, 6, 5), complex64(4, 6, 5)
    s = tuple(range(3, 3 + len(axes or "xyz"))) if is_cut else None
    places = axes or (0, 1, 2)  # NumPy asks for axes beside lengths
    for ours, theirs, numbers in (
        (tg.fft.fftn, np.fft.fftn, z),
        (tg.fft.ifftn, np.fft.ifftn, z),
        (tg.fft.rfftn, np.fft.rfftn, x),
        (tg.fft.irfftn, np.fft.irfftn, z),
    ):
        check(ours(numbers, s, axes), theirs(numbers, s, places))


def test_two_axes() -> None:
    x, z = real(2, 8, 7), complex64(2, 8, 7)
    check(tg.fft.fft2(z), np.fft.fft2(z))
    check(tg.fft.ifft2(z, axes=(0, 1)), np.fft.ifft2(z, axes=(0, 1)))
    check(tg.fft.rfft2(x), np.fft.rfft2(x))
    check(tg.fft.irfft2(z, (8, 9)), np.fft.irfft2(z, (8, 9)))
    check(tg.fft.fft(z, axis=1), np.fft.fft(z, axis=1))
    check(untyped.fft.rfft(x, dim=0), np.fft.rfft(x, axis=0))


def test_no_axes() -> None:
    x = real(2, 3)
    check(tg.fft.fftn(x, axes=()), x.astype(np.complex64))


def test_frequencies() -> None:
    for n in (4, 5):
        np.testing.assert_allclose(tg.fft.fftfreq(n, 0.3), np.fft.fftfreq(n, 0.3), rtol=1e-6)
        np.testing.assert_allclose(tg.fft.rfftfreq(n, 0.3), np.fft.rfftfreq(n, 0.3), rtol=1e-6)
        x, z = real(3, n), complex64(3, n)
        assert np.array_equal(tg.fft.fftshift(x), np.fft.fftshift(x))
        assert np.array_equal(tg.fft.ifftshift(x, 1), np.fft.ifftshift(x, 1))
        assert np.array_equal(tg.fft.ifftshift(tg.fft.fftshift(tg.fft.Complex(z.real, z.imag))).numpy(), z)


def test_dtypes() -> None:
    x = real(3, 5)
    half = tg.array(x, "f16")
    assert tg.fft.rfft(half).real.dtype == tg.f16 and tg.fft.irfft(tg.fft.rfft(half)).dtype == tg.f16
    np.testing.assert_allclose(tg.fft.rfft(half).numpy(), np.fft.rfft(np.asarray(half)), atol=4e-3)
    check(tg.fft.fft(np.arange(6)), np.fft.fft(np.arange(6)))
    check(untyped.fft.ifft([1j, 2.0, 3 + 1j]), np.fft.ifft([1j, 2.0, 3 + 1j]))


def test_real_frequencies_are_real() -> None:
    spectrum = tg.fft.rfft(real(8, 64)).imag.numpy()
    assert not spectrum[:, 0].any() and not spectrum[:, -1].any()


@pytest.mark.parametrize(("n", "dispatches"), [(128, 2), (4096, 3), (509, 6)])
def test_dispatches(n: int, dispatches: int) -> None:
    """Each factor is one product, rotations are part of the next; what reads both parts is another."""
    program = tg.jit(lambda x: abs(tg.fft.rfft(x)), device="cpu")
    program(tg.ones((4, n)))
    assert program.stats()["dispatches"] == dispatches


BINARY: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * y,
    lambda x, y: x / y,
)


@pytest.mark.parametrize("operate", BINARY)
def test_arithmetic(operate: Callable[[Any, Any], Any]) -> None:
    z, w = complex64(3, 4), complex64(4)
    ours = tg.fft.Complex(tg.array(z.real), tg.array(z.imag))
    numbers = (w, w.real, 2, 0.5, 1 - 2j, np.complex64(1j))
    for other in numbers:
        check(operate(ours, other), operate(z, other))
        check(operate(other, ours), operate(other, z))
    check(operate(ours, tg.array(w.real)), operate(z, w.real))
    check(operate(tg.array(w.real), ours), operate(w.real, z))
    check(operate(ours[0], tg.fft.Complex(tg.array(w.real), tg.array(w.imag))), operate(z[0], w))
    row = tg.fft.Complex(tg.array(w.real), tg.array(w.imag))
    check(operate(row, tg.array(z.real)), operate(w, z.real))


def test_parts() -> None:
    z = complex64(3, 4)
    ours = tg.fft.Complex(tg.array(z.real), tg.array(z.imag))
    check(abs(ours), np.abs(z))
    check(ours.angle(), np.angle(z))
    check(ours.conj(), z.conj())
    check(-ours, -z)
    check(ours[1:, ::2], z[1:, ::2])
    assert (ours.shape, ours.ndim) == ((3, 4), 2)


def test_a_complex_tensor_is_a_tree() -> None:
    z = complex64(3, 8)
    ours = tg.fft.Complex(tg.array(z.real), tg.array(z.imag))
    for device in ("numpy", "cpu"):
        check(tg.jit(lambda x: tg.fft.fft(x) * 2j, device=device)(ours), np.fft.fft(z) * 2j)
    check(tg.vmap(tg.fft.ifft)(ours), np.fft.ifft(z))


def test_gradients_are_those_of_the_parts() -> None:
    z, w = complex64(5), real(5)
    gradient = tg.grad(lambda x: tg.sum(abs(tg.fft.fft(x)) ** 2 * w))(
        tg.fft.Complex(tg.array(z.real), tg.array(z.imag))
    )
    check(gradient, 2 * 5 * np.fft.ifft(w * np.fft.fft(z)), 1e-5)


def test_mistakes() -> None:
    x, z = real(2, 3), tg.fft.Complex(tg.ones(3), tg.ones(3))
    with pytest.raises(ShapeError, match="fft: a transform has at least one number along each axis, not 0"):
        tg.fft.fft(x, 0)
    with pytest.raises(ShapeError, match="irfft: a transform has at least one number"):
        tg.fft.irfft(x[:, :1])
    with pytest.raises(ShapeError, match=r"fft: a length must be an integer, got 2\.5"):
        untyped.fft.fft(x, 2.5)
    with pytest.raises(AxisError, match="fft: axis 2 is out of range for a tensor of 2 axes"):
        tg.fft.fft(x, axis=2)
    with pytest.raises(ShapeError, match="name an axis twice"):
        tg.fft.fftn(x, axes=(0, -2))
    with pytest.raises(ShapeError, match="fftn: 2 lengths for 1 axes"):
        tg.fft.fftn(x, (2, 3), axes=(1,))
    with pytest.raises(ShapeError, match="rfftn: takes at least one axis"):
        tg.fft.rfftn(x, axes=())
    with pytest.raises(DTypeError, match=r"rfft: takes real numbers; tg\.fft\.fft takes complex ones"):
        untyped.fft.rfft(z)
    with pytest.raises(OptionError, match="ifft: norm is 'backward', 'ortho', 'forward', not 'none'"):
        untyped.fft.ifft(x, norm="none")
    with pytest.raises(ShapeError, match="fft: "):
        tg.fft.fft(tg.fft.Complex(tg.ones(3), tg.ones(4)))
    with pytest.raises(AttributeError, match=r"module 'tensorgrad\.fft' has no attribute 'rffft'; did you mean rfft?"):
        _ = untyped.fft.rffft
