"""Conversion of inputs to numpy arrays of the expected dtype; every input passes through here."""

from __future__ import annotations

from typing import Any

import numpy as np
from ml_dtypes import bfloat16

from tensorgrad.runtime.dlpack import as_array, from_dlpack
from tensorgrad.runtime.errors import InputError

BF16 = np.dtype(bfloat16)


def kind_of(dtype: np.dtype[Any]) -> str:
    """Returns NumPy's code for the kind of a dtype; NumPy takes bf16 for no kind of number, here it is a float."""
    return "f" if dtype == BF16 else dtype.kind


def to_numpy(value: Any, what: str) -> np.ndarray:
    """Returns a value as a numpy array, which may share the value's memory.

    Args:
        value: An array, numbers or nested lists of them, or an object with `__array__` or `__dlpack__`, such as CPU
            tensors of other libraries.
        what: The value's name in error messages.

    Raises:
        InputError: It can't be converted; quotes its library's reason, such as another device or gradient tracking.
    """
    if isinstance(value, np.ndarray):
        return value
    if value is None:
        raise InputError(f"{what} is None, which is not an array")
    if getattr(value, "requires_grad", False) is True:
        raise InputError(f"{what} requires a gradient, which cannot flow out of here: give its detach()")
    try:
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            return from_dlpack(value)
        return _exact(value, as_array(value))
    except (ValueError, TypeError, OverflowError, RuntimeError, BufferError) as error:
        raise InputError(f"{what} is not an array: {error}") from error


def _exact(value: Any, array: np.ndarray) -> np.ndarray:
    """Returns a list's integers exactly, where NumPy converted them to floats because some need uint64.

    Raises:
        OverflowError: Some are negative too.
    """
    is_list = isinstance(value, list | tuple) and array.dtype == np.float64 and array.size
    if not is_list or not np.abs(array).max() >= 2.0**63:
        return array
    objects = np.array(value, object)
    return objects.astype(np.uint64) if all(isinstance(element, int) for element in objects.flat) else array


def converted(array: np.ndarray, dtype: np.dtype[Any], name: str, what: str) -> np.ndarray:
    """Converts an array to another dtype if every value fits; may return the same array.

    Floats round to narrower floats; NaN and infinities are kept.

    Args:
        array: The array to convert.
        dtype: The dtype to convert to.
        name: The dtype's name in error messages.
        what: The array's name in error messages.

    Raises:
        InputError: An integer is out of range, a finite float overflows, or NaN would become an integer.
    """
    if array.dtype == dtype:
        return array
    if dtype.kind in "iu" and kind_of(array.dtype) in "iuf":
        _check_integers(array, dtype, name, what)
    with np.errstate(over="ignore", invalid="ignore"):  # ml_dtypes warns of NaN
        result = array.astype(dtype)
    if kind_of(dtype) == "f" and not np.can_cast(array.dtype, dtype) and np.any(np.isinf(result) & np.isfinite(array)):
        raise InputError(f"{what} has values too large for {name}")
    return result


def _check_integers(array: np.ndarray, dtype: np.dtype[Any], name: str, what: str) -> None:
    if np.can_cast(array.dtype, dtype) or not array.size:
        return
    if kind_of(array.dtype) == "f" and not np.all(np.isfinite(array)):
        raise InputError(f"{what} has values that are not finite, for {name}")
    limits, least, most = np.iinfo(dtype), int(array.min()), int(array.max())
    if least < limits.min or most > limits.max:
        raise InputError(f"{what} has values from {least} to {most}, outside of {name}")
