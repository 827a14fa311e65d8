"""Learning-rate schedules at their boundaries."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.errors import OptionError, ProgramError
from tensorgrad.runtime.formula import Formula

schedules: Any = tg.optim.schedules


def torch_one_cycle(step: int, rate: float, steps: int, rise: float) -> float:
    """Returns PyTorch's OneCycleLR with its default divisors."""
    number, top = step - 1, rise * steps - 1
    initial = rate / 25
    start, end, part = (initial, rate, number / top) if number <= top else (rate, initial / 1e4, 0.0)
    if number > top:
        part = (number - top) / (steps - 1 - top)
    return end + (start - end) / 2 * (1 + math.cos(math.pi * part))


JOINED = schedules.join([schedules.linear(1.0, 4), schedules.constant(2.0, warmup=1), 3.0], [4, 6])
CASES: list[tuple[tg.optim.Schedule, dict[int, float]]] = [
    (schedules.constant(0.5), {1: 0.5, 1000: 0.5}),
    (schedules.constant(0.5, warmup=4), {1: 0.1, 2: 0.2, 4: 0.4, 5: 0.5, 6: 0.5}),
    (schedules.linear(1.0, 4), {1: 1.0, 2: 0.75, 4: 0.25, 5: 0.0, 9: 0.0}),
    (schedules.linear(1.0, 4, end=2.0), {1: 1.0, 3: 1.5, 5: 2.0, 6: 2.0}),
    (schedules.linear(1.0, 6, end=0.5, warmup=2), {1: 1 / 3, 2: 2 / 3, 3: 1.0, 5: 0.75, 7: 0.5, 8: 0.5}),
    (schedules.linear(0.0, 3), {1: 0.0, 4: 0.0}),
    (schedules.cosine(2.0, 10), {1: 2.0, 6: 1.0, 11: 0.0, 12: 0.0}),
    (schedules.cosine(2.0, 10, end=1.0), {1: 2.0, 6: 1.5, 11: 1.0, 99: 1.0}),
    (
        schedules.cosine(3e-4, 1000, warmup=100),
        {
            1: 3e-4 / 101,
            100: 3e-2 / 101,
            101: 3e-4,
            551: 1.5e-4,
            1000: 1.5e-4 * (1 + math.cos(math.pi * 899 / 900)),
            1001: 0.0,
        },
    ),
    (schedules.cosine_restarts(2.0, 4), {1: 2.0, 3: 1.0, 5: 2.0, 7: 1.0, 4_001: 2.0}),
    (schedules.cosine_restarts(2.0, 4, 3, end=1.0), {1: 2.0, 3: 1.5, 5: 2.0, 11: 1.5, 17: 2.0, 35: 1.5, 53: 2.0}),
    (schedules.cosine_restarts(2.0, 4, 2, warmup=1), {1: 1.0, 2: 2.0, 4: 1.0, 6: 2.0, 10: 1.0, 14: 2.0}),
    (schedules.step(1.0, 3, factor=0.5), {1: 1.0, 3: 1.0, 4: 0.5, 6: 0.5, 7: 0.25}),
    (schedules.multi_step(1.0, [2, 5]), {1: 1.0, 2: 1.0, 3: 0.1, 5: 0.1, 6: 0.01, 99: 0.01}),
    (schedules.multi_step(1.0, []), {1: 1.0, 9: 1.0}),
    (schedules.one_cycle(0.4, 20), {step: torch_one_cycle(step, 0.4, 20, 0.3) for step in range(1, 21)}),
    (schedules.one_cycle(0.4, 20, rise=0.25), {6: torch_one_cycle(6, 0.4, 20, 0.25), 21: 0.4 / 25e4, 50: 0.4 / 25e4}),
    (schedules.polynomial(2.0, 4, power=2), {1: 2.0, 2: 1.125, 3: 0.5, 5: 0.0, 9: 0.0}),
    (schedules.polynomial(2.0, 4, power=0.5, end=1.0), {1: 2.0, 2: 1 + math.sqrt(0.75), 5: 1.0, 6: 1.0}),
    (schedules.polynomial(1.0, 6, 3, warmup=2), {1: 1 / 3, 2: 2 / 3, 3: 1.0, 5: 0.125, 7: 0.0}),
    (schedules.polynomial(1.0, 4), {step: schedules.linear(1.0, 4)(step) for step in range(1, 7)}),
    (schedules.exponential(2.0, 10), {1: 2.0, 6: 2 * math.sqrt(0.1), 11: 0.2, 21: 0.02}),
    (schedules.exponential(1.0, 1, 0.5, end=0.2), {1: 1.0, 2: 0.5, 3: 0.25, 4: 0.2, 99: 0.2}),
    (schedules.exponential(1.0, 2, 4.0, end=5.0, warmup=1), {1: 0.5, 2: 1.0, 3: 2.0, 4: 4.0, 5: 5.0}),
    (schedules.piecewise({1: 1e-3, 501: 1e-4}), {1: 1e-3, 500: 1e-3, 501: 1e-4, 9999: 1e-4}),
    (schedules.piecewise({1: 0.0}), {1: 0.0}),
    (schedules.piecewise({100 * k + 1: k + 1.0 for k in range(300)}), {1: 1, 100: 1, 101: 2, 29900: 299, 29901: 300}),
    (JOINED, {1: 1.0, 4: 0.25, 5: 1.0, 6: 2.0, 7: 3.0, 99: 3.0}),
    (schedules.warm_up(schedules.step(1.0, 2, factor=0.5), 3), {1: 0.25, 3: 0.75, 4: 1.0, 5: 1.0, 6: 0.5}),
    (schedules.warm_up(schedules.warm_up(1.0, 1), 1), {1: 0.25, 2: 0.5, 3: 1.0}),
    (schedules.Schedule(0.1, "1 / sqrt(step)"), {1: 0.1, 4: 0.05}),
]


