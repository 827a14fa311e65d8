"""Random numbers on the host, against published vectors and JAX's numbers."""

from __future__ import annotations

import numpy as np
import pytest

from tensorgrad import random
from tensorgrad.errors import OptionError


def words(*values: int) -> np.ndarray:
    return np.array(values, np.uint32)


@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_gives_the_published_vectors(key, counter, expected):
    found = random.threefry(words(*key), words(counter[0]), words(counter[1]))
    assert [int(word[0]) for word in found] == list(expected)


def test_numbers_are_those_of_jax():
    key = random.key(0)
    assert random.split(key).tolist() == [[1797259609, 2579123966], [928981903, 3453687069]]
    assert float(random.uniform(key)) == np.float32(0.947667)
    assert float(random.normal(key)) == pytest.approx(1.6226422, rel=1e-6)


def test_a_shape_does_not_change_the_numbers_in_front():
    key = random.key(7)
    assert np.array_equal(random.bits(key, (2, 3)).reshape(-1), random.bits(key, 6))
    assert np.array_equal(random.bits(key, 6)[:4], random.bits(key, (4,)))


def test_keys_differ_by_seed_and_by_what_is_folded_in():
    keys = [random.key(0), random.key(1), random.key(1 << 32), random.key(-1)]
    keys += [random.fold_in(random.key(0), number) for number in (0, 1, 2)]
    assert len({tuple(key.tolist()) for key in keys}) == len(keys)


def test_distributions():
    drawn = random.uniform(random.key(1), (200, 500), -2.0, 3.0)
    assert drawn.dtype == np.float32
    assert drawn.min() >= -2 and drawn.max() < 3
    assert drawn.mean() == pytest.approx(0.5, abs=0.01)
    normal = random.normal(random.key(2), (200, 500))
    assert normal.dtype == np.float32 and np.isfinite(normal).all()
    assert [normal.mean(), normal.std()] == pytest.approx([0, 1], abs=0.01)
    assert np.mean(normal > 1.959964) == pytest.approx(0.025, abs=0.002)
    assert random.uniform(random.key(0), (0, 3)).shape == (0, 3)


@pytest.mark.parametrize(
    "call",
    [
        lambda: random.key(1.5),  # type: ignore[arg-type]
        lambda: random.key(True),
        lambda: random.bits(np.zeros(2), 3),  # type: ignore[arg-type]
        lambda: random.uniform(random.key(0), 3, 1.0, 0.0),
        lambda: random.uniform(random.key(0), 3, 0.0, float("nan")),
    ],
)
def test_bad_arguments(call):
    with pytest.raises(OptionError):
        call()
