"""Counts of runs that change together with what a run changes, whatever exception arrives in between."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from operator import call, setitem


class RunCount:
    """The number of times that a program has changed its parameters and state.

    Executables that take turns in changing the same ones have one count. Python raises exceptions from elsewhere (of
    signal handlers, of `PyThreadState_SetAsyncExc`) between bytecodes only, so a change and its count are one bytecode.
    """

    def __init__(self) -> None:
        self._cell = [0]

    @property
    def number(self) -> int:
        """The count."""
        return self._cell[0]

    @number.setter
    def number(self, number: int) -> None:
        self._cell[0] = number

    def count_with(self, change: Callable[[], object]) -> None:
        """Makes a change and counts it, as one.

        Args:
            change: A function in C, or a `partial` of one. If it raises, nothing is counted.
        """
        counting = partial(setitem, self._cell, 0, self._cell[0] + 1)
        deque(map(call, (change, counting)), maxlen=0)


def completed(act: Callable[[], None]) -> None:
    """Calls a function, and calls it again if an exception interrupts it, before that is raised.

    Args:
        act: What has to be done completely; doing it twice has the same effect.
    """
    try:
        act()
    except BaseException:
        act()
        raise
