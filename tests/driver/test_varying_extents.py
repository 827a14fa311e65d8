"""`tg.dim`: a step takes batches of several lengths, with a program for each, and goes on with the same state."""

from __future__ import annotations

import logging
import pickle
import re
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.errors import InputError, ShapeError
from tensorgrad.tracing.dtypes import Dim

VOCABULARY, WIDTH = 11, 8
BUCKETS = (4, 6, 8, 12)


class Reader(tg.nn.Module):
    """Scores of the next token from the mean of the words before it."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = tg.nn.Embedding(VOCABULARY, WIDTH), tg.nn.Linear(WIDTH, VOCABULARY)

    def __call__(self, tokens: Any) -> Any:
        return self.head(tg.cumsum(self.words(tokens), axis=1))


def loss(model: Any, tokens: Any, following: Any, mask: Any) -> Any:
    each = tg.cross_entropy(model(tokens), following, reduction="none")
    return tg.sum(each * mask) / tg.sum(mask)


def trained(length: Any, batch: Any = 3, device: tg.DeviceName = "numpy") -> tg.Training:
    shape = (batch, length)
    inputs = {"tokens": tg.spec(shape, "i32"), "following": tg.spec(shape, "i32"), "mask": tg.spec(shape)}
    return tg.compile(Reader(), loss=loss, optimizer=tg.optim.adam(1e-2), inputs=inputs, device=device, seed=4)


def text(length: int, seed: int, rows: int = 3) -> dict[str, np.ndarray]:
    """Returns rows of a length, without padding."""
    tokens = np.random.default_rng(seed).integers(0, VOCABULARY, (rows, length + 1)).astype(np.int32)
    mask = np.ones((rows, length), np.float32)
    return {"tokens": tokens[:, :-1], "following": tokens[:, 1:], "mask": mask}


def padded(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns rows padded to a bucket."""
    length = batch["mask"].shape[1]
    beyond = next(bucket for bucket in BUCKETS if bucket >= length) - length
    return {name: np.pad(value, ((0, 0), (0, beyond))) for name, value in batch.items()}


@pytest.mark.nightly
@pytest.mark.parametrize("device", ["cpu", "wgpu", "numpy"])
def test_ragged_batches_take_a_program_for_each_bucket(device: tg.DeviceName, caplog: pytest.LogCaptureFixture) -> None:
    """Each loss equals that of a program of the exact length, without a mask, in the same state."""
    training = trained(tg.dim("length", at_most=12, buckets=BUCKETS), device=device)
    exact: dict[int, tg.Training] = {}
    generator = np.random.default_rng(0)
    with caplog.at_level(logging.INFO, "tensorgrad"):
        for number, length in enumerate(generator.permutation(range(1, 13)).tolist()):
            batch = text(length, number)
            other = exact.setdefault(length, trained(length))
            other.load_state_dict(training.state_dict())
            assert float(training.step(**padded(batch))) == pytest.approx(float(other.step(**batch)), rel=1e-5)
    lines = [line for line in caplog.messages if "other extents" in line]
    assert len(lines) == len(BUCKETS) - 1  # the largest came first
    assert re.fullmatch(
        r"loss: compiled for other extents in \d+\.\d\d s: tokens \(3, \d\), .*, mask \(3, \d\)", lines[0]
    )
    assert training.step_count == 12


def test_without_buckets_any_extent_is_possible() -> None:
    training = trained(tg.dim("length", at_most=12), tg.dim("rows", at_most=4))
    for number, (rows, length) in enumerate([(1, 1), (4, 12), (2, 7), (3, 7)]):
        training.step(**text(length, number, rows))
    assert training.step_count == 4


def test_all_buckets_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorgrad.driver.handles import batch_sizes

    monkeypatch.setattr(batch_sizes, "MOST_SIZES", 1)
    training = trained(tg.dim("length", at_most=12, buckets=BUCKETS))
    programs = [training._programs.of(text(length, 0), "step")[0] for length in BUCKETS]
    again = [training._programs.of(text(length, 0), "step")[0] for length in BUCKETS]
    assert all(program is other for program, other in zip(programs, again, strict=True))
    assert len(set(map(id, programs))) == len(BUCKETS)


