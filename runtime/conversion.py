"""From whatever holds numbers to numpy arrays of the wanted dtype: the one way in for every input."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorgrad.runtime.errors import InputError


def to_numpy(value: Any, what: str) -> np.ndarray:
    """Returns a numpy array of what a value holds; it may share the value's memory.

    Args:
        value: An array, numbers or nested lists of them, or anything with `__array__` or `__dlpack__`, such as tensors
            of other libraries on the CPU.
        what: What messages call it.

    Raises:
        InputError: It holds no array; says what its library says, about another device or a recorded gradient, say.
    """
    if isinstance(value, np.ndarray):
        return value
    if value is None:
        raise InputError(f"{what} is None, which is not an array")
    if getattr(value, "requires_grad", False) is True:
        raise InputError(f"{what} requires a gradient, which cannot flow out of here: give its detach()")
    try:
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            return np.from_dlpack(value)
        return _exact(value, np.asarray(value))
    except (ValueError, TypeError, OverflowError, RuntimeError, BufferError) as error:
        raise InputError(f"{what} is not an array: {error}") from error


def _exact(value: Any, found: np.ndarray) -> np.ndarray:
    """Returns the integers of a list as such, where NumPy made floats of them since some have 64 bits and no sign.

    Raises:
        OverflowError: There are negative ones too.
    """
    is_list = isinstance(value, list | tuple) and found.dtype == np.float64 and found.size
    if not is_list or not np.abs(found).max() >= 2.0**63:
        return found
    given = np.array(value, object)
    return given.astype(np.uint64) if all(isinstance(one, int) for one in given.flat) else found


def converted(array: np.ndarray, dtype: np.dtype[Any], name: str, what: str) -> np.ndarray:
    """Returns an array in another dtype, as long as every value fits; it may be the same array.

    Floats round to narrower floats, and NaN and the infinities stay.

    Args:
        array: What to convert.
        dtype: What to.
        name: What messages call the dtype.
        what: What messages call the array.

    Raises:
        InputError: An integer is out of range, a finite float overflows, or NaN is to be an integer.
    """
    if array.dtype == dtype:
        return array
    if dtype.kind in "iu" and array.dtype.kind in "iuf":
        _check_integers(array, dtype, name, what)
    with np.errstate(over="ignore"):
        result = array.astype(dtype)
    if dtype.kind == "f" and not np.can_cast(array.dtype, dtype) and np.any(np.isinf(result) & np.isfinite(array)):
        raise InputError(f"{what} has values too large for {name}")
    return result


def _check_integers(array: np.ndarray, dtype: np.dtype[Any], name: str, what: str) -> None:
    if np.can_cast(array.dtype, dtype) or not array.size:
        return
    if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
        raise InputError(f"{what} has values that are not finite, for {name}")
    limits, least, most = np.iinfo(dtype), int(array.min()), int(array.max())
    if least < limits.min or most > limits.max:
        raise InputError(f"{what} has values from {least} to {most}, outside of {name}")
