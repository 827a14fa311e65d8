"""Element types in the API: names, promotion, and input specifications."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, cast

import numpy as np
from ml_dtypes import bfloat16

from tensorgrad.errors import DTypeError, ShapeError
from tensorgrad.runtime.conversion import kind_of

DType: TypeAlias = np.dtype[Any]

NAMES: dict[str, DType] = {
    "bf16": np.dtype(bfloat16),
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "i8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
    "i16": np.dtype(np.int16),
    "u16": np.dtype(np.uint16),
    "i32": np.dtype(np.int32),
    "u32": np.dtype(np.uint32),
    "i64": np.dtype(np.int64),
    "u64": np.dtype(np.uint64),
    "bool": np.dtype(np.bool_),
}
"""Short names of the element types; numpy's names and dtypes are accepted too."""

SHORT: dict[DType, str] = {dtype: name for name, dtype in NAMES.items()}

bf16, f16, f32, f64, bool_ = (NAMES[name] for name in ("bf16", "f16", "f32", "f64", "bool"))
i8, u8, i16, u16, i32, u32, i64, u64 = (NAMES[f"{kind}{bits}"] for bits in (8, 16, 32, 64) for kind in "iu")


COUNTS_BYTES = re.compile("[iuf][0-9]+")
"""NumPy's dtype codes that look like the short names."""


def as_dtype(dtype: object) -> DType:
    """Returns the dtype denoted by a short name, a numpy name, a dtype of NumPy or PyTorch, or a Python type.

    Raises:
        DTypeError: It is none of `NAMES`, or a NumPy code that counts bytes, where `i8` here has 8 bits.
    """
    if dtype is None:  # numpy interprets it as float64
        raise DTypeError(f"None is not a dtype; use one of {', '.join(NAMES)}")
    if dtype is float:
        return NAMES["f32"]
    if dtype is int:
        return NAMES["i32"]
    if isinstance(dtype, str) and dtype not in NAMES and COUNTS_BYTES.fullmatch(dtype):
        raise DTypeError(f"{dtype!r} counts bytes, where i8 has 8 bits; use one of {', '.join(NAMES)}")
    if type(dtype).__module__ == "torch":
        dtype = str(dtype).removeprefix("torch.")
        dtype = "bf16" if dtype == "bfloat16" else dtype
    try:
        result = NAMES[dtype] if isinstance(dtype, str) and dtype in NAMES else np.dtype(cast(Any, dtype))
    except TypeError:
        raise DTypeError(f"{dtype!r} is not a dtype; use one of {', '.join(NAMES)}") from None
    if result not in SHORT:
        raise DTypeError(f"{result} is not supported; use one of {', '.join(NAMES)}")
    return result


def is_float(dtype: DType) -> bool:
    """Returns whether a dtype is a floating-point one."""
    return kind_of(dtype) == "f"


def is_half(dtype: DType) -> bool:
    """Returns whether a dtype is a float of 16 bits, of which sums and products of many elements are taken in f32."""
    return is_float(dtype) and dtype.itemsize == 2


def promote(x: DType, y: DType) -> DType:
    """Returns the result dtype of a binary op, by NumPy's kinds: bool promotes to integers, and integers to floats.

    Two integers promote to the narrowest dtype that holds both, as in the Array API standard; next to a float the width
    of an integer is irrelevant, as in PyTorch and JAX. bf16 and f16, neither of which holds the other, promote to f32.

    Raises:
        DTypeError: u64 and a signed integer have no common type.
    """
    if x == y or y == NAMES["bool"]:
        return x
    if x == NAMES["bool"]:
        return y
    if is_float(x) and is_float(y):
        return max(x, y, NAMES["f32"] if x.itemsize == y.itemsize else x, key=lambda dtype: dtype.itemsize)
    if is_float(x) and y.kind in "iu":
        return x
    if is_float(y) and x.kind in "iu":
        return y
    result = np.promote_types(x, y)
    if result not in SHORT or is_float(result):
        raise DTypeError(f"{SHORT[x]} and {SHORT[y]} have no common type; cast one of them")
    return result


class Dim(int):
    """An extent of inputs that varies, as `tg.dim` declares it; as a number, it is the largest.

    Attributes:
        name: Its name.
        buckets: The only extents, in ascending order; empty if all from 1 on are possible.
        padding: What inputs are padded by, by name, with `None` for all others; empty if they aren't.
    """

    name: str
    buckets: tuple[int, ...]
    padding: tuple[tuple[str | None, float], ...]

    def __new__(
        cls, name: str, at_most: int, buckets: tuple[int, ...], padding: tuple[tuple[str | None, float], ...] = ()
    ) -> Dim:
        """Makes an extent; `tg.dim` checks it."""
        result = super().__new__(cls, at_most)
        result.name, result.buckets, result.padding = name, buckets, padding
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        return Dim, self.key

    @property
    def key(self) -> tuple[str, int, tuple[int, ...], tuple[tuple[str | None, float], ...]]:
        """All that was declared of it."""
        return self.name, int(self), self.buckets, self.padding

    def target(self, size: int) -> int:
        """Returns the extent that a number of positions is padded to: the least bucket that holds them."""
        return min(bucket for bucket in self.buckets if size <= bucket) if self.padding else size

    def padding_of(self, name: str) -> float | None:
        """Returns what an input is padded by; `None` if it isn't."""
        padding = dict(self.padding)
        return padding.get(name, padding.get(None))

    def __repr__(self) -> str:
        listed = f", buckets={self.buckets}" if self.buckets else ""
        values = {name: value for name, value in self.padding if name is not None}
        padded = f", padding={values or self.padding[0][1]}" if self.padding else ""
        return f"dim({self.name!r}, at_most={int(self)}{listed}{padded})"

    __str__ = int.__repr__


@dataclass(frozen=True)
class Spec:
    """The shape and dtype of a tensor that is passed later."""

    tree_leaf: ClassVar[bool] = True

    shape: tuple[int, ...]
    dtype: DType

    def __repr__(self) -> str:
        return f"spec({self.shape}, {SHORT[self.dtype]!r})"

    def fixed(self) -> Spec:
        """Returns it with the largest of extents that vary."""
        return Spec(tuple(map(int, self.shape)), self.dtype)


def _known(extent: object) -> str:
    """Returns what to do about an extent that is a tensor, as the end of a message."""
    return "; shapes are fixed when a function is traced: static= of tg.jit" if hasattr(extent, "__array__") else ""


def spec(shape: int | Sequence[int], dtype: object = "f32") -> Spec:
    """Describes an input by its shape and its dtype (f32 by default).

    Args:
        shape: The extents, some of which may be a `tg.dim`; an integer is the extent of one axis.
        dtype: A short name (f32, i64, u8, bool, …: letters and bits) or anything that numpy accepts as a dtype.

    Raises:
        ShapeError: An extent is not an integer, or negative.
        DTypeError: The dtype is not one of those.

    Example:
        >>> tg.spec((2, 3), "i32")
        spec((2, 3), 'i32')
    """
    try:
        extents = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    except TypeError:
        raise ShapeError(f"shape {shape!r} must be of integers that are not negative{_known(shape)}") from None
    for extent in extents:
        if isinstance(extent, bool) or not isinstance(extent, (int, np.integer)) or extent < 0:
            raise ShapeError(f"shape {extents!r} must be of integers that are not negative{_known(extent)}")
    return Spec(tuple(extent if isinstance(extent, Dim) else int(extent) for extent in extents), as_dtype(dtype))
