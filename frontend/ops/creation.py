"""Functions that create tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from tensorgrad.dialects.tg import leaves
from tensorgrad.dialects.tg.base import ELEMENT_TYPES, NumpyArray, integer, ints
from tensorgrad.errors import ArgumentError, DTypeError, InputError, OptionError, ShapeError
from tensorgrad.ops.promotion import as_tensor
from tensorgrad.runtime.conversion import converted
from tensorgrad.tracing.arrays import borrowed
from tensorgrad.tracing.dtypes import SHORT, DType, as_dtype, spec
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Array, Tensor, Traced
from tensorgrad.tracing.tracer import as_array, current_trace, emit


def array(x: TensorLike, dtype: object = None) -> Tensor:
    """Returns a tensor of the given numbers; 64-bit ones are converted to 32 bits, unless `dtype` requests more.

    Raises:
        DTypeError: Values that don't fit.

    Example:
        >>> tg.array([[1, 2], [3, 4]])
        Array([[1, 2],
         [3, 4]], dtype=i32)
        >>> tg.array(np.zeros((2, 3))).dtype
        dtype('float32')
    """
    if isinstance(x, Traced):
        return x if dtype is None else as_tensor(x).astype(dtype)
    return Array(np.array(as_array(x, None if dtype is None else as_dtype(dtype))))


def from_dlpack(x: TensorLike, *, copy: bool | None = None) -> Tensor:
    """Returns a tensor of another library's array, over DLPack: a copy, as `array` makes.

    With `copy=False` it shares the array's memory, which must not be changed as long as the tensor is in use: ops,
    including those whose results are not computed yet, and programs read it when they run.

    Args:
        x: Anything with `__dlpack__` on the CPU, such as a tensor of PyTorch or an array of JAX or CuPy's host memory.
        copy: `False` shares the memory.

    Raises:
        DTypeError: It has no `__dlpack__`, is on another device, requires a gradient, or holds values that don't fit.
        OptionError: `copy` is `False`, and the memory can't be shared: the array is not contiguous, not aligned, of a
            dtype that would be converted, or its library refuses.

    Example:
        >>> tg.from_dlpack(np.arange(3, dtype=np.float32))
        Array([0., 1., 2.], dtype=f32)
    """
    if isinstance(x, Traced) or not hasattr(x, "__dlpack__"):
        raise DTypeError(f"from_dlpack takes an array with __dlpack__, not {type(x).__name__}; tg.array takes numbers")
    if copy is not False:
        return array(x)
    if isinstance(x, Tensor):
        return x
    shared = borrowed("from_dlpack", x)
    if shared.dtype.itemsize == 8:
        raise OptionError(
            f"from_dlpack: copy=False, and {SHORT[shared.dtype]} would be converted to 32 bits; "
            "tensorgrad.array_api.from_dlpack keeps it"
        )
    return Array(shared)


def full(shape_: int | Sequence[int], value: float, dtype: object = None) -> Tensor:
    """Returns a tensor filled with `value`; its dtype is the value's unless given.

    Example:
        >>> tg.full((2, 2), 7)
        Array([[7, 7],
         [7, 7]], dtype=i32)
    """
    target = as_array(value).dtype if dtype is None else as_dtype(dtype)
    extents = spec(shape_, target).shape
    try:
        return Array(np.broadcast_to(as_array(value, target), extents))
    except DTypeError as error:
        raise DTypeError(f"full: {error.message}") from None


def _filled(what: str, value: int, shape_: tuple[Any, ...], dtype: object) -> Tensor:
    """Returns a filled tensor whose shape is given as one argument, optionally followed by a dtype, or as extents."""
    if len(shape_) == 2 and (isinstance(shape_[1], type) or not hasattr(shape_[1], "__index__")):
        if dtype is not None:
            raise ArgumentError(f"{what}() got the dtype twice: {shape_[1]!r} and dtype={dtype!r}")
        shape_, dtype = shape_[:1], shape_[1]
    if not shape_:
        raise ArgumentError(f"{what}() needs a shape: {what}(2, 3) or {what}((2, 3)); {what}(()) is a scalar")
    return full(shape_[0] if len(shape_) == 1 else shape_, value, "f32" if dtype is None else dtype)


@overload
def zeros(shape_: int | Sequence[int], dtype: object, /) -> Tensor: ...


@overload
def zeros(shape_: Sequence[int], /, *, dtype: object = None) -> Tensor: ...


@overload
def zeros(*shape_: int, dtype: object = None) -> Tensor: ...


def zeros(*shape_: Any, dtype: object = None) -> Tensor:
    """Returns a tensor of zeros: `zeros(2, 3)` or `zeros((2, 3))`, of f32 unless `dtype` says otherwise.

    Example:
        >>> tg.zeros(3, dtype="i32")
        Array([0, 0, 0], dtype=i32)
    """
    return _filled("zeros", 0, shape_, dtype)


@overload
def ones(shape_: int | Sequence[int], dtype: object, /) -> Tensor: ...


@overload
def ones(shape_: Sequence[int], /, *, dtype: object = None) -> Tensor: ...


@overload
def ones(*shape_: int, dtype: object = None) -> Tensor: ...


def ones(*shape_: Any, dtype: object = None) -> Tensor:
    """Returns a tensor of ones: `ones(2, 3)` or `ones((2, 3))`, of f32 unless `dtype` says otherwise.

    Example:
        >>> tg.ones(2, 3)
        Array([[1., 1., 1.],
         [1., 1., 1.]], dtype=f32)
    """
    return _filled("ones", 1, shape_, dtype)


@overload
def empty(shape_: int | Sequence[int], dtype: object, /) -> Tensor: ...


@overload
def empty(shape_: Sequence[int], /, *, dtype: object = None) -> Tensor: ...


@overload
def empty(*shape_: int, dtype: object = None) -> Tensor: ...


def empty(*shape_: Any, dtype: object = None) -> Tensor:
    """Returns zeros, like `zeros`: in NumPy and PyTorch the values of `empty` are undefined.

    Example:
        >>> tg.empty(2, 3).shape
        (2, 3)
    """
    return _filled("empty", 0, shape_, dtype)


def full_like(x: TensorLike, value: float, dtype: object = None) -> Tensor:
    """Returns a tensor of the shape of `x` filled with `value`, of its dtype unless another is given.

    Example:
        >>> tg.full_like([1.0, 2.0], 5)
        Array([5., 5.], dtype=f32)
    """
    tensor = as_tensor(x)
    return full(tensor.shape, value, tensor.dtype if dtype is None else dtype)


def zeros_like(x: TensorLike, dtype: object = None) -> Tensor:
    """Returns zeros of the shape of `x`, of its dtype unless another is given.

    Example:
        >>> tg.zeros_like([[1, 2]])
        Array([[0, 0]], dtype=i32)
    """
    return full_like(x, 0, dtype)


def ones_like(x: TensorLike, dtype: object = None) -> Tensor:
    """Returns ones of the shape of `x`, of its dtype unless another is given.

    Example:
        >>> tg.ones_like([1, 2])
        Array([1, 1], dtype=i32)
    """
    return full_like(x, 1, dtype)


def empty_like(x: TensorLike, dtype: object = None) -> Tensor:
    """Returns zeros of the shape of `x`, like `empty`.

    Example:
        >>> tg.empty_like(np.ones((2, 3), np.float32)).shape
        (2, 3)
    """
    return full_like(x, 0, dtype)


def arange(start: float, stop: float | None = None, step: float = 1, dtype: object = None) -> Tensor:
    """Returns the numbers `start, start + step, …` below `stop` (or from 0 to `start`); i32, or f32 if any is a float.

    Floats are computed in f64, as NumPy does, and rounded once.

    Raises:
        ShapeError: `step` is 0.
        DTypeError: A number is out of the dtype's range.

    Example:
        >>> tg.arange(2, 10, 3)
        Array([2, 5, 8], dtype=i32)
    """
    first, last = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise ShapeError("arange: the step is 0")
    if not all(math.isfinite(number) for number in (first, last, step) if isinstance(number, float)):
        raise ShapeError(f"arange: from {first} to {last} by {step} is no finite number of elements")
    if isinstance(first, float) or isinstance(last, float) or isinstance(step, float):
        return Array(fitted(np.arange(first, last, step), as_dtype("f32" if dtype is None else dtype), "arange"))
    dtype = "i32" if dtype is None else dtype
    numbers = range(first, last, step)
    target, count = as_dtype(dtype), len(numbers)
    if count:
        fitted(np.array([numbers[0], numbers[-1]]), target, "arange")
    if current_trace() is None or not count:
        return Array(np.arange(first, last, step).astype(target))
    positions = emit(leaves.IotaOp, [], shape=ints([count]), axis=integer(0), element=ELEMENT_TYPES[target])
    scaled = positions if step == 1 else positions * step
    return scaled if first == 0 else scaled + first


def fitted(numbers: NumpyArray, dtype: DType, what: str) -> NumpyArray:
    """Returns numbers in another dtype, truncated if it is an integer dtype.

    Raises:
        DTypeError: One is out of range, or is not finite and the dtype is an integer dtype.
    """
    try:
        return converted(numbers, dtype, SHORT[dtype], what)
    except InputError as error:
        raise DTypeError(str(error)) from None
