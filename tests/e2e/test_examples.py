"""The examples, at reduced size."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def loaded(name: str) -> ModuleType:
    """An example as a module."""
    specification = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # dataclasses look their module up
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def char_gpt():
    return loaded("char_gpt")


def small(module: ModuleType) -> Any:
    return module.Sizes(context=16, width=32, heads=2, layers=1, batch=16, steps=40, learning_rate=1e-2)


@pytest.fixture(scope="module")
def trained(char_gpt):
    return char_gpt.train(char_gpt.Text.of_python(), small(char_gpt), "numpy", 0)


def test_a_small_gpt_learns_to_write(char_gpt, trained):
    text, sizes, (training, losses) = char_gpt.Text.of_python(), small(char_gpt), trained
    assert losses[0] == pytest.approx(np.log(len(text.characters)), abs=0.1)
    assert np.mean(losses[-5:]) < 3.4
    assert char_gpt.validation_loss(training, text, sizes, batches=2) < 3.4
    written = char_gpt.sample(training, text, sizes, "The ", 20, seed=0)
    assert written.startswith("The ") and len(written) == 24 and set(written) <= set(text.characters)


def test_a_small_gpt_learns_on_a_device(char_gpt, trained):
    training, losses = char_gpt.train(char_gpt.Text.of_python(), small(char_gpt), "wgpu", 0)
    assert np.allclose(losses[:10], trained[1][:10], rtol=1e-3)
    assert np.mean(losses[-5:]) < 3.4
    stats = training.stats()
    assert stats["submits"] == 1 and stats["copies"] == 0


def test_what_the_gpt_is_compared_with(char_gpt):
    text = char_gpt.Text.of_python()
    assert 2 < text.bigram_loss() < 2.6
    batch = char_gpt.windows(np.arange(10), [0, 6], 3)
    assert np.array_equal(batch["tokens"], [[0, 1, 2], [6, 7, 8]])
    assert np.array_equal(batch["following"], [[1, 2, 3], [7, 8, 9]])


@pytest.mark.parametrize("arguments", [["--steps", "0"], ["--prompt", ""], ["--prompt", "\N{SNOWMAN}"]])
def test_the_gpt_refuses(char_gpt, arguments):
    with pytest.raises(SystemExit):
        char_gpt.main(arguments)


@pytest.fixture(scope="module")
def addition():
    return loaded("addition")


def test_a_transformer_learns_to_add(addition):
    """In a seventh of the steps: the loss is under 0.1 from about step 350 on."""
    training, losses = addition.train(220, "numpy")
    assert losses[0] == pytest.approx(np.log(12), abs=0.1)
    assert np.mean(losses[-20:]) < 0.8
    assert addition.accuracy(training) > 0.3


def test_adding_on_a_device_takes_few_dispatches(addition):
    training, losses = addition.train(3, "wgpu")
    _, expected = addition.train(3, "numpy")
    assert np.allclose(losses, expected, rtol=1e-3)
    stats = training.stats()
    assert stats["dispatches"] <= 160 and stats["submits"] == 1 and stats["copies"] == 0


def test_sums_are_written_backwards(addition):
    sums = addition.written(np.array([12, 99]), np.array([34, 1]))
    assert ["".join(addition.SYMBOLS[token] for token in row) for row in sums["tokens"]] == ["12+34=64", "99+01=00"]
    assert sums["result"].tolist() == [[6, 4, 0], [0, 0, 1]]
    known, unseen = addition.pairs()
    assert len(known) == 8000 and len(unseen) == 2000
