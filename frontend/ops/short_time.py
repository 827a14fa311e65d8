"""Short-time Fourier transforms: of overlapping windows of a signal, and back.

The inverse is that of Griffin and Lim, "Signal estimation from modified short-time Fourier transform", IEEE Trans. ASSP
32, 1984.
"""

from __future__ import annotations

import numpy as np

from tensorgrad.errors import DTypeError, ShapeError
from tensorgrad.ops.columns import col2im, unfold
from tensorgrad.ops.complex_numbers import Complex, ComplexLike, parts_of
from tensorgrad.ops.fourier import Norm, fft, ifft, irfft, rfft
from tensorgrad.ops.joining import narrow, pad
from tensorgrad.ops.promotion import as_float, as_tensor, broadcast_to
from tensorgrad.ops.shape import reshape, swapaxes
from tensorgrad.tracing.checks import checked_extent
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Tensor, Traced

LEAST_ENVELOPE = 1e-11
"""Squares of windows that add up to less have no inverse."""


def stft(
    x: TensorLike,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: TensorLike | None = None,
    *,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool = True,
) -> Complex:
    """Returns the Fourier transforms of overlapping windows of signals, as `torch.stft`.

    Args:
        x: Real signals, `[..., samples]`.
        n_fft: The length of each transform.
        hop_length: The distance between the starts of neighboring windows; a quarter of `n_fft` if `None`.
        win_length: The length of the window, which lies in the middle of `n_fft` samples; `n_fft` if `None`.
        window: `win_length` factors of the samples, such as `np.hanning(n + 1)[:-1]`; ones if `None`.
        center: Whether windows are centered: frame t at `t * hop_length`, with samples padded at both ends. Otherwise
            it starts there.
        pad_mode: How `tg.pad` pads them.
        normalized: Whether results are divided by the root of `n_fft`.
        onesided: Whether only the first `n_fft // 2 + 1` frequencies are returned: the others are their conjugates.

    Returns:
        A complex tensor `[..., frequencies, frames]`.

    Raises:
        ShapeError: A length is not positive, the window has another length or is longer than `n_fft`, or no window fits
            into the samples.
        DTypeError: `x` is complex.

    Example:
        >>> tg.fft.stft(tg.ones((2, 1000)), 128, window=np.hanning(129)[:-1]).shape
        (2, 65, 32)
    """
    real, imag = parts_of(x)
    if imag is not None:
        raise DTypeError("stft: takes real signals")
    signal, (taps, step) = as_float(real), _window("stft", n_fft, hop_length, win_length, window)
    if not signal.ndim:
        raise ShapeError("stft: takes [..., samples], not one number")
    if center:
        if pad_mode == "reflect" and signal.shape[-1] <= n_fft // 2:
            raise ShapeError(
                f"stft: {signal.shape[-1]} samples can't be reflected around windows of {n_fft}: center=False starts "
                "windows inside, pad_mode='constant' pads zeros"
            )
        signal = pad(signal, [*[(0, 0)] * (signal.ndim - 1), (n_fft // 2, n_fft // 2)], pad_mode)
    if signal.shape[-1] < n_fft:
        raise ShapeError(f"stft: windows of {n_fft} samples do not fit into {signal.shape[-1]}")
    frames = unfold(signal, -1, n_fft, step)
    frames = frames if taps is None else frames * taps
    spectra = (rfft if onesided else fft)(frames, norm=_norm(normalized))
    return Complex(*(swapaxes(part, -1, -2) for part in (spectra.real, spectra.imag)))


def istft(
    x: ComplexLike,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: TensorLike | None = None,
    *,
    center: bool = True,
    normalized: bool = False,
    onesided: bool = True,
    length: int | None = None,
) -> Tensor:
    """Returns the signals whose short-time transforms are nearest in their squares, as `torch.istft`.

    Windows of inverse transforms are added up, and divided by the sum of the squares of what they were weighted with.

    Args:
        x: Complex numbers `[..., frequencies, frames]`, as `stft` returns them.
        n_fft: The length of each transform; this and the following arguments are as in `stft`.
        hop_length: The distance between neighboring windows.
        win_length: The length of the window.
        window: Its factors.
        center: Whether windows are centered.
        normalized: Whether the transforms are divided by the root of `n_fft`.
        onesided: Whether only the first half of the frequencies is there.
        length: The number of samples; by default up to the end of the last window, or its center with `center`. There
            are zeros behind the end of that window.

    Returns:
        `[..., samples]`.

    Raises:
        ShapeError: The number of frequencies does not match, there is no frame, windows leave a sample without weight,
            or as in `stft`.

    Example:
        >>> x, window = tg.arange(1000.0), np.hanning(129)[:-1]
        >>> again = tg.fft.istft(tg.fft.stft(x, 128, window=window), 128, window=window, length=1000)
        >>> float(abs(again - x).max()) < 1e-2
        True
    """
    taps, step = _window("istft", n_fft, hop_length, win_length, window)
    real, imag = parts_of(x)
    frequencies = n_fft // 2 + 1 if onesided else n_fft
    if real.ndim < 2 or real.shape[-2] != frequencies or not real.shape[-1]:
        raise ShapeError(f"istft: takes [..., {frequencies} frequencies, frames], not {real.shape}")
    spectra = Complex(*(swapaxes(part, -1, -2) for part in (real, real * 0 if imag is None else imag)))
    norm = _norm(normalized)
    frames = irfft(spectra, n_fft, norm=norm) if onesided else ifft(spectra, norm=norm).real
    frames = frames if taps is None else frames * taps
    squares = as_float(np.ones(n_fft, np.float32) if taps is None else taps * taps)
    count, start = real.shape[-1], n_fft // 2 if center else 0
    end = step * (count - 1) + n_fft
    stop = end - start if length is None else start + checked_extent(length, "istft: length")
    weighted, envelope = (
        narrow(_added(each, step), -1, start, min(stop, end) - start)
        for each in (frames, broadcast_to(squares, (count, n_fft)))
    )
    if not isinstance(envelope, Traced) and not np.min(abs(envelope).numpy(), initial=1) > LEAST_ENVELOPE:
        raise ShapeError(f"istft: windows that are {step} samples apart leave samples whose weights add up to 0")
    signal = weighted / envelope
    return pad(signal, [*[(0, 0)] * (signal.ndim - 1), (0, stop - end)]) if stop > end else signal


def _norm(normalized: bool) -> Norm:
    return "ortho" if normalized else "backward"


def _window(
    what: str, n_fft: int, hop_length: int | None, win_length: int | None, window: TensorLike | None
) -> tuple[Tensor | None, int]:
    """Returns `n_fft` factors of samples, if they are not ones, and the distance between windows.

    Raises:
        ShapeError: A length is not positive, the window has another one or is longer than `n_fft`.
    """
    n_fft = checked_extent(n_fft, f"{what}: n_fft")
    step = n_fft // 4 if hop_length is None else checked_extent(hop_length, f"{what}: hop_length")
    size = n_fft if win_length is None else checked_extent(win_length, f"{what}: win_length")
    if min(n_fft, step, size) < 1 or size > n_fft:
        raise ShapeError(
            f"{what}: n_fft, hop_length and win_length are positive, and the window at most n_fft long, "
            f"not {n_fft}, {step} and {size}"
        )
    if window is None and size == n_fft:
        return None, step
    taps = as_float(as_tensor(np.ones(size, np.float32) if window is None else window))
    if taps.shape != (size,):
        raise ShapeError(f"{what}: the window has {size} factors, not {taps.shape}; win_length= is their number")
    before = (n_fft - size) // 2
    return pad(taps, (before, n_fft - size - before)) if size < n_fft else taps, step


def _added(frames: Tensor, step: int) -> Tensor:
    """Returns the sum of overlapping frames `[..., frames, samples]`."""
    *lead, count, size = frames.shape
    columns = swapaxes(reshape(frames, (-1, count, size)), 1, 2)
    return reshape(col2im(columns, [step * (count - 1) + size], size, step), (*lead, -1))
