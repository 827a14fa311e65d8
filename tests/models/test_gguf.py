"""GGUF files: read by `gguf`, run in NumPy as llama.cpp does, and rounded within the bounds of their types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf_forward import File
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch_zoo import library

import tensorgrad as tg
from tensorgrad.errors import InputError, OptionError, ParameterError
from tensorgrad.models import gguf_files

untyped: Any = tg

SIZES: dict[str, Any] = {
    "vocab_size": 40,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
GEMMA = {"hidden_act": "gelu_pytorch_tanh", "tie_word_embeddings": True, "head_dim": 32}
CAPS = {"query_pre_attn_scalar": 32, "attn_logit_softcapping": 5.0, "final_logit_softcapping": 7.0}
EXPERTS = {"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 64}
KINDS: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama 3.1": {"rope_scaling": LLAMA3, "rope_theta": 500.0},
    "llama, linear": {"rope_scaling": {"rope_type": "linear", "factor": 3.0}, "attention_bias": True, "mlp_bias": True},
    "mistral": {"model_type": "mistral", "sliding_window": None},
    "qwen2": {"model_type": "qwen2", "tie_word_embeddings": True},
    "qwen3": {"model_type": "qwen3", "head_dim": 32},
    "mixtral": {"model_type": "mixtral", "num_experts": 4, "num_experts_per_tok": 2},
    "qwen2_moe": {"model_type": "qwen2_moe", "qkv_bias": True, "shared_expert_intermediate_size": 32, **EXPERTS},
    "qwen3_moe": {"model_type": "qwen3_moe", "norm_topk_prob": True, "head_dim": 32, **EXPERTS},
    "gemma": {"model_type": "gemma", **GEMMA},
    "gemma2": {"model_type": "gemma2", "sliding_window": 4, **GEMMA, **CAPS},
}
GPT2 = {"vocab_size": 40, "n_positions": 16, "n_embd": 64, "n_layer": 2, "n_head": 4}


def randomized(declared: Any) -> Any:
    """Returns a model whose parameters all have random values, norms and biases too."""
    generator = np.random.default_rng(0)
    values = {
        path: (generator.normal(size=leaf.shape) * 0.3).astype(np.float32)
        for path, leaf in declared.named_parameters().items()
    }
    return declared.initialized(0, values)


def llama(**options: Any) -> Any:
    return randomized(tg.models.LlamaForCausalLM(tg.models.LlamaOptions(**{**SIZES, **options})))


def gpt2(**options: Any) -> Any:
    return randomized(tg.models.GPT2LMHeadModel(tg.models.GPT2Options(**{**GPT2, **options})))


def made(name: str) -> Any:
    return gpt2() if name == "gpt2" else llama(**KINDS[name])


@pytest.mark.parametrize("name", [*KINDS, "gpt2"])
def test_the_file_computes_what_the_model_does(name: str, tmp_path: Path) -> None:
    model = made(name)
    tg.models.save_gguf(model, tmp_path / "model.gguf", "f32")
    file = File(tmp_path / "model.gguf")
    assert set(file.types.values()) == {"F32"} and [path.name for path in tmp_path.iterdir()] == ["model.gguf"]
    tokens = np.random.default_rng(1).integers(0, 40, 11)
    expected = np.asarray(tg.nn.inference(model)(tokens[None]))[0]
    np.testing.assert_allclose(file.logits(tokens), expected, atol=2e-4 * np.abs(expected).max())


READ_BY_TRANSFORMERS: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {},
    "qwen2": {},
    "qwen3": {"head_dim": 128},
    "qwen2_moe": {"moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632},
    "gemma2": {
        "head_dim": 256,
        "query_pre_attn_scalar": 256,
        "sliding_window": 4096,
        "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
    },
    "gpt2": {"n_positions": 1024},
}
"""The models that transformers reads, and the settings of these that it doesn't read, but takes for granted.

