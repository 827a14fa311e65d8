"""Shapes: views, permutations, parts, and joins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorgrad as tg
from tensorgrad.importers.torch.table import Call, moving
from tensorgrad.tracing.tensor import Tensor


@moving("view reshape _unsafe_view unflatten flatten view_copy _reshape_copy reshape_as")
def _view(self: Tensor, call: Call, **shape: Any) -> Tensor:
    return tg.reshape(self, call.shape)


@moving("expand expand_as broadcast_to expand_copy")
def _expand(self: Tensor, call: Call, size: Any = None, other: Any = None) -> Tensor:
    return tg.broadcast_to(self, call.shape)


@moving("squeeze unsqueeze squeeze_copy unsqueeze_copy")
def _same_elements(self: Tensor, call: Call, dim: Any = None) -> Tensor:
    return tg.reshape(self, call.shape)


@moving("permute permute_copy")
def _permute(self: Tensor, dims: Sequence[int]) -> Tensor:
    return tg.permute(self, tuple(axis % self.ndim for axis in dims))


@moving("transpose transpose_copy")
def _transpose(self: Tensor, dim0: int, dim1: int) -> Tensor:
    return tg.swapaxes(self, dim0, dim1)


@moving("t t_copy mT")
def _t(self: Tensor) -> Tensor:
    return tg.swapaxes(self, -1, -2) if self.ndim > 1 else self


@moving("numpy_T")
def _numpy_t(self: Tensor) -> Tensor:
    return tg.permute(self, tuple(reversed(range(self.ndim))))


# Parts


def bounds(extent: int, start: int | None, end: int | None) -> tuple[int, int]:
    """Returns the first element of a slice and the one after its last, within an extent."""
    first, last, _ = slice(start, end).indices(extent)
    return first, max(first, last)


@moving("slice slice_copy")
def _slice(self: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    first, last = bounds(self.shape[dim], start, end)
    if (first, last, step) == (0, self.shape[dim], 1):
        return self
    return self[(*[slice(None)] * (dim % self.ndim), slice(first, last, step))]


@moving("select select_copy")
def _select(self: Tensor, dim: int, index: int) -> Tensor:
    return self[(*[slice(None)] * (dim % self.ndim), index)]


@moving("slice_scatter")
def _slice_scatter(
    self: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    first, last = bounds(self.shape[dim], start, end)
    if (first, last, step) == (0, self.shape[dim], 1):
        return tg.broadcast_to(tg.cast(src, self.dtype), self.shape)
    return self.at[(*[slice(None)] * (dim % self.ndim), slice(first, last, step))].set(tg.cast(src, self.dtype))


@moving("select_scatter")
def _select_scatter(self: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    return self.at[(*[slice(None)] * (dim % self.ndim), index)].set(tg.cast(src, self.dtype))


@moving(
    "split split_with_sizes split_copy split_with_sizes_copy chunk unsafe_chunk unsafe_split unsafe_split_with_sizes "
    "tensor_split"
)
def _split(self: Tensor, call: Call, dim: int = 0, **parts: Any) -> Any:
    views: list[Tensor] = []
    start = 0
    for part in call.outputs:
        views.append(tg.narrow(self, dim, start, part.shape[dim]))
        start += part.shape[dim]
    return views


@moving("unbind unbind_copy")
def _unbind(self: Tensor, dim: int = 0) -> Any:
    return [_select(self, dim, index) for index in range(self.shape[dim])]


@moving("diagonal diagonal_copy")
def _diagonal(self: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    return tg.diagonal(self, offset, dim1, dim2)


@moving("unfold unfold_copy")
def _unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    return tg.unfold(self, dimension, size, step)


@moving("tril")
def _tril(self: Tensor, diagonal: int = 0) -> Tensor:
    return tg.tril(self, diagonal)


@moving("triu")
def _triu(self: Tensor, diagonal: int = 0) -> Tensor:
    return tg.triu(self, diagonal)


# Joins and repetitions


@moving("cat concat")
def _cat(tensors: Sequence[Tensor], call: Call, dim: int = 0) -> Tensor:
    parts = [tg.cast(part, call.dtype) for part in tensors if part.shape != (0,)]
    return tg.concat(parts, dim)


@moving("stack")
def _stack(tensors: Sequence[Tensor], call: Call, dim: int = 0) -> Tensor:
    return tg.stack([tg.cast(part, call.dtype) for part in tensors], dim)


@moving("repeat")
def _repeat(self: Tensor, repeats: Sequence[int]) -> Tensor:
    return tg.tile(self, tuple(repeats))


@moving("tile")
def _tile(self: Tensor, dims: Sequence[int]) -> Tensor:
    return tg.tile(self, tuple(dims))


@moving("repeat_interleave")
def _repeat_interleave(self: Tensor, repeats: Any, dim: int | None = None, output_size: int | None = None) -> Tensor:
    return tg.repeat(self, repeats, dim)


@moving("roll")
def _roll(self: Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> Tensor:
    return tg.roll(self, tuple(shifts), tuple(dims) or None)


@moving("flip")
def _flip(self: Tensor, dims: Sequence[int]) -> Tensor:
    return tg.flip(self, tuple(dims))


@moving("meshgrid")
def _meshgrid(tensors: Sequence[Tensor], indexing: str = "ij") -> Any:
    return list(tg.meshgrid(*tensors, indexing=indexing))


_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _padded(x: Tensor, pad: Sequence[int], mode: str, value: float = 0.0) -> Tensor:
    pairs = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    widths = [(0, 0)] * (x.ndim - len(pairs)) + pairs[::-1]
    cut = tuple(
        slice(max(-low, 0), extent - max(-high, 0)) for (low, high), extent in zip(widths, x.shape, strict=True)
    )
    inner = x if all(low >= 0 and high >= 0 for low, high in widths) else x[cut]
    outer = [(max(low, 0), max(high, 0)) for low, high in widths]
    return tg.pad(inner, outer, _MODES[mode], value) if mode == "constant" else tg.pad(inner, outer, _MODES[mode])


@moving("pad")
def _pad(self: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    return _padded(self, pad, mode, value or 0.0)


@moving("constant_pad_nd")
def _constant_pad(self: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    return _padded(self, pad, "constant", value)


@moving("reflection_pad1d reflection_pad2d reflection_pad3d")
def _reflection_pad(self: Tensor, padding: Sequence[int]) -> Tensor:
    return _padded(self, padding, "reflect")


@moving("replication_pad1d replication_pad2d replication_pad3d")
def _replication_pad(self: Tensor, padding: Sequence[int]) -> Tensor:
    return _padded(self, padding, "replicate")


@moving("pixel_shuffle")
def _pixel_shuffle(self: Tensor, upscale_factor: int) -> Tensor:
    return tg.pixel_shuffle(self, upscale_factor)


@moving("pixel_unshuffle")
def _pixel_unshuffle(self: Tensor, downscale_factor: int) -> Tensor:
    return tg.pixel_unshuffle(self, downscale_factor)


@moving("channel_shuffle native_channel_shuffle")
def _channel_shuffle(self: Tensor, groups: int) -> Tensor:
    return tg.channel_shuffle(self, groups)