@pytest.mark.parametrize(("schedule", "expected"), CASES)
def test_values(schedule: tg.optim.Schedule, expected: dict[int, float]) -> None:
    for step, rate in expected.items():
        assert schedule(step) == pytest.approx(rate, rel=1e-12, abs=1e-16)
        host = Formula(schedule.formula()).evaluate({"step": step, "learning_rate": schedule.rate})
        assert host == pytest.approx(rate, rel=1e-12, abs=1e-16)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: schedules.constant(-1), "rate"),
        (lambda: schedules.constant(1, warmup=-1), "warmup"),
        (lambda: schedules.linear(1, 0), "steps"),
        (lambda: schedules.linear(1, 2.5), "steps"),
        (lambda: schedules.linear(0, 5, end=1), "end"),
        (lambda: schedules.cosine(1, 5, warmup=5), "warmup"),
        (lambda: schedules.cosine(1, 5, end=math.nan), "end"),
        (lambda: schedules.cosine_restarts(1, 0), "steps"),
        (lambda: schedules.cosine_restarts(1, 5, factor=0), "factor"),
        (lambda: schedules.step(1, 0), "every"),
        (lambda: schedules.step(1, 2, factor=-1), "factor"),
        (lambda: schedules.polynomial(1, 5, -1), "power"),
        (lambda: schedules.polynomial(1, 5, warmup=5), "warmup"),
        (lambda: schedules.exponential(1, 0), "every"),
        (lambda: schedules.exponential(1, 5, factor=0), "factor must be more than 0"),
        (lambda: schedules.exponential(0, 5, end=1), "end"),
        (lambda: schedules.multi_step(1, [3, 3]), "increase"),
        (lambda: schedules.one_cycle(1, 3), "rise"),
        (lambda: schedules.one_cycle(1, 30, start_divisor=0), "start_divisor"),
        (lambda: schedules.piecewise({2: 1.0}), "step 1"),
        (lambda: schedules.piecewise({}), "step 1"),
        (lambda: schedules.piecewise([1.0]), "map steps"),
        (lambda: schedules.join([1.0, 2.0], []), "boundaries"),
        (lambda: schedules.join([1.0, "x"], [3]), "learning_rate"),
        (lambda: schedules.Schedule(1.0, "epoch * 2"), "step alone"),
        (lambda: schedules.Schedule(1.0, "step +"), "formula of step"),
        (lambda: schedules.Schedule(1.0, 3), "formula of step"),
        (lambda: schedules.Schedule(1.0, "1 / (step - 1)")(1), "no value"),
    ],
)
def test_refused(make: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make()


def staircase(step: int) -> float:
    return 0.5 if step <= 2 else 0.25 / step


def test_functions_are_schedules():
    schedule = schedules.from_function(staircase)
    assert [schedule(step) for step in (1, 2, 3)] == [0.5, 0.5, 0.25 / 3]
    warm = schedules.warm_up(staircase, 3)
    assert [warm(step) for step in range(1, 7)] == [0.125, 0.25, 0.375, 0.5, 0.5, 0.25 / 3]
    joined = schedules.join([schedules.linear(1.0, 4), staircase, 3.0], [4, 6])
    formulas = schedules.join([schedules.linear(1.0, 4), 0.5, 3.0], [4, 6])
    assert [joined(step) for step in range(1, 9)] == [formulas(step) for step in range(1, 9)]
    assert joined(7) == 3.0 and schedules.Schedule(2.0, staircase)(3) == 0.5 / 3
    with pytest.raises(OptionError, match="from_function: takes a function of the step, got "):
        schedules.from_function(0.1)


class Weights(tg.nn.Module):
    def __init__(self) -> None:
        self.a, self.b, self.matrix = tg.nn.param(2, 1.0), tg.nn.param(2, 1.0), tg.nn.param((2, 2), 1.0)


def linear_loss(model: Any, x: Any) -> Any:
    return tg.sum(model.a * x) + tg.sum(model.b * x) + tg.sum(model.matrix * x)


def trained(optimizer: Any, steps: int = 5, device: tg.DeviceName = "numpy", **options: Any) -> tg.Training:
    training = tg.compile(Weights(), loss=linear_loss, optimizer=optimizer, inputs={"x": 2}, device=device, **options)
    for _ in range(steps * options.get("accumulate", 1)):
        training.step(x=np.ones(2, np.float32))
    return training


FORMULA = schedules.Schedule(1.0, "0.5 if step <= 2 else 0.25 / step")
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda rate: tg.optim.sgd(rate),
    "groups": lambda rate: tg.optim.adam(rate, groups={"a": {"learning_rate": 0.1}}),
    "clipped": lambda rate: tg.optim.adamw(rate, clip_norm=0.1),
    "others": lambda rate: tg.optim.muon(rate, others=tg.optim.adam(rate)),
    "link": lambda rate: tg.optim.chain(tg.optim.scale(rate), tg.optim.sgd(0.1)),
    "end of a chain": lambda rate: tg.optim.chain(tg.optim.scale_by_adam(), tg.optim.scale_by_learning_rate(rate)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_function_trains_as_its_formula(name):
    """For the rate of all parameters, of a group, of a second optimizer, and of a link."""
    parameters = trained(OPTIMIZERS[name](staircase)).parameters()
    for path, value in trained(OPTIMIZERS[name](FORMULA)).parameters().items():
        assert np.allclose(parameters[path], value, rtol=1e-6, atol=1e-7), path
        assert not np.allclose(value, 1.0)


def test_functions_go_with_devices_accumulation_and_checkpoints(tmp_path):
    expected = trained(tg.optim.sgd(FORMULA), accumulate=2).parameters()
    on_device = trained(tg.optim.sgd(staircase), device="wgpu", accumulate=2)
    assert all(np.allclose(value, expected[path], rtol=1e-6) for path, value in on_device.parameters().items())
    assert on_device.learning_rate == staircase(6)
    other = trained(tg.optim.sgd(staircase), steps=0)
    first = trained(tg.optim.sgd(staircase), steps=2)
    first.save_checkpoint(tmp_path / "checkpoint.safetensors")
    other.load_checkpoint(tmp_path / "checkpoint.safetensors")
    for training in (first, other):
        training.step(x=np.ones(2, np.float32))
    assert all(np.array_equal(value, other.parameters()[path]) for path, value in first.parameters().items())
    other.set_learning_rate(0.5)  # scales what the function gives
    assert other.learning_rate == 0.5 * staircase(4)


def test_a_function_is_not_saved_in_a_program(tmp_path):
    training = trained(tg.optim.sgd(staircase))
    with pytest.raises(ProgramError, match=r"save: learning_rate follows the function staircase, which a file can't"):
        training.save(tmp_path / "program.safetensors")
    assert not (tmp_path / "program.safetensors").exists()
    chained = trained(tg.optim.chain(tg.optim.scale(staircase), tg.optim.sgd(FORMULA)))
    with pytest.raises(ProgramError, match="save: scale/factor follows the function staircase"):
        chained.save(tmp_path / "program.safetensors")
    trained(tg.optim.sgd(FORMULA)).save(tmp_path / "program.safetensors")


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, "0.1", None])
def test_what_a_function_may_not_give(value):
    training = trained(tg.optim.sgd(lambda step: 0.1 if step < 3 else value), steps=2)
    before = training.state_dict()
    with pytest.raises(OptionError, match=r"test_rate_schedules\.py:\d+: schedule .*<lambda>.*step 3"):
        training.step(x=np.ones(2, np.float32))
    after = training.state_dict()
    assert all(np.array_equal(value, after[name]) for name, value in before.items())
