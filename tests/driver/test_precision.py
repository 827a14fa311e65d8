"""`precision=`: which values are stored as f16, the memory saved, the error, and what is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from models import MLP, compiled

import tensorgrad as tg
from benchmarks.workloads import convnet, gpt
from benchmarks.workloads.transformer import Transformer
from tensorgrad.errors import OptionError, ProgramError

HALF_EPSILON = 2.0**-11
DEVICES = ["numpy", "cpu", "wgpu"]


class Images(tg.nn.Module):
    """Convolutions with biases, pooled: the derivative depends on which element of a window is the largest."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = tg.nn.Conv2d(1, 8, 3, padding=1), tg.nn.Conv2d(8, 8, 3, padding=1)
        self.norm = tg.nn.LayerNorm(8 * 4 * 4)
        self.head = tg.nn.Linear(8 * 4 * 4, 10)

    def __call__(self, x: Any) -> Any:
        for convolution in (self.first, self.second):
            x = tg.max_pool(tg.relu(convolution(x)), 2)
        return self.head(self.norm(x.reshape(-1, 8 * 4 * 4)))


def read(model: Any, x: Any, y: Any) -> Any:
    return tg.cross_entropy(model(x), y)


def images(count: int = 32) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(count, 1, 16, 16)).astype(np.float32)
    return {"x": x, "y": generator.integers(0, 10, count).astype(np.int32)}


def of_images(**options: Any) -> tg.Training:
    settings: dict[str, Any] = {"optimizer": tg.optim.sgd(1.0), "device": "wgpu", **options}
    return tg.compile(Images(), loss=read, inputs={"x": (32, 1, 16, 16), "y": tg.spec(32, "i32")}, **settings)


def predict(model: Any, tokens: Any, following: Any) -> Any:
    return tg.cross_entropy(model(tokens), following)


def of_text(**options: Any) -> tuple[tg.Training, dict[str, np.ndarray]]:
    """A transformer whose attention is one kernel, with a batch."""
    text = np.random.default_rng(1).integers(0, 32, (4, 65)).astype(np.int32)
    settings: dict[str, Any] = {"optimizer": tg.optim.sgd(1.0), "device": "wgpu", **options}
    shape = tg.spec((4, 64), "i32")
    training = tg.compile(
        Transformer(32, 64, 64, 4, 1), loss=predict, inputs={"tokens": shape, "following": shape}, **settings
    )
    return training, {"tokens": text[:, :-1], "following": text[:, 1:]}


