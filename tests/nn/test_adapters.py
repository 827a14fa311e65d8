"""Adapters of low rank: what is trained, what is computed, how they merge, and which folders are read."""

from __future__ import annotations

import copy
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.errors import InputError, OptionError, ParameterError, ShapeError
from tensorgrad.nn.adapters import AdaptedLinear
from tensorgrad.nn.ambient import drawing_from

X = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
untyped: Any = tg


class Layers(tg.nn.Module):
    def __init__(self, *layers: Any):
        super().__init__()
        self.layers = layers

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


def model(seed: int | None = 0) -> Any:
    declared = Layers(tg.nn.Linear(6, 5), tg.nn.Tanh(), tg.nn.Linear(5, 3))
    return declared if seed is None else declared.initialized(seed)


def with_values(adapted: Any, seed: int = 1) -> Any:
    """Returns a model whose adapters have random values, the second factor too."""
    random = np.random.default_rng(seed)
    values = {
        path: random.normal(size=leaf.shape).astype(np.float32)
        for path, leaf in adapted.named_parameters().items()
        if path.endswith((".a", ".b"))
    }
    return adapted.initialized(0, values)


@pytest.mark.in_turns(3, 1)
@pytest.mark.parametrize("magnitude", [False, True])
@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
def test_only_adapters_are_trained(device: tg.DeviceName, magnitude: bool) -> None:
    base = model()
    adapted = model()
    paths = tg.nn.lora(adapted, rank=2, magnitude=magnitude)
    assert paths == ["layers.0", "layers.2"]
    adapted = adapted.initialized(1)
    np.testing.assert_allclose(np.asarray(adapted(X)), np.asarray(base(X)), atol=1e-6)
    training = tg.compile(
        adapted,
        loss=lambda model, x: tg.mean(tg.square(model(x) - 1)),
        optimizer=tg.optim.adam(0.05),
        inputs={"x": tg.like(X)},
        device=device,
    )
    before = training.parameters()
    losses = [float(training.step(x=X)) for _ in range(30)]
    assert losses[-1] < 0.5 * losses[0]
    changed = {path for path, value in training.parameters().items() if not np.array_equal(value, before[path])}
    factors = ("a", "b", *(["magnitude"] if magnitude else []))
    assert changed == {f"{path}.adapters.default.{factor}" for path in paths for factor in factors}
    trained = training.model()
    merged = tg.nn.merge_lora(trained)
    assert [*merged.named_parameters()] == [*base.named_parameters()]
    assert all(parameter.trainable for parameter in merged.parameters())
    np.testing.assert_allclose(np.asarray(merged(X)), np.asarray(trained(X)), rtol=1e-4, atol=1e-5)


def test_values_by_the_papers_formulas() -> None:
    for magnitude in (False, True):
        adapted = model()
        tg.nn.lora(adapted, rank=2, alpha=3, only="layers.0", magnitude=magnitude)
        layer = with_values(adapted).layers[0]
        low = layer.adapters["default"]
        weight = np.asarray(layer.weight) + 1.5 * (np.asarray(low.a) @ np.asarray(low.b))
        if magnitude:
            lengths = np.linalg.norm(np.asarray(layer.weight), axis=0)
            weight = lengths * weight / np.linalg.norm(weight, axis=0)
        expected = X @ weight + np.asarray(layer.bias)
        np.testing.assert_allclose(np.asarray(layer(X)), expected, rtol=1e-4, atol=1e-5)


def test_the_length_is_a_constant_to_derivatives() -> None:
    """Section 4.3 of the paper: the derivative of the direction leaves out that of its length."""
    adapted = model()
    tg.nn.lora(adapted, rank=2, alpha=2, only="layers.0", magnitude=True)
    layer = with_values(adapted).layers[0]
    gradient = tg.grad(lambda layer: tg.sum(layer(X)))(layer).adapters["default"].b
    low, weight = layer.adapters["default"], np.asarray(layer.weight)
    a, b = np.asarray(low.a), np.asarray(low.b)
    scale = np.asarray(low.magnitude) / np.linalg.norm(weight + a @ b, axis=0)
    np.testing.assert_allclose(np.asarray(gradient), (X @ a).sum(0)[:, None] * scale, rtol=1e-4)


def test_several_adapters() -> None:
    adapted = model()
    tg.nn.lora(adapted, rank=1, name="first")
    tg.nn.lora(adapted, rank=2, only=["layers.2"], name="second")
    adapted = with_values(adapted)
    results = {}
    for names in ((), ("first",), ("second",), ("first", "second")):
        tg.nn.use_lora(adapted, *names)
        trained = {path.split(".")[3] for path, leaf in adapted.named_parameters().items() if leaf.trainable}
        assert trained == set(names)
        results[names] = np.asarray(adapted(X))
        if names:
            merged = tg.nn.merge_lora(adapted)
            np.testing.assert_allclose(np.asarray(merged(X)), results[names], rtol=1e-4, atol=1e-5)
    assert np.array_equal(results[()], np.asarray(model()(X)))
    assert len({result.tobytes() for result in results.values()}) == 4


