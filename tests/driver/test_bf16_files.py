"""Models, programs and checkpoints of bf16: what is written is read again, here and by other libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import tensorgrad as tg


class Half(tg.nn.Module):
    """Two products of bf16."""

    def __init__(self) -> None:
        super().__init__()
        self.first = tg.nn.param((8, 16), tg.initializers.normal(0.1), "bf16")
        self.second = tg.nn.param((16, 4), tg.initializers.normal(0.1), "bf16")

    def __call__(self, x: Any) -> Any:
        return tg.relu(x @ self.first) @ self.second


def loss(model: Half, x: Any, y: Any) -> Any:
    return tg.mean((model(x).astype("f32") - y) ** 2)


def trained(device: Any, seed: int = 0) -> tg.Training:
    inputs = {"x": tg.spec((32, 8), tg.bf16), "y": tg.spec((32, 4))}
    model = tg.compile(model=Half(), loss=loss, optimizer=tg.optim.adam(0.01), inputs=inputs, seed=seed, device=device)
    assert isinstance(model, tg.Training)
    return model


def batch() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    return {"x": generator.normal(size=(32, 8)).astype(tg.bf16), "y": generator.normal(size=(32, 4)).astype(np.float32)}


@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
def test_a_training_lowers_its_loss_and_continues_from_a_checkpoint(device: str, tmp_path: Path) -> None:
    training, path = trained(device), tmp_path / "state.safetensors"
    losses = [float(training.step(**batch())) for _ in range(10)]
    assert losses[-1] < losses[0]
    training.save_checkpoint(path)
    other = trained(device, seed=1)
    other.load_checkpoint(path)
    assert float(other.step(**batch())) == float(training.step(**batch()))
    state = load_file(path)
    assert state["first"].dtype == torch.bfloat16  # its optimizer's is f32
    assert {tensor.dtype for name, tensor in state.items() if name.startswith("optimizer/")} == {torch.float32}


@pytest.mark.parametrize("device", ["cpu", "wgpu"])
def test_saved_programs_are_read_again(device: Any, tmp_path: Path) -> None:
    training = trained(device)
    training.step(**batch())
    training.save(tmp_path / "training.tg")
    again = tg.load(tmp_path / "training.tg", device=device)
    assert float(again.step(**batch())) == float(training.step(**batch()))
    inference = training.attach(lambda model, x: model(x), inputs={"x": tg.spec((3, 8), tg.bf16)})
    inference.save(tmp_path / "inference.tg")
    x = batch()["x"][:3]
    expected, actual = (np.asarray(f(x=x)) for f in (inference, tg.load(tmp_path / "inference.tg", device=device)))
    assert actual.dtype == expected.dtype == tg.bf16
    np.testing.assert_array_equal(actual.astype(np.float32), expected.astype(np.float32))
