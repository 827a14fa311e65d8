"""Checks of options that are numbers."""

from __future__ import annotations

import operator
from typing import Any, TypeGuard, cast

import numpy as np

from tensorgrad.errors import OptionError, ShapeError, TensorgradError


def is_integer(value: object, least: int | None = None) -> TypeGuard[int]:
    """Returns whether a value is a Python integer that is not a boolean, and not below `least`."""
    return isinstance(value, int) and not isinstance(value, bool) and (least is None or value >= least)


def checked_integer(
    value: object,
    what: str,
    least: int | None = None,
    most: int | None = None,
    error: type[TensorgradError] = OptionError,
) -> int:
    """Returns an integer of Python's, NumPy's or of an array without axes as a Python integer; booleans are none.

    Args:
        value: The value of an option.
        what: Who takes it, and its name, as in `chunk: the number of parts`.
        least: The smallest integer that is taken.
        most: The largest one.
        error: What is raised for anything else.

    Raises:
        OptionError: It is no such integer; or another `error`.
    """
    is_boolean = isinstance(value, bool) or getattr(value, "dtype", None) == np.bool_
    try:
        number = None if is_boolean else operator.index(cast(Any, value))
    except TypeError:
        number = None
    if number is not None and (least is None or number >= least) and (most is None or number <= most):
        return number
    if least == 1 and most is None:
        kind = "a positive integer"
    else:
        kind = "an integer" + ("" if least is None else f" from {least}") + ("" if most is None else f" to {most}")
    raise error(f"{what} must be {kind}, got {value!r}")


def checked_extent(value: object, what: str, least: int | None = None) -> int:
    """Returns what `checked_integer` does, of a number that has to do with shapes.

    Raises:
        ShapeError: It is no such integer.
    """
    return checked_integer(value, what, least, error=ShapeError)