class Keyed(Layers):
    """A model that takes a key, and passes none on."""

    key_argument = "key"

    def __call__(self, x: Any, key: Any = None) -> Any:
        return super().__call__(x)


@pytest.mark.parametrize("magnitude", [False, True])
def test_dropout(magnitude: bool) -> None:
    """What the adapter alone receives is dropped, by the key of the model's call and the adapter's path."""
    adapted: Any = Keyed(tg.nn.Linear(6, 6), tg.nn.Linear(6, 6)).initialized(0)
    tg.nn.lora(adapted, rank=2, alpha=2, magnitude=magnitude, dropout=0.5)
    adapted = with_values(adapted)
    first = adapted.layers[0]
    key, other = tg.random.key(5), tg.random.key(6)
    low, weight = first.adapters["default"], np.asarray(first.weight)
    own = tg.random.fold_in(key, zlib.crc32(b"layers.0.adapters.default"))
    dropped, low_rank = np.asarray(tg.random.dropout(own, X, 0.5)), np.asarray(low.a) @ np.asarray(low.b)
    change = dropped @ low_rank
    if magnitude:
        scale = np.asarray(low.magnitude) / np.linalg.norm(weight + low_rank, axis=0)
        change = (scale - 1) * (dropped @ weight) + scale * change
    with drawing_from(key):
        result = np.asarray(first(X))
    np.testing.assert_allclose(result, X @ weight + np.asarray(first.bias) + change, rtol=1e-4, atol=1e-5)
    assert np.array_equal(adapted(X, key=key), adapted(X, key)) and not np.array_equal(
        adapted(X, key), adapted(X, other)
    )
    evaluated = tg.nn.inference(adapted)
    assert np.array_equal(evaluated(X), evaluated(X, key))
    np.testing.assert_allclose(np.asarray(evaluated(X)), np.asarray(tg.nn.merge_lora(adapted)(X)), rtol=1e-4, atol=1e-4)
    with pytest.raises(OptionError, match=r"LowRank drops with probability 0.5, and has no key: .*model\(x, key=key\)"):
        adapted(X)


@pytest.mark.nightly
@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
def test_dropout_in_training(device: tg.DeviceName) -> None:
    options = tg.models.LlamaOptions(
        vocab_size=20, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2
    )
    language: Any = tg.models.LlamaForCausalLM(options).initialized(0)
    tg.nn.lora(language, rank=2, only="*.q_proj", dropout=0.5)
    tokens = np.arange(8, dtype=np.int32)[None]

    def compiled(loss: Any) -> tg.Training:
        return tg.compile(
            with_values(language), loss=loss, optimizer=tg.optim.sgd(0.0), inputs={"x": tg.like(tokens)}, device=device
        )

    training = compiled(lambda model, x, key: tg.mean(tg.square(model(x, key=key))))
    assert len({float(training.step(x=tokens)) for _ in range(3)}) == 3  # a mask for each step
    with pytest.raises(OptionError, match=r"LowRank drops with probability 0\.5, and has no key"):
        compiled(lambda model, x: tg.mean(tg.square(model(x))))


def test_dropout_in_containers() -> None:
    """Those that give each layer its own key, and attention, whose argument is called otherwise."""
    x = np.ones((2, 3, 8), np.float32)
    for made, argument in (
        (tg.nn.Sequential(tg.nn.Linear(8, 8), tg.nn.Sequential(tg.nn.Linear(8, 8))), "key"),
        (tg.nn.MultiHeadAttention(8, 2), "dropout_key"),
        (tg.nn.TransformerEncoder(lambda: tg.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), 1), "key"),
    ):
        adapted: Any = made
        tg.nn.lora(adapted, rank=2, dropout=0.5)
        adapted = with_values(adapted)
        results = {np.asarray(adapted(x, **{argument: tg.random.key(seed)})).tobytes() for seed in (0, 0, 1)}
        assert len(results) == 2
        with pytest.raises(OptionError, match="LowRank drops with"):
            adapted(x)


@pytest.mark.usefixtures("compiled_blocks")
def test_on_a_device_by_backward() -> None:
    adapted = model()
    tg.nn.lora(adapted, rank=2)
    live = adapted.initialized(0, device="cpu")
    tg.mean(tg.square(live(X))).backward()
    assert live.layers[0].weight.grad is None and live.layers[0].adapters["default"].b.grad is not None
    merged = tg.nn.merge_lora(live)
    np.testing.assert_allclose(merged(X).numpy(), live(X).numpy(), rtol=1e-5)


