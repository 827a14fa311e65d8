"""Layers over the last axis."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import tensorgrad as tg
from tensorgrad.errors import OptionError, ShapeError
from tensorgrad.nn.checks import positive, trailing
from tensorgrad.nn.initializers import Initializer, normal, uniform
from tensorgrad.nn.module import Module
from tensorgrad.nn.parameters import Init, as_initializer, param
from tensorgrad.nn.weights import is_parameter
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.surface.calls import public
from tensorgrad.tracing.dtypes import DType


class Linear(Module):
    """`y = x @ weight + bias` over the last axis of `x`.

    Parameters are initialized as in PyTorch: uniform within `1 / sqrt(in_features)` of zero.

    Args:
        in_features: The extent of the last axis of `x`.
        out_features: The extent of the last axis of `y`.
        bias: Whether there is a bias.
        dtype: The dtype of the parameters.
        init: The initial weight: an initializer, a number or an array, as for `tg.nn.param`.
        bias_init: The initial bias.

    Attributes:
        weight: Parameter of shape `[in_features, out_features]`.
        bias: Parameter of shape `[out_features]`, or None.

    Raises:
        ShapeError: An extent is not a positive integer.

    Example:
        >>> tg.nn.Linear(3, 5).initialized(0)(tg.ones((2, 3))).shape
        (2, 5)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        dtype: object = "f32",
        *,
        init: Init | None = None,
        bias_init: Init | None = None,
    ):
        super().__init__()
        in_features, out_features = positive("Linear", in_features=in_features, out_features=out_features)
        bound = 1 / math.sqrt(in_features)
        near = uniform(-bound, bound)
        self.weight = param((in_features, out_features), near if init is None else init, dtype)
        self.bias = param((out_features,), near if bias_init is None else bias_init, dtype) if bias else None

    @property
    def in_features(self) -> int:
        """The extent of the last axis of `x`."""
        return self.weight.shape[0]

    @property
    def out_features(self) -> int:
        """The extent of the last axis of `y`."""
        return self.weight.shape[1]

    @property
    def dtype(self) -> DType:
        """The dtype of the weight."""
        return self.weight.dtype

    def __setattr__(self, name: str, value: object) -> None:
        before = vars(self).get(name)
        if name == "weight" and is_parameter(before) and is_parameter(value):
            _check_tied(before.shape, value.shape)
        super().__setattr__(name, value)

    def __call__(self, x: Any) -> tg.Tensor:
        """Applies the layer.

        Raises:
            ShapeError: The last axis of `x` is not of `in_features`.
        """
        return _linear(x, self.weight, self.bias)


@public
@recorded_whole
def _linear(x: Any, weight: Any, bias: Any) -> tg.Tensor:
    """Returns `x @ weight + bias`, which eager tensors record as one application."""
    product = x @ weight
    return product if bias is None else product + bias


def _check_tied(shape: tuple[int, ...], tied: tuple[int, ...]) -> None:
    """Checks that a weight used by a linear layer is not transposed.

    Raises:
        ShapeError: It is, like an embedding's table; says what to do.
    """
    if tied == shape[::-1] != shape:
        raise ShapeError(
            f"Linear: the weight is [in, out] here, {list(shape)}, and this one is {list(tied)}: for a "
            "head that shares an embedding's table, call embedding.attend(x) in the place of the layer"
        )


