"""Cases of composed functions, each listed under its main op."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from case import SPECIAL, Case, NumpyArray, f32, i32, normal, u32, uniform

import tensorgrad as tg
from tensorgrad.dialects.tg import contract, reduce
from tensorgrad.dialects.tg import index as index_ops
from tensorgrad.dialects.tg.elementwise import arithmetic, functions

PAIRS = (np.repeat(SPECIAL, SPECIAL.size), np.tile(SPECIAL, SPECIAL.size))
"""Every special value with every other."""


def _as_index(x: NumpyArray) -> NumpyArray:
    return x.astype(np.int32)


def _spectrum(x: tg.Tensor) -> tg.Tensor:
    """Returns a transform of each row, and one along the columns of what is left, as one real tensor."""
    spectrum = tg.fft.rfftn(x, norm="ortho")
    return tg.stack([spectrum.real, spectrum.imag])


def _spectrum_by_numpy(x: NumpyArray) -> NumpyArray:
    spectrum = np.fft.rfftn(x, norm="ortho")
    return np.stack([spectrum.real, spectrum.imag])


def _from_spectrum(x: tg.Tensor) -> tg.Tensor:
    return tg.fft.irfft(tg.fft.Complex(x[0], x[1]), norm="ortho")


def _from_spectrum_by_numpy(x: NumpyArray) -> NumpyArray:
    return np.fft.irfft(x[0] + 1j * x[1], norm="ortho")


def fourier_cases() -> Iterator[Case]:
    """Returns cases of Fourier transforms: of one matrix, of two, and as a convolution."""
    dot = contract.DotGeneralOp
    for n in (6, 132, 131):
        yield Case(dot, f"spectrum of {n}", _spectrum, (normal(3, n),), _spectrum_by_numpy, derivative=True)
    for n in (4, 70):
        yield Case(
            dot, f"from a spectrum of {n}", _from_spectrum, (normal(2, 3, n),), _from_spectrum_by_numpy, derivative=True
        )


def composed_cases() -> Iterator[Case]:
    """Returns cases of norms, logarithms, signs, integer powers, searches and differences."""
    yield Case(functions.SqrtOp, "hypot", tg.hypot, (normal(3, 1), normal(4)), np.hypot, derivative=True)
    yield Case(functions.SqrtOp, "hypot special", tg.hypot, PAIRS, np.hypot)
    yield Case(
        functions.SoftplusOp, "logaddexp", tg.logaddexp, (normal(3, 1), normal(4)), np.logaddexp, derivative=True
    )
    yield Case(functions.SoftplusOp, "logaddexp special", tg.logaddexp, PAIRS, np.logaddexp)
    yield Case(functions.LogOp, "to base 10", tg.log10, (uniform(0.2, 40, 5),), np.log10, derivative=True)
    yield Case(arithmetic.BitcastOp, "signbit", tg.signbit, (SPECIAL,), np.signbit, rtol=0)
    bases, exponents = np.meshgrid(i32(-3, -1, 0, 1, 2, 46341), i32(0, 1, 2, 5, 31))
    yield Case(arithmetic.MulOp, "i32 powers", tg.power, (bases, exponents), np.power)
    yield Case(arithmetic.MulOp, "u32 powers", tg.power, (u32(3, 2**32 - 1, 0), u32(20, 3, 0)), np.power)
    vector, values = f32(-2, -1, -1, 0.5, 3, np.nan), f32(-3, -1, 0, 0.5, 9, np.nan)
    for side in ("left", "right"):
        yield Case(
            index_ops.TakeOp,
            f"searchsorted {side}",
            lambda x, y, s=side: tg.searchsorted(x, y, s),
            (vector, values),
            lambda x, y, s=side: _as_index(np.searchsorted(x, y, "left" if s == "left" else "right")),
        )
    yield Case(index_ops.TakeOp, "isin", tg.isin, (values, vector), np.isin)
    yield Case(
        arithmetic.SubOp,
        "diff",
        lambda x: tg.diff(x, 2, 0),
        (normal(5, 2),),
        lambda x: np.diff(x, 2, 0),
        derivative=True,
    )
    yield Case(
        reduce.SumOp,
        "of what is not 0",
        lambda x: tg.count_nonzero(x, 0),
        (i32(0, 3, 0, -1),),
        lambda x: _as_index(np.count_nonzero(x, 0)),
    )
