"""Models of folders that the tests write: results beside PyTorch's layers, the way back, and derivatives."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from written_folders import FOLDERS, LAYERS, Folder, images, llama, tokens

import tensorgrad as tg


def inputs_of(name: str) -> dict[str, np.ndarray]:
    return {"pixel_values": images()} if name == "vit" else {"input_ids": tokens()}


def masked_inputs(name: str) -> dict[str, np.ndarray]:
    mask = np.ones((2, 7), np.int32)
    mask[1, 4:] = 0
    types = {"token_type_ids": np.arange(14).reshape(2, 7) % 2} if name == "bert" else {}
    return {"input_ids": tokens(), "attention_mask": mask, **types}


def expected(folder: Folder, inputs: dict[str, np.ndarray]) -> np.ndarray:
    with torch.no_grad():
        return folder.expected(**{name: torch.from_numpy(array) for name, array in inputs.items()}).numpy()


def results(model: Any, inputs: dict[str, np.ndarray]) -> np.ndarray:
    return np.asarray(tg.nn.inference(model)(**inputs))


@pytest.mark.parametrize("name", FOLDERS)
def test_results_are_those_of_pytorch_s_layers(name: str, tmp_path: Path) -> None:
    folder = FOLDERS[name]()
    model = tg.models.from_pretrained(folder.write(tmp_path)).initialized()
    np.testing.assert_allclose(results(model, inputs_of(name)), expected(folder, inputs_of(name)), rtol=1e-5, atol=1e-5)
    if name != "vit":
        inputs = masked_inputs(name)
        kept = inputs["attention_mask"] != 0 if name != "distilbert" else slice(None)
        np.testing.assert_allclose(results(model, inputs)[kept], expected(folder, inputs)[kept], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_that_is_written_holds_what_was_read(name: str, tmp_path: Path) -> None:
    """The weights have the names and layouts of transformers' current files, and settings without effect stay."""
    folder = FOLDERS[name]()
    model = tg.models.from_pretrained(folder.write(tmp_path / "read")).initialized()
    tg.models.save_pretrained(model, tmp_path / "written")
    written = load_file(tmp_path / "written" / "model.safetensors")
    prefix = "transformer." if name == "gpt2" else ""
    for key, tensor in folder.weights.items():
        key = (prefix + key).replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
        if key in written:
            np.testing.assert_array_equal(written.pop(key), tensor.numpy())
    assert not written, "no other names"
    config = json.loads((tmp_path / "written" / "config.json").read_text())
    own = {key: value for key, value in folder.config.items() if key != "torch_dtype"}
    assert config == {**config, **own}
    again = tg.models.from_pretrained(tmp_path / "written").initialized()
    np.testing.assert_array_equal(results(again, inputs_of(name)), results(model, inputs_of(name)))


NIGHTLY = {"qwen2_moe": [pytest.mark.nightly]}
"""The models whose layers others have too."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=NIGHTLY.get(name, [])) for name in FOLDERS])
def test_gradients_are_those_of_pytorch(name: str, tmp_path: Path) -> None:
    """Of all weights of models of Llama's shape, and of those outside of the blocks of the others."""
    folder, inputs = FOLDERS[name](), inputs_of(name)
    model = tg.nn.inference(tg.models.from_pretrained(folder.write(tmp_path)).initialized())
    gradients = tg.grad(lambda model: tg.mean(model(**inputs) ** 2))(model)
    for tensor in folder.weights.values():
        tensor.requires_grad_()
    folder.expected(**{key: torch.from_numpy(array) for key, array in inputs.items()}).square().mean().backward()
    theirs = {key: tensor.grad.numpy() for key, tensor in folder.weights.items() if tensor.grad is not None}
    ours = tg.nn.to_torch(model, gradients.named_parameters(), conv1d=model.conv1d)
    prefix = "transformer." if name == "gpt2" else ""
    assert len(theirs) == len(folder.weights) if hasattr(model, "lm_head") else len(theirs) >= 4
    for key, expected_gradient in theirs.items():
        actual = ours[prefix + key.replace("Norm.gamma", "Norm.weight").replace("Norm.beta", "Norm.bias")]
        np.testing.assert_allclose(actual, expected_gradient, rtol=1e-4, atol=1e-4 * np.abs(expected_gradient).max())


def test_llama_s_rotary_positions(tmp_path: Path) -> None:
    """Logits depend on distances alone, and positions of a batch are those of each text."""
    model = tg.models.from_pretrained(llama().write(tmp_path)).initialized()
    plain = results(model, {"input_ids": tokens()})
    places = np.arange(7) + np.array([[0], [5]])
    np.testing.assert_allclose(results(model, {"input_ids": tokens(), "position_ids": places}), plain, atol=1e-5)
    apart = places * np.array([[1], [2]])
    moved = results(model, {"input_ids": tokens(), "position_ids": apart})
    traced = tg.jit(lambda ids, places: model(ids, position_ids=places), device="numpy")(tokens(), apart)
    np.testing.assert_allclose(np.asarray(traced), moved, atol=1e-5)
    np.testing.assert_allclose(moved[0], plain[0], atol=1e-5)
    assert np.abs(moved[1] - plain[1]).max() > 1e-2


def test_newer_and_older_settings_of_rotary_positions_are_the_same(tmp_path: Path) -> None:
    numbers = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8}
    older = {"rope_theta": 500.0, "rope_scaling": {"rope_type": "llama3", **numbers}}
    newer = {"rope_parameters": {"rope_type": "llama3", "rope_theta": 500.0, **numbers}}
    linear = {"rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 8.0}}
    folder = llama()
    folder = replace(folder, config={name: value for name, value in folder.config.items() if name != "rope_theta"})
    models = [
        tg.models.from_pretrained(folder.write(tmp_path / str(number), **settings)).initialized()
        for number, settings in enumerate((older, newer, linear))
    ]
    logits = [results(model, {"input_ids": tokens()}) for model in models]
    np.testing.assert_array_equal(logits[0], logits[1])
    assert np.abs(logits[0] - logits[2]).max() > 1e-3
    options = models[0].options
    assert tg.models.LlamaOptions.read(options.written()) == options


def test_a_model_from_scratch_is_initialized_as_transformers_does() -> None:
    options = tg.models.GPT2Options(vocab_size=50, n_positions=8, n_embd=32, n_layer=2, n_head=4)
    values = tg.models.GPT2LMHeadModel(options).initialized(0).state_dict()
    for path, value in values.items():
        if path.endswith("bias"):
            assert not value.any()
        elif "ln_" in path:
            assert (value == 1).all()
        else:
            assert value.std() == pytest.approx(0.02, rel=0.1)
    assert len(values) == 4 + 12 * LAYERS


def test_what_drops_needs_a_key() -> None:
    options = tg.models.GPT2Options(vocab_size=50, n_positions=8, n_embd=16, n_layer=1, n_head=2)
    model = tg.models.GPT2LMHeadModel(options).initialized(0)
    with pytest.raises(tg.errors.OptionError, match=r"drops with probability 0\.1, and has no key"):
        model(tokens())
    first, second = (np.asarray(model(tokens(), key=tg.random.key(seed))) for seed in (0, 1))
    assert np.abs(first - second).max() > 1e-3
    with pytest.raises(tg.errors.ShapeError, match="the model has 8 positions, the text is of 9"):
        tg.nn.inference(model)(np.zeros((1, 9), np.int32))
