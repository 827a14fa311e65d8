"""Buffers: state that a loss assigns to, on both kinds of device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.errors import (
    DTypeError,
    OptionError,
    ParameterError,
    PartialStateWarning,
    ShapeError,
    TensorgradError,
    TraceError,
)
from tensorgrad.runtime.program import Program

DEVICES = ["numpy", "cpu", "wgpu"]
Loss = Callable[..., Any]

untyped: Any = tg
"""The package as code without types calls it."""


class Centred(tg.nn.Module):
    """A weight, a running mean of its inputs, and their count."""

    def __init__(self) -> None:
        super().__init__()
        self.w = tg.nn.param(3, init=1.0)
        self.mean = tg.nn.buffer(3)
        self.other = tg.nn.buffer(3, init=np.array([1.0, 2.0, 3.0]))
        self.count = tg.nn.buffer((), dtype="i32")


def tracked(model: Any, x: Any) -> Any:
    model.mean.assign(0.5 * model.mean + 0.5 * tg.mean(x, 0))
    model.count.assign(model.count + 1)
    return tg.mean((x * model.w - model.mean) ** 2)


def training(loss: Loss = tracked, device: tg.DeviceName = "numpy", **options: Any) -> tg.Training:
    settings: dict[str, Any] = {"optimizer": tg.optim.sgd(0.1), "inputs": {"x": (4, 3)}, **options}
    return tg.compile(Centred(), loss=loss, device=device, **settings)


def batches(count: int) -> list[np.ndarray]:
    return list(np.random.default_rng(0).normal(size=(count, 4, 3)).astype(np.float32))


@pytest.mark.in_turns(2, 1)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("optimizer", [tg.optim.sgd(0.1), tg.optim.adam(0.1, clip_norm=1.0)], ids=["sgd", "clipped"])
def test_the_next_step_reads_what_this_one_assigned(device: tg.DeviceName, optimizer: Any) -> None:
    program, expected = training(device=device, optimizer=optimizer), np.zeros(3, np.float32)
    for number, x in enumerate(batches(4), 1):
        weight = program.parameters()["w"]
        loss = float(program.step(x=x))
        expected = 0.5 * expected + 0.5 * x.mean(0)
        assert np.isclose(loss, ((x * weight - expected) ** 2).mean(), rtol=1e-5)
        buffers = program.buffers()
        assert np.allclose(buffers["mean"], expected, atol=1e-6) and buffers["count"] == number
        assert buffers["count"].dtype == np.int32 and buffers["other"].tolist() == [1, 2, 3]


@pytest.mark.parametrize("device", DEVICES)
def test_assignments_go_one_upon_the_other_and_may_swap(device: tg.DeviceName) -> None:
    def loss(model: Any, x: Any) -> Any:
        mean, other = model.mean + 0.0, model.other + 0.0
        model.mean.assign(other)
        model.other.assign(mean)
        model.count.assign(model.count + 1)
        model.count.assign(model.count * 10)
        return tg.mean(x * model.w) + tg.sum(model.mean)

    program = training(loss, device)
    x = batches(1)[0]
    first = program.step(x=x)
    assert np.isclose(float(first), x.mean() + 6, rtol=1e-5)
    buffers = program.buffers()
    assert (buffers["mean"].tolist(), buffers["other"].tolist(), buffers["count"]) == ([1, 2, 3], [0, 0, 0], 10)
    program.step(x=x)
    buffers = program.buffers()
    assert (buffers["mean"].tolist(), buffers["other"].tolist(), buffers["count"]) == ([0, 0, 0], [1, 2, 3], 110)


@pytest.mark.parametrize("device", DEVICES)
def test_buffers_may_swap_as_they_are_and_take_numbers_and_inputs(device: tg.DeviceName) -> None:
    def loss(model: Any, x: Any) -> Any:
        model.other.assign(x[0])
        model.mean.assign(2)
        model.count.assign(7)
        return tg.mean(x * model.w), {"other": model.other, "count": model.count}

    program = training(loss, device)
    x = batches(1)[0]
    _, metrics = program.step(x=x)
    buffers = program.buffers()
    assert np.array_equal(buffers["other"], x[0]) and buffers["mean"].tolist() == [2, 2, 2] and buffers["count"] == 7
    assert np.array_equal(metrics["other"], x[0]) and int(metrics["count"]) == 7


@pytest.mark.parametrize("device", DEVICES)
def test_attached_functions_and_captures_read_and_change_nothing(device: tg.DeviceName) -> None:
    def loss(model: Any, x: Any) -> Any:
        result = tracked(model, x)
        tg.capture("mean", model.mean)
        return result

    program = training(loss, device, optimizer=tg.optim.adam(0.1))
    look = program.attach(lambda model: {"mean": model.mean + 0.0, "both": model.other * model.w, "n": model.count})
    some = batches(3)
    for number, x in enumerate(some, 1):
        program.step(x=x)
        results = look()
        assert np.array_equal(results["mean"], program.buffers()["mean"]) and int(results["n"]) == number
        assert np.array_equal(results["both"], np.array([1, 2, 3], np.float32) * program.parameters()["w"])
    before = program.state_dict()
    captured = program.capture("mean", x=some[0])["mean"]
    assert np.allclose(captured, 0.5 * before["mean"] + 0.5 * some[0].mean(0), atol=1e-6)
    assert all(np.array_equal(before[name], value) for name, value in program.state_dict().items())


@pytest.mark.in_turns(2, 1)
@pytest.mark.parametrize("device", DEVICES)
def test_state_is_kept_with_the_parameters(device: tg.DeviceName, tmp_path: Path) -> None:
    some, program = batches(4), training(device=device, optimizer=tg.optim.adam(0.1))
    start = program.state_dict()
    assert {"w", "mean", "other", "count"} <= start.keys() and "optimizer/adam.m/mean" not in start
    for x in some[:2]:
        program.step(x=x)
    program.save_checkpoint(tmp_path / "checkpoint")
    for x in some[2:]:
        program.step(x=x)
    after = program.state_dict()
    again = training(device=device, optimizer=tg.optim.adam(0.1))
    again.load_checkpoint(tmp_path / "checkpoint")
    for x in some[2:]:
        again.step(x=x)
    assert all(np.array_equal(after[name], value) for name, value in again.state_dict().items())
    again.reset()
    assert all(np.array_equal(start[name], value) for name, value in again.state_dict().items())
    program.save(tmp_path / "program")
    loaded, values = Program.load(tmp_path / "program")
    assert loaded.slots("state").keys() >= {"mean", "other", "count"}
    assert np.array_equal(values["mean"], after["mean"]) and values["count"] == 4
    with pytest.warns(PartialStateWarning, match="leaves the buffers other, count as they are"):
        again.load_parameters({"w": after["w"], "mean": after["mean"]})
    assert np.array_equal(again.buffers()["mean"], after["mean"]) and again.buffers()["count"] == 0


def test_state_beside_loops_and_recomputation_on_the_device() -> None:
    def loss(model: Any, x: Any) -> Any:
        for _ in range(4):
            x = tg.tanh(x * model.w)
        total, _ = tg.scan(lambda carry, row: (carry + row * model.mean, None), np.zeros(3, np.float32), x)
        model.mean.assign(model.mean + tg.mean(x, 0))
        return tg.sum(total**2) + tg.mean(x)

    reference, program = training(loss), training(loss, "wgpu")
    limited = training(loss, "wgpu", memory_limit=program.stats()["peak_bytes"])
    for x in batches(3):
        expected = float(reference.step(x=x))
        assert np.isclose(float(program.step(x=x)), expected, rtol=1e-5)
        assert np.isclose(float(limited.step(x=x)), expected, rtol=1e-5)
    for other in (program, limited):
        assert np.allclose(other.buffers()["mean"], reference.buffers()["mean"], rtol=1e-5)
        assert np.allclose(other.parameters()["w"], reference.parameters()["w"], rtol=1e-5)


def test_state_is_a_constant_to_derivatives() -> None:
    def loss(model: Any, x: Any) -> Any:
        model.mean.assign(model.w * 2)
        return tg.sum(model.mean * model.w) + 0 * tg.sum(x)

    program = training(loss)
    program.step(x=batches(1)[0])
    assert np.allclose(program.parameters()["w"], 1 - 0.1 * 2)


def test_shared_modules_have_one_buffer_and_jitted_functions_assign_as_others() -> None:
    class Twice(tg.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = Centred()
            self.second = [self.first]

    model = Twice()
    assert list(model.named_buffers()) == ["first.mean", "first.other", "first.count"]
    assert "count: buffer i32[]" in repr(model) and "Twice: 3 parameters" in repr(model)

    @tg.jit
    def advance(model: Any) -> Any:
        model.count.assign(model.count + 1)
        return tg.mean(model.w)

    program = tg.compile(
        model,
        loss=lambda model, x: advance(model.first) + advance(model.second[0]) + tg.mean(x),
        optimizer=tg.optim.sgd(0.1),
        inputs={"x": (2,)},
        device="numpy",
    )
    program.step(x=np.ones(2, np.float32))
    assert program.buffers()["first.count"] == 2


def _in_grad(model: Any, x: Any) -> Any:
    def inner(w: Any) -> Any:
        model.mean.assign(w)
        return tg.sum(w)

    return tg.sum(tg.grad(inner)(model.w)) + tg.mean(x)


def _in_scan(model: Any, x: Any) -> Any:
    def body(carry: Any, row: Any) -> Any:
        model.mean.assign(row)
        return carry, None

    tg.scan(body, 0.0, x)
    return tg.mean(x * model.w)


def _replaced(model: Any, x: Any) -> Any:
    model.mean = tg.mean(x, 0)
    return tg.mean(x * model.w)


def _assigning(name: str, value: Any) -> Loss:
    def loss(model: Any, x: Any) -> Any:
        getattr(model, name).assign(value(x) if callable(value) else value)
        return tg.mean(x * model.w)

    return loss


@pytest.mark.parametrize(
    ("loss", "kind", "message"),
    [
        (_in_grad, TraceError, "buffer 'mean' is assigned inside grad"),
        (_in_scan, TraceError, "buffer 'mean' is assigned inside scan"),
        (_replaced, ParameterError, "set its buffers by assign: removed mean"),
        (_assigning("mean", lambda x: x), ShapeError, r"buffer 'mean' has shape \(3,\), the value \(4, 3\)"),
        (_assigning("count", lambda x: tg.mean(x)), DTypeError, "buffer 'count' is i32, the value f32"),
        (_assigning("count", 0.5), DTypeError, "buffer 'count' is i32, which 0.5 does not fit"),
        (_assigning("count", 1 << 40), DTypeError, "does not fit"),
    ],
)
def test_wrong_assignments(loss: Loss, kind: type[TensorgradError], message: str) -> None:
    with pytest.raises(kind, match=message) as raised:
        training(loss)
    assert "test_state.py" in str(raised.value)


def test_buffers_are_changed_by_losses_alone() -> None:
    program = training()
    with pytest.raises(ParameterError, match=r"only the loss of tg\.compile changes buffers.*tg\.nn\.inference"):
        program.attach(tracked, inputs={"x": (4, 3)})
    with pytest.raises(ParameterError, match="has no values"):
        Centred().mean.assign(0)
    models: list[Any] = []

    def leaking(model: Any, x: Any) -> Any:
        models.append(model)
        return tg.mean(x * model.w)

    training(leaking)
    with pytest.raises(TraceError, match="after that trace ended"):
        models[0].mean.assign(0)
    with pytest.raises(ParameterError, match="has no values"):
        tg.trace(lambda model, x: x + model.mean, Centred(), (4, 3))


def test_wrong_declarations() -> None:
    with pytest.raises(DTypeError, match="a buffer holds numbers, not bool"):
        tg.nn.buffer(3, dtype="bool")
    with pytest.raises(OptionError, match=r"init has shape \(2,\)"):
        tg.nn.buffer(3, init=np.zeros(2))
    with pytest.raises(ParameterError, match=r"the model must be a tg\.nn\.Module"):
        untyped.nn.inference([tg.nn.Dropout()])