It reads no Gemma and no Mixtral, and neither the scaling of rotary positions nor biases of a Llama. It doesn't divide
the weights of a Qwen3's experts by their sum, as llama.cpp does.
"""


@pytest.mark.nightly
@pytest.mark.parametrize("name", READ_BY_TRANSFORMERS)
def test_transformers_reads_the_file(name: str, tmp_path: Path) -> None:
    causal = library("transformers").AutoModelForCausalLM
    size = tokenizer(tmp_path).get_vocab_size()
    (tmp_path / "config.json").unlink()
    options = {**KINDS.get(name, {}), **READ_BY_TRANSFORMERS[name], "vocab_size": size}
    model = gpt2(**options) if name == "gpt2" else llama(**options)
    tg.models.save_gguf(model, tmp_path / "model.gguf", "f32", tokenizer=tmp_path)
    read = causal.from_pretrained(tmp_path, gguf_file="model.gguf", dtype=torch.float32).eval()
    tokens = np.random.default_rng(1).integers(0, size, (1, 11))
    expected = np.asarray(tg.nn.inference(model)(tokens))
    actual = read(torch.tensor(tokens)).logits.detach().numpy()
    np.testing.assert_allclose(actual, expected, atol=5e-6 * np.abs(expected).max())


@pytest.mark.parametrize("name", ["llama", "qwen2_moe", "gemma2", "gpt2"])
@pytest.mark.parametrize("dtype", ["f16", "q8_0"])
def test_weights_are_within_the_bounds_of_their_type(name: str, dtype: Any, tmp_path: Path) -> None:
    """That of f16 is half of a last place, that of q8_0 half a step, 1/127 of the largest of 32, rounded to f16."""
    model = made(name)
    for each in ("f32", dtype):
        tg.models.save_gguf(model, tmp_path / f"{each}.gguf", each)
    exact, rounded = File(tmp_path / "f32.gguf"), File(tmp_path / f"{dtype}.gguf")
    assert exact.types.keys() == rounded.types.keys()
    for tensor, value in exact.tensors.items():
        kind, actual = rounded.types[tensor], rounded.tensors[tensor]
        if value.ndim == 1 or "norm" in tensor or "position" in tensor or "gate_inp" in tensor:
            assert kind == "F32" and np.array_equal(actual, value)
        elif dtype == "f16":
            assert kind == "F16" and np.array_equal(actual, value.astype(np.float16))
        else:
            blocks, errors = (array.reshape(-1, 32) for array in (value, actual - value))
            steps = np.abs(blocks).max(1, keepdims=True) / 127
            assert kind == "Q8_0" and (np.abs(errors) <= steps * (0.5 + 127.5 / 2**11)).all() and errors.any()
    assert rounded.fields["general.file_type"] == {"f16": 1, "q8_0": 7}[dtype]


def test_rows_that_no_blocks_divide(tmp_path: Path) -> None:
    tg.models.save_gguf(llama(intermediate_size=40), tmp_path / "model.gguf", "q8_0")
    types = File(tmp_path / "model.gguf").types
    assert types["blk.0.ffn_down.weight"] == "F16" and types["blk.0.ffn_up.weight"] == "Q8_0"


def test_a_training_writes_its_merged_model(tmp_path: Path) -> None:
    model = llama()
    tg.nn.lora(model, rank=2, only="*.q_proj")
    adapted = model.initialized(1)
    with pytest.raises(ParameterError, match=r"save_gguf: the model has adapters: tg\.nn\.merge_lora\(model\)"):
        tg.models.save_gguf(adapted, tmp_path / "model.gguf")
    tg.models.save_gguf(tg.nn.merge_lora(adapted), tmp_path / "model.gguf")
    declared = tg.models.LlamaForCausalLM(tg.models.LlamaOptions(**SIZES))
    tg.models.save_gguf(declared, tmp_path / "values.gguf", values=llama().named_parameters())
    assert (tmp_path / "values.gguf").read_bytes() == (tmp_path / "model.gguf").read_bytes()


def test_windows_bound_the_context(tmp_path: Path) -> None:
    """llama.cpp attends to all keys where these models slide, which is right within a window."""
    options = {"model_type": "mistral", "sliding_window": 12, "max_position_embeddings": 100}
    for name, settings, length in (("window", options, 12), ("none", {**options, "sliding_window": None}, 100)):
        tg.models.save_gguf(llama(**settings), tmp_path / f"{name}.gguf")
        assert File(tmp_path / f"{name}.gguf").setting("context_length") == length


def tokenizer(folder: Path, splitter: Any = None) -> Any:
    """Writes a tokenizer of pairs of bytes, with two added tokens."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False) if splitter is None else splitter
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<|end|>"], initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(["to be or not to be, that is the question"] * 3, trainer)
    made.add_tokens(["<note>"])
    made.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"eos_token_id": 0}))
    return made


def test_tokenizers(tmp_path: Path) -> None:
    own = tokenizer(tmp_path)
    size = own.get_vocab_size() + 2
    tg.models.save_gguf(llama(vocab_size=size), tmp_path / "model.gguf", tokenizer=tmp_path)
    fields = File(tmp_path / "model.gguf").fields
    tokens = fields["tokenizer.ggml.tokens"]
    assert tokens == [*(own.id_to_token(number) for number in range(size - 2)), f"[PAD{size - 2}]", f"[PAD{size - 1}]"]
    types = dict(zip(tokens, fields["tokenizer.ggml.token_type"], strict=True))
    assert (types["<|end|>"], types["<note>"], types["t"], types[tokens[-1]]) == (3, 4, 1, 5)
    assert fields["tokenizer.ggml.model"] == "gpt2" and fields["tokenizer.ggml.pre"] == "gpt-2"
    assert fields["tokenizer.ggml.eos_token_id"] == 0
    merges = json.loads((tmp_path / "tokenizer.json").read_text())["model"]["merges"]
    assert fields["tokenizer.ggml.merges"] == [" ".join(pair) for pair in merges]
    with pytest.raises(InputError, match=r"has the token \d+, the model 40 tokens"):
        tg.models.save_gguf(llama(), tmp_path / "other.gguf", tokenizer=tmp_path)
    assert not (tmp_path / "other.gguf").exists()