def padding() -> Dim:
    return tg.dim("length", at_most=12, buckets=BUCKETS, padding=0)


def test_inputs_are_padded_to_the_next_bucket() -> None:
    training, by_hand = trained(padding()), trained(tg.dim("length", at_most=12, buckets=BUCKETS))
    for number, length in enumerate((3, 4, 9, 12)):
        batch = text(length, number)
        assert training.gradients(**batch)["head.weight"].shape == (WIDTH, VOCABULARY)
        assert float(training.step(**batch)) == float(by_hand.step(**padded(batch)))
    read = training.attach(lambda model, tokens: model(tokens), inputs={"tokens": tg.spec((3, padding()), "i32")})
    assert read(tokens=text(5, 0)["tokens"]).shape == (3, 6, VOCABULARY)
    with pytest.raises(InputError, match="extent 'length' is 13 in input 'tokens'; it is from 1 to 12"):
        training.step(**text(13, 0))
    with pytest.raises(InputError, match="extent 'length' is 0 in input 'tokens'; it is from 1 to 12"):
        training.step(**text(0, 0))
    uneven = text(5, 0) | {"mask": text(6, 0)["mask"]}
    with pytest.raises(InputError, match="extent 'length' is 5 in input 'tokens' and 6 in 'mask'"):
        training.step(**uneven)
    assert training.step_count == 4


def test_inputs_are_padded_by_numbers_of_their_own() -> None:
    extent = tg.dim("n", at_most=4, buckets=(4,), padding={"y": 7})
    inputs = {"x": (extent,), "y": tg.spec((2, extent), "i32"), "tree": {"z": tg.spec((extent, extent))}}

    def loss(model: Any, x: Any, y: Any, tree: Any) -> tuple[Any, dict[str, Any]]:
        return tg.sum(model.weight) * 0, {"x": x, "y": y, "z": tree["z"]}

    training = tg.compile(
        tg.nn.Linear(1, 1, bias=False), loss=loss, optimizer=tg.optim.sgd(0.1), inputs=inputs, device="numpy"
    )
    _, seen = training.step(x=np.ones(3), y=np.ones((2, 3), np.int32), tree={"z": np.ones((3, 3))})
    assert seen["x"].tolist() == [1, 1, 1, 0] and seen["y"].tolist() == [[1, 1, 1, 7]] * 2
    assert np.array_equal(seen["z"], np.pad(np.ones((3, 3)), (0, 1)))


def test_other_functions_take_the_extents_too() -> None:
    training = trained(tg.dim("length", at_most=12, buckets=BUCKETS))
    batch = text(6, 0)
    assert training.gradients(**batch)["head.weight"].shape == (WIDTH, VOCABULARY)
    read = training.attach(lambda model, tokens: model(tokens), inputs={"tokens": training_tokens()})
    assert read(tokens=batch["tokens"]).shape == (3, 6, VOCABULARY)
    with pytest.raises(InputError, match="extent 'length' is 5 in input 'tokens'; it is one of 4, 6, 8, 12"):
        read(tokens=text(5, 0)["tokens"])
    assert training.evaluate(loss, [text(4, 1), text(8, 2)], weight="mask") > 0


