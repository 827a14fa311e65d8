"""NumPy's functions applied to tensors.

NumPy's operators and elementwise functions (ufuncs) are mapped to ours of the same meaning, so `np.exp(x)` and
`np.ones(3) * x` are traced as `tg.exp(x)` and `tg.multiply` are. All others run NumPy's own code on concrete tensors;
on traced ones, which have no numbers yet, they raise an error that names an alternative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from tensorgrad.errors import GradientError, TraceError
from tensorgrad.ops.elementwise.arithmetic import floor_divide, remainder
from tensorgrad.ops.promotion import as_tensor
from tensorgrad.tracing import trees
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Array, Traced

SAME = (
    *("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power", "matmul", "maximum", "minimum"),
    *("copysign", "negative", "sign", "square", "sqrt", "reciprocal", "exp", "exp2", "expm1", "log", "log1p", "log2"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "floor", "ceil", "trunc", "isnan", "isinf", "isfinite"),
    *("hypot", "log10", "logaddexp", "nextafter", "signbit", "fmax", "fmin", "fmod", "heaviside", "deg2rad", "rad2deg"),
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    *("logical_and", "logical_or", "logical_xor", "logical_not", "bitwise_and", "bitwise_or", "bitwise_xor"),
    *("absolute", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "degrees", "radians"),
    *("fabs", "invert", "left_shift", "right_shift", "rint"),
)
"""NumPy's elementwise functions that are functions here, by their names."""

OPERATORS: dict[str, Callable[..., Any]] = {
    "divmod": lambda x, y: (floor_divide(x, y), remainder(x, y)),
    "positive": as_tensor,
}
"""Those that are only operators here."""

ADVICE = {
    "asarray": "array",
    "convolve": "conv1d",
    "copy": "array",
    "cumulative_prod": "cumprod",
    "cumulative_sum": "cumsum",
    "dot": "matmul",
    "inner": "tensordot",
    "linalg.norm": "norm",
    "rollaxis": "moveaxis",
}
"""The alternatives to NumPy's other functions, if there is none of the same name."""

REDUCTIONS = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_and": "all",
    "logical_or": "any",
}
"""The functions that `reduce` of these is equivalent to."""


def elementwise(ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Applies a ufunc to tensors.

    Raises:
        TraceError: It has no counterpart, or is called with options or a ufunc method, and a tensor is traced.
    """
    name = ufunc.__name__
    if method == "__call__" and not options:
        if name in OPERATORS:
            return OPERATORS[name](*inputs)
        if name in SAME:
            return getattr(import_module("tensorgrad"), name)(*inputs)
    if not _has_traced((inputs, options)):
        return getattr(ufunc, method)(*_as_numpy(name, inputs), **_as_numpy(name, options))
    if "out" in options:
        raise TraceError(f"np.{name}: a traced tensor cannot be written into a numpy array; write x = x + y for x += y")
    advice = REDUCTIONS.get(name) if method == "reduce" else name if name in SAME else None
    raise _refusal(name if method == "__call__" else f"{name}.{method}", advice)


def other(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Applies another function of NumPy to tensors.

    Raises:
        TraceError: A tensor is traced.
        GradientError: A tensor requires a gradient, which would be lost.
    """
    module = getattr(function, "__module__", "numpy").removeprefix("numpy").removeprefix(".")
    name = ".".join(part for part in (module, function.__name__) if part)
    if not _has_traced((args, kwargs)):
        return function(*_as_numpy(name, args), **_as_numpy(name, kwargs))
    ours = import_module("tensorgrad")
    known = (*ours.__all__, *(f"linalg.{function}" for function in ours.linalg.__all__))
    raise _refusal(name, ADVICE.get(name) or (name if name in known else None))


def _refusal(name: str, advice: str | None) -> TraceError:
    instead = "compose it of functions of tensorgrad" if advice is None else f"use tg.{advice}"
    return TraceError(
        f"{user_line()}: np.{name} needs the numbers of its arguments, and a traced tensor has them only when the "
        f"program runs; {instead}"
    )


def _has_traced(tree: Any) -> bool:
    return any(isinstance(leaf, Traced) for leaf in trees.flatten(tree)[0])


def _as_numpy(name: str, tree: Any) -> Any:
    """Returns a tree with our arrays converted to NumPy's.

    Raises:
        GradientError: One requires a gradient, which would be lost.
    """
    leaves, rebuild = trees.flatten(tree)
    if any(isinstance(leaf, Array) and leaf.requires_grad for leaf in leaves):
        raise GradientError(
            f"np.{name} gives NumPy's arrays, through which no gradient goes: use a function of "
            "tensorgrad, or give the tensor's detach()"
        )
    return rebuild([np.asarray(leaf) if isinstance(leaf, Array) else leaf for leaf in leaves])
