"""Layers trained by compiled steps on devices, beside NumPy: the update is fused into the kernels of the derivative."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad import nn

LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(4, 5), (3, 4)),
    "convolution": (lambda: nn.Conv2d(4, 6, 3, padding=1), (2, 4, 6, 6)),
    "grouped": (lambda: nn.Conv2d(4, 6, 3, groups=2), (2, 4, 6, 6)),
    "grouped along one axis": (lambda: nn.Conv1d(4, 6, 3, groups=2), (2, 4, 6)),
    "depthwise": (lambda: nn.Conv2d(4, 4, 3, groups=4), (2, 4, 6, 6)),
    "depthwise with two each": (lambda: nn.Conv2d(4, 8, 3, groups=4), (2, 4, 6, 6)),
    "transposed": (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2), (2, 4, 4, 4)),
    "transposed, grouped": (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2), (2, 4, 4, 4)),
    "batch norm": (lambda: nn.BatchNorm2d(4), (3, 4, 5, 5)),
    "group norm": (lambda: nn.GroupNorm(2, 4), (3, 4, 5, 5)),
    "layer norm": (lambda: nn.LayerNorm(6), (3, 6)),
    "attention": (lambda: nn.MultiHeadAttention(8, 2, bias=False, causal=True), (2, 5, 8)),
    "gated recurrence": (lambda: nn.GRU(3, 4), (5, 2, 3)),
}


@pytest.mark.in_turns(4)
@pytest.mark.parametrize("optimizer", [tg.optim.sgd(0.1), tg.optim.adamw(0.02, clip_norm=0.5)], ids=["sgd", "adamw"])
@pytest.mark.parametrize("device", ["cpu", "wgpu"])
@pytest.mark.parametrize("name", LAYERS)
def test_steps_are_numpys(name: str, device: tg.DeviceName, optimizer: tg.optim.Optimizer) -> None:
    layer, shape = LAYERS[name]
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)

    def trained(device: tg.DeviceName) -> dict[str, np.ndarray]:
        training = tg.compile(
            layer(),
            loss=lambda model, x: tg.mean(tg.sin(tg.ravel_pytree(model(x))[0])),
            optimizer=optimizer,
            inputs={"x": shape},
            device=device,
        )
        for _ in range(3):
            training.step(x=x)
        return {name: np.asarray(value) for name, value in training.parameters().items()}

    expected = trained("numpy")
    for parameter, value in trained(device).items():
        np.testing.assert_allclose(value, expected[parameter], rtol=1e-4, atol=2e-5, err_msg=parameter)
