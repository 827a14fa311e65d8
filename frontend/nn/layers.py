"""Layers."""

from __future__ import annotations

import math
from typing import Any

from tensorgrad.errors import ShapeError
from tensorgrad.initializers import uniform
from tensorgrad.nn.module import Module, param


class Linear(Module):
    """`y = x @ weight + bias` over the last axis of `x`.

    Parameters start as in PyTorch: uniform within `1 / sqrt(in_features)` of zero.

    Args:
        in_features: The extent of the last axis of `x`.
        out_features: The extent of the last axis of `y`.
        bias: Whether there is a bias.
        dtype: Of the parameters.

    Attributes:
        weight: Parameter of shape `[in_features, out_features]`.
        bias: Parameter of shape `[out_features]`, or None.

    Raises:
        ShapeError: An extent is not a positive integer.
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True, dtype: object = "f32"):
        super().__init__()
        for name, extent in (("in_features", in_features), ("out_features", out_features)):
            if isinstance(extent, bool) or not isinstance(extent, int) or extent < 1:
                raise ShapeError(f"Linear: {name} must be a positive integer, got {extent!r}")
        bound = 1 / math.sqrt(in_features)
        self.weight = param((in_features, out_features), init=uniform(-bound, bound), dtype=dtype)
        self.bias = param((out_features,), init=uniform(-bound, bound), dtype=dtype) if bias else None

    def __call__(self, x: Any) -> Any:
        """Applies the layer.

        Raises:
            ShapeError: The last axis of `x` is not of `in_features`.
        """
        product = x @ self.weight
        return product if self.bias is None else product + self.bias
