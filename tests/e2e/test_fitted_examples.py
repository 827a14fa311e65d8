"""The examples that are trained by `tg.fit`, at reduced size."""

from __future__ import annotations

import importlib.util
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
    specification.loader.exec_module(module)
    return module


def test_a_small_convolutional_network_reads_digits(tmp_path):
    digits_cnn = loaded("digits_cnn")
    _, report = digits_cnn.train("numpy", epochs=6, width=16, checkpoints=tmp_path, progress=False)
    assert report.evaluations[-1][1]["accuracy"] > 0.75
    training, again = digits_cnn.train("numpy", epochs=6, width=16, checkpoints=tmp_path, progress=False)
    assert again.steps_run == 0 and again.evaluations == report.evaluations
    assert training.step_count == report.step == 132


def test_images_are_shifted_the_same_way_each_time():
    digits_cnn = loaded("digits_cnn")
    import tensorgrad as tg

    batches = tg.data.batches(digits_cnn.load_digits()[0], 64, shuffle=0)
    first, second = digits_cnn.shifted(batches, 0).at(0, 3), digits_cnn.shifted(batches, 0).at(0, 3)
    assert np.array_equal(first["images"], second["images"]) and first["images"].shape == (64, 1, 8, 8)
    assert np.array_equal(first["labels"], batches.at(0, 3)["labels"])
    assert not np.array_equal(first["images"], batches.at(0, 3)["images"])


def test_a_small_autoencoder_describes_digits():
    vae = loaded("vae")
    training, report = vae.train("numpy", 300, 0, width=64, progress=False)
    assert report.evaluations[-1][1]["bound"] < vae.mean_image_loss(*vae.load_images()) == pytest.approx(27.0, abs=0.1)
    drawn = vae.drawn(training, 3, 0)
    assert drawn.shape == (3, 8, 8) and drawn.min() >= 0 and drawn.max() <= 1
    assert [len(line) for line in vae.as_text(drawn).splitlines()] == [3 * 16 + 2 * 3] * 8


@pytest.mark.parametrize(("name", "arguments"), [("digits_cnn", ["--epochs", "0"]), ("vae", ["--steps", "0"])])
def test_no_steps_are_refused(name, arguments):
    with pytest.raises(SystemExit):
        loaded(name).main(arguments)
