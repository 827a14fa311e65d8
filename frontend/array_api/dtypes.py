"""The dtypes of the Array API standard that tensorgrad has, and functions on dtypes."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import Any

import numpy as np
from ml_dtypes import finfo as finfo_of

from tensorgrad.array_api.devices import on_device
from tensorgrad.errors import DTypeError, OptionError
from tensorgrad.ops import promotion
from tensorgrad.runtime.conversion import kind_of
from tensorgrad.tracing.dtypes import NAMES, DType, as_dtype, promote
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.tracing.tracer import as_array

bool, float16, float32, float64 = (NAMES[name] for name in ("bool", "f16", "f32", "f64"))
int8, int16, int32, int64 = (NAMES[f"i{bits}"] for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (NAMES[f"u{bits}"] for bits in (8, 16, 32, 64))

DTYPES: dict[str, DType] = {
    "bool": bool,
    "int8": int8,
    "int16": int16,
    "int32": int32,
    "int64": int64,
    "uint8": uint8,
    "uint16": uint16,
    "uint32": uint32,
    "uint64": uint64,
    "float32": float32,
    "float64": float64,
}
"""The standard's names of its dtypes; f16 is not among them."""

DEFAULTS: dict[str, DType] = {"real floating": float32, "integral": int32, "indexing": int32}

KINDS: dict[str, str] = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}
"""The standard's kinds of dtypes, each as NumPy kind letters."""


@dataclass(frozen=True)
class FloatInfo:
    """The machine limits of a float dtype."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True)
class IntegerInfo:
    """The machine limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


def _dtype_of(x: Any) -> DType:
    return x.dtype if isinstance(x, Tensor) else as_dtype(x)


def finfo(type: Any, /) -> FloatInfo:
    """Returns the machine limits of a float dtype, given the dtype or an array.

    Raises:
        DTypeError: It is not a float dtype.
    """
    dtype = _dtype_of(type)
    if kind_of(dtype) != "f":
        raise DTypeError(f"finfo: takes a dtype of floats, not {dtype}")
    limits = finfo_of(dtype)
    eps, most, least, normal = (float(value) for value in (limits.eps, limits.max, limits.min, limits.smallest_normal))
    return FloatInfo(limits.bits, eps, most, least, normal, dtype)


def iinfo(type: Any, /) -> IntegerInfo:
    """Returns the machine limits of an integer dtype, given the dtype or an array.

    Raises:
        DTypeError: It is not an integer dtype.
    """
    dtype = _dtype_of(type)
    if dtype.kind not in "iu":
        raise DTypeError(f"iinfo: takes a dtype of integers, not {dtype}")
    limits = np.iinfo(dtype)
    return IntegerInfo(limits.bits, limits.max, limits.min, dtype)


def isdtype(dtype: Any, kind: Any) -> builtins.bool:
    """Returns whether a dtype is of a kind: another dtype, one of the standard's kinds, or one of several in a tuple.

    Raises:
        OptionError: There is no such kind.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, alternative) for alternative in kind)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise OptionError(f"isdtype: kind {kind!r} is not one of {', '.join(KINDS)}")
        return kind_of(as_dtype(dtype)) in KINDS[kind]
    return as_dtype(dtype) == as_dtype(kind)


def can_cast(from_: Any, to: Any, /) -> builtins.bool:
    """Returns whether promoting a dtype, or an array's, with the dtype `to` gives `to`, across kinds too."""
    source, target = _dtype_of(from_), as_dtype(to)
    try:
        return promote(source, target) == target
    except DTypeError:  # signed dtypes and u64 have no common dtype
        return False


def result_type(*arrays_and_dtypes: Any) -> DType:
    """Returns the dtype that arrays, dtypes and Python scalars are promoted to.

    Raises:
        DTypeError: They have no common dtype.
        OptionError: There is neither an array nor a dtype.
    """
    scalars = [x for x in arrays_and_dtypes if isinstance(x, (builtins.bool, int, float))]
    dtypes = [_dtype_of(x) for x in arrays_and_dtypes if not isinstance(x, (builtins.bool, int, float))]
    if not dtypes:
        raise OptionError("result_type: takes at least one array or dtype")
    result = dtypes[0]
    try:
        for dtype in dtypes[1:]:
            result = promote(result, dtype)
    except DTypeError as error:
        raise DTypeError(f"result_type: {error}") from None
    for scalar in scalars:
        own = as_array(scalar).dtype
        result = promote(result, own) if _ORDER[result.kind] < _ORDER[own.kind] else result
    return result


_ORDER = {"b": 0, "i": 1, "u": 1, "f": 2}
"""The order of kinds: a Python scalar affects the result's dtype only if its kind is later than those of the arrays."""


def astype(x: Any, dtype: Any, /, *, copy: builtins.bool = True, device: Any = None) -> Tensor:
    """Returns an array cast to a dtype.

    Args:
        x: An array.
        dtype: The dtype.
        copy: Whether to copy an array that already has the dtype. Host arrays are immutable, and never copied.
        device: The result's device; by default that of `x`.

    Raises:
        OptionError: There is no such device.
        DTypeError: There is no such dtype, or the device doesn't support it.
    """
    result = on_device(promotion.cast(x, dtype), device)
    return result.clone() if copy and result is x else result
