"""Trees of tensors as one vector."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import accumulate
from typing import Any

from tensorgrad.errors import ShapeError
from tensorgrad.ops.creation import full
from tensorgrad.ops.joining import concat, narrow
from tensorgrad.ops.promotion import as_tensor, cast
from tensorgrad.ops.shape import reshape
from tensorgrad.tracing import trees
from tensorgrad.tracing.tensor import Tensor


def ravel_pytree(tree: Any) -> tuple[Tensor, Callable[[Any], Any]]:
    """Returns the elements of a tree's leaves as one vector, and the function that makes the tree of such a vector.

    As `jax.flatten_util.ravel_pytree`. Both are differentiable, inside and outside of a trace: for solvers and line
    searches, which are written for vectors.

    Args:
        tree: A pytree of tensors, arrays and numbers: nested dicts, lists, tuples, dataclasses and modules.

    Returns:
        `(vector, unravel)`. The vector has the leaves' elements in the order of `tg.tree_map`, each leaf in row-major
        order, in their common dtype (f32 if there are no leaves). `unravel(vector)` returns a tree of the same
        structure, shapes and dtypes; it raises a `ShapeError` for another shape than the vector's.

    Raises:
        DTypeError: A leaf is no array of numbers, or the leaves have no common dtype.

    Example:
        >>> vector, unravel = tg.ravel_pytree({"w": tg.ones((2, 2)), "b": 3.0})
        >>> vector
        Array([3., 1., 1., 1., 1.], dtype=f32)
        >>> unravel(2 * vector)["w"].tolist()
        [[2.0, 2.0], [2.0, 2.0]]
    """
    leaves, rebuild = trees.flatten(tree)
    tensors = [as_tensor(leaf) for leaf in leaves]
    kinds = [(tensor.shape, tensor.dtype) for tensor in tensors]
    counts = [math.prod(shape) for shape, _ in kinds]
    starts = accumulate(counts, initial=0)
    places = list(zip(kinds, counts, starts, strict=False))
    size = sum(counts)

    def unravel(vector: Any) -> Any:
        flat = as_tensor(vector)
        if flat.shape != (size,):
            raise ShapeError(f"unravel: takes a vector of shape {(size,)}, not {flat.shape}")
        return rebuild(
            [cast(reshape(narrow(flat, 0, start, count), shape), dtype) for (shape, dtype), count, start in places]
        )

    return concat([reshape(tensor, -1) for tensor in tensors]) if tensors else full((0,), 0.0), unravel
