"""Parameters that files store in fewer bits than programs use: as f16, or as int8 with scales.

int8 is symmetric: `round(value / scale)`, where the scale of a channel is its largest absolute value over 127. Channels
are the indices of the axis for which the error is the least. Source: Jacob et al., "Quantization and training of neural
networks for efficient integer-arithmetic-only inference", CVPR 2018, with a zero point of 0.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tensorgrad.runtime.errors import InputError

F32, F16, INT8 = "f32", "f16", "int8"
WEIGHTS = (F32, F16, INT8)
"""How a file stores parameters: as they are, or the f32 matrices among them in fewer bits."""

PARAMETER, SCALE = "parameter/", "scale/"
"""The prefixes of the names of parameters and of their scales in files."""

LARGEST = 127
LEAST_PER_SCALE = 8
"""The least number of elements that share a scale: with it they take at most 3/8 of their bytes as f32."""


def packed(tensors: Mapping[str, np.ndarray], weights: str) -> dict[str, np.ndarray]:
    """Returns a file's tensors with f32 parameters of two or more axes in fewer bits, and with their scales.

    Those with fewer than `LEAST_PER_SCALE` elements in each channel stay f32 with int8.

    Args:
        tensors: Tensors by their names in files.
        weights: One of `WEIGHTS`.

    Raises:
        InputError: A parameter is not finite, or too large for f16.
    """
    if weights == F32:
        return dict(tensors)
    result: dict[str, np.ndarray] = {}
    for key, value in tensors.items():
        is_packed = key.startswith(PARAMETER) and value.dtype == np.float32 and value.ndim >= 2 and value.size > 0
        result |= _packed(key.removeprefix(PARAMETER), value, weights) if is_packed else {key: value}
    return result


def unpacked(value: np.ndarray, scale: np.ndarray | None) -> np.ndarray:
    """Returns the f32 parameter that a file stores, or `value` itself if it is stored as it is.

    Args:
        value: The stored parameter.
        scale: Its scales, f32 of a shape that broadcasts to the parameter's.

    Raises:
        InputError: The scales don't fit.
    """
    if scale is None:
        return value.astype(np.float32) if value.dtype == np.float16 else value
    channels = [extent for extent in scale.shape if extent != 1]
    fits = scale.ndim == value.ndim and all(
        own in (1, extent) for own, extent in zip(scale.shape, value.shape, strict=True)
    )
    if value.dtype != np.int8 or scale.dtype != np.float32 or not fits or len(channels) > 1:
        raise InputError(
            f"scales are f32 of one axis of int8 values, got {scale.dtype} of shape {scale.shape} for {value.dtype} of "
            f"shape {value.shape}"
        )
    with np.errstate(over="ignore", invalid="ignore"):  # scales of a damaged file
        return value * scale


def _packed(name: str, value: np.ndarray, weights: str) -> dict[str, np.ndarray]:
    if not np.isfinite(value).all():
        raise InputError(f"weights={weights!r}: parameter {name!r} has values that are not finite")
    if weights == F16:
        largest = float(np.finfo(np.float16).max)
        if np.abs(value).max() > largest:
            raise InputError(f"weights='f16': parameter {name!r} has values beyond {largest:g}, the largest of f16")
        return {PARAMETER + name: value.astype(np.float16)}
    axes = [axis for axis, extent in enumerate(value.shape) if extent * LEAST_PER_SCALE <= value.size]
    if not axes:
        return {PARAMETER + name: value}
    candidates = [_quantized(value, axis) for axis in axes]
    integers, scale = min(candidates, key=lambda stored: _error(value, *stored))
    return {PARAMETER + name: integers, SCALE + name: scale}


def _quantized(value: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns int8 values and the scale of each index of an axis."""
    others = tuple(other for other in range(value.ndim) if other != axis)
    scale = np.abs(value).max(axis=others, keepdims=True) / np.float32(LARGEST)
    scale = np.where(scale < np.finfo(np.float32).tiny, np.float32(1), scale)  # such channels are stored as zeros
    return np.clip(np.rint(value / scale), -LARGEST, LARGEST).astype(np.int8), scale


def _error(value: np.ndarray, integers: np.ndarray, scale: np.ndarray) -> float:
    return float(np.square(value - integers * scale.astype(np.float64)).sum())
