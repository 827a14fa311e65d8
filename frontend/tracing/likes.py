"""Types of what functions of tensors accept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from typing_extensions import TypeVar  # with defaults, which typing has from Python 3.13 on

from tensorgrad.tracing.declared import Declared


class SupportsArray(Protocol):
    """Anything that NumPy makes an array of: a tensor, an array, a scalar of NumPy, another library's tensor."""

    def __array__(self) -> np.ndarray[Any, np.dtype[Any]]: ...


TensorLike: TypeAlias = "SupportsArray | Declared | bool | int | float | Sequence[TensorLike]"
"""What functions take as a tensor: a tensor, an array, a parameter of a model in a loss, a number, nested lists."""

Axes: TypeAlias = "int | Sequence[int]"
"""One axis or several; negative ones count from the last."""

First = TypeVar("First", bound=Any, default=Any)
"""The type of a function's first argument; Any where a checker can't tell, as for a lambda."""

Result = TypeVar("Result", default=Any)
"""The type of a function's result; Any where a checker can't tell."""

Aux = TypeVar("Aux", default=Any)
"""The type of what a function returns besides its value."""

Positional: TypeAlias = (
    Callable[[First], Result]
    | Callable[[First, Any], Result]
    | Callable[[First, Any, Any], Result]
    | Callable[[First, Any, Any, Any], Result]
)
"""A function of one to four arguments: from it checkers infer the arguments of a lambda, which `...` leaves unknown."""
