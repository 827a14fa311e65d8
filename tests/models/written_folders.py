"""Folders as Hugging Face's libraries write them, by hand, and what their models compute, by PyTorch's own layers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

VOCABULARY, WIDTH, INNER, LAYERS, HEADS = 50, 16, 24, 2, 4

BERT_NAMES = {
    "in_proj": "attention.self.{query,key,value}",
    "self_attn.out_proj": "attention.output.dense",
    "linear1": "intermediate.dense",
    "linear2": "output.dense",
    "norm1": "attention.output.LayerNorm",
    "norm2": "output.LayerNorm",
}
DISTILBERT_NAMES = {
    "in_proj": "attention.{q_lin,k_lin,v_lin}",
    "self_attn.out_proj": "attention.out_lin",
    "linear1": "ffn.lin1",
    "linear2": "ffn.lin2",
    "norm1": "sa_layer_norm",
    "norm2": "output_layer_norm",
}
VIT_NAMES = {
    "in_proj": "attention.attention.{query,key,value}",
    "self_attn.out_proj": "attention.output.dense",
    "linear1": "intermediate.dense",
    "linear2": "output.dense",
    "norm1": "layernorm_before",
    "norm2": "layernorm_after",
}
GPT2_NAMES = {
    "in_proj": "attn.c_attn",
    "self_attn.out_proj": "attn.c_proj",
    "linear1": "mlp.c_fc",
    "linear2": "mlp.c_proj",
    "norm1": "ln_1",
    "norm2": "ln_2",
}


@dataclass(frozen=True)
class Folder:
    """What a folder holds, and a function of the model's arguments that computes its results.

    Attributes:
        config: The settings.
        weights: Tensors by name.
        expected: PyTorch's results for tensors.
    """

    config: Mapping[str, Any]
    weights: Mapping[str, torch.Tensor]
    expected: Callable[..., torch.Tensor]

    def write(self, place: Path, **settings: Any) -> Path:
        """Writes the folder, with other settings."""
        place.mkdir(exist_ok=True)
        (place / "config.json").write_text(json.dumps({**self.config, **settings}))
        tensors = {name: tensor.contiguous() for name, tensor in self.weights.items()}
        save_file(tensors, place / "model.safetensors", metadata={"format": "pt"})
        return place


def drawn(*shape: int, scale: float = 0.3) -> torch.Tensor:
    return scale * torch.randn(*shape)


def tokens() -> np.ndarray:
    return np.random.default_rng(1).integers(0, VOCABULARY, (2, 7)).astype(np.int32)


def images() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(2, 3, 8, 8)).astype(np.float32)


def layers(names: Mapping[str, str], prefix: str, **options: Any) -> tuple[list[Any], dict[str, torch.Tensor]]:
    """Returns PyTorch's encoder layers with random weights, and these under other names."""
    blocks = [nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, 0.0, batch_first=True, **options) for _ in range(LAYERS)]
    weights: dict[str, torch.Tensor] = {}
    for number, block in enumerate(blocks):
        for name, parameter in block.eval().named_parameters():
            parameter.data = drawn(*parameter.shape) + (1 if name in ("norm1.weight", "norm2.weight") else 0)
            module, _, kind = name.replace("in_proj_", "in_proj.").removeprefix("self_attn.in_").rpartition(".")
            stored = parameter.detach()
            target = names[{"proj": "in_proj"}.get(module, module)]
            if "{" in target:
                before, _, parts = target.partition("{")
                for part, piece in zip(parts.rstrip("}").split(","), stored.chunk(3), strict=True):
                    weights[f"{prefix}.{number}.{before}{part}.{kind}"] = piece
            else:
                is_turned = names is GPT2_NAMES and stored.ndim == 2
                weights[f"{prefix}.{number}.{target}.{kind}"] = stored.T if is_turned else stored
    return blocks, weights


