"""Whole programs, from Python to a device: they train, agree with numpy, and have the expected cost."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func
from xdsl.parser import Parser

import tensorgrad as tg
from tensorgrad.dialects.tg import Tg
from tensorgrad.passes.pipelines import read_passes
from tensorgrad.passes.tensors.updates import drop_updates
from tensorgrad.tools.universe import TENSORGRAD_UNIVERSE

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


class MLP(tg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.l1, self.l2, self.l3 = tg.nn.Linear(1, 64), tg.nn.Linear(64, 64), tg.nn.Linear(64, 1)

    def __call__(self, x: Any) -> Any:
        return self.l3(tg.relu(self.l2(tg.relu(self.l1(x)))))


def loss(model: Any, x: Any, y: Any) -> Any:
    return tg.mean((model(x) - y) ** 2)


@pytest.fixture(scope="module")
def digits() -> ModuleType:
    specification = importlib.util.spec_from_file_location("digits", EXAMPLES / "digits.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.nightly
@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
def test_a_sine_is_learnt(device):
    training = tg.compile(
        MLP(),
        loss=loss,
        optimizer=tg.optim.adam(5e-3),
        inputs={"x": (256, 1), "y": (256, 1)},
        device=device,
    )
    generator = np.random.default_rng(0)
    values = []
    for _ in range(200):
        x = generator.uniform(-np.pi, np.pi, (256, 1)).astype(np.float32)
        values.append(training.step(x=x, y=np.sin(x)))
    assert float(values[0]) > 0.2
    assert float(values[-1]) < 1e-3
    stats = training.stats()
    if device == "wgpu":
        assert stats["dispatches"] <= 20 and stats["submits"] == 1 and stats["copies"] == 0


@pytest.mark.nightly
def test_digits_curves_agree_between_backends(digits):
    _, reference = digits.train("numpy", 100, 0)
    training, losses = digits.train("wgpu", 100, 0)
    assert np.allclose(losses, reference, rtol=1e-3)
    assert reference[-1] < 0.5 * reference[0]
    stats = training.stats()
    assert stats["dispatches"] <= 20 and stats["submits"] == 1 and stats["copies"] == 0


@pytest.mark.in_turns(3, 1)
@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
def test_the_digits_example(digits, device, tmp_path, capsys):
    picture = tmp_path / "curves" / "digits.png"
    digits.main(["--device", device, "--steps", "250", "--out", str(picture)])
    output = capsys.readouterr().out
    accuracy = float(output.split("test accuracy: ")[1].split("%")[0])
    assert accuracy > 93
    assert f"backend: {device}" in output
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_text_through_the_pipeline_gives_the_kernels_of_the_python_path():
    training = tg.compile(
        MLP(),
        loss=lambda model, x, y: tg.mean(3.0 * model(x) + tg.where(y > 0.5, x, 1 / (1.5 + x**2))),
        optimizer=tg.optim.adam(5e-3),
        inputs={"x": (32, 1), "y": (32, 1)},
        device="numpy",
    )
    context = Context()
    for dialect in (Builtin, Func, Tg):
        context.load_dialect(dialect)
    module = Parser(context, training.module("traced")).parse_module()
    drop_updates(module)
    passes = read_passes("training-pipeline{optimizer=adam target=webgpu-default}", TENSORGRAD_UNIVERSE.all_passes)
    for pass_ in passes:
        pass_.apply(context, module)
    assert str(module) == training.module("wgsl")
