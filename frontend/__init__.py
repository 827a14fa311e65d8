"""A compiler for training: Python models become GPU programs, through levels of IR that can be read and edited.

Names load when they are first used, so that importing this is cheap and a saved program runs without the compiler.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorgrad import errors, initializers, nn, optim, random
    from tensorgrad.derivatives import grad, value_and_grad
    from tensorgrad.device import devices
    from tensorgrad.dtypes import bool_, f16, f32, f64, i32, spec, u32
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
    "derivatives": "grad value_and_grad",
    "device": "devices",
    "dtypes": "bool_ f16 f32 f64 i32 spec u32",
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
    "add",
    "arange",
    "array",
    "astype",
    "bool_",
    "broadcast_to",
    "cast",
    "compile",
    "cos",
    "cross_entropy",
    "devices",
    "divide",
    "equal",
    "errors",
    "exp",
    "expand_dims",
    "f16",
    "f32",
    "f64",
    "flip",
    "full",
    "grad",
    "greater",
    "greater_equal",
    "i32",
    "initializers",
    "less",
    "less_equal",
    "log",
    "log_softmax",
    "logical_and",
    "logical_not",
    "logical_or",
    "logsumexp",
    "matmul",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "mse",
    "multiply",
    "negative",
    "nn",
    "not_equal",
    "ones",
    "optim",
    "power",
    "random",
    "relu",
    "reshape",
    "sigmoid",
    "sin",
    "softmax",
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
    "tanh",
    "trace",
    "transpose",
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
