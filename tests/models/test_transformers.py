"""Folders of transformers' models with random weights: the same results here, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_zoo import library

import tensorgrad as tg

pytestmark = pytest.mark.nightly

BOUND = 2e-6
"""Of differences, relative to the largest result."""

SMALL = {
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
YARN = {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 64}
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 24}
LANGUAGE: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama-3.1": ("Llama", {"rope_parameters": LLAMA3, "attention_bias": True, "mlp_bias": True}),
    "llama-linear": ("Llama", {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}}),
    "smollm": ("Llama", {"tie_word_embeddings": True, "rope_parameters": {"rope_type": "default", "rope_theta": 1e5}}),
    "mistral": ("Mistral", {"sliding_window": 5, "head_dim": 16}),
    "qwen2": ("Qwen2", {}),
    "qwen2-windows": ("Qwen2", {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}),
    "qwen3": ("Qwen3", {"head_dim": 16}),
    "qwen3-yarn": ("Qwen3", {"head_dim": 32, "rope_parameters": YARN}),
    "llama-yarn": (
        "Llama",
        {
            "head_dim": 32,
            "rope_parameters": {**YARN, "beta_fast": 8, "mscale": 0.7, "mscale_all_dim": 0.2, "truncate": False},
        },
    ),
    "mixtral": ("Mixtral", {"num_local_experts": 4}),
    "mixtral-windows": ("Mixtral", {"num_local_experts": 32, "sliding_window": 5}),
    "qwen2-moe": ("Qwen2Moe", {**EXPERTS, "shared_expert_intermediate_size": 40, "decoder_sparse_step": 2}),
    "qwen2-moe-windows": (
        "Qwen2Moe",
        {**EXPERTS, "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 2, "qkv_bias": False},
    ),
    "qwen3-moe": ("Qwen3Moe", {**EXPERTS, "head_dim": 16, "norm_topk_prob": True, "mlp_only_layers": [1]}),
    "qwen3-moe-windows": ("Qwen3Moe", {**EXPERTS, "use_sliding_window": True, "sliding_window": 4}),
    "gemma": ("Gemma", {"head_dim": 16}),
    "gemma2": ("Gemma2", {"head_dim": 16, "sliding_window": 5, "query_pre_attn_scalar": 24}),
}


@pytest.mark.parametrize("name", LANGUAGE)
def test_language_models(name: str, tmp_path: Path) -> None:
    kind, options = LANGUAGE[name]
    transformers = library("transformers")
    theirs = randomized(
        getattr(transformers, f"{kind}ForCausalLM")(getattr(transformers, f"{kind}Config")(**SMALL, **options))
    )
    tokens = torch.randint(0, 99, (2, 12))
    positions = torch.arange(12) + torch.tensor([[0], [5000]])
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[1, 9:] = 0
    check_both_ways(theirs, tmp_path, input_ids=tokens)
    check_both_ways(theirs, tmp_path, input_ids=tokens, attention_mask=mask, position_ids=positions)


GPT2 = {"vocab_size": 100, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32}
ENCODER = {name: value for name, value in SMALL.items() if name != "num_key_value_heads"}
DISTILLED = {"vocab_size": 100, "dim": 32, "hidden_dim": 64, "n_layers": 2, "n_heads": 4}
IMAGES = {
    **{name: value for name, value in ENCODER.items() if name != "vocab_size"},
    "image_size": [8, 12],
    "patch_size": 4,
}
OTHERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", GPT2),
    "gpt2-scaled": ("GPT2LMHeadModel", "GPT2Config", {**GPT2, "scale_attn_by_inverse_layer_idx": True, "n_inner": 24}),
    "bert": ("BertModel", "BertConfig", ENCODER),
    "bert-masked": ("BertForMaskedLM", "BertConfig", {**ENCODER, "hidden_act": "gelu_new"}),
    "bert-texts": ("BertForSequenceClassification", "BertConfig", {**ENCODER, "num_labels": 3}),
    "bert-tokens": ("BertForTokenClassification", "BertConfig", ENCODER),
    "distilbert": ("DistilBertModel", "DistilBertConfig", DISTILLED),
    "distilbert-masked": ("DistilBertForMaskedLM", "DistilBertConfig", DISTILLED),
    "distilbert-texts": ("DistilBertForSequenceClassification", "DistilBertConfig", {**DISTILLED, "num_labels": 5}),
    "vit": ("ViTModel", "ViTConfig", {**IMAGES, "qkv_bias": False}),
    "vit-classifier": ("ViTForImageClassification", "ViTConfig", {**IMAGES, "num_labels": 7}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_models(name: str, tmp_path: Path) -> None:
    kind, config, options = OTHERS[name]
    transformers = library("transformers")
    theirs = randomized(getattr(transformers, kind)(getattr(transformers, config)(**options)))
    if "ViT" in kind:
        check_both_ways(theirs, tmp_path, pixel_values=torch.randn(2, 3, 8, 12))
        return
    tokens, mask = torch.randint(0, 99, (2, 12)), torch.ones(2, 12, dtype=torch.long)
    mask[1, 9:] = 0
    types = {"token_type_ids": torch.randint(0, 2, (2, 12))} if kind.startswith("Bert") else {}
    check_both_ways(theirs, tmp_path, input_ids=tokens)
    check_both_ways(theirs, tmp_path, input_ids=tokens, attention_mask=mask, **types)


def test_gpt2_of_its_full_size(tmp_path: Path) -> None:
    """All 124 million parameters, as transformers draws them."""
    torch.manual_seed(0)
    transformers = library("transformers")
    theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval()
    check_both_ways(theirs, tmp_path, input_ids=torch.randint(0, 50257, (1, 64)))


def test_a_base_of_bf16_is_adapted_merged_and_read_by_transformers(tmp_path: Path) -> None:
    transformers = library("transformers")
    theirs = randomized(transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL)))
    theirs.bfloat16().save_pretrained(tmp_path / "theirs")
    model = tg.models.from_pretrained(tmp_path / "theirs", dtype="bf16")
    tg.nn.lora(model, rank=4)
    tokens = np.random.default_rng(0).integers(0, 99, (2, 12)).astype(np.int32)
    training = tg.compile(
        model,
        loss=lambda model, tokens: tg.cross_entropy(tg.nn.inference(model)(tokens)[:, :-1], tokens[:, 1:]),
        optimizer=tg.optim.adamw(1e-2),
        inputs={"tokens": tg.spec((2, 12), "i32")},
        device="cpu",
    )
    losses = [float(training.step(tokens=tokens)) for _ in range(20)]
    assert losses[-1] < 0.8 * losses[0]
    merged = tg.nn.merge_lora(training.model())
    tg.models.save_pretrained(merged, tmp_path / "ours")
    again = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "ours")
    assert {parameter.dtype for parameter in again.parameters()} == {torch.bfloat16}
    wide = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "ours", dtype=torch.float32).eval()
    (expected,) = results(wide, {"input_ids": torch.from_numpy(tokens)})
    assert difference(np.asarray(tg.nn.inference(merged)(tokens)), expected) < BOUND


def randomized(module: Any) -> Any:
    """Returns a module in its form for inference with weights of ordinary sizes: initial ones hide mistakes."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.2 * torch.randn_like(parameter) + (parameter.abs().max() == 1).float())
    return module.eval()


