"""Conversion of operands before an op: to tensors of a common dtype and shape."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

import numpy as np

from tensorgrad.dialects.tg import reduce, shape
from tensorgrad.dialects.tg.base import ELEMENT_TYPES, ints
from tensorgrad.dialects.tg.elementwise import arithmetic
from tensorgrad.errors import DTypeError, ShapeError
from tensorgrad.tracing.dtypes import NAMES, SHORT, DType, as_dtype, is_float, is_half, promote
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Array, Tensor
from tensorgrad.tracing.tracer import as_array, emit


def as_tensor(x: Any, dtype: DType | None = None) -> Tensor:
    """`x` as a tensor: itself, or as converted by numpy (64-bit numbers become 32-bit ones).

    Raises:
        DTypeError: Its values are not numbers, or don't fit.
        ParameterError: It is a declared parameter, which has no values.
    """
    if isinstance(x, Tensor):
        return x
    return Array(as_array(x, dtype))


def in_dtype(x: Any, dtype: object) -> Tensor:
    """`x` as a tensor of `dtype`: a tensor is cast, and numbers have to fit.

    Raises:
        DTypeError: Its values are not numbers, or don't fit.
        ParameterError: It is a declared parameter, which has no values.
    """
    return cast(x if isinstance(x, Tensor) else as_tensor(x, as_dtype(dtype)), dtype)


def as_float(x: Any) -> Tensor:
    """`x` as a tensor of floats; integers and booleans become f32."""
    tensor = as_tensor(x)
    return tensor if is_float(tensor.dtype) else cast(tensor, NAMES["f32"])


def broadcast_shapes(*shapes: tuple[int, ...], what: str) -> tuple[int, ...]:
    """Returns the broadcast shape of operands by NumPy's rules.

    Raises:
        ShapeError: They don't broadcast.
    """
    if all(shape == shapes[0] for shape in shapes):
        return shapes[0]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = " and ".join(str(shape) for shape in shapes)
        raise ShapeError(f"{what}: shapes {listed} do not broadcast") from None


def broadcast_to(x: Any, shape_: Sequence[int]) -> Tensor:
    """Broadcasts `x` along new leading axes and along axes of extent 1, to `shape_`.

    Raises:
        ShapeError: NumPy's rules don't allow it.
    """
    tensor, extents = as_tensor(x), tuple(shape_)
    if tensor.shape == extents:
        return tensor
    if broadcast_shapes(tensor.shape, extents, what="broadcast_to") != extents:
        raise ShapeError(f"broadcast_to: shape {tensor.shape} does not broadcast to {extents}")
    if isinstance(tensor, Array) and tensor.live is None:
        return Array(np.broadcast_to(np.asarray(tensor), extents))
    offset = len(extents) - tensor.ndim
    own_axes = [axis for axis in range(tensor.ndim) if tensor.shape[axis] == extents[axis + offset]]
    if len(own_axes) < tensor.ndim:
        tensor = emit(shape.ReshapeOp, [tensor], shape=ints([tensor.shape[axis] for axis in own_axes]))
    if tensor.shape == extents:
        return tensor
    return emit(shape.BroadcastOp, [tensor], shape=ints(extents), dims=ints([axis + offset for axis in own_axes]))


def cast(x: TensorLike, dtype: object) -> Tensor:
    """`x` with elements of `dtype`: floats truncate and saturate to integers, NaN becomes 0, bool is `!= 0`.

    Example:
        >>> tg.cast([1.7, -1.7, 1e20], "i32")
        Array([         1,         -1, 2147483647], dtype=i32)
    """
    tensor, target = as_tensor(x), as_dtype(dtype)
    return tensor if tensor.dtype == target else emit(arithmetic.CastOp, [tensor], to=ELEMENT_TYPES[target])


def bitcast(x: TensorLike, dtype: object) -> Tensor:
    """`x` with its elements' bits reinterpreted as `dtype`. Nothing is rounded, and there is no derivative.

    If the widths differ, the last axis gets proportionally more or fewer elements, as with NumPy's and PyTorch's
    `view`: the lowest bits come first. On WebGPU the bits of an f16 NaN may become those of another NaN.

    Raises:
        DTypeError: Either dtype is bool, which has no bit representation.
        ShapeError: The elements of the last axis can't be grouped into a wider dtype, or there is no axis.

    Example:
        >>> tg.bitcast(tg.array([1.0]), "i32")
        Array([1065353216], dtype=i32)
    """
    tensor, target = as_tensor(x), as_dtype(dtype)
    source = tensor.dtype
    if NAMES["bool"] in (source, target):
        raise DTypeError("bitcast: bool has no defined bit width; cast it")
    if source.itemsize == target.itemsize:
        return tensor if source == target else emit(arithmetic.BitcastOp, [tensor], to=ELEMENT_TYPES[target])
    if not tensor.ndim or tensor.shape[-1] * source.itemsize % target.itemsize:
        raise ShapeError(
            f"bitcast: the last axis of {tensor.shape}, of {SHORT[source]}, does not hold whole elements "
            f"of {SHORT[target]}"
        )
    words = bitcast(tensor, _unsigned_of(source))
    parts = _split(words, target) if target.itemsize < source.itemsize else _joined(words, target)
    return bitcast(parts, target)


def _unsigned_of(dtype: DType) -> DType:
    return NAMES[f"u{8 * dtype.itemsize}"]


def _bit_places(count: int, width: int, dtype: DType) -> Array:
    """Returns the bit offset of each part of a word."""
    return Array(np.arange(0, count * width, width).astype(dtype))


def _split(words: Tensor, target: DType) -> Tensor:
    """Returns unsigned integers split into several of the width of `target`, the lowest bits first."""
    *lead, last = words.shape
    count = words.dtype.itemsize // target.itemsize
    apart = broadcast_to(emit(shape.ReshapeOp, [words], shape=ints([*words.shape, 1])), (*words.shape, count))
    amounts = broadcast_to(_bit_places(count, 8 * target.itemsize, words.dtype), apart.shape)
    parts = cast(emit(arithmetic.ShiftRightOp, [apart, amounts]), _unsigned_of(target))
    return emit(shape.ReshapeOp, [parts], shape=ints([*lead, last * count]))


def _joined(parts: Tensor, target: DType) -> Tensor:
    """Returns groups of unsigned integers joined to the width of `target`."""
    *lead, last = parts.shape
    count = target.itemsize // parts.dtype.itemsize
    rows = emit(shape.ReshapeOp, [cast(parts, _unsigned_of(target))], shape=ints([*lead, last // count, count]))
    amounts = broadcast_to(_bit_places(count, 8 * parts.dtype.itemsize, rows.dtype), rows.shape)
    return emit(reduce.SumOp, [emit(arithmetic.ShiftLeftOp, [rows, amounts])], axes=ints([len(rows.shape) - 1]))


def as_tensors(*operands: Any) -> list[Tensor]:
    """Returns operands as tensors; numbers of 64 bits, which are NumPy's default, stay so beside such a tensor."""
    wide = {x.dtype for x in operands if isinstance(x, Tensor) and x.dtype.itemsize == 8}
    return [
        as_tensor(x) if not wide or isinstance(x, Tensor) else as_tensor(x, _dtype_among(x, wide)) for x in operands
    ]


