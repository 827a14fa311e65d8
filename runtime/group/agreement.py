"""Makes the processes of a group agree on what only one of them observes: a clock, a file, an error."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TypeVar

from tensorgrad.runtime.errors import GroupError
from tensorgrad.runtime.group.group import Group

Result = TypeVar("Result")


def of_first(group: Group | None, value: Result, what: str) -> Result:
    """Returns the first process's value, on every process.

    Args:
        group: The processes; `None` for a single one.
        value: This process's value; small and picklable.
        what: The value's name in error messages.

    Raises:
        GroupError: Another process did not join.
    """
    return value if group is None else group.gather_objects(value if group.rank == 0 else None, label=what)[0]


def together(group: Group | None, act: Callable[[], Result], what: str) -> Result:
    """Calls a function in every process; if it raises in one, all of them raise.

    Args:
        group: The processes; `None` for a single one.
        act: The function, which must not communicate.
        what: Its name in error messages.

    Raises:
        Exception: The exception of this process, or else of the first process that raised one.
        GroupError: Another process did not join, or its exception can't be pickled.
    """
    if group is None:
        return act()
    own, results = None, list[Result]()
    try:
        results.append(act())
    except Exception as error:
        own = error
    raised = group.gather_objects(None if own is None else _carried(own, f"rank {group.rank}: {what}"), label=what)
    if own is not None:
        raise own
    for error in raised:
        if error is not None:
            raise error
    return results[0]


def by_first(group: Group | None, act: Callable[[], object], what: str) -> None:
    """Calls a function in the first process, while the others wait; if it raises, all of them raise.

    See `together`.
    """
    is_first = group is None or group.rank == 0
    together(group, act if is_first else lambda: None, what)


def _carried(error: Exception, what: str) -> Exception:
    """Returns an error as the other processes get it: unchanged if it can be pickled."""
    try:
        return pickle.loads(pickle.dumps(error))
    except Exception:
        return GroupError(f"{what}: {type(error).__name__}: {error}")
