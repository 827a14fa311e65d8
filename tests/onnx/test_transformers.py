"""Language models in single ops train on numpy and the CPU, and only their weights are parameters."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_transformers import BATCH, LENGTH, VOCABULARY, gpt2, llama

import tensorgrad as tg

MODELS: dict[str, Callable[[], tuple[onnx.ModelProto, list[str]]]] = {
    "gpt2": gpt2,
    "llama_with_frequencies": lambda: llama(False),
    "llama_with_tables": lambda: llama(True),
}


def test_the_reference_agrees() -> None:
    ids = np.random.default_rng(0).integers(0, VOCABULARY, (BATCH, LENGTH))
    for build in MODELS.values():
        model, _ = build()
        expected: Any = ReferenceEvaluator(model).run(None, {"ids": ids})
        np.testing.assert_allclose(np.asarray(tg.onnx.load(model)(ids)), expected[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_parameters(name: str) -> None:
    model, trained = MODELS[name]()
    parameters = set(tg.onnx.load(model).named_parameters())
    assert parameters == {weight.replace("onnx::", "onnx__") for weight in trained}


@pytest.mark.in_turns(4)
@pytest.mark.parametrize("device", ["numpy", "cpu"])
@pytest.mark.parametrize("name", MODELS)
def test_training(name: str, device: Any) -> None:
    shape = (BATCH, LENGTH)
    training = tg.compile(
        tg.onnx.load(MODELS[name]()[0]),
        loss=lambda model, ids, labels: tg.cross_entropy(model(ids), labels),
        optimizer=tg.optim.adam(1e-2),
        inputs={"ids": tg.spec(shape, "i32"), "labels": tg.spec(shape, "i32")},
        device=device,
    )
    rng = np.random.default_rng(1)
    batch = {key: rng.integers(0, VOCABULARY, shape).astype(np.int32) for key in ("ids", "labels")}
    losses = [float(training.step(**batch)) for _ in range(4)]
    assert np.isfinite(losses).all()
    assert all(after < before for before, after in itertools.pairwise(losses))
    assert all(np.isfinite(value).all() for value in training.parameters().values())
