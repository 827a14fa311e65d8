"""Reading and checking arrays from outside."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorgrad.dialects.tg.base import NumpyArray
from tensorgrad.errors import DTypeError, InputError, OptionError
from tensorgrad.runtime.conversion import kind_of
from tensorgrad.runtime.dlpack import as_array, from_dlpack
from tensorgrad.runtime.slots import ArraySlot
from tensorgrad.tracing.dtypes import SHORT, Spec
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Tensor


def slot_of(name: str, spec: Spec) -> ArraySlot:
    """Returns a named specification, in the form the runtime checks against."""
    return ArraySlot(name, spec.shape, SHORT[spec.dtype])


def as_numpy(name: str, value: Any) -> np.ndarray:
    """Returns an array from anything that numpy converts, and from PyTorch tensors that are part of an autograd graph.

    Raises:
        InputError: The value can't be converted.
    """
    try:
        if hasattr(value, "detach") and not isinstance(value, Tensor):
            value = value.detach().cpu()
        array = as_array(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} is not an array: {error}") from None
    if kind_of(array.dtype) not in "fiub":
        raise InputError(f"{name} is not an array of numbers, but of {array.dtype}")
    return array


def borrowed(what: str, value: Any) -> NumpyArray:
    """Returns an array that shares the memory of another library's array: `copy=False`.

    Args:
        what: The function's name in error messages.
        value: An array of NumPy, or anything on the CPU with `__dlpack__`.

    Raises:
        OptionError: The memory can't be shared: the value is not an array, it is not contiguous or not aligned, or its
            library refuses.
        DTypeError: Its dtype is not supported.
    """
    refused = f"{user_line()}: {what}: copy=False, and {type(value).__name__} has to be copied"
    if not isinstance(value, np.ndarray):
        if not hasattr(value, "__dlpack__"):
            raise OptionError(f"{refused}: it has no __dlpack__")
        try:
            value = from_dlpack(value, copy=False)
        except (TypeError, ValueError, RuntimeError, BufferError) as error:
            raise OptionError(f"{refused}: {error}") from error
    if value.dtype not in SHORT:
        raise DTypeError(f"{what}: {value.dtype} is not supported")
    if not value.flags.c_contiguous or not value.flags.aligned:
        raise OptionError(f"{refused}: its elements do not lie one after the other, in order and aligned")
    return np.asarray(value)
