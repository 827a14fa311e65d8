"""Models whose parameters stay bf16, as folders have them: results, adapters on them, files, and what they take."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from written_folders import FOLDERS, images, llama, tokens

import tensorgrad as tg
from tensorgrad.errors import DTypeError


def written(name: str, place: Path) -> Path:
    """Writes a folder in bf16."""
    folder = FOLDERS[name]()
    rounded = {name: tensor.bfloat16() for name, tensor in folder.weights.items()}
    return replace(folder, weights=rounded).write(place, torch_dtype="bfloat16")


def results(model: Any) -> np.ndarray:
    is_vision = isinstance(model, tg.models.ViTForImageClassification)
    return np.asarray(tg.nn.inference(model)(images() if is_vision else tokens()))


def loss(model: Any, tokens: Any) -> Any:
    return tg.cross_entropy(tg.nn.inference(model)(tokens)[:, :-1], tokens[:, 1:])


def adapted(place: Path, dtype: str, device: tg.DeviceName) -> tg.Training:
    model = tg.models.from_pretrained(place, dtype=dtype)
    tg.nn.lora(model, rank=2)
    inputs = {"tokens": tg.spec((2, 7), "i32")}
    return tg.compile(model, loss=loss, optimizer=tg.optim.adamw(1e-2), inputs=inputs, device=device, seed=3)


@pytest.mark.in_turns(7, 2)
@pytest.mark.parametrize("name", FOLDERS)
def test_a_model_computes_what_it_does_with_f32(name: str, tmp_path: Path) -> None:
    """To the same bits: activations and norms are in f32, beside which each weight is read exactly."""
    place = written(name, tmp_path)
    wide, narrow = (tg.models.from_pretrained(place, dtype=dtype).initialized() for dtype in ("f32", "bf16"))
    assert {parameter.dtype for parameter in narrow.parameters()} == {tg.bf16}
    assert wide.parameters()[0].dtype == tg.f32
    result = results(narrow)
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, results(wide))


def test_gemma_adds_one_to_a_weight_of_bf16_in_f32(tmp_path: Path) -> None:
    """As transformers does: in bf16, a weight below 1/256 would vanish."""
    model = tg.models.from_pretrained(written("llama", tmp_path), dtype="bf16").initialized()
    norm = model.model.norm
    norm.offset = 1.0
    x = np.random.default_rng(0).normal(size=(4, 16)).astype(np.float32)
    weight = 1 + np.asarray(norm.weight).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(norm(x)), np.asarray(tg.rms_norm(x, 16, weight, norm.eps)))


NATIVE = [pytest.param(device, marks=pytest.mark.nightly) for device in ("cpu", "wgpu")]
"""The devices whose programs take long to compile; `tests/numerics/test_bf16_tensors.py` has products of bf16 there."""


@pytest.mark.parametrize("device", ["numpy", *NATIVE])
def test_adapters_are_trained_in_f32_on_a_base_of_bf16(device: tg.DeviceName, tmp_path: Path) -> None:
    place = written("llama", tmp_path / "read")
    wide, narrow = (adapted(place, dtype, device) for dtype in ("f32", "bf16"))
    losses = np.array([[float(training.step(tokens=tokens())) for _ in range(20)] for training in (wide, narrow)])
    assert losses[0, -1] < 0.8 * losses[0, 0]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)
    trained, base = narrow.parameters(), load_file(place / "model.safetensors")
    assert {value.dtype for path, value in trained.items() if ".adapters." in path} == {np.dtype(np.float32)}
    assert (trained["lm_head.weight"] == base["lm_head.weight"].float().numpy().T).all()
    merged = tg.nn.merge_lora(narrow.model())
    tg.models.save_pretrained(merged, tmp_path / "written")
    stored = load_file(tmp_path / "written" / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.bfloat16}
    assert json.loads((tmp_path / "written" / "config.json").read_text())["dtype"] == "bfloat16"
    again = tg.models.from_pretrained(tmp_path / "written", dtype="bf16").initialized()
    np.testing.assert_array_equal(results(again), results(merged))
    ours = results(narrow.model())
    np.testing.assert_allclose(results(merged), ours, atol=2**-5 * np.abs(ours).max())  # the sum is rounded to bf16


@pytest.mark.nightly
def test_a_base_of_bf16_takes_half_of_what_it_takes_in_f32(tmp_path: Path) -> None:
    """And nothing else: kernels read it as it is stored, in the forward pass and in the backward pass."""
    place = written("llama", tmp_path)
    wide, narrow = (adapted(place, dtype, "cpu") for dtype in ("f32", "bf16"))
    base = sum(tensor.numel() for tensor in load_file(place / "model.safetensors").values())
    saved = wide.stats()["peak_bytes"] - narrow.stats()["peak_bytes"]
    assert abs(saved - 2 * base) < 512  # for alignment
    assert wide.stats()["dispatches"] >= narrow.stats()["dispatches"]


@pytest.mark.nightly
@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_texts_are_those_of_f32(device: tg.DeviceName, tmp_path: Path) -> None:
    place = written("llama", tmp_path)
    texts = [
        tg.models.from_pretrained(place, dtype=dtype).initialized().generate([[1, 2, 3], [5]], 6, device=device)
        for dtype in ("f32", "bf16")
    ]
    np.testing.assert_array_equal(*texts)


@pytest.mark.nightly
def test_other_files_of_a_model_of_bf16_are_those_of_f32(tmp_path: Path) -> None:
    place = written("llama", tmp_path / "read")
    models = [tg.models.from_pretrained(place, dtype=dtype).initialized() for dtype in ("f32", "bf16")]
    for number, model in enumerate(models):
        tg.models.save_gguf(model, tmp_path / f"{number}.gguf", dtype="q8_0")
        tg.nn.quantize(model, group=8)
    assert (tmp_path / "0.gguf").read_bytes() == (tmp_path / "1.gguf").read_bytes()
    np.testing.assert_array_equal(results(models[0]), results(models[1]))


def test_weights_of_f32_are_rounded_and_those_of_f16_stay(tmp_path: Path) -> None:
    folder = llama()
    place = folder.write(tmp_path)
    head = folder.weights["lm_head.weight"].T
    for dtype, theirs in (("bf16", torch.bfloat16), (tg.f16, torch.float16)):
        values = tg.models.from_pretrained(place, dtype=dtype).initialized().state_dict()
        np.testing.assert_array_equal(values["lm_head.weight"].astype(np.float32), head.to(theirs).float().numpy())
    with pytest.raises(DTypeError, match="from_pretrained: parameters are of f32, bf16, f16, not of i32"):
        tg.models.from_pretrained(place, dtype="i32")
