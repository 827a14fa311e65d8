"""Folders whose weights are quantized: by their formulas in NumPy, packed and in f32, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from written_codes import GROUP, Write, awq, eight_bits, four_bits, gptq
from written_folders import Folder, gpt2, llama, mixtral, tokens

import tensorgrad as tg
from tensorgrad.errors import InputError, ParameterError
from tensorgrad.nn.quantization import quantized as quantized_layers

GPTQ, BNB = {"quant_method": "gptq", "bits": 4, "group_size": GROUP}, {"quant_method": "bitsandbytes"}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": GROUP, "zero_point": True, "version": "gemm"}


@dataclass(frozen=True)
class Kind:
    """How layers are quantized, the setting that says so, and what they are here."""

    write: Write
    config: Mapping[str, Any]
    scheme: str = "int4"
    has_zeros: bool = False


KINDS: dict[str, Kind] = {
    "gptq": Kind(gptq(), GPTQ),
    "gptq with zeros": Kind(gptq(symmetric=False), GPTQ, has_zeros=True),
    "gptq version 2": Kind(gptq(symmetric=False, version=2), {**GPTQ, "checkpoint_format": "gptq_v2"}, has_zeros=True),
    "gptq of 8 bits": Kind(gptq(8), {**GPTQ, "bits": 8}, "int8"),
    "awq": Kind(awq, AWQ, has_zeros=True),
    "nf4": Kind(four_bits(), BNB, "nf4"),
    "nf4, scales quantized": Kind(four_bits(is_nested=True), BNB, "nf4"),
    "int8": Kind(eight_bits, BNB, "int8"),
}

UNPACKED: dict[str, tuple[Kind, str]] = {
    "gptq by activation": (Kind(gptq(by_activation=True), GPTQ), "its groups are not of neighboring input features"),
    "fp4": (Kind(four_bits("fp4"), BNB), "its table of codes is another one than NF4's"),
    "nf4 across outputs": (Kind(four_bits(block=32), BNB), "its blocks of 32 reach from one output into the next"),
}


def quantized(folder: Folder, kind: Kind) -> tuple[Folder, dict[str, np.ndarray]]:
    """Returns a folder with quantized layers within blocks, and the weights of these."""
    generator, weights, values = np.random.default_rng(0), dict[str, torch.Tensor](), dict[str, np.ndarray]()
    for name, tensor in folder.weights.items():
        if "layers." not in name or tensor.ndim < 2 or name.endswith("gate.weight"):
            weights[name] = tensor
            continue
        layer = kind.write(generator, *tensor.shape)
        weights |= {name.removesuffix("weight") + part: torch.tensor(array) for part, array in layer.stored.items()}
        values[name] = layer.weight
    return replace(folder, config={**folder.config, "quantization_config": kind.config}, weights=weights), values


def logits(model: Any) -> np.ndarray:
    return np.asarray(tg.nn.inference(model)(tokens()))


@pytest.mark.parametrize("name", [*KINDS, *UNPACKED])
def test_weights_in_f32(name: str, tmp_path: Path) -> None:
    """They are parameters, which are those of an ordinary folder then."""
    folder, values = quantized(llama(), KINDS[name] if name in KINDS else UNPACKED[name][0])
    model = tg.models.from_pretrained(folder.write(tmp_path / "read"), dequantize=True).initialized()
    state = model.state_dict()
    for path, value in values.items():
        np.testing.assert_allclose(state[path].T, value, rtol=1e-6, atol=1e-7)
    tg.models.save_pretrained(model, tmp_path / "written")
    again = tg.models.from_pretrained(tmp_path / "written").initialized().state_dict()
    for path in state:
        np.testing.assert_array_equal(again[path], state[path])


@pytest.mark.parametrize("name", KINDS)
def test_layers_with_codes(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    folder, values = quantized(llama(), kind)
    model = tg.models.from_pretrained(folder.write(tmp_path)).initialized()
    layers = {f"{path}.weight": layer for path, layer in quantized_layers(model)}
    assert layers.keys() == values.keys()
    for path, layer in layers.items():
        assert layer.scheme == kind.scheme and (layer.zeros is not None) == kind.has_zeros
        words = np.asarray(layer.packed)
        assert words.dtype == np.uint32
        assert words.nbytes == values[path].size * (1 if kind.scheme == "int8" else 0.5)
        np.testing.assert_allclose(np.asarray(layer.weight).T, values[path], rtol=1e-6, atol=1e-7)


def test_a_model_with_codes_computes_as_one_without(tmp_path: Path) -> None:
    place = quantized(llama(), KINDS["awq"])[0].write(tmp_path)
    model = tg.models.from_pretrained(place).initialized()
    plain = tg.models.from_pretrained(place, dequantize=True).initialized()
    np.testing.assert_allclose(logits(model), logits(plain), rtol=1e-5, atol=1e-5)
    with pytest.raises(ParameterError, match=r"tg\.nn\.dequantize\(model\) is one without"):
        tg.models.save_pretrained(model, place)
    np.testing.assert_array_equal(logits(tg.nn.dequantize(model)), logits(plain))


@pytest.mark.parametrize("name", UNPACKED)
def test_codes_that_no_layer_has(name: str, tmp_path: Path) -> None:
    kind, reason = UNPACKED[name]
    place = quantized(llama(), kind)[0].write(tmp_path)
    with pytest.raises(InputError, match=f"_proj.weight can't stay quantized: {reason}; dequantize=True reads"):
        tg.models.from_pretrained(place)


def test_experts_in_f32(tmp_path: Path) -> None:
    folder, values = quantized(mixtral(), KINDS["awq"])
    place = folder.write(tmp_path)
    with pytest.raises(
        InputError, match=r"experts\.0\.w1\.weight can't stay quantized: it is not the weight of a linear"
    ):
        tg.models.from_pretrained(place)
    model = tg.models.from_pretrained(place, dequantize=True).initialized()
    stacked = model.state_dict()["model.layers.1.block_sparse_moe.experts.gate_proj"]
    expected = values["model.layers.1.block_sparse_moe.experts.3.w1.weight"]
    np.testing.assert_allclose(stacked[3].T, expected, rtol=1e-6, atol=1e-7)


def test_adapters_are_trained_on_top(tmp_path: Path) -> None:
    """The codes with their zeros are buffers, which have no derivatives, and which a checkpoint holds."""
    declared = tg.models.from_pretrained(quantized(llama(), KINDS["awq"])[0].write(tmp_path))
    tg.nn.lora(declared, rank=2, only="*.0.self_attn.v_proj")
    model = declared.initialized()
    gradients = tg.grad(lambda model: tg.sum(model(tokens()) ** 2))(model).named_parameters()
    own = [path for path in gradients if "layers.0.self_attn.v_proj" in path]
    assert len(own) == 2 and np.asarray(gradients[own[1]]).any()
    for part in ("packed", "scales", "zeros"):
        path = f"model.layers.0.self_attn.v_proj.{part}"
        assert path in model.state_dict() and path not in gradients


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"quant_method": "hqq", "bits": 4}, r"quantized by 'hqq', .* what is supported: awq, bitsandbytes, gptq"),
        ({"bits": 4}, "quantized by None"),
        ("gptq", "quantized by None, 'gptq'"),
        ({**GPTQ, "bits": 3}, "quantized by gptq with bits 3; what is supported: 4, 8"),
        ({**GPTQ, "checkpoint_format": "marlin"}, "gptq with checkpoint_format 'marlin'"),
        ({**AWQ, "version": "gemv"}, "awq with version 'gemv'; what is supported: gemm, GEMM"),
    ],
)
def test_methods_that_are_not_supported(config: Any, message: str, tmp_path: Path) -> None:
    place = llama().write(tmp_path, quantization_config=config)
    with pytest.raises(InputError, match=rf"test_quantized_folders\.py:\d+: .*{message}"):
        tg.models.from_pretrained(place)


def test_what_a_quantized_folder_lacks(tmp_path: Path) -> None:
    folder, _ = quantized(llama(), KINDS["gptq"])
    weights = {name: tensor for name, tensor in folder.weights.items() if "layers.1.mlp.up_proj.scales" not in name}
    with pytest.raises(InputError, match=r"has .*layers\.1\.mlp\.up_proj\.qweight, but lacks .*up_proj\.scales"):
        tg.models.from_pretrained(replace(folder, weights=weights).write(tmp_path))
    for name, part in (("gptq", "g_idx"), ("awq", "qzeros"), ("nf4", "absmax"), ("int8", "SCB")):
        folder, _ = quantized(llama(), KINDS[name])
        broken = {name: tensor[..., 1:] if name.endswith(part) else tensor for name, tensor in folder.weights.items()}
        with pytest.raises(InputError, match=rf"{part} of .*_proj is \[.*\], expected \d+ elements"):
            tg.models.from_pretrained(replace(folder, weights=broken).write(tmp_path))
    for name, mark, message in (
        ("gptq", "g_idx", r"scales of .*_proj is"),
        ("nf4", "proj.weight", r"but lacks .*weight"),
    ):
        folder, _ = quantized(llama(), KINDS[name])
        kept = {path: tensor for path, tensor in folder.weights.items() if not path.endswith(mark)}
        config = {**KINDS[name].config, "group_size": 1 << 10}
        with pytest.raises(InputError, match=message):
            tg.models.from_pretrained(replace(folder, weights=kept).write(tmp_path, quantization_config=config))
    folder, _ = quantized(llama(), KINDS["int8"])
    scales = [path for path in folder.weights if path.endswith("SCB")]
    permuted = {path.replace("SCB", "weight_format"): torch.tensor(2, dtype=torch.uint8) for path in scales}
    with pytest.raises(InputError, match=r"weight_format is 2; what is supported: 0"):
        tg.models.from_pretrained(replace(folder, weights={**folder.weights, **permuted}).write(tmp_path))
    folder, _ = quantized(llama(), KINDS["nf4"])
    broken = {name: tensor[:-1] if "quant_state" in name else tensor for name, tensor in folder.weights.items()}
    with pytest.raises(InputError, match=r"the state of .*_proj\.weight is not one of bitsandbytes'"):
        tg.models.from_pretrained(replace(folder, weights=broken).write(tmp_path))
    with pytest.raises(
        InputError, match="GPT2LMHeadModel has quantized weights, which are not supported of this model"
    ):
        tg.models.from_pretrained(gpt2().write(tmp_path, quantization_config=GPTQ))


def test_groups_follow_from_the_settings_without_g_idx(tmp_path: Path) -> None:
    folder, values = quantized(llama(), KINDS["gptq"])
    weights = {name: tensor for name, tensor in folder.weights.items() if "g_idx" not in name}
    state = tg.models.from_pretrained(replace(folder, weights=weights).write(tmp_path), dequantize=True).initialized()
    for path, value in values.items():
        np.testing.assert_allclose(state.state_dict()[path].T, value, rtol=1e-6, atol=1e-7)
