"""Random index keys compared with NumPy: what they select, its derivative, and updated copies."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from harness import NumpyArray, reference, traced
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorgrad as tg

EXAMPLES = 100


@st.composite
def keys(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """Draws a shape, and a key with at least one integer array or mask; arrays broadcast against each other."""
    rank = draw(st.integers(1, 4))
    extents = tuple(draw(st.integers(1, 4)) for _ in range(rank))
    joint = draw(st.lists(st.integers(0, 3), max_size=2))
    entries: list[Any] = []
    axis, masked = 0, None
    seed = np.random.default_rng(draw(st.integers(0, 2**16)))
    kinds = st.sampled_from(["array", "array", "array", "integer", "slice", "mask", "new", "dots", "stop"])
    while axis < rank:
        kind, extent = draw(kinds), extents[axis]
        if kind == "stop":
            break
        if kind == "array" and masked is None:
            shape = [draw(st.sampled_from([n, n, 1])) for n in joint][draw(st.integers(0, len(joint))) :]
            entries.append(seed.integers(-extent, extent, shape).astype(np.int32))
        elif kind == "integer":
            entries.append(int(seed.integers(-extent, extent)))
        elif kind == "slice":
            bounds = st.none() | st.integers(-extent - 1, extent + 1)
            entries.append(slice(draw(bounds), draw(bounds), draw(st.sampled_from([None, 1, 2, -1, -2]))))
        elif kind == "mask" and masked is None and not any(isinstance(entry, np.ndarray) for entry in entries):
            covered = draw(st.integers(1, rank - axis))
            masked = seed.random(extents[axis : axis + covered]) < 0.6
            entries.append(masked)
            axis += covered
            continue
        elif kind == "dots" and Ellipsis not in [entry for entry in entries if not isinstance(entry, np.ndarray)]:
            entries.append(Ellipsis)
            axis += draw(st.integers(0, rank - axis))
            continue
        elif kind == "new":
            entries.append(None)
            continue
        else:
            entries.append(slice(None))
        axis += 1
    if not any(isinstance(entry, np.ndarray) for entry in entries):
        entries = [np.array([0, -1, 0], np.int32), *[entry for entry in entries if entry is not Ellipsis][1:]]
        entries = entries[: sum(1 for _ in itertools.takewhile(lambda n: n <= rank, _used(entries)))]
    return extents, tuple(entries)


def _used(entries: list[Any]) -> list[int]:
    """Returns the number of axes that each prefix of a key's entries indexes."""
    return list(itertools.accumulate(0 if entry is None else 1 for entry in entries))


def numbers(extents: tuple[int, ...]) -> NumpyArray:
    return np.arange(1, 1 + int(np.prod(extents)), dtype=np.float32).reshape(extents)


def valid(x: NumpyArray, key: Any) -> bool:
    try:
        x[key]
    except IndexError:
        return False
    return True


def split(key: tuple[Any, ...]) -> tuple[list[NumpyArray], Any]:
    """Returns the integer arrays in a key, and a function that rebuilds the key with other arrays."""
    arrays = [entry for entry in key if isinstance(entry, np.ndarray) and entry.dtype.kind == "i"]

    def rebuilt(new_arrays: Any) -> tuple[Any, ...]:
        rest = iter(new_arrays)
        return tuple(next(rest) if isinstance(e, np.ndarray) and e.dtype.kind == "i" else e for e in key)

    return arrays, rebuilt


@pytest.mark.nightly
@settings(max_examples=EXAMPLES)
@given(keys())
def test_a_key_selects_what_it_does_in_numpy(drawn: tuple[tuple[int, ...], tuple[Any, ...]]) -> None:
    extents, key = drawn
    x = numbers(extents)
    if not valid(x, key):
        with pytest.raises(tg.errors.ShapeError):
            tg.array(x)[key]
        return
    expected = x[key]
    actual = np.asarray(tg.array(x)[key])
    assert actual.shape == expected.shape
    np.testing.assert_array_equal(actual, expected)
    arrays, rebuilt = split(key)
    for function, correct in (
        (lambda x, *i: x[rebuilt(i)], expected),
        (lambda x, *i: tg.array(x).at[rebuilt(i)].get(), expected),
        (lambda x, *i: tg.grad(lambda x: tg.sum(x[rebuilt(i)] * expected))(x), added(np.zeros_like(x), key, expected)),
        (lambda x, *i: x.at[rebuilt(i)].add(expected), added(x.copy(), key, expected)),
        (lambda x, *i: x.at[rebuilt(i)].set(-expected), changed(x.copy(), key, -expected)),
    ):
        (result,) = reference(traced(function, [x, *arrays]), [x, *arrays])
        np.testing.assert_array_equal(result, correct)


def added(x: NumpyArray, key: Any, values: NumpyArray) -> NumpyArray:
    np.add.at(x, key, values)
    return x


def changed(x: NumpyArray, key: Any, values: NumpyArray) -> NumpyArray:
    x[key] = values
    return x