def training_tokens() -> Any:
    return tg.spec((3, tg.dim("length", at_most=12, buckets=BUCKETS)), "i32")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"length": 5}, "step: extent 'length' is 5 in input 'tokens'; it is one of 4, 6, 8, 12"),
        ({"length": 13}, "step: extent 'length' is 13 in input 'tokens'; it is one of"),
        ({"rows": 2}, r"input 'tokens' has shape \(2, 4\), expected"),
        ({"mask": 6}, "step: extent 'length' is 4 in input 'tokens' and 6 in 'mask'"),
    ],
)
def test_other_extents_are_refused(change: dict[str, int], message: str) -> None:
    training = trained(tg.dim("length", at_most=12, buckets=BUCKETS))
    batch = text(change.get("length", 4), 0, change.get("rows", 3))
    if "mask" in change:
        batch["mask"] = text(change["mask"], 0)["mask"]
    with pytest.raises(InputError, match=message):
        training.step(**batch)
    assert training.step_count == 0
    with pytest.raises(InputError, match="extent 'length' is 9 in input 'tokens'; it is from 1 to 8"):
        trained(tg.dim("length", at_most=8)).step(**text(9, 0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "a b", "at_most": 3}, "must be an identifier, got 'a b'"),
        ({"name": "a", "at_most": 0}, "at_most must be a positive integer, got 0"),
        ({"name": "a", "at_most": 3.0}, "at_most must be a positive integer, got 3.0"),
        ({"name": "a", "at_most": 3, "buckets": (2, 1, 3)}, r"in ascending order, got \(2, 1, 3\)"),
        ({"name": "a", "at_most": 3, "buckets": (1, 2)}, r"the last bucket must be at_most, 3, got \(1, 2\)"),
        ({"name": "a", "at_most": 3, "buckets": ()}, r"the last bucket must be at_most, 3, got \(\)"),
        ({"name": "a", "at_most": 3, "padding": 0}, "padding is up to the next bucket, but there are no buckets"),
        ({"name": "a", "at_most": 3, "buckets": (3,), "padding": "0"}, "numbers by input, got '0'"),
        ({"name": "a", "at_most": 3, "buckets": (3,), "padding": {"x": None}}, r"numbers by input, got \{'x': None\}"),
    ],
)
def test_bad_extents_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        tg.dim(**arguments)


def test_extents_of_one_name_are_equal() -> None:
    inputs = {"x": (tg.dim("n", at_most=3),), "y": (tg.dim("n", at_most=4),)}
    with pytest.raises(InputError, match=r"input 'y' has the extent dim\('n', at_most=4\), another one dim\('n', at"):
        tg.compile(tg.nn.Linear(1, 1), loss=lambda model, x, y: tg.sum(x), inputs=inputs, device="numpy")


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (
            {"x": (tg.dim("n", at_most=3, buckets=(3,), padding={"z": 1}),)},
            "'n' has a padding for 'z'; the inputs are x",
        ),
        (
            {"x": tg.spec((tg.dim("n", at_most=3, buckets=(3,), padding=0.5),), "i32")},
            "'x' is padded by 0.5, which is no i32",
        ),
        (
            {"x": tg.spec((tg.dim("n", at_most=3, buckets=(3,), padding=-1),), "u32")},
            "'x' is padded by -1, which is no u32",
        ),
        (
            {"x": tg.spec((tg.dim("n", at_most=3, buckets=(3,), padding=10**30),), "i32")},
            "padded by 10+, which is no i32",
        ),
        (
            {"x": [tg.dim(name, at_most=3, buckets=(3,), padding=value) for name, value in (("n", 0), ("m", 1))]},
            "'x' is padded by 0 and 1 along its axes",
        ),
    ],
)
def test_bad_paddings_are_refused(shapes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tg.compile(tg.nn.Linear(1, 1), loss=lambda model, x: tg.sum(x), inputs=shapes, device="numpy")


def test_an_extent_is_its_largest_number() -> None:
    extent = tg.dim("length", at_most=12, buckets=BUCKETS)
    assert extent == 12 and f"{extent} {extent!r}" == "12 dim('length', at_most=12, buckets=(4, 6, 8, 12))"
    for original in (extent, tg.dim("n", at_most=3, buckets=(3,), padding={"y": -100})):
        copy = pickle.loads(pickle.dumps(original))
        assert isinstance(copy, Dim) and copy.key == original.key
    assert repr(original) == "dim('n', at_most=3, buckets=(3,), padding={'y': -100})"
    assert repr(tg.dim("n", at_most=3, buckets=(3,), padding=1)) == "dim('n', at_most=3, buckets=(3,), padding=1)"
