"""Fourier transforms.

Complex numbers have a last axis of two parts, real ones of one.
"""

from __future__ import annotations

import numpy as np

import tensorgrad as tg
from tensorgrad.importers.onnx.table import OnnxNode, rule
from tensorgrad.tracing.tensor import Array, Tensor


def _numbers(x: Tensor) -> Tensor | tg.fft.Complex:
    return x[..., 0] if x.shape[-1] == 1 else tg.fft.Complex(x[..., 0], x[..., 1])


def _transform(x: Tensor, length: int, axis: int, is_half: bool) -> Tensor:
    """Returns the forward transform; the first half of it, and one more, if `is_half`."""
    numbers = _numbers(x)
    if is_half and isinstance(numbers, Tensor):
        result = tg.fft.rfft(numbers, length, axis)
    else:
        result = tg.fft.fft(numbers, length, axis)
    joined = tg.stack([result.real, result.imag], -1)
    return tg.narrow(joined, axis, 0, length // 2 + 1) if is_half else joined


@rule("DFT", "axis inverse onesided", constants=(1, 2))
def _dft(node: OnnxNode) -> Tensor:
    x = node.tensor(0)
    axis = int(node.scalar(2, -2)) if node.version >= 20 else node.attribute("axis", 1)
    axis = axis % x.ndim
    inverse, half = bool(node.attribute("inverse", 0)), bool(node.attribute("onesided", 0))
    length = int(node.scalar(1, 2 * (x.shape[axis] - 1) if inverse and half else x.shape[axis]))
    if not inverse:
        return _transform(x, length, axis, half)
    if half:
        return tg.unsqueeze(tg.fft.irfft(_numbers(x), length, axis), -1)
    result = tg.fft.ifft(_numbers(x), length, axis)
    return tg.stack([result.real, result.imag], -1)


@rule("STFT", "onesided", constants=(1, 3))
def _stft(node: OnnxNode) -> Tensor:
    x, step = node.tensor(0), int(node.scalar(1))
    window = node.optional(2)
    length = int(node.scalar(3)) if node.has(3) else window.shape[0] if window is not None else x.shape[1]
    frames = (x.shape[1] - length) // step + 1
    at = (np.arange(frames)[:, None] * step + np.arange(length)).astype(np.int32)
    segments = tg.take(x, Array(at), 1)  # [batch, frames, length, 1 or 2]
    if window is not None:
        segments = segments * tg.reshape(window, (-1, 1))
    return _transform(segments, length, 2, bool(node.attribute("onesided", 1)))
