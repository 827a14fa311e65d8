"""Reductions, argmin and argmax, cumulative sums, sorting."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import tensorgrad as tg
from tensorgrad.importers.onnx.pointwise import truncated_quotient
from tensorgrad.importers.onnx.table import OnnxNode, rule
from tensorgrad.tracing.dtypes import is_float
from tensorgrad.tracing.tensor import Tensor


def _largest(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    return _extreme(tg.max, x, axis, keepdims, False)


def _smallest(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    return _extreme(tg.min, x, axis, keepdims, True)


def _extreme(function: Callable[..., Tensor], x: Tensor, axis: Any, keepdims: bool, smallest: bool) -> Tensor:
    """Returns the extreme elements; for empty axes the bound of the dtype's range, as the standard requires."""
    if any(x.shape[i] == 0 for i in (range(x.ndim) if axis is None else axis)):
        places = {i % x.ndim for i in (range(x.ndim) if axis is None else axis)}
        limit: Any = bool(smallest)
        if is_float(x.dtype):
            limit = np.inf if smallest else -np.inf
        elif x.dtype.kind in "iu":
            limit = int(np.iinfo(x.dtype).max if smallest else np.iinfo(x.dtype).min)
        extents = [1 if i in places else n for i, n in enumerate(x.shape) if keepdims or i not in places]
        return tg.full(extents, limit, x.dtype)
    result = function(x, axis, keepdims)
    return tg.cast(result, x.dtype)


_REDUCTIONS: dict[str, Callable[[Tensor, Any, bool], Tensor]] = {
    "ReduceL1": lambda x, axis, keep: tg.sum(tg.abs(x), axis, keep),
    "ReduceL2": lambda x, axis, keep: tg.cast(tg.norm(x, 2, axis, keep), x.dtype),
    "ReduceLogSum": lambda x, axis, keep: tg.cast(tg.log(tg.sum(x, axis, keep)), x.dtype),
    "ReduceLogSumExp": lambda x, axis, keep: tg.cast(_log_sum_exp(x, axis, keep), x.dtype),
    "ReduceMax": _largest,
    "ReduceMean": lambda x, axis, keep: _mean(x, axis, keep),
    "ReduceMin": _smallest,
    "ReduceProd": tg.prod,
    "ReduceSum": tg.sum,
    "ReduceSumSquare": lambda x, axis, keep: tg.sum(tg.square(x), axis, keep),
}


def _mean(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    if is_float(x.dtype):
        return tg.mean(x, axis, keepdims)
    count = math.prod(x.shape[i] for i in (range(x.ndim) if axis is None else axis))
    return truncated_quotient(tg.sum(x, axis, keepdims), tg.full((), count, x.dtype))


def _log_sum_exp(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    if 0 in x.shape:
        return tg.log(tg.sum(tg.exp(x), axis, keepdims))
    return tg.logsumexp(x, axis, keepdims)


def _enter(name: str, function: Callable[[Tensor, Any, bool], Tensor]) -> None:
    def reduced(node: OnnxNode) -> Tensor:
        x, axes = node.tensor(0), node.axes(1)
        if not axes and node.attribute("noop_with_empty_axes", 0):
            axes = []
        elif not axes:
            axes = None
        return function(x, axes, bool(node.attribute("keepdims", 1)))

    rule(name, "axes keepdims noop_with_empty_axes", constants=(1,))(reduced)


for _name, _function in _REDUCTIONS.items():
    _enter(_name, _function)


def _position(node: OnnxNode, function: Callable[..., Tensor]) -> Tensor:
    x, axis = node.tensor(0), node.attribute("axis", 0)
    keepdims = bool(node.attribute("keepdims", 1))
    if not node.attribute("select_last_index", 0):
        return function(x, axis, keepdims=keepdims)
    return x.shape[axis] - 1 - function(tg.flip(x, axis), axis, keepdims=keepdims)


@rule("ArgMax", "axis keepdims select_last_index")
def _argmax(node: OnnxNode) -> Tensor:
    return _position(node, tg.argmax)


@rule("ArgMin", "axis keepdims select_last_index")
def _argmin(node: OnnxNode) -> Tensor:
    return _position(node, tg.argmin)


def _running(node: OnnxNode, function: Callable[..., Tensor], empty: int) -> Tensor:
    x, axis = node.tensor(0), node.scalar(1)
    if node.attribute("reverse", 0):
        x = tg.flip(x, axis)
    result = function(x, axis)
    if node.attribute("exclusive", 0) and x.shape[axis]:
        place = axis % x.ndim
        first = tg.full([1 if i == place else n for i, n in enumerate(x.shape)], empty, result.dtype)
        result = tg.concat([first, tg.narrow(result, place, 0, x.shape[place] - 1)], place)
    return tg.flip(result, axis) if node.attribute("reverse", 0) else result


@rule("CumSum", "exclusive reverse", constants=(1,))
def _cumsum(node: OnnxNode) -> Tensor:
    return _running(node, tg.cumsum, 0)


@rule("CumProd", "exclusive reverse", constants=(1,))
def _cumprod(node: OnnxNode) -> Tensor:
    return _running(node, tg.cumprod, 1)


@rule("TopK", "axis k largest sorted", constants=(1,))
def _top_k(node: OnnxNode) -> Any:
    k = node.scalar(1) if node.has(1) else node.attribute("k")
    return tg.top_k(node.tensor(0), int(k), node.attribute("axis", -1), bool(node.attribute("largest", 1)))
