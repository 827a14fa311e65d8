"""Initializers: fans, standard deviations and bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.errors import OptionError, ShapeError
from tensorgrad.nn.initializers import fans

F32: Any = np.dtype(np.float32)


def drawn(initializer: Any, shape: tuple[int, ...], dtype: Any = F32, seed: int = 0) -> np.ndarray:
    values = initializer(tg.random.key(seed), shape, dtype)
    assert values.shape == shape and values.dtype == dtype
    return values


@pytest.mark.parametrize(
    ("shape", "axes", "expected"),
    [
        ((20, 30), {}, (20, 30)),
        ((20, 30), {"in_axis": 1, "out_axis": 0}, (30, 20)),
        ((16, 8, 3), {}, (24, 48)),
        ((16, 8, 3, 5), {}, (120, 240)),
        ((16, 1, 3, 3), {}, (9, 144)),
        ((3, 5, 16, 8), {"in_axis": -2, "out_axis": -1}, (240, 120)),
    ],
)
def test_fans(shape, axes, expected):
    assert fans(shape, **axes) == expected


def test_fans_of_other_shapes():
    for shape, axes in [((3,), {}), ((2, 3), {"in_axis": 2}), ((2, 3), {"in_axis": -1, "out_axis": 1})]:
        with pytest.raises(ShapeError, match="fans"):
            fans(shape, **axes)


@pytest.mark.parametrize("shape", [(320, 640), (64, 32, 3, 3)])
def test_kaiming_and_xavier(shape):
    fan_in, fan_out = fans(shape)
    names = tg.initializers
    cases = [
        ("kaiming", {}, 2 / fan_in),
        ("kaiming", {"mode": "fan_out", "nonlinearity": "relu"}, 2 / fan_out),
        ("kaiming", {"a": math.sqrt(5)}, 1 / (3 * fan_in)),
        ("kaiming", {"nonlinearity": "tanh"}, 25 / 9 / fan_in),
        ("xavier", {}, 2 / (fan_in + fan_out)),
        ("xavier", {"gain": 3.0}, 18 / (fan_in + fan_out)),
    ]
    for name, settings, variance in cases:
        values = drawn(getattr(names, f"{name}_uniform")(**settings), shape)
        assert values.var() == pytest.approx(variance, rel=0.05)
        assert abs(values).max() <= math.sqrt(3 * variance) * 1.0001
        values = drawn(getattr(names, f"{name}_normal")(**settings), shape)
        assert values.var() == pytest.approx(variance, rel=0.05)
        assert abs(values).max() > math.sqrt(3 * variance)


def test_kaiming_by_other_axes_is_that_of_the_transpose():
    scaled = tg.initializers.variance_scaling(1.0, "in", "normal", in_axis=1, out_axis=0)
    assert drawn(scaled, (10, 4000)).var() == pytest.approx(1 / 4000, rel=0.05)


def test_truncated_normal():
    values = drawn(tg.initializers.truncated_normal(0.5, mean=0.1, low=-0.4, high=0.9), (100000,))
    assert values.min() >= np.float32(-0.4) and values.max() <= np.float32(0.9)
    # Bounds at one deviation below, 1.6 above.
    low, high = -1.0, 1.6
    density = [math.exp(-z * z / 2) / math.sqrt(2 * math.pi) for z in (low, high)]
    mass = (math.erf(high / math.sqrt(2)) - math.erf(low / math.sqrt(2))) / 2
    shift = (density[0] - density[1]) / mass
    variance = 1 + (low * density[0] - high * density[1]) / mass - shift**2
    assert values.mean() == pytest.approx(0.1 + 0.5 * shift, abs=0.005)
    assert values.std() == pytest.approx(0.5 * math.sqrt(variance), rel=0.01)
    wide = drawn(tg.initializers.truncated_normal(0.02), (100000,))
    assert wide.std() == pytest.approx(0.02, rel=0.01) and np.isfinite(wide).all()


@pytest.mark.parametrize("shape", [(40, 60), (60, 40), (8, 5, 3, 3)])
def test_orthogonal(shape):
    matrix = drawn(tg.initializers.orthogonal(2.0), shape).reshape(shape[0], -1)
    matrix = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    assert np.allclose(matrix @ matrix.T, 4 * np.eye(len(matrix)), atol=1e-5)


def test_constants_and_arrays():
    assert (drawn(tg.initializers.zeros, (2, 3)) == 0).all()
    assert (drawn(tg.initializers.ones, (2, 3)) == 1).all()
    assert (drawn(tg.initializers.constant(2.5), (2, 3)) == 2.5).all()
    source = np.arange(3)
    initializer = tg.initializers.from_array(source)
    source[0] = 7
    assert drawn(initializer, (3,)).tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(ShapeError, match="from_array"):
        drawn(initializer, (4,))


@pytest.mark.parametrize(
    "call",
    [
        lambda: tg.initializers.truncated_normal(0.0),
        lambda: tg.initializers.truncated_normal(1.0, low=1.0, high=1.0),
        lambda: tg.initializers.truncated_normal(1.0, low=6.0, high=7.0),
        lambda: tg.initializers.orthogonal(math.inf),
        lambda: tg.initializers.from_array(["a"]),
        lambda: tg.initializers.kaiming_normal(mode="fan_mean"),
        lambda: tg.initializers.kaiming_uniform(nonlinearity="cosine"),
    ],
)
def test_bad_settings(call):
    with pytest.raises(OptionError):
        call()
