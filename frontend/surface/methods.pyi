"""The methods of tensors, each listed once: type checkers read them here, and `methods.py` makes them.

A function that is imported in the class is a method of tensors: they are its first argument.
"""

from typing import Any

import numpy as np

from tensorgrad.ops.index import Changes
from tensorgrad.tracing.tensor import Tensor

class Methods:
    @property
    def at(self) -> Changes: ...
    def __getitem__(self, key: Any) -> Tensor: ...
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any: ...
    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any: ...

    from tensorgrad.ops.activations import (
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
    from tensorgrad.ops.columns import (
        unfold,
    )
    from tensorgrad.ops.cumulative import (
        cummax,
        cummin,
        cumprod,
        cumsum,
        logcumsumexp,
    )
    from tensorgrad.ops.elementwise.arithmetic import (
        abs,
        add,
        astype,
        bitwise_and,
        bitwise_invert,
        bitwise_left_shift,
        bitwise_or,
        bitwise_right_shift,
        bitwise_xor,
        clamp,
        clip,
        copysign,
        divide,
        equal,
        floor_divide,
        greater,
        greater_equal,
        lerp,
        less,
        less_equal,
        logical_and,
        logical_not,
        logical_or,
        logical_xor,
        masked_fill,
        maximum,
        minimum,
        multiply,
        negative,
        not_equal,
        power,
        remainder,
        sign,
        square,
        subtract,
    )
    from tensorgrad.ops.elementwise.functions import (
        acos,
        acosh,
        asin,
        asinh,
        atan,
        atan2,
        atanh,
        ceil,
        cos,
        cosh,
        erf,
        erfc,
        exp,
        exp2,
        expm1,
        floor,
        isfinite,
        isinf,
        isnan,
        log,
        log1p,
        log2,
        reciprocal,
        relu,
        round,
        rsqrt,
        sigmoid,
        sin,
        sinh,
        sqrt,
        tan,
        tanh,
        trunc,
    )
    from tensorgrad.ops.index import (
        gather,
        scatter_add,
    )
    from tensorgrad.ops.joining import (
        chunk,
        diagonal,
        moveaxis,
        narrow,
        pad,
        permute,
        repeat,
        roll,
        split,
        tile,
        tril,
        triu,
    )
    from tensorgrad.ops.reduce import (
        all,
        any,
        argmax,
        argmin,
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
    from tensorgrad.ops.scatter import (
        scatter,
        scatter_reduce,
    )
    from tensorgrad.ops.shape import (
        expand_dims,
        flip,
        numel,
        reshape,
        squeeze,
        swapaxes,
        take,
        take_along_axis,
        transpose,
        unsqueeze,
    )
    from tensorgrad.ops.sort import (
        argsort,
        sort,
        top_k,
    )
