"""Batches: their contents and order, and resuming at any position."""

from __future__ import annotations

import itertools
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from models import compiled

import tensorgrad as tg
from tensorgrad.errors import InputError, OptionError
from tensorgrad.tracing import trees


def arrays(count: int = 10) -> dict[str, np.ndarray]:
    return {"x": np.arange(count * 2).reshape(count, 2), "y": np.arange(count)}


def ys(source: Any) -> list[list[int]]:
    return [batch["y"].tolist() for batch in source]


def test_in_order():
    source = tg.data.batches(arrays(), 4)
    assert len(source) == 2
    assert ys(source) == [[0, 1, 2, 3], [4, 5, 6, 7]] == ys(source)
    assert source.epoch == 2
    assert np.array_equal(source.at(0, 1)["x"], arrays()["x"][4:8])
    assert ys(tg.data.batches(arrays(), 4, last="keep"))[-1] == [8, 9]


@pytest.mark.parametrize("key", [7, tg.random.key(7), np.array([0, 7], np.uint32)])
def test_each_epoch_has_another_order_from_the_key(key):
    source = tg.data.batches(arrays(), 5, shuffle=key)
    epochs = [list(itertools.chain(*ys(source))) for _ in range(3)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    for number, epoch in enumerate(epochs):
        expected = tg.random.permutation(tg.random.fold_in(tg.random.key(7), number), 10)
        assert epoch == np.asarray(expected).tolist()
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert all(np.array_equal(batch["x"][:, 0], 2 * batch["y"]) for batch in source)


def test_padding_has_a_mask():
    source = tg.data.batches(arrays(), 4, last="pad", shuffle=1, mask="weight")
    padded = list(source)
    assert [batch["weight"].tolist() for batch in padded] == [[1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 0, 0]]
    assert all(batch["x"].shape == (4, 2) and batch["weight"].dtype == np.float32 for batch in padded)
    real = [y for batch in padded for y, weight in zip(batch["y"], batch["weight"], strict=True) if weight]
    assert sorted(real) == list(range(10))
    assert set(padded[-1]["y"]) == set(padded[-1]["y"][:2])
    assert tg.data.batches(arrays(2), 5, last="pad").at(0, 0)["mask"].tolist() == [1, 1, 0, 0, 0]


def test_a_padded_evaluation_is_the_mean_of_the_examples():
    training = compiled()
    generator = np.random.default_rng(0)
    data = {"x": generator.normal(size=(10, 3)), "y": generator.normal(size=(10, 2))}

    def error(model: Any, x: Any, y: Any, mask: Any) -> Any:
        return tg.sum(tg.mean((model(x) - y) ** 2, axis=1) * mask) / tg.sum(mask)

    def plain(model: Any, x: Any, y: Any) -> Any:
        return tg.mse(model(x), y)

    padded = training.evaluate(error, tg.data.batches(data, 4, last="pad"), weight="mask")
    of_all = training.evaluate(plain, tg.data.batches(data, 4, last="keep"))
    whole = training.evaluate(plain, [data])
    assert padded == pytest.approx(whole, rel=1e-5) and of_all == pytest.approx(whole, rel=1e-5)


def test_any_place_is_found_again():
    def shuffled() -> Any:
        return tg.data.batches(arrays(), 3, shuffle=2)

    def endless(source: Any) -> Any:
        while True:
            yield from source

    expected = list(itertools.islice(endless(shuffled()), 12))
    for count in range(9):
        source = shuffled()
        for _ in itertools.islice(endless(source), count):
            pass
        other = shuffled()
        other.load_state_dict(source.state_dict())
        following = next(endless(other))
        assert np.array_equal(following["y"], expected[count]["y"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 4}, "size is 3, it was 4"),
        ({"examples": 11}, "examples is 10, it was 11"),
        ({"shuffle": None}, r"shuffle is \[0, 2\], it was None"),
        ({"index": 9}, "no batch 9 of epoch 0"),
        ({"epoch": -1}, "no batch 0 of epoch -1"),
        ({"epoch": "0"}, "epoch '0'"),
        ({"more": 1}, "more is None, it was 1"),
    ],
)
def test_the_place_in_other_data_is_refused(changes, message):
    source = tg.data.batches(arrays(), 3, shuffle=2)
    with pytest.raises(InputError, match=message):
        source.load_state_dict({**source.state_dict(), **changes})
    assert source.state_dict()["index"] == 0


def test_generated():
    source = tg.data.generated(lambda number: {"y": np.full(2, number)}, length=3)
    assert ys(source) == [[0, 0], [1, 1], [2, 2]] and ys(source)[0] == [3, 3]
    other = tg.data.generated(lambda number: {"y": np.full(2, number)}, length=3)
    other.load_state_dict(source.state_dict())
    assert len(other) == 3 and ys(other)[0] == [6, 6]
    endless = tg.data.generated(lambda number: {"y": np.full(1, number)})
    assert ys(itertools.islice(endless, 5)) == [[0], [1], [2], [3], [4]] and endless.index == 5
    with pytest.raises(TypeError, match="no end"):
        len(endless)


