"""Element by element: arithmetic, comparisons, functions, conversions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

import tensorgrad as tg
from tensorgrad.importers.torch.table import Call, computed_in, moving, rule, same
from tensorgrad.tracing.dtypes import NAMES, DType
from tensorgrad.tracing.tensor import Tensor


def _in(dtype: DType, value: Any) -> Any:
    """Returns a tensor in a dtype; numbers unchanged."""
    return tg.cast(value, dtype) if isinstance(value, Tensor) else value


def together(x: Any, y: Any) -> tuple[Any, Any]:
    """Returns two operands in the dtype that PyTorch computes with: of floats the wider, else of integers."""
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        dtype = max(x.dtype, y.dtype, key=lambda d: ("biuf".index(d.kind) if d.kind != "u" else 1, d.itemsize))
        return tg.cast(x, dtype), tg.cast(y, dtype)
    tensor, number = (x, y) if isinstance(x, Tensor) else (y, x)
    if isinstance(number, float) and tensor.dtype.kind != "f":
        tensor = tg.cast(tensor, NAMES["f32"])
    return (tensor, number) if isinstance(x, Tensor) else (number, tensor)


same(
    {
        "abs": tg.abs,
        "acos": tg.acos,
        "acosh": tg.acosh,
        "asin": tg.asin,
        "asinh": tg.asinh,
        "atan": tg.atan,
        "atanh": tg.atanh,
        "bitwise_not": tg.bitwise_invert,
        "ceil": tg.ceil,
        "cos": tg.cos,
        "cosh": tg.cosh,
        "digamma special_digamma special_psi": tg.digamma,
        "erf": tg.erf,
        "erfc": tg.erfc,
        "erfinv": tg.erfinv,
        "exp": tg.exp,
        "exp2": tg.exp2,
        "expm1": tg.expm1,
        "floor": tg.floor,
        "frac": lambda x: x - tg.trunc(x),
        "isfinite": tg.isfinite,
        "isinf": tg.isinf,
        "isnan": tg.isnan,
        "lgamma special_gammaln": tg.lgamma,
        "log": tg.log,
        "log10": tg.log10,
        "log1p": tg.log1p,
        "log2": tg.log2,
        "logical_not": lambda x: tg.equal(x, 0),
        "neg": tg.negative,
        "reciprocal": tg.reciprocal,
        "rsqrt": tg.rsqrt,
        "sgn": tg.sign,
        "sign": tg.sign,
        "signbit": tg.signbit,
        "sin": tg.sin,
        "sinc": tg.sinc,
        "sinh": tg.sinh,
        "sqrt": tg.sqrt,
        "square": tg.square,
        "tan": tg.tan,
        "tanh": tg.tanh,
        "trunc": tg.trunc,
    }
)


@rule("round")
def _round(self: Tensor, decimals: int = 0) -> Tensor:
    if self.dtype.kind != "f":
        return self
    scale = 10.0**decimals
    return tg.round(self * scale) / scale if decimals else tg.round(self)


# Arithmetic


@rule("add")
def _add(self: Any, other: Any, call: Call, alpha: float = 1) -> Tensor:
    dtype = call.dtype
    if dtype.kind == "b":
        return tg.logical_or(self, other)
    term = _in(dtype, other)
    return _in(dtype, self) + (term if alpha == 1 else term * alpha)


@rule("sub")
def _sub(self: Any, other: Any, call: Call, alpha: float = 1) -> Tensor:
    dtype = call.dtype
    term = _in(dtype, other)
    return _in(dtype, self) - (term if alpha == 1 else term * alpha)


@rule("rsub")
def _rsub(self: Any, other: Any, call: Call, alpha: float = 1) -> Tensor:
    return _sub(other, self, call, alpha)


@rule("mul")
def _mul(self: Any, other: Any, call: Call) -> Tensor:
    if call.dtype.kind == "b":
        return tg.logical_and(self, other)
    return _in(call.dtype, self) * _in(call.dtype, other)


@rule("div true_divide")
def _div(self: Any, other: Any, call: Call, rounding_mode: str | None = None) -> Tensor:
    x, y = _in(call.dtype, self), _in(call.dtype, other)
    if rounding_mode == "floor":
        return tg.floor_divide(x, y)
    if rounding_mode == "trunc":
        if call.dtype.kind == "f":
            return tg.trunc(x / y)
        quotient = tg.floor_divide(tg.abs(x), abs(y) if isinstance(y, (int, float)) else tg.abs(y))
        return quotient * tg.sign(x) * (math.copysign(1, y) if isinstance(y, (int, float)) else tg.sign(y))
    return x / y


@rule("pow")
def _pow(self: Any, exponent: Any, call: Call) -> Tensor:
    return tg.power(_in(call.dtype, self), _in(call.dtype, exponent))


@rule("copysign")
def _copysign(self: Tensor, other: Any) -> Tensor:
    return tg.copysign(*together(self, other))


@rule("atan2")
def _atan2(self: Tensor, other: Tensor) -> Tensor:
    return tg.atan2(self, other)


@rule("polygamma special_polygamma")
def _polygamma(n: int, self: Tensor) -> Tensor:
    return tg.polygamma(n, self)


@rule("lerp")
def _lerp(self: Tensor, end: Tensor, weight: Any) -> Tensor:
    return tg.lerp(self, end, weight)


@rule("addcmul")
def _addcmul(self: Tensor, tensor1: Tensor, tensor2: Tensor, value: float = 1) -> Tensor:
    return self + tensor1 * tensor2 * value


@rule("addcdiv")
def _addcdiv(self: Tensor, tensor1: Tensor, tensor2: Tensor, value: float = 1) -> Tensor:
    return self + tensor1 / tensor2 * value


@rule("hypot")
def _hypot(self: Tensor, other: Tensor) -> Tensor:
    return tg.hypot(self, other)


@rule("xlogy")
def _xlogy(self: Any, other: Any) -> Tensor:
    return tg.xlogy(self, other)


@rule("logaddexp")
def _logaddexp(self: Tensor, other: Tensor) -> Tensor:
    return tg.logaddexp(self, other)


@rule("clamp clip")
def _clamp(self: Tensor, call: Call, min: Any = None, max: Any = None) -> Tensor:
    return tg.clip(_in(call.dtype, self), _in(call.dtype, min), _in(call.dtype, max))


@rule("clamp_min")
def _clamp_min(self: Tensor, min: Any, call: Call) -> Tensor:
    return _clamp(self, call, min)


@rule("clamp_max")
def _clamp_max(self: Tensor, max: Any, call: Call) -> Tensor:
    return _clamp(self, call, None, max)


@rule("nan_to_num")
def _nan_to_num(
    self: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    largest = float(torch.finfo(torch.float32).max)
    known = tg.where(tg.isnan(self), 0.0 if nan is None else nan, self)
    known = tg.where(tg.equal(known, math.inf), largest if posinf is None else posinf, known)
    return tg.where(tg.equal(known, -math.inf), -largest if neginf is None else neginf, known)


# Of two operands


def _converted(self: Any, other: Any, call: Call) -> tuple[Any, Any]:
    """Returns the operands of arithmetic, in the dtype of PyTorch's result."""
    return _in(call.dtype, self), _in(call.dtype, other)


