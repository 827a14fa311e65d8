"""Arrays over DLPack; NumPy passes on no bf16, so it travels as integers of 16 bits, renamed in its description.

Source: https://dmlc.github.io/dlpack/latest/c_api.html
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

UINT, BFLOAT = 1, 4
"""The codes of the kinds of elements: unsigned integers, and bf16 among floats."""

DTYPE_AT = {b"dltensor": 20, b"dltensor_versioned": 52}
"""The position of the code of an array's dtype in what a capsule points to, by the capsule's name."""

_name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class _AsIntegers:
    """Another library's array, whose bf16 are exported as integers of 16 bits."""

    def __init__(self, array: Any):
        self._array = array
        self.is_bf16 = False

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self._array.__dlpack__(**options)
        code = _code_of(capsule)
        self.is_bf16 = code.value == BFLOAT
        if self.is_bf16:
            code.value = UINT
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


def from_dlpack(array: Any, copy: bool | None = None) -> np.ndarray:
    """Returns the array of another library; bf16 is ml_dtypes'.

    Args:
        array: An object with `__dlpack__`.
        copy: As of `numpy.from_dlpack`.
    """
    source = _AsIntegers(array)
    result = np.from_dlpack(source, copy=copy)
    return result.view(bfloat16) if source.is_bf16 else result


def as_array(value: Any) -> np.ndarray:
    """Returns `numpy.asarray` of a value, or PyTorch's bf16 over DLPack, which that function refuses."""
    return from_dlpack(value) if str(getattr(value, "dtype", "")) == "torch.bfloat16" else np.asarray(value)


def to_dlpack(array: np.ndarray, **options: Any) -> Any:
    """Returns an array's capsule, as `numpy.ndarray.__dlpack__` does."""
    if array.dtype != bfloat16:
        return array.__dlpack__(**options)
    capsule = array.view(np.uint16).__dlpack__(**options)
    _code_of(capsule).value = BFLOAT
    return capsule


def _code_of(capsule: Any) -> ctypes.c_uint8:
    name = _name_of(capsule)
    return ctypes.c_uint8.from_address(_pointer_of(capsule, name) + DTYPE_AT[name])
