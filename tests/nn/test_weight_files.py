"""Weights in safetensors files and folders, and the layouts of other models' states."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import tensorgrad as tg


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two files and their index, as Hugging Face's libraries write them."""
    generator = torch.Generator().manual_seed(0)
    half = torch.randn(3, 4, generator=generator)
    parts = {
        "first.safetensors": {"bf16": half.bfloat16(), "f16": half.half(), "empty": torch.zeros(0, 3)},
        "second.safetensors": {"f32": half, "f64": half.double(), "i64": torch.arange(3), "flag": torch.tensor([True])},
    }
    for file, tensors in parts.items():
        save_file(tensors, tmp_path / file, metadata={"format": "pt"})
    places = {name: file for file, tensors in parts.items() for name in tensors}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    return tmp_path


def test_every_array_of_a_folder_is_what_was_written(folder: Path) -> None:
    weights = tg.nn.read_weights(folder)
    assert sorted(weights) == ["bf16", "empty", "f16", "f32", "f64", "flag", "i64"]
    half = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    assert weights["bf16"].dtype == np.float32
    np.testing.assert_array_equal(weights["bf16"], half.bfloat16().float().numpy())
    kept = tg.nn.read_weights(folder, keep_bf16=True).renamed(lambda name: f"own.{name}")["own.bf16"]
    assert kept.dtype == tg.bf16
    np.testing.assert_array_equal(kept.astype(np.float32), weights["bf16"])
    for name, expected in {"f16": half.half(), "f32": half, "f64": half.double(), "i64": torch.arange(3)}.items():
        assert weights[name].dtype == expected.numpy().dtype
        np.testing.assert_array_equal(weights[name], expected.numpy())
    assert weights["empty"].shape == (0, 3)
    assert weights["flag"].tolist() == [True]
    assert repr(weights) == "WeightFiles of 7 arrays in 2 files"


def test_every_bfloat16_is_exact(tmp_path: Path) -> None:
    bits = torch.arange(1 << 16, dtype=torch.int32).to(torch.uint16).view(torch.bfloat16)
    save_file({"all": bits}, tmp_path / "model.safetensors")
    values = tg.nn.read_weights(tmp_path)["all"]
    np.testing.assert_array_equal(values, bits.float().numpy())


def test_arrays_are_views_of_the_file(folder: Path) -> None:
    array = tg.nn.read_weights(folder / "second.safetensors")["f32"]
    assert isinstance(array.base, np.memmap)
    assert not array.flags.writeable


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ({"weight_map": {"a": "../first.safetensors"}}, "names a file outside of its folder, '../first.safetensors'"),
        ({"weight_map": {"f32": "first.safetensors"}}, "says that first.safetensors holds 'f32', which it doesn't"),
        ({"weights": {}}, "is no index of weights: KeyError"),
        ([], "is no index of weights"),
    ],
)
def test_wrong_indices_are_refused(folder: Path, index: object, message: str) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(tg.errors.InputError, match=message):
        tg.nn.read_weights(folder)


def test_wrong_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"model\.safetensors"):
        tg.nn.read_weights(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 100)
    with pytest.raises(tg.errors.InputError, match="is not a safetensors file"):
        tg.nn.read_weights(tmp_path)
    save_file({"x": torch.zeros(2).to(torch.float8_e5m2)}, tmp_path / "model.safetensors")
    with pytest.raises(tg.errors.InputError, match="x is F8_E5M2, which NumPy has no arrays of"):
        tg.nn.read_weights(tmp_path)


