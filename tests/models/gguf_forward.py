"""What llama.cpp computes from a GGUF file, in NumPy: from the file's metadata and tensors alone.

It follows llama.cpp's `llm_build_*` of each architecture: pairs of rotary features are neighbors in `llama` and halves
of a head in the others, norms multiply by their weight, and Gemma 2's even layers slide.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf.quants import dequantize

PARTS = ("gate", "up", "down")
"""The matrices of an expert."""


class File:
    """The contents of a GGUF file.

    Attributes:
        architecture: llama.cpp's name of the model.
        tensors: The tensors in f32, in PyTorch's order of axes.
        types: Their types by name.
    """

    def __init__(self, path: Path):
        reader = gguf.GGUFReader(path)
        self.fields = {name: field.contents() for name, field in reader.fields.items()}
        self.architecture: str = self.fields["general.architecture"]
        self.types = {tensor.name: tensor.tensor_type.name for tensor in reader.tensors}
        self.tensors: dict[str, Any] = {
            tensor.name: np.array(dequantize(tensor.data, tensor.tensor_type)) for tensor in reader.tensors
        }

    def setting(self, name: str, default: Any = None) -> Any:
        """Returns a setting of the architecture."""
        return self.fields.get(f"{self.architecture}.{name}", default)

    def linear(self, x: Any, name: str) -> Any:
        """Applies a layer, with its bias if there is one."""
        return x @ self.tensors[f"{name}.weight"].T + self.tensors.get(f"{name}.bias", 0)

    def norm(self, x: Any, name: str) -> Any:
        """Applies a norm: `LayerNorm` if it has a bias, else `RMSNorm`; none if it has no weight."""
        if f"{name}.weight" not in self.tensors:
            return x
        if f"{name}.bias" in self.tensors:
            x = x - x.mean(-1, keepdims=True)
        eps = self.setting("attention.layer_norm_rms_epsilon") or self.setting("attention.layer_norm_epsilon")
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + eps)
        return x * self.tensors[f"{name}.weight"] + self.tensors.get(f"{name}.bias", 0)

    def rotated(self, x: Any) -> Any:
        """Returns `[length, heads, features]` rotated by positions."""
        features = self.setting("rope.dimension_count")
        if features is None:
            return x
        frequencies = self.setting("rope.freq_base") ** (-np.arange(0, features, 2) / features)
        frequencies = frequencies / self.setting("rope.scaling.factor", 1.0)
        frequencies = frequencies / self.tensors.get("rope_freqs.weight", 1.0)
        angles = (np.arange(len(x))[:, None] * frequencies)[:, None]
        half = features // 2
        pairs = (
            (np.s_[..., 0::2], np.s_[..., 1::2])
            if self.architecture == "llama"
            else (np.s_[..., :half], np.s_[..., half:])
        )
        first, second = (x[pair] for pair in pairs)
        result = np.empty_like(x)
        result[pairs[0]] = first * np.cos(angles) - second * np.sin(angles)
        result[pairs[1]] = first * np.sin(angles) + second * np.cos(angles)
        return result

    def attention(self, x: Any, block: str, layer: int) -> Any:
        """Applies a layer of attention to `[length, features]`."""
        heads = self.setting("attention.head_count")
        kv_heads = self.setting("attention.head_count_kv", heads)
        if f"{block}.attn_qkv.weight" in self.tensors:
            parts = np.split(self.linear(x, f"{block}.attn_qkv"), 3, -1)
        else:
            parts = [self.linear(x, f"{block}.attn_{part}") for part in "qkv"]
        q, k, v = (
            part.reshape(len(x), count, -1) for part, count in zip(parts, (heads, kv_heads, kv_heads), strict=True)
        )
        q, k = self.rotated(self.norm(q, f"{block}.attn_q_norm")), self.rotated(self.norm(k, f"{block}.attn_k_norm"))
        k, v = (np.repeat(part, heads // kv_heads, 1) for part in (k, v))
        scores = np.einsum("qhf,khf->hqk", q, k) / np.sqrt(q.shape[-1])
        cap = self.setting("attn_logit_softcapping")
        scores = scores if cap is None else cap * np.tanh(scores / cap)
        distances = np.arange(len(x))[:, None] - np.arange(len(x))
        window = self.setting("attention.sliding_window") if layer % 2 == 0 else None
        scores = np.where((distances >= 0) & (distances < (window or len(x))), scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        return self.linear(np.einsum("hqk,khf->qhf", weights, v).reshape(len(x), -1), f"{block}.attn_output")

    def experts(self, x: Any, block: str) -> Any:
        """Applies to each token the experts of its likeliest, whose weights `qwen2moe` doesn't divide by their sum."""
        router = self.linear(x, f"{block}.ffn_gate_inp")
        weights = np.exp(router - router.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        result = np.zeros_like(x)
        for token, row in enumerate(x):
            chosen = np.argsort(-weights[token])[: self.setting("expert_used_count")]
            share = weights[token, chosen] / (1 if self.architecture == "qwen2moe" else weights[token, chosen].sum())
            for expert, weight in zip(chosen, share, strict=True):
                gate, up, down = (self.tensors[f"{block}.ffn_{part}_exps.weight"][expert] for part in PARTS)
                inner = gate @ row
                result[token] += weight * (down @ (inner / (1 + np.exp(-inner)) * (up @ row)))
        if f"{block}.ffn_up_shexp.weight" in self.tensors:
            gate, up, down = (self.tensors[f"{block}.ffn_{part}_shexp.weight"] for part in PARTS)
            inner = x @ gate.T
            shared = (inner / (1 + np.exp(-inner)) * (x @ up.T)) @ down.T
            result += shared / (1 + np.exp(-x @ self.tensors[f"{block}.ffn_gate_inp_shexp.weight"]))[:, None]
        return result

    def feed_forward(self, x: Any, block: str) -> Any:
        """Applies a feed-forward network."""
        if f"{block}.ffn_gate_inp.weight" in self.tensors:
            return self.experts(x, block)
        inner = self.linear(x, f"{block}.ffn_gate" if f"{block}.ffn_gate.weight" in self.tensors else f"{block}.ffn_up")
        if self.architecture in ("gpt2", "gemma", "gemma2"):
            activated = inner * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3))) / 2
        else:
            activated = inner / (1 + np.exp(-inner))
        if f"{block}.ffn_gate.weight" in self.tensors:
            activated = activated * self.linear(x, f"{block}.ffn_up")
        return self.linear(activated, f"{block}.ffn_down")

    def logits(self, tokens: Any) -> Any:
        """Returns the logits of `[length]` tokens, `[length, vocabulary]`."""
        table = self.tensors["token_embd.weight"]
        x = table[tokens].astype(np.float64)
        if self.architecture.startswith("gemma"):
            x = x * np.sqrt(x.shape[-1])
        if "position_embd.weight" in self.tensors:
            x = x + self.tensors["position_embd.weight"][: len(tokens)]
        for layer in range(self.setting("block_count")):
            block = f"blk.{layer}"
            attended = self.attention(self.norm(x, f"{block}.attn_norm"), block, layer)
            x = x + self.norm(attended, f"{block}.post_attention_norm")
            inner = self.feed_forward(self.norm(x, f"{block}.ffn_norm"), block)
            x = x + self.norm(inner, f"{block}.post_ffw_norm")
        logits = self.norm(x, "output_norm") @ self.tensors.get("output.weight", table).T
        cap = self.setting("final_logit_softcapping")
        return logits if cap is None else cap * np.tanh(logits / cap)
