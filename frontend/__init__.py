"""A compiler for training: Python models become GPU programs, through levels of IR that can be read and edited.

Names load when they are first used, so that importing this is cheap and a saved program runs without the compiler.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorgrad import errors, initializers, nn, optim, random
    from tensorgrad.activations import (
        elu,
        gelu,
        hard_sigmoid,
        hard_tanh,
        leaky_relu,
        log_sigmoid,
        mish,
        selu,
        silu,
        softplus,
    )
    from tensorgrad.derivatives import grad, value_and_grad
    from tensorgrad.device import devices
    from tensorgrad.dtypes import bool_, f16, f32, f64, i32, spec, u32
    from tensorgrad.elementary import (
        acos,
        acosh,
        asin,
        asinh,
        atan,
        atan2,
        atanh,
        bitwise_and,
        bitwise_invert,
        bitwise_left_shift,
        bitwise_or,
        bitwise_right_shift,
        bitwise_xor,
        ceil,
        clip,
        cosh,
        erf,
        erfc,
        exp2,
        expm1,
        floor,
        floor_divide,
        isfinite,
        isinf,
        isnan,
        lerp,
        log1p,
        log2,
        logical_xor,
        reciprocal,
        remainder,
        round,
        rsqrt,
        sign,
        sinh,
        tan,
        trunc,
    )
    from tensorgrad.elementwise import (
        abs,
        add,
        astype,
        broadcast_to,
        cast,
        cos,
        divide,
        equal,
        exp,
        greater,
        greater_equal,
        less,
        less_equal,
        log,
        logical_and,
        logical_not,
        logical_or,
        maximum,
        minimum,
        multiply,
        negative,
        not_equal,
        power,
        relu,
        sigmoid,
        sin,
        sqrt,
        square,
        stop_gradient,
        subtract,
        tanh,
        where,
    )
    from tensorgrad.losses import cross_entropy, mse
    from tensorgrad.reductions import log_softmax, logsumexp, matmul, max, mean, min, softmax, sum
    from tensorgrad.shaping import (
        arange,
        array,
        expand_dims,
        flip,
        full,
        ones,
        reshape,
        squeeze,
        swapaxes,
        take,
        take_along_axis,
        transpose,
        zeros,
    )
    from tensorgrad.tensor import Array, Tensor
    from tensorgrad.tracer import trace
    from tensorgrad.training import Inference, Training, compile

_MODULES = ("errors", "initializers", "nn", "optim", "random")
_NAMES = {
    "activations": ("elu gelu hard_sigmoid hard_tanh leaky_relu log_sigmoid mish selu silu softplus"),
    "derivatives": "grad value_and_grad",
    "device": "devices",
    "dtypes": "bool_ f16 f32 f64 i32 spec u32",
    "elementary": (
        "acos acosh asin asinh atan atan2 atanh bitwise_and bitwise_invert bitwise_left_shift bitwise_or "
        "bitwise_right_shift bitwise_xor ceil clip cosh erf erfc exp2 expm1 floor floor_divide isfinite "
        "isinf isnan lerp log1p log2 logical_xor reciprocal remainder round rsqrt sign sinh tan trunc"
    ),
    "elementwise": (
        "abs add astype broadcast_to cast cos divide equal exp greater greater_equal less less_equal log "
        "logical_and logical_not logical_or maximum minimum multiply negative not_equal power relu "
        "sigmoid sin sqrt square stop_gradient subtract tanh where"
    ),
    "losses": "cross_entropy mse",
    "reductions": "log_softmax logsumexp matmul max mean min softmax sum",
    "shaping": (
        "arange array expand_dims flip full ones reshape squeeze swapaxes take take_along_axis transpose zeros"
    ),
    "tensor": "Array Tensor",
    "tracer": "trace",
    "training": "Inference Training compile",
}
"""The public names, by the module that has them."""

_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "Array",
    "Inference",
    "Tensor",
    "Training",
    "abs",
    "acos",
    "acosh",
    "add",
    "arange",
    "array",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "bool_",
    "broadcast_to",
    "cast",
    "ceil",
    "clip",
    "compile",
    "cos",
    "cosh",
    "cross_entropy",
    "devices",
    "divide",
    "elu",
    "equal",
    "erf",
    "erfc",
    "errors",
    "exp",
    "exp2",
    "expand_dims",
    "expm1",
    "f16",
    "f32",
    "f64",
    "flip",
    "floor",
    "floor_divide",
    "full",
    "gelu",
    "grad",
    "greater",
    "greater_equal",
    "hard_sigmoid",
    "hard_tanh",
    "i32",
    "initializers",
    "isfinite",
    "isinf",
    "isnan",
    "leaky_relu",
    "lerp",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log_sigmoid",
    "log_softmax",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logsumexp",
    "matmul",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "mish",
    "mse",
    "multiply",
    "negative",
    "nn",
    "not_equal",
    "ones",
    "optim",
    "power",
    "random",
    "reciprocal",
    "relu",
    "remainder",
    "reshape",
    "round",
    "rsqrt",
    "selu",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "sinh",
    "softmax",
    "softplus",
    "spec",
    "sqrt",
    "square",
    "squeeze",
    "stop_gradient",
    "subtract",
    "sum",
    "swapaxes",
    "take",
    "take_along_axis",
    "tan",
    "tanh",
    "trace",
    "transpose",
    "trunc",
    "u32",
    "value_and_grad",
    "where",
    "zeros",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_HOMES})
