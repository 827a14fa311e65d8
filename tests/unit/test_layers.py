"""Layers against their formulas in numpy."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad import nn
from tensorgrad.errors import DTypeError, OptionError, ShapeError

untyped: Any = tg
"""The package as code without types calls it."""

rng = np.random.default_rng(0)


def values(*shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(np.float32)


def training(layer: nn.Module, device: tg.DeviceName = "numpy") -> tg.Training:
    return tg.compile(layer, loss=lambda model: 0.0, optimizer=tg.optim.sgd(0.0), inputs={}, device=device)


def applied(layer: nn.Module, *inputs: np.ndarray, device: tg.DeviceName = "numpy", **options: Any) -> tuple[Any, Any]:
    """What a layer gives with random parameters, and these."""
    program = training(layer, device)
    parameters = {path: values(*value.shape) for path, value in program.parameters().items()}
    program.load_parameters(parameters)
    named = {f"x{i}": x for i, x in enumerate(inputs)}
    forward = program.attach(
        lambda model, **given: model(*given.values(), **options),
        inputs={name: tg.spec(x.shape, x.dtype) for name, x in named.items()},
    )
    return np.asarray(forward(**named)), parameters


def close(found: Any, expected: Any) -> None:
    assert np.shape(found) == np.shape(expected)
    assert np.allclose(np.asarray(found), expected, rtol=1e-4, atol=1e-5)


def convolved(x: np.ndarray, w: np.ndarray, stride: int, padding: int, dilation: int, groups: int) -> np.ndarray:
    """The definition, window by window."""
    count = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *[(padding, padding)] * count]).astype(np.float64)
    window = [dilation * (n - 1) + 1 for n in w.shape[2:]]
    extents = [(n - size) // stride + 1 for n, size in zip(x.shape[2:], window, strict=True)]
    result = np.zeros((len(x), len(w), *extents))
    inputs, outputs = w.shape[1], len(w) // groups
    for at in np.ndindex(*extents):
        part = tuple(slice(i * stride, i * stride + n, dilation) for i, n in zip(at, window, strict=True))
        for g in range(groups):
            chosen = x[(slice(None), slice(g * inputs, (g + 1) * inputs), *part)].reshape(len(x), -1)
            weights = w[g * outputs : (g + 1) * outputs].reshape(outputs, -1)
            result[(slice(None), slice(g * outputs, (g + 1) * outputs), *at)] = chosen @ weights.T
    return result


@pytest.mark.parametrize("count", [1, 2, 3])
def test_convolutions(count):
    x = values(2, 4, *(7, 6, 5)[:count])
    layer = getattr(nn, f"Conv{count}d")(4, 6, 3, stride=2, padding=2, dilation=2, groups=2)
    found, parameters = applied(layer, x)
    assert parameters["weight"].shape == (6, 2, *[3] * count)
    bias = parameters["bias"].reshape(-1, *[1] * count)
    close(found, convolved(x, parameters["weight"], 2, 2, 2, 2) + bias)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_transposed_convolutions_are_adjoint(count):
    """`<conv(y), x> = <y, conv_transpose(x)>` for every `y`."""
    x = values(2, 4, *(4, 3, 3)[:count])
    layer = getattr(nn, f"ConvTranspose{count}d")(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2)
    found, parameters = applied(layer, x)
    weight, bias = parameters["weight"], parameters["bias"].reshape(-1, *[1] * count)
    assert weight.shape == (4, 3, *[3] * count)
    assert found.shape == (2, 6, *[2 * n for n in x.shape[2:]])
    y = values(*found.shape)
    expected = (convolved(y, weight, 2, 1, 1, 2) * x).sum()
    assert ((found - bias) * y).sum() == pytest.approx(expected, rel=1e-3)


def test_convolutions_start_as_in_pytorch():
    for layer, fan in [
        (nn.Conv2d(8, 40, 3, groups=2), 4 * 9),
        (nn.Conv1d(30, 40, 7), 210),
        (nn.ConvTranspose2d(20, 30, 3, groups=2), 15 * 9),
    ]:
        parameters = training(layer).parameters()
        assert abs(parameters["weight"]).max() <= 1 / math.sqrt(fan)
        assert parameters["weight"].std() == pytest.approx(1 / math.sqrt(3 * fan), rel=0.05)
        assert abs(parameters["bias"]).max() <= 1 / math.sqrt(fan)
    assert list(nn.Conv3d(1, 1, 1, bias=False).named_parameters()) == ["weight"]


def test_a_depthwise_convolution_of_other_windows():
    x = values(1, 3, 6, 8)
    found, parameters = applied(nn.Conv2d(3, 3, (1, 3), padding="same", groups=3, bias=False), x)
    padded = np.pad(x, [(0, 0), (0, 0), (0, 0), (1, 1)])
    w = parameters["weight"]
    close(found, sum(padded[..., i : i + 8] * w[:, 0, 0, i][:, None, None] for i in range(3)))


def test_pooling():
    x = values(2, 3, 6, 4)
    blocks = x.reshape(2, 3, 3, 2, 2, 2)
    close(nn.MaxPool2d(2)(x), blocks.max((3, 5)))
    close(nn.AvgPool2d(2)(x), blocks.mean((3, 5)))
    close(nn.MaxPool2d((2, 4), stride=(2, 1))(x), x.reshape(2, 3, 3, 2, 4).max((3, 4))[..., None])
    line, volume = x[..., 0], x.reshape(2, 3, 2, 3, 4)
    padded = np.pad(line, [(0, 0), (0, 0), (1, 1)])
    close(nn.AvgPool1d(3, 1, padding=1)(line), (padded[..., :-2] + padded[..., 1:-1] + padded[..., 2:]) / 3)
    near = nn.AvgPool1d(3, 1, padding=1, count_include_pad=False)(line)
    close(near[..., 0], line[..., :2].mean(-1))
    close(nn.MaxPool1d(2, ceil_mode=True)(line[..., :5])[..., 2], line[..., 4])
    close(nn.MaxPool3d((2, 3, 4))(volume)[..., 0, 0, 0], volume.max((2, 3, 4)))
    close(nn.AvgPool3d((2, 3, 4))(volume)[..., 0, 0, 0], volume.mean((2, 3, 4)))
    close(nn.GlobalAvgPool()(x), x.mean((2, 3)))
    close(nn.GlobalMaxPool(keepdims=True)(x), x.max((2, 3), keepdims=True))


def test_normalizations():
    x = values(4, 6, 5) + 3
    found, parameters = applied(nn.LayerNorm((6, 5)), x)
    centred = x - x.mean((1, 2), keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean((1, 2), keepdims=True) + 1e-5)
    close(found, scaled * parameters["weight"] + parameters["bias"])
    found, parameters = applied(nn.RMSNorm(5, eps=0.1), x)
    close(found, x / np.sqrt((x**2).mean(-1, keepdims=True) + 0.1) * parameters["weight"])
    found, parameters = applied(nn.GroupNorm(3, 6), x)
    groups = x.reshape(4, 3, 2, 5)
    centred = groups - groups.mean((2, 3), keepdims=True)
    scaled = (centred / np.sqrt((centred**2).mean((2, 3), keepdims=True) + 1e-5)).reshape(4, 6, 5)
    close(found, scaled * parameters["weight"][:, None] + parameters["bias"][:, None])
    assert not nn.LayerNorm(5, elementwise_affine=False).named_parameters()
    assert list(nn.LayerNorm(5, bias=False).named_parameters()) == ["weight"]
    assert not nn.RMSNorm(5, elementwise_affine=False).named_parameters()
    assert not nn.GroupNorm(1, 5, affine=False).named_parameters()
    plain = nn.RMSNorm(5, elementwise_affine=False)(np.zeros((1, 5), np.float32))
    assert not np.asarray(plain).any()


def test_embedding():
    indices = np.array([[0, 3], [8, -1]], np.int32)
    found, parameters = applied(nn.Embedding(9, 4), indices)
    close(found, parameters["weight"][indices])
    table = training(nn.Embedding(90, 40)).parameters()["weight"]
    assert table.std() == pytest.approx(1, rel=0.05)


def test_a_padding_row_stays():
    program = tg.compile(
        nn.Embedding(5, 3, padding_idx=-1),
        loss=lambda model, i: tg.sum(model(i)),
        optimizer=tg.optim.sgd(1.0),
        inputs={"i": tg.spec(4, "i32")},
        device="numpy",
    )
    before = program.parameters()["weight"]
    assert not before[4].any()
    program.step(i=np.array([4, -1, 2, 2], np.int32))
    change = before - program.parameters()["weight"]
    program.attach(lambda model, i: model(i), inputs={"i": tg.spec(4, "u32")})(i=np.arange(4, dtype=np.uint32))
    close(change, np.array([0, 0, 2, 0, 0])[:, None] * np.ones(3))


def test_tied_embeddings():
    class Tied(nn.Module):
        def __init__(self) -> None:
            self.embedding = nn.Embedding(5, 3)

        def __call__(self, indices: Any) -> Any:
            return self.embedding.attend(self.embedding(indices))

    found, parameters = applied(Tied(), np.array([1, 4], np.int32))
    table = parameters["embedding.weight"]
    close(found, table[[1, 4]] @ table.T)


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray, allowed: Any) -> np.ndarray:
    groups = q.shape[-3] // k.shape[-3]
    k, v = np.repeat(k, groups, -3), np.repeat(v, groups, -3)
    scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
    return softmax(np.where(allowed, scores, -1e30)) @ v


def heads_of(x: np.ndarray, heads: int) -> np.ndarray:
    return np.swapaxes(x.reshape(*x.shape[:-1], heads, -1), -3, -2)


def turned(x: np.ndarray, first: int = 0) -> np.ndarray:
    length, half = x.shape[-2], x.shape[-1] // 2
    angles = (np.arange(length) + first)[:, None] * 10000.0 ** (-np.arange(half) / half)
    pairs = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)
    return np.concatenate([pairs.real, pairs.imag], -1)


SETTINGS: list[dict[str, Any]] = [
    {},
    {"causal": True},
    {"num_kv_heads": 2},
    {"num_kv_heads": 1, "rotary": 10000.0, "causal": True},
    {"kdim": 6, "vdim": 5, "bias": False},
]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("masked", [False, True])
def test_attention(settings, masked):
    kdim, vdim, kv_heads = (settings.get(name, n) for name, n in (("kdim", 16), ("vdim", 16), ("num_kv_heads", 4)))
    query, key, value = values(3, 5, 16), values(3, 7, kdim), values(3, 7, vdim)
    mask = np.ones((3, 1, 1, 7), bool)
    if masked:
        mask = (np.arange(7) < np.array([7, 3, 4])[:, None])[:, None, None, :]
    options: dict[str, Any] = {"mask": tg.array(mask)} if masked else {}
    layer = nn.MultiHeadAttention(16, 4, **settings)
    found, w = applied(layer, query, key, value, **options)

    def projected(part: str, x: np.ndarray, heads: int) -> np.ndarray:
        return heads_of(x @ w[f"{part}.weight"] + w.get(f"{part}.bias", 0), heads)

    q, k, v = projected("q", query, 4), projected("k", key, kv_heads), projected("v", value, kv_heads)
    if "rotary" in settings:
        q, k = turned(q, 2), turned(k)
    allowed = mask
    if settings.get("causal"):
        allowed = mask & (np.arange(7) <= np.arange(5)[:, None] + 2)
    result = np.swapaxes(attended(q, k, v, allowed), -3, -2).reshape(3, 5, 16)
    assert set(w) >= {"q.weight", "k.weight", "v.weight", "out.weight"}
    close(found, result @ w["out.weight"] + w.get("out.bias", 0))


def test_attention_to_itself_and_to_nothing():
    x = values(2, 5, 8)
    layer = nn.MultiHeadAttention(8, 2)
    program = training(layer)
    once = program.attach(lambda model, x: model(x), inputs={"x": x.shape})(x=x)
    thrice = program.attach(lambda model, x: model(x, x, x), inputs={"x": x.shape})(x=x)
    close(once, np.asarray(thrice))
    parts = values(2, 3, 4, 6)
    close(nn.scaled_dot_product_attention(parts, parts, parts, mask=np.zeros((4, 4), bool)), np.zeros_like(parts))
    mask = values(4, 4)
    scores = parts @ np.swapaxes(parts, -1, -2) * 0.3 + mask
    close(nn.scaled_dot_product_attention(parts, parts, parts, mask=mask, scale=0.3), softmax(scores) @ parts)


def test_attention_starts_as_in_pytorch():
    parameters = training(nn.MultiHeadAttention(64, 4)).parameters()
    for part in "qkv":
        assert abs(parameters[f"{part}.weight"]).max() <= math.sqrt(6 / (4 * 64))
        assert parameters[f"{part}.weight"].std() == pytest.approx(math.sqrt(2 / (4 * 64)), rel=0.05)
        assert not parameters[f"{part}.bias"].any()
    assert abs(parameters["out.weight"]).max() <= 1 / 8 and not parameters["out.bias"].any()


def test_rotary_products_depend_on_distances_alone():
    x, y = values(1, 6), values(1, 6)

    def product(first: int, second: int) -> float:
        left, right = nn.rotary_embedding(x, [first]), nn.rotary_embedding(y, [second])
        return float(tg.sum(left * right))

    assert product(3, 1) == pytest.approx(product(10, 8), rel=1e-4)
    text = values(2, 5, 6)
    close(nn.rotary_embedding(text), turned(text))
    positions = np.array([3, 1, 4, 1, 5], np.int32)
    given = tg.grad(lambda x, at: tg.sum(nn.rotary_embedding(x, at) * text))(text, positions)
    fixed = tg.grad(lambda x: tg.sum(nn.rotary_embedding(x, positions) * text))(text)
    close(given, np.asarray(fixed))


def test_dropout_takes_a_key_and_is_left_out_without():
    x, key = np.ones((40, 50), np.float32), tg.random.key(1)
    layer = nn.Dropout(0.25)
    assert np.array_equal(np.asarray(layer(x, None)), x)
    dropped = np.asarray(layer(x, key))
    assert set(np.unique(dropped)) == {0.0, np.float32(1 / 0.75)}
    assert (dropped == 0).mean() == pytest.approx(0.25, abs=0.05)
    assert np.array_equal(dropped, np.asarray(layer(x, key)))
    parts = values(1, 2, 9, 4)
    some = nn.scaled_dot_product_attention(parts, parts, parts, dropout=0.5, dropout_key=key)
    assert not np.allclose(np.asarray(some), np.asarray(nn.scaled_dot_product_attention(parts, parts, parts)))


def test_sequential():
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.ReLU(), tg.exp, nn.Sequential(nn.Dropout(0.5)))
    assert list(model.named_parameters()) == ["0.weight", "0.bias"]
    assert len(model) == 5 and model[3] is tg.exp and model[-1] is list(model)[4]
    x = values(2, 3)
    found, w = applied(model, x)
    close(found, np.exp(np.maximum(x @ w["0.weight"] + w["0.bias"], 0)))
    drops = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5))
    kept = np.asarray(drops(np.ones(4000, np.float32), tg.random.key(0))) != 0
    assert kept.mean() == pytest.approx(0.25, abs=0.05)  # each has its own key
    attention = nn.Sequential(nn.MultiHeadAttention(4, 2, dropout=0.5))
    program, tokens = training(attention), values(2, 5, 4)
    random = program.attach(lambda m, x: (m(x), m(x, tg.random.key(0))), inputs={"x": tokens.shape})(x=tokens)
    assert not np.allclose(np.asarray(random[0]), np.asarray(random[1]))
    named = nn.Sequential({"first": nn.Linear(2, 2), "act": nn.Tanh()})
    assert list(named.named_parameters()) == ["first.weight", "first.bias"]


def test_mlp():
    x = values(4, 3)
    found, w = applied(nn.MLP(3, (5, 6), 2, activation=tg.tanh), x)
    for i in range(3):
        x = x @ w[f"layers.{i}.weight"] + w[f"layers.{i}.bias"]
        x = np.tanh(x) if i < 2 else x
    close(found, x)
    x = values(4, 3)
    found, w = applied(nn.MLP(3, 8, 2, bias=False), x)
    close(found, np.maximum(x @ w["layers.0.weight"], 0) @ w["layers.1.weight"])


def test_activation_layers():
    x = values(2, 6, 3) * 4
    cases = {
        "ReLU": np.maximum(x, 0),
        "Sigmoid": 1 / (1 + np.exp(-x)),
        "Tanh": np.tanh(x),
        "SiLU": x / (1 + np.exp(-x)),
        "Softplus": np.log1p(np.exp(x)),
        "LogSigmoid": -np.log1p(np.exp(-x)),
        "Mish": x * np.tanh(np.log1p(np.exp(x))),
        "Hardtanh": np.clip(x, -1, 1),
        "Hardsigmoid": np.clip(x / 6 + 0.5, 0, 1),
        "LeakyReLU": np.where(x > 0, x, 0.01 * x),
        "ELU": np.where(x > 0, x, np.expm1(x)),
        "SELU": 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
        "GELU": x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2,
        "Softmax": softmax(x),
        "LogSoftmax": np.log(softmax(x)),
        "Identity": x,
    }
    for name, expected in cases.items():
        close(getattr(nn, name)()(x), expected)
    found, parameters = applied(nn.PReLU(6), x)
    close(found, np.where(x > 0, x, parameters["weight"][:, None] * x))
    found, parameters = applied(nn.PReLU(), x)
    close(found, np.where(x > 0, x, parameters["weight"] * x))
    close(nn.Flatten()(x), x.reshape(2, 18))
    close(nn.Flatten(0, 1)(x), x.reshape(12, 3))


class Vision(nn.Module):
    """A few layers of every family, that train together."""

    def __init__(self) -> None:
        self.stem = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.GELU(), nn.MaxPool2d(2))
        self.norm = nn.LayerNorm(4)
        self.attention = nn.MultiHeadAttention(4, 2, causal=True, rotary=100.0)
        self.head = nn.MLP(4, 8, 3, dropout=0.1)

    def __call__(self, x: Any, key: Any = None) -> Any:
        tokens = tg.swapaxes(tg.reshape(self.stem(x), [x.shape[0], 4, -1]), 1, 2)
        tokens = tokens + self.attention(self.norm(tokens))
        return self.head(tg.mean(tokens, 1), key)


def vision_loss(model: Any, x: Any, y: Any, key: Any) -> Any:
    return tg.cross_entropy(model(x, key), y, label_smoothing=0.1)


def test_layers_train_together_alike_on_numpy_and_device(device):
    x, y = values(6, 1, 6, 6), rng.integers(0, 3, 6).astype(np.int32)
    losses = {}
    for name in ("numpy", "wgpu"):
        program = tg.compile(
            Vision(),
            loss=vision_loss,
            optimizer=tg.optim.sgd(0.1),
            inputs={"x": x.shape, "y": tg.spec(6, "i32")},
            device=name,
        )
        losses[name] = [float(program.step(x=x, y=y)) for _ in range(4)]
    assert losses["numpy"][-1] < losses["numpy"][0]
    assert losses["wgpu"] == pytest.approx(losses["numpy"], rel=1e-3)


def test_wrong_inputs():
    x = values(2, 4, 5)
    wrong: list[tuple[nn.Module, Any]] = [
        (nn.Conv1d(3, 2, 3), x),
        (nn.Conv2d(4, 2, 3), x),
        (nn.ConvTranspose1d(3, 2, 3), x),
        (nn.LayerNorm(4), x),
        (nn.RMSNorm((2, 5)), x),
        (nn.GroupNorm(1, 5), x),
        (nn.PReLU(5), x),
        (nn.MultiHeadAttention(4, 2), x),
    ]
    for layer, given in wrong:
        with pytest.raises(ShapeError, match=r"test_layers\.py:\d+: " + type(layer).__name__):
            applied(layer, given)
    for extents in itertools.product((3, 4), (2, 5)):
        heads, kv_heads = extents
        with pytest.raises(ShapeError, match="scaled_dot_product_attention"):
            nn.scaled_dot_product_attention(values(heads, 2, 4), values(kv_heads, 2, 4), values(kv_heads, 3, 4))
    parts = values(2, 3, 4)
    with pytest.raises(DTypeError, match="mask"):
        nn.scaled_dot_product_attention(parts, parts, parts, mask=np.ones((3, 3), np.int32))
    with pytest.raises(ShapeError, match="Flatten"):
        nn.Flatten(2, 1)(x)
    with pytest.raises(ShapeError, match="positions"):
        nn.rotary_embedding(parts, [1, 2])


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: nn.Conv2d(3, 4, 0), ShapeError),
        (lambda: nn.Conv2d(3, 4, (3, 3, 3)), ShapeError),
        (lambda: nn.Conv2d(3, 4, 3, groups=2), ShapeError),
        (lambda: nn.ConvTranspose2d(4, 3, 3, groups=2), ShapeError),
        (lambda: nn.Embedding(0, 3), ShapeError),
        (lambda: nn.Embedding(3, 3, padding_idx=3), OptionError),
        (lambda: nn.LayerNorm(()), ShapeError),
        (lambda: nn.LayerNorm(3, eps=-1.0), OptionError),
        (lambda: nn.GroupNorm(2, 5), ShapeError),
        (lambda: nn.Dropout(1.5), OptionError),
        (lambda: nn.MultiHeadAttention(8, 3), ShapeError),
        (lambda: nn.MultiHeadAttention(8, 4, num_kv_heads=3), ShapeError),
        (lambda: nn.MultiHeadAttention(6, 2, rotary=100.0), ShapeError),
        (lambda: nn.MLP(3, (), 3), ShapeError),
        (lambda: untyped.nn.MLP(3, 3, 3, activation=nn.ReLU), OptionError),
        (lambda: untyped.nn.Sequential(3), OptionError),
        (lambda: nn.Sequential({"a b": nn.ReLU()}), OptionError),
        (lambda: nn.MaxPool2d(0), ShapeError),
    ],
)
def test_wrong_settings(call, error):
    with pytest.raises(error):
        call()
