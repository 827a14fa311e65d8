"""The error of a transformation that a kernel doesn't allow."""

from __future__ import annotations


class DoesNotFit(Exception):
    """Raised if a step of a recipe can't be applied to a kernel; says why. `tile` adds which step and which kernel."""
