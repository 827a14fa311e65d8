"""The number of elements of a tensor, which can be called for its shape."""

from __future__ import annotations

import math
from typing import Any, Self

from tensorgrad.errors import AxisError


class Size(int):
    """The number of elements of a tensor, as NumPy's `size`, which can be called as PyTorch's.

    Args:
        shape: The shape of the tensor.
    """

    def __new__(cls, shape: tuple[int, ...]) -> Self:
        """Returns the product of the extents."""
        size = super().__new__(cls, math.prod(shape))
        size._shape = shape
        return size

    _shape: tuple[int, ...]

    def __call__(self, dim: int | None = None) -> Any:
        """Returns the shape, or the extent of an axis.

        Raises:
            AxisError: There is no such axis.
        """
        if dim is None:
            return self._shape
        if not -len(self._shape) <= dim < len(self._shape):
            raise AxisError(f"size: axis {dim} is out of range for shape {self._shape}")
        return self._shape[dim]
