"""Explains the decisions of fusion, for the log topic `fusion` and for reports."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import LocationAttr, UnknownLoc
from xdsl.dialects.linalg.ops import YieldOp

from tensorgrad.passes.analyses.stages import Parts
from tensorgrad.passes.analyses.walking import operations
from tensorgrad.passes.labels import label_of, working_folder

MOST_NAMES = 4
"""The most names of ops in the description of a kernel."""

_UNNAMED = (arith.ConstantOp, YieldOp)

_log = logging.getLogger("tensorgrad.fusion")


@dataclass(frozen=True)
class Outline:
    """A kernel as it was when something was decided about it.

    Attributes:
        text: Its kind, its ops and its grid.
        location: The location of its last line.
        results: The names of its results in the IR.
    """

    text: str
    location: LocationAttr
    results: tuple[str, ...]

    @staticmethod
    def of(kernel: Parts) -> Outline:
        """Returns the outline of a kernel."""
        kind = "pointwise" if kernel.is_pointwise else "reduction"
        if kernel.single is not None:
            kind = kernel.single.name.removeprefix("buf.")
        elif kernel.contraction is not None:
            kind = "contraction"
        grid = " x ".join(map(str, kernel.grid)) or "one point"
        computed = ", ".join(_computed(kernel))
        results = tuple(value.name_hint for value in kernel.outputs if value.name_hint is not None)
        return Outline(f"{kind}{computed and f' of {computed}'} over {grid}", kernel.location or UnknownLoc(), results)

    def __str__(self) -> str:
        return f"{label_of(self.location, working_folder()) or 'a kernel'} ({self.text})"


@dataclass(frozen=True)
class Decision:
    """A decision about a kernel and another one.

    Attributes:
        rule: The rule that merges them; "" if they stay apart.
        kernel: The kernel that is computed in the other one, or runs after it; if they stay apart, the producer.
        other: The other kernel; if they stay apart, the reader.
        reason: Why they stay apart; "" if they don't.
    """

    rule: str
    kernel: Outline
    other: Outline
    reason: str = ""

    def __str__(self) -> str:
        if self.rule:
            return f"{self.rule}: {self.kernel} into {self.other}"
        return f"{self.kernel} stays apart from {self.other}: {self.reason}"


_followed: ContextVar[list[Decision] | None] = ContextVar("followed", default=None)


@contextmanager
def following() -> Generator[list[Decision]]:
    """Yields the list of the decisions that fusion takes within the block, in order."""
    decisions: list[Decision] = []
    token = _followed.set(decisions)
    try:
        yield decisions
    finally:
        _followed.reset(token)


def is_followed() -> bool:
    """Returns whether decisions are logged or collected."""
    return _log.isEnabledFor(logging.DEBUG) or _followed.get() is not None


def fused(rule: str, first: Parts, second: Parts) -> None:
    """Tells that two kernels are merged."""
    if is_followed():
        _tell(Decision(rule, Outline.of(first), Outline.of(second)))


def stored(first: Parts, second: Parts, reason: str) -> None:
    """Tells why two kernels are not merged."""
    _tell(Decision("", Outline.of(first), Outline.of(second), reason))


def _tell(decision: Decision) -> None:
    _log.debug("%s", decision)
    decisions = _followed.get()
    if decisions is not None:
        decisions.append(decision)


def _computed(kernel: Parts) -> list[str]:
    """Returns the distinct names of a kernel's scalar ops, at most `MOST_NAMES` of them."""
    names: list[str] = []
    for stage in kernel.stages:
        for op in operations(stage.body):
            name = op.name.partition(".")[2]
            if name in names or isinstance(op, _UNNAMED):
                continue
            if len(names) == MOST_NAMES:
                return [*names, "…"]  # the bodies of merged kernels are long
            names.append(name)
    return names
