"""Weights of few bits: the values of their formats, what is trained on top of them, and what is never stored."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats

import tensorgrad as tg
from tensorgrad.errors import DTypeError, OptionError, ParameterError, ShapeError
from tensorgrad.ops.quantization import SCHEMES
from tensorgrad.runtime.program import Dispatch
from tensorgrad.runtime.webgpu import WebGPUDevice

DEVICES: list[tg.DeviceName] = ["numpy", "cpu", "wgpu"]
FORMATS = [(8, "int8"), (4, "int4"), (4, "nf4")]


def normal_float() -> np.ndarray:
    """Returns quantiles of a normal distribution, 7 below zero and 8 above it, scaled to 1 (arXiv 2305.14314).

    The outermost probability is that of bitsandbytes, of which the paper's appendix E has the values.
    """
    outermost = 0.9677083
    above = scipy.stats.norm.ppf(np.linspace(outermost, 0.5, 9)[:-1])
    below = -scipy.stats.norm.ppf(np.linspace(outermost, 0.5, 8)[:-1])
    values = np.sort(np.concatenate([above, [0.0], below]))
    return (values / values.max()).astype(np.float32)


NF4 = np.array(SCHEMES["nf4"].table, np.float32)


def test_the_table_is_that_of_quantiles() -> None:
    np.testing.assert_allclose(NF4, normal_float(), rtol=0, atol=2e-7)  # an ulp of the largest


def rounded(weight: np.ndarray, scheme: str, group: int) -> np.ndarray:
    """Returns what a format makes of a matrix, one group of a column at a time, by the published formulas."""
    result = np.empty_like(weight)
    for start in range(0, len(weight), group):
        for column in range(weight.shape[1]):
            block = weight[start : start + group, column]
            largest = np.abs(block).max() or np.float32(1)
            if scheme == "nf4":
                nearest = np.abs(block[:, None] / largest - NF4).argmin(axis=1)
                result[start : start + group, column] = NF4[nearest] * largest
            else:
                most = np.float32({"int8": 127, "int4": 7}[scheme])
                result[start : start + group, column] = np.rint(block / largest * most) * (largest / most)
    return result


def layer(inputs: int, outputs: int, bits: int, scheme: str, group: int = 64) -> tuple[Any, np.ndarray]:
    """Returns a model of one quantized layer, and the weight that it had."""
    model = tg.nn.Sequential(tg.nn.Linear(inputs, outputs)).initialized(0)
    weight = np.array(model[0].weight)
    assert tg.nn.quantize(model, bits, group, scheme) == ["0"]
    return model, weight


@pytest.mark.parametrize("rows, group", [(128, 64), (24, 16), (37, 10), (3, 64)])
@pytest.mark.parametrize("bits, scheme", FORMATS)
def test_values_are_those_of_the_published_formulas(bits: int, scheme: str, rows: int, group: int) -> None:
    model, weight = layer(rows, 5, bits, scheme, group)
    np.testing.assert_allclose(np.asarray(model[0].weight), rounded(weight, scheme, group), rtol=1e-6)
    codes = 32 // bits
    assert model[0].packed.shape == (-(-rows // codes), 5)
    assert model[0].scales.shape == (-(-rows // group), 5)


@pytest.mark.parametrize("scheme", ["int8", "nf4"])
def test_every_code_has_its_value(scheme: str) -> None:
    bits, count = (8, 256) if scheme == "int8" else (4, 16)
    words = np.arange(count, dtype=np.uint8)
    packed = (words if bits == 8 else words[::2] | words[1::2] << 4).view(np.uint32)[:, None]
    expected = np.arange(-128, 128) if bits == 8 else NF4
    for device in DEVICES:
        values = tg.jit(lambda words: tg.dequantize(words, [[2.0]], bits=bits, group=count), device=device)(packed)
        np.testing.assert_array_equal(np.asarray(values)[:, 0], 2 * expected.astype(np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_stacks_of_words_are_batched(dtype: Any) -> None:
    random = np.random.default_rng(0)
    words = random.integers(0, 2**32, (3, 4, 5), np.uint32)
    scales = random.uniform(size=(3, 2, 5)).astype(dtype)
    batched = tg.vmap(lambda words, scales: tg.dequantize(words, scales, bits=4, group=16))(words, scales)
    assert batched.dtype == dtype
    for i, values in enumerate(np.asarray(batched)):
        np.testing.assert_array_equal(values, np.asarray(tg.dequantize(words[i], scales[i], bits=4, group=16)))


@pytest.mark.parametrize("bits, scheme", [(8, "int8"), (4, "int4")])
def test_zeros_are_subtracted_where_a_product_reads_codes(bits: int, scheme: str) -> None:
    random = np.random.default_rng(0)
    words = random.integers(0, 2**32, (8 * bits, 256), np.uint32)
    scales, zeros = (
        random.uniform(size=(4, 256)).astype(np.float32),
        random.integers(-7, 8, (4, 256)).astype(np.float32),
    )
    settings: Any = {"bits": bits, "scheme": scheme}
    plain = np.asarray(tg.dequantize(words, scales, **settings))
    wide = np.asarray(tg.dequantize(words, scales, zeros=zeros, **settings))
    np.testing.assert_allclose(wide, plain - np.repeat(zeros * scales, 64, axis=0), rtol=1e-5, atol=1e-4)
    product = tg.jit(lambda x, *stored: x @ tg.dequantize(*stored[:2], zeros=stored[2], **settings), device="cpu")
    x = random.normal(size=(2, 256)).astype(np.float32)
    np.testing.assert_allclose(np.asarray(product(x, words, scales, zeros)), x @ wide, rtol=1e-4, atol=1e-2)
    assert product.program.statistics["peak_bytes"] < wide.nbytes / 2


def test_groups_of_zeros_stay_zero() -> None:
    model = tg.nn.Sequential(tg.nn.Linear(8, 2, init=0.0)).initialized(0)
    tg.nn.quantize(model, bits=4)
    np.testing.assert_array_equal(np.asarray(model[0].weight), np.zeros((8, 2)))


@pytest.mark.in_turns(4)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("bits, scheme", FORMATS)
def test_derivative_and_batching(bits: int, scheme: str, device: tg.DeviceName) -> None:
    model, weight = layer(24, 6, bits, scheme, 16)
    x = np.random.default_rng(0).normal(size=(3, 4, 24)).astype(np.float32)
    inputs = tg.jit(tg.grad(lambda x: tg.sum(tg.square(model(x)))), device=device)(x)
    values = tg.jit(tg.vmap(lambda x: model(x)), device=device)(x)
    w = rounded(weight, scheme, 16)
    expected = x @ w + np.asarray(model[0].bias)
    np.testing.assert_allclose(np.asarray(values), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.asarray(inputs), 2 * expected @ w.T, rtol=1e-4, atol=1e-4)


LLAMA = tg.models.LlamaOptions(
    vocab_size=32, hidden_size=64, intermediate_size=96, num_hidden_layers=1, num_attention_heads=4
)

INPUTS, OUTPUTS = 576, 1536
WIDE = 4 * INPUTS * OUTPUTS
"""The bytes of a weight of f32, of a layer of SmolLM2-135M."""


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("device", ["cpu", "wgpu"])
@pytest.mark.parametrize("rows", [1, 64])
@pytest.mark.parametrize("bits", [8, 4])
def test_products_never_store_the_wide_weight(bits: int, rows: int, device: tg.DeviceName) -> None:
    random = np.random.default_rng(0)
    words = random.integers(0, 2**32, (INPUTS * bits // 32, OUTPUTS), np.uint32)
    scales = random.uniform(size=(INPUTS // 64, OUTPUTS)).astype(np.float32)
    x, towards = (random.normal(size=(rows, extent)).astype(np.float32) for extent in (INPUTS, OUTPUTS))

    def product(x: Any, words: Any, scales: Any) -> Any:
        return x @ tg.dequantize(words, scales, bits=bits)

    def pulled_back(x: Any, towards: Any, words: Any, scales: Any) -> Any:
        return tg.grad(lambda x: tg.sum(product(x, words, scales) * towards))(x)

    wide = np.asarray(tg.dequantize(words, scales, bits=bits))
    operands = [(product, (x,), x @ wide), (pulled_back, (x, towards), towards @ wide.T)]
    for function, arguments, expected in operands:
        compiled = tg.jit(function, device=device)
        results = compiled(*arguments, words, scales)
        np.testing.assert_allclose(np.asarray(results), expected, rtol=1e-3, atol=1e-2)
        stored = [words, scales, *arguments, expected]
        at_hand = sum(array.nbytes for array in stored)
        dispatches = [step for step in compiled.program.plan if isinstance(step, Dispatch)]
        statistics = compiled.program.statistics
        is_hardware = device == "wgpu" and WebGPUDevice().info.type == "hardware"
        if is_hardware and len(dispatches) == 2:  # a GPU sums in parts, and stores them
            at_hand += 2 * max(buffer.size for buffer in compiled.program.buffers if buffer.size != WIDE)
        else:
            # The sum of one row may be in two parts.
            assert len(dispatches) == 1 or (len(dispatches) == 2 and rows == 1)
        assert statistics["peak_bytes"] < at_hand + WIDE / 100
        assert statistics["bytes_moved"] < at_hand + WIDE / 100


class Layers(tg.nn.Module):
    def __init__(self, *extents: int):
        super().__init__()
        self.layers = [tg.nn.Linear(*pair) for pair in itertools.pairwise(extents)]

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = tg.tanh(layer(x))
        return x


def loss(model: Any, x: Any) -> Any:
    return tg.mean(tg.square(model(x) - 1))


def adapted(bits: int | None, *extents: int, magnitude: bool = False) -> Any:
    """Returns a model whose layers have adapters, and whose weights are of so many bits."""
    model = Layers(*extents).initialized(0)
    if bits is not None:
        tg.nn.quantize(model, bits, 16)
    tg.nn.lora(model, rank=2, magnitude=magnitude)
    return model.initialized(1)


def training_of(model: Any, x: np.ndarray, device: tg.DeviceName) -> Any:
    return tg.compile(model, loss=loss, optimizer=tg.optim.adam(0.05), inputs={"x": tg.like(x)}, device=device)


X = np.random.default_rng(1).normal(size=(4, 24)).astype(np.float32)


@pytest.mark.nightly
@pytest.mark.parametrize("device, magnitude", [("numpy", False), ("cpu", True), ("wgpu", False)])
def test_adapters_train_on_frozen_integers(device: tg.DeviceName, magnitude: bool) -> None:
    model = adapted(4, 24, 16, 8, magnitude=magnitude)
    before = {path: np.array(value) for path, value in model.named_buffers().items()}
    assert sorted(before) == [f"layers.{i}.{name}" for i in (0, 1) for name in ("packed", "scales")]
    training = training_of(model, X, device)
    losses = [float(training.step(x=X)) for _ in range(12)]
    assert losses[-1] < losses[0] / 2
    after = training.model()
    for path, value in after.named_buffers().items():
        np.testing.assert_array_equal(np.asarray(value), before[path])
    trained = [path for path, value in after.named_parameters().items() if value.trainable]
    assert trained and all(".adapters." in path for path in trained)
    for plain in (tg.nn.merge_lora(after), tg.nn.merge_lora(tg.nn.dequantize(after))):
        assert not plain.named_buffers()
        assert [type(layer) for layer in plain.layers] == [tg.nn.Linear] * 2
        np.testing.assert_allclose(np.asarray(plain(X)), np.asarray(after(X)), rtol=1e-4, atol=1e-5)


def test_adapted_layers_can_be_quantized_later() -> None:
    first = adapted(4, 24, 16)
    second = adapted(None, 24, 16)
    assert tg.nn.quantize(second, 4, 16) == ["layers.0"]
    assert type(first.layers[0]) is type(second.layers[0])
    np.testing.assert_allclose(np.asarray(second(X)), np.asarray(first(X)), rtol=1e-6)
    assert tg.nn.quantize(second, 4, 16) == []


@pytest.mark.nightly
def test_training_holds_integers_and_no_weight() -> None:
    extents, x = (512, 512, 512, 512), np.zeros((32, 512), np.float32)
    weights = 4 * 512 * 512 * 3
    of_floats = training_of(adapted(None, *extents), x, "numpy").program_for("cpu").statistics
    for bits, scales in ((8, weights / 16), (4, weights / 16)):
        of_integers = training_of(adapted(bits, *extents), x, "numpy").program_for("cpu").statistics
        saved = of_floats["peak_bytes"] - of_integers["peak_bytes"]
        assert saved > weights * (1 - bits / 32) - scales - weights / 100
        assert of_integers["workspace_bytes"] <= of_floats["workspace_bytes"]
        assert of_integers["bytes_moved"] < of_floats["bytes_moved"] - weights


def test_integers_are_saved_and_loaded(tmp_path: Path) -> None:
    model, other = adapted(4, 24, 16), Layers(24, 16).initialized(5)
    tg.nn.quantize(other, 4, 16)
    tg.nn.lora(other, rank=2)
    trained, untrained = training_of(model, X, "numpy"), training_of(other.initialized(6), X, "numpy")
    trained.step(x=X)
    trained.save_checkpoint(tmp_path / "checkpoint.safetensors")
    untrained.load_checkpoint(tmp_path / "checkpoint.safetensors")
    expected = np.asarray(trained.model()(X))
    np.testing.assert_array_equal(np.asarray(untrained.model()(X)), expected)
    predict = trained.attach(lambda model, x: model(x), inputs={"x": tg.like(X)})
    predict.save(tmp_path / "predict", target="cpu")
    np.testing.assert_allclose(np.asarray(tg.load(tmp_path / "predict", device="cpu")(x=X)), expected, rtol=1e-5)


def test_folders_of_models_hold_weights(tmp_path: Path) -> None:
    model = tg.models.LlamaForCausalLM(LLAMA).initialized(0)
    tg.nn.quantize(model, only="*_proj")
    with pytest.raises(ParameterError, match="save_pretrained: the model has packed integers"):
        tg.models.save_pretrained(model, tmp_path)
    tg.models.save_pretrained(tg.nn.dequantize(model), tmp_path)
    ids = np.arange(6, dtype=np.int32)[None]
    loaded = tg.models.from_pretrained(tmp_path).initialized()
    np.testing.assert_allclose(np.asarray(loaded(ids)), np.asarray(model(ids)), rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("compiled_blocks")
@pytest.mark.parametrize("device", ["cpu", "wgpu"])
def test_layers_on_a_device(device: tg.DeviceName) -> None:
    model = Layers(24, 16).initialized(0, device=device)
    tg.nn.quantize(model, 8, 16)
    x = tg.tensor(X, device=device, requires_grad=True)
    tg.sum(model(x)).backward()
    host = Layers(24, 16).initialized(0)
    tg.nn.quantize(host, 8, 16)
    np.testing.assert_array_equal(np.asarray(model.layers[0].packed), np.asarray(host.layers[0].packed))
    expected = tg.grad(lambda x: tg.sum(host(x)))(X)
    np.testing.assert_allclose(np.asarray(x.grad), np.asarray(expected), rtol=1e-4, atol=1e-5)
    again = tg.nn.dequantize(model)
    assert again.layers[0].weight.device == device
    np.testing.assert_allclose(np.asarray(again(X)), np.asarray(host(X)), rtol=1e-4, atol=1e-5)


def test_what_is_refused() -> None:
    model = Layers(24, 16).initialized(0)
    with pytest.raises(OptionError, match="quantize: bits must be one of 8, 4, got 2"):
        tg.nn.quantize(model, 2)
    with pytest.raises(OptionError, match="schemes of 4 bits are int4, nf4, but scheme is 'int8'"):
        tg.nn.quantize(model, 4, scheme="int8")
    with pytest.raises(ShapeError, match="quantize: group must be a positive integer, got 0"):
        tg.nn.quantize(model, group=0)
    with pytest.raises(ParameterError, match=r"quantize: 'head' matches no tg\.nn\.Linear; the nearest are layers\.0"):
        tg.nn.quantize(model, only="head")
    with pytest.raises(ParameterError, match=r"quantize: layers\.0 is declared and has no values"):
        tg.nn.quantize(Layers(24, 16))
    with pytest.raises(ParameterError, match="dequantize: the model has no quantized layers"):
        tg.nn.dequantize(model)
    assert list(model.named_parameters()) == ["layers.0.weight", "layers.0.bias"]
    tg.nn.quantize(model)
    with pytest.raises(ParameterError, match="the weight of a quantized layer is computed"):
        model.layers[0].weight = np.zeros((24, 16))
    words, scales = np.zeros((2, 3), np.uint32), np.zeros((1, 3), np.float32)
    with pytest.raises(DTypeError, match="words are u32 and scales are floats, got i32 and f32"):
        tg.dequantize(words.astype(np.int32), scales)
    with pytest.raises(ShapeError, match=r"the words are \(2, 3\), the scales \(1, 2\)"):
        tg.dequantize(words, scales[:, :2])
    with pytest.raises(ShapeError, match="2 words have 4 codes each, not 9 rows together"):
        tg.dequantize(words, scales, rows=9)
    with pytest.raises(ShapeError, match="8 rows in groups of 4 have not 1 scales"):
        tg.dequantize(words, scales, group=4)
    with pytest.raises(ShapeError, match="dequantize: group must be a positive integer, got 0"):
        tg.dequantize(words, scales, group=0)
    with pytest.raises(OptionError, match="a table of codes has a code for 0, and takes no zeros"):
        tg.dequantize(words, scales, bits=4, zeros=scales)
    with pytest.raises(DTypeError, match="zeros are f16, scales f32"):
        tg.dequantize(words, scales, zeros=scales.astype(np.float16))
    with pytest.raises(ShapeError, match=r"zeros are \(1, 2\), and scales \(1, 3\)"):
        tg.dequantize(words, scales, zeros=scales[:, :2])


def next_token_loss(model: Any, ids: Any) -> Any:
    return tg.cross_entropy(tg.reshape(model(ids[:, :-1]), (-1, 32)), tg.reshape(ids[:, 1:], (-1,)))


def adapted_llama(bits: int) -> tg.nn.Module:
    model = tg.models.LlamaForCausalLM(LLAMA).initialized(0)
    tg.nn.quantize(model, bits, only="*_proj")
    tg.nn.lora(model, rank=4, only="*_proj")
    return model.initialized(1)


@pytest.mark.parametrize(
    "device", ["numpy", *(pytest.param(device, marks=pytest.mark.nightly) for device in ("cpu", "wgpu"))]
)
def test_adapters_of_a_quantized_llama_train(device: tg.DeviceName) -> None:
    model = adapted_llama(4)
    before = {path: np.array(value) for path, value in model.named_buffers().items()}
    ids = np.random.default_rng(0).integers(0, 32, (2, 9)).astype(np.int32)
    training = tg.compile(
        model, loss=next_token_loss, optimizer=tg.optim.adam(0.02), inputs={"ids": tg.like(ids)}, device=device
    )
    losses = [float(training.step(ids=ids)) for _ in range(8)]
    assert losses[-1] < losses[0] - 0.1
    after: Any = training.model()
    assert len(before) == 2 * 7 * LLAMA.num_hidden_layers
    for path, value in after.named_buffers().items():
        np.testing.assert_array_equal(np.asarray(value), before[path])
    trained = [path for path, value in after.named_parameters().items() if value.trainable]
    assert trained and all(".adapters." in path for path in trained)
    merged = tg.nn.merge_lora(after)
    assert not merged.named_buffers()
    np.testing.assert_allclose(np.asarray(merged(ids)), np.asarray(after(ids)), rtol=1e-3, atol=1e-4)
