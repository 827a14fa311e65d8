"""Finds functions that draw numbers from global generators while they are traced."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from tensorgrad.errors import RepeatedDrawWarning
from tensorgrad.runtime.errors import warn_user
from tensorgrad.tracing.location import user_line


@contextmanager
def warning_of_draws(name: str) -> Iterator[None]:
    """Warns if NumPy's or Python's global generator has moved: what a traced function drew became constants.

    Args:
        name: The function's name in the message.
    """
    before = _states()
    yield
    moved = [module for module, state in _states().items() if state != before[module]]
    if moved:
        warn_user(
            f"{user_line()}: the global generator of {' and of '.join(moved)} moved while {name}() was traced, which "
            "happens once: what it draws there is the same in every call; tg.random draws anew, by a key, which a loss "
            "takes as its argument key",
            RepeatedDrawWarning,
        )


def _states() -> dict[str, object]:
    """Returns the states of global generators, by module, as objects that compare by value."""
    _, keys, *rest = np.random.get_state()
    return {"numpy.random": (np.asarray(keys).tobytes(), *rest), "random": random.getstate()}
