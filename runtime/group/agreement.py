"""What the processes of a group do alike, though it depends on what one of them finds: a clock, a file, an error."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TypeVar

from tensorgrad.runtime.errors import GroupError
from tensorgrad.runtime.group.group import Group

Result = TypeVar("Result")


def of_first(group: Group | None, value: Result, what: str) -> Result:
    """Returns the first process's value.

    Args:
        group: The processes; `None` is one on its own.
        value: This one's; small, and of what can be pickled.
        what: What it is, for messages.

    Raises:
        GroupError: Another process did not come.
    """
    return value if group is None else group.gather_objects(value if group.rank == 0 else None, label=what)[0]


def together(group: Group | None, act: Callable[[], Result], what: str) -> Result:
    """Calls a function in every process, each of which raises where one does.

    Args:
        group: The processes; `None` is one on its own.
        act: What each calls; it must exchange nothing.
        what: What messages call it.

    Raises:
        Exception: What this process raised, else what the first did that raised.
        GroupError: Another process did not come; or what it raised can't be pickled.
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
    """Calls a function in the first process, for which the others wait; all raise where it does.

    See `together`.
    """
    is_first = group is None or group.rank == 0
    together(group, act if is_first else lambda: None, what)


def _carried(error: Exception, what: str) -> Exception:
    """Returns an error as others get it: as it is, if it can be pickled."""
    try:
        return pickle.loads(pickle.dumps(error))
    except Exception:
        return GroupError(f"{what}: {type(error).__name__}: {error}")
