"""The examples that train with `tg.fit` run at reduced size."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def loaded(name: str) -> ModuleType:
    """Imports an example as a module."""
    specification = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # dataclasses look their module up
    specification.loader.exec_module(module)
    return module


@pytest.mark.nightly
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


def test_a_small_network_makes_up_words():
    makemore = loaded("makemore")
    words = makemore.Words.of_python()
    assert not {*words.known} & {*words.kept_back} and len(words.known) > 2000
    seen = makemore.examples(["cab"])
    assert seen["seen"].tolist() == [[0, 0, 0, 0], [0, 0, 0, 3], [0, 0, 3, 1], [0, 3, 1, 2]]
    assert seen["following"].tolist() == [3, 1, 2, 0]
    training, report = makemore.train(words, 600, "numpy", progress=False)
    assert report.evaluations[-1][1]["loss"] < words.bigram_loss() - 0.1
    made_up = makemore.made_up(training, 30, 0)
    assert made_up == makemore.made_up(training, 30, 0) and len({*made_up}) > 20
    assert all(set(word) <= set(makemore.SYMBOLS[1:]) for word in made_up)


@pytest.mark.nightly
def test_a_transformer_chooses_from_a_set():
    slots = loaded("slots")
    training, report = slots.train(100, "numpy", progress=False)
    judged_by = slots.judged_by()
    assert report.evaluations[-1][1]["right"] > 0.88 > slots.strongest(judged_by) + 0.1
    few = {name: value[:50] for name, value in judged_by.items() if name != "answers"}
    answer = training.attach(lambda model, kinds, powers, present: model(kinds, powers, present))
    logits = np.asarray(answer(**few))
    # The result doesn't depend on the order of the creatures, nor on absent ones.
    order = [2, 0, 3, 1, 4, 6, 7, 5]
    assert np.allclose(np.asarray(answer(**{k: v[:, order] for k, v in few.items()})), logits[:, order[:4]], atol=1e-4)
    other = {**few, "powers": np.where(few["present"], few["powers"], 9.0).astype(np.float32)}
    assert np.allclose(np.asarray(answer(**other)), logits, atol=1e-5)
    assert (logits[~few["present"][:, :4]] < -1e8).all()


def test_the_right_creature_does_the_most_damage():
    slots = loaded("slots")
    factors = slots.factors()
    assert factors[0].tolist() == [1, 2, 2, 1, 1, 0.5, 0.5] and np.array_equal(factors * factors.T, np.ones((7, 7)))


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["makemore", "slots"])
def test_the_same_on_a_device(name):
    module = loaded(name)
    data = [module.Words.of_python()] if name == "makemore" else []
    options = {"layers": 1} if name == "slots" else {}
    actual, expected = (
        module.train(*data, 3, device, progress=False, **options)[1].losses for device in ("wgpu", "numpy")
    )
    assert np.allclose(actual, expected, rtol=1e-3)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("digits_cnn", ["--epochs", "0"]),
        ("vae", ["--steps", "0"]),
        ("makemore", ["--count", "0"]),
        ("slots", ["--steps", "0"]),
    ],
)
def test_no_steps_are_refused(name, arguments):
    with pytest.raises(SystemExit):
        loaded(name).main(arguments)
