"""Methods of a training other than `step`: metrics, many steps, averages, other shapes, captures, coroutines."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from models import MLP, batch, compiled, squared_error

import tensorgrad as tg
from tensorgrad.driver import device as devices
from tensorgrad.errors import InputError, NoAdapterError, OptionError, ParameterError, TraceError

pytestmark = pytest.mark.usefixtures("kept_programs")

untyped: Any = tg
"""The package as code without types calls it."""

DEVICES = ["numpy", "cpu", "wgpu"]


def with_metrics(model: Any, x: Any, y: Any) -> Any:
    predicted = model(x)
    loss = tg.mse(predicted, y)
    parts = {"largest": tg.max(predicted), "signs": [predicted > 0, tg.argmax(predicted, axis=1)]}
    return loss, {"loss again": loss, "bias": model.layers[1].bias, "parts": parts, "three": 3}


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("device", DEVICES)
def test_metrics_are_of_the_same_step(device):
    training, plain = compiled(loss=with_metrics, device=device), compiled(device=device)
    assert training.stats()["submits"] == plain.stats()["submits"]
    results, expected = [], []
    for number in range(3):
        w, x = training.parameters(), batch(number)["x"]
        hidden = np.tanh(x @ w["layers.0.weight"] + w["layers.0.bias"])
        expected.append((hidden @ w["layers.1.weight"] + w["layers.1.bias"], w["layers.1.bias"]))
        results.append(training.step(**batch(number)))
    for number, ((loss, metrics), (predicted, bias)) in enumerate(zip(results, expected, strict=True)):
        assert float(loss) == pytest.approx(float(plain.step(**batch(number))), rel=1e-5)
        assert list(metrics) == ["bias", "loss again", "parts", "three"]
        assert isinstance(metrics["bias"], tg.Array) and np.array_equal(metrics["bias"], bias)
        assert float(metrics["loss again"]) == float(loss) and int(metrics["three"]) == 3
        assert float(metrics["parts"]["largest"]) == pytest.approx(predicted.max(), rel=1e-4)
        signs, best = metrics["parts"]["signs"]
        assert np.array_equal(signs, predicted > 0) and np.array_equal(best, predicted.argmax(axis=1))


def test_a_pair_of_losses_is_refused():
    with pytest.raises(TraceError, match=r"metrics go into a dict: return loss, \{'name'"):
        compiled(loss=lambda model, x, y: (tg.mean(x), tg.mean(y)))
    with pytest.raises(TraceError, match="returned str"):
        compiled(loss=lambda model, x, y: (tg.mean(x), {"name": "text"}))


@pytest.mark.in_turns(2, 1)
@pytest.mark.parametrize("device", DEVICES)
def test_many_steps_are_those_one_by_one(device):
    training, other = compiled(loss=with_metrics, device=device), compiled(loss=with_metrics, device=device)
    losses, metrics = training.run(5, (batch(number) for number in range(100)))
    assert losses.shape == (5,) and losses.dtype == np.float32 and training.step_count == 5
    assert metrics["bias"].shape == (5, 2) and metrics["parts"]["signs"][0].dtype == bool
    assert losses.tolist() == [float(other.step(**batch(number))[0]) for number in range(5)]
    again = training.run(2, batch(7))[0]
    assert again.tolist() == [float(other.step(**batch(7))[0]) for _ in range(2)]


def test_many_steps_read_seldom(monkeypatch):
    training = compiled(device="wgpu")
    executable: Any = training._executable
    device = executable.device
    reads: list[int] = []
    read = type(device).read_ranges
    monkeypatch.setattr(
        type(device),
        "read_ranges",
        lambda self, ranges, *doing: reads.append(len(ranges)) or read(self, ranges, *doing),
    )
    losses = training.run(150, batch())
    assert sum(reads) == 150 and len(reads) == 3
    assert np.all(np.diff(losses) < 0)


def test_run_refuses():
    training = compiled()
    with pytest.raises(InputError, match="the data ended after 2 of 3 steps"):
        training.run(3, [batch(0), batch(1)])
    assert training.step_count == 2
    wrong: list[Any] = [0, -1, 1.5, True]
    for steps in wrong:
        with pytest.raises(OptionError, match="steps must be a positive integer"):
            training.run(steps, batch())
    with pytest.raises(TraceError, match="run inside a trace"):
        tg.trace(lambda x: training.run(1, batch()), (1,))
    assert training.step_count == 2


def errors(model: Any, x: Any, y: Any) -> Any:
    off = tg.mean((model(x) - y) ** 2, axis=1)
    return {"mse": tg.mean(off), "by output": tg.mean((model(x) - y) ** 2, axis=0)}


def weighted_errors(model: Any, x: Any, y: Any, mask: Any) -> Any:
    return tg.sum(tg.mean((model(x) - y) ** 2, axis=1) * mask) / tg.sum(mask)


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("device", DEVICES)
def test_an_average_over_batches(device):
    training = compiled(device=device)
    generator = np.random.default_rng(0)
    x, y = (generator.normal(size=(11, size)).astype(np.float32) for size in (3, 2))
    parts = [{"x": x[i : i + 4], "y": y[i : i + 4]} for i in range(0, 11, 4)]
    whole = training.attach(errors, inputs={"x": (11, 3), "y": (11, 2)})(x=x, y=y)
    means = training.evaluate(errors, parts)
    assert isinstance(means["mse"], float) and means["mse"] == pytest.approx(float(whole["mse"]), rel=1e-5)
    assert np.allclose(means["by output"], whole["by output"], rtol=1e-5)
    assert training.step_count == 0

    padded = [
        {
            name: np.concatenate([values, np.full((4 - len(values), values.shape[1]), 7.0)])
            for name, values in part.items()
        }
        | {"mask": np.arange(4) < len(part["x"])}
        for part in parts
    ]
    evaluated = training.attach(weighted_errors, inputs={"x": (4, 3), "y": (4, 2), "mask": 4})
    masked = training.evaluate(evaluated, padded, weight="mask")
    assert masked == pytest.approx(float(whole["mse"]), rel=1e-5)
    assert evaluated.specializations == 1
    training.step(**batch())
    assert training.evaluate(errors, parts)["mse"] != means["mse"]


def test_a_batch_of_weight_zero_is_left_out():
    training = compiled()
    full = {**batch(), "mask": np.ones(4)}
    empty = {name: values[:0] for name, values in full.items()}
    expected = training.evaluate(weighted_errors, [full])
    for batches in ([full, empty], [empty, full], [full, {**full, "mask": np.zeros(4)}]):
        assert training.evaluate(weighted_errors, batches, weight="mask") == expected
    assert training.evaluate(weighted_errors, [empty, full]) == expected
    with pytest.raises(InputError, match=r"the batches count 0\.0"):
        training.evaluate(weighted_errors, [empty])


def test_evaluation_compiles_once_for_each_shape():
    training, calls = compiled(), []

    def counted(model: Any, x: Any) -> Any:
        calls.append(x.shape)
        return tg.mean(model(x))

    for _ in range(2):
        training.evaluate(counted, [{"x": np.ones((4, 3))}, {"x": np.ones((4, 3))}, {"x": np.ones((1, 3))}])
    assert calls == [(4, 3), (1, 3)]


class Scaled:
    """A function with settings, by which its subclasses are compared."""

    factor: float
    traced: ClassVar[list[Scaled]] = []

    def __call__(self, model: Any, x: Any) -> Any:
        self.traced.append(self)
        return tg.mean(model(x)) * self.factor


@dataclass
class Unhashable(Scaled):
    factor: float


@dataclass(frozen=True)
class Hashable(Scaled):
    factor: float


def test_functions_that_are_dataclasses_are_evaluated():
    training, batches = compiled(), [{"x": np.ones((4, 3))}]
    Scaled.traced.clear()
    first, second, zero, negative = Unhashable(1.0), Unhashable(1.0), Hashable(0.0), Hashable(-0.0)
    for function in (first, second, first, second, zero, negative, zero):
        training.evaluate(function, batches)
    assert list(map(id, Scaled.traced)) == list(map(id, (first, second, zero, negative)))


def test_evaluate_refuses():
    training = compiled()
    with pytest.raises(InputError, match="there are no batches"):
        training.evaluate(errors, [])
    with pytest.raises(InputError, match="x has 4, y has 3; give weight="):
        training.evaluate(lambda model, x, y: tg.mean(x) + tg.mean(y), [{"x": np.ones(4), "y": np.ones(3)}])
    with pytest.raises(InputError, match="weight 'w' is not an input"):
        training.evaluate(errors, [batch()], weight="w")
    with pytest.raises(InputError, match=r"the batches count 0\.0"):
        training.evaluate(weighted_errors, [{**batch(), "mask": np.zeros(4)}], weight="mask")
    with pytest.raises(InputError, match="arguments"):
        training.evaluate(errors, [{"x": np.ones((4, 3))}])


@pytest.mark.in_turns(2, 1)
@pytest.mark.parametrize("device", DEVICES)
def test_another_leading_extent(device):
    training = compiled(device=device)
    predict = training.attach(lambda model, x: model(x), inputs={"x": (4, 3)})
    x = np.random.default_rng(1).normal(size=(9, 3)).astype(np.float32)
    whole = np.asarray(predict(x=x))
    assert whole.shape == (9, 2) and predict.specializations == 2
    for size in (4, 9, 1):
        assert np.allclose(predict(x=x[:size]), whole[:size], atol=1e-6)
    assert predict.specializations == 3 and np.asarray(predict(x=x[:0])).shape == (0, 2)
    training.step(**batch())
    assert not np.allclose(predict(x=x), whole)


def test_what_is_no_leading_extent_is_refused():
    training = compiled()
    calls: list[Any] = []

    def forward(model: Any, x: Any, y: Any, scale: Any) -> Any:
        calls.append(x.shape)
        return model(x) * scale + y

    predict = training.attach(forward, inputs={"x": (4, 3), "y": (4, 2), "scale": ()})
    good = {**batch(), "scale": 1.0}
    for changed, message in [
        ({"x": np.ones((4, 4))}, r"input 'x' has shape \(4, 4\), expected \(4, 3\)"),
        ({"x": np.ones(3)}, r"input 'x' has shape \(3,\)"),
        ({"scale": np.ones(2)}, r"input 'scale' has shape \(2,\), expected \(\)"),
        ({"x": np.ones((5, 3)), "y": np.ones((5, 2), complex)}, "input 'y' is complex128"),
        ({"x": np.ones((5, 3))}, "'x' and 'y' were declared with one leading extent, now they have 5 and 4"),
        ({"x": [[1], [1, 2]]}, "input 'x' is not an array"),
    ]:
        with pytest.raises(InputError, match=message):
            predict(**{**good, **changed})
    with pytest.raises(InputError, match="unknown input 'z'"):
        predict(**good, z=1)
    with pytest.raises(InputError, match="missing input 'scale'"):
        predict(**batch())
    assert calls == [(4, 3)]


def test_shapes_left_to_the_calls():
    training = compiled()
    predict = training.attach(lambda model, x: model(x))
    for read in (lambda: predict.stats(), lambda: predict.device, lambda: predict.module()):
        with pytest.raises(InputError, match="call it first"):
            read()
    assert predict(x=np.ones((2, 3))).shape == (2, 2) and predict(x=np.ones((5, 2, 3), int)).shape == (5, 2, 2)
    assert predict.specializations == 2 and "tensor<5x2x3xi32>" in predict.module("traced")
    changed: Any = training._source.model
    changed.layers.append(tg.nn.Linear(2, 2))
    with pytest.raises(ParameterError, match=r"changed since tg\.compile"):
        predict(x=np.ones((7, 3)))


class Watched(MLP):
    """A model that captures the values of its layers."""

    def __call__(self, x: Any) -> Any:
        for i, layer in enumerate(self.layers):
            x = tg.capture(f"layers.{i}", tg.tanh(layer(x)))
            tg.capture("any", x)
        return x


@pytest.mark.in_turns(2, 1)
@pytest.mark.parametrize("device", DEVICES)
def test_captures(device):
    training, plain = compiled(model=Watched(3, 5, 2), device=device), compiled(device=device, model=Watched(3, 5, 2))
    before, stats = training.parameters(), training.stats()
    captures = training.capture("layers.*", **batch())
    assert list(captures) == ["layers.0", "layers.1"]
    expected = batch()["x"]
    for i in range(2):
        expected = np.tanh(expected @ before[f"layers.{i}.weight"] + before[f"layers.{i}.bias"])
        assert np.allclose(captures[f"layers.{i}"], expected, atol=1e-5)
    assert np.array_equal(training.capture(["any_1"], **batch())["any_1"], captures["layers.1"])
    assert training.step_count == 0 and training.stats()["dispatches"] == stats["dispatches"]
    assert float(training.step(**batch())) == float(plain.step(**batch()))
    assert not np.allclose(training.capture("layers.*", **batch())["layers.0"], captures["layers.0"])
    assert sum(map(len, training._functions._captures.values())) == 2


def test_captures_cost_nothing_when_absent():
    class Silent(MLP):
        def __call__(self, x: Any) -> Any:
            for layer in self.layers:
                x = tg.tanh(layer(x))
            return x

    assert compiled(model=Watched(3, 5, 2)).module("tg") == compiled(model=Silent(3, 5, 2)).module("tg")
    x = np.ones(3)
    assert tg.capture("h", x) is x


def test_captures_are_refused():
    training = compiled(model=Watched(3, 5, 2))
    with pytest.raises(InputError, match=r"captures nothing called 'h'; there is layers\.0, any, layers\.1, any_1"):
        training.capture(["any", "h"], **batch())
    with pytest.raises(InputError, match="there is none"):
        compiled().capture("h", **batch())
    with pytest.raises(InputError, match=r"takes a name or several, got \[\]"):
        training.capture([], **batch())
    with pytest.raises(InputError, match="missing input 'y'"):
        training.capture("any", x=batch()["x"])

    def inner(model: Any, x: Any, y: Any) -> Any:
        scale = tg.grad(lambda s: tg.mean(tg.capture("outer", tg.capture("stand-in", s) * x)))(y[0, 0])
        total, _ = tg.scan(lambda carry, row: (tg.capture("in the loop", carry + row), carry), tg.zeros(3), x)
        return squared_error(model, x, y) * scale * tg.capture("behind it", tg.sum(total))

    training = compiled(loss=inner)
    with pytest.raises(TraceError, match=rf"{re.escape(__file__)}:\d+: capture: 'stand-in' exists only inside"):
        training.capture("*", **batch())
    with pytest.raises(TraceError, match="'in the loop' exists only inside"):
        training.capture("in*", **batch())
    captures = training.capture(["outer", "behind it"], **batch())
    x, y = batch().values()
    assert np.allclose(captures["outer"], y[0, 0] * x) and float(captures["behind it"]) == pytest.approx(
        x.sum(), rel=1e-4
    )
    with pytest.raises(TraceError, match="the name must be a string"):
        untyped.capture(3, 4)


def noisy(model: Any, x: Any, y: Any, key: Any) -> Any:
    noise = tg.capture("noise", tg.random.normal(key, y.shape))
    return squared_error(model, x, y + noise)


@pytest.mark.in_turns(2, 1)
@pytest.mark.parametrize("device", DEVICES)
def test_reset(device):
    training, fresh = (compiled(loss=noisy, device=device, seed=3) for _ in range(2))
    start = training.parameters()
    noise = np.asarray(training.capture("noise", **batch())["noise"])
    first = training.run(4, batch())
    training.set_learning_rate(0.5)
    training.reset()
    assert training.step_count == 0 and training.learning_rate == fresh.learning_rate
    assert all(np.array_equal(training.parameters()[path], values) for path, values in start.items())
    assert training.run(4, batch()).tolist() == first.tolist() == fresh.run(4, batch()).tolist()
    training.reset(seed=4)
    other = compiled(loss=noisy, device=device, seed=4)
    assert not np.array_equal(training.capture("noise", **batch())["noise"], noise)
    assert training.run(4, batch()).tolist() == other.run(4, batch()).tolist()
    fraction: Any = 0.5
    with pytest.raises(OptionError, match="seed must be an integer"):
        training.reset(seed=fraction)
    assert training.step_count == 4


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("device", DEVICES)
def test_coroutines(device):
    training, other = compiled(device=device), compiled(device=device)
    expected = [float(other.step(**batch())) for _ in range(20)]
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    async def steps(count: int) -> list[float]:
        return [float(await training.step_async(**batch())) for _ in range(count)]

    async def main() -> list[float]:
        ticking = asyncio.ensure_future(tick())
        losses = await asyncio.gather(steps(8), steps(7))
        handle = training.step(**batch())
        assert await handle is handle
        late = [training.step(**batch()) for _ in range(4)]
        values = await asyncio.gather(*late)
        ticking.cancel()
        return sorted([*losses[0], *losses[1], float(handle), *map(float, values)], reverse=True)

    assert asyncio.run(main()) == expected
    assert training.step_count == 20 and ticks > 0


def test_a_coroutine_that_is_cancelled():
    training = compiled(device="wgpu")

    async def main() -> float:
        waiting = asyncio.ensure_future(training.step_async(**batch()))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        return float(await training.step(**batch()))

    loss, other = asyncio.run(main()), compiled(device="wgpu")
    assert [float(other.step(**batch())) for _ in range(2)][1] == loss


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("device", DEVICES)
def test_awaited_steps_leave_nothing_to_the_collector(device):
    training = compiled(loss=with_metrics, device=device)
    inputs = batch()

    async def steps(count: int) -> None:
        for _ in range(count):
            await training.step_async(**inputs)

    asyncio.run(steps(20))
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        asyncio.run(steps(200))
        objects = len(gc.get_objects()) - before
    finally:
        gc.enable()
    assert objects < 100  # what an event loop leaves; one cycle a step would be 200 objects


def test_auto_says_that_it_is_the_cpu(monkeypatch, caplog):
    class Without:
        def __init__(self, software: bool | None):
            raise NoAdapterError("none")

    monkeypatch.setattr("tensorgrad.runtime.webgpu.WebGPUDevice", Without)
    devices._fall_back.cache_clear()
    with caplog.at_level(logging.INFO, "tensorgrad"):
        trainings = [compiled(device="auto"), compiled(device="auto")]
    assert [record.levelname for record in caplog.records if "auto" in record.getMessage()] == ["INFO"]
    assert "runs on the CPU: there is no hardware adapter" in caplog.text
    assert "(auto: no hardware adapter)" in repr(trainings[1]) and trainings[1].device.startswith("cpu (")
    assert "auto" not in repr(compiled(device="numpy"))
