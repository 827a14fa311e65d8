"""Reductions, scans along an axis, sorting and searching."""

from __future__ import annotations

import math
from typing import Any

import torch

import tensorgrad as tg
from tensorgrad.importers.torch.table import Call, rule
from tensorgrad.tracing.dtypes import NAMES
from tensorgrad.tracing.tensor import Array, Tensor


def _axes(dim: Any) -> Any:
    """Returns axes as functions here take them: none at all means every one."""
    if isinstance(dim, int):
        return (dim,)
    return tuple(dim) if dim else None


@rule("sum")
def _sum(self: Tensor, call: Call, dim: Any = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Tensor:
    return tg.sum(tg.cast(self, call.dtype), _axes(dim), keepdim)


@rule("mean")
def _mean(self: Tensor, call: Call, dim: Any = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Tensor:
    return tg.mean(tg.cast(self, call.dtype), _axes(dim), keepdim)


@rule("prod")
def _prod(self: Tensor, call: Call, dim: Any = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Tensor:
    return tg.prod(tg.cast(self, call.dtype), _axes(dim) if dim is not None else None, keepdim)


def _correction(unbiased: bool, correction: float | None) -> float:
    return float(unbiased) if correction is None else correction


@rule("var")
def _var(
    self: Tensor, dim: Any = None, unbiased: bool = True, keepdim: bool = False, correction: float | None = None
) -> Tensor:
    return tg.var(self, _axes(dim), _correction(unbiased, correction), keepdim)


@rule("std")
def _std(
    self: Tensor, dim: Any = None, unbiased: bool = True, keepdim: bool = False, correction: float | None = None
) -> Tensor:
    return tg.std(self, _axes(dim), _correction(unbiased, correction), keepdim)


@rule("var_mean")
def _var_mean(
    self: Tensor, dim: Any = None, unbiased: bool = True, keepdim: bool = False, correction: float | None = None
) -> tuple[Tensor, Tensor]:
    axes = _axes(dim)
    return tg.var(self, axes, _correction(unbiased, correction), keepdim), tg.mean(self, axes, keepdim)


@rule("amax")
def _amax(self: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    return tg.max(self, _axes(dim), keepdim)


@rule("amin")
def _amin(self: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    return tg.min(self, _axes(dim), keepdim)


def _extremum(self: Tensor, other: Any, keepdim: bool, both: Any, values: Any, indices: Any) -> Any:
    if isinstance(other, Tensor):
        return both(self, other)
    if other is None:
        return values(self)
    return values(self, other, keepdim), indices(self, other, keepdim)


@rule("max")
def _max(self: Tensor, dim: int | None = None, keepdim: bool = False, other: Any = None) -> Any:
    return _extremum(self, dim if other is None else other, keepdim, tg.maximum, tg.max, tg.argmax)


@rule("min")
def _min(self: Tensor, dim: int | None = None, keepdim: bool = False, other: Any = None) -> Any:
    return _extremum(self, dim if other is None else other, keepdim, tg.minimum, tg.min, tg.argmin)


@rule("argmax")
def _argmax(self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    return tg.argmax(self, dim, keepdim)


@rule("argmin")
def _argmin(self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    return tg.argmin(self, dim, keepdim)


@rule("any")
def _any(self: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    return tg.any(
        tg.not_equal(self, 0) if self.dtype.kind != "b" else self, _axes(dim) if dim is not None else None, keepdim
    )


@rule("all")
def _all(self: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    return tg.all(
        tg.not_equal(self, 0) if self.dtype.kind != "b" else self, _axes(dim) if dim is not None else None, keepdim
    )


@rule("logsumexp")
def _logsumexp(self: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    return tg.logsumexp(self, _axes(dim), keepdim)


@rule("linalg_vector_norm norm")
def _norm(
    self: Tensor,
    call: Call,
    ord: float | None = None,
    dim: Any = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
    p: float | None = None,
) -> Tensor:
    order = ord if ord is not None else p if p is not None else 2
    return tg.norm(tg.cast(self, call.dtype), order, _axes(dim), keepdim)


@rule("_weight_norm")
def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    axes = tuple(axis for axis in range(v.ndim) if axis != dim)
    return v * (g / tg.sqrt(tg.sum(v * v, axes, keepdims=True)))


@rule("_weight_norm_interface")
def _weight_norm_interface(v: Tensor, g: Tensor, dim: int = 0) -> tuple[Tensor, Tensor]:
    axes = tuple(axis for axis in range(v.ndim) if axis != dim)
    size = tg.sqrt(tg.sum(v * v, axes, keepdims=True))
    return v * (g / size), size


# Along an axis


@rule("cumsum")
def _cumsum(self: Tensor, dim: int, call: Call, dtype: torch.dtype | None = None) -> Tensor:
    return tg.cumsum(tg.cast(self, call.dtype), dim)


@rule("cumprod")
def _cumprod(self: Tensor, dim: int, call: Call, dtype: torch.dtype | None = None) -> Tensor:
    return tg.cumprod(tg.cast(self, call.dtype), dim)


@rule("logcumsumexp")
def _logcumsumexp(self: Tensor, dim: int) -> Tensor:
    return tg.logcumsumexp(self, dim)


@rule("diff")
def _diff(self: Tensor, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    return tg.diff(self, n, dim, prepend, append)


@rule("sort")
def _sort(self: Tensor, dim: int = -1, descending: bool = False, stable: bool | None = None) -> tuple[Tensor, Tensor]:
    order = tg.argsort(self, dim, descending)
    return tg.take_along_axis(self, order, dim), order


@rule("argsort")
def _argsort(self: Tensor, dim: int = -1, descending: bool = False, stable: bool | None = None) -> Tensor:
    return tg.argsort(self, dim, descending)


@rule("cummax")
def _cummax(self: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    return tg.cummax(self, dim)


@rule("cummin")
def _cummin(self: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    return tg.cummin(self, dim)


@rule("kthvalue")
def _kthvalue(self: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    order = tg.argsort(self, dim)
    index = tg.take(order, [k - 1], dim)
    value = tg.take_along_axis(self, index, dim)
    return (value, index) if keepdim else (tg.squeeze(value, dim), tg.squeeze(index, dim))


@rule("median")
def _median(self: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower one of two in the middle; of numbers and NaNs, a NaN, since that is the largest of all."""
    if dim is None:
        return _median(tg.reshape(self, (-1,)), 0)[0]
    nan = tg.cast(tg.isnan(self), "i32")
    first = tg.argmax(nan, dim, True)
    middle = _kthvalue(self, (self.shape[dim] + 1) // 2, dim, True)[1]
    index = tg.where(tg.any(nan != 0, dim, True), first, middle)
    value = tg.take_along_axis(self, index, dim)
    return (value, index) if keepdim else (tg.squeeze(value, dim), tg.squeeze(index, dim))


@rule("topk")
def _topk(self: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    return tg.topk(self, k, dim, largest)


@rule("histc")
def _histc(self: Tensor, call: Call, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    if min == max:
        call.refuse("needs a range: min and max are the same")
    inside = tg.logical_and(tg.greater_equal(self, min), tg.less_equal(self, max))
    places = tg.clip(tg.cast(tg.floor((tg.cast(self, NAMES["f32"]) - min) * (bins / (max - min))), "i32"), 0, bins - 1)
    places = tg.reshape(tg.where(inside, places, bins), (-1,))
    return tg.cast(tg.bincount(places, bins + 1)[:bins], call.dtype)


@rule("bincount")
def _bincount(self: Tensor, call: Call, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    if not isinstance(self, Array):
        call.refuse("the number of its results is known only when the program runs")
    return tg.bincount(self, max(minlength, int(self.numpy().max(initial=-1)) + 1), weights)


@rule("searchsorted")
def _searchsorted(sorted_sequence: Tensor, self: Tensor, right: bool = False) -> Tensor:
    return tg.searchsorted(sorted_sequence, self, side="right" if right else "left")


@rule("bucketize")
def _bucketize(self: Tensor, boundaries: Tensor, right: bool = False) -> Tensor:
    return tg.searchsorted(boundaries, self, side="right" if right else "left")


@rule("dist")
def _dist(self: Tensor, other: Tensor, p: float = 2) -> Tensor:
    return tg.norm(self - other, p)


@rule("_cdist_forward cdist")
def _cdist(x1: Tensor, x2: Tensor, call: Call, p: float = 2, compute_mode: int | None = None) -> Tensor:
    if p != 2 and p != 1 and p != math.inf:
        call.refuse(f"p={p} is unsupported")
    return tg.norm(tg.expand_dims(x1, -2) - tg.expand_dims(x2, -3), p, -1)
