"""When what steps gave is read, and when the processes of a group agree whether their run goes on."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tensorgrad.runtime.group.group import Group
from tensorgrad.train.run import Callback

RECORDS_AT_ONCE, SECONDS_BETWEEN_READS = 32, 1.0
"""After how many steps, or how long, what they gave is read from the device."""

OURS = "tensorgrad."


class Meetings:
    """What a process waits with until all of its group do it behind the same step.

    A clock runs differently in each process, and a signal or a file may be there for one of them alone. So losses are
    read after a number of steps that the first process takes from its clock each time they meet, and a wish to stop
    is one of all when they meet next: after callbacks were told something, and at the latest when losses are read.
    For a process on its own the clock counts, and nobody is met.

    Args:
        group: The processes; `None` is one on its own.
        callbacks: What is told, in any of the processes.

    Attributes:
        wish: Why this process wants the run to end, or `None`.
    """

    def __init__(self, group: Group | None, callbacks: Sequence[Callback]):
        self.wish: str | None = None
        self._group = group
        self._last_read = time.perf_counter()
        self._steps = self._proposed = 1
        self._are_due = False
        # What decides by steps alone ends a group's run behind the step where it would end that of one process.
        self._after_each_step = any(
            type(one).on_step is not Callback.on_step and not type(one).__module__.startswith(OURS) for one in callbacks
        )

    def are_due(self, pending: int) -> bool:
        """Returns whether what so many steps gave is to be read now."""
        if self._group is not None:
            return pending >= self._steps
        return pending >= RECORDS_AT_ONCE or time.perf_counter() - self._last_read > SECONDS_BETWEEN_READS

    def are_told(self, event: str) -> None:
        """Notes that callbacks are told something."""
        self._are_due = self._are_due or event != "on_step" or self._after_each_step

    def have_read(self, steps: int) -> None:
        """Notes that what so many steps gave was read."""
        now = time.perf_counter()
        if steps:
            rate = steps / max(now - self._last_read, 1e-9)
            self._proposed = max(1, min(RECORDS_AT_ONCE, int(rate * SECONDS_BETWEEN_READS)))
        self._last_read = now

    def agreed_reason(self) -> str | None:
        """Returns why the run ends, once all processes know; `None` if it goes on, or it is not time to meet.

        Raises:
            GroupError: Another process did not come.
        """
        if self._group is None or not self._are_due:
            return None
        self._are_due = False
        found = self._group.gather_objects((self.wish, self._proposed), label="tg.fit: whether to go on")
        self._steps = found[0][1]
        return next((wish for wish, _ in found if wish is not None), None)
