"""Fourier transforms and complex numbers of PyTorch: values and gradients, beside PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import fft, nn
from torch_comparison import differences
from torch_modules import Function

import tensorgrad as tg
from tensorgrad.errors import OptionError

BOUND = 1e-10
"""In f64, relative to the largest element."""


def parts(*tensors: torch.Tensor) -> list[torch.Tensor]:
    return [torch.view_as_real(x.resolve_conj()) if x.is_complex() else x for x in tensors]


def transforms(x: torch.Tensor) -> list[torch.Tensor]:
    """Returns transforms of each kind, of real and of complex numbers."""
    z = torch.complex(x, x.flip(-1))
    return parts(
        *(fft.fft(x), fft.fft(z, dim=1), fft.ifft(z, 7, norm="ortho"), fft.rfft(x, 20, norm="forward")),
        *(fft.irfft(z), fft.irfft(z, 13, norm="forward"), fft.hfft(z), fft.ihfft(x), fft.fft2(z), fft.ifft2(z)),
        *(fft.rfft2(x, norm="ortho"), fft.irfft2(z, (5, 9)), fft.fftn(z), fft.ifftn(z, dim=(2, 0)), fft.rfftn(x)),
        *(fft.irfftn(z), fft.fftshift(z), fft.ifftshift(z, 1)),
        x * fft.fftfreq(10, 0.5, dtype=x.dtype) + fft.rfftfreq(18, dtype=x.dtype),
    )


def signals(x: torch.Tensor) -> list[torch.Tensor]:
    """Returns transforms of overlapping windows, and a convolution."""
    window = torch.hann_window(16, dtype=x.dtype)
    rows = x.reshape(3, -1)
    spectrum = torch.stft(rows, 16, 4, window=window, return_complex=True)
    return parts(
        *(spectrum, torch.stft(rows, 16, center=False, window=window, onesided=False, return_complex=True)),
        *(torch.istft(spectrum, 16, 4, window=window, length=120), spectrum.abs().log1p()),
        fft.irfft(fft.rfft(x, 19) * fft.rfft(x[:1], 19), 19)[..., :10],
    )


def arithmetic(x: torch.Tensor) -> list[torch.Tensor]:
    """Returns arithmetic among complex and real numbers."""
    z, w = fft.fft(x), fft.ifft(x + 1)
    return parts(
        *(
            z + 1,
            1 + z,
            z + x,
            x + z,
            z - x,
            x - z,
            1 - z,
            z - 2j,
            torch.add(z, w, alpha=2),
            torch.sub(x, z, alpha=0.5),
        ),
        *(z * w, z * 2j, x * 2j, z * x, x * z, z / w, z / 2, 1j / w, x / w, z**2, w**-1, w.reciprocal(), -z),
        *(z.abs(), z[..., 1:5].angle(), z.conj() * w, z.real, z.imag, w.exp(), w.log(), z.sgn()),
        *(z.sum(1), z.mean(), z.cumsum(0), torch.linalg.vector_norm(z, dim=1), z @ w.mT, z.mT @ (x + 0j)),
        torch.einsum("bij,bkj->ik", z, w),
    )


def moves(x: torch.Tensor) -> list[torch.Tensor]:
    """Returns moves and changes in place, into which real numbers go too."""
    z = fft.fft(x)
    spread = torch.zeros(3, 12, 10, dtype=z.dtype)
    spread[:, :2, :3] = z[:, :2, :3] * 2
    spread[:, -2:] = 1
    added = z + 0
    added += 1
    return parts(
        *(spread, added, torch.where(x > 0, z, 0.5), z.masked_fill(x > 0, 2.0), F.pad(z, (1, 2), value=3.0)),
        *(torch.cat([z, x + 0j], 1), torch.cat([z, x.to(z.dtype)]), torch.stack([z, z * 2]), torch.ones_like(z) * x),
        *(z.reshape(-1), z.permute(2, 0, 1), z.mT, z[1], z[:, ::2], z[..., None], z.flip(0), z.roll(1, 0)),
        *(z.unbind(0)[1], z.split(5, 1)[1], z.repeat(1, 2, 1), z.expand(2, -1, -1, -1), z.diagonal()),
        *(z.index_select(0, torch.tensor([1, 1])), z[torch.tensor([2, 0])], z.new_zeros(2) + 1, z.clone().squeeze()),
    )


@pytest.mark.in_turns(4)
@pytest.mark.parametrize("function", [transforms, signals, arithmetic, moves])
def test_complex_numbers_are_pytorchs(function: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    module = Function(function, (3, 12, 10)).double()
    assert max(differences(module, []).values()) < BOUND


class Spectral(nn.Module):
    """A layer of a Fourier neural operator (Li et al., ICLR 2021): mixes channels at the lowest frequencies."""

    def __init__(self, channels: int, modes: int):
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(channels, channels, modes, modes, dtype=torch.cfloat) / channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spectrum = fft.rfft2(x)
        mixed = torch.zeros_like(spectrum)
        low = spectrum[..., : self.modes, : self.modes]
        mixed[..., : self.modes, : self.modes] = torch.einsum("bixy,ioxy->boxy", low, self.weight)
        return torch.tanh(fft.irfft2(mixed, x.shape[-2:]) + x)


@pytest.mark.parametrize("device", ["cpu", "wgpu"])
def test_complex_parameters_are_trained(device: tg.DeviceName) -> None:
    torch.manual_seed(0)
    module = Spectral(3, 4)
    x, y = torch.randn(2, 3, 12, 9), torch.randn(2, 3, 12, 9)
    assert max(differences(module, [x]).values()) < 1e-5
    model = tg.from_torch(module, x)
    training = tg.compile(
        model,
        loss=lambda model, x, y: tg.mean((model(x) - y) ** 2),
        optimizer=tg.optim.adam(1e-2),
        inputs={"x": tg.spec((2, 3, 12, 9)), "y": tg.spec((2, 3, 12, 9))},
        device=device,
    )
    optimizer = torch.optim.Adam(module.parameters(), 1e-2)
    for _ in range(5):
        loss = ((module(x) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert float(training.step(x=x.numpy(), y=y.numpy())) == pytest.approx(loss.item(), rel=2e-6)
    state = tg.nn.to_torch(model, training.state_dict())
    assert state["weight"].dtype == np.complex64
    np.testing.assert_allclose(state["weight"], module.state_dict()["weight"].numpy(), atol=1e-4)
    training.load_parameters(tg.nn.from_torch(model, module.state_dict()))
    np.testing.assert_array_equal(
        tg.nn.to_torch(model, training.state_dict())["weight"], module.weight.numpy(force=True)
    )


def test_complex_arguments_and_results() -> None:
    z = torch.randn(3, 4, dtype=torch.cfloat)
    model = tg.from_torch(Function(lambda x: x * 2j), z)
    for argument in (z, z.numpy(), tg.fft.Complex(tg.array(z.real.numpy()), tg.array(z.imag.numpy()))):
        np.testing.assert_array_equal(model(argument).numpy(), z.numpy() * 2j)


def test_what_is_refused() -> None:
    x = torch.ones(3)
    with pytest.raises(OptionError, match=r"complex numbers don't become real ones .*torch_modules\.py"):
        tg.from_torch(Function(lambda x: fft.fft(x).to(torch.float32)), x)(x)
    with pytest.raises(OptionError, match=r"no rule for aten\.tanh of complex tensors .*torch_modules\.py"):
        tg.from_torch(Function(lambda x: fft.fft(x).tanh()), x)(x)
    with pytest.raises(OptionError, match=r"powers of complex numbers have whole exponents"):
        tg.from_torch(Function(lambda x: fft.fft(x) ** 0.5), x)(x)
