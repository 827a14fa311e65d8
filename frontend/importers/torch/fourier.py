"""Fourier transforms, of which PyTorch has three ops: of real numbers, to real numbers, and of complex ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tensorgrad as tg
from tensorgrad.importers.torch.complex_pairs import Complex, of_pairs
from tensorgrad.importers.torch.table import Call, rule
from tensorgrad.tracing.tensor import Array, Tensor

FORWARD = ("backward", "ortho", "forward")
"""Our `norm` by PyTorch's `normalization` of a forward transform, which divides by nothing, the root or the number."""

BACKWARD = FORWARD[::-1]
"""The same of a backward transform."""


@rule("_fft_r2c")
def _fft_r2c(self: Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Complex:
    transform = tg.fft.rfftn if onesided else tg.fft.fftn
    return transform(self, axes=tuple(dim), norm=FORWARD[normalization])


@of_pairs("_fft_c2c")
def _fft_c2c(self: Complex, dim: Sequence[int], normalization: int, forward: bool) -> Complex:
    if forward:
        return tg.fft.fftn(self, axes=tuple(dim), norm=FORWARD[normalization])
    return tg.fft.ifftn(self, axes=tuple(dim), norm=BACKWARD[normalization])


@of_pairs("_fft_c2r")
def _fft_c2r(self: Complex, dim: Sequence[int], normalization: int, last_dim_size: int) -> Tensor:
    extents = [self.shape[axis] for axis in dim[:-1]]
    return tg.fft.irfftn(self, (*extents, last_dim_size), tuple(dim), BACKWARD[normalization])


@rule("fft_fftfreq fft_rfftfreq")
def _frequencies(call: Call, n: int, d: float = 1.0, dtype: Any = None) -> Array:
    numbers = np.fft.rfftfreq if "rfft" in call.name else np.fft.fftfreq
    return Array(np.asarray(numbers(n, d), call.dtype))
