"""Small PyTorch modules that use every rule of the importer's table, by family.

A family is exported as one module, so that a run of the tests takes seconds; its results have the names of its cases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch._higher_order_ops.scan import scan
from torch.utils.checkpoint import checkpoint


class Function(nn.Module):
    """A function of parameters, sampled with these shapes, and of inputs."""

    def __init__(self, function: Callable[..., Any], *shapes: tuple[int, ...]):
        super().__init__()
        self.function = function
        self.values = nn.ParameterList([nn.Parameter(torch.randn(shape)) for shape in shapes])

    def forward(self, *inputs: Any) -> Any:
        return self.function(*self.values, *inputs)


class Family(nn.Module):
    """Several modules as one: each gets its own inputs."""

    def __init__(self, modules: Mapping[str, nn.Module], counts: Mapping[str, int]):
        super().__init__()
        self.cases = nn.ModuleDict(modules)
        self.counts = dict(counts)

    def forward(self, *inputs: Any) -> dict[str, Any]:
        results: dict[str, Any] = {}
        start = 0
        for name, module in self.cases.items():
            results[name] = module(*inputs[start : start + self.counts[name]])
            start += self.counts[name]
        return results


@dataclass
class Cases:
    """The cases of a family: modules and their inputs, by name."""

    modules: dict[str, nn.Module] = field(default_factory=dict)
    inputs: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    def add(self, name: str, module: nn.Module, *inputs: Any) -> None:
        self.modules[name], self.inputs[name] = module, inputs

    def function(self, name: str, function: Callable[..., Any], *shapes: tuple[int, ...], inputs: Any = ()) -> None:
        self.add(name, Function(function, *shapes), *inputs)

    def family(self) -> tuple[nn.Module, list[Any]]:
        counts = {name: len(values) for name, values in self.inputs.items()}
        return Family(self.modules, counts), [value for values in self.inputs.values() for value in values]


def pointwise() -> Cases:
    """Returns the cases of arithmetic, comparisons and functions."""
    cases = Cases()
    functions = (
        "abs neg exp sin cos tan tanh erf erfc floor ceil round sign square frac trunc expm1 sinh cosh asinh atan"
    )
    for name in f"{functions} reciprocal nan_to_num sgn exp2 sinc".split():
        cases.function(name, getattr(torch, name), (3, 4))
    for name in ["log", "log2", "log10", "sqrt", "rsqrt", "log1p", "acosh"]:
        cases.function(name, lambda x, name=name: getattr(torch, name)(x.abs() + 1.5), (3, 4))
    special = torch.special
    cases.function("lgamma", lambda x: torch.lgamma(x * 3) + special.gammaln(x), (3, 4))
    cases.function("digamma", lambda x: torch.digamma(x * 3) + special.digamma(x) + special.psi(x + 1), (3, 4))
    cases.function("polygamma", lambda x: torch.polygamma(0, x) + x.polygamma(1) + special.polygamma(2, x), (3, 4))
    for name in ["asin", "acos", "atanh", "erfinv"]:
        cases.function(name, lambda x, name=name: getattr(torch, name)(torch.tanh(x) / 2), (3, 4))
    cases.function(
        "arithmetic",
        lambda a, b: (
            (a + b * 2 - 1 / (b.abs() + 1)) * a**2
            + 2**b
            + torch.add(a, b, alpha=3)
            - torch.sub(a, b, alpha=2)
            + torch.rsub(a, 1)
            + torch.lerp(a, b, 0.3)
            + torch.addcmul(a, b, b, value=2)
            + torch.addcdiv(a, b, b.abs() + 1, value=2)
            + torch.hypot(a, b)
            + torch.atan2(a, b)
            + torch.logaddexp(a, b)
            + torch.xlogy(a.abs(), b.abs())
        ),
        (3, 4),
        (4,),
    )
    cases.function("rounded", lambda a: torch.round(a, decimals=1) + a % 3 + torch.fmod(a * 3, 2), (5,))
    cases.function("divided", lambda a: [a * 2, (a.detach() * 5) // 2, torch.div(a, 2, rounding_mode="trunc")], (5,))
    whole = torch.arange(-4, 4)
    cases.function(
        "whole",
        lambda a, i: a * (torch.div(i, 3, rounding_mode="trunc") + i // 3 + i % 3 + (i << 1) + (i & 3 | 4) ^ 1),
        (8,),
        inputs=(whole,),
    )
    cases.function(
        "mixed",
        lambda a, i: a * i + i / 2 + i * 0.5 + (i > 1) * a + i.to(a.dtype) + i.type_as(a),
        (4,),
        inputs=(torch.arange(4),),
    )
    cases.function(
        "signed",
        lambda a, b: [torch.copysign(a, b), a.copysign(-1.0), a.signbit(), torch.tensor(2.0).copysign(b)],
        (3, 4),
        (4,),
    )
    cases.function(
        "extremes",
        lambda a, b: [torch.maximum(a, b), torch.minimum(a, b), a.max(0), a.min(1, keepdim=True)],
        (4, 4),
        (4, 4),
    )
    cases.function(
        "compared",
        lambda a, b: (
            torch.where((a > b) & (a < 2) | ~(b >= 0), a, b)
            + (a == b) * a
            + a.masked_fill(b > 0, 3.0)
            + torch.where(a != b, a, 0.0)
            + torch.where(a > b, 0.5, -2.0)
            + torch.logical_xor(a > 0, b > 0)
            + torch.logical_and(a, b > 0) * torch.logical_or(a > 0, b <= 0)
            + torch.isnan(a) * 1.0
            + torch.isinf(a)
            + torch.isfinite(a)
            + torch.logical_not(a)
        ),
        (4, 4),
        (4, 4),
    )
    cases.function(
        "clamped", lambda a: a.clamp(-0.5, 0.5) + a.clamp(min=0) + a.clamp_max(0.3) + torch.clip(a, max=0.2), (9,)
    )

    def stopped(a: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            scale = a * 2
        return a * scale + a.detach() + scale

    cases.function("stopped", stopped, (3, 4))
    return cases


def activations() -> Cases:
    """Returns the cases of activations, softmax and losses."""
    cases = Cases()
    names = "relu silu gelu mish selu elu celu hardtanh hardswish hardsigmoid softplus logsigmoid softsign tanhshrink "
    smooth_and_kinked = [getattr(F, name) for name in f"{names} hardshrink softshrink leaky_relu relu6 sigmoid".split()]
    for function in smooth_and_kinked:
        cases.function(function.__name__, function, (3, 4))
    at_kinks = Function(lambda x: [function(x) for function in (*smooth_and_kinked, lambda x: F.rrelu(x))])
    at_kinks.values.append(nn.Parameter(torch.tensor([-6.0, -3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0, 6.0, 20.0])))
    cases.add("at_kinks", at_kinks)
    cases.function("gelu_tanh", lambda x: F.gelu(x, approximate="tanh") + F.threshold(x, 0.1, 2.0), (3, 4))
    cases.function(
        "softmax",
        lambda a: (
            a.softmax(-1)
            + a.log_softmax(0)
            + F.softmin(a, 1)
            + F.normalize(a, dim=1)
            + F.cosine_similarity(a, a.flip(0)).sum()
            + F.glu(torch.cat([a, a], 1))
        ),
        (3, 4),
    )
    cases.function(
        "losses",
        lambda a, t: [
            F.cross_entropy(a, t),
            F.mse_loss(a, a.flip(0)),
            F.l1_loss(a, a * 2),
            F.smooth_l1_loss(a, a * 3),
            F.binary_cross_entropy_with_logits(a, (a > 0).float()),
            F.nll_loss(a.log_softmax(1), t, ignore_index=1),
            F.huber_loss(a, a * 4),
            F.kl_div(a.log_softmax(1), a.softmax(0), reduction="batchmean"),
        ],
        (3, 4),
        inputs=(torch.tensor([1, 3, 0]),),
    )
    cases.add("prelu of a scalar", nn.PReLU(), torch.tensor(-2.0))
    cases.add("prelu", nn.Sequential(nn.Linear(3, 4), nn.PReLU(4), nn.PReLU()), torch.randn(5, 3))
    return cases


def reductions() -> Cases:
    """Returns the cases of reductions, scans along an axis and sorting."""
    cases = Cases()
    cases.function(
        "reduced",
        lambda a: [
            a.sum(),
            a.sum(0),
            a.mean((0, 1), keepdim=True),
            a.var(1),
            a.std(),
            a.prod(0),
            torch.var_mean(a, dim=(0,)),
            a.logsumexp(0),
            a.norm(),
            torch.linalg.vector_norm(a, ord=1, dim=0),
            a.var(0, correction=0),
            a.mean(),
            a.amax((0, 1)),
            a.amin(0),
            a.max(),
            (a > 0).any(0),
            (a > -9).all(),
            a.argmax(1),
            a.argmin(),
        ],
        (4, 5),
    )
    cases.function(
        "along an axis of a scalar",
        lambda a: [
            *(a.sum(0), a.mean(-1, keepdim=True), a.amax((0,)), a.max(0), a.argmin(-1), a.any(0), a.logsumexp(0)),
            *(a.cumsum(0), a.logcumsumexp(-1), a.softmax(0), a.sort(0), a.flip(0), a.transpose(0, -1)),
            *(a.index_fill(0, torch.tensor([0]), 2.0), a.index_select(0, torch.tensor([0])), a.unsqueeze(-1)),
            *(a.gather(0, torch.tensor([0])), torch.unsqueeze_copy(a, 0), a.unfold(0, 1, 1)),
        ],
        (),
    )
    cases.function("cumulated", lambda a: [a.cumsum(0), a.cumprod(1), a.logcumsumexp(0), a.diff(dim=0)], (4, 5))
    cases.function("extremes", lambda a: [*a.cummax(0), *a.cummin(1), a.fmax(a.new_zeros(())), a.fmin(a[:1])], (4, 5))
    cases.function(
        "ranked",
        lambda a: [
            a.median(),
            *a.median(1),
            *a.kthvalue(2, 0, keepdim=True),
            a.masked_fill(a > 0, float("nan")).median(0)[0].isnan(),
        ],
        (4, 5),
    )
    cases.function(
        "sorted",
        lambda a: [a.sort(1), a.sort(0, descending=True), a.topk(2), a.argsort(1), a.topk(2, largest=False)],
        (4, 5),
    )
    edges = torch.tensor([-1.0, 0.0, 1.0])
    cases.function(
        "counted",
        lambda a: [
            a * 2,
            torch.histc(a, 5, -1, 1),
            torch.bucketize(a, edges),
            torch.searchsorted(edges, a, right=True),
            F.one_hot(torch.arange(3), 3),
            torch.bincount(torch.tensor([1, 2, 2]), minlength=4),
        ],
        (3, 4),
    )
    cases.function(
        "distances",
        lambda a: [torch.cdist(a, a.flip(0)), torch.dist(a, a.flip(0)), F.pairwise_distance(a, a.flip(1))],
        (3, 4),
    )
    return cases


def shapes() -> Cases:
    """Returns the cases of views, parts, joins and padding."""
    cases = Cases()
    cases.function(
        "views",
        lambda a: (
            a.view(2, -1)
            .t()
            .reshape(4, 3)
            .flatten()
            .unflatten(0, (3, 4))
            .unsqueeze(1)
            .squeeze(1)
            .permute(1, 0)
            .transpose(0, 1)
            .expand(2, 3, 4)
            .movedim(0, -1)
            .contiguous()
        ),
        (2, 6),
    )
    cases.function(
        "parts",
        lambda a: [
            a[1:, ::2],
            a.narrow(0, 0, 2),
            a.chunk(2, 1),
            a.select(0, 1),
            a.unbind(0),
            a.split([1, 2]),
            a[-1, -1],
            a[..., 1:2],
            a[None, :2, 0].mT,
            a.unfold(-1, 2, 2),
            torch.diagonal(a, 1),
        ],
        (3, 4),
    )
    cases.function(
        "joined",
        lambda a: [
            torch.cat([a, a * 2], 1),
            torch.stack([a, a], -1),
            a.repeat(2, 3),
            a.roll(1, 0),
            a.flip(0),
            a.tile((1, 2)),
            a.repeat_interleave(2, 0),
            torch.tril(a),
            torch.triu(a, 1),
            a.rot90(2),
            torch.kron(a, a),
            *torch.meshgrid(a[0], a[1], indexing="ij"),
        ],
        (3, 4),
    )
    cases.function(
        "padded",
        lambda a: [
            F.pad(a, (1, 2, 0, 1)),
            F.pad(a, (1, 2), mode="reflect"),
            F.pad(a, (1, 1), mode="replicate"),
            F.pad(a, (1, 1), mode="circular"),
            F.pad(a, (-1, -1), value=2.0),
        ],
        (2, 3, 4),
    )
    cases.function(
        "created",
        lambda a: [
            a
            + torch.zeros(4)
            + torch.ones_like(a)
            + torch.full((4,), 2.0)
            + torch.arange(4)
            + torch.arange(0, 1, 0.25),
            a + torch.linspace(0, 1, 4) + torch.eye(4) + a.new_zeros(4) + torch.tensor([1.0, 2, 3, 4]),
            torch.tril_indices(4, 4),
            torch.triu_indices(4, 4),
            torch.empty(4).fill_(3),
        ],
        (3, 4, 4),
    )

    def changed(a: torch.Tensor) -> torch.Tensor:
        y = a * 1
        y[0] = 5
        y[:, 1] = a[:, 0]
        y[1:, 2] += 1
        y.mul_(2)
        row = y[1]
        row.add_(1)
        y[y > 3] = 0
        return y

    cases.function("in_place", changed, (3, 4))
    return cases


def indexing() -> Cases:
    """Returns the cases of looking up, gathering and scattering."""
    cases = Cases()
    order = torch.tensor([2, 0, 1])
    cases.function(
        "gathered",
        lambda a, i: [
            a[i],
            a[i - 3],
            a[:, i],
            a.gather(1, i[:, None].expand(3, 4)),
            a.index_select(0, i),
            a[i, i[:, None]],
            torch.take(a, i),
            a[torch.tensor([True, False, True])],
        ],
        (3, 4),
        inputs=(order,),
    )
    cases.function(
        "scattered",
        lambda a, b, i: [
            a.scatter(0, i[:, None].expand(3, 4), b),
            a.scatter_add(0, i[:, None].expand(3, 4), b),
            a.index_add(0, i, b, alpha=2),
            a.index_put((i,), b, accumulate=True),
            a.index_copy(0, i, b),
            a.index_fill(0, i[:1], 2.0),
            a.scatter(1, i[:, None], 2.0),
            torch.scatter_reduce(a, 0, i[:, None].expand(3, 4), b, "amax"),
        ],
        (3, 4),
        (3, 4),
        inputs=(order,),
    )
    cases.add("embedding", nn.Embedding(7, 4, padding_idx=2), torch.tensor([[1, 2, 3], [6, 0, 2]]))
    bags = torch.tensor([1, 2, 3, 6, 0]), torch.tensor([0, 2])
    cases.add("bag_sum", nn.EmbeddingBag(7, 4, mode="sum", padding_idx=3), *bags)
    cases.add("bag_max", nn.EmbeddingBag(7, 4, mode="max"), *bags)
    cases.add("bag_mean", nn.EmbeddingBag(7, 4, mode="mean"), torch.tensor([[1, 2, 3], [6, 0, 1]]))
    return cases


class Attention(nn.Module):
    """Every form of scaled dot product attention."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(2, 4, 5, 8))

    def forward(self, k: torch.Tensor, mask: torch.Tensor) -> Any:
        q, attend = self.query, F.scaled_dot_product_attention
        return [
            attend(q, k, k, is_causal=True),
            attend(q, k[:, :2], k[:, :2], enable_gqa=True),
            attend(q, k, k, mask),
            attend(q, k, k, mask > 0, scale=0.3),
            attend(q, k[:, :, :4], k[:, :, :4], is_causal=True),
            attend(q[0], k[0], k[0]),
        ]


