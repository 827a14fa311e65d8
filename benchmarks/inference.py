"""Compares inference of imported models, and single convolutions of small images, with PyTorch and ONNX Runtime.

All run on the CPU with the same number of threads, `TG_NUM_THREADS`, by default one for each core.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import cast

import numpy as np
import onnxruntime
import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import nn

import tensorgrad as tg
from benchmarks.harness import Contestant, measure, report
from tests.importers.torch_zoo import library


class UNet(nn.Module):
    """A U-Net: four levels of two convolutions each, down and up, with skip connections."""

    def __init__(self, width: int = 32, levels: int = 4, outputs: int = 2) -> None:
        super().__init__()
        sizes = [width << level for level in range(levels)]
        pairs = list(pairwise(sizes))
        self.down = nn.ModuleList([self.block(below, above) for below, above in [(3, width), *pairs]])
        self.up = nn.ModuleList([nn.ConvTranspose2d(above, below, 2, 2) for below, above in reversed(pairs)])
        self.merge = nn.ModuleList([self.block(2 * below, below) for below, _ in reversed(pairs)])
        self.head = nn.Conv2d(width, outputs, 1)

    @staticmethod
    def block(inputs: int, outputs: int) -> nn.Module:
        layers: list[nn.Module] = []
        for channels in (inputs, outputs):
            layers += [nn.Conv2d(channels, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
        return nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skipped: list[torch.Tensor] = []
        for level, block in enumerate(self.down):
            x = block(x if level == 0 else F.max_pool2d(x, 2))
            skipped.append(x)
        for up, merge, skip in zip(self.up, self.merge, reversed(skipped[:-1]), strict=True):
            x = merge(torch.cat([skip, up(x)], 1))
        return self.head(x)


def _images(size: int, channels: int = 3, count: int = 1) -> torch.Tensor:
    return torch.randn(count, channels, size, size)


MODELS: dict[str, Callable[[], tuple[nn.Module, torch.Tensor]]] = {
    "ResNet-18": lambda: (library("torchvision.models").resnet18(weights=None), _images(224)),
    "MobileNetV3": lambda: (library("torchvision.models").mobilenet_v3_large(weights=None), _images(224)),
    "ViT": lambda: (library("timm").create_model("vit_tiny_patch16_224"), _images(224)),
    "U-Net": lambda: (UNet(), _images(128)),
}
"""The models, with random weights, each with one image."""


def _convolution(
    size: int, inputs: int, outputs: int, window: int, stride: int = 1, groups: int = 1, count: int = 8
) -> Callable[[], tuple[nn.Module, torch.Tensor]]:
    padding = (window - 1) // 2
    return lambda: (
        nn.Conv2d(inputs, outputs, window, stride, padding, groups=groups),
        _images(size, inputs, count),
    )


CONVOLUTIONS: dict[str, Callable[[], tuple[nn.Module, torch.Tensor]]] = {
    "8x8, 64 to 64, 3x3": _convolution(8, 64, 64, 3),
    "16x16, 32 to 32, 3x3": _convolution(16, 32, 32, 3),
    "32x32, 16 to 16, 3x3": _convolution(32, 16, 16, 3),
    "32x32, 3 to 32, 3x3": _convolution(32, 3, 32, 3),
    "7x7, 256 to 256, 3x3": _convolution(7, 256, 256, 3, count=1),
    "16x16, 32 to 32, 4x4": _convolution(16, 32, 32, 4),
    "32x32, 16 to 32, 3x3, stride 2": _convolution(32, 16, 32, 3, 2),
    "16x16, 32 to 64, 4x4, stride 2": _convolution(16, 32, 64, 4, 2),
    "32x32, 3 to 64, 4x4, stride 4": _convolution(32, 3, 64, 4, 4),
    "16x16, 64 to 128, 1x1": _convolution(16, 64, 128, 1),
    "16x16, 64 to 128, 1x1, stride 2": _convolution(16, 64, 128, 1, 2),
    "32x32, 32 depthwise, 3x3": _convolution(32, 32, 32, 3, groups=32),
    "16x16, 96 depthwise, 5x5": _convolution(16, 96, 96, 5, groups=96),
    "16x16, 96 depthwise, 3x3, stride 2": _convolution(16, 96, 96, 3, 2, groups=96),
    "8x8, 256 depthwise, 3x3": _convolution(8, 256, 256, 3, groups=256),
    "16x16, 64 to 64 in 4 groups, 3x3": _convolution(16, 64, 64, 3, groups=4),
    "8x8, 128 to 128 in 32 groups, 3x3": _convolution(8, 128, 128, 3, groups=32),
}
"""Single convolutions: the side of the images, channels, the window."""


def ours(module: nn.Module, batch: torch.Tensor, device: tg.DeviceName, at: int) -> Contestant:
    """Returns calls of an imported module, compiled for its shapes; `at` is the result's element to look at."""
    model = tg.from_torch(module, batch).initialized()
    run, array = tg.jit(lambda model, x: model(x), device=device), batch.numpy()
    return Contestant("tensorgrad", lambda: float(np.asarray(run(model, array)).flat[at]))


def eager(module: nn.Module, batch: torch.Tensor, at: int) -> Contestant:
    """Returns calls of a module in PyTorch."""

    def step() -> float:
        with torch.inference_mode():
            return module(batch).flatten()[at].item()

    return Contestant("pytorch", step)


def exported(module: nn.Module, batch: torch.Tensor, threads: int, at: int) -> Contestant:
    """Returns calls of a module in ONNX Runtime, as PyTorch exports it."""
    program = torch.onnx.export(module, (batch,), dynamo=True, verbose=False)
    assert program is not None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    file = program.model_proto.SerializeToString()
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    inputs = {session.get_inputs()[0].name: batch.numpy()}
    return Contestant("onnxruntime", lambda: float(cast(np.ndarray, session.run(None, inputs)[0]).flat[at]))


def report_inference(device: tg.DeviceName, rounds: int, seconds: float, out: Path, clock: Callable[[], float]) -> None:
    """Times every model and convolution here, in PyTorch and in ONNX Runtime, and reports the ratios of the fastest."""
    threads = int(os.environ.get("TG_NUM_THREADS", str(os.cpu_count() or 1)))
    torch.set_num_threads(threads)
    table = Table(title=f"inference, {threads} threads: the fastest call, ms, and its ratio to ours")
    for column in ("", "tensorgrad", "pytorch", "", "onnxruntime", ""):
        table.add_column(column, justify="right" if table.columns else "left")
    for name, build in {**MODELS, **CONVOLUTIONS}.items():
        torch.manual_seed(0)
        module, batch = build()
        module.eval()
        with torch.inference_mode():
            at = int(module(batch).abs().argmax())
        contestants = [ours(module, batch, device, at), eager(module, batch, at), exported(module, batch, threads, at)]
        timings = measure(contestants, rounds, seconds, clock)
        report(f"inference {name}", timings, "tensorgrad", out / f"inference {name}.json", "a call")
        mine, *others = timings
        cells = [text for other in others for text in (f"{other.low * 1e3:.3g}", f"{other.low / mine.low:.2f}")]
        table.add_row(name, f"{mine.low * 1e3:.3g}", *cells)
    Console(width=max(120, Console().width)).print(table)
