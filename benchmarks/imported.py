"""Compares training steps of PyTorch modules, imported by `tg.from_torch`, with PyTorch's own on the same CPU."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import tensorgrad as tg
from benchmarks.harness import Contestant, measure, report


class Residual(nn.Module):
    """A small residual network of 32 x 32 images."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = self.block(3, 32)
        self.blocks = nn.ModuleList([self.block(32, 32) for _ in range(4)])
        self.head = nn.Linear(32, 10)

    @staticmethod
    def block(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x.mean((2, 3)))


class Language(nn.Module):
    """A transformer of tokens, or an LSTM."""

    def __init__(self, recurrent: bool) -> None:
        super().__init__()
        self.embedding, self.recurrent = nn.Embedding(256, 128), recurrent
        layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True, norm_first=True)
        self.body = (
            nn.LSTM(128, 128, 2, batch_first=True)
            if recurrent
            else nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        )
        self.head = nn.Linear(128, 256)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.body(self.embedding(tokens))
        return self.head(hidden[0] if self.recurrent else hidden)


class UNet(nn.Module):
    """Convolutions down and up, with a skip connection."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.deep, self.last = Residual.block(3, 16), Residual.block(16, 32), Residual.block(32, 16)
        self.up, self.head = nn.ConvTranspose2d(32, 16, 2, 2), nn.Conv2d(16, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.down(x)
        deep = self.up(self.deep(F.max_pool2d(first, 2)))
        return self.head(self.last(torch.cat([deep, first], 1)))


def _tokens() -> torch.Tensor:
    return torch.randint(0, 256, (8, 64))


MODELS: dict[str, Callable[[], tuple[nn.Module, torch.Tensor]]] = {
    "mlp": lambda: (
        nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 10)),
        torch.randn(64, 256),
    ),
    "residual": lambda: (Residual(), torch.randn(16, 3, 32, 32)),
    "unet": lambda: (UNet(), torch.randn(8, 3, 32, 32)),
    "transformer": lambda: (Language(recurrent=False), _tokens()),
    "lstm": lambda: (Language(recurrent=True), _tokens()),
}
"""The modules, each with a batch."""


def imported(module: nn.Module, batch: torch.Tensor, device: tg.DeviceName) -> Contestant:
    """Returns a training step of a module here; its first step includes importing and compiling."""
    training: list[tg.Training] = []
    array = batch.numpy()

    def step() -> float:
        if not training:
            training.append(
                tg.compile(
                    tg.from_torch(module, batch),
                    loss=lambda model, x: tg.mean(tg.square(model(x))),
                    optimizer=tg.optim.sgd(0.01),
                    inputs={"x": tg.spec(array.shape, "f32" if array.dtype == np.float32 else "i32")},
                    device=device,
                )
            )
        return float(training[0].step(x=array))

    return Contestant("tensorgrad", step)


def eager(module: nn.Module, batch: torch.Tensor) -> Contestant:
    """Returns a training step of a module in PyTorch."""
    optimizer = torch.optim.SGD(module.parameters(), 0.01)

    def step() -> float:
        optimizer.zero_grad()
        loss = module(batch).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    return Contestant("pytorch", step)


def report_imported(device: tg.DeviceName, rounds: int, seconds: float, out: Path) -> None:
    """Times every module here and in PyTorch, and reports the ratios to PyTorch."""
    for name, build in MODELS.items():
        torch.manual_seed(0)
        module, batch = build()
        contestants = [imported(copy.deepcopy(module), batch, device), eager(module, batch)]
        report(f"imported {name}", measure(contestants, rounds, seconds), "pytorch", out / f"imported {name}.json")
