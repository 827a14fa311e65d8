"""Large draws: the bits of the ops, in blocks and threads, and the bits there always were."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.nn import initializers
from tensorgrad.ops import drawing, random

DRAWS: dict[str, Callable[[Any, Any], Any]] = {
    "bits": random.bits,
    "uniform": random.uniform,
    "uniform within bounds": lambda key, shape: random.uniform(key, shape, -0.3, 1.7),
    "uniform from zero": lambda key, shape: random.uniform(key, shape, 0, 0.25),
    "normal": random.normal,
}
SHAPES = [(), (0,), (1,), (7,), (3, 5), (1023,), (drawing.BLOCK,), (drawing.BLOCK + 1,), (3, 65537)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", DRAWS)
def test_one_key_draws_what_the_ops_draw(name: str, shape: tuple[int, ...]) -> None:
    for seed in (0, 12345678901):
        key = np.asarray(random.key(seed))
        at_once = np.asarray(DRAWS[name](key, shape))
        by_ops = np.asarray(DRAWS[name](key[None], shape))[0]  # keys with leading axes are a program's
        assert at_once.shape == shape and at_once.dtype == by_ops.dtype
        assert at_once.tobytes() == by_ops.tobytes()


def test_a_table_has_the_same_normal_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = np.asarray(random.normal(random.key(1), 100_003))
    monkeypatch.setattr(drawing, "LEAST_TABLED", 1)
    found = np.asarray(random.normal(random.key(1), 100_003))
    drawing.release()
    assert found.tobytes() == expected.tobytes()


RECORDED = {
    "normal (300, 301) f32": "8b7b2ec5ee26fe2e",
    "normal (300, 301) f64": "726079e6f069b9a3",
    "truncated_normal (65537,) f32": "c80373eeddb1e0ed",
    "glorot_uniform (300, 301) f16": "efa725eaf5118ef0",
    "erfinv": "9c699f52f562db7d",
}


def _drawn(name: str) -> np.ndarray:
    key = random.key(12345678901)
    if name == "erfinv":
        return np.asarray(random.erfinv(np.linspace(-1.2, 1.2, 100001).astype(np.float32)))
    return {
        "normal (300, 301) f32": lambda: initializers.normal(0.02)(key, (300, 301), np.dtype(np.float32)),
        "normal (300, 301) f64": lambda: initializers.normal(0.02)(key, (300, 301), np.dtype(np.float64)),
        "truncated_normal (65537,) f32": lambda: initializers.truncated_normal(0.02)(
            key, (65537,), np.dtype(np.float32)
        ),
        "glorot_uniform (300, 301) f16": lambda: initializers.glorot_uniform(key, (300, 301), np.dtype(np.float16)),
    }[name]()


@pytest.mark.parametrize("name", RECORDED)
def test_the_bits_are_those_of_earlier_versions(name: str) -> None:
    assert hashlib.sha256(_drawn(name).tobytes()).hexdigest()[:16] == RECORDED[name]


def test_compiling_keeps_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    released: list[bool] = []
    monkeypatch.setattr(drawing, "release", lambda: released.append(True))
    tg.compile(
        tg.nn.Linear(2, 2),
        loss=lambda model, x: tg.mean(model(x) ** 2),
        optimizer=tg.optim.sgd(0.1),
        inputs={"x": (3, 2)},
        device="numpy",
    )
    assert released == [True]