def _promoted(self: Any, other: Any, call: Call) -> tuple[Any, Any]:
    """Returns the operands of a comparison, in the dtype that they share."""
    return together(self, other)


def _truths(self: Any, other: Any, call: Call) -> tuple[Any, Any]:
    """Returns the operands of logic, as booleans."""
    return _truth(self), _truth(other)


def _truth(x: Any) -> Any:
    return tg.not_equal(x, 0) if isinstance(x, Tensor) and x.dtype.kind != "b" else x


def _is_nan(x: Any) -> Any:
    return tg.not_equal(x, x)


def _enter(
    prepared: Callable[[Any, Any, Call], tuple[Any, Any]], functions: Mapping[str, Callable[[Any, Any], Any]]
) -> None:
    """Registers functions of two operands, by the op's names, with what prepares the operands."""
    for names, function in functions.items():

        def apply(self: Any, other: Any, call: Call, function: Callable[[Any, Any], Any] = function) -> Any:
            return function(*prepared(self, other, call))

        rule(names)(apply)


_enter(_converted, {"floor_divide": tg.floor_divide, "remainder": tg.remainder, "fmod": tg.fmod})
_enter(_truths, {"logical_and": tg.logical_and, "logical_or": tg.logical_or, "logical_xor": tg.logical_xor})
_enter(
    _promoted,
    {
        "maximum": tg.maximum,
        "minimum": tg.minimum,
        "fmax": lambda x, y: tg.where(tg.logical_or(tg.greater_equal(x, y), _is_nan(y)), x, y),  # of equal ones, `x`
        "fmin": lambda x, y: tg.where(tg.logical_or(tg.less_equal(x, y), _is_nan(y)), x, y),
        "eq": tg.equal,
        "ne not_equal": tg.not_equal,
        "lt less": tg.less,
        "le less_equal": tg.less_equal,
        "gt greater": tg.greater,
        "ge greater_equal": tg.greater_equal,
        "bitwise_and __and__": tg.bitwise_and,
        "bitwise_or __or__": tg.bitwise_or,
        "bitwise_xor __xor__": tg.bitwise_xor,
        "bitwise_left_shift __lshift__": tg.left_shift,
        "bitwise_right_shift __rshift__": tg.right_shift,
    },
)


@rule("where")
def _where(condition: Tensor, self: Any, other: Any, call: Call) -> Tensor:
    chosen = self if isinstance(self, Tensor) or isinstance(other, Tensor) else tg.full((), self, call.dtype)
    return tg.where(condition, *together(chosen, other))


@rule("masked_fill")
def _masked_fill(self: Tensor, mask: Tensor, value: Any) -> Tensor:
    return tg.where(mask, _in(self.dtype, value), self)


# Conversions; tensors are values, so that a copy is the tensor itself


@moving("clone contiguous detach_copy lift_fresh_copy lift_fresh alias view_as_real_copy lift")
def _clone(self: Tensor) -> Tensor:
    return self


@moving("detach")
def _detach(self: Tensor) -> Tensor:
    return tg.stop_gradient(self)


@rule("to _to_copy")
def _to(self: Tensor, dtype: torch.dtype | None = None, other: Tensor | None = None) -> Tensor:
    if other is not None:
        return tg.cast(self, other.dtype)
    return self if dtype is None else tg.cast(self, computed_in(dtype))


@rule("type_as")
def _type_as(self: Tensor, other: Tensor) -> Tensor:
    return tg.cast(self, other.dtype)


@rule("copy")
def _copy(self: Tensor, src: Tensor) -> Tensor:
    return tg.broadcast_to(tg.cast(src, self.dtype), self.shape)


@rule("fill")
def _fill(self: Tensor, value: Any) -> Tensor:
    return (
        tg.broadcast_to(tg.cast(value, self.dtype), self.shape)
        if isinstance(value, Tensor)
        else tg.full_like(self, value)
    )
