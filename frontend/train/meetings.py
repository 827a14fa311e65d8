"""When step results are read, and when the processes of a group agree on whether to continue."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tensorgrad.runtime.group.group import Group
from tensorgrad.train.run import Callback

RECORDS_AT_ONCE, SECONDS_BETWEEN_READS = 32, 1.0
"""The number of steps, or the time in seconds, after which their results are read from the device."""

OURS = "tensorgrad."


class Meetings:
    """Synchronizes decisions that all processes of a group must make after the same step.

    Clocks differ between processes, and a signal or a file may be seen by one of them alone. So losses are read after a
    number of steps that the first process derives from its clock at each meeting, and a request to stop takes effect in
    all processes at the next meeting: after callbacks are called, and when losses are read at the latest. Without a
    group, the clock decides alone, and there are no meetings.

    Args:
        group: The processes; `None` is a single one.
        callbacks: The callbacks that are called, in any of the processes.

    Attributes:
        wish: Why this process wants the run to end, or `None`.
    """

    def __init__(self, group: Group | None, callbacks: Sequence[Callback]):
        self.wish: str | None = None
        self._group = group
        self._last_read = time.perf_counter()
        self._steps = self._proposed = 1
        self._are_due = False
        # Callbacks that decide by steps alone end a group's run at the same step as that of a single process.
        self._after_each_step = any(
            type(callback).on_step is not Callback.on_step and not type(callback).__module__.startswith(OURS)
            for callback in callbacks
        )

    def are_due(self, pending: int) -> bool:
        """Returns whether the results of `pending` steps should be read now."""
        if self._group is not None:
            return pending >= self._steps
        return pending >= RECORDS_AT_ONCE or time.perf_counter() - self._last_read > SECONDS_BETWEEN_READS

    def are_told(self, event: str) -> None:
        """Records that callbacks are called."""
        self._are_due = self._are_due or event != "on_step" or self._after_each_step

    def have_read(self, steps: int) -> None:
        """Records that the results of `steps` steps were read."""
        now = time.perf_counter()
        if steps:
            rate = steps / max(now - self._last_read, 1e-9)
            self._proposed = max(1, min(RECORDS_AT_ONCE, int(rate * SECONDS_BETWEEN_READS)))
        self._last_read = now

    def agreed_reason(self) -> str | None:
        """Returns why the run ends, once all processes know; `None` if it continues, or no meeting is due.

        Raises:
            GroupError: Another process did not join.
        """
        if self._group is None or not self._are_due:
            return None
        self._are_due = False
        proposals = self._group.gather_objects((self.wish, self._proposed), label="tg.fit: whether to go on")
        self._steps = proposals[0][1]
        return next((wish for wish, _ in proposals if wish is not None), None)
