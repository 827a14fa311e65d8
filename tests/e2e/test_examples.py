"""The examples run at reduced size."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from processes import launched

import tensorgrad as tg

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def loaded(name: str) -> ModuleType:
    """Imports an example as a module."""
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
    training, report = char_gpt.train(char_gpt.Text.of_python(), small(char_gpt), "numpy", 0, progress=False)
    return training, report.losses


def test_a_small_gpt_learns_to_write(char_gpt, trained):
    text, sizes, (training, losses) = char_gpt.Text.of_python(), small(char_gpt), trained
    assert losses[0] == pytest.approx(np.log(len(text.characters)), abs=0.1)
    assert np.mean(losses[-5:]) < 3.4
    assert char_gpt.validation_loss(training, text, sizes, batches=2) < 3.4
    written = char_gpt.sample(training, text, sizes, "The ", 20, seed=0)
    assert written.startswith("The ") and len(written) == 24 and set(written) <= set(text.characters)


@pytest.mark.nightly
def test_a_small_gpt_learns_on_a_device(char_gpt, trained):
    training, report = char_gpt.train(char_gpt.Text.of_python(), small(char_gpt), "wgpu", 0, progress=False)
    losses = report.losses
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


@pytest.mark.nightly
def test_a_transformer_learns_to_add(addition):
    """In a seventh of the steps: the loss is below 0.1 from about step 350 on."""
    training, losses = addition.train(220, "numpy")
    assert losses[0] == pytest.approx(np.log(12), abs=0.1)
    assert np.mean(losses[-20:]) < 0.8
    assert addition.accuracy(training) > 0.3


@pytest.mark.nightly
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


@pytest.fixture(scope="module")
def kan():
    return loaded("kan")


def test_a_network_of_splines_fits_a_function(kan):
    assert kan.train(200, "numpy", count=300)[1] < 0.15
    _, start = kan.train(1, "numpy", count=300)
    assert start > 0.8


def test_splines_add_up_to_one(kan):
    layer = kan.SplineLayer(1, 1, 8)
    x = np.linspace(-1, 0.999, 50, dtype=np.float32)
    splines = np.asarray(tg.jit(layer.splines, device="numpy")(x))
    assert splines.shape == (50, 11) and np.all(splines >= -1e-6)
    assert np.allclose(splines.sum(axis=1), 1, atol=1e-5)
    assert np.allclose(tg.jit(layer.splines, device="wgpu")(x), splines, atol=1e-5)


@pytest.fixture(scope="module")
def flow_matching():
    return loaded("flow_matching")


def test_a_flow_carries_noise_towards_the_data(flow_matching):
    training, losses = flow_matching.train(150, "numpy")
    assert np.mean(losses[-50:]) < 0.85 * np.mean(losses[:5])
    noise, points = flow_matching.sample(training, 300, steps=20)
    assert flow_matching.share_near(points) > 1.4 * flow_matching.share_near(noise)


def test_moons_lie_near_themselves(flow_matching):
    data = flow_matching.moons(np.random.default_rng(5), 200)
    assert abs(data.mean(axis=0)).max() < 0.15 and flow_matching.share_near(data) > 0.95


@pytest.fixture(scope="module")
def reinforce():
    return loaded("reinforce")


def test_a_policy_learns_to_balance(reinforce):
    _, lengths = reinforce.train(20, "numpy")
    assert lengths[0] < 30 and np.mean(lengths[-3:]) > 60


def test_a_pole_that_nobody_balances_falls(reinforce):
    carts = reinforce.CartPole(3, np.random.default_rng(0))
    carts.state = np.array([[0, 0, 0.1, 0], [0, 0, -0.1, 0], [2.39, 3, 0, 0]])
    standing = carts.move(np.array([False, True, True]))
    assert standing.tolist() == [True, True, False]
    turning = carts.state[:, 3]
    assert turning[0] > 0 > turning[1] and turning[0] == pytest.approx(-turning[1])
    for _ in range(30):
        standing = carts.move(np.array([False, True, True]))
    assert not standing.any()


@pytest.fixture(scope="module")
def neural_field():
    return loaded("neural_field")


def test_a_field_learns_a_picture(neural_field, tmp_path):
    pixels = neural_field.picture(reduce=16)
    assert pixels.shape == (26, 40, 3) and 0 <= pixels.min() < pixels.max() <= 1
    training, ratio = neural_field.train(pixels, 60, "numpy")
    assert -10 * np.log10(pixels.var()) < 13 and ratio > 16
    neural_field.draw(training, 8, 12, tmp_path / "field.png")
    assert (tmp_path / "field.png").stat().st_size > 0


@pytest.fixture(scope="module")
def tic_tac_toe():
    return loaded("tic_tac_toe")


@pytest.mark.nightly
def test_a_policy_learns_a_game_by_itself(tic_tac_toe):
    training = tic_tac_toe.train(600, "numpy")
    shares = tic_tac_toe.against_random(training, seed=2)
    assert shares["won"] > 0.8 and shares["lost"] < 0.05
    untrained = tic_tac_toe.against_random(tic_tac_toe.train(1, "numpy"), seed=2)
    assert untrained["lost"] > 0.15


def test_games_are_played_by_the_rules(tic_tac_toe):
    lines = np.zeros((3, 9), np.int32)
    lines[0, [2, 4, 6]], lines[1, [0, 1, 3]], lines[2, [0, 3, 6]] = 1, 1, -1
    assert tic_tac_toe.won(lines).tolist() == [True, False, False]
    generator = np.random.default_rng(0)
    inputs = tic_tac_toe.self_play(lambda boards: np.where(boards == 0, 0.0, -1e9), generator)
    boards, moves, outcomes, played = (
        inputs[name].reshape(9, tic_tac_toe.GAMES, -1).squeeze(-1)
        if name != "boards"
        else inputs[name].reshape(9, -1, 9)
        for name in ("boards", "moves", "outcomes", "played")
    )
    for game in range(tic_tac_toe.GAMES):
        turns = int(played[:, game].sum())
        assert played[:turns, game].all() and turns >= 5
        assert sorted(moves[:turns, game]) == sorted(set(moves[:turns, game]))
        for turn in range(turns):
            assert boards[turn, game, moves[turn, game]] == 0
            assert sorted(boards[turn, game]) == sorted([1] * (turn // 2) + [-1] * ((turn + 1) // 2) + [0] * (9 - turn))
        assert outcomes[turns - 1, game] in (0, 1) and abs(outcomes[:turns, game]).max() <= 1
        assert turns == 9 or outcomes[turns - 1, game] == 1
        assert np.isclose(outcomes[turns - 2, game], -0.7 * outcomes[turns - 1, game])


def test_it_plays_with_a_person(tic_tac_toe, monkeypatch, capsys):
    """An invalid move is asked for again, and a bad player loses."""
    cells = iter(["x", "0", "9", "8", "6"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(cells))
    order = iter([0, 1, 2])
    tic_tac_toe.play(lambda boards: np.array([next(order)]))
    out = capsys.readouterr().out
    assert "X X X\n3 4 5\nO 7 O\nX wins" in out


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["kan", "flow_matching", "neural_field"])
def test_the_same_on_a_device(name):
    module = loaded(name)
    actual, expected = (
        module.train(*([module.picture(32)] if name == "neural_field" else []), 3, device)
        for device in ("wgpu", "numpy")
    )
    assert np.allclose(actual[1], expected[1], rtol=1e-3)


@pytest.mark.nightly
def test_self_play_on_a_device(tic_tac_toe):
    actual, expected = (tic_tac_toe.train(2, device).parameters() for device in ("wgpu", "numpy"))
    assert all(np.allclose(value, expected[path], atol=1e-4) for path, value in actual.items())


@pytest.mark.parametrize("name", ["kan", "flow_matching", "neural_field", "addition"])
def test_no_steps_are_refused(name):
    with pytest.raises(SystemExit):
        loaded(name).main(["--steps", "0"])


def test_no_updates_are_refused(tic_tac_toe):
    with pytest.raises(SystemExit):
        tic_tac_toe.main(["--updates", "0"])


@pytest.fixture(scope="module")
def finetune():
    return loaded("finetune")


@pytest.fixture(scope="module")
def small_folder(finetune, tmp_path_factory):
    sizes = finetune.Sizes(
        length=16, batch=4, steps=12, learning_rate=1e-2, rank=2, dropout=0.1, vocabulary=300, width=16, layers=1
    )
    folder = tmp_path_factory.mktemp("base")
    finetune.make_folder(folder, sizes)
    return folder, sizes


@pytest.mark.parametrize(
    "device", ["numpy", pytest.param("cpu", marks=pytest.mark.nightly), pytest.param("wgpu", marks=pytest.mark.nightly)]
)
def test_a_language_model_is_fine_tuned(finetune, small_folder, tmp_path, device):
    """The adapter in its file, and the merged model, compute what the training's model does."""
    folder, sizes = small_folder
    result = finetune.train(folder, sizes, device, 0, progress=False)
    assert result.before == pytest.approx(np.log(300), abs=0.1) and result.after < result.before - 0.03
    model = result.training.model()
    finetune.write(model, folder, tmp_path, "q8_0")
    assert (tmp_path / "merged.gguf").read_bytes().startswith(b"GGUF")
    adapted = tg.models.from_pretrained(folder)
    tg.nn.load_lora(adapted, tmp_path / "adapter")
    tokens, merged = np.arange(8)[None], tg.models.from_pretrained(tmp_path / "merged").initialized()
    expected = np.asarray(tg.nn.inference(model)(tokens))
    for each in (adapted.initialized(), merged):
        np.testing.assert_allclose(np.asarray(tg.nn.inference(each)(tokens)), expected, rtol=1e-4, atol=1e-5)
    pieces = [*finetune.written(tmp_path / "merged", "The ", 6, device, seed=0)]
    assert len(pieces) == 6 and pieces == [*finetune.written(tmp_path / "merged", "The ", 6, device, seed=0)]


