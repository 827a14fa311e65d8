"""Groups whose ranks are threads of one process: for tests, and to try a program of many ranks in one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tensorgrad.runtime.errors import GroupError, InputError
from tensorgrad.runtime.group.group import Group, timeout_seconds
from tensorgrad.runtime.group.reductions import Array

Result = TypeVar("Result")

_own = threading.local()


class _Meeting:
    """Where the ranks of a simulated group meet: each brings something, and all go on with what everyone brought."""

    def __init__(self, size: int, timeout: float):
        self.size = size
        self.timeout = timeout
        self.changed = threading.Condition()
        self.brought: dict[int, tuple[str, Any]] = {}
        self.taken: list[tuple[str, Any]] = []
        self.round = 0
        self.ended: dict[int, str] = {}
        self.abandoned: dict[int, str] = {}
        self.failed: tuple[int, BaseException] | None = None

    def meet(self, rank: int, what: str, value: Any) -> list[Any]:
        """Returns what all ranks brought, in their order.

        Raises:
            GroupError: Another rank ended, is in another call, or did not come in time.
        """
        with self.changed:
            present = self.round
            self.brought[rank] = (what, value)
            if len(self.brought) == self.size:
                self.taken = [self.brought[one] for one in range(self.size)]
                self.brought = {}
                self.round += 1
                self.changed.notify_all()
            start = time.monotonic()
            self.changed.wait_for(lambda: self.round > present or bool(self.ended or self.abandoned), self.timeout)
            if self.round == present:
                self._give_up(rank, what, time.monotonic() - start)
            others = [(one, text) for one, (text, _) in enumerate(self.taken) if text != what]
            if others:
                raise GroupError(f"rank {rank} of {self.size} is in {what}, but rank {others[0][0]} in {others[0][1]}")
            return [value for _, value in self.taken]

    def _give_up(self, rank: int, what: str, waited: float) -> None:
        gone = {**self.abandoned, **self.ended}
        if rank in gone:
            raise GroupError(f"rank {rank} of {self.size}: {what}: {gone[rank]}")
        if gone:
            other, reason = next(iter(gone.items()))
            raise GroupError(f"rank {rank} of {self.size} waited in {what}, but rank {other} {reason}")
        missing = ", ".join(str(one) for one in range(self.size) if one not in self.brought)
        raise GroupError(f"rank {rank} of {self.size} waited {waited:g} s in {what}; not there: {missing}")

    def abandon(self, rank: int, reason: str) -> None:
        """Says that a rank comes to no further call."""
        with self.changed:
            self.abandoned[rank] = f"gave up: {reason}"
            self.changed.notify_all()

    def leave(self, rank: int, error: BaseException | None) -> None:
        """Says that a rank is at its end, so that nobody waits for it any more."""
        with self.changed:
            if error is not None and self.failed is None:
                self.failed = (rank, error)
            self.ended[rank] = "returned" if error is None else f"ended by {type(error).__name__}: {error}"
            self.changed.notify_all()


class Simulated(Group):
    """One rank of a group of threads; `simulate` makes them."""

    def __init__(self, rank: int, meeting: _Meeting):
        super().__init__(rank, meeting.size, meeting.timeout)
        self._meeting = meeting

    def abandon(self, reason: str) -> None:
        """See `Group`; the other ranks are told."""
        super().abandon(reason)
        self._meeting.abandon(self.rank, reason)

    def _all_to_all(
        self, send: Array, send_counts: Sequence[int], receive: Array, receive_counts: Sequence[int], what: str
    ) -> None:
        start = 0
        for (sent, counts), count in zip(self._meet(what, (send, send_counts)), receive_counts, strict=True):
            first = sum(counts[: self.rank])
            receive[start : start + count] = sent[first : first + count]
            start += count
        self._meet(what, None)

    def _all_gather(self, array: Array, counts: Sequence[int], what: str) -> None:
        start = 0
        for rank, (sent, count) in enumerate(zip(self._meet(what, array), counts, strict=True)):
            if rank != self.rank:
                array[start : start + count] = sent[start : start + count]
            start += count
        self._meet(what, None)

    def _broadcast(self, array: Array, root: int, what: str) -> None:
        sent = self._meet(what, array)[root]
        if self.rank != root:
            array[:] = sent
        self._meet(what, None)

    def _meet(self, what: str, value: Any) -> list[Any]:
        return self._meeting.meet(self.rank, what, value)


def simulate(size: int, function: Callable[[Group], Result], timeout: float | None = None) -> list[Result]:
    """Runs a function as every rank of a group at once, each in a thread, and returns the results in their order.

    Args:
        size: How many ranks.
        function: Takes its rank's group. `tg.distributed` finds the same group in its thread.
        timeout: Seconds that a rank waits for the others; by default `TG_GROUP_TIMEOUT`, or 300.

    Raises:
        InputError: The size is no positive integer.
        Exception: What the first rank raised that did; the others got a `GroupError` by it.
    """
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise InputError(f"size must be a positive integer, got {size!r}")
    meeting = _Meeting(size, timeout_seconds(timeout))
    results: dict[int, Result] = {}

    def run(rank: int) -> None:
        _own.group = Simulated(rank, meeting)
        try:
            results[rank] = function(_own.group)
        except BaseException as error:  # whatever ends a rank is told to the others, and raised below
            meeting.leave(rank, error)
        else:
            meeting.leave(rank, None)

    # A rank that never ends keeps no one from going on once another has failed.
    threads = [threading.Thread(target=run, args=(rank,), name=f"rank {rank}", daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    with meeting.changed:
        meeting.changed.wait_for(lambda: len(meeting.ended) == size or meeting.failed is not None)
        meeting.changed.wait_for(lambda: len(meeting.ended) == size, meeting.timeout)
    if meeting.failed is not None:
        raise meeting.failed[1]
    return [results[rank] for rank in range(size)]


def own_group() -> Group | None:
    """Returns the simulated group whose rank the calling thread is, or nothing."""
    return getattr(_own, "group", None)
