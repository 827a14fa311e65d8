"""Fourier transforms, as products with the DFT matrix."""

from __future__ import annotations

import numpy as np

import tensorgrad as tg
from tensorgrad.importers.onnx.elements import NumpyArray
from tensorgrad.importers.onnx.table import OnnxNode, rule
from tensorgrad.tracing.tensor import Array, Tensor


def _roots(length: int, outputs: int, inverse: bool, dtype: np.dtype[np.generic]) -> tuple[Array, Array]:
    """Returns the real and imaginary parts of the DFT matrix, `[length, outputs]`."""
    turns = np.outer(np.arange(length), np.arange(outputs)) % length
    angle: NumpyArray = (2 if inverse else -2) * np.pi * turns / length
    scale = 1 / length if inverse else 1.0
    return Array((np.cos(angle) * scale).astype(dtype)), Array((np.sin(angle) * scale).astype(dtype))


def transform(x: Tensor, length: int, outputs: int, inverse: bool = False) -> Tensor:
    """Returns the transform of the rows of `[..., n, 1 or 2]` (real, or real and imaginary): `[..., outputs, 2]`."""
    have = x.shape[-2]
    if have > length:
        x = tg.narrow(x, -2, 0, length)
    elif have < length:
        x = tg.pad(x, [*([(0, 0)] * (x.ndim - 2)), (0, length - have), (0, 0)])
    cosines, sines = _roots(length, outputs, inverse, x.dtype)
    real = x[..., 0]
    parts = [tg.matmul(real, cosines), tg.matmul(real, sines)]
    if x.shape[-1] == 2:
        imaginary = x[..., 1]
        parts = [parts[0] - tg.matmul(imaginary, sines), parts[1] + tg.matmul(imaginary, cosines)]
    return tg.stack(parts, -1)


@rule("DFT", "axis inverse onesided", constants=(1, 2))
def _dft(node: OnnxNode) -> Tensor:
    x = node.tensor(0)
    axis = int(node.scalar(2, -2)) if node.version >= 20 else node.attribute("axis", 1)
    axis = axis % x.ndim
    inverse, half = bool(node.attribute("inverse", 0)), bool(node.attribute("onesided", 0))
    length = int(node.scalar(1, 2 * (x.shape[axis] - 1) if inverse and half else x.shape[axis]))
    rows = tg.moveaxis(x, axis, -2)
    if inverse and half:
        rows = _mirrored(rows, length)
        return tg.moveaxis(transform(rows, length, length, True)[..., :1], -2, axis)
    outputs = length // 2 + 1 if half else length
    return tg.moveaxis(transform(rows, length, outputs, inverse), -2, axis)


def _mirrored(half: Tensor, length: int) -> Tensor:
    """Returns the whole spectrum of a real signal, from its first half; the rest is its conjugate, reversed."""
    rest = length - half.shape[-2]
    tail = tg.flip(tg.narrow(half, -2, 1, rest), -2)
    return tg.concat([half, tail * Array(np.array([1, -1], half.dtype))], -2)


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
    return transform(segments, length, length // 2 + 1 if node.attribute("onesided", 1) else length)
