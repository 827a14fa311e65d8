"""Arrays from outside: what they are checked by, and how they are read."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorgrad.errors import InputError
from tensorgrad.runtime.backend import ArraySlot
from tensorgrad.tracing.dtypes import SHORT, Spec
from tensorgrad.tracing.location import user_line


def slot_of(name: str, spec: Spec) -> ArraySlot:
    """Returns a specification with a name, as the runtime checks by it."""
    return ArraySlot(name, spec.shape, SHORT[spec.dtype])


def as_numpy(name: str, value: Any) -> np.ndarray:
    """Returns an array from anything that numpy takes for one, and from tensors of PyTorch that are part of a graph.

    Raises:
        InputError: It is none.
    """
    try:
        if hasattr(value, "detach"):
            value = value.detach().cpu()
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{user_line()}: {name} is not an array: {error}") from None
    if array.dtype.kind not in "fiub":
        raise InputError(f"{user_line()}: {name} is not an array of numbers, but of {array.dtype}")
    return array
