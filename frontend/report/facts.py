"""What a report shows, as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

Place: TypeAlias = tuple[int, int]
"""A line of the user's program: the number of its file, and the line, from 1."""

NOWHERE: Place = (-1, 0)
"""The place of what is from no line."""


@dataclass(frozen=True)
class SourceFile:
    """A file of the user's program.

    Attributes:
        path: As labels have it: without the folders above the working one.
        text: What is in it.
    """

    path: str
    text: str


@dataclass(frozen=True)
class Level:
    """The IR at one point on the way down.

    Attributes:
        name: Such as "traced" or "buf".
        title: What it is, in a line.
        text: The IR.
        places: Where each of its lines is from.
    """

    name: str
    title: str
    text: str
    places: tuple[Place, ...]


@dataclass(frozen=True)
class PassRun:
    """One pass.

    Attributes:
        name: The pass with its options, as `tg-opt -p` takes it.
        seconds: What it took.
        ops: How many ops it left.
        kernels: How many kernels it left.
        diff: What it changed, as a unified diff of the IR; empty if nothing.
    """

    name: str
    seconds: float
    ops: int
    kernels: int
    diff: str


@dataclass(frozen=True)
class Value:
    """A buffer of a step.

    Attributes:
        name: The tensor's name, or what the IR calls it.
        role: "parameter", "state", "input", "scalar", "output", "constant", "counter", "workspace", or "branch"
            for what says which of two branches runs.
        type: Its dtype and shape.
        arena: The allocation that it lies in.
        offset: Where it begins there, in bytes.
        bytes: Its size.
        first: The first dispatch that uses it, by its number; -1 for none.
        last: The last one.
    """

    name: str
    role: str
    type: str
    arena: str
    offset: int
    bytes: int
    first: int = -1
    last: int = -1


@dataclass(frozen=True)
class Branch:
    """One of two branches, of which a step runs one.

    Attributes:
        decision: The number of the value that says which of them runs.
        holds: Whether it is the branch that runs where the predicate holds.
        around: The branch that both are in; `None` for none.
    """

    decision: int
    holds: bool
    around: Branch | None = None

    def excludes(self, other: Branch | None) -> bool:
        """Returns whether a step that runs this branch doesn't run another."""
        mine, others = dict(self._decisions()), dict(() if other is None else other._decisions())
        return any(others.get(decision, holds) != holds for decision, holds in mine.items())

    def _decisions(self) -> Iterator[tuple[int, bool]]:
        branch: Branch | None = self
        while branch is not None:
            yield branch.decision, branch.holds
            branch = branch.around


@dataclass(frozen=True)
class Run:
    """A dispatch or copy of a step.

    Attributes:
        kernel: The kernel's number; -1 for a copy.
        label: The line that it is from.
        places: All lines that its ops are from.
        workgroups: How many workgroups it has.
        times: How often a step runs it.
        reads: The numbers of the values that it reads.
        writes: The numbers of the values that it writes.
        bytes: What one run of it moves, each byte once.
        flops: The operations on floats of one run, each function of a number counted as one.
        seconds: What its runs in a step took, where that was measured.
        branch: The branch of a condition that it is in; `None` where it always runs.
    """

    kernel: int
    label: str
    places: tuple[Place, ...]
    workgroups: tuple[int, ...]
    times: int
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    bytes: int = 0
    flops: int = 0
    seconds: float | None = None
    branch: Branch | None = None


@dataclass(frozen=True)
class KernelCode:
    """A kernel as its device gets it.

    Attributes:
        name: Its entry point.
        language: "wgsl" or "llvm".
        code: Its text.
        places: The lines that its ops are from.
        lines: For each line of the code: the lines that its ops are from, that of the statement itself first; none for
            a program from a file.
    """

    name: str
    language: str
    code: str
    places: tuple[Place, ...]
    lines: tuple[tuple[Place, ...], ...] = ()


@dataclass(frozen=True)
class Facts:
    """What a report shows of one program.

    Attributes:
        name: The function that was compiled.
        device: Where it runs, or what it was compiled for.
        versions: Of this package and xDSL.
        statistics: What the compiler counted.
        files: The user's source, as far as it can be read.
        levels: The IR, from the top down; none for a program from a file.
        passes: What ran, in order.
        kernels: The kernels' code.
        runs: The dispatches, in order.
        values: The buffers that they use.
        arenas: The size of each allocation, by name.
        step_seconds: What a step took in which each kernel was measured, which is more than others take; or None.
    """

    name: str
    device: str
    versions: Mapping[str, str]
    statistics: Mapping[str, Any]
    files: tuple[SourceFile, ...] = ()
    levels: tuple[Level, ...] = ()
    passes: tuple[PassRun, ...] = ()
    kernels: tuple[KernelCode, ...] = ()
    runs: tuple[Run, ...] = ()
    values: tuple[Value, ...] = ()
    arenas: Mapping[str, int] = field(default_factory=dict[str, int])
    step_seconds: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns everything as JSON has it."""
        return asdict(self)

    @property
    def dispatches(self) -> int:
        """How many dispatches a step has, those in loops as often as they run."""
        return sum(one.times for one in self.runs)

    @property
    def bytes_moved(self) -> int:
        """What a step moves."""
        return sum(one.times * one.bytes for one in self.runs)

    def live_bytes(self) -> list[int]:
        """Returns how many bytes of the workspace hold values that are needed, at each dispatch."""
        found = [0] * len(self.runs)
        for value in self.values:
            if value.role == "workspace" and value.first >= 0:
                for number in range(value.first, value.last + 1):
                    found[number] += value.bytes
        return found
