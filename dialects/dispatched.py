"""What the schedules of all archetypes have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tensorgrad.dialects.settings import Extents as Extents


@dataclass(frozen=True, kw_only=True)
class Dispatched:
    """The fields of every schedule.

    Attributes:
        groups: The dispatch's extents in workgroups.
    """

    archetype: ClassVar[str]
    single: ClassVar[str | None] = None
    """The op that the schedule is for; `None` if it is for stages."""

    groups: Extents

    def check_reduction(self, own: Sequence[int]) -> None:
        """Checks nothing: what a schedule says of a reduction fits any loops, unless its class says otherwise."""
