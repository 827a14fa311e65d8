"""A group of one, for a process that no launcher started."""

from __future__ import annotations

from collections.abc import Sequence

from tensorgrad.runtime.group.group import Group
from tensorgrad.runtime.group.reductions import Array


class Alone(Group):
    """The group of one rank, without communication.

    Args:
        timeout: Checked as in any group, but nothing waits here.
    """

    def __init__(self, timeout: float | None = None):
        super().__init__(0, 1, timeout)

    def _all_to_all(
        self, send: Array, send_counts: Sequence[int], receive: Array, receive_counts: Sequence[int], what: str
    ) -> None:
        receive[:] = send

    def _all_gather(self, array: Array, counts: Sequence[int], what: str) -> None:
        pass

    def _broadcast(self, array: Array, root: int, what: str) -> None:
        pass
