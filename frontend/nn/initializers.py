"""Initializers: how `tg.compile` samples a declared parameter from its key.

An initializer is any function of a key, a shape and a dtype that returns a numpy array. Those here know the fan-in and
fan-out of a matrix `[in, out]` and of a convolution's weight `[out, in / groups, window...]`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tensorgrad.errors import OptionError, ShapeError
from tensorgrad.ops import drawing, random
from tensorgrad.ops.creation import array
from tensorgrad.runtime.conversion import kind_of
from tensorgrad.tracing.dtypes import DType

Initializer: TypeAlias = "Callable[[random.Key, tuple[int, ...], DType], np.ndarray[Any, Any]]"


def fans(shape: tuple[int, ...], in_axis: int | None = None, out_axis: int | None = None) -> tuple[int, int]:
    """Returns the fan-in and fan-out of a weight: the inputs per output, and the outputs per input.

    Args:
        shape: `[in, out]`, or `[out, in / groups, window...]` for a convolution.
        in_axis: The axis of the inputs, if different; all axes but these two are the window.
        out_axis: The axis of the outputs, if different.

    Raises:
        ShapeError: The shape has fewer than two axes, or not these two, so it has no fans.

    Example:
        >>> tg.initializers.fans((3, 5)), tg.initializers.fans((16, 3, 5, 5))
        ((3, 5), (75, 400))
    """
    if len(shape) < 2:
        raise ShapeError(f"a parameter of shape {shape} has no fans: they need an input and an output axis")
    usual = (0, 1) if len(shape) == 2 else (1, 0)
    inputs, outputs = (own if axis is None else axis for own, axis in zip(usual, (in_axis, out_axis), strict=True))
    if not all(-len(shape) <= axis < len(shape) for axis in (inputs, outputs)) or (inputs - outputs) % len(shape) == 0:
        raise ShapeError(f"a parameter of shape {shape} has no two axes {inputs} and {outputs} for its fans")
    window = math.prod(n for i, n in enumerate(shape) if i not in (inputs % len(shape), outputs % len(shape)))
    return shape[inputs] * window, shape[outputs] * window


@dataclass(frozen=True)
class constant:
    """Every element is `value`.

    Example:
        >>> tg.initializers.constant(0.5)(tg.random.key(0), (3,), np.dtype("float32"))
        array([0.5, 0.5, 0.5], dtype=float32)
    """

    value: float

    def __call__(self, key: random.Key, shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
        """Returns the values."""
        return np.full(shape, self.value, dtype)


zeros = constant(0.0)
"""Fills with 0."""

ones = constant(1.0)
"""Fills with 1."""


@dataclass(frozen=True)
class uniform:
    """Uniformly distributed in `[low, high)`.

    Example:
        >>> tg.initializers.uniform(-0.1, 0.1)(tg.random.key(0), (2, 3), np.dtype("float32")).shape
        (2, 3)
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high):
            raise OptionError(f"uniform: bounds must be finite and in order, got {self.low} and {self.high}")

    def __call__(self, key: random.Key, shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
        """Returns the values."""
        return np.asarray(random.uniform(key, shape, self.low, self.high)).astype(dtype)


@dataclass(frozen=True)
class normal:
    """Normally distributed, with mean 0 by default.

    Example:
        >>> tg.initializers.normal(0.02)(tg.random.key(0), (2, 3), np.dtype("float32")).shape
        (2, 3)
    """

    standard_deviation: float
    mean: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mean) and 0 <= self.standard_deviation < math.inf):
            raise OptionError(f"normal: needs a finite deviation that is not negative, got {self!r}")

    def __call__(self, key: random.Key, shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
        """Returns the values."""
        words = np.asarray(random.checked(key))
        return drawing.normal(words, shape, self.standard_deviation, self.mean).astype(dtype, copy=False)


@dataclass(frozen=True)
class truncated_normal:
    """Normally distributed, truncated to `[low, high]`; as in PyTorch, these are values, not standard deviations.

    The standard deviation is that of the distribution before truncation.

    Example:
        >>> draw = tg.initializers.truncated_normal(low=-1.0, high=1.0)
        >>> float(abs(draw(tg.random.key(0), (100,), np.dtype("float32"))).max()) <= 1.0
        True
    """

    standard_deviation: float = 1.0
    mean: float = 0.0
    low: float = -2.0
    high: float = 2.0

    def __post_init__(self) -> None:
        finite = all(map(math.isfinite, (self.mean, self.low, self.high)))
        if not (finite and 0 < self.standard_deviation < math.inf and self.low < self.high):
            raise OptionError(f"truncated_normal: needs a positive deviation and bounds in order, got {self!r}")
        if min(abs(self._deviations(bound)) for bound in (self.low, self.high)) > 5 and (
            self._deviations(self.low) * self._deviations(self.high) > 0
        ):
            raise OptionError(f"truncated_normal: the bounds are more than 5 deviations off the mean, got {self!r}")

    def _deviations(self, bound: float) -> float:
        return (bound - self.mean) / self.standard_deviation

    def __call__(self, key: random.Key, shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
        """Returns the values."""
        low, high = (math.erf(self._deviations(bound) / math.sqrt(2)) for bound in (self.low, self.high))
        # In f64, so that the tails keep their probability, and from the middle of each step, so that none is infinite.
        unit = np.asarray(random.uniform(key, shape)).astype(np.float64) + 2.0**-24
        inverse = np.asarray(random.erfinv(array(low + unit * (high - low), "f64")))
        drawn = inverse * (math.sqrt(2) * self.standard_deviation)
        return np.clip(drawn + self.mean, self.low, self.high).astype(dtype)


@dataclass(frozen=True)
class orthogonal:
    """`gain` times a random matrix with orthonormal rows or columns, whichever are fewer.

    A weight with more axes is treated as a matrix of its first axis by all others, as in PyTorch.

    Example:
        >>> q = tg.initializers.orthogonal()(tg.random.key(0), (4, 2), np.dtype("float32"))
        >>> bool(np.allclose(q.T @ q, np.eye(2), atol=1e-6))
        True
    """

    gain: float = 1.0

    def __post_init__(self) -> None:
        if not math.isfinite(self.gain):
            raise OptionError(f"orthogonal: the gain must be finite, got {self.gain}")

    def __call__(self, key: random.Key, shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
        """Returns the values.

        Raises:
            ShapeError: The shape has fewer than two axes.
        """

        if len(shape) < 2:
            raise ShapeError(f"a parameter of shape {shape} can't be orthogonal: it needs two axes")
        rows, columns = shape[0], math.prod(shape[1:])
        drawn = np.asarray(random.normal(key, (max(rows, columns), min(rows, columns)))).astype(np.float64)
        q, r = np.linalg.qr(drawn)
        q = q * np.where(np.diagonal(r) < 0, -1.0, 1.0)  # makes the distribution uniform
        return (self.gain * (q if rows >= columns else q.T)).reshape(shape).astype(dtype)


@dataclass(frozen=True, eq=False)
class from_array:
    """The given values, for a parameter of the same shape.

    Raises:
        OptionError: They are not numbers.

    Example:
        >>> tg.nn.param((2,), init=tg.initializers.from_array([1.0, 2.0])).initializer.values
        array([1., 2.])
    """

    values: Any

    def __post_init__(self) -> None:
        values = np.array(self.values)
        if kind_of(values.dtype) not in "fiu":
            raise OptionError(f"from_array: takes numbers, not {values.dtype}")
        object.__setattr__(self, "values", values)

    def __call__(self, key: random.Key, shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
        """Returns the values.

        Raises:
            ShapeError: The parameter has a different shape.
        """
        if self.values.shape != shape:
            raise ShapeError(f"from_array: the values have shape {self.values.shape}, the parameter {shape}")
        return self.values.astype(dtype)


@dataclass(frozen=True)
class variance_scaling:
    """Random, with mean 0 and variance `scale / fan`.

    Attributes:
        scale: The numerator of the variance.
        fan: "in", "out", or "mean" for the average of both.
        distribution: "uniform" or "normal".
        in_axis: The axis of the inputs; None for the default, see `fans`.
        out_axis: The axis of the outputs.

    Example:
        >>> tg.nn.Linear(3, 5, init=tg.initializers.variance_scaling(1.0, "in", "normal")).weight.shape
        (3, 5)
    """

    scale: float
    fan: str
    distribution: str
    in_axis: int | None = None
    out_axis: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.scale < math.inf or self.fan not in _FANS or self.distribution not in _DISTRIBUTIONS:
            raise OptionError(
                f"variance_scaling: needs a finite scale, a fan of {', '.join(_FANS)} and a distribution of "
                f"{', '.join(_DISTRIBUTIONS)}, got {self!r}"
            )

    def __call__(self, key: random.Key, shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
        """Returns the values.

        Raises:
            ShapeError: The shape has no fans.
        """
        deviation = math.sqrt(self.scale / max(_FANS[self.fan](*fans(shape, self.in_axis, self.out_axis)), 1))
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
"""Uniform, with variance 2 / (fan_in + fan_out): PyTorch's `xavier_uniform_` (Glorot and Bengio, 2010)."""

glorot_normal = variance_scaling(1.0, "mean", "normal")
"""Normal, with variance 2 / (fan_in + fan_out): PyTorch's `xavier_normal_`."""

he_uniform = variance_scaling(2.0, "in", "uniform")
"""Uniform, with variance 2 / fan_in: PyTorch's `kaiming_uniform_` for ReLU (He et al., 2015)."""

he_normal = variance_scaling(2.0, "in", "normal")
"""Normal, with variance 2 / fan_in: PyTorch's `kaiming_normal_` for ReLU."""

lecun_uniform = variance_scaling(1.0, "in", "uniform")
"""Uniform, with variance 1 / fan_in."""

lecun_normal = variance_scaling(1.0, "in", "normal")
"""Normal, with variance 1 / fan_in (LeCun et al., 1998)."""


_GAINS: dict[str, float] = {
    "linear": 1.0,
    "sigmoid": 1.0,
    "tanh": 5 / 3,
    "relu": math.sqrt(2),
    "selu": 3 / 4,
}
_MODES = {"fan_in": "in", "fan_out": "out"}


def gain(nonlinearity: str, a: float = 0.01) -> float:
    """Returns the gain by which the standard deviation of a layer is scaled for its activation, as in PyTorch.

    Args:
        nonlinearity: "linear", "sigmoid", "tanh", "relu", "leaky_relu" or "selu".
        a: The negative slope of "leaky_relu".

    Raises:
        OptionError: There is no such nonlinearity.

    Example:
        >>> tg.initializers.gain("tanh"), tg.initializers.gain("leaky_relu", a=1.0)
        (1.6666666666666667, 1.0)
    """
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + a * a))
    if nonlinearity not in _GAINS:
        raise OptionError(f"gain: nonlinearity must be one of {', '.join([*_GAINS, 'leaky_relu'])}: {nonlinearity!r}")
    return _GAINS[nonlinearity]


def _kaiming(distribution: str, a: float, mode: str, nonlinearity: str) -> variance_scaling:
    if mode not in _MODES:
        raise OptionError(f"kaiming_{distribution}: mode must be one of {', '.join(_MODES)}, got {mode!r}")
    return variance_scaling(gain(nonlinearity, a) ** 2, _MODES[mode], distribution)


def kaiming_uniform(a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> variance_scaling:
    """Uniformly distributed, with variance `gain(nonlinearity, a) ** 2 / fan`.

    Raises:
        OptionError: `mode` is neither "fan_in" nor "fan_out", or there is no such nonlinearity.

    Example:
        >>> tg.initializers.kaiming_uniform(nonlinearity="linear")
        variance_scaling(scale=1.0, fan='in', distribution='uniform', in_axis=None, out_axis=None)
    """
    return _kaiming("uniform", a, mode, nonlinearity)


def kaiming_normal(a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> variance_scaling:
    """Normally distributed, with variance `gain(nonlinearity, a) ** 2 / fan`.

    Raises:
        OptionError: `mode` is neither "fan_in" nor "fan_out", or there is no such nonlinearity.

    Example:
        >>> tg.initializers.kaiming_normal(nonlinearity="linear")
        variance_scaling(scale=1.0, fan='in', distribution='normal', in_axis=None, out_axis=None)
    """
    return _kaiming("normal", a, mode, nonlinearity)


def xavier_uniform(gain: float = 1.0) -> variance_scaling:
    """Uniformly distributed, with variance `gain ** 2 * 2 / (fan_in + fan_out)`.

    Example:
        >>> tg.initializers.xavier_uniform(gain=2.0)
        variance_scaling(scale=4.0, fan='mean', distribution='uniform', in_axis=None, out_axis=None)
    """
    return variance_scaling(gain**2, "mean", "uniform")


def xavier_normal(gain: float = 1.0) -> variance_scaling:
    """Normally distributed, with variance `gain ** 2 * 2 / (fan_in + fan_out)`.

    Example:
        >>> tg.initializers.xavier_normal(gain=2.0)
        variance_scaling(scale=4.0, fan='mean', distribution='normal', in_axis=None, out_axis=None)
    """
    return variance_scaling(gain**2, "mean", "normal")


__all__ = [
    "Initializer",
    "constant",
    "fans",
    "from_array",
    "gain",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "kaiming_normal",
    "kaiming_uniform",
    "lecun_normal",
    "lecun_uniform",
    "normal",
    "ones",
    "orthogonal",
    "truncated_normal",
    "uniform",
    "variance_scaling",
    "xavier_normal",
    "xavier_uniform",
    "zeros",
]
