"""A step whose caller runs each dispatch is equivalent to an ordinary step, with access to all of its memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.driver.device import find_device, load_program
from tensorgrad.errors import InputError
from tensorgrad.runtime.program import Repeat, unrolled

pytestmark = pytest.mark.usefixtures("kept_programs")

DEVICES = ("cpu", "wgpu")
SHAPE = (128, 96)
"""Large enough to be read where the caller has it, on the CPU."""


def loss(model: tg.nn.Module, x: tg.Tensor) -> tg.Tensor:
    carry, _ = tg.scan(lambda carry, row: (tg.tanh(model(carry)) + row, row), x[0], x[1:4])
    return tg.mean(model(x) ** 2) + tg.sum(carry)


def compiled(device: Any) -> tg.Training:
    return tg.compile(tg.nn.Linear(96, 96), loss=loss, optimizer=tg.optim.adam(0.1), inputs={"x": SHAPE}, device=device)


def scalars_of(executable: Any) -> dict[str, float]:
    return {name: 1.0 if name == "step" else 0.5 for name in executable.scalar_names}


@pytest.mark.parametrize("name", DEVICES)
def test_all_dispatches_are_a_step(name: str) -> None:
    training, device = compiled(name), find_device(name)
    program = training.program
    assert device is not None
    assert any(isinstance(step, Repeat) for step in program.plan)
    whole, parts = (load_program(device, program) for _ in range(2))
    for executable in (whole, parts):
        executable.write(training.parameters())
    inputs = {"x": np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)}
    scalars = scalars_of(whole)
    outputs = {key: handle.numpy() for key, handle in whole.step(inputs, scalars).items()}
    stepwise = parts.stepwise(inputs, scalars)
    slot = program.slots("input")["x"]
    (raw,) = stepwise.read([(slot.buffer, slot.offset, slot.size)])
    np.testing.assert_array_equal(slot.decode(raw), inputs["x"])
    for step, times in unrolled(program.plan):
        stepwise.run(step, times)
    for key, value in whole.read().items():
        np.testing.assert_array_equal(parts.read([key])[key], value)
    for key, output in program.slots("output").items():
        (raw,) = stepwise.read([(output.buffer, output.offset, output.size)])
        np.testing.assert_array_equal(output.decode(raw), outputs[key])
    after = {key: handle.numpy() for key, handle in whole.step(inputs, scalars).items()}
    np.testing.assert_array_equal(parts.step(inputs, scalars)["loss"].numpy(), after["loss"])


@pytest.mark.parametrize("name", DEVICES)
def test_memory_is_read_and_written_by_range(name: str) -> None:
    device, program = find_device(name), compiled(name).program
    assert device is not None
    executable = load_program(device, program)
    stepwise = executable.stepwise({"x": np.zeros(SHAPE)}, scalars_of(executable))
    bias = program.slots("parameter")["bias"]
    stepwise.write([(bias.buffer, bias.offset + 4, np.array([2.5, 3.5], np.float32).view(np.uint8))])
    assert executable.read(["bias"])["bias"][:4].tolist() == [0, 2.5, 3.5, 0]
    first, second = stepwise.read([(bias.buffer, bias.offset + 4, 4), (bias.buffer, bias.offset, 16)])
    assert first.view(np.float32).tolist() == [2.5]
    assert second.view(np.float32).tolist() == [0, 2.5, 3.5, 0]


@pytest.mark.parametrize("name", DEVICES)
def test_wrong_inputs(name: str) -> None:
    executable: Any = compiled(name)._executable
    with pytest.raises(InputError, match="missing input 'x'"):
        executable.stepwise({}, scalars_of(executable))
