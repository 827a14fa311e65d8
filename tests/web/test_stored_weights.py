"""Functions whose files store their parameters in fewer bits compute in a page what they do in Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.runtime.errors import ProgramError
from tensorgrad.runtime.files import read_safetensors, write_safetensors
from tensorgrad.tools.tg import main

pytestmark = pytest.mark.web

X = np.random.default_rng(0).normal(size=(4, 32)).astype(np.float32)
SHAPES = {"0.weight": (32, 48), "2.weight": (48, 10)}
ELEMENTS = 32 * 48 + 48 * 10
BOUNDS = {"f16": 1e-3, "int8": 2e-2}
"""How far the probabilities may be from those of exact parameters."""


@pytest.fixture
def predict(site: tuple[Path, str]) -> tg.Inference[Any]:
    """Saves a training and a function of it, which is returned."""
    training = tg.compile(
        tg.nn.Sequential(tg.nn.Linear(32, 48), tg.nn.Tanh(), tg.nn.Linear(48, 10)),
        loss=lambda model, x: tg.mean(model(x) ** 2),
        optimizer=tg.optim.sgd(0.1),
        inputs={"x": (4, 32)},
        device="numpy",
    )
    training.save(site[0] / "training.tg", target="webgpu-default")
    predict = training.attach(lambda model, x: tg.softmax(model(x)), inputs={"x": (4, 32)})
    predict.save(site[0] / "predict.tg", target="webgpu-default")
    return predict


CALL = "const model = await T.Inference.load(given.file); return Array.from(await model.call({x: given.x}).read());"


@pytest.mark.parametrize("weights", BOUNDS)
def test_a_page_computes_with_them(
    site: tuple[Path, str], evaluate: Callable[..., Any], predict: tg.Inference[Any], weights: str
) -> None:
    page = site[0] / "page"
    assert main(["export", "web", str(site[0] / "predict.tg"), str(page), "--weights", weights]) == 0
    _, exact = read_safetensors(site[0] / "predict.tg", ProgramError)
    _, stored = read_safetensors(page / "predict.tg", ProgramError)
    bytes_each = {"f16": 2, "int8": 1}[weights]
    names = [f"parameter/{name}" for name in SHAPES]
    assert {name: stored[name].nbytes for name in names} == {name: bytes_each * exact[name].size for name in names}
    assert sum(exact[name].size for name in names) == ELEMENTS
    scales = sum(value.nbytes for key, value in stored.items() if key.startswith("scale/"))
    assert scales == 0 if weights == "f16" else 0 < scales <= 4 * 2 * 48
    assert (page / "predict.tg").stat().st_size < (site[0] / "predict.tg").stat().st_size - 2 * ELEMENTS + 500
    chances = np.reshape(evaluate(CALL, {"file": "page/predict.tg", "x": X.tolist()}), (4, 10))
    loaded = tg.load(page / "predict.tg")
    assert isinstance(loaded, tg.LoadedFunction)
    np.testing.assert_allclose(chances, loaded(x=X), rtol=1e-5, atol=1e-6)  # the same rounded parameters
    differences = np.abs(chances - np.asarray(predict(x=X)))
    assert 1e-6 < differences.max() < BOUNDS[weights]


def test_a_training_keeps_its_exact_parameters(
    site: tuple[Path, str], predict: tg.Inference[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(site[0] / name) for name in ("training.tg", "predict.tg")]
    assert main(["export", "web", *files, str(site[0] / "page"), "--weights", "int8"]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "weights='int8': training is a training, which goes on from its exact parameters" in said
    assert not (site[0] / "page").exists()


def test_what_cannot_be_stored_so_is_refused_before_anything_is_written(
    site: tuple[Path, str], predict: tg.Inference[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    metadata, tensors = read_safetensors(site[0] / "predict.tg", ProgramError)
    tensors["parameter/2.weight"][0, 0] = 1e5
    write_safetensors(site[0] / "large.tg", tensors, metadata)
    files = [str(site[0] / name) for name in ("predict.tg", "large.tg")]
    assert main(["export", "web", *files, str(site[0] / "page"), "--weights", "f16"]) == 1
    assert "parameter '2.weight' has values beyond 65504" in " ".join(capsys.readouterr().err.split())
    assert not (site[0] / "page").exists()


def test_scales_that_do_not_fit_are_refused(
    site: tuple[Path, str], evaluate: Callable[..., Any], predict: tg.Inference[Any]
) -> None:
    predict.save(site[0] / "predict.tg", target="webgpu-default", weights="int8")
    metadata, tensors = read_safetensors(site[0] / "predict.tg", ProgramError)
    name = "scale/0.weight"
    for bad in (np.ones((32, 48), np.float32), np.ones((1, 3), np.float32), np.ones((1, 48)), np.ones(48, np.float32)):
        write_safetensors(site[0] / "predict.tg", {**tensors, name: bad}, metadata)
        said = evaluate("return T.Inference.load('predict.tg').then(String, String);")
        assert "parameter '0.weight': scales are F32 of one axis of I8 values" in said, bad.shape
