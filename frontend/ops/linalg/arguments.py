"""Checks of arguments: stacks of matrices."""

from __future__ import annotations

from tensorgrad.errors import DTypeError, ShapeError
from tensorgrad.ops.promotion import as_float, as_tensor
from tensorgrad.ops.shape import swapaxes
from tensorgrad.tracing.dtypes import SHORT, is_half
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Tensor


def square_matrices(what: str, x: TensorLike) -> Tensor:
    """Returns the argument as stacks of square matrices.

    Raises:
        ShapeError: They are not square.
    """
    tensor = as_tensor(x)
    if tensor.ndim < 2 or tensor.shape[-1] != tensor.shape[-2]:
        raise ShapeError(f"{what}: takes square matrices, not an array of shape {tensor.shape}")
    return tensor


def float_matrices(what: str, x: TensorLike) -> Tensor:
    """Returns the argument as stacks of matrices in f32 or f64.

    Raises:
        ShapeError: It has fewer than two axes.
        DTypeError: It is f16.
    """
    tensor = as_float(x)
    if tensor.ndim < 2:
        raise ShapeError(f"{what}: takes an array of two axes or more, not {tensor.shape}")
    if is_half(tensor.dtype):
        raise DTypeError(f"{what}: is computed in f32 or f64, not {SHORT[tensor.dtype]}: convert it with astype")
    return tensor


def symmetric_part(what: str, x: TensorLike) -> Tensor:
    """Returns the symmetric parts of stacks of square matrices in f32 or f64.

    Raises:
        ShapeError: They are not square.
        DTypeError: They are f16.
    """
    tensor = float_matrices(what, square_matrices(what, x))
    return tensor * 0.5 + transposed(tensor) * 0.5


def transposed(x: Tensor) -> Tensor:
    """Returns transposes of matrices."""
    return swapaxes(x, -1, -2)
