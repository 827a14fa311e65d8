"""Short-time Fourier transforms and Hermitian ones, compared with PyTorch's and NumPy's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from draws import generator

import tensorgrad as tg
from tensorgrad.errors import DTypeError, OptionError, ShapeError

RANDOM = generator(1)
HANN = np.hanning(33)[:-1].astype(np.float32)
SETTINGS: list[dict[str, Any]] = [
    {},
    {"window": HANN},
    {"hop_length": 5, "normalized": True, "window": HANN},
    {"hop_length": 7, "win_length": 20, "window": np.hamming(20).astype(np.float32)},
    {"hop_length": 4, "win_length": 9},
    {"onesided": False, "window": HANN},
    {"center": False},
]
untyped: Any = tg


def signals(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape).astype(np.float32)


def theirs(settings: dict[str, Any]) -> dict[str, Any]:
    window = settings.get("window", np.ones(settings.get("win_length", 32), np.float32))
    return settings | {"window": torch.tensor(window)}


def check(ours: np.ndarray, expected: torch.Tensor, tolerance: float = 2e-6) -> None:
    values = expected.numpy(force=True)
    assert ours.shape == values.shape
    assert np.abs(ours - values).max() <= tolerance * np.abs(values).max()


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: " ".join(settings) or "defaults")
@pytest.mark.parametrize("shape", [(100,), (3, 99)], ids=str)
def test_there_and_back(settings: dict[str, Any], shape: tuple[int, ...]) -> None:
    x = signals(*shape)
    spectra = torch.stft(torch.tensor(x), 32, **theirs(settings), return_complex=True)
    check(tg.fft.stft(x, 32, **settings).numpy(), spectra)
    changed = spectra * torch.linspace(0.5, 2, spectra.shape[-1])
    pair = tg.fft.Complex(tg.array(changed.real.numpy()), tg.array(changed.imag.numpy()))
    for length in (None, 60, *([] if "win_length" in settings else [120])):  # shorter windows give the end no weight
        with warnings.catch_warnings(action="ignore"):  # PyTorch warns once that it adds zeros
            expected = torch.istft(changed, 32, **theirs(settings), length=length)
        check(tg.fft.istft(pair, 32, **settings, length=length).numpy(), expected, 2e-5 if length == 120 else 2e-6)


def test_several_axes_and_modes_of_padding() -> None:
    x = signals(2, 3, 50)
    flat = tg.fft.stft(x.reshape(6, 50), 16, pad_mode="edge").numpy()
    np.testing.assert_array_equal(tg.fft.stft(x, 16, pad_mode="edge").numpy(), flat.reshape(2, 3, *flat.shape[1:]))
    expected = torch.stft(torch.tensor(x[0]), 16, window=torch.ones(16), pad_mode="replicate", return_complex=True)
    check(flat[:3], expected)


@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_gradients_of_signals_and_windows(device: tg.DeviceName) -> None:
    x, target = signals(2, 80), signals(2, 80)

    def loss(x: Any, window: Any) -> Any:
        spectra = tg.fft.stft(x, 32, 8, window=window)
        again = tg.fft.istft(spectra, 32, 8, window=window, length=80)
        return tg.mean(abs(spectra)) + tg.mean(tg.square(again - target)) * 3

    gradients = tg.jit(tg.grad(loss, argnums=(0, 1)), device=device)(x, HANN + 0.1)
    inputs = [torch.tensor(value, requires_grad=True) for value in (x, HANN + 0.1)]
    spectra = torch.stft(inputs[0], 32, 8, window=inputs[1], return_complex=True)
    again = torch.istft(spectra, 32, 8, window=inputs[1], length=80)
    (spectra.abs().mean() + (again - torch.tensor(target)).square().mean() * 3).backward()
    for ours, value in zip(gradients, inputs, strict=True):
        assert value.grad is not None
        check(np.asarray(ours), value.grad, 1e-5)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("n", [None, 7, 12, 300])
def test_hermitian(n: int | None, norm: Any) -> None:
    z, x = signals(3, 9) + np.complex64(1j) * signals(3, 9), signals(3, 9)
    for ours, expected in (
        (tg.fft.hfft(z, n, norm=norm), np.fft.hfft(z, n, norm=norm)),
        (tg.fft.hfft(x, n, 0, norm), np.fft.hfft(x, n, 0, norm)),
        (tg.fft.ihfft(x, n, norm=norm), np.fft.ihfft(x, n, norm=norm)),
    ):
        assert ours.shape == expected.shape
        assert np.abs(ours.numpy() - expected).max() <= 2e-6 * np.abs(expected).max()


def test_mistakes() -> None:
    x, spectra = signals(100), tg.fft.stft(signals(100), 32)
    for match, mistake in {
        "stft: takes real signals": lambda: untyped.fft.stft(x * 1j, 32),
        r"stft: takes \[..., samples\]": lambda: tg.fft.stft(1.0, 32),
        "the window at most n_fft long, not 32, 8 and 40": lambda: tg.fft.stft(x, 32, win_length=40),
        "n_fft, hop_length and win_length are positive": lambda: tg.fft.stft(x, 32, 0),
        "stft: n_fft": lambda: untyped.fft.stft(x, 3.5),
        r"the window has 32 factors, not \(20,\); win_length=": lambda: tg.fft.stft(x, 32, window=np.ones(20)),
        "100 samples can't be reflected around windows of 200: center=False": lambda: tg.fft.stft(x, 200),
        "windows of 200 samples do not fit into 100": lambda: tg.fft.stft(x, 200, center=False),
        r"istft: takes \[..., 33 frequencies, frames\], not \(17, 13\)": lambda: tg.fft.istft(spectra, 64),
        "weights add up to 0": lambda: tg.fft.istft(spectra, 32, window=HANN, center=False),
        "windows that are 40 samples apart": lambda: tg.fft.istft(spectra, 32, 40),
        "hfft: norm is": lambda: untyped.fft.hfft(x, norm="both"),
        "ihfft: takes real numbers": lambda: untyped.fft.ihfft(x * 1j),
    }.items():
        with pytest.raises((ShapeError, DTypeError, OptionError), match=match):
            mistake()
