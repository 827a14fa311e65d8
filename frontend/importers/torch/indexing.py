"""Indices: looking up, gathering, scattering."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tensorgrad as tg
from tensorgrad.importers.torch.table import Call, moving, rule
from tensorgrad.tracing.tensor import Array, Tensor


def _wrapped(indices: Tensor, extent: int) -> Tensor:
    """Returns indices counted from the first element; PyTorch counts negative ones from the last."""
    if indices.dtype.kind == "u":
        return indices
    return tg.where(tg.less(indices, 0), indices + extent, indices)


@moving("embedding")
def _embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
    call: Call | None = None,
) -> Tensor:
    if scale_grad_by_freq and call is not None:
        call.refuse("scale_grad_by_freq is unsupported")
    rows = tg.embedding(weight, indices)
    if padding_idx < 0:
        return rows
    # The padding's row is looked up like others, and not trained.
    return tg.where(tg.expand_dims(tg.equal(indices, padding_idx), -1), tg.stop_gradient(rows), rows)


@rule("_embedding_bag_forward_only _embedding_bag embedding_bag")
def _embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    call: Call,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    bags = offsets.shape[0] - int(include_last_offset)
    places = tg.arange(indices.shape[0])
    bag = tg.searchsorted(offsets[:bags], places, side="right") - 1
    rows = tg.take(weight, indices)
    if per_sample_weights is not None:
        rows = rows * tg.expand_dims(per_sample_weights, -1)
    if padding_idx is not None and padding_idx >= 0:
        bag = tg.where(tg.equal(indices, padding_idx), bags, bag)  # a bag more, which is left out
    if mode == 2:
        largest = tg.segment_max(rows, bag, bags + 1)[:bags]
        result = tg.where(tg.equal(largest, -math.inf), 0.0, largest)
    else:
        reduced = tg.segment_sum if mode == 0 else tg.segment_mean
        result = reduced(rows, bag, bags + 1)[:bags]
    return (result,)


@moving("index")
def _index(self: Tensor, indices: Sequence[Tensor | None], call: Call) -> Tensor:
    return self[_keys(self, indices, call)]


def _keys(x: Tensor, indices: Sequence[Tensor | None], call: Call) -> tuple[Any, ...]:
    keys: list[Any] = []
    for index in indices:
        if index is None:
            keys.append(slice(None))
            continue
        if index.dtype.kind == "b":
            if not isinstance(index, Array):
                call.refuse(
                    "a mask that is known only when the program runs selects a number of elements that isn't known"
                )
            keys.extend(tg.nonzero(index))
            continue
        keys.append(_wrapped(index, x.shape[len(keys)]))
    return tuple(keys)


@rule("index_put _unsafe_index_put")
def _index_put(
    self: Tensor, indices: Sequence[Tensor | None], values: Tensor, call: Call, accumulate: bool = False
) -> Tensor:
    new = tg.cast(values, self.dtype)
    masks = [index for index in indices if index is not None and index.dtype.kind == "b"]
    if masks and not isinstance(masks[0], Array):
        if len(indices) > 1 or (new.size > 1 and new.shape != self.shape[masks[0].ndim :]):
            call.refuse("a mask that is known only when the program runs takes one value for all elements")
        mask = tg.reshape(masks[0], (*masks[0].shape, *[1] * (self.ndim - masks[0].ndim)))
        return tg.where(mask, self + new if accumulate else new, self)
    place = self.at[_keys(self, indices, call)]
    return place.add(new) if accumulate else place.set(new)


@moving("index_select")
def _index_select(self: Tensor, dim: int, index: Tensor) -> Tensor:
    return tg.take(self, index, dim)


@moving("gather")
def _gather(self: Tensor, dim: int, index: Tensor, sparse_grad: bool = False) -> Tensor:
    return tg.gather(self, dim, index)


@moving("take")
def _take(self: Tensor, index: Tensor) -> Tensor:
    return tg.take(tg.reshape(self, (-1,)), _wrapped(index, self.size))


@rule("scatter")
def _scatter(
    self: Tensor,
    dim: int,
    index: Tensor,
    call: Call,
    src: Tensor | None = None,
    value: Any = None,
    reduce: str | None = None,
) -> Tensor:
    if reduce is not None:
        call.refuse("reduce is unsupported: use scatter_reduce")
    updates = tg.full(index.shape, value, self.dtype) if src is None else _corner(src, index)
    return tg.scatter(self, dim, index, updates)


def _corner(src: Tensor, index: Tensor) -> Tensor:
    return src[tuple(slice(extent) for extent in index.shape)] if src.shape != index.shape else src


@rule("scatter_add")
def _scatter_add(self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    return tg.scatter_add(self, dim, index, _corner(src, index))


@rule("scatter_reduce")
def _scatter_reduce(
    self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool = True
) -> Tensor:
    return tg.scatter_reduce(self, dim, index, _corner(src, index), reduce, include_self)


@rule("index_add")
def _index_add(self: Tensor, dim: int, index: Tensor, source: Tensor, alpha: float = 1) -> Tensor:
    key = (*[slice(None)] * (dim % self.ndim), index)
    return self.at[key].add(source if alpha == 1 else source * alpha)


@rule("index_copy")
def _index_copy(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    return self.at[(*[slice(None)] * (dim % self.ndim), index)].set(source)


@rule("index_fill")
def _index_fill(self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    return self.at[(*[slice(None)] * (dim % self.ndim), index)].set(value)


@rule("one_hot")
def _one_hot(self: Tensor, call: Call, num_classes: int = -1) -> Tensor:
    return tg.one_hot(self, call.shape[-1], "i32")


@rule("nonzero")
def _nonzero(self: Tensor, call: Call) -> Tensor:
    if not isinstance(self, Array):
        call.refuse("the number of elements that aren't 0 is known only when the program runs")
    return tg.stack(tg.nonzero(self), -1)