def gradients(training: tg.Training, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the change of the parameters by one step of gradient descent with rate 1."""
    before = training.parameters()
    training.step(**batch)
    after = training.parameters()
    return {path: before[path].astype(np.float64) - after[path] for path in before}


def distance(actual: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> float:
    """Returns the relative distance between all gradients together."""
    difference = sum(float(np.sum((actual[path] - expected[path]) ** 2)) for path in expected)
    return (difference / sum(float(np.sum(gradient**2)) for gradient in expected.values())) ** 0.5


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("build", "peak", "moved"),
    [(partial(gpt.build, layers=2), 0.70, 0.80), (convnet.build, 0.88, 0.85)],
    ids=["gpt", "convnet"],
)
def test_a_step_takes_and_moves_fewer_bytes(build: Any, peak: float, moved: float) -> None:
    f32, f16, scaled = (
        build("numpy", **options)[0].program_for("lavapipe").statistics
        for options in ({}, {"precision": "f16"}, {"precision": "f16", "loss_scale": 1024.0})
    )
    assert f16["peak_bytes"] <= peak * f32["peak_bytes"]
    assert f16["bytes_moved"] <= moved * f32["bytes_moved"]
    assert scaled["peak_bytes"] <= f16["peak_bytes"]
    assert scaled["bytes_moved"] <= 0.82 * f16["bytes_moved"]


@pytest.mark.nightly
def test_gradients_are_those_of_f32_but_for_roundings() -> None:
    """Within the rounding of activations; units at 0 and ties of maxima may change sides."""
    expected = gradients(of_images(), images())
    assert distance(gradients(of_images(precision="f16"), images()), expected) < 20 * HALF_EPSILON
    scaled = gradients(of_images(precision="f16", loss_scale=1024.0), images())
    assert distance(scaled, expected) < 20 * HALF_EPSILON


@pytest.mark.nightly
def test_gradients_of_a_transformer_are_those_of_f32_but_for_roundings() -> None:
    training, batch = of_text()
    expected = gradients(training, batch)
    assert training.module("buf").count("buf.attention") == 3
    half, _ = of_text(precision="f16", loss_scale=256.0)
    assert re.search(r'buf.attention "forward" ins\(.* : memref<[x0-9]+xf16>', half.module("buf"))
    assert distance(gradients(half, batch), expected) < 4 * HALF_EPSILON


@pytest.mark.nightly
@pytest.mark.parametrize("device", DEVICES)
def test_training_reaches_the_loss_of_f32(device: tg.DeviceName) -> None:
    from sklearn.datasets import load_digits

    pixels, labels = (np.asarray(part)[:512] for part in load_digits(return_X_y=True))
    x, y = (pixels.reshape(-1, 1, 8, 8) / 16).astype(np.float32), labels.astype(np.int32)

    def reached(**options: Any) -> float:
        training = tg.compile(
            Digits(),
            loss=read,
            optimizer=tg.optim.adam(1e-2),
            inputs={"x": (128, 1, 8, 8), "y": tg.spec(128, "i32")},
            device=device,
            **options,
        )
        parts = [slice(start, start + 128) for start in range(0, 512, 128)]
        batches = [{"x": x[part], "y": y[part]} for _ in range(12) for part in parts]
        return float(np.mean(training.run(len(batches), batches)[-4:]))

    expected = reached()
    assert expected < 0.5
    assert reached(precision="f16") == pytest.approx(expected, rel=0.03)
    assert reached(precision="f16", loss_scale=1024.0) == pytest.approx(expected, rel=0.03)


class Digits(tg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = tg.nn.Conv2d(1, 16, 3, padding=1), tg.nn.Linear(16 * 4 * 4, 10)

    def __call__(self, x: Any) -> Any:
        return self.head(tg.max_pool(tg.relu(self.first(x)), 2).reshape(-1, 16 * 4 * 4))


@pytest.mark.nightly
def test_numpy_rounds_what_a_device_rounds() -> None:
    on_devices = [gradients(of_images(device=device, precision="f16"), images()) for device in DEVICES]
    assert all(distance(computed, on_devices[0]) < 1e-3 for computed in on_devices[1:])
    numpy = of_images(device="numpy", precision="f16")
    plain = of_images(device="numpy")
    assert float(numpy.step(**images())) != float(plain.step(**images()))
    assert 0 < numpy.stats()["peak_bytes"] < plain.stats()["peak_bytes"]
    assert 0 < numpy.stats()["bytes_moved"] < plain.stats()["bytes_moved"]
    assert numpy.program.statistics["peak_bytes"] > 0


class Recurrent(tg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.into, self.again, self.out = tg.nn.Linear(8, 32), tg.nn.Linear(32, 32), tg.nn.Linear(32, 4)

    def __call__(self, x: Any) -> Any:
        def step(state: Any, row: Any) -> Any:
            state = tg.tanh(self.into(row) + self.again(state))
            return state, state

        _, states = tg.scan(step, tg.zeros((16, 32)), x)
        return self.out(states)


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("device", DEVICES)
def test_what_a_loop_stacks_is_stored_half_and_what_it_carries_is_not(device: tg.DeviceName) -> None:
    generator = np.random.default_rng(3)
    batch = {"x": generator.normal(size=(12, 16, 8)), "y": generator.normal(size=(12, 16, 4))}
    batch = {name: value.astype(np.float32) for name, value in batch.items()}

    def compiled_loop(**options: Any) -> tg.Training:
        inputs = {"x": (12, 16, 8), "y": (12, 16, 4)}

        def loss(model: Any, x: Any, y: Any) -> Any:
            return tg.mse(model(x), y)

        return tg.compile(Recurrent(), loss=loss, optimizer=tg.optim.sgd(1.0), inputs=inputs, device=device, **options)

    half, plain = compiled_loop(precision="f16"), compiled_loop()
    assert "memref<12x16x32xf16>" in half.module("buf")
    assert distance(gradients(half, batch), gradients(plain, batch)) < 8 * HALF_EPSILON


@pytest.mark.nightly
def test_attached_functions_store_as_the_training_does_unless_told_otherwise() -> None:
    training = of_images(precision="f16")
    inputs = {"x": (32, 1, 16, 16)}
    same = training.attach(lambda model, x: model(x), inputs=inputs)
    full = training.attach(lambda model, x: model(x), inputs=inputs, precision="f32")
    x = images()["x"]
    a, b = np.asarray(same(x=x)), np.asarray(full(x=x))
    assert same.stats()["bytes_moved"] < full.stats()["bytes_moved"]
    assert 0 < np.abs(a - b).max() < 20 * HALF_EPSILON * np.abs(b).max()
    assert "f16" in same.module("wgsl") and "f16" not in full.module("wgsl")


@pytest.mark.parametrize("device", DEVICES)
def test_functions_are_jitted_with_a_precision(device: tg.DeviceName) -> None:
    def f(x: Any, w: Any) -> Any:
        return tg.tanh(x @ w) @ w

    x, w = (np.random.default_rng(i).normal(size=(64, 64)).astype(np.float32) / 8 for i in range(2))
    half, plain = (tg.jit(f, device=device, precision=precision) for precision in ("f16", "f32"))
    difference = np.asarray(half(x, w)) - np.asarray(plain(x, w))
    assert 0 < np.abs(difference).max() < 4 * HALF_EPSILON
    assert "memref<64x64xf16>" in half.module("buf")


@pytest.mark.parametrize("device", DEVICES)
def test_what_f16_cannot_hold_becomes_an_infinity_that_shows(device: tg.DeviceName) -> None:
    f = tg.jit(lambda x, w: tg.sum((x @ w) * 1e-3, -1), device=device, precision="f16")
    g = tg.jit(lambda x, w: tg.sin(x @ w) @ w, device=device, precision="f16")
    x = np.full((64, 64), 100.0, np.float32)
    assert np.isfinite(np.asarray(g(x, x / 1e4))).all()
    assert np.isinf(np.asarray(f(x, x))).all()


def test_a_scale_that_is_too_large_shows() -> None:
    training = of_images(device="numpy", precision="f16", loss_scale=2.0**31)
    training.step(**images())
    assert not all(np.isfinite(value).all() for value in training.parameters().values())


@pytest.mark.nightly
def test_a_memory_limit_and_recomputation_keep_to_it_too() -> None:
    plain = of_images(precision="f16")
    limit = plain.program.statistics["peak_bytes"]
    limited = of_images(precision="f16", memory_limit=limit)
    assert limited.program.statistics["peak_bytes"] <= limit
    assert float(limited.step(**images())) == pytest.approx(float(plain.step(**images())), rel=1e-5)


def test_other_dtypes_stay() -> None:
    f = tg.jit(lambda x, w: tg.tanh(x @ w) @ w, device="numpy", precision="f16")
    x = np.random.default_rng(0).normal(size=(40, 40))
    np.testing.assert_array_equal(np.asarray(f(tg.array(x, "f64"), tg.array(x, "f64"))), np.tanh(x @ x) @ x)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"precision": "f8"}, "tg.compile: precision must be one of f32, f16, bf16, bf16-products, not 'f8'"),
        ({"precision": None}, "precision must be one of"),
        ({"loss_scale": 1024.0}, "loss_scale is for precision"),
        ({"precision": "f16", "loss_scale": 1000.0}, "must be a power of two, such as 1024, got 1000.0"),
        ({"precision": "f16", "loss_scale": 0.0}, "must be a power of two"),
        ({"precision": "f16", "loss_scale": True}, "must be a power of two"),
        ({"precision": "f16", "loss_scale": "1024"}, "must be a power of two"),
    ],
)
def test_bad_settings_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said) as caught:
        compiled(**options)
    assert "models.py" in str(caught.value)


def test_bad_settings_of_other_functions_are_refused() -> None:
    half: Any = "half"
    with pytest.raises(OptionError, match=r"test_precision.py.*jit: precision must be one of"):
        tg.jit(lambda x: x, precision=half)
    with pytest.raises(OptionError, match=r"test_precision.py.*attach: precision must be one of"):
        compiled().attach(lambda model, x: model(x), precision=half)


def test_derivatives_inside_are_refused() -> None:
    """Their cotangents would be stored like other values, and silently underflow."""

    def penalized(model: Any, x: Any, y: Any) -> Any:
        slope = tg.grad(lambda x: tg.sum(model(x)))(x)
        return tg.mse(model(x), y) + tg.mean(slope**2)

    compiled(loss=penalized)
    with pytest.raises(OptionError, match=r"test_precision.py.*tg.compile: a derivative inside"):
        compiled(loss=penalized, precision="f16")
    f = tg.jit(lambda x: tg.vjp(tg.sin, x)[1](x), device="numpy", precision="f16")
    with pytest.raises(OptionError, match="jit: a derivative inside"):
        f(np.ones(3, np.float32))
    f = tg.jit(lambda x: tg.jvp(tg.sin, [x], [x])[1], device="numpy", precision="f16")
    np.testing.assert_allclose(np.asarray(f(np.ones(3, np.float32))), np.cos(1.0), rtol=1e-6)


def test_a_device_without_half_floats_is_named(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "target", replace(device.target, f16=False))
    said = r'precision="f16" needs a device with the feature shader-f16, which .* lacks; leave precision out'
    with pytest.raises(OptionError, match=said):
        compiled(device="wgpu", precision="f16")
    with pytest.raises(OptionError, match=said):
        tg.jit(lambda x: x, device="wgpu", precision="f16")(np.ones(3, np.float32))


def test_a_target_without_half_floats_refuses_the_program() -> None:
    training = tg.compile(
        MLP(64, 64, 64),
        loss=lambda model, x: tg.mean(model(x) ** 2),
        optimizer=tg.optim.sgd(0.1),
        inputs={"x": (32, 64)},
        device="numpy",
        precision="f16",
    )
    assert any("enable f16;" in kernel.code for kernel in training.program.kernels)
    with pytest.raises(ProgramError, match="f16, which webgpu-default does not have"):
        training.program_for("webgpu-default")


@pytest.mark.nightly
@pytest.mark.parametrize("device", DEVICES)
def test_gradients_are_added_up_over_micro_batches_too(device: tg.DeviceName) -> None:
    whole, parts = of_images(device=device, precision="f16"), of_images(device=device, precision="f16", accumulate=2)
    expected = gradients(whole, images())
    before = parts.parameters()
    for _ in range(2):
        parts.step(**images())
    after = parts.parameters()
    assert distance({path: before[path] - after[path] for path in before}, expected) < 1e-3


@pytest.mark.in_turns(2, 1)
@pytest.mark.parametrize("momentum", [0.0, 0.95])
def test_what_optimizers_compute_of_gradients_stays(momentum: float) -> None:
    """Muon's products of gradients have neither the shape of a parameter nor that of a cotangent."""

    class Two(tg.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.into, self.out = (tg.nn.Linear(*sizes, bias=False) for sizes in ((48, 80), (80, 48)))

        def __call__(self, x: Any) -> Any:
            return self.out(tg.gelu(self.into(x)))

    optimizer = tg.optim.muon(1e-2, momentum=momentum, nesterov=momentum > 0)

    def loss(model: Any, x: Any) -> Any:
        return tg.mse(model(x), x)

    options: dict[str, Any] = {"loss": loss, "optimizer": optimizer, "inputs": {"x": (100, 48)}, "device": "numpy"}
    scaled = tg.compile(Two(), precision="f16", loss_scale=1024.0, **options).module("buf")
    assert "memref<48x48xf32>" in scaled and "memref<48x48xf16>" not in scaled
    assert scaled.count("arith.constant 1.024000e+03") > 0