def contractions() -> Cases:
    """Returns the cases of products and attention."""
    cases = Cases()
    cases.function(
        "products",
        lambda a, b, c: [
            a @ b,
            torch.mm(a, b),
            torch.addmm(b, a, b, beta=0.5, alpha=2),
            torch.bmm(c, c),
            torch.einsum("ij,jk->ik", a, b),
            torch.outer(a[0], b[0]),
            torch.mv(a, b[0]),
            torch.dot(a[0], b[0]),
            torch.baddbmm(c, c, c),
            torch.addmv(a[0], a, b[0]),
            torch.addr(a, a[0], b[0]),
            torch.matmul(c, a[0]),
            F.linear(a, b, b[0]),
            F.bilinear(a[:2], a[:2], torch.stack([a, b]), a[0, :2]),
            torch.cross(a, b, dim=-1),
        ],
        (3, 3),
        (3, 3),
        (2, 3, 3),
    )
    cases.add("attention", Attention(), torch.randn(2, 4, 5, 8), torch.randn(5, 5))
    x, memory = torch.randn(2, 5, 8), torch.randn(2, 6, 8)
    cases.add("multihead", nn.MultiheadAttention(8, 2, batch_first=True), x, memory, memory)
    cases.add("encoder", nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), x)
    cases.add(
        "decoder", nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, norm_first=True, batch_first=True), x, memory
    )
    cases.function(
        "rotary",
        lambda a, angles: torch.view_as_real(
            torch.view_as_complex(a.reshape(3, 2, 2)) * torch.polar(torch.ones_like(angles), angles)
        ).flatten(1),
        (3, 4),
        inputs=(torch.arange(6.0).reshape(3, 2),),
    )
    return cases


