"""Convolutions, pooling, and resampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tensorgrad as tg
from tensorgrad.importers.torch.table import Call, rule
from tensorgrad.tracing.tensor import Array, Tensor


def _batched(x: Tensor, rank: int) -> tuple[Tensor, bool]:
    """Returns a tensor with a batch axis, and whether it had none."""
    return (tg.expand_dims(x, 0), True) if x.ndim == rank - 1 else (x, False)


def _each(sizes: Any, count: int) -> tuple[int, ...]:
    listed = tuple(sizes) if isinstance(sizes, (tuple, list)) else (sizes,)
    return listed * count if len(listed) == 1 else listed


@rule("conv1d conv2d conv3d")
def _conv(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    x, alone = _batched(input, weight.ndim)
    count = weight.ndim - 2
    if isinstance(padding, str):
        holes = _each(dilation, count)
        totals = [hole * (size - 1) for hole, size in zip(holes, weight.shape[2:], strict=True)]
        pads: Any = [(total // 2, total - total // 2) if padding == "same" else (0, 0) for total in totals]
    else:
        pads = _each(padding, count)
    result = tg.conv(x, weight, bias, _each(stride, count), pads, _each(dilation, count), groups)
    return result[0] if alone else result


@rule("conv_transpose1d conv_transpose2d conv_transpose3d")
def _conv_transpose(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    x, alone = _batched(input, weight.ndim)
    count = weight.ndim - 2
    steps, pads, more, holes = (_each(sizes, count) for sizes in (stride, padding, output_padding, dilation))
    result = tg.conv_transpose(x, weight, bias, steps, pads, more, holes, groups)
    return result[0] if alone else result


@rule("convolution")
def _convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Tensor:
    if transposed:
        return _conv_transpose(input, weight, bias, stride, padding, output_padding, groups, dilation)
    return _conv(input, weight, bias, stride, padding, dilation, groups)


# Pooling


def _pooled(call: Call, x: Tensor, kernel_size: Any, stride: Any) -> tuple[Tensor, int, Any, Any]:
    count = int(next(c for c in call.name if c.isdigit()))
    lead, _ = _batched(x, count + 2)
    size = _each(kernel_size, count)
    return lead, count, size, _each(stride, count) if stride or stride == 0 else size


@rule("max_pool1d max_pool2d max_pool3d")
def _max_pool(
    self: Tensor,
    kernel_size: Any,
    call: Call,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Tensor:
    x, count, size, steps = _pooled(call, self, kernel_size, stride)
    result = tg.max_pool(x, size, steps, _each(padding, count), _each(dilation, count), ceil_mode)
    return tg.reshape(result, call.shape)


@rule("max_pool2d_with_indices max_pool3d_with_indices max_pool1d_with_indices")
def _max_pool_with_indices(
    self: Tensor,
    kernel_size: Any,
    call: Call,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:
    x, count, size, steps = _pooled(call, self, kernel_size, stride)
    results = tg.max_pool(x, size, steps, _each(padding, count), _each(dilation, count), ceil_mode, return_indices=True)
    return tuple(tg.reshape(part, tuple(out.shape)) for part, out in zip(results, call.outputs, strict=True))


@rule("avg_pool1d avg_pool2d avg_pool3d")
def _avg_pool(
    self: Tensor,
    kernel_size: Any,
    call: Call,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    x, count, size, steps = _pooled(call, self, kernel_size, stride)
    result = tg.avg_pool(
        x, size, steps, _each(padding, count), ceil_mode, count_include_pad, divisor_override=divisor_override
    )
    return tg.reshape(result, call.shape)


@rule("adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d")
def _adaptive_avg_pool(self: Tensor, output_size: Any, call: Call) -> Tensor:
    count = int(next(c for c in call.name if c.isdigit()))
    x, _ = _batched(self, count + 2)
    return tg.reshape(tg.adaptive_avg_pool(x, tuple(output_size)), call.shape)


@rule("adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d")
def _adaptive_max_pool(self: Tensor, output_size: Any, call: Call) -> Any:
    count = int(next(c for c in call.name if c.isdigit()))
    x, _ = _batched(self, count + 2)
    results = tg.adaptive_max_pool(x, tuple(output_size), return_indices=True)
    return tuple(tg.reshape(part, tuple(out.shape)) for part, out in zip(results, call.outputs, strict=True))


@rule("im2col")
def _im2col(self: Tensor, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Tensor:
    if self.ndim == len(kernel_size) + 1:
        return _im2col(tg.expand_dims(self, 0), kernel_size, dilation, padding, stride)[0]
    return tg.im2col(self, tuple(kernel_size), tuple(stride), tuple(padding), tuple(dilation))


@rule("col2im")
def _col2im(self: Tensor, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Tensor:
    if self.ndim == 2:
        return _col2im(tg.expand_dims(self, 0), output_size, kernel_size, dilation, padding, stride)[0]
    return tg.col2im(self, tuple(output_size), tuple(kernel_size), tuple(stride), tuple(padding), tuple(dilation))


# Resampling


_RESAMPLED = {
    "nearest-floor": "upsample_nearest1d upsample_nearest2d upsample_nearest3d",
    "nearest": "_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d",
    "linear": "upsample_linear1d upsample_bilinear2d upsample_trilinear3d _upsample_bilinear2d_aa",
    "cubic": "upsample_bicubic2d _upsample_bicubic2d_aa",
}
_METHODS = {f"aten.{name}": method for method, names in _RESAMPLED.items() for name in names.split()}


@rule(" ".join(_RESAMPLED.values()))
def _resample(
    call: Call,
    input: Tensor | None = None,
    self: Tensor | None = None,
    output_size: Any = None,
    align_corners: bool = False,
    scale_factors: Sequence[float] | None = None,
    **scales: float | None,
) -> Tensor:
    """Resizes to PyTorch's result; factors, where there are any, decide between which elements."""
    x = input if input is not None else self
    assert x is not None
    factors = [factor for factor in (scale_factors or scales.values()) if factor]
    method, antialias = _METHODS[call.name], call.name.endswith("_aa")
    if factors and not align_corners:
        return tg.resize(x, method=method, scale_factor=factors, antialias=antialias)
    return tg.resize(x, call.shape[2:], method, align_corners, antialias=antialias)


_MODES, _PADDINGS = ("linear", "nearest", "cubic"), ("zeros", "border", "reflection")


@rule("grid_sampler grid_sampler_2d grid_sampler_3d")
def _grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    return tg.grid_sample(input, grid, _MODES[interpolation_mode], _PADDINGS[padding_mode], align_corners)


@rule("affine_grid_generator")
def _affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool, call: Call) -> Tensor:
    if len(size) != 4:
        call.refuse("takes images [batch, channels, height, width]")
    axes = []
    for extent in size[2:]:
        steps = np.linspace(-1, 1, extent) if align_corners else (np.arange(extent) * 2 + 1) / extent - 1
        axes.append(steps)
    y, x = np.meshgrid(*axes, indexing="ij")
    base = np.stack([x, y, np.ones_like(x)], -1).astype(theta.dtype)
    return tg.einsum("hwk,nik->nhwi", Array(base), theta)
