"""Elementwise functions of the Array API standard: the library's own, with the standard's names and signatures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorgrad.ops import promotion
from tensorgrad.ops.creation import full
from tensorgrad.ops.elementwise import arithmetic, bits, composed, functions
from tensorgrad.tracing.tensor import Tensor


def _unary(name: str, function: Callable[..., Tensor]) -> Callable[[Any], Tensor]:
    def call(x: Any, /) -> Tensor:
        return function(x)

    return _named(call, name, function)


def _binary(name: str, function: Callable[..., Tensor]) -> Callable[[Any, Any], Tensor]:
    def call(x1: Any, x2: Any, /) -> Tensor:
        return function(x1, x2)

    return _named(call, name, function)


def _named(call: Any, name: str, function: Callable[..., Tensor]) -> Any:
    call.__name__ = call.__qualname__ = name
    call.__doc__ = function.__doc__
    return call


def _itself(x: Any) -> Tensor:
    """Returns `x`: numbers here are real."""
    return promotion.as_tensor(x)


def _imaginary(x: Any) -> Tensor:
    """Returns zeros: numbers here are real."""
    tensor = promotion.as_tensor(x)
    return full(tensor.shape, 0, tensor.dtype)


abs = _unary("abs", arithmetic.abs)
acos = _unary("acos", functions.acos)
acosh = _unary("acosh", functions.acosh)
asin = _unary("asin", functions.asin)
asinh = _unary("asinh", functions.asinh)
atan = _unary("atan", functions.atan)
atanh = _unary("atanh", functions.atanh)
bitwise_invert = _unary("bitwise_invert", bits.bitwise_invert)
ceil = _unary("ceil", functions.ceil)
conj = _unary("conj", _itself)
cos = _unary("cos", functions.cos)
cosh = _unary("cosh", functions.cosh)
exp = _unary("exp", functions.exp)
expm1 = _unary("expm1", functions.expm1)
floor = _unary("floor", functions.floor)
imag = _unary("imag", _imaginary)
isfinite = _unary("isfinite", functions.isfinite)
isinf = _unary("isinf", functions.isinf)
isnan = _unary("isnan", functions.isnan)
log = _unary("log", functions.log)
log10 = _unary("log10", composed.log10)
log1p = _unary("log1p", functions.log1p)
log2 = _unary("log2", functions.log2)
logical_not = _unary("logical_not", arithmetic.logical_not)
negative = _unary("negative", arithmetic.negative)
positive = _unary("positive", _itself)
real = _unary("real", _itself)
reciprocal = _unary("reciprocal", functions.reciprocal)
round = _unary("round", functions.round)
sign = _unary("sign", arithmetic.sign)
signbit = _unary("signbit", composed.signbit)
sin = _unary("sin", functions.sin)
sinh = _unary("sinh", functions.sinh)
sqrt = _unary("sqrt", functions.sqrt)
square = _unary("square", arithmetic.square)
tan = _unary("tan", functions.tan)
tanh = _unary("tanh", functions.tanh)
trunc = _unary("trunc", functions.trunc)

add = _binary("add", arithmetic.add)
atan2 = _binary("atan2", functions.atan2)
bitwise_and = _binary("bitwise_and", bits.bitwise_and)
bitwise_left_shift = _binary("bitwise_left_shift", bits.bitwise_left_shift)
bitwise_or = _binary("bitwise_or", bits.bitwise_or)
bitwise_right_shift = _binary("bitwise_right_shift", bits.bitwise_right_shift)
bitwise_xor = _binary("bitwise_xor", bits.bitwise_xor)
copysign = _binary("copysign", arithmetic.copysign)
divide = _binary("divide", arithmetic.divide)
equal = _binary("equal", arithmetic.equal)
floor_divide = _binary("floor_divide", arithmetic.floor_divide)
greater = _binary("greater", arithmetic.greater)
greater_equal = _binary("greater_equal", arithmetic.greater_equal)
hypot = _binary("hypot", composed.hypot)
less = _binary("less", arithmetic.less)
less_equal = _binary("less_equal", arithmetic.less_equal)
logaddexp = _binary("logaddexp", composed.logaddexp)
logical_and = _binary("logical_and", arithmetic.logical_and)
logical_or = _binary("logical_or", arithmetic.logical_or)
logical_xor = _binary("logical_xor", arithmetic.logical_xor)
maximum = _binary("maximum", arithmetic.maximum)
minimum = _binary("minimum", arithmetic.minimum)
multiply = _binary("multiply", arithmetic.multiply)
nextafter = _binary("nextafter", composed.nextafter)
not_equal = _binary("not_equal", arithmetic.not_equal)
pow = _binary("pow", arithmetic.power)
remainder = _binary("remainder", arithmetic.remainder)
subtract = _binary("subtract", arithmetic.subtract)


def clip(x: Any, /, min: Any = None, max: Any = None) -> Tensor:
    """Returns `x` clamped to `min` and `max`, each of which may be absent, a number or an array, in `x`'s dtype."""
    tensor = promotion.as_tensor(x)
    return promotion.cast(arithmetic.clip(tensor, min, max), tensor.dtype)
