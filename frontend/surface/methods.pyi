"""The methods of tensors, each listed once: type checkers read them here, and `methods.py` implements them.

A function that is imported in the class is a method of tensors: they are its first argument. A line `other = name`
makes it a method under another library's name too.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any, Self

import numpy as np

from tensorgrad.driver.device import DeviceName
from tensorgrad.ops.changes import Changes
from tensorgrad.tracing.eager import HookHandle
from tensorgrad.tracing.tensor import Tensor

def revived(values: Any, dtype: str, device: str, requires_grad: bool) -> Any: ...

class Conversions:
    """PyTorch's conversions: apart from other methods, whose annotations could not name Python's types beside them."""

    def bfloat16(self) -> Tensor: ...
    def bool(self) -> Tensor: ...
    def double(self) -> Tensor: ...
    def float(self) -> Tensor: ...
    def half(self) -> Tensor: ...
    def int(self) -> Tensor: ...
    def long(self) -> Tensor: ...
    def short(self) -> Tensor: ...

class Methods(Conversions):
    @property
    def at(self) -> Changes: ...
    @property
    def mT(self) -> Tensor: ...
    @property
    def device(self) -> str: ...
    def to(
        self, target: Any = None, dtype: Any = None, *, device: DeviceName | None = None, copy: bool = False
    ) -> Tensor: ...
    def cpu(self) -> Tensor: ...
    def to_device(self, device: str, /, *, stream: Any = None) -> Tensor: ...
    def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType: ...
    def __getitem__(self, key: Any) -> Tensor: ...
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any: ...
    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any: ...

    # Members of eager tensors, see `tensorgrad.tracing.eager`: functions of tensors return either kind.
    @property
    def requires_grad(self) -> bool: ...
    @requires_grad.setter
    def requires_grad(self, required: bool) -> None: ...
    @property
    def grad(self) -> Any: ...
    @grad.setter
    def grad(self, gradient: Any) -> None: ...
    @property
    def is_leaf(self) -> bool: ...
    def requires_grad_(self, requires_grad: bool = True) -> Self: ...
    def zero_grad(self) -> None: ...
    def backward(
        self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
    ) -> None: ...
    def contiguous(self) -> Self: ...
    def retain_grad(self) -> None: ...
    def register_hook(self, hook: Callable[[Any], Any]) -> HookHandle: ...
    def copy_(self, other: Any) -> Self: ...
    def fill_(self, value: float) -> Self: ...
    def zero_(self) -> Self: ...
    def add_(self, other: Any, alpha: Any = 1) -> Self: ...
    def sub_(self, other: Any, alpha: Any = 1) -> Self: ...
    def mul_(self, other: Any) -> Self: ...
    def div_(self, other: Any) -> Self: ...
    def pow_(self, other: Any) -> Self: ...
    def clamp_(self, min: Any = None, max: Any = None) -> Self: ...
    def abs_(self) -> Self: ...
    def neg_(self) -> Self: ...
    def exp_(self) -> Self: ...
    def sqrt_(self) -> Self: ...
    def relu_(self) -> Self: ...
    def sigmoid_(self) -> Self: ...
    def tanh_(self) -> Self: ...
    def masked_fill_(self, mask: Any, value: Any) -> Self: ...

    from tensorgrad.ops.activations import (
        celu,
        elu,
        gelu,
        glu,
        hard_shrink,
        hard_sigmoid,
        hard_swish,
        hard_tanh,
        leaky_relu,
        log_sigmoid,
        mish,
        relu6,
        selu,
        silu,
        soft_shrink,
        softplus,
        softsign,
        tanh_shrink,
    )
    from tensorgrad.ops.columns import (
        unfold,
    )
    from tensorgrad.ops.cumulative import (
        cummax,
        cummin,
        cumprod,
        cumsum,
        diff,
        logcumsumexp,
    )
    from tensorgrad.ops.elementwise.arithmetic import (
        abs,
        add,
        astype,
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
        stop_gradient,
        subtract,
    )
    from tensorgrad.ops.elementwise.bits import (
        bitwise_and,
        bitwise_invert,
        bitwise_left_shift,
        bitwise_or,
        bitwise_right_shift,
        bitwise_xor,
    )
    from tensorgrad.ops.elementwise.composed import (
        deg2rad,
        fmax,
        fmin,
        fmod,
        hypot,
        isclose,
        log10,
        logaddexp,
        logit,
        nan_to_num,
        nextafter,
        rad2deg,
        signbit,
        sinc,
        xlogy,
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
        digamma,
        erf,
        erfc,
        exp,
        exp2,
        expm1,
        floor,
        isfinite,
        isinf,
        isnan,
        lgamma,
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
    from tensorgrad.ops.normalization import (
        normalize,
    )
    from tensorgrad.ops.products import (
        cross,
        kron,
    )
    from tensorgrad.ops.rearranging import (
        diag,
        flatten,
        rot90,
        unbind,
        unflatten,
    )
    from tensorgrad.ops.reduce import (
        all,
        amax,
        amin,
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
    from tensorgrad.ops.searching import (
        count_nonzero,
        isin,
        searchsorted,
    )
    from tensorgrad.ops.shape import (
        expand,
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
    from tensorgrad.ops.statistics import (
        allclose,
        median,
        nanmean,
        nansum,
        quantile,
    )

    # Names that NumPy, JAX or PyTorch have for these methods.
    absolute = abs
    arccos = acos
    arccosh = acosh
    arcsin = asin
    arcsinh = asinh
    arctan = atan
    arctan2 = atan2
    arctanh = atanh
    bitwise_not = bitwise_invert
    bmm = matmul
    div = divide
    eq = equal
    ge = greater_equal
    gt = greater
    le = less_equal
    lt = less
    mm = matmul
    movedim = moveaxis
    mul = multiply
    ne = not_equal
    neg = negative
    nelement = numel
    pow = power
    ravel = flatten
    repeat_interleave = repeat
    sub = subtract
    topk = top_k
    true_divide = divide
    view = reshape
