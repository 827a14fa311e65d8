"""A compiler for training: Python models become GPU programs, through levels of IR that can be read and edited.

Names load when they are first used, so that importing this is cheap and a saved program runs without the compiler.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorgrad import callbacks, data, errors, initializers, nn, onnx, optim, random
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
    from tensorgrad.capturing import capture
    from tensorgrad.compiled import Inference
    from tensorgrad.compiling import compile
    from tensorgrad.contractions import einsum, outer, tensordot
    from tensorgrad.control import cond, scan
    from tensorgrad.convolution import (
        avg_pool,
        conv,
        conv1d,
        conv2d,
        conv3d,
        conv_transpose,
        global_avg_pool,
        global_max_pool,
        max_pool,
        resize,
    )
    from tensorgrad.cumulative import cumprod, cumsum
    from tensorgrad.custom import custom_vjp
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
    from tensorgrad.fitting import Report, fit
    from tensorgrad.indexing import embedding, gather, one_hot, scatter_add
    from tensorgrad.jitting import Jitted, jit
    from tensorgrad.joining import (
        concat,
        diagonal,
        eye,
        linspace,
        moveaxis,
        narrow,
        pad,
        permute,
        repeat,
        roll,
        split,
        stack,
        tile,
        tril,
        triu,
    )
    from tensorgrad.losses import (
        binary_cross_entropy_with_logits,
        cosine_embedding,
        cross_entropy,
        hinge,
        hinge_embedding,
        huber,
        kl_div,
        l1,
        mse,
        nll,
    )
    from tensorgrad.random import erfinv
    from tensorgrad.reductions import (
        all,
        any,
        argmax,
        argmin,
        causal_mask,
        log_softmax,
        logsumexp,
        matmul,
        max,
        mean,
        min,
        norm,
        prod,
        softmax,
        std,
        sum,
        var,
    )
    from tensorgrad.rematerialization import checkpoint
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
    from tensorgrad.sorting import argsort, sort, top_k
    from tensorgrad.tensor import Array, Tensor
    from tensorgrad.tracer import trace
    from tensorgrad.training import Training
    from tensorgrad.transformations import hessian, jacobian, jvp, vjp
    from tensorgrad.vectorization import vmap

_MODULES = ("callbacks", "data", "errors", "initializers", "nn", "onnx", "optim", "random")
_NAMES = {
    "activations": "elu gelu hard_sigmoid hard_tanh leaky_relu log_sigmoid mish selu silu softplus",
    "capturing": "capture",
    "compiled": "Inference",
    "compiling": "compile",
    "contractions": "einsum outer tensordot",
    "control": "cond scan",
    "convolution": (
        "avg_pool conv conv1d conv2d conv3d conv_transpose global_avg_pool global_max_pool max_pool resize"
    ),
    "cumulative": "cumprod cumsum",
    "custom": "custom_vjp",
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
        "logical_and logical_not logical_or maximum minimum multiply negative not_equal power relu sigmoid "
        "sin sqrt square stop_gradient subtract tanh where"
    ),
    "fitting": "Report fit",
    "indexing": "embedding gather one_hot scatter_add",
    "jitting": "Jitted jit",
    "joining": ("concat diagonal eye linspace moveaxis narrow pad permute repeat roll split stack tile tril triu"),
    "losses": (
        "binary_cross_entropy_with_logits cosine_embedding cross_entropy hinge hinge_embedding huber kl_div l1 mse nll"
    ),
    "random": "erfinv",
    "reductions": (
        "all any argmax argmin causal_mask log_softmax logsumexp matmul max mean min norm prod softmax std sum var"
    ),
    "rematerialization": "checkpoint",
    "shaping": (
        "arange array expand_dims flip full ones reshape squeeze swapaxes take take_along_axis transpose zeros"
    ),
    "sorting": "argsort sort top_k",
    "tensor": "Array Tensor",
    "tracer": "trace",
    "training": "Training",
    "transformations": "hessian jacobian jvp vjp",
    "vectorization": "vmap",
}
"""The public names, by the module that has them."""

_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "Array",
    "Inference",
    "Jitted",
    "Report",
    "Tensor",
    "Training",
    "abs",
    "acos",
    "acosh",
    "add",
    "all",
    "any",
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "array",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "avg_pool",
    "binary_cross_entropy_with_logits",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "bool_",
    "broadcast_to",
    "callbacks",
    "capture",
    "cast",
    "causal_mask",
    "ceil",
    "checkpoint",
    "clip",
    "compile",
    "concat",
    "cond",
    "conv",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose",
    "cos",
    "cosh",
    "cosine_embedding",
    "cross_entropy",
    "cumprod",
    "cumsum",
    "custom_vjp",
    "data",
    "devices",
    "diagonal",
    "divide",
    "einsum",
    "elu",
    "embedding",
    "equal",
    "erf",
    "erfc",
    "erfinv",
    "errors",
    "exp",
    "exp2",
    "expand_dims",
    "expm1",
    "eye",
    "f16",
    "f32",
    "f64",
    "fit",
    "flip",
    "floor",
    "floor_divide",
    "full",
    "gather",
    "gelu",
    "global_avg_pool",
    "global_max_pool",
    "grad",
    "greater",
    "greater_equal",
    "hard_sigmoid",
    "hard_tanh",
    "hessian",
    "hinge",
    "hinge_embedding",
    "huber",
    "i32",
    "initializers",
    "isfinite",
    "isinf",
    "isnan",
    "jacobian",
    "jit",
    "jvp",
    "kl_div",
    "l1",
    "leaky_relu",
    "lerp",
    "less",
    "less_equal",
    "linspace",
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
    "max_pool",
    "maximum",
    "mean",
    "min",
    "minimum",
    "mish",
    "moveaxis",
    "mse",
    "multiply",
    "narrow",
    "negative",
    "nll",
    "nn",
    "norm",
    "not_equal",
    "one_hot",
    "ones",
    "onnx",
    "optim",
    "outer",
    "pad",
    "permute",
    "power",
    "prod",
    "random",
    "reciprocal",
    "relu",
    "remainder",
    "repeat",
    "reshape",
    "resize",
    "roll",
    "round",
    "rsqrt",
    "scan",
    "scatter_add",
    "selu",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "sinh",
    "softmax",
    "softplus",
    "sort",
    "spec",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "stop_gradient",
    "subtract",
    "sum",
    "swapaxes",
    "take",
    "take_along_axis",
    "tan",
    "tanh",
    "tensordot",
    "tile",
    "top_k",
    "trace",
    "transpose",
    "tril",
    "triu",
    "trunc",
    "u32",
    "value_and_grad",
    "var",
    "vjp",
    "vmap",
    "where",
    "zeros",
]


_INSTEAD = {
    "cat": "tg.concat joins tensors",
    "concatenate": "tg.concat joins tensors",
    "flatten": "tg.reshape(x, -1) does that, and tg.nn.Flatten for some axes",
    "float32": "it is tg.f32 here",
    "functional": "functions are in tensorgrad itself, such as tg.relu",
    "int32": "it is tg.i32 here",
    "int64": "integers are tg.i32 or tg.u32",
    "load": "Training.load_checkpoint does that",
    "manual_seed": "seeds are arguments: tg.compile(seed=0), tg.random.key(0)",
    "mse_loss": "tg.mse is that",
    "no_grad": "only tg.grad and tg.compile take derivatives; tg.stop_gradient(x) is a constant to them",
    "rand": "tg.random.uniform(key, shape) draws",
    "randn": "tg.random.normal(key, shape) draws",
    "save": "Training.save_checkpoint does that, and Training.save for programs",
    "unsqueeze": "tg.expand_dims does that",
    "view": "tg.reshape does that",
}
"""What is meant by names that other libraries have."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    home = _HOMES.get(name)
    if home is None:
        hint = f"; {_INSTEAD[name]}" if name in _INSTEAD else ""
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}{hint}", name=name, obj=sys.modules[__name__]
        )
    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_HOMES})
