"""One file on an adapter, on the CPU and in a page: the results agree as docs/how-to/web.md states."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg

pytestmark = pytest.mark.web

STEPS = 30


class Model(tg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = tg.nn.Linear(6, 16), tg.nn.Linear(16, 3)
        self.seen = tg.nn.buffer((3,), init=100.0, dtype="i8")

    def __call__(self, x: Any) -> Any:
        return self.last(tg.gelu(self.first(x)))


def loss(model: Model, x: Any, y: Any, pixels: Any, key: Any) -> Any:
    noise, words, order = (tg.random.fold_in(key, number) for number in range(3))
    model.seen.assign(model.seen + tg.sum(tg.one_hot(y, 3, "i8"), 0, dtype="i8") * 3)
    logits = model(x + 0.1 * tg.random.normal(noise, x.shape))
    return tg.cross_entropy(logits, y), {
        "integers": tg.sort(tg.random.bits(words, (16,)), axis=0)[0],
        "right": tg.sum(tg.cast(tg.argsort(y, axis=0) == y, "i32")),
        "order": tg.random.permutation(order, 9),
        "kept": tg.random.bernoulli(words, 0.25, (8,)),
        "seen": model.seen + 0,
        "darker": tg.where(pixels > 99, pixels * 3, pixels // 7),
        "total": tg.sum(pixels),
        "wide": tg.cast(pixels, "i16") * 300 - tg.cast(pixels, "i8"),
    }


def made(device: Any) -> tg.Training:
    return tg.compile(
        Model(),
        loss=loss,
        optimizer=tg.optim.adamw(1e-2),
        inputs={"x": (8, 6), "y": tg.spec(8, "i32"), "pixels": tg.spec(8, "u8")},
        device=device,
        seed=11,
    )


def batches() -> list[dict[str, np.ndarray]]:
    x = np.random.default_rng(3).normal(size=(STEPS, 8, 6)).astype(np.float32)
    pixels = np.random.default_rng(4).integers(0, 256, (STEPS, 8), np.uint8)
    labels = np.argmax(x[:, :, :3], axis=2).astype(np.int32)
    return [{"x": a, "y": b, "pixels": c} for a, b, c in zip(x, labels, pixels, strict=True)]


def results(step: Callable[..., Any]) -> list[Any]:
    found = [step(**batch) for batch in batches()]
    return [[float(loss), {name: np.asarray(value).tolist() for name, value in more.items()}] for loss, more in found]


def test_what_is_equal_in_three_places(site: tuple[Path, str], evaluate: Callable[..., Any]) -> None:
    file = site[0] / "training.tg"
    made("numpy").save(file, target="webgpu-default")
    adapter = tg.load(file)
    assert isinstance(adapter, tg.LoadedTraining)
    processor = made("cpu")
    processor.load_checkpoint(file)
    page = evaluate(
        "const training = await T.Training.load('training.tg');"
        "const plain = (value) => value.data ? Array.from(value.data) : value;"
        "const run = async () => (await training.run(given.length, (index) => given[index])).map(([loss, more]) =>"
        "  [loss, Object.fromEntries(Object.entries(more).map(([name, value]) => [name, plain(value)]))]);"
        "const first = await run(); await training.restore('training.tg'); return [first, await run()];",
        [{name: array.tolist() for name, array in batch.items()} for batch in batches()],
    )
    assert page[0] == page[1], "the same device and file: the same bits"
    places = [results(adapter.step), results(processor.step), page[0]]
    for one in places:
        for (value, more), (expected, exact) in zip(one, places[0], strict=True):
            assert more == exact, "integers, bools and random bits are equal"
            assert value == pytest.approx(expected, rel=1e-5)
