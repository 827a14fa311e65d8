"""Arithmetic, comparisons, logic, casts, elementary functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

import tensorgrad as tg
from tensorgrad.importers.onnx.elements import element_name, numpy_dtype
from tensorgrad.importers.onnx.table import OnnxNode, Role, Roles, rule
from tensorgrad.tracing.dtypes import NAMES, is_float
from tensorgrad.tracing.tensor import Array, Tensor

_UNARY: dict[str, Callable[[Any], Tensor]] = {
    "Abs": tg.abs,
    "Acos": tg.acos,
    "Acosh": tg.acosh,
    "Asin": tg.asin,
    "Asinh": tg.asinh,
    "Atan": tg.atan,
    "Atanh": tg.atanh,
    "BitwiseNot": tg.bitwise_invert,
    "Ceil": tg.ceil,
    "Cos": tg.cos,
    "Cosh": tg.cosh,
    "Erf": tg.erf,
    "Exp": tg.exp,
    "Floor": tg.floor,
    "IsNaN": tg.isnan,
    "Log": tg.log,
    "Neg": tg.negative,
    "Not": tg.logical_not,
    "Reciprocal": tg.reciprocal,
    "Round": tg.round,
    "Sigmoid": tg.sigmoid,
    "Sign": tg.sign,
    "Sin": tg.sin,
    "Sinh": tg.sinh,
    "Sqrt": tg.sqrt,
    "Tan": tg.tan,
    "Tanh": tg.tanh,
}

_BINARY: dict[str, Callable[[Any, Any], Tensor]] = {
    "Add": tg.add,
    "And": tg.logical_and,
    "BitwiseAnd": tg.bitwise_and,
    "BitwiseOr": tg.bitwise_or,
    "BitwiseXor": tg.bitwise_xor,
    "Equal": tg.equal,
    "Greater": tg.greater,
    "GreaterOrEqual": tg.greater_equal,
    "Less": tg.less,
    "LessOrEqual": tg.less_equal,
    "Mul": tg.multiply,
    "Or": tg.logical_or,
    "Sub": tg.subtract,
    "Xor": tg.logical_xor,
}

_VARIADIC: dict[str, Callable[[Any, Any], Tensor]] = {"Max": tg.maximum, "Min": tg.minimum, "Sum": tg.add}

_ROLES: dict[str, Roles] = {
    "Add": {-1: Role.TERM},
    "Mul": {-1: Role.GAIN},
    "Sub": {1: Role.OFFSET},
    "Sum": {-1: Role.TERM},
}

_ARITHMETIC = {"Add", "Exp", "Mul", "Neg", "Reciprocal", "Sigmoid", "Sqrt", "Sub", "Sum", "Tanh"}

_ALIGNMENT = "axis broadcast"
"""The attributes of ops on two operands before version 7."""


def aligned(node: OnnxNode) -> tuple[Tensor, Tensor]:
    """Returns the two operands of an op, the second so that it broadcasts as NumPy does.

    Before version 7 shapes had to be equal, or with `broadcast` the second had to be a contiguous part of the first's,
    from `axis` on, by default at its end.
    """
    x, y = node.tensor(0), node.tensor(1)
    if node.version >= 7 or x.shape == y.shape:
        return x, y
    if not node.attribute("broadcast", 0):
        node.refuse(f"before version 7 shapes as different as {x.shape} and {y.shape} need the attribute 'broadcast'")
    axis = node.attribute("axis", x.ndim - y.ndim)
    axis = axis + x.ndim if axis < 0 else axis
    part = x.shape[axis : axis + y.ndim]
    if len(part) != y.ndim or any(extent not in (1, own) for extent, own in zip(y.shape, part, strict=True)):
        node.refuse(f"the shape {y.shape} is no part of {x.shape} at axis {axis}")
    return x, tg.reshape(y, (*[1] * axis, *y.shape, *[1] * (x.ndim - axis - y.ndim)))


def _enter_unary(name: str, function: Callable[[Any], Tensor]) -> None:
    rule(name, is_arithmetic=name in _ARITHMETIC)(lambda node: function(node.tensor(0)))


def _enter_binary(name: str, function: Callable[[Any, Any], Tensor]) -> None:
    rule(name, _ALIGNMENT, roles=_ROLES.get(name), is_arithmetic=name in _ARITHMETIC)(
        lambda node: function(*aligned(node))
    )


def _enter_variadic(name: str, function: Callable[[Any, Any], Tensor]) -> None:
    rule(name, roles=_ROLES.get(name), is_arithmetic=name in _ARITHMETIC)(lambda node: reduce(function, node.tensors))


for _name, _unary in _UNARY.items():
    _enter_unary(_name, _unary)
for _name, _binary in _BINARY.items():
    _enter_binary(_name, _binary)
for _name, _variadic in _VARIADIC.items():
    _enter_variadic(_name, _variadic)


@rule("Mean")
def _mean(node: OnnxNode) -> Tensor:
    return reduce(tg.add, node.tensors) * (1.0 / len(node.inputs))


def truncated_quotient(x: Tensor, y: Tensor) -> Tensor:
    """Returns the quotient of integers, rounded towards 0."""
    quotient = tg.floor_divide(x, y)
    if x.dtype.kind == "u":
        return quotient
    inexact = tg.not_equal(tg.multiply(quotient, y), x) & tg.not_equal(y, 0)
    return tg.where(tg.less(quotient, 0) & inexact, quotient + 1, quotient)


@rule("Div", _ALIGNMENT, is_arithmetic=True)
def _div(node: OnnxNode) -> Tensor:
    x, y = aligned(node)
    return tg.divide(x, y) if is_float(x.dtype) else truncated_quotient(x, y)


@rule("Mod", "fmod")
def _mod(node: OnnxNode) -> Tensor:
    x, y = node.tensor(0), node.tensor(1)
    return tg.fmod(x, y) if node.attribute("fmod", 0) else tg.remainder(x, y)


@rule("Pow", _ALIGNMENT)
def _pow(node: OnnxNode) -> Tensor:
    base, exponent = aligned(node)
    if is_float(base.dtype):
        if isinstance(exponent, Array) and exponent.size == 1 and exponent.ndim <= base.ndim:
            return tg.power(base, float(tg.reshape(exponent, ())))
        return tg.power(base, tg.cast(exponent, base.dtype))
    if is_float(exponent.dtype):
        return tg.cast(tg.power(tg.cast(base, exponent.dtype), exponent), base.dtype)
    return _whole_power(base, exponent)


def _whole_power(base: Tensor, exponent: Tensor) -> Tensor:
    """Returns integers to integer powers, wrapping; 0 for negative exponents, as a quotient rounds."""
    if isinstance(exponent, Array) and exponent.size == 1 and int(np.asarray(exponent).reshape(())) >= 0:
        extents = np.broadcast_shapes(base.shape, exponent.shape)
        return tg.power(tg.broadcast_to(base, extents), int(np.asarray(exponent).reshape(())))
    result = tg.full((), 1, base.dtype)
    square = base
    for bit in range(8 * exponent.dtype.itemsize - (exponent.dtype.kind == "i")):
        is_set = tg.not_equal(tg.bitwise_and(exponent, tg.full((), 1 << bit, exponent.dtype)), 0)
        result = tg.where(is_set, result * square, result)
        square = square * square
    if exponent.dtype.kind == "u":
        return result
    unit = tg.where(tg.equal(base, 1) | (tg.equal(base, -1) if base.dtype.kind == "i" else False), result, 0)
    return tg.where(tg.less(exponent, 0), unit, result)


@rule("BitShift", "direction=LEFT|RIGHT")
def _bit_shift(node: OnnxNode) -> Tensor:
    left = node.attribute("direction") == "LEFT"
    return (tg.bitwise_left_shift if left else tg.bitwise_right_shift)(node.tensor(0), node.tensor(1))


@rule("IsInf", "detect_negative detect_positive")
def _is_inf(node: OnnxNode) -> Tensor:
    x = node.tensor(0)
    result = tg.isinf(x)
    if not node.attribute("detect_negative", 1):
        result = result & tg.greater(x, 0)
    if not node.attribute("detect_positive", 1):
        result = result & tg.less(x, 0)
    return result


@rule("Where", carries=(1, 2))
def _where(node: OnnxNode) -> Tensor:
    return tg.where(node.tensor(0), node.tensor(1), node.tensor(2))


@rule("Clip", "min max", carries=(0,))
def _clip(node: OnnxNode) -> Tensor:
    x = node.tensor(0)
    low = node.optional(1) if node.has(1) else node.attribute("min")
    high = node.optional(2) if node.has(2) else node.attribute("max")
    return tg.clip(x, low, high)


@rule("Cast", "to saturate round_mode", carries=(0,))
def _cast(node: OnnxNode) -> Tensor:
    return tg.cast(node.tensor(0), node.dtype(node.attribute("to")))


@rule("BitCast", "to")
def _bit_cast(node: OnnxNode) -> Tensor:
    attribute = node.attribute("to")
    if numpy_dtype(attribute).itemsize == 8:
        node.refuse(f"reads the bits of 64, and {element_name(attribute)} has 32 of them here")
    x, dtype = node.tensor(0), node.dtype(attribute)
    byte = tg.cast(x, NAMES["u8"]) if x.dtype == NAMES["bool"] else x  # ONNX's booleans are bytes of 0 and 1
    return tg.cast(byte, dtype) if dtype == NAMES["bool"] else tg.bitcast(byte, dtype)


@rule("CastLike", "saturate round_mode", carries=(0,))
def _cast_like(node: OnnxNode) -> Tensor:
    return tg.cast(node.tensor(0), node.tensor(1).dtype)


@rule("Identity", carries=(0,))
def _identity(node: OnnxNode) -> Any:
    return node.inputs[0]


@rule("Dropout", "ratio is_test=1 seed", constants=(1, 2), carries=(0,))
def _dropout(node: OnnxNode) -> Any:
    x = node.tensor(0)
    if node.version < 7 and not node.attribute("is_test", 0):
        node.refuse("before version 7, only with is_test = 1")
    if node.scalar(2, False) and node.scalar(1, 0.5) > 0:
        node.refuse("its random numbers are the runtime's own: apply tg.nn.Dropout around the model")
    mask = tg.full((), 1, NAMES["bool"] if node.version >= 10 else x.dtype)
    return x, tg.broadcast_to(mask, x.shape)


@rule("Binarizer", "threshold", domain="ai.onnx.ml")
def _binarizer(node: OnnxNode) -> Tensor:
    x = node.tensor(0)
    return tg.cast(tg.greater(x, node.attribute("threshold", 0.0)), x.dtype)
