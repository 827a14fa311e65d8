"""Random PyTorch modules as source code, with in-place updates among the lines; see `drawing`."""

from __future__ import annotations

import random
from typing import Any

import drawing
import torch
from judging import Subject, sample
from torch import nn

UNARY = """
abs neg exp sin cos tan tanh erf erfc floor ceil round sign square frac trunc expm1 sinh cosh asinh atan sigmoid relu
reciprocal nan_to_num exp2 sqrt rsqrt log log2 log10 log1p acosh asin acos atanh isnan isinf isfinite positive
logit lgamma erfinv deg2rad rad2deg
"""
"""All but `sinc`, whose derivative in PyTorch cancels near zero until no digit is right."""

ACTIVATIONS = """
gelu silu elu celu selu softplus hardtanh hardsigmoid hardswish leaky_relu logsigmoid mish relu6 softsign tanhshrink
"""

BINARY = """
add sub mul div true_divide maximum minimum fmax fmin hypot fmod remainder logaddexp logaddexp2 eq ne lt le gt ge
float_power xlogy
"""

REDUCTIONS = "sum mean amax amin prod var std logsumexp any all argmax argmin nanmean nansum count_nonzero"

MATRICES = "{x} @ {x}.mT + {n} * torch.eye({x}.shape[-2])"
"""Symmetric positive definite matrices."""