class Pools(nn.Module):
    """Every form of pooling, and windows."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(2, 4, 1)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.convolution(x)
        return [
            F.max_pool2d(y, 3, 2, 1),
            F.avg_pool2d(y, 2, ceil_mode=True),
            F.adaptive_avg_pool2d(y, (3, 2)),
            F.adaptive_avg_pool2d(y, 1),
            F.adaptive_max_pool2d(y, 3),
            F.max_pool2d(y, 2, return_indices=True),
            F.avg_pool2d(y, 3, 1, 1, count_include_pad=False),
            F.max_pool1d(y[:, :, 0], 2),
            F.adaptive_avg_pool1d(y[:, :, 0], 4),
            F.lp_pool2d(y.abs(), 2, 2),
            F.fold(F.unfold(y, 2), (7, 8), 2),
            F.fold(F.unfold(y[0], 2), (7, 8), 2),
            F.avg_pool3d(y[:, None], 2),
            F.max_pool3d(y[:, None], 2),
        ]


class Resizing(nn.Module):
    """Every form of resampling."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(2, 3, 1)
        self.turn = nn.Parameter(torch.tensor([[[0.9, 0.1, 0.2], [-0.2, 1.1, 0.1]]]))

    def forward(self, x: torch.Tensor) -> Any:
        y = self.convolution(x)
        results = [
            F.interpolate(y, scale_factor=2),
            F.interpolate(y, (9, 5)),
            F.interpolate(y, scale_factor=2, mode="bilinear"),
            F.interpolate(y, (9, 5), mode="bilinear", align_corners=True),
            F.interpolate(y, scale_factor=1.7, mode="bilinear"),
            F.interpolate(y, scale_factor=1.5, mode="bicubic"),
            F.interpolate(y[:, :, 0], 7, mode="linear"),
            F.interpolate(y, scale_factor=1.3, mode="nearest-exact"),
            F.interpolate(y[:, :, None], scale_factor=2, mode="trilinear"),
            F.interpolate(y, size=(3, 3), mode="bilinear", antialias=True),
            F.pixel_shuffle(y[:, :1].expand(2, 4, 6, 7), 2),
            F.pixel_unshuffle(y[..., :6], 2),
            F.channel_shuffle(y.repeat(1, 2, 1, 1), 2),
        ]
        for mode in ("bilinear", "nearest", "bicubic"):
            for padding in ("zeros", "border", "reflection"):
                grid = F.affine_grid(self.turn.expand(2, 2, 3), [2, 2, 5, 4], align_corners=padding == "border")
                results.append(F.grid_sample(y, grid, mode, padding, align_corners=padding == "border"))
        return results