def test_folders(tmp_path: Path) -> None:
    adapted = model()
    tg.nn.lora(adapted, rank=2, alpha=5, only="layers.0", magnitude=True)
    adapted = with_values(adapted)
    tg.nn.save_lora(adapted, tmp_path)
    for seed in (0, None):
        read = model(seed)
        assert tg.nn.load_lora(read, tmp_path) == ["layers.0"]
        read = read.initialized(0, model().named_parameters())
        assert np.array_equal(np.asarray(read(X)), np.asarray(adapted(X)))
    declared = model()
    tg.nn.lora(declared, rank=2, alpha=5, only="layers.0", magnitude=True)
    tg.nn.save_lora(declared, tmp_path / "values", adapted.named_parameters())
    assert (tmp_path / "values/adapter_model.safetensors").read_bytes() == (
        tmp_path / "adapter_model.safetensors"
    ).read_bytes()


def test_one_adapter_of_several_ranks(tmp_path: Path) -> None:
    adapted = model()
    tg.nn.lora(adapted, rank=2, only="layers.0", dropout=0.25)
    tg.nn.lora(adapted, rank=3, alpha=1, only="layers.2", dropout=0.25)
    tg.nn.use_lora(adapted, "default")
    tg.nn.save_lora(with_values(adapted), tmp_path)
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert config["lora_dropout"] == 0.25 and config["r"] == 2 and config["rank_pattern"] == {r"^layers\.2": 3}
    read = model()
    tg.nn.load_lora(read, tmp_path)
    made = [layer.adapters["default"] for layer in (read.layers[0], read.layers[2])]
    assert [(adapter.alpha, adapter.dropout) for adapter in made] == [(16, 0.25), (1, 0.25)]


def test_a_path_that_ends_as_another(tmp_path: Path) -> None:
    """Settings of `layers.1` aren't those of `layers.0.layers.1`, unless a file's pattern is without `^`."""

    def nested() -> Any:
        return Layers(Layers(tg.nn.Linear(6, 5), tg.nn.Linear(5, 5)), tg.nn.Linear(5, 3))

    adapted = nested()
    tg.nn.lora(adapted, rank=2, only="layers.0.*")
    tg.nn.lora(adapted, rank=2, alpha=4, only="layers.1")
    tg.nn.save_lora(adapted.initialized(0), tmp_path)
    file = tmp_path / "adapter_config.json"
    config = json.loads(file.read_text())
    assert config["alpha_pattern"] == {r"^layers\.1": 4}
    for patterns, inner in ((config["alpha_pattern"], 16), ({r"layers\.1": 4}, 4)):
        file.write_text(json.dumps({**config, "alpha_pattern": patterns}))
        read = nested()
        assert tg.nn.load_lora(read, tmp_path) == ["layers.0.layers.0", "layers.0.layers.1", "layers.1"]
        outer, under = read.layers[1], read.layers[0].layers[1]
        assert [layer.adapters["default"].alpha for layer in (outer, under)] == [4, inner]


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_factors_are_of_f32_beside_a_weight_of_fewer_bits(dtype: str, tmp_path: Path) -> None:
    """So that updates are not lost; what the layer returns has the dtype that it had, and DoRA's lengths are exact."""
    plain = tg.nn.Sequential(tg.nn.Linear(6, 5, dtype=dtype)).initialized(0)
    adapted = copy.deepcopy(plain)
    tg.nn.lora(adapted, rank=2, magnitude=True)
    weight = np.asarray(plain.parameters()[0]).astype(np.float32)
    factors = tuple(map(np.asarray, adapted.initialized(0).parameters()[2:]))
    assert {factor.dtype for factor in factors} == {np.dtype(np.float32)}
    np.testing.assert_allclose(factors[2], np.linalg.norm(weight, axis=0), rtol=1e-6)
    x = tg.cast(X, dtype)
    result = adapted.initialized(0)(x)
    assert result.dtype == x.dtype
    np.testing.assert_allclose(np.asarray(result, np.float32), np.asarray(plain(x), np.float32), rtol=2**-7)
    tg.nn.save_lora(adapted.initialized(0), tmp_path)
    read = tg.nn.Sequential(tg.nn.Linear(6, 5, dtype=dtype)).initialized(0)
    tg.nn.load_lora(read, tmp_path)
    assert {leaf.dtype for leaf in read.parameters()[2:]} == {np.dtype(np.float32)}


