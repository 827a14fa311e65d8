"""Checks of options that are numbers."""

from __future__ import annotations

from typing import TypeGuard


def is_integer(value: object, least: int | None = None) -> TypeGuard[int]:
    """Returns whether a value is a Python integer that is not a boolean, and not below `least`."""
    return isinstance(value, int) and not isinstance(value, bool) and (least is None or value >= least)