def test_how_texts_are_split(tmp_path: Path) -> None:
    pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for regex, options, expected in (
        (pattern + r"|\s+(?!\S)|\s+", {}, "llama-bpe"),
        ((pattern + r"|\s+(?!\S)|\s+").replace("{1,3}", ""), {}, "qwen2"),
        (pattern, {"split": "smollm"}, "smollm"),
    ):
        split = pre_tokenizers.Split(Regex(regex), "isolated")
        own = tokenizer(tmp_path, pre_tokenizers.Sequence([split, byte_level]))
        model = llama(vocab_size=own.get_vocab_size())
        untyped.models.save_gguf(model, tmp_path / "model.gguf", tokenizer=tmp_path, **options)
        assert File(tmp_path / "model.gguf").fields["tokenizer.ggml.pre"] == expected
    with pytest.raises(InputError, match=r"splits texts has no name here: pass llama\.cpp's as split="):
        tg.models.save_gguf(model, tmp_path / "model.gguf", tokenizer=tmp_path)
    tokenizer(tmp_path, pre_tokenizers.ByteLevel(add_prefix_space=True))
    with pytest.raises(InputError, match="splits texts has no name here"):
        tg.models.save_gguf(model, tmp_path / "model.gguf", tokenizer=tmp_path)
    tokenizer(tmp_path, pre_tokenizers.Whitespace())
    with pytest.raises(InputError, match=r"is a BPE that splits by Whitespace; save_gguf writes BPE of bytes"):
        tg.models.save_gguf(model, tmp_path / "model.gguf", tokenizer=tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match="holds no tokenizer"):
        tg.models.save_gguf(model, tmp_path / "model.gguf", tokenizer=tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden_act": "gelu"}, "no llama with hidden_act = 'gelu'"),
        ({"model_type": "qwen3", "attention_bias": True}, "no qwen3 with attention_bias = True"),
        ({"model_type": "qwen2", "rope_scaling": LLAMA3}, "no qwen2 with rope_scaling of llama3"),
        ({**KINDS["qwen3_moe"], "mlp_only_layers": [1]}, "no qwen3_moe with layers without experts"),
        ({**KINDS["qwen2_moe"], "norm_topk_prob": True}, "no qwen2_moe with norm_topk_prob = True"),
        (
            {**KINDS["qwen2_moe"], "qkv_bias": False, "shared_expert_intermediate_size": 0},
            "no qwen2_moe with no shared expert, qkv_bias = False",
        ),
        ({**KINDS["qwen3_moe"], "norm_topk_prob": False}, "no qwen3_moe with norm_topk_prob = False"),
        ({"model_type": "gemma", **GEMMA, "tie_word_embeddings": False}, "no gemma with tie_word_embeddings = False"),
        (
            {"model_type": "gemma2", "sliding_window": 4, **GEMMA, **CAPS, "layer_types": ["sliding_attention"] * 3},
            "no gemma2 with other layers that slide than every second one",
        ),
        (
            {"model_type": "gemma2", "sliding_window": 4, **GEMMA, **CAPS, "query_pre_attn_scalar": 5.0},
            r"no gemma2 with query_pre_attn_scalar = 5\.0",
        ),
    ],
)
def test_settings_that_llama_cpp_lacks(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        tg.models.save_gguf(llama(**options), tmp_path / "model.gguf")
    assert not list(tmp_path.iterdir())


def test_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.gguf"
    with pytest.raises(OptionError, match="dtype must be one of f32, f16, q8_0, got 'q4'"):
        untyped.models.save_gguf(llama(), path, "q4")
    with pytest.raises(ParameterError, match=r"expected a language model of tg\.models, got Linear"):
        tg.models.save_gguf(tg.nn.Linear(3, 3).initialized(0), path)
    with pytest.raises(ParameterError, match="save_gguf: the model is declared"):
        tg.models.save_gguf(tg.models.LlamaForCausalLM(tg.models.LlamaOptions(**SIZES)), path)
    with pytest.raises(InputError, match="no gpt2 with activation_function = 'relu', scale_attn_weights = False"):
        tg.models.save_gguf(gpt2(activation_function="relu", scale_attn_weights=False), path)
    with pytest.raises(FileNotFoundError):
        tg.models.save_gguf(llama(), tmp_path / "none" / "model.gguf")
    monkeypatch.setattr(gguf_files, "find_spec", lambda name: None)
    with pytest.raises(OptionError, match="save_gguf needs the package gguf: pip install gguf"):
        tg.models.save_gguf(llama(), path)
    assert not list(tmp_path.iterdir())