def run(blocks: list[Any], x: torch.Tensor, mask: torch.Tensor | None, causal: bool = False) -> torch.Tensor:
    """Applies layers in order, with a mask `[batch, length]` that is 0 for padding."""
    padding = None if mask is None else mask == 0
    ahead = nn.Transformer.generate_square_subsequent_mask(x.shape[1]) < 0 if causal else None
    for block in blocks:
        x = block(x, ahead, padding)
    return x


def norm(x: torch.Tensor, weights: Mapping[str, torch.Tensor], name: str, eps: float) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"], eps)


def normed(weights: dict[str, torch.Tensor], *names: str) -> None:
    """Adds weights of layer norms."""
    for name in names:
        weights[f"{name}.weight"], weights[f"{name}.bias"] = 1 + drawn(WIDTH), drawn(WIDTH)


def dense(x: torch.Tensor, weights: Mapping[str, torch.Tensor], name: str) -> torch.Tensor:
    return F.linear(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))


def gpt2() -> Folder:
    """GPT-2, under the names of its original files: without a prefix, and with masks."""
    torch.manual_seed(0)
    blocks, weights = layers(
        GPT2_NAMES, "h", norm_first=True, activation=lambda x: F.gelu(x, approximate="tanh"), layer_norm_eps=1e-5
    )
    weights |= {"wte.weight": drawn(VOCABULARY, WIDTH), "wpe.weight": drawn(8, WIDTH)}
    normed(weights, "ln_f")
    own = dict(weights)
    weights |= {f"h.{number}.attn.bias": torch.tril(torch.ones(1, 1, 8, 8)) for number in range(LAYERS)}

    def expected(input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        x = own["wte.weight"][input_ids] + own["wpe.weight"][: input_ids.shape[1]]
        return norm(run(blocks, x, attention_mask, causal=True), own, "ln_f", 1e-5) @ own["wte.weight"].T

    config: dict[str, Any] = {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": VOCABULARY,
        "n_positions": 8,
        "n_ctx": 8,
        "n_embd": WIDTH,
        "n_layer": LAYERS,
        "n_head": HEADS,
        "n_inner": INNER,
        "resid_pdrop": 0.1,
        "bos_token_id": 49,
        "task_specific_params": {"text-generation": {"do_sample": True}},
    }
    return Folder(config, weights, expected)


def bert() -> Folder:
    """BERT that predicts masked tokens, as its original files have it: with old names, and with another head."""
    torch.manual_seed(0)
    blocks, weights = layers(BERT_NAMES, "bert.encoder.layer", activation=F.gelu, layer_norm_eps=1e-12)
    table, places, types = (f"bert.embeddings.{name}_embeddings.weight" for name in ("word", "position", "token_type"))
    weights |= {table: drawn(VOCABULARY, WIDTH), places: drawn(8, WIDTH), types: drawn(2, WIDTH)}
    weights |= {"cls.predictions.bias": drawn(VOCABULARY)}
    weights |= {"cls.predictions.transform.dense.weight": drawn(WIDTH, WIDTH)}
    weights |= {"cls.predictions.transform.dense.bias": drawn(WIDTH)}
    normed(weights, "bert.embeddings.LayerNorm", "cls.predictions.transform.LayerNorm")

    def expected(
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
    ) -> torch.Tensor:
        kinds = weights[types][torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids]
        x = weights[table][input_ids] + weights[places][: input_ids.shape[1]] + kinds
        x = run(blocks, norm(x, weights, "bert.embeddings.LayerNorm", 1e-12), attention_mask)
        x = F.gelu(dense(x, weights, "cls.predictions.transform.dense"))
        x = norm(x, weights, "cls.predictions.transform.LayerNorm", 1e-12)
        return x @ weights[table].T + weights["cls.predictions.bias"]

    config: dict[str, Any] = {
        "model_type": "bert",
        "architectures": ["BertForMaskedLM"],
        "vocab_size": VOCABULARY,
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": INNER,
        "max_position_embeddings": 8,
        "type_vocab_size": 2,
    }
    old = {
        name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): w for name, w in weights.items()
    }
    others = {"bert.pooler.dense.weight": drawn(WIDTH, WIDTH), "bert.pooler.dense.bias": drawn(WIDTH)}
    others |= {"cls.seq_relationship.weight": drawn(2, WIDTH), "cls.predictions.decoder.weight": weights[table].clone()}
    return Folder(config, {**old, **others}, expected)


