"""A hundred steps in a page have the same losses as in Python, with another driver and shader compiler."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from safetensors.numpy import save_file

import tensorgrad as tg
from tensorgrad.runtime.target import WEBGPU_DEFAULT

pytestmark = pytest.mark.web

Evaluate: TypeAlias = Callable[..., Any]
Data: TypeAlias = dict[str, np.ndarray]
STEPS = 100
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SOFTWARE = replace(WEBGPU_DEFAULT, name="any software adapter", software=True, shader_dialect="standard")
"""What every browser has, with the schedules of software adapters, which SwiftShader runs ten times faster."""


@pytest.fixture(autouse=True)
def examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)


def batches(arrays: Data, size: int) -> Iterator[Data]:
    generator = np.random.default_rng(5)
    for _ in range(STEPS):
        rows = generator.integers(0, len(next(iter(arrays.values()))), size)
        yield {name: array[rows] for name, array in arrays.items()}


def digits() -> tuple[tg.Training, list[Data]]:
    module: Any = importlib.import_module("digits")
    (images, labels), _ = module.load_digits()
    training = tg.compile(
        module.Classifier(),
        loss=module.loss,
        optimizer=tg.optim.adam(tg.optim.schedules.cosine(5e-3, STEPS), weight_decay=1e-3),
        inputs={"images": (64, 64), "labels": tg.spec(64, "i32")},
        device="wgpu",
    )
    return training, list(batches({"images": images, "labels": labels}, 64))


def convolutional() -> tuple[tg.Training, list[Data]]:
    module: Any = importlib.import_module("digits_cnn")
    arrays, _ = module.load_digits()
    training = tg.compile(
        module.Network(8),
        loss=module.loss,
        optimizer=tg.optim.adamw(2e-3),
        inputs={"images": (16, 1, 8, 8), "labels": tg.spec(16, "i32")},
        device="wgpu",
    )
    return training, list(batches(arrays, 16))


def gpt() -> tuple[tg.Training, list[Data]]:
    module: Any = importlib.import_module("char_gpt")
    text = module.Text.of_python()
    sizes = module.Sizes(context=16, width=32, heads=2, layers=2, batch=4)
    starts = np.arange(4096)[:, None] + np.arange(16)
    training = tg.compile(
        module.GPT(len(text.characters), sizes),
        loss=module.loss,
        optimizer=tg.optim.adamw(1e-3, clip_norm=1.0),
        inputs={"tokens": tg.spec((4, 16), "i32"), "following": tg.spec((4, 16), "i32")},
        device="wgpu",
    )
    return training, list(batches({"tokens": text.training[starts], "following": text.training[starts + 1]}, 4))


@pytest.mark.parametrize("made", [digits, convolutional, gpt])
def test_the_losses_of_python(
    made: Callable[[], tuple[tg.Training, list[Data]]],
    site: tuple[Path, str],
    evaluate: Evaluate,
) -> None:
    training, data = made()
    training.save(site[0] / "training.tg", target=SOFTWARE.to_json())
    for index, batch in enumerate(data):
        save_file(
            {name: np.ascontiguousarray(array) for name, array in batch.items()}, site[0] / f"{index}.safetensors"
        )
    found = np.array(
        evaluate(
            "const training = await T.Training.load('training.tg');"
            f"return training.run({STEPS}, (index) => T.readArrays(`${{index}}.safetensors`));"
        )
    )
    expected = np.array([float(training.step(**batch)) for batch in data])
    equal = int(np.sum(found.astype(np.float32) == expected.astype(np.float32)))
    largest = float(np.max(np.abs(found - expected) / np.abs(expected)))
    print(f"{made.__name__}: {equal} of {STEPS} losses have equal bits, relative difference up to {largest:.1e}")
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert expected[-10:].mean() < expected[:10].mean()