@pytest.mark.nightly
@pytest.mark.parametrize("bits", [8, 4])
def test_a_language_model_of_few_bits_is_fine_tuned(finetune, small_folder, tmp_path, bits):
    """The merged model has the weights of the integers, and the adapters' change."""
    folder, sizes = small_folder
    result = finetune.train(folder, sizes, "cpu", 0, progress=False, bits=bits)
    assert result.after < result.before - 0.03
    model = result.training.model()
    finetune.write(model, folder, tmp_path)
    tokens, merged = np.arange(8)[None], tg.models.from_pretrained(tmp_path / "merged").initialized()
    expected = np.asarray(tg.nn.inference(model)(tokens))
    np.testing.assert_allclose(np.asarray(tg.nn.inference(merged)(tokens)), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.nightly
def test_a_language_model_is_fine_tuned_in_bf16(finetune, small_folder, tmp_path):
    folder, sizes = small_folder
    result = finetune.train(folder, sizes, "cpu", 0, progress=False, dtype="bf16")
    assert result.after < result.before - 0.03
    finetune.write(result.training.model(), folder, tmp_path)
    weights = tg.nn.read_weights(tmp_path / "merged", keep_bf16=True)
    assert {array.dtype for array in weights.values()} == {tg.bf16}


@pytest.mark.nightly
def test_processes_fine_tune_as_one_does(finetune, small_folder, tmp_path):
    folder, _ = small_folder
    losses = []
    for count in (1, 2):
        out = tmp_path / str(count)
        script = [EXAMPLES / "finetune.py", "--folder", folder, "--steps", 3, "--length", 4, "--device", "numpy"]
        done = launched("-n", count, *script, "--out", out)
        assert done.returncode == 0, done.stderr
        losses.append(float(re.findall(r"([\d.]+) after 3 steps", done.stdout)[0]))
        assert (out / "adapter" / "adapter_model.safetensors").exists()
    assert losses[0] == pytest.approx(losses[1], abs=2e-3)


@pytest.mark.parametrize("arguments", [["--steps", "0"], ["--prompt", ""], ["--length", "-1"]])
def test_fine_tuning_refuses(finetune, arguments):
    with pytest.raises(SystemExit):
        finetune.main(arguments)
