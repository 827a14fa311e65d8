"""`init=` and `bias_init=` of every layer with parameters; splitting and merging heads."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad import nn
from tensorgrad.errors import OptionError, ShapeError
from tensorgrad.nn.module import declarations

LAYERS: dict[str, Callable[..., nn.Module]] = {
    "Linear": lambda **inits: nn.Linear(3, 4, **inits),
    "MLP": lambda **inits: nn.MLP(3, [5, 6], 4, **inits),
    "Embedding": lambda **inits: nn.Embedding(7, 3, **inits),
    "Conv1d": lambda **inits: nn.Conv1d(2, 4, 3, **inits),
    "Conv2d": lambda **inits: nn.Conv2d(2, 4, 3, groups=2, **inits),
    "Conv3d": lambda **inits: nn.Conv3d(2, 4, 3, **inits),
    "ConvTranspose1d": lambda **inits: nn.ConvTranspose1d(2, 4, 3, **inits),
    "ConvTranspose2d": lambda **inits: nn.ConvTranspose2d(2, 4, 3, **inits),
    "ConvTranspose3d": lambda **inits: nn.ConvTranspose3d(2, 4, 3, **inits),
    "LayerNorm": lambda **inits: nn.LayerNorm((3, 4), **inits),
    "RMSNorm": lambda **inits: nn.RMSNorm(4, **inits),
    "GroupNorm": lambda **inits: nn.GroupNorm(2, 4, **inits),
    "BatchNorm1d": lambda **inits: nn.BatchNorm1d(4, **inits),
    "BatchNorm2d": lambda **inits: nn.BatchNorm2d(4, **inits),
    "BatchNorm3d": lambda **inits: nn.BatchNorm3d(4, **inits),
    "MultiHeadAttention": lambda **inits: nn.MultiHeadAttention(8, 4, num_kv_heads=2, **inits),
    "RNN": lambda **inits: nn.RNN(3, 4, num_layers=2, **inits),
    "GRU": lambda **inits: nn.GRU(3, 4, bidirectional=True, **inits),
    "LSTM": lambda **inits: nn.LSTM(3, 4, **inits),
    "PReLU": lambda **inits: nn.PReLU(4, **inits),
    "Bilinear": lambda **inits: nn.Bilinear(2, 3, 4, **inits),
    "InstanceNorm1d": lambda **inits: nn.InstanceNorm1d(4, affine=True, **inits),
    "InstanceNorm2d": lambda **inits: nn.InstanceNorm2d(4, affine=True, **inits),
    "InstanceNorm3d": lambda **inits: nn.InstanceNorm3d(4, affine=True, **inits),
    "RNNCell": lambda **inits: nn.RNNCell(3, 4, **inits),
    "GRUCell": lambda **inits: nn.GRUCell(3, 4, **inits),
    "LSTMCell": lambda **inits: nn.LSTMCell(3, 4, **inits),
    "TransformerEncoderLayer": lambda **inits: nn.TransformerEncoderLayer(4, 2, 8, **inits),
    "TransformerDecoderLayer": lambda **inits: nn.TransformerDecoderLayer(4, 2, 8, **inits),
}
RECURRENT = ("RNN", "GRU", "LSTM")
CELLS = ("RNNCell", "GRUCell", "LSTMCell")
WITHOUT_BIAS = ("Embedding", "RMSNorm", "PReLU")
OF_LAYERS = ("Module", "Sequential", "TransformerEncoder", "TransformerDecoder")
OF_EITHER = ("Upsample",)  # needs one of two arguments, and has no parameters


def drawn(layer: nn.Module, seed: int = 0) -> dict[str, np.ndarray]:
    key = tg.random.key(seed)
    parameters = layer.named_parameters()
    return {
        path: p.initializer(tg.random.fold_in(key, i), p.shape, p.dtype)
        for i, (path, p) in enumerate(parameters.items())
    }


def test_every_layer_is_listed() -> None:
    classes = {
        name for name in nn.__all__ if inspect.isclass(kind := getattr(nn, name)) and issubclass(kind, nn.Module)
    }
    assert {*LAYERS} <= classes
    for name in classes - {*LAYERS, *OF_LAYERS, *OF_EITHER}:
        parameters = inspect.signature(getattr(nn, name)).parameters
        sizes = [
            1
            for parameter in parameters.values()
            if parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        ]
        assert not declarations(getattr(nn, name)(*sizes)), f"{name} has parameters: what do they start from?"


@pytest.mark.parametrize("name", LAYERS)
def test_parameters_start_from_what_is_given(name: str) -> None:
    """From a fill value or an initializer, separately for each weight and each bias."""
    usual = drawn(LAYERS[name]())
    for weight, bias in ((2.0, 3.0), (tg.initializers.constant(2.0), tg.initializers.constant(3.0))):
        inits = {"init": weight} | ({} if name in WITHOUT_BIAS else {"bias_init": bias})
        inits |= {"recurrent_init": 4.0} if name in (*RECURRENT, *CELLS) else {}
        weights = drawn(LAYERS[name](**inits))
        assert weights.keys() == usual.keys()
        for path, value in weights.items():
            if "norm" in path:  # of a transformer: starts as the identity
                assert np.array_equal(value, usual[path])
                continue
            expected = 3.0 if "bias" in path else 4.0 if "weight_hh" in path else 2.0
            assert value.shape == usual[path].shape and (value == expected).all(), path
    partly = drawn(LAYERS[name](init=2.0))
    assert all(np.array_equal(value, usual[path]) for path, value in partly.items() if "bias" in path)


def test_arrays_are_values_to_start_from() -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert np.array_equal(drawn(nn.Linear(3, 4, init=values))["weight"], values)
    assert np.array_equal(drawn(nn.Embedding(3, 4, padding_idx=1, init=values))["weight"][1], np.zeros(4))
    stacked = np.arange(36, dtype=np.float32).reshape(12, 3)
    assert np.array_equal(drawn(nn.LSTM(3, 3, init=stacked))["weight_ih_l0"], stacked)
    with pytest.raises(OptionError, match=r"init has shape \(4, 3\), the parameter \(3, 4\)"):
        nn.Linear(3, 4, init=values.T)
    with pytest.raises(OptionError, match="init must be an initializer, a number or an array"):
        nn.Conv1d(1, 1, 3, bias_init="zeros")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_weights_have_the_fans_of_a_gate(name: str) -> None:
    layer = getattr(nn, name)(300, 200, init=tg.initializers.he_normal, recurrent_init=tg.initializers.orthogonal())
    weights = drawn(layer)
    gates = layer.GATES
    for gate in np.split(weights["weight_ih_l0"], gates):
        assert gate.shape == (200, 300) and gate.std() == pytest.approx(np.sqrt(2 / 300), rel=0.03)
    parts = np.split(weights["weight_hh_l0"], gates)
    for gate in parts:
        assert np.allclose(gate @ gate.T, np.eye(200), atol=1e-4)
    assert gates == 1 or not np.array_equal(parts[0], parts[1])


def test_heads_are_split_and_merged() -> None:
    x = np.arange(2 * 5 * 12, dtype=np.float32).reshape(2, 5, 12)
    split = np.asarray(nn.split_heads(x, 3))
    assert np.array_equal(split, x.reshape(2, 5, 3, 4).transpose(0, 2, 1, 3))
    assert np.array_equal(np.asarray(nn.merge_heads(split)), x)
    assert nn.split_heads(x[0], 4).shape == (4, 5, 3) and nn.merge_heads(nn.split_heads(x[0], 4)).shape == (5, 12)
    wrong: list[tuple[Callable[[], Any], str]] = [
        (
            lambda: nn.split_heads(x, 5),
            r"split_heads: expected a shape \[..., length, a multiple of 5\], got \(2, 5, 12\)",
        ),
        (lambda: nn.split_heads(x, 0), "split_heads: num_heads must be a positive integer, got 0"),
        (lambda: nn.split_heads(x[0, 0], 3), r"got \(12,\)"),
        (
            lambda: nn.merge_heads(x[0]),
            r"merge_heads: expected a shape \[..., heads, length, features\], got \(5, 12\)",
        ),
    ]
    for call, message in wrong:
        with pytest.raises(ShapeError, match=message):
            call()
