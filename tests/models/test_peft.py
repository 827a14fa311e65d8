"""Adapters beside PEFT's: its folders are read, ours are read by it, and training takes the same course."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_transformers import ENCODER, GPT2, SMALL, randomized
from torch_zoo import library

import tensorgrad as tg

pytestmark = pytest.mark.nightly

MODELS: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "llama": ("LlamaForCausalLM", SMALL, ["q_proj", "v_proj", "down_proj"]),
    "qwen": ("Qwen2ForCausalLM", SMALL, ["q_proj", "k_proj", "gate_proj"]),
    "gpt2": ("GPT2LMHeadModel", GPT2, ["c_attn", "mlp.c_proj"]),
    "bert": ("BertForMaskedLM", ENCODER, ["query", "value", "attention.output.dense"]),
}
"""The class, its settings, and the ends of the names of the layers to adapt."""


def adapted(name: str, folder: Path, **options: Any) -> tuple[Any, tg.nn.Module]:
    """Returns PEFT's model, and ours with the same weights and adapters."""
    transformers, peft = library("transformers"), library("peft")
    kind, settings, layers = MODELS[name]
    config = getattr(transformers, kind.partition("For")[0].removesuffix("LMHeadModel") + "Config")
    no_dropout = {key: 0.0 for key in config(**settings).to_dict() if "drop" in key or "pdrop" in key}
    base = randomized(getattr(transformers, kind)(config(**settings, **no_dropout)))
    base.save_pretrained(folder / "base")
    lora = peft.LoraConfig(r=4, lora_alpha=8, target_modules=layers, fan_in_fan_out=name == "gpt2", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PEFT asks for an attribute that transformers has renamed
        theirs = peft.get_peft_model(base, lora)
    torch.manual_seed(1)
    with torch.no_grad():
        for path, parameter in theirs.named_parameters():
            if "lora_B" in path:
                parameter.copy_(0.1 * torch.randn_like(parameter))
    theirs.save_pretrained(folder / "adapter")
    ours = tg.models.from_pretrained(folder / "base")
    tg.nn.load_lora(ours, folder / "adapter")
    return theirs, ours


@pytest.mark.parametrize(
    "options",
    [{}, {"use_dora": True}, {"use_rslora": True, "alpha_pattern": {r".*\.1\..*": 3}}, {"lora_dropout": 0.25}],
    ids=str,
)
@pytest.mark.parametrize("name", MODELS)
def test_folders_both_ways(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    theirs, ours = adapted(name, tmp_path, **options)
    tokens = torch.randint(0, 99, (2, 12), generator=torch.Generator().manual_seed(2))
    expected = theirs.eval()(input_ids=tokens).logits.detach().numpy()
    model = ours.initialized()
    bound = 5e-6 * np.abs(expected).max()
    for each in (model, tg.nn.merge_lora(model)):
        np.testing.assert_allclose(np.asarray(tg.nn.inference(each)(tokens.numpy())), expected, atol=bound)
    tg.nn.save_lora(model, tmp_path / "ours")
    again = type(theirs.get_base_model()).from_pretrained(tmp_path / "base")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        read = library("peft").PeftModel.from_pretrained(again, tmp_path / "ours").eval()
    np.testing.assert_allclose(read(input_ids=tokens).logits.detach().numpy(), expected, atol=bound)
    assert read.peft_config["default"].lora_dropout == options.get("lora_dropout", 0)


@pytest.mark.parametrize("options", [{}, {"use_dora": True}], ids=["lora", "dora"])
@pytest.mark.parametrize("name", MODELS)
def test_a_hundred_losses(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    theirs, ours = adapted(name, tmp_path, **options)
    tokens = np.random.default_rng(3).integers(0, 99, (4, 12)).astype(np.int32)
    training = tg.compile(
        ours,
        loss=lambda model, tokens: tg.cross_entropy(tg.nn.inference(model)(tokens)[:, :-1], tokens[:, 1:]),
        optimizer=tg.optim.adamw(3e-3, weight_decay=0.01),
        inputs={"tokens": tg.like(tokens)},
        device="cpu",
    )
    trained = [parameter for parameter in theirs.parameters() if parameter.requires_grad]
    assert sum(parameter.numel() for parameter in trained) == sum(
        value.size for path, value in training.parameters().items() if ".adapters." in path
    )
    optimizer = torch.optim.AdamW(trained, 3e-3, weight_decay=0.01)
    wide = torch.tensor(tokens, dtype=torch.long)
    theirs.eval()
    losses = []
    for _ in range(100):
        optimizer.zero_grad()
        logits = theirs(input_ids=wide).logits[:, :-1]
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), wide[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    np.testing.assert_allclose([float(training.step(tokens=tokens)) for _ in range(100)], losses, rtol=1e-3)
    assert losses[-1] < 0.9 * losses[0]
