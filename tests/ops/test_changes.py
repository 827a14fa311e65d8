"""`x.at[key]`: changed copies, compared with NumPy's `ufunc.at`; derivatives by central differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from draws import generator

import tensorgrad as tg
from tensorgrad.errors import ArgumentError, DTypeError, IndexingError, ShapeError, UnknownNameError
from tensorgrad.testing import check_grads

untyped: Any = tg
RNG = generator(0)
X = RNG.uniform(0.5, 2.0, (4, 3)).astype(np.float32)

METHODS: dict[str, np.ufunc] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "power": np.power,
    "max": np.maximum,
    "min": np.minimum,
}
KEYS: dict[str, Any] = {
    "an element": (1, 2),
    "a slice": slice(1, 3),
    "reversed": (slice(None, None, -2), slice(1, None)),
    "rows": np.array([0, 2, 2, -1, 0, 0]),
    "columns": (slice(1, 4), np.array([1, 1, 0])),
    "pairs": (np.array([0, 1, 0, 3]), np.array([2, 0, 2, -1])),
    "a mask": X > 1.2,
    "everything": Ellipsis,
    "none": np.zeros(0, np.int32),
}


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_values_accumulate_as_in_numpy(method: str, key: Any) -> None:
    values = RNG.uniform(0.5, 2.0, X[key].shape).astype(np.float32)
    expected = X.copy()
    METHODS[method].at(expected, key, values)
    actual = getattr(tg.array(X).at[key], method)(values)
    assert np.allclose(actual, expected, rtol=1e-5)
    traced = tg.jit(lambda x, v: getattr(x.at[key], method)(v), device="numpy")(X, values)
    assert np.allclose(traced, expected, rtol=1e-5)


@pytest.mark.in_turns(5)
@pytest.mark.parametrize("device", ["cpu", "wgpu"])
@pytest.mark.parametrize("method", METHODS)
def test_traced_indices_on_devices(device: tg.DeviceName, method: str) -> None:
    places, values = np.array([3, 1, -1, 9, 1]), RNG.uniform(0.5, 2.0, (5, 3)).astype(np.float32)
    expected = X.copy()
    METHODS[method].at(expected, places[[0, 1, 2, 4]], values[[0, 1, 2, 4]])  # 9 is out of range, and dropped
    actual = tg.jit(lambda x, i, v: getattr(x.at[i], method)(v), device=device)(X, places, values)
    assert np.allclose(actual, expected, rtol=1e-5)
    eager = getattr(tg.tensor(X, device=device).at[np.array([1, 1])], method)(values[:2])
    METHODS[method].at(again := X.copy(), np.array([1, 1]), values[:2])
    assert np.allclose(np.asarray(eager), again, rtol=1e-5)


@pytest.mark.nightly
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("key", [np.array([1, 1, 0]), slice(0, 3), np.s_[1:, np.array([2, 2, 0])]], ids=str)
def test_derivatives(method: str, key: Any) -> None:
    values = RNG.uniform(0.5, 2.0, X[key].shape)
    check_grads(lambda x, v: tg.sum(tg.sin(getattr(x.at[key], method)(v))), (X.astype(np.float64), values))


def test_integers() -> None:
    x, places = np.arange(4, dtype=np.int32), np.array([1, 1, 3])
    assert tg.array(x).at[places].multiply(3).tolist() == [0, 9, 2, 9]
    assert tg.array(x).at[places].max(2).tolist() == [0, 2, 2, 3]
    with pytest.raises(DTypeError, match="divide: takes floats, not i32; cast first"):
        tg.array(x).at[places].divide(2)


def test_mistakes() -> None:
    change = untyped.zeros(3).at[np.array([0, 0])]
    for name, advice in {"mul": r"multiply\(values\)", "apply": r"set\(function\(x\[key\]\)\)"}.items():
        with pytest.raises(UnknownNameError, match=rf"x\.at\[key\] has no attribute '{name}'; x\.at\[key\]\.{advice}"):
            getattr(change, name)(2)
    with pytest.raises(UnknownNameError, match=r"x\.at, which takes a key, x\.at\[key\], has no attribute 'set'"):
        untyped.zeros(3).at.set(2)
    with pytest.raises(ArgumentError, match=r"set\(\) has no argument 'mode'; it takes \(values\)"):
        change.set(1.0, mode="drop")
    with pytest.raises(ShapeError, match="do not broadcast"):
        change.max(np.ones(3))
    with pytest.raises(IndexingError):
        untyped.zeros(3).at[5].max(1.0)
