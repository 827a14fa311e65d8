"""What operands become before an op takes them: tensors, of one dtype, of one shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorgrad.dialects.tg import shape
from tensorgrad.dialects.tg.base import ELEMENT_TYPES, ints
from tensorgrad.dialects.tg.elementwise import arithmetic
from tensorgrad.errors import DTypeError, ShapeError
from tensorgrad.tracing.dtypes import NAMES, SHORT, DType, as_dtype, is_float, promote
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Array, Tensor
from tensorgrad.tracing.tracer import as_array, emit


def as_tensor(x: Any, dtype: DType | None = None) -> Tensor:
    """`x` as a tensor: itself, or what numpy makes of it (float64 rounds to f32).

    Raises:
        DTypeError: It holds no numbers, or numbers that don't fit.
        ParameterError: It is a declared parameter, which has no values.
    """
    if isinstance(x, Tensor):
        return x
    return Array(as_array(x, dtype))


def as_float(x: Any) -> Tensor:
    """`x` as a tensor of floats; integers and booleans become f32."""
    tensor = as_tensor(x)
    return tensor if is_float(tensor.dtype) else cast(tensor, NAMES["f32"])


def broadcast_shapes(*shapes: tuple[int, ...], what: str) -> tuple[int, ...]:
    """Returns the shape that NumPy's rules give to operands of these shapes.

    Raises:
        ShapeError: They don't broadcast.
    """
    if all(shape == shapes[0] for shape in shapes):
        return shapes[0]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = " and ".join(str(shape) for shape in shapes)
        raise ShapeError(f"{user_line()}: {what}: shapes {listed} do not broadcast") from None


def broadcast_to(x: Any, shape_: Sequence[int]) -> Tensor:
    """Repeats `x` along new leading axes and along axes of extent 1, to `shape_`.

    Raises:
        ShapeError: NumPy's rules don't allow it.
    """
    tensor, extents = as_tensor(x), tuple(shape_)
    if tensor.shape == extents:
        return tensor
    if broadcast_shapes(tensor.shape, extents, what="broadcast_to") != extents:
        raise ShapeError(f"{user_line()}: broadcast_to: shape {tensor.shape} does not broadcast to {extents}")
    if isinstance(tensor, Array) and tensor.live is None:
        return Array(np.broadcast_to(np.asarray(tensor), extents))
    offset = len(extents) - tensor.ndim
    kept = [axis for axis in range(tensor.ndim) if tensor.shape[axis] == extents[axis + offset]]
    if len(kept) < tensor.ndim:
        tensor = emit(shape.ReshapeOp, [tensor], shape=ints([tensor.shape[axis] for axis in kept]))
    if tensor.shape == extents:
        return tensor
    return emit(shape.BroadcastOp, [tensor], shape=ints(extents), dims=ints([axis + offset for axis in kept]))


def cast(x: Any, dtype: object) -> Tensor:
    """`x` with elements of `dtype`: floats truncate and saturate to integers, NaN becomes 0, bool is `!= 0`."""
    tensor, wanted = as_tensor(x), as_dtype(dtype)
    return tensor if tensor.dtype == wanted else emit(arithmetic.CastOp, [tensor], to=ELEMENT_TYPES[wanted])


def bitcast(x: Any, dtype: object) -> Tensor:
    """`x` with its elements' bits read as `dtype`: f32, i32 or u32. Nothing is rounded, and it has no derivative.

    Raises:
        DTypeError: One of the two dtypes has not 32 bits: there are no integers of 16 or 64.
    """
    tensor, wanted = as_tensor(x), as_dtype(dtype)
    for given in (tensor.dtype, wanted):
        if given.itemsize != 4:
            bits = {1: "no bits of its own", 2: "16 bits", 8: "64 bits"}[given.itemsize]
            raise DTypeError(
                f"{user_line()}: bitcast: takes f32, i32 and u32, which have 32 bits; {SHORT[given]} has {bits}"
            )
    return tensor if tensor.dtype == wanted else emit(arithmetic.BitcastOp, [tensor], to=ELEMENT_TYPES[wanted])


def _is_scalar(x: Any) -> bool:
    return isinstance(x, (bool, int, float)) and not isinstance(x, np.generic)


def _scalar_dtype(scalar: float, other: DType) -> DType:
    """Returns a Python scalar takes the other operand's dtype, unless it is a float beside integers."""
    if isinstance(scalar, bool):
        return other
    if isinstance(scalar, float) and not is_float(other):
        return NAMES["f32"]
    return NAMES["i32"] if other == NAMES["bool"] else other


def common_dtype(dtypes: Sequence[DType], scalars: Sequence[float]) -> DType:
    """Returns the dtype of what tensors of these dtypes, and Python numbers beside them, give together.

    Raises:
        DTypeError: There is none, or a number doesn't fit.
    """
    dtype: DType | None = None
    for one in dtypes:
        dtype = one if dtype is None else promote(dtype, one)
    for scalar in scalars:
        dtype = as_array(scalar).dtype if dtype is None else promote(dtype, _scalar_dtype(scalar, dtype))
    assert dtype is not None
    return dtype


def common(what: str, *operands: Any) -> list[Tensor]:
    """Operands as tensors of one dtype and one shape.

    Raises:
        ShapeError: They don't broadcast.
        DTypeError: They have no common dtype.
    """
    tensors = {i: as_tensor(x) for i, x in enumerate(operands) if not _is_scalar(x)}
    scalars = {i: x for i, x in enumerate(operands) if _is_scalar(x)}
    try:
        dtype = common_dtype([tensor.dtype for tensor in tensors.values()], list(scalars.values()))
    except DTypeError as error:
        raise DTypeError(f"{user_line()}: {what}: {error}") from None
    made = {i: Array(as_array(x, dtype)) for i, x in scalars.items()}
    ready = [cast(x, dtype) for _, x in sorted({**tensors, **made}.items())]
    extents = broadcast_shapes(*(x.shape for x in ready), what=what)
    return [broadcast_to(x, extents) for x in ready]
