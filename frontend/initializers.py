"""Initializers: how `tg.compile` draws a declared parameter from its key.

An initializer is any function of a key, a shape and a dtype that gives a numpy array. Those here know a weight's fans:
of a matrix `[in, out]`, and of a kernel `[..., in, out]` whose leading axes are its window.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tensorgrad.dtypes import DType
from tensorgrad.errors import OptionError, ShapeError

if TYPE_CHECKING:
    from tensorgrad import random

Initializer: TypeAlias = "Callable[[random.Key, tuple[int, ...], DType], np.ndarray[Any, Any]]"


def fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """How many inputs each output of a weight `[..., in, out]` has, and how many outputs each input.

    Raises:
        ShapeError: The shape has fewer than two axes, so it has no fans.
    """
    if len(shape) < 2:
        raise ShapeError(f"a parameter of shape {shape} has no fans: they need an input and an output axis")
    window = math.prod(shape[:-2])
    return shape[-2] * window, shape[-1] * window


@dataclass(frozen=True)
class constant:
    """Every element is `value`."""

    value: float

    def __call__(self, key: random.Key, shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
        """The values."""
        return np.full(shape, self.value, dtype)


zeros, ones = constant(0.0), constant(1.0)


@dataclass(frozen=True)
class uniform:
    """Uniformly random in `[low, high)`."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high):
            raise OptionError(f"uniform: bounds must be finite and in order, got {self.low} and {self.high}")

    def __call__(self, key: random.Key, shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
        """The values."""
        from tensorgrad import random  # it draws through the tracer, which knows modules and so this module

        return np.asarray(random.uniform(key, shape, self.low, self.high)).astype(dtype)


@dataclass(frozen=True)
class normal:
    """Normally distributed, of mean 0 unless given."""

    standard_deviation: float
    mean: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mean) and 0 <= self.standard_deviation < math.inf):
            raise OptionError(f"normal: needs a finite deviation that is not negative, got {self!r}")

    def __call__(self, key: random.Key, shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
        """The values."""
        from tensorgrad import random

        drawn = np.asarray(random.normal(key, shape))
        return (drawn * np.float32(self.standard_deviation) + np.float32(self.mean)).astype(dtype)


@dataclass(frozen=True)
class variance_scaling:
    """Random of mean 0 and variance `scale / fan`.

    Attributes:
        scale: What the variance is a fraction of.
        fan: "in", "out", or "mean" for the average of both.
        distribution: "uniform" or "normal".
    """

    scale: float
    fan: str
    distribution: str

    def __post_init__(self) -> None:
        if not 0 <= self.scale < math.inf or self.fan not in _FANS or self.distribution not in _DISTRIBUTIONS:
            raise OptionError(
                f"variance_scaling: needs a finite scale, a fan of {', '.join(_FANS)} and a distribution of "
                f"{', '.join(_DISTRIBUTIONS)}, got {self!r}"
            )

    def __call__(self, key: random.Key, shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
        """The values.

        Raises:
            ShapeError: The shape has fewer than two axes.
        """
        deviation = math.sqrt(self.scale / max(_FANS[self.fan](*fans(shape)), 1))
        return _DISTRIBUTIONS[self.distribution](deviation)(key, shape, dtype)


_FANS: dict[str, Callable[[int, int], float]] = {
    "in": lambda fan_in, fan_out: fan_in,
    "out": lambda fan_in, fan_out: fan_out,
    "mean": lambda fan_in, fan_out: (fan_in + fan_out) / 2,
}
_DISTRIBUTIONS: dict[str, Callable[[float], Initializer]] = {
    "uniform": lambda deviation: uniform(-math.sqrt(3) * deviation, math.sqrt(3) * deviation),
    "normal": normal,
}

glorot_uniform = variance_scaling(1.0, "mean", "uniform")
glorot_normal = variance_scaling(1.0, "mean", "normal")
he_uniform = variance_scaling(2.0, "in", "uniform")
he_normal = variance_scaling(2.0, "in", "normal")
lecun_uniform = variance_scaling(1.0, "in", "uniform")
lecun_normal = variance_scaling(1.0, "in", "normal")