def _dtype_among(x: Any, dtypes: Collection[DType]) -> DType | None:
    dtype = x.dtype if isinstance(x, np.generic | np.ndarray) else np.asarray(x).dtype
    return dtype if dtype in dtypes else None


def _is_scalar(x: Any) -> bool:
    return isinstance(x, (bool, int, float)) and not isinstance(x, np.generic)


def _scalar_dtype(scalar: float, other: DType) -> DType:
    """Returns the dtype of a Python scalar: the other operand's, unless it is a float next to integers."""
    if isinstance(scalar, bool):
        return other
    if isinstance(scalar, float) and not is_float(other):
        return NAMES["f32"]
    return NAMES["i32"] if other == NAMES["bool"] else other


def common_dtype(dtypes: Sequence[DType], scalars: Sequence[float]) -> DType:
    """Returns the promoted dtype of tensors of these dtypes and Python numbers.

    Raises:
        DTypeError: There is none, or a number doesn't fit.
    """
    dtype: DType | None = None
    for other in dtypes:
        dtype = other if dtype is None else promote(dtype, other)
    for scalar in scalars:
        dtype = as_array(scalar).dtype if dtype is None else promote(dtype, _scalar_dtype(scalar, dtype))
    assert dtype is not None
    return dtype


def promoted(what: str, *operands: Any) -> list[Tensor]:
    """Returns operands as tensors of one dtype; Python numbers take the tensors' dtype if they fit.

    Raises:
        DTypeError: They have no common dtype.
    """
    others = {i: x for i, x in enumerate(operands) if not _is_scalar(x)}
    tensors = dict(zip(others, as_tensors(*others.values()), strict=True))
    scalars = {i: x for i, x in enumerate(operands) if _is_scalar(x)}
    try:
        dtype = common_dtype([tensor.dtype for tensor in tensors.values()], list(scalars.values()))
    except DTypeError as error:
        raise DTypeError(f"{what}: {error}") from None
    constants = {i: Array(as_array(x, dtype)) for i, x in scalars.items()}
    return [cast(x, dtype) for _, x in sorted({**tensors, **constants}.items())]


def common(what: str, *operands: Any) -> list[Tensor]:
    """Returns operands as tensors of one dtype and one shape.

    Raises:
        ShapeError: They don't broadcast.
        DTypeError: They have no common dtype.
    """
    ready = promoted(what, *operands)
    extents = broadcast_shapes(*(x.shape for x in ready), what=what)
    return [broadcast_to(x, extents) for x in ready]


def common_numbers(what: str, *operands: Any) -> list[Tensor]:
    """Returns operands as tensors of one common dtype, which is not bool.

    Raises:
        DTypeError: They have no common dtype, or it is bool.
    """
    tensors = promoted(what, *operands)
    check_numbers(what, tensors[0].dtype)
    return tensors


def check_numbers(what: str, dtype: DType) -> None:
    """Raises `DTypeError` for bool."""
    if dtype == NAMES["bool"]:
        raise DTypeError(f"{what}: takes numbers, not bool; cast first")


Function = TypeVar("Function", bound=Callable[..., Tensor])


def widened(x: Tensor) -> Tensor:
    """Returns f16 and bf16 as f32, in whose range their squares and sums are; other dtypes as they are."""
    return cast(x, NAMES["f32"]) if is_half(x.dtype) else x


def in_full(function: Function) -> Function:
    """Computes a function of f16 or bf16 in f32 and rounds its result once: squares easily exceed the range of f16."""

    @functools.wraps(function)
    def wide(x: Any, *args: Any, **kwargs: Any) -> Tensor:
        tensor = as_tensor(x)
        if not is_half(tensor.dtype):
            return function(tensor, *args, **kwargs)
        others = [widened(other) if isinstance(other, Tensor) else other for other in args]
        return cast(function(widened(tensor), *others, **kwargs), tensor.dtype)

    return typing.cast("Function", wide)
