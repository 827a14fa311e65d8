"""Creation functions of the Array API standard."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorgrad.array_api.devices import DEVICE, check_device, on_device
from tensorgrad.array_api.dtypes import float32
from tensorgrad.errors import OptionError
from tensorgrad.ops import creation, joining
from tensorgrad.ops.promotion import as_tensor, broadcast_to, cast
from tensorgrad.runtime import dlpack
from tensorgrad.tracing import trees
from tensorgrad.tracing.arrays import as_numpy, borrowed
from tensorgrad.tracing.dtypes import SHORT, DType, as_dtype
from tensorgrad.tracing.tensor import Array, Tensor, Traced


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """Returns an object's contents as an array.

    Args:
        obj: An array, possibly of another library; a number; or nested lists and tuples of these, which may be traced.
        dtype: The dtype. By default, arrays keep theirs if tensorgrad has it, and Python numbers become f32, i32 or
            bool.
        device: The result's device; by default that of `obj`, or else the host, whose arrays can be used with any
            device.
        copy: Whether to copy. `None` copies only if `obj` is not a tensorgrad array; `False` shares the memory, as
            `from_dlpack` does.

    Raises:
        OptionError: `copy` is `False` but a copy is needed, or there is no such device.
        DTypeError: Values don't fit the dtype.
    """
    check_device(device)
    if copy is False and not isinstance(obj, Tensor):
        return _shared("asarray", obj, device, dtype)
    if isinstance(obj, Tensor):
        result = on_device(obj if dtype is None else cast(obj, dtype), device)
        if copy and isinstance(result, Array) and result is obj:
            return Array(result.numpy()) if result.live is None else result.clone()
    elif any(isinstance(leaf, Traced) for leaf in trees.flatten(obj)[0]):
        result = _stacked(obj) if dtype is None else cast(_stacked(obj), dtype)
    else:
        result = on_device(creation.array(obj, _dtype_within(obj) if dtype is None else dtype), device)
    if copy is False and result is not obj:
        raise OptionError(f"asarray: copy=False, and {type(obj).__name__} has to be copied")
    return result


def _shared(what: str, obj: Any, device: Any, dtype: Any = None) -> Array:
    shared = borrowed(what, obj)
    if device not in (None, DEVICE):
        raise OptionError(f"{what}: copy=False, and {type(obj).__name__} has to be copied to {device!r}")
    if dtype is not None and as_dtype(dtype) != shared.dtype:
        source, target = SHORT[shared.dtype], SHORT[as_dtype(dtype)]
        raise OptionError(f"{what}: copy=False, and {source} has to be copied to become {target}")
    return Array(shared)


def _stacked(nested: Any) -> Tensor:
    return joining.stack([_stacked(row) for row in nested]) if isinstance(nested, (list, tuple)) else as_tensor(nested)


def _dtype_within(obj: Any) -> DType | None:
    """Returns the dtype of another library's array, if tensorgrad has it."""
    if isinstance(obj, (list, tuple)) or (isinstance(obj, (bool, int, float)) and not isinstance(obj, np.generic)):
        return None
    dtype = as_numpy("asarray: the object", obj).dtype
    return dtype if dtype in SHORT else None


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Returns a copy of another library's array, exchanged over DLPack.

    With `copy=False`, the result shares the array's memory, which must not change as long as the result is in use; see
    `tg.from_dlpack`. A tensorgrad array stays on its device unless `device` is given, and derivatives don't propagate
    through the copy.

    Raises:
        OptionError: `copy` is `False` but the memory can't be shared, or there is no such device.
        DTypeError: The object has no `__dlpack__`, or values that don't fit.
    """
    check_device(device)
    if isinstance(x, Array):
        if copy is False:
            return asarray(x, device=device, copy=False)
        return on_device(Array(x.detach().numpy()), x.device if device is None else device)
    if isinstance(x, Tensor):
        return x
    if copy is False:
        return _shared("from_dlpack", x, device)
    has_dlpack = hasattr(x, "__dlpack__")
    return on_device(asarray(dlpack.from_dlpack(x)) if has_dlpack else creation.from_dlpack(x), device)


def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """Returns `start, start + step, …` up to but excluding `stop`, or 0 to `start`; as i32, or f32 for floats."""
    return on_device(creation.arange(start, stop, step, dtype), device)


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Returns zeros, as `zeros` does: the standard leaves the numbers undefined."""
    return full(shape, 0, dtype=_or_default(dtype), device=device)


def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Returns zeros in the shape of `x`."""
    return full_like(x, 0, dtype=dtype, device=device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Tensor:
    """Returns ones on the diagonal `k` above the main one, and zeros elsewhere."""
    diagonal = _within(k, n_rows, n_rows if n_cols is None else n_cols)
    return on_device(joining.eye(n_rows, n_cols, diagonal, _or_default(dtype)), device)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Returns an array of a shape filled with a number, by default in the number's dtype."""
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    return on_device(broadcast_to(asarray(fill_value, dtype=dtype), extents), device)


def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Returns an array in the shape of `x` filled with a number; its dtype and device are those of `x` by default."""
    tensor = as_tensor(x)
    place = tensor.device if device is None else device
    return full(tensor.shape, fill_value, dtype=tensor.dtype if dtype is None else dtype, device=place)


def linspace(
    start: float, stop: float, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Tensor:
    """Returns `num` numbers from `start` to `stop`, evenly spaced; without `endpoint`, `stop` is excluded."""
    return on_device(joining.linspace(start, stop, num, endpoint, _or_default(dtype)), device)


def meshgrid(*arrays: Any, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Returns the coordinates of a grid: for each vector, an array of the grid's shape.

    Raises:
        OptionError: `indexing` is neither `xy` nor `ij`.
    """
    return joining.meshgrid(*arrays, indexing=indexing)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Returns an array of ones, of f32 unless `dtype` says otherwise."""
    return full(shape, 1, dtype=_or_default(dtype), device=device)


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Returns ones in the shape of `x`."""
    return full_like(x, 1, dtype=dtype, device=device)


def tril(x: Any, /, *, k: int = 0) -> Tensor:
    """Returns the lower triangle of the last two axes, up to `k` diagonals above the main one; 0 elsewhere."""
    return joining.tril(x, _within(k, *as_tensor(x).shape[-2:]))


def triu(x: Any, /, *, k: int = 0) -> Tensor:
    """Returns the upper triangle of the last two axes, from `k` diagonals above the main one on; 0 elsewhere."""
    return joining.triu(x, _within(k, *as_tensor(x).shape[-2:]))


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Returns an array of zeros, of f32 unless `dtype` says otherwise."""
    return full(shape, 0, dtype=_or_default(dtype), device=device)


def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Returns zeros in the shape of `x`."""
    return full_like(x, 0, dtype=dtype, device=device)


def _within(k: int, *extents: int) -> int:
    """Returns the offset of a diagonal, clamped to those of the first diagonals outside of the matrix."""
    return max(-extents[0] - 1, min(k, extents[-1] + 1)) if extents else k


def _or_default(dtype: Any) -> DType:
    return float32 if dtype is None else as_dtype(dtype)
