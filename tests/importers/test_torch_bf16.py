"""PyTorch modules in bf16, or partly so: each op computes in f32 and rounds once, as PyTorch's kernels do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_comparison import array, differences
from torch_modules import FAMILIES

import tensorgrad as tg

BOUND = 2e-2
"""Relative to the largest element: results have bf16's three digits, and PyTorch adds in another order."""

TOKENS = torch.tensor([[1, 2, 3, 4, 0], [5, 0, 2, 2, 7]])


class Block(nn.Module):
    """Attention and a feed-forward network, with what composite ops compute of a row."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm = nn.Embedding(8, 16), nn.LayerNorm(16)
        self.qkv, self.up, self.down = nn.Linear(16, 48), nn.Linear(16, 24), nn.Linear(24, 16)

    def forward(self, tokens: torch.Tensor) -> Any:
        x = self.table(tokens)
        q, k, v = (part.unflatten(-1, (2, 8)).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.down(F.gelu(self.up(x)))
        return {"features": x, "shares": torch.softmax(x, -1), "total": x.sum(), "sure": x > 0.5}


class Mixed(nn.Module):
    """Weights of bf16, and a norm of f32."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(8, 8, dtype=torch.bfloat16), nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(self.norm(self.layer(x).float()).to(torch.bfloat16)) + self.norm.bias


class Autocast(nn.Module):
    """A module of f32, of which a region computes in bf16."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.norm(torch.relu(self.layer(x))) @ self.layer.weight
        return y, y.float() * 2 + self.layer(x)


@pytest.mark.usefixtures("compiled_blocks")
@pytest.mark.in_turns(2)
@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_results_and_gradients_are_pytorchs(device: tg.DeviceName) -> None:
    torch.manual_seed(0)
    module = Block().bfloat16()
    worst = differences(module, [TOKENS], device=device)
    assert len(worst) == 4 + 9 and max(worst.values()) < BOUND


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["pointwise", "activations", "shapes", "indexing", "recurrent"])
def test_a_family_computes_what_pytorch_does(name: str) -> None:
    """Those families of which PyTorch has kernels of bf16."""
    torch.manual_seed(0)
    module, inputs = FAMILIES[name]().family()
    narrow = [value.bfloat16() if value.is_floating_point() else value for value in inputs]
    assert max(differences(module.eval().bfloat16(), narrow).values()) < BOUND


@pytest.mark.parametrize("kind", [Mixed, Autocast])
def test_modules_of_several_dtypes(kind: type[nn.Module]) -> None:
    torch.manual_seed(0)
    module = kind()
    x = torch.randn(4, 8, dtype=torch.bfloat16 if kind is Mixed else torch.float32)
    model = tg.from_torch(module, x).initialized()
    assert {name: value.dtype.name for name, value in model.named_parameters().items()} == {
        name: str(value.dtype).removeprefix("torch.") for name, value in module.named_parameters()
    }
    assert max(differences(module, [x]).values()) < BOUND


def test_states_both_ways() -> None:
    module = nn.Linear(3, 2).bfloat16()
    model = tg.from_torch(module, torch.ones(1, 3, dtype=torch.bfloat16))
    other = nn.Linear(3, 2).bfloat16()
    values = tg.nn.from_torch(model, other.state_dict())
    assert {value.dtype for value in values.values()} == {tg.bf16}
    result = np.asarray(model.initialized(0, values)(np.ones((1, 3), tg.bf16)))
    np.testing.assert_array_equal(result, array(other(torch.ones(1, 3).bfloat16())))
    state = tg.nn.to_torch(model, values)
    module.load_state_dict({name: torch.from_dlpack(tg.array(value)) for name, value in state.items()})
    assert torch.equal(module.weight, other.weight) and torch.equal(module.bias, other.bias)
    with pytest.raises(tg.errors.InputError, match="tensor 0 of the call is f32, expected bf16"):
        model.initialized()(tg.ones((1, 3)))


def test_weights_stay_bf16_in_memory() -> None:
    """Views and selected rows are of bf16, and products widen what they read: no weight is written in f32."""
    torch.manual_seed(0)
    peaks = []
    for dtype in (torch.float32, torch.bfloat16):
        module = nn.Sequential(nn.Embedding(500, 64), nn.Linear(64, 500)).to(dtype)
        model = tg.from_torch(module, TOKENS).initialized()
        function = tg.jit(lambda model, tokens: model(tokens), device="cpu")
        function(model, TOKENS.numpy().astype(np.int32))
        peaks.append(function.program.statistics["peak_bytes"])
    assert peaks[1] < 0.52 * peaks[0]