class Block(tg.nn.Module):
    """A block whose parts have other names in GPT-2."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = tg.nn.MultiHeadAttention(4, 2)
        self.norm = tg.nn.LayerNorm(4)


def test_a_prefix_and_the_layout_of_gpt2() -> None:
    generator = np.random.default_rng(0)
    shapes = {
        "attn.c_attn.weight": (4, 12),
        "attn.c_attn.bias": (12,),
        "attn.c_proj.weight": (4, 4),
        "attn.c_proj.bias": (4,),
    }
    state = {f"h.0.{name}": generator.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    state |= {"h.0.norm.weight": np.ones(4, np.float32), "h.0.norm.bias": np.zeros(4, np.float32)}
    names = {
        "": "h.0",
        "attention.in_proj_weight": "h.0.attn.c_attn.weight",
        "attention.in_proj_bias": "h.0.attn.c_attn.bias",
        "attention.out_proj": "h.0.attn.c_proj",
    }
    values = tg.nn.from_torch(Block(), state, names, conv1d="*.c_*.weight")
    np.testing.assert_array_equal(values["attention.k.weight"], state["h.0.attn.c_attn.weight"][:, 4:8])
    np.testing.assert_array_equal(values["attention.out.weight"], state["h.0.attn.c_proj.weight"])
    back = tg.nn.to_torch(Block(), values, names, conv1d="*.c_*.weight")
    assert back.keys() == state.keys()
    for name, array in state.items():
        np.testing.assert_array_equal(back[name], array)
    with pytest.raises(tg.errors.OptionError, match=r"conv1d 'mlp\.\*' matches none of h\.0\.attn"):
        tg.nn.from_torch(Block(), state, names, conv1d="mlp.*")


def test_a_model_starts_from_files(folder: Path) -> None:
    """Each value is read when it is drawn, converted to the parameter's dtype and layout."""
    model = tg.nn.Sequential({"half": tg.nn.Linear(4, 3, bias=False), "same": tg.nn.Linear(3, 4, bias=False)})
    names = {"half.weight": "bf16", "same.weight": "f64"}
    tg.nn.initialize_from(
        model, tg.nn.read_weights(folder), names, ignore=["f16", "f32", "i64", "flag", "empty"], conv1d="f64"
    )
    values = model.initialized().state_dict()
    half = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    np.testing.assert_array_equal(values["half.weight"], half.bfloat16().float().numpy().T)
    np.testing.assert_array_equal(values["same.weight"], half.numpy())
    assert {value.dtype for value in values.values()} == {np.dtype(np.float32)}


def test_what_may_be_missing_keeps_its_initializer(folder: Path) -> None:
    weights = tg.nn.read_weights(folder).renamed(lambda name: "weight" if name == "f32" else None)
    assert weights.shapes == {"weight": (3, 4)}
    model = tg.nn.Linear(4, 3, bias_init=2.0)
    with pytest.raises(tg.errors.InputError, match=r"state is not this model's\. missing: bias"):
        tg.nn.initialize_from(model, weights)
    tg.nn.initialize_from(model, weights, optional="b*")
    np.testing.assert_array_equal(model.initialized().state_dict()["bias"], 2)
    with pytest.raises(tg.errors.InputError, match=r"of another shape: weight is \[3, 4\], expected \[3, 5\]"):
        tg.nn.initialize_from(tg.nn.Linear(5, 3, bias=False), weights)
    with pytest.raises(tg.errors.ParameterError, match="weight is no declared parameter"):
        tg.nn.initialize_from(tg.nn.Linear(4, 3, bias=False).initialized(0), weights)


def test_parts_of_a_stacked_tensor(tmp_path: Path) -> None:
    stacked = torch.arange(48.0).reshape(12, 4)
    save_file({"in_proj_weight": stacked, "out_proj.weight": torch.eye(4)}, tmp_path / "model.safetensors")
    model = tg.nn.MultiHeadAttention(4, 2, bias=False)
    tg.nn.initialize_from(model, tg.nn.read_weights(tmp_path))
    values = model.initialized().state_dict()
    np.testing.assert_array_equal(values["k.weight"], stacked[4:8].T)


def test_a_file_that_has_changed_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    save_file({"weight": torch.zeros(3, 4)}, file)
    weights = tg.nn.read_weights(file)
    save_file({"weight": torch.zeros(3, 4), "another": torch.zeros(1)}, file)
    with pytest.raises(tg.errors.InputError, match=r"model.safetensors has changed since it was read"):
        weights["weight"]