def distilbert() -> Folder:
    """DistilBERT that classifies texts."""
    torch.manual_seed(0)
    blocks, weights = layers(DISTILBERT_NAMES, "distilbert.transformer.layer", activation=F.gelu, layer_norm_eps=1e-12)
    table, places = (f"distilbert.embeddings.{name}_embeddings.weight" for name in ("word", "position"))
    weights |= {table: drawn(VOCABULARY, WIDTH), places: drawn(8, WIDTH)}
    weights |= {"pre_classifier.weight": drawn(WIDTH, WIDTH), "pre_classifier.bias": drawn(WIDTH)}
    weights |= {"classifier.weight": drawn(3, WIDTH), "classifier.bias": drawn(3)}
    normed(weights, "distilbert.embeddings.LayerNorm")

    def expected(input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        x = weights[table][input_ids] + weights[places][: input_ids.shape[1]]
        x = run(blocks, norm(x, weights, "distilbert.embeddings.LayerNorm", 1e-12), attention_mask)[:, 0]
        return dense(F.relu(dense(x, weights, "pre_classifier")), weights, "classifier")

    config: dict[str, Any] = {
        "model_type": "distilbert",
        "architectures": ["DistilBertForSequenceClassification"],
        "vocab_size": VOCABULARY,
        "dim": WIDTH,
        "hidden_dim": INNER,
        "n_layers": LAYERS,
        "n_heads": HEADS,
        "max_position_embeddings": 8,
        "id2label": {"0": "bad", "1": "fair", "2": "good"},
        "tie_weights_": True,
    }
    return Folder(config, weights, expected)


def vit() -> Folder:
    """A Vision Transformer that classifies images."""
    torch.manual_seed(0)
    blocks, weights = layers(VIT_NAMES, "vit.encoder.layer", norm_first=True, activation=F.gelu, layer_norm_eps=1e-12)
    start = "vit.embeddings"
    weights |= {f"{start}.cls_token": drawn(1, 1, WIDTH), f"{start}.position_embeddings": drawn(1, 5, WIDTH)}
    weights |= {f"{start}.patch_embeddings.projection.weight": drawn(WIDTH, 3, 4, 4)}
    weights |= {f"{start}.patch_embeddings.projection.bias": drawn(WIDTH)}
    weights |= {"classifier.weight": drawn(3, WIDTH), "classifier.bias": drawn(3)}
    normed(weights, "vit.layernorm")

    def expected(pixel_values: torch.Tensor) -> torch.Tensor:
        kernel, bias = (weights[f"{start}.patch_embeddings.projection.{kind}"] for kind in ("weight", "bias"))
        patches = F.conv2d(pixel_values, kernel, bias, stride=4).flatten(2).transpose(1, 2)
        first = weights[f"{start}.cls_token"].expand(len(patches), 1, WIDTH)
        x = run(blocks, torch.cat([first, patches], 1) + weights[f"{start}.position_embeddings"], None)
        return dense(norm(x, weights, "vit.layernorm", 1e-12)[:, 0], weights, "classifier")

    config: dict[str, Any] = {
        "model_type": "vit",
        "architectures": ["ViTForImageClassification"],
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": INNER,
        "image_size": 8,
        "patch_size": 4,
        "num_channels": 3,
        "layer_norm_eps": 1e-12,
        "label2id": {"a": 0, "b": 1, "c": 2},
        "id2label": {"0": "a", "1": "b", "2": "c"},
        "hidden_act": "gelu",
        "qkv_bias": True,
    }
    return Folder(config, weights, expected)


def gated(x: torch.Tensor, weights: Mapping[str, torch.Tensor], names: Sequence[str]) -> torch.Tensor:
    """Applies a gated feed-forward network, given the names of its three layers."""
    gate, up, down = names
    return dense(F.silu(dense(x, weights, gate)) * dense(x, weights, up), weights, down)


MLP = [f"mlp.{name}_proj" for name in ("gate", "up", "down")]


def llama(
    kv_heads: int = 2,
    mlp: Mapping[str, tuple[int, int]] | None = None,
    apply_mlp: Callable[..., torch.Tensor] | None = None,
    **settings: Any,
) -> Folder:
    """A Llama with shared heads of keys, written with PyTorch's functions.

    Args:
        kv_heads: The heads of keys.
        mlp: The shapes of the weights of a block's feed-forward network, if it is another one.
        apply_mlp: Applies it, given a vector for each token, weights, and the path of the block.
        settings: Other settings.
    """
    torch.manual_seed(0)
    size = WIDTH // HEADS
    weights = {"model.embed_tokens.weight": drawn(VOCABULARY, WIDTH), "lm_head.weight": drawn(VOCABULARY, WIDTH)}
    weights["model.norm.weight"] = 1 + drawn(WIDTH)
    shapes = {
        "self_attn.q_proj": (WIDTH, WIDTH),
        "self_attn.k_proj": (kv_heads * size, WIDTH),
        "self_attn.v_proj": (kv_heads * size, WIDTH),
        "self_attn.o_proj": (WIDTH, WIDTH),
        **(mlp or dict(zip(MLP, [(INNER, WIDTH), (INNER, WIDTH), (WIDTH, INNER)], strict=True))),
    }
    for number in range(LAYERS):
        start = f"model.layers.{number}"
        weights |= {f"{start}.{name}.weight": drawn(*shape) for name, shape in shapes.items()}
        weights |= {f"{start}.{name}_layernorm.weight": 1 + drawn(WIDTH) for name in ("input", "post_attention")}

    def rotated(x: torch.Tensor) -> torch.Tensor:
        angles = torch.outer(torch.arange(x.shape[-2]), 100.0 ** (-torch.arange(0, size, 2) / size))
        turns = torch.polar(torch.ones_like(angles), angles)
        pairs = torch.complex(x[..., : size // 2], x[..., size // 2 :]) * turns
        return torch.cat([pairs.real, pairs.imag], -1)

    def heads(x: torch.Tensor, name: str) -> torch.Tensor:
        return dense(x, weights, name).unflatten(-1, (-1, size)).transpose(1, 2)

    def expected(input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        length = input_ids.shape[1]
        allowed = torch.tril(torch.ones(length, length)).bool()
        if attention_mask is not None:
            allowed = allowed & (attention_mask != 0)[:, None, None, :]
        x = weights["model.embed_tokens.weight"][input_ids]
        for number in range(LAYERS):
            start = f"model.layers.{number}"
            y = F.rms_norm(x, (WIDTH,), weights[f"{start}.input_layernorm.weight"], 1e-5)
            q, k, v = (heads(y, f"{start}.self_attn.{part}_proj") for part in "qkv")
            y = F.scaled_dot_product_attention(rotated(q), rotated(k), v, allowed, enable_gqa=True)
            x = x + dense(y.transpose(1, 2).flatten(2), weights, f"{start}.self_attn.o_proj")
            y = F.rms_norm(x, (WIDTH,), weights[f"{start}.post_attention_layernorm.weight"], 1e-5)
            if apply_mlp is None:
                x = x + gated(y, weights, [f"{start}.{name}" for name in MLP])
            else:
                x = x + apply_mlp(y, weights, start)
        return dense(F.rms_norm(x, (WIDTH,), weights["model.norm.weight"], 1e-5), weights, "lm_head")

    config: dict[str, Any] = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": VOCABULARY,
        "hidden_size": WIDTH,
        "intermediate_size": INNER,
        "num_hidden_layers": LAYERS,
        "rms_norm_eps": 1e-5,
        "num_attention_heads": HEADS,
        "num_key_value_heads": kv_heads,
        "hidden_act": "silu",
        "rope_theta": 100.0,
        "max_position_embeddings": 64,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        **settings,
    }
    return Folder(config, weights, expected)


COUNT, CHOSEN, NARROW = 4, 2, 12
"""The experts, how many of them a token has, and their features."""


def routed(
    x: torch.Tensor, weights: Mapping[str, torch.Tensor], start: str, names: Sequence[str], normalized: bool
) -> torch.Tensor:
    """Applies to each vector the experts with the largest probabilities, one vector after the other."""
    probabilities = dense(x, weights, f"{start}.gate").softmax(-1)
    results: list[torch.Tensor] = []
    for token, own in zip(x.flatten(0, 1), probabilities.flatten(0, 1), strict=True):
        chosen = own.argsort(descending=True)[:CHOSEN].tolist()
        total = own[chosen].sum() if normalized else 1
        terms = [
            own[number] / total * gated(token, weights, [f"{start}.experts.{number}.{name}" for name in names])
            for number in chosen
        ]
        results.append(torch.stack(terms).sum(0))
    return torch.stack(results).view(x.shape)


def expert_shapes(names: Sequence[str], prefix: str, inner: int) -> dict[str, tuple[int, int]]:
    """Returns the shapes of the weights of a gated feed-forward network."""
    shapes = [(inner, WIDTH), (inner, WIDTH), (WIDTH, inner)]
    return {f"{prefix}.{name}": shape for name, shape in zip(names, shapes, strict=True)}


def mixtral() -> Folder:
    """A Mixtral, whose experts' weights are divided by their sum."""
    names, start = ("w1", "w3", "w2"), "block_sparse_moe"
    shapes = {f"{start}.gate": (COUNT, WIDTH)}
    for number in range(COUNT):
        shapes |= expert_shapes(names, f"{start}.experts.{number}", INNER)

    def apply(x: torch.Tensor, weights: Mapping[str, torch.Tensor], block: str) -> torch.Tensor:
        return routed(x, weights, f"{block}.{start}", names, normalized=True)

    settings = {"num_local_experts": COUNT, "num_experts_per_tok": CHOSEN, "router_aux_loss_coef": 0.02}
    return llama(mlp=shapes, apply_mlp=apply, model_type="mixtral", architectures=["MixtralForCausalLM"], **settings)


def qwen2_moe() -> Folder:
    """A mixture of experts of Qwen's, one of which all tokens have."""
    names = ("gate_proj", "up_proj", "down_proj")
    shapes = {"mlp.gate": (COUNT, WIDTH), "mlp.shared_expert_gate": (1, WIDTH)}
    shapes |= expert_shapes(names, "mlp.shared_expert", INNER)
    for number in range(COUNT):
        shapes |= expert_shapes(names, f"mlp.experts.{number}", NARROW)

    def apply(x: torch.Tensor, weights: Mapping[str, torch.Tensor], block: str) -> torch.Tensor:
        start = f"{block}.mlp"
        shared = gated(x, weights, [f"{start}.shared_expert.{name}" for name in names])
        part = dense(x, weights, f"{start}.shared_expert_gate").sigmoid() * shared
        return part + routed(x, weights, start, names, normalized=False)

    settings = {"num_experts": COUNT, "num_experts_per_tok": CHOSEN, "moe_intermediate_size": NARROW}
    settings |= {"shared_expert_intermediate_size": INNER, "qkv_bias": False}
    return llama(mlp=shapes, apply_mlp=apply, model_type="qwen2_moe", architectures=["Qwen2MoeForCausalLM"], **settings)


FOLDERS: dict[str, Callable[[], Folder]] = {
    "llama": llama,
    "mixtral": mixtral,
    "qwen2_moe": qwen2_moe,
    "gpt2": gpt2,
    "bert": bert,
    "distilbert": distilbert,
    "vit": vit,
}
