"""Keys of Python values that are compiled into programs: equal for values that lead to the same program."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

_PLAIN = frozenset((bool, int, str, bytes, type(None)))


@dataclass(frozen=True, eq=False)
class Same:
    """A key that is equal only to itself."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def value_key(value: Any) -> Hashable:
    """Returns a key that tells apart what `==` does not, also within containers and dataclasses that have a hash.

    1, 1.0 and True have different keys, as do 0.0 and -0.0; a NaN has that of its bits. Lists, dicts and NumPy arrays
    are compared as they are now; anything else without a hash, and other arrays, are equal only to themselves.
    """
    kind = type(value)
    if kind in _PLAIN:
        return kind, value
    if isinstance(value, np.generic):
        return kind, value.dtype.str, value.tobytes()
    if isinstance(value, float):
        return kind, struct.pack("d", value)
    if isinstance(value, complex):
        return kind, struct.pack("2d", value.real, value.imag)
    if isinstance(value, tuple | list):
        return kind, tuple(map(value_key, value))
    if isinstance(value, frozenset):
        return kind, frozenset(map(value_key, value))
    if isinstance(value, dict):
        return kind, tuple((value_key(name), value_key(entry)) for name, entry in value.items())
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return kind, value.shape, value.dtype.str, value.tobytes()
    if not _is_hashable(value) or hasattr(value, "__array__"):
        return Same(value)
    if dataclasses.is_dataclass(kind) and _is_compared_by_fields(kind):
        return kind, tuple(value_key(getattr(value, field.name)) for field in dataclasses.fields(kind) if field.compare)
    return kind, value


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _is_compared_by_fields(kind: Any) -> bool:
    """Returns whether dataclasses of this type are equal if their fields are, rather than the same object."""
    return bool(kind.__dataclass_params__.eq)
