"""Explains the decisions of passes, for logs (`TG_LOG`) and for reports."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects import arith
from xdsl.dialects.builtin import LocationAttr, UnknownLoc
from xdsl.dialects.linalg.ops import YieldOp
from xdsl.ir import Block, SSAValue

from tensorgrad.dialects.buf import KernelOp, is_reduction
from tensorgrad.passes.analyses.kinds import contraction_of
from tensorgrad.passes.analyses.stages import Parts
from tensorgrad.passes.analyses.walking import operations
from tensorgrad.passes.labels import label_of, working_folder

MOST_NAMES = 4
"""The most names of ops in the description of a kernel."""

_UNNAMED = (arith.ConstantOp, YieldOp)


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
        """Returns the outline of a decomposed kernel."""
        kind = "pointwise" if kernel.is_pointwise else "reduction"
        if kernel.single is not None:
            kind = kernel.single.name.removeprefix("buf.")
        elif kernel.contraction is not None:
            kind = "contraction"
        text = _text(kind, [stage.body for stage in kernel.stages], kernel.grid)
        return Outline(text, kernel.location or UnknownLoc(), _names(kernel.outputs))

    @staticmethod
    def of_op(kernel: KernelOp) -> Outline:
        """Returns the outline of a kernel in the IR."""
        kind = "reduction" if any(map(is_reduction, kernel.stages)) else "pointwise"
        if kernel.single is not None:
            kind = kernel.single.name.removeprefix("buf.")
        elif contraction_of(kernel) is not None:
            kind = "contraction"
        text = _text(kind, [stage.body.block for stage in kernel.stages], kernel.extents)
        return Outline(text, kernel.location, _names(kernel.outputs))

    def __str__(self) -> str:
        return f"{label_of(self.location, working_folder()) or 'a kernel'} ({self.text})"


@dataclass(frozen=True)
class Pairing:
    """A decision of fusion about a kernel and another one.

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


@dataclass(frozen=True)
class Choice:
    """What a pass chose for a kernel, or for something else that it names.

    Attributes:
        subject: The kernel, or a name.
        text: What was chosen, and why.
    """

    subject: Outline | str
    text: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.text}"


Decision: TypeAlias = Pairing | Choice

_followed: ContextVar[list[Decision] | None] = ContextVar("followed", default=None)


@contextmanager
def following() -> Generator[list[Decision]]:
    """Yields the list of the decisions that passes take within the block, in order."""
    decisions: list[Decision] = []
    token = _followed.set(decisions)
    try:
        yield decisions
    finally:
        _followed.reset(token)


def is_followed(log: logging.Logger) -> bool:
    """Returns whether decisions are logged under a topic or collected."""
    return log.isEnabledFor(logging.DEBUG) or _followed.get() is not None


def tell(log: logging.Logger, decision: Decision) -> None:
    """Logs a decision, and adds it to the list of the block that follows them."""
    log.debug("%s", decision)
    decisions = _followed.get()
    if decisions is not None:
        decisions.append(decision)


def _text(kind: str, bodies: Sequence[Block], grid: Sequence[int]) -> str:
    computed = ", ".join(_computed(bodies))
    return f"{kind}{computed and f' of {computed}'} over {' x '.join(map(str, grid)) or 'one point'}"


def _names(buffers: Iterable[SSAValue]) -> tuple[str, ...]:
    return tuple(buffer.name_hint for buffer in buffers if buffer.name_hint is not None)


def _computed(bodies: Sequence[Block]) -> list[str]:
    """Returns the distinct names of a kernel's scalar ops, at most `MOST_NAMES` of them."""
    names: list[str] = []
    for body in bodies:
        for op in operations(body):
            name = op.name.partition(".")[2]
            if name in names or isinstance(op, _UNNAMED):
                continue
            if len(names) == MOST_NAMES:
                return [*names, "…"]  # the bodies of merged kernels are long
            names.append(name)
    return names