def windows() -> Cases:
    """Returns the cases of convolutions, pooling and resampling."""
    cases = Cases()
    cases.add(
        "images",
        nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, stride=2),
            nn.Conv2d(8, 8, 3, groups=4, padding="same", dilation=2),
            nn.ConvTranspose2d(8, 4, 3, 2, 1, 1),
        ),
        torch.randn(2, 3, 9, 9),
    )
    signals = nn.Sequential(
        nn.Conv1d(3, 8, 3, padding=1, padding_mode="reflect"), nn.ConvTranspose1d(8, 4, 4, 2, groups=2)
    )
    cases.add("signals", signals, torch.randn(2, 3, 9))
    cases.add(
        "volumes",
        nn.Sequential(nn.Conv3d(2, 4, 3, padding=1), nn.ConvTranspose3d(4, 2, 2, 2)),
        torch.randn(1, 2, 4, 4, 4),
    )
    cases.add("without_batch", nn.Conv2d(3, 4, 3), torch.randn(3, 6, 6))
    cases.add("pools", Pools(), torch.randn(2, 2, 7, 8))
    cases.add("resized", Resizing(), torch.randn(2, 2, 6, 7))
    return cases


def normalization() -> Cases:
    """Returns the cases of normalizations, which compute otherwise in training."""
    cases = Cases()
    cases.add(
        "norms",
        nn.Sequential(
            nn.Conv2d(2, 4, 1),
            nn.BatchNorm2d(4),
            nn.GroupNorm(2, 4),
            nn.InstanceNorm2d(4, affine=True),
            nn.LayerNorm([5, 5]),
            nn.RMSNorm(5),
            nn.LocalResponseNorm(3),
        ),
        torch.randn(3, 2, 5, 5),
    )
    cases.add(
        "without_statistics",
        nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, track_running_stats=False)),
        torch.randn(5, 3),
    )
    cases.add("weight_norm", nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)), torch.randn(5, 3))
    cases.add("spectral", nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4)).eval(), torch.randn(5, 3))
    return cases


