"""Types of what functions of tensors accept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from tensorgrad.tracing.declared import Declared


class SupportsArray(Protocol):
    """Anything that NumPy makes an array of: a tensor, an array, a scalar of NumPy, another library's tensor."""

    def __array__(self) -> np.ndarray[Any, np.dtype[Any]]: ...


TensorLike: TypeAlias = "SupportsArray | Declared | bool | int | float | Sequence[TensorLike]"
"""What functions take as a tensor: a tensor, an array, a parameter of a model in a loss, a number, nested lists."""

Axes: TypeAlias = "int | Sequence[int]"
"""One axis or several; negative ones count from the last."""
