"""The number of micro-batches that a training has run, counted where its state changes."""

from __future__ import annotations

from collections.abc import Iterable

from tensorgrad.runtime.counting import RunCount


class CallCount:
    """The number of calls of `step`, over all programs that run them.

    Each executable counts its runs as one with the change of the state. What is stored here is one tuple, which is
    replaced as a whole: wherever an exception arrives, the number is that before or after.

    Args:
        runs: The counts of the executables.
    """

    def __init__(self, runs: Iterable[RunCount]):
        self._origin_and_runs: tuple[int, tuple[RunCount, ...]] = (0, tuple(runs))
        self.number = 0

    @property
    def number(self) -> int:
        """The number of calls."""
        origin, runs = self._origin_and_runs
        return origin + sum(count.number for count in runs)

    @number.setter
    def number(self, number: int) -> None:
        origin, runs = self._origin_and_runs
        self._origin_and_runs = (origin + number - self.number, runs)

    def add(self, runs: Iterable[RunCount]) -> None:
        """Counts further executables from now on."""
        origin, known = self._origin_and_runs
        new = tuple(runs)
        self._origin_and_runs = (origin - sum(count.number for count in new), (*known, *new))

    def retire(self, runs: Iterable[RunCount]) -> None:
        """Stops to count executables, which don't run any more; what they have run remains counted."""
        origin, known = self._origin_and_runs
        gone = {id(count): count for count in runs}
        remaining = tuple(count for count in known if id(count) not in gone)
        self._origin_and_runs = (origin + sum(count.number for count in gone.values()), remaining)