class Branches(nn.Module):
    """A conditional, a loop, a region with another precision, and one that is computed again."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", enabled=False):
            y = self.layer(x)
        y = checkpoint(lambda y: torch.tanh(self.layer(y)), y, use_reentrant=False)
        last, rows = scan(self.step, torch.zeros_like(x[0]), x)
        return torch.cond(y.sum() > 0, lambda y: self.layer(y), lambda y: y * 2, (y + last + rows,))

    def step(self, state: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        new = torch.tanh(self.layer(state) + row)
        return new, new * 2


def recurrent() -> Cases:
    """Returns the cases of recurrent layers and control flow."""
    cases = Cases()
    cases.add("lstm", nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True), torch.randn(2, 5, 3))
    cases.add("gru", nn.GRU(3, 4, 2), torch.randn(5, 2, 3), torch.randn(2, 2, 4))
    cases.add("rnn", nn.RNN(3, 4, nonlinearity="relu", bias=False), torch.randn(5, 2, 3))
    cases.add("lstm_cell", nn.LSTMCell(3, 4), torch.randn(2, 3))
    cases.add("gru_cell", nn.GRUCell(3, 4), torch.randn(2, 3), torch.randn(2, 4))
    cases.add("branches", Branches(), torch.randn(2, 3).abs())
    return cases


def direct() -> Cases:
    """Returns the cases of ops that models reach only through PyTorch's own decompositions, called by name."""
    cases, aten = Cases(), torch.ops.aten
    cases.function(
        "pointwise",
        lambda a, b: [
            torch.view_as_real(torch.complex(a, b) * torch.complex(b, a)),
            aten.log_sigmoid_forward(a)[0],
            aten._safe_softmax(a, -1),
            a.narrow(0, 1, 2),
            aten.movedim(a, 0, 1),
            aten.constant_pad_nd(a, [1, 2], 3.0),
            a * (torch.tensor([8, 9, 4, 2]) >> 1),
        ],
        (3, 4),
        (3, 4),
    )
    cases.function(
        "normalized",
        lambda a: [
            aten.native_layer_norm(a, [4], None, None, 1e-5)[0],
            aten.native_group_norm(a, None, None, 2, 4, 4, 2, 1e-5)[0],
            aten._fused_rms_norm(a, [4], None, 1e-5)[0],
            aten._weight_norm_interface(a, a[:, :1, :1] * 2)[0],
            aten.reflection_pad1d(a, [1, 2]),
            aten.replication_pad1d(a, [1, 2]),
        ],
        (2, 4, 4),
    )
    cases.function(
        "convolved",
        lambda x, w: [
            aten.convolution(x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
            aten.convolution(x, w, None, [2, 2], [1, 1], [1, 1], True, [1, 1], 1),
        ],
        (2, 3, 5, 5),
        (3, 3, 3, 3),
    )
    cases.function("known", lambda a: [a * torch.tensor([3]).item(), a[torch.tensor([0, 1, 1]).nonzero()[:, 0]]], (3,))
    cases.add("tanh", nn.RNN(3, 4), torch.randn(5, 2, 3))
    return cases


FAMILIES: dict[str, Callable[[], Cases]] = {
    function.__name__: function
    for function in (
        pointwise,
        activations,
        reductions,
        shapes,
        indexing,
        contractions,
        windows,
        normalization,
        recurrent,
        direct,
    )
}
