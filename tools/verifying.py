"""Verifiers that crash: xDSL's, and some of ours, take attributes to be of the kinds that they expect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xdsl.utils.exceptions import DiagnosticException, VerifyException

from tensorgrad.runtime.errors import TensorgradError


@contextmanager
def verifying() -> Iterator[None]:
    """Has a verifier that crashes say that the module is malformed.

    Raises:
        VerifyException: The module is invalid; its cause is what the verifier raised, if that is something else.
    """
    try:
        yield
    except (DiagnosticException, TensorgradError, OSError, MemoryError):
        raise
    except Exception as error:
        raise VerifyException(f"this is malformed: {error!r}") from error