TEMPLATES = [
    *(f"torch.{name}({{x}})" for name in UNARY.split()),
    *(f"F.{name}({{x}})" for name in ACTIVATIONS.split()),
    *(f"torch.{name}({{x}}, {{y}})" for name in BINARY.split()),
    *(f"torch.{name}({{x}}.double(), {{d}}).float()" for name in ("sum", "mean", "prod", "logsumexp")),
    *(f"torch.{name}({{x}}, {{d}}, keepdim={{flag}})" for name in REDUCTIONS.split()),
    *(f"torch.{name}({{x}}, ({{d}}, {{e}}))" for name in ("sum", "mean", "amax", "logsumexp", "var", "std")),
    *(f"torch.{name}({{x}})" for name in ("sum", "mean", "amax", "prod", "var", "std", "argmax", "max", "min")),
    *(f"torch.{name}({{x}}, {{d}})" for name in ("cumsum", "cumprod", "logcumsumexp", "softmax", "log_softmax")),
    *(f"torch.{name}({{x}}, {{d}})[{{n}} % 2]" for name in ("max", "min", "cummax", "cummin")),
    "torch.digamma({x}.abs() + 0.5)",  # PyTorch's derivative has four digits near the poles
    "torch.sort({x}, {d}, stable=True)[{n} % 2]",  # as other sorts, and medians, give ties in any order
    "torch.median({x}.contiguous(), {d})[0]",  # PyTorch 2.13 gives memory without values for expanded tensors
    "torch.copysign({x}, {y} + {c})",  # no level promises the sign of a zero
    "torch.atan2({x} + {c}, {y})",
    "torch.floor_divide({x}.detach(), {y}.detach())",
    "torch.heaviside({x}.detach(), {y}.detach())",
    "torch.where({m}, {x}, {y})",
    "torch.clamp({x}, {c}, {c} + 1)",
    "torch.lerp({x}, {y}, {c})",
    "torch.addcmul({x}, {y}, {z}, value={c})",
    "torch.addcdiv({x}, {y}, {z}.abs() + 1, value={c})",
    "torch.pow({x}, {n})",
    "torch.pow({x}.abs() + 0.5, {y})",
    "{x} * {c} + {n}",
    "{n} - {x} / {c}",
    "{x}.detach() // {c}",
    "{x} % {c}",
    "{k} + {n} * {k}",
    "{k} // {n} - {k} % {n}",
    "{k} & {n} | ({k} << 1) ^ {k}",
    "{m} & ~{m}",
    "{m}.float() * {x}",
    "{k}.float() / {n} + {x}",
    "({x} * 3).int()",
    "{x}.double()",
    "{x}.to(torch.float32)",
    "{x}.detach() * {x}",
    # Complex numbers.
    "torch.fft.rfft({x}, dim={d}).real",
    "torch.fft.fft2({x}).imag",
    "torch.fft.irfft({x}, {n} + 3, {d})",
    "torch.fft.ifftn(torch.fft.fftn({x}) * (1 + {c}j)).real",
    "torch.view_as_real(torch.fft.rfft({x}, norm='ortho'))",
    # Views.
    "{x}.reshape({s})",
    "{x}.permute({p})",
    "{x}.transpose({d}, {e})",
    "{x}.mT",
    "{x}.unsqueeze({d})",
    "{x}.squeeze()",
    "{x}.squeeze({d})",
    "{x}.flatten()",
    "{x}.flip({d})",
    "{x}.roll({n}, {d})",
    "{x}.narrow({d}, 1, 1)",
    "{x}.select({d}, -1)",
    "{x}.expand({n}, *{x}.shape)",
    "{x}.expand_as({y})",
    "{x}.broadcast_to(torch.broadcast_shapes({x}.shape, {y}.shape))",
    "{x}.diagonal(0, {d}, {e})",
    "{x}.unfold({d}, 2, {n})",
    "{x}.movedim({d}, {e})",
    "{x}.repeat({n}, *[1] * {x}.dim())",
    "{x}.repeat_interleave({n}, {d})",
    "{x}.tile((2,))",
    "{x}.unflatten({d}, (-1, 1))",
    "{x}[..., ::2]",
    "{x}[..., 1:]",
    "{x}[:, None]",
    "{x}[1:-1]",
    "{x}[None, ..., -1]",
    "{x}.chunk(2, {d})[-1]",
    "{x}.split({n}, {d})[0]",
    "{x}.unbind({d})[0]",
    "{x}.rot90()",
    "{x}.contiguous().view(-1)",
    "torch.cat([{x}, {x} * 2], {d})",
    "torch.cat([{x}, {y}], {d})",
    "torch.stack([{x}, {x} + 1, {y}.expand_as({x})], {d})",
    "torch.tril({x}, {n})",
    "torch.triu({x}, -{n})",
    "torch.diag_embed({x})",
    "torch.diff({x}, dim={d})",
    "torch.outer({x}.flatten(), {y}.flatten())",
    "torch.kron({x}, {y})",
    "torch.cdist({x}, {y})",
    "torch.trapezoid({x}, dim={d})",
    "torch.meshgrid({x}.flatten(), {y}.flatten(), indexing='ij')[0]",
    # Indices.
    "{x}.index_select({d}, torch.arange({x}.shape[{d}]).flip(0))",
    "{x}.gather({d}, {x}.argsort({d}, stable=True))",
    "torch.take_along_dim({x}, {x}.argmax({d}, keepdim=True), {d})",
    "{x}[{k}.long().abs() % {x}.shape[0]]",
    "{x}[..., {k}.long().flatten() % {x}.shape[-1]]",
    "{x}.masked_fill({m}, {c})",
    "torch.zeros_like({x}).scatter({d}, {x}.argsort({d}, stable=True), {x})",
    "torch.zeros_like({x}).scatter_add({d}, {x}.long() % {x}.shape[{d}], {x})",
    "torch.zeros({x}.shape).index_add(0, torch.arange({x}.shape[0]) // 2, {x})",
    "torch.zeros({x}.shape).index_put((torch.arange({x}.shape[0]) // 2,), {x}, accumulate=True)",
    "{x}.topk(min(2, {x}.shape[{d}]), {d})[0]",
    "{x}.index_fill({d}, torch.tensor([0]), {c})",
    "{x}.contiguous().select_scatter({y}, {d}, 0)",
    "{x}.contiguous().slice_scatter({x}[:1] * 2, 0, 0, 1)",
    "F.one_hot({k}.long() % 4, 4).float()",
    "torch.bucketize({x}, torch.tensor([-1.0, 0.0, 0.5]))",
    "torch.searchsorted(torch.sort({x}.flatten())[0].detach(), {y}.detach())",
    "F.embedding({k}.long() % {x}.shape[0], {x})",
    # Layers.
    "{x} @ {y}",
    "{x} @ {x}.mT",
    "torch.matmul({x}, {y}.mT)",
    "torch.einsum('...ij,...kj->...ik', {x}, {x})",
    "torch.einsum('i...,j...->ij', {x}, {x})",
    "torch.tensordot({x}, {x}, dims=([{d}], [{d}]))",
    "F.linear({x}, {y})",
    "F.layer_norm({x}, {x}.shape[-1:], eps=0.01)",
    "F.layer_norm({x}, {x}.shape[{d}:], eps=0.01)",
    "F.group_norm({x}, 1)",
    "F.rms_norm({x}, {x}.shape[-1:])",
    # PyTorch 2.13 differentiates these two wrongly where cotangents have the strides of channels last.
    "F.batch_norm({x}, None, None, training=True).flatten().reshape({x}.shape)",
    "F.instance_norm({x}).flatten().reshape({x}.shape)",
    "F.normalize({x}, dim={d})",
    "F.cosine_similarity({x}, {y}, dim={d}, eps=1e-20)",  # its derivative is that of longer vectors, below the bound
    "F.scaled_dot_product_attention({x}, {x} * 0.5, {x} + 1, is_causal={flag})",
    "F.glu({x}, {d})",
    "F.conv1d({x}, {y}, padding={n})",
    "F.conv2d({x}, {y}, stride={n}, padding=1)",
    "F.conv1d({x}, torch.ones(2, {x}.shape[1], 2) * {x}.mean(), dilation={n})",
    "F.conv2d({x}, torch.ones({x}.shape[1], 1, 2, 2) * {x}.mean(), groups={x}.shape[1])",
    "F.conv_transpose1d({x}, torch.ones({x}.shape[1], 2, 3) * {x}.mean(), stride={n})",
    "F.conv_transpose2d({x}, torch.ones({x}.shape[1], 2, 2, 2) * {x}.mean(), stride={n})",
    "F.max_pool1d({x}, 2, {n})",
    "F.max_pool2d({x}, 2, {n}, padding=1)",
    "F.avg_pool1d({x}, 2, {n}, padding=1)",
    "F.avg_pool2d({x}, 2, {n}, count_include_pad={flag})",
    "F.adaptive_avg_pool1d({x}, {n})",
    "F.adaptive_max_pool2d({x}, {n})",
    "F.interpolate({x}, scale_factor={n}, mode='nearest')",
    "F.interpolate({x}, scale_factor=1.5, mode='linear', align_corners={flag})",
    "F.interpolate({x}, size=({n}, 3), mode='bilinear', align_corners={flag})",
    "F.pad({x}, (1, {n}), value={c})",
    "F.pad({x}, (1, -1))",
    "F.pad({x}, (1, 1), mode='reflect')",
    "F.pad({x}, (1, {n}), mode='replicate')",
    "F.pad({x}, (1, 1), mode='circular')",
    "F.pixel_shuffle({x}, 2)",
    "F.unfold({x}, 2, padding=1)",
    "F.mse_loss({x}, {y}, reduction='none')",
    "F.smooth_l1_loss({x}, {y})",
    "F.huber_loss({x}, {y}, reduction='none')",
    "F.kl_div({x}, {y}.abs(), reduction='sum')",
    "F.binary_cross_entropy_with_logits({x}, {y}.sigmoid())",
    "F.cross_entropy({x}, {x}.argmax(1))",
    "torch.linalg.vector_norm({x}, {n}, {d})",
    *(f"torch.linalg.{name}({MATRICES})" for name in ("cholesky", "inv", "det", "eigvalsh", "pinv", "matrix_norm")),
    f"torch.logdet({MATRICES})",
    f"torch.linalg.solve({MATRICES}, {{x}})",
    f"torch.linalg.solve_triangular({MATRICES}, {{x}}, upper={{flag}})",
    f"torch.linalg.lu({MATRICES})[2]",
    "torch.linalg.qr({x})[1]",
    "torch.linalg.svdvals({x})",
    "torch.baddbmm({x}, {y}, {z})",
    "torch.addmm({x}, {y}, {z})",
    # In-place updates of a copy, some by views of it.
    "{x}.clone().add_({y})",
    "{x}.clone().mul_({c}).clamp_(max={c})",
    "updated({x}.clone(), lambda t: t[..., 0].mul_(2))",
    "updated({x}.clone(), lambda t: t.select({d}, 0).copy_({x}.select({d}, -1)))",
    "updated({x}.clone(), lambda t: t[1:].add_({x}[:-1]))",
    "updated({x}.clone(), lambda t: t.masked_fill_({m}, {c}))",
    "updated({x}.clone(), lambda t: t.transpose({d}, {e}).add_({y}))",
]

PRELUDE = """import torch
import torch.nn.functional as F


def updated(tensor, update):
    update(tensor)
    return tensor

"""

LANGUAGE = drawing.Language(PRELUDE, TEMPLATES)


class Source(nn.Module):
    """A program's source code as a module."""

    def __init__(self, text: str, name: str):
        super().__init__()
        self._program = drawing.function(text, name)

    def forward(self, *inputs: Any) -> Any:
        return self._program(*inputs)


def program(seed: int) -> Subject:
    """Returns the program of a seed."""
    draw = random.Random(seed)
    inputs = [(drawing.shape(draw), torch.float32) for _ in range(draw.randint(1, 3))]
    inputs.append((drawing.shape(draw), draw.choice((torch.int32, torch.int64))))
    generator = torch.Generator().manual_seed(seed)
    values = {f"x{i}": sample(shape, dtype, generator) for i, (shape, dtype) in enumerate(inputs)}
    text = LANGUAGE.program(draw, values)
    return Subject(Source(text, f"<program {seed}>"), inputs, torch.float32, text)