class Embedding(Module):
    """The rows of a table, selected by integers.

    The table is initialized as in PyTorch: normally distributed, with standard deviation 1.

    Args:
        num_embeddings: The number of rows.
        embedding_dim: The length of a row.
        padding_idx: A row that is initially zero and gets no gradient, or None; negative ones count from the end.
        init: The initial table: an initializer, a number or an array, as for `tg.nn.param`.
        dtype: The dtype of the table.

    Attributes:
        weight: Parameter of shape `[num_embeddings, embedding_dim]`.

    Raises:
        ShapeError: An extent is not a positive integer.
        OptionError: `padding_idx` is not a row.

    Example:
        >>> tg.nn.Embedding(10, 4).initialized(0)([[1, 2, 3]]).shape
        (1, 3, 4)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        init: Init | None = None,
        dtype: object = "f32",
    ):
        super().__init__()
        num_embeddings, embedding_dim = positive(
            "Embedding", num_embeddings=num_embeddings, embedding_dim=embedding_dim
        )
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise OptionError(f"Embedding: padding_idx must be one of {num_embeddings} rows, got {padding_idx!r}")
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        drawn = normal(1.0) if init is None else as_initializer(init, (num_embeddings, embedding_dim))
        if self.padding_idx is not None:
            drawn = _with_zero_row(drawn, self.padding_idx)
        self.weight = param((num_embeddings, embedding_dim), init=drawn, dtype=dtype)

    @property
    def num_embeddings(self) -> int:
        """The number of rows."""
        return self.weight.shape[0]

    @property
    def embedding_dim(self) -> int:
        """The length of a row."""
        return self.weight.shape[1]

    def __call__(self, indices: Any) -> tg.Tensor:
        """Returns the rows at `indices`, integers: `[*indices.shape, embedding_dim]`; NaN for indices out of range.

        Raises:
            DTypeError: The indices are not integers.
        """
        rows = tg.embedding(self.weight, indices)
        if self.padding_idx is None:
            return rows
        places, row = tg.array(indices), self.padding_idx
        places = places if places.dtype.itemsize >= 4 else tg.cast(places, "i32")
        is_padding = tg.equal(places, row)
        if places.dtype.kind == "i":  # negative indices count from the end
            is_padding = tg.logical_or(is_padding, tg.equal(places, row - self.weight.shape[0]))
        return tg.where(tg.expand_dims(is_padding, -1), tg.stop_gradient(rows), rows)

    def attend(self, x: Any) -> Any:
        """Returns the products of `x`, `[..., embedding_dim]`, with all rows: the logits of tied embeddings.

        Raises:
            ShapeError: The last axis of `x` has a different extent.
        """
        return x @ tg.transpose(self.weight)


def _with_zero_row(initializer: Initializer, row: int) -> Initializer:
    def drawn(key: Any, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        values = np.array(initializer(key, shape, dtype))
        values[row] = 0
        return values

    return drawn


class Bilinear(Module):
    """`y[k] = x1 @ weight[k] @ x2 + bias[k]`, over the last axes.

    Parameters are initialized as in PyTorch: uniform within `1 / sqrt(in1_features)` of zero.

    Args:
        in1_features: The extent of the last axis of `x1`.
        in2_features: The extent of the last axis of `x2`.
        out_features: The extent of the last axis of the result.
        bias: Whether there is a bias.
        dtype: The dtype of the parameters.
        init: The initial weight: an initializer, a number or an array, as for `tg.nn.param`.
        bias_init: The initial bias.

    Attributes:
        weight: Parameter of shape `[out_features, in1_features, in2_features]`.
        bias: Parameter of shape `[out_features]`, or None.

    Raises:
        ShapeError: An extent is not a positive integer.

    Example:
        >>> tg.nn.Bilinear(3, 4, 2).initialized(0)(tg.ones((5, 3)), tg.ones((5, 4))).shape
        (5, 2)
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        dtype: object = "f32",
        *,
        init: Init | None = None,
        bias_init: Init | None = None,
    ):
        super().__init__()
        in1_features, in2_features, out_features = positive(
            "Bilinear", in1_features=in1_features, in2_features=in2_features, out_features=out_features
        )
        bound = 1 / math.sqrt(in1_features)
        near = uniform(-bound, bound)
        self.weight = param((out_features, in1_features, in2_features), near if init is None else init, dtype)
        self.bias = param((out_features,), near if bias_init is None else bias_init, dtype) if bias else None

    def __call__(self, x1: Any, x2: Any) -> tg.Tensor:
        """Applies the layer to `[..., in1_features]` and `[..., in2_features]` of the same leading axes.

        Raises:
            ShapeError: The shapes don't match.
        """
        left, right = (trailing("Bilinear", x, (n,)) for x, n in zip((x1, x2), self.weight.shape[1:], strict=True))
        if left.shape[:-1] != right.shape[:-1]:
            raise ShapeError(f"Bilinear: leading axes of {left.shape} and {right.shape} differ")
        product = tg.einsum("...i,kij,...j->...k", left, self.weight, right)
        return product if self.bias is None else product + self.bias


class Identity(Module):
    """The identity function as a layer, whatever its arguments are.

    Example:
        >>> tg.nn.Identity()(tg.ones(2))
        Array([1., 1.], dtype=f32)
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()

    def __call__(self, x: Any) -> Any:
        """Returns `x`."""
        return x


class Flatten(Module):
    """Merges the axes from `start_dim` to `end_dim` into one.

    Example:
        >>> tg.nn.Flatten()(tg.ones((2, 3, 4))).shape
        (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def __call__(self, x: Any) -> tg.Tensor:
        """Applies the layer.

        Raises:
            ShapeError: There are no such axes, or they are in the wrong order.
        """
        return tg.flatten(x, self.start_dim, self.end_dim)
