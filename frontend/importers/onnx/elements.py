"""ONNX's element types and their dtypes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tensorgrad.tracing.dtypes import NAMES, DType, is_float

NumpyArray = np.ndarray[Any, np.dtype[Any]]

_SHORT = {
    "FLOAT": "f32",
    "FLOAT16": "f16",
    "BFLOAT16": "bf16",
    "DOUBLE": "f32",
    "BOOL": "bool",
    "INT64": "i32",
    "INT32": "i32",
    "INT16": "i16",
    "INT8": "i8",
    "UINT64": "u32",
    "UINT32": "u32",
    "UINT16": "u16",
    "UINT8": "u8",
}

DTYPES: dict[int, DType] = {TensorProto.DataType.Value(name): NAMES[short] for name, short in _SHORT.items()}
"""The dtype of tensors of each element type; `DOUBLE` may also stay f64."""

FLOATS = frozenset(element for element, dtype in DTYPES.items() if is_float(dtype))
"""The element types of floats."""

_NAMES = {int(value): name for name, value in TensorProto.DataType.items()}


def element_name(element: int) -> str:
    """Returns ONNX's name of an element type."""
    return _NAMES.get(element, f"element type {element}")


def element_named(value: int | bytes) -> int:
    """Returns an element type from an attribute: a number, or before version 6 of `Cast` a name.

    Raises:
        ValueError: There is no element type of the name.
    """
    return TensorProto.DataType.Value(value.decode()) if isinstance(value, bytes) else value


def numpy_dtype(element: int) -> DType:
    """Returns numpy's dtype for an element type."""
    return np.dtype(helper.tensor_dtype_to_np_dtype(element))


def dtype_of(element: int, float64: bool) -> DType:
    """Returns the dtype of tensors of an element type.

    Raises:
        KeyError: There is none.
    """
    return NAMES["f64"] if float64 and element == TensorProto.DOUBLE else DTYPES[element]


def constant_of(attributes: Mapping[str, Any]) -> NumpyArray:
    """Returns the values of a node `Constant`, from its attribute."""
    name, value = next(iter(attributes.items()))
    return value if name == "value" else np.asarray(value, np.float32 if "float" in name else np.int64)


def array_of(tensor: onnx.TensorProto, base_dir: str = "") -> NumpyArray:
    """Returns the values of a tensor in a file, in numpy's dtype of its own element type."""
    return np.asarray(numpy_helper.to_array(tensor, base_dir))