def check_both_ways(theirs: Any, folder: Path, **inputs: torch.Tensor) -> None:
    """Checks that a model that transformers wrote computes the same here, and what is written here the same there."""
    theirs.save_pretrained(folder / "theirs")
    model = tg.models.from_pretrained(folder / "theirs")
    expected = results(theirs, inputs)
    arrays = {name: tensor.numpy() for name, tensor in inputs.items()}
    actual = tg.nn.inference(model.initialized())(**arrays)
    for ours, others in zip(actual if isinstance(actual, tuple) else [actual], expected, strict=False):
        worst = difference(np.asarray(ours), others)
        print(f"largest difference, relative to the largest result: {worst:.2g}")
        assert worst < BOUND
    tg.models.save_pretrained(model.initialized(), folder / "ours")
    again = type(theirs).from_pretrained(folder / "ours").eval()
    for ours, others in zip(results(again, inputs), expected, strict=True):
        np.testing.assert_array_equal(ours, others)


def results(module: Any, inputs: Any) -> list[np.ndarray]:
    with torch.no_grad():
        computed = module(**inputs, use_cache=False) if "input_ids" in inputs else module(**inputs)
        return [tensor.numpy() for tensor in computed.to_tuple()]


def difference(actual: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(actual - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("name", [*LANGUAGE, "gpt2"])
def test_generated_tokens(name: str, tmp_path: Path) -> None:
    """Twenty of the likeliest tokens behind three prompts, the shorter ones padded on the left there."""
    transformers = library("transformers")
    kind, config, options = OTHERS[name] if name in OTHERS else (f"{LANGUAGE[name][0]}ForCausalLM", "", {})
    settings = options or {**SMALL, **LANGUAGE[name][1]}
    config = config or f"{LANGUAGE[name][0]}Config"
    theirs = randomized(getattr(transformers, kind)(getattr(transformers, config)(**settings)))
    theirs.save_pretrained(tmp_path)
    prompts = [[1, 2, 3], [7, 8, 9, 10, 11, 12, 13, 14, 15, 16], [5]]
    rows = torch.tensor([[0] * (10 - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (10 - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    theirs.generation_config.eos_token_id = None  # otherwise a text may end
    limits: dict[str, Any] = {"max_new_tokens": 20, "do_sample": False, "pad_token_id": 0}
    expected = theirs.generate(rows, attention_mask=mask, **limits)[:, 10:].numpy()
    model: Any = tg.models.from_pretrained(tmp_path).initialized()
    texts = model.generate(prompts, 20, stop=(), device="cpu")
    np.testing.assert_array_equal(np.stack(texts), expected)