@pytest.mark.parametrize(
    "change, message",
    [
        ({"peft_type": "IA3"}, "is of type 'IA3'; LORA is supported"),
        ({"bias": "all"}, "bias = 'all' is not supported"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"lora_dropout": 2}, "lora_dropout = 2.0 is no probability"),
        ({"lora_alpha": "many"}, "holds no settings of an adapter"),
        (None, "holds no settings of an adapter"),
    ],
)
def test_settings_that_are_refused(change: dict[str, Any] | None, message: str, tmp_path: Path) -> None:
    adapted = model()
    tg.nn.lora(adapted, rank=2)
    tg.nn.save_lora(adapted.initialized(0), tmp_path)
    file = tmp_path / "adapter_config.json"
    file.write_text("[" if change is None else json.dumps({**json.loads(file.read_text()), **change}))
    read = model()
    with pytest.raises(InputError, match=message):
        tg.nn.load_lora(read, tmp_path)
    assert not isinstance(read.layers[0], AdaptedLinear)


def test_weights_that_do_not_fit(tmp_path: Path) -> None:
    adapted = model()
    tg.nn.lora(adapted, rank=2)
    tg.nn.save_lora(adapted.initialized(0), tmp_path)
    with pytest.raises(InputError, match=r"adapts layers\.2, which is no linear layer of the model"):
        tg.nn.load_lora(Layers(tg.nn.Linear(6, 5)), tmp_path)
    other = Layers(tg.nn.Linear(6, 7), tg.nn.Tanh(), tg.nn.Linear(7, 3))
    with pytest.raises(InputError, match=r"the factors of layers\.0 are \(2, 6\) and \(5, 2\); the layer takes 6"):
        tg.nn.load_lora(other, tmp_path)
    assert not isinstance(other.layers[2], AdaptedLinear)
    with pytest.raises(ParameterError, match=r"layers\.0 has an adapter 'default' already"):
        tg.nn.load_lora(adapted, tmp_path)


def test_subclasses_of_linear_layers_are_refused() -> None:
    """What they compute may be something else, to which an adapter doesn't belong."""

    class Own(tg.nn.Linear):
        def __call__(self, x: Any) -> Any:
            return tg.relu(super().__call__(x))

    mixed = Layers(tg.nn.Linear(6, 5), Own(5, 3)).initialized(0)
    for change in (tg.nn.lora, tg.nn.quantize):
        with pytest.raises(ParameterError, match=r"layers\.1 is a Own; only= has to name tg\.nn\.Linear alone"):
            change(mixed)
    assert tg.nn.lora(mixed, only="layers.0") == ["layers.0"]


def test_mistakes(tmp_path: Path) -> None:
    plain, declared = model(), model(None)
    with pytest.raises(ParameterError, match=r"lora: '\*\.q_proj' matches no tg\.nn\.Linear; the nearest are layers"):
        tg.nn.lora(plain, only=["layers.0", "*.q_proj"])
    with pytest.raises(ShapeError, match="lora: rank must be a positive integer, got 0"):
        tg.nn.lora(plain, rank=0)
    with pytest.raises(OptionError, match="alpha must be a number, got 'a'"):
        untyped.nn.lora(plain, alpha="a")
    with pytest.raises(OptionError, match="alpha must be a number, got nan"):
        tg.nn.lora(plain, alpha=float("nan"))
    with pytest.raises(OptionError, match="lora: dropout must be a number between 0 and 1, got 2"):
        tg.nn.lora(plain, dropout=2)
    with pytest.raises(OptionError, match=r"the name of an adapter is an identifier, got 'a\.b'"):
        tg.nn.lora(plain, name="a.b")
    with pytest.raises(
        ParameterError, match=r"layers\.0 is declared and has no values: model\.initialized\(\) has them"
    ):
        tg.nn.lora(declared, magnitude=True)
    with pytest.raises(ParameterError, match="merge_lora: the model has no adapters"):
        tg.nn.merge_lora(plain)
    with pytest.raises(ParameterError, match="save_lora: the model has no adapter 'default'"):
        tg.nn.save_lora(plain, tmp_path)
    assert all(type(layer) is not AdaptedLinear for each in (plain, declared) for layer in each.layers[::2])
    tg.nn.lora(declared)
    with pytest.raises(ParameterError, match=r"lora: layers\.0 has an adapter 'default' already"):
        tg.nn.lora(declared)
    with pytest.raises(ParameterError, match="use_lora: the model has no adapter 'other'; it has default"):
        tg.nn.use_lora(declared, "other")
    with pytest.raises(ParameterError, match="merge_lora: the model is declared"):
        tg.nn.merge_lora(declared)
    with pytest.raises(ParameterError, match="save_lora: the model is declared"):
        tg.nn.save_lora(declared, tmp_path)
    mixed = model()
    tg.nn.lora(mixed, only="layers.0", magnitude=True)
    tg.nn.lora(mixed, only="layers.2")
    with pytest.raises(ParameterError, match=r"'default' has a magnitude in layers\.0, and none in layers\.2, which"):
        tg.nn.save_lora(mixed.initialized(0), tmp_path)
    assert not list(tmp_path.iterdir())
