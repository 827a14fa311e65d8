"""The PyTorch modules that `imported` trains, each with a batch, and their training steps.

Processes of first steps import this module, which imports nothing but PyTorch, or what else a step needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import nn

if TYPE_CHECKING:
    from tensorgrad import DeviceName, Training


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


class Decoder(nn.Module):
    """A causal language model whose head is its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.positions = nn.Embedding(256, 128), nn.Embedding(64, 128)
        self.blocks = nn.ModuleList([Attention() for _ in range(3)])
        self.norm = nn.LayerNorm(128)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.embedding.weight.T


class Attention(nn.Module):
    """A block of a decoder: causal attention of four heads, and a perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(128), nn.LayerNorm(128)])
        self.qkv, self.out = nn.Linear(128, 384), nn.Linear(128, 128)
        self.perceptron = nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (4, 32)).transpose(1, 2) for part in self.qkv(self.norms[0](x)).chunk(3, -1))
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(heads.transpose(1, 2).flatten(2))
        return x + self.perceptron(self.norms[1](x))


class Patches(nn.Module):
    """A vision transformer, or a mixer of perceptrons, over 8 x 8 patches of 4 x 4 pixels."""

    def __init__(self, mixes: bool) -> None:
        super().__init__()
        self.embedding, self.head = nn.Conv2d(3, 96, 4, 4), nn.Linear(96, 10)
        layer = nn.TransformerEncoderLayer(96, 4, 192, dropout=0.0, batch_first=True, norm_first=True)
        body = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.body = nn.Sequential(*(Mixer() for _ in range(4))) if mixes else body

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.embedding(x).flatten(2).transpose(1, 2)).mean(1))


class Mixer(nn.Module):
    """A block of an MLP-Mixer: a perceptron over patches and one over channels."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(96), nn.LayerNorm(96)])
        self.patches, self.channels = (
            nn.Sequential(nn.Linear(size, 2 * size), nn.GELU(), nn.Linear(2 * size, size)) for size in (64, 96)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.patches(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norms[1](x))


def mobile() -> nn.Module:
    """Returns a network of depthwise convolutions, each between two that mix channels."""

    def block(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
        wide = 3 * inputs
        depthwise = nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False)
        layers = [nn.Conv2d(inputs, wide, 1, bias=False), depthwise, nn.Conv2d(wide, outputs, 1, bias=False)]
        sizes = (wide, wide, outputs)
        return [
            part
            for layer, size in zip(layers, sizes, strict=True)
            for part in (layer, nn.BatchNorm2d(size), nn.ReLU6())
        ]

    body = [*block(16, 24, 2), *block(24, 24, 1), *block(24, 32, 2), *block(32, 32, 1)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)]
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), *body, *head)


class Fourier(nn.Module):
    """A Fourier neural operator of 32 x 32 points: four layers that mix channels at the lowest frequencies."""

    def __init__(self) -> None:
        super().__init__()
        self.lift, self.head = nn.Conv2d(1, 32, 1), nn.Conv2d(32, 1, 1)
        self.paths = nn.ModuleList([nn.Conv2d(32, 32, 1) for _ in range(4)])
        shape = (2, 32, 32, 8, 8)  # at positive and negative frequencies
        self.weights = nn.ParameterList([nn.Parameter(torch.randn(shape, dtype=torch.cfloat) / 32) for _ in range(4)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.lift(x)
        for path, weight in zip(self.paths, self.weights, strict=True):
            spectrum = torch.fft.rfft2(x)
            mixed = torch.zeros_like(spectrum)
            for rows, factors in zip((slice(None, 8), slice(-8, None)), weight, strict=True):
                mixed[..., rows, :8] = torch.einsum("bixy,ioxy->boxy", spectrum[..., rows, :8], factors)
            x = F.gelu(torch.fft.irfft2(mixed, x.shape[-2:]) + path(x))
        return self.head(x).flatten(1)


class Graph(nn.Module):
    """Three convolutions over the edges of a graph of 500 nodes."""

    edges: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(64, 64) for _ in range(3)])
        self.register_buffer("edges", torch.randint(0, 500, (2, 4000)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        source, target = self.edges
        for layer in self.layers:
            x = F.relu(x + torch.zeros_like(x).index_add(0, target, layer(x)[source]) / 8)
        return x


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
    "decoder": lambda: (Decoder(), _tokens()),
    "vision transformer": lambda: (Patches(mixes=False), torch.randn(16, 3, 32, 32)),
    "mixer": lambda: (Patches(mixes=True), torch.randn(16, 3, 32, 32)),
    "mobile": lambda: (mobile(), torch.randn(16, 3, 32, 32)),
    "graph": lambda: (Graph(), torch.randn(500, 64)),
    "fourier": lambda: (Fourier(), torch.randn(8, 1, 32, 32)),
}
"""The modules, each with a batch."""


def eager_step(module: nn.Module, batch: torch.Tensor) -> Callable[[], float]:
    """Returns a training step of a module in PyTorch."""
    optimizer = torch.optim.SGD(module.parameters(), 0.01)

    def step() -> float:
        optimizer.zero_grad()
        loss = module(batch).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def imported_training(module: nn.Module, batch: torch.Tensor, device: DeviceName) -> Training:
    """Returns a training of a module here, of the same steps; its input is `x`."""
    import tensorgrad as tg

    return tg.compile(
        tg.from_torch(module, batch),
        loss=lambda model, x: tg.mean(tg.square(model(x))),
        optimizer=tg.optim.sgd(0.01),
        inputs=tg.like({"x": batch.numpy()}),
        device=device,
    )
