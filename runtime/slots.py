"""The names, shapes and dtypes of the arrays that programs take and return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tensorgrad.runtime.program import HOST_DTYPES

DTYPES: dict[str, np.dtype[Any]] = {name: np.dtype(kind) for name, kind in HOST_DTYPES.items()}
"""The host-side numpy dtype of each tensorgrad dtype."""


class Slot(Protocol):
    """A named tensor's shape and dtype, such as `program.TensorSlot`."""

    @property
    def name(self) -> str:
        """The tensor's name, as the caller passes it."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        ...

    @property
    def dtype(self) -> str:
        """A key of `DTYPES`."""
        ...


class ScalarSlot(Slot, Protocol):
    """A scalar: passed by name, or computed from a formula."""

    @property
    def formula(self) -> str | None:
        """The formula that the host evaluates, or None if the caller passes the value."""
        ...


@dataclass(frozen=True)
class ArraySlot:
    """A named array's shape and dtype."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    formula: str | None = None
