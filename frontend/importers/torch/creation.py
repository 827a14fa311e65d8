"""New tensors: filled, ranges, and random ones; and assertions, which exported graphs repeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tensorgrad as tg
from tensorgrad.importers.torch.table import Call, rule
from tensorgrad.tracing.tensor import Array, Tensor

# Filled


@rule("zeros zeros_like new_zeros")
def _zeros(call: Call, self: Any = None, size: Any = None, dtype: Any = None) -> Tensor:
    return tg.zeros(call.shape, call.dtype)


@rule("empty empty_like new_empty empty_strided new_empty_strided empty_permuted")
def _empty(
    call: Call, self: Any = None, size: Any = None, dtype: Any = None, stride: Any = None, physical_layout: Any = None
) -> Tensor:
    return tg.zeros(call.shape, call.dtype)


@rule("ones ones_like new_ones")
def _ones(call: Call, self: Any = None, size: Any = None, dtype: Any = None) -> Tensor:
    return tg.ones(call.shape, call.dtype)


@rule("full full_like new_full")
def _full(call: Call, fill_value: Any, self: Any = None, size: Any = None, dtype: Any = None) -> Tensor:
    return tg.full(call.shape, fill_value, call.dtype)


@rule("scalar_tensor")
def _scalar_tensor(s: float, call: Call, dtype: Any = None) -> Tensor:
    return tg.full((), s, call.dtype)


@rule("eye")
def _eye(n: int, call: Call, m: int | None = None, dtype: Any = None) -> Tensor:
    return tg.eye(n, m, dtype=call.dtype)


# Ranges


@rule("arange")
def _arange(end: float, call: Call, start: float = 0, step: float = 1, dtype: Any = None) -> Tensor:
    count = call.shape[0]
    values = start + np.arange(count) * step
    return Array(values.astype(call.dtype))


@rule("linspace")
def _linspace(start: float, end: float, steps: int, call: Call, dtype: Any = None) -> Tensor:
    return tg.linspace(start, end, steps, dtype=call.dtype)


@rule("tril_indices")
def _tril_indices(row: int, col: int, offset: int = 0, dtype: Any = None) -> Tensor:
    return Array(np.stack(np.tril_indices(row, offset, col)).astype(np.int32))


@rule("triu_indices")
def _triu_indices(row: int, col: int, offset: int = 0, dtype: Any = None) -> Tensor:
    return Array(np.stack(np.triu_indices(row, offset, col)).astype(np.int32))


# Random numbers


@rule("native_dropout", is_random=True)
def _native_dropout(input: Tensor, p: float, train: bool | None, call: Call) -> tuple[Tensor, Tensor]:
    if not train or p == 0:
        return input, tg.ones(input.shape, "bool")
    if p == 1:
        return tg.zeros_like(input), tg.zeros(input.shape, "bool")
    kept = tg.random.bernoulli(call.key(), 1 - p, input.shape)
    return tg.where(kept, input / (1 - p), 0.0), kept


@rule("dropout", is_random=True)
def _dropout(input: Tensor, p: float, train: bool, call: Call) -> Tensor:
    return _native_dropout(input, p, train, call)[0]


@rule("feature_dropout", is_random=True)
def _feature_dropout(input: Tensor, p: float, train: bool, call: Call) -> Tensor:
    if not train or not p:
        return input
    channels = tg.ones((*input.shape[:2], *[1] * (input.ndim - 2)), input.dtype)
    return input * tg.random.dropout(call.key(), channels, p)


@rule("rand rand_like", is_random=True)
def _rand(call: Call, self: Any = None, size: Sequence[int] = (), dtype: Any = None) -> Tensor:
    return tg.cast(tg.random.uniform(call.key(), call.shape), call.dtype)


@rule("randn randn_like normal_functional", is_random=True)
def _randn(
    call: Call, self: Any = None, size: Sequence[int] = (), dtype: Any = None, mean: float = 0, std: float = 1
) -> Tensor:
    return tg.cast(tg.random.normal(call.key(), call.shape) * std + mean, call.dtype)


@rule("randint randint_like", is_random=True)
def _randint(
    high: int, call: Call, low: int = 0, self: Any = None, size: Sequence[int] = (), dtype: Any = None
) -> Tensor:
    return tg.cast(tg.random.randint(call.key(), call.shape, low, high), call.dtype)


@rule("uniform", is_random=True)
def _uniform(self: Tensor, call: Call, **limits: float) -> Tensor:
    low, high = limits.get("from", 0.0), limits.get("to", 1.0)
    return tg.cast(tg.random.uniform(call.key(), call.shape, low, high), call.dtype)


@rule("bernoulli", is_random=True)
def _bernoulli(self: Tensor, call: Call, p: Any = None) -> Tensor:
    return tg.cast(tg.random.bernoulli(call.key(), self if p is None else p, call.shape), call.dtype)


@rule("exponential", is_random=True)
def _exponential(self: Tensor, call: Call, lambd: float = 1.0) -> Tensor:
    return -tg.log1p(-tg.random.uniform(call.key(), call.shape)) / lambd


# What was checked while exporting


@rule("_assert_tensor_metadata _assert_scalar _assert_async sym_constrain_range sym_constrain_range_for_size")
def _nothing(**arguments: Any) -> None:
    return None


@rule("sym_size")
def _size(self: Tensor, dim: int) -> int:
    return self.shape[dim]


@rule("item _local_scalar_dense")
def _item(self: Tensor, call: Call) -> Any:
    if not isinstance(self, Array):
        call.refuse("the number is known only when the program runs")
    return self.numpy().item()
