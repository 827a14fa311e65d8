"""The examples, at reduced size."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

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


@pytest.mark.parametrize("device", ["numpy", "wgpu"])
def test_a_small_gpt_learns_to_write(char_gpt, device):
    text = char_gpt.Text.of_python()
    sizes = char_gpt.Sizes(context=16, width=32, heads=2, layers=1, batch=16, steps=60, learning_rate=1e-2)
    training, losses = char_gpt.train(text, sizes, device, seed=0)
    assert losses[0] == pytest.approx(np.log(len(text.characters)), abs=0.1)
    assert np.mean(losses[-10:]) < 3.3
    assert char_gpt.validation_loss(training, text, sizes, batches=2) < 3.3
    written = char_gpt.sample(training, text, sizes, "The ", 20, seed=0)
    assert written.startswith("The ") and len(written) == 24 and set(written) <= set(text.characters)


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