def test_arrays_of_others():
    source = tg.data.batches({"x": torch.arange(6), "y": [1, 2, 3, 4, 5, 6], "z": tg.zeros((6, 2))}, 3)
    batch = source.at(0, 1)
    assert batch["x"].tolist() == [3, 4, 5] and batch["y"].tolist() == [4, 5, 6] and batch["z"].shape == (3, 2)


WRONG: Any = [1, 2]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: tg.data.batches(WRONG, 1), InputError, "takes arrays by name"),
        (lambda: tg.data.batches({}, 1), InputError, "takes arrays by name"),
        (lambda: tg.data.batches({"x": 1.0}, 1), InputError, "'x': None"),
        (lambda: tg.data.batches({"x": [1], "y": [1, 2]}, 1), InputError, "'x': 1, 'y': 2"),
        (lambda: tg.data.batches({"x": np.zeros((0, 2))}, 1), InputError, "not zero"),
        (lambda: tg.data.batches({"mask": [1]}, 1, last="pad"), InputError, "called 'mask' already"),
        (lambda: tg.data.batches(arrays(), 0), OptionError, "size must be"),
        (lambda: tg.data.batches(arrays(), 11), OptionError, "10 examples fill no batch of 11"),
        (lambda: tg.data.batches(arrays(), 2, last="wrap"), OptionError, "one of drop, pad, keep"),
        (lambda: tg.data.batches(arrays(), 2, shuffle=True), OptionError, "a seed or a key"),
        (lambda: tg.data.batches(arrays(), 2).at(0, 5), InputError, "5 batches in an epoch, none of number 5"),
        (lambda: tg.data.generated(WRONG), OptionError, "takes a function"),
        (lambda: tg.data.generated(arrays, 0), OptionError, "length must be"),
        (lambda: tg.data.prefetch([], 0), OptionError, "ahead must be"),
    ],
)
def test_wrong_use(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    assert __file__ in str(caught.value)


def test_prefetching_is_ahead_and_in_order():
    numbers: list[int] = []

    def items() -> Any:
        for number in range(6):
            numbers.append(number)
            yield number

    ahead = tg.data.prefetch(items(), 2)
    deadline = time.monotonic() + 30
    while len(numbers) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert numbers == [0, 1, 2]  # two wait, one is held
    assert list(ahead) == [0, 1, 2, 3, 4, 5] and list(ahead) == []


@dataclass
class Pair:
    """An array, and others in a list."""

    x: np.ndarray
    rest: list[np.ndarray]


@pytest.mark.parametrize(
    "around",
    [lambda x: x, lambda x: {"x": x}, lambda x: (x[:1], [x]), lambda x: Pair(x, [x])],
)
def test_an_iterable_may_reuse_its_buffer(around: Any) -> None:
    def items() -> Any:
        buffer = np.zeros(2, np.float32)
        for number in range(5):
            buffer[:] = number
            yield around(buffer)

    kept = list(tg.data.prefetch(items(), 3))
    numbers = [{float(array[0]) for array in trees.flatten(item)[0]} for item in kept]
    assert numbers == [{float(number)} for number in range(5)]
    assert type(kept[0]) is type(around(np.zeros(2)))


def test_a_dict_that_is_filled_anew_is_copied() -> None:
    def items() -> Any:
        batch: dict[str, Any] = OrderedDict()
        for number in range(5):
            batch["x"] = number
            yield batch

    assert [batch["x"] for batch in tg.data.prefetch(items(), 3)] == [0, 1, 2, 3, 4]


def test_what_nobody_can_change_is_not_copied() -> None:
    fixed, written = np.arange(4.0), np.arange(4.0)
    fixed.flags.writeable = False
    view = written[:2]
    view.flags.writeable = False
    of_bytes, batch = np.frombuffer(b"abcd", np.uint8), tg.data.batches(arrays(), 4).at(0, 0)
    items = [fixed, fixed[1:], of_bytes, view, np.frombuffer(bytearray(b"abcd"), np.uint8)]
    kept = list(tg.data.prefetch(items))
    assert [new is old for new, old in zip(kept, items, strict=True)] == [True, True, True, False, False]
    assert all(array.base is None and array.flags.owndata for array in batch.values())


@pytest.mark.parametrize("options", [{}, {"shuffle": 1}, {"last": "pad"}, {"last": "keep"}])
def test_changing_a_batch_leaves_the_arrays(options: Any) -> None:
    given = arrays()
    for batch in tg.data.batches(given, 4, **options):
        batch["x"] *= 0
    assert np.array_equal(given["x"], arrays()["x"])


def test_what_the_thread_raises_is_raised_in_its_place():
    def items() -> Any:
        yield 1
        raise KeyError("broken")

    ahead = tg.data.prefetch(items())
    assert next(ahead) == 1
    with pytest.raises(KeyError, match="broken"):
        next(ahead)
    assert list(ahead) == []


def test_the_thread_ends():
    ahead = tg.data.prefetch(itertools.count(), 1)
    assert next(ahead) == 0
    assert ahead.close() and list(ahead) == []
    assert not any(thread.name == "tensorgrad data" for thread in threading.enumerate())
