"""The data of a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

from tensorgrad.runtime.plan import covered_bytes
from tensorgrad.runtime.profile import Peaks

SourceLine: TypeAlias = tuple[int, int]
"""A line of the user's program: the index of its file, and the line number, from 1."""

NOWHERE: SourceLine = (-1, 0)
"""The location of ops that come from no line."""


@dataclass(frozen=True)
class SourceFile:
    """A file of the user's program.

    Attributes:
        path: Its path as in labels, without the folders above the working directory.
        text: Its contents.
    """

    path: str
    text: str


@dataclass(frozen=True)
class Level:
    """The IR at one level of lowering.

    Attributes:
        name: Its name, such as "traced" or "buf".
        title: A one-line description.
        text: The IR.
        places: The source location of each of its lines.
    """

    name: str
    title: str
    text: str
    places: tuple[SourceLine, ...]


@dataclass(frozen=True)
class Choice:
    """What a pass chose for a kernel, or for something else that it names.

    Attributes:
        about: The kind, ops and grid of the kernel, or the name.
        place: The kernel's line.
        run: The dispatch that the kernel became; -1 for none.
        text: What was chosen, and why.
    """

    about: str
    place: SourceLine
    run: int
    text: str


@dataclass(frozen=True)
class Decision:
    """A decision of a pass about a kernel and another one.

    Attributes:
        rule: The rule by which the first is merged into the other; "" if they stay apart.
        kernel: The kind, ops and grid of the first; if they stay apart, it is what the other one reads.
        place: Its line.
        run: The dispatch that it became a part of; -1 if nothing of it is left.
        other: The kind, ops and grid of the other one.
        other_place: Its line.
        other_run: The dispatch that it became a part of.
        reason: Why they stay apart; "" if they don't.
    """

    rule: str
    kernel: str
    place: SourceLine
    run: int
    other: str
    other_place: SourceLine
    other_run: int
    reason: str = ""


@dataclass(frozen=True)
class PassRun:
    """One run of a pass.

    Attributes:
        name: The pass with its options, in the syntax of `tg-opt -p`.
        seconds: How long it took.
        ops: The number of ops after it.
        kernels: The number of kernels after it.
        diff: What it changed, as a unified diff of the IR; empty if nothing.
        decisions: Which kernels it merged, which not, and why, if it tells.
        choices: What it chose otherwise, and why.
    """

    name: str
    seconds: float
    ops: int
    kernels: int
    diff: str
    decisions: tuple[Decision, ...] = ()
    choices: tuple[Choice, ...] = ()


@dataclass(frozen=True)
class Value:
    """A buffer of a step.

    Attributes:
        name: The tensor's name, or its name in the IR.
        role: "parameter", "state", "input", "scalar", "output", "constant", "counter", "workspace", or "branch"
            for the value that selects which of two branches runs.
        type: Its dtype and shape.
        arena: The arena that contains it.
        offset: Its offset there, in bytes.
        bytes: Its size.
        first: The index of the first dispatch that uses it; -1 for none.
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
        decision: The index of the value that selects which of them runs.
        holds: Whether it is the branch for a true predicate.
        around: The enclosing branch of both; `None` for none.
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
class Stage:
    """A stage of a dispatch, at the level `buf`: one nest of loops over its grid.

    Attributes:
        kind: "pointwise", "reduction", "contraction", or the op that is all of its kernel, such as "attention".
        extents: Of its loops, those of the grid first.
        ops: The distinct ops of its body, in order, such as "mulf" and "addf".
        place: The line that it is from.
        module: The path of the module whose call it is from, or "".
    """

    kind: str
    extents: tuple[int, ...]
    ops: tuple[str, ...]
    place: SourceLine
    module: str


@dataclass(frozen=True)
class PlannedStep:
    """A dispatch or copy of a step.

    Attributes:
        kernel: The kernel's index; -1 for a copy.
        label: The line that it is from.
        places: All lines that its ops are from.
        workgroups: The number of its workgroups.
        times: How often a step runs it.
        reads: The indices of the values that it reads.
        writes: The indices of the values that it writes.
        bytes: The bytes that one run of it moves, each counted once.
        flops: The operations on floats of one run, each function of a number counted as one.
        seconds: The time of its runs in a step, if measured.
        branch: The branch that it is in; `None` if it always runs.
        stages: What it computes; none for a copy or a program from a file.
        module: The path of the module with most of its work; "" for none.
        grid: The extents of its grid; of kernels that share a dispatch, those of the first.
        schedules: How its kernels are mapped to threads: of each an archetype and its numbers, as in the IR.
        estimate: What its memory traffic and its arithmetic cost in one run, in the units of the machine's model, of
            which the larger bounds it; zeros if the target is not known.
    """

    kernel: int
    label: str
    places: tuple[SourceLine, ...]
    workgroups: tuple[int, ...]
    times: int
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    bytes: int = 0
    flops: int = 0
    seconds: float | None = None
    branch: Branch | None = None
    stages: tuple[Stage, ...] = ()
    module: str = ""
    grid: tuple[int, ...] = ()
    schedules: tuple[str, ...] = ()
    estimate: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class KernelCode:
    """A kernel as passed to its device.

    Attributes:
        name: Its entry point.
        language: "wgsl" or "llvm".
        code: Its source text.
        places: The lines that its ops are from.
        lines: For each line of the code: the lines that its ops are from, that of the statement itself first; none for
            a program from a file.
    """

    name: str
    language: str
    code: str
    places: tuple[SourceLine, ...]
    lines: tuple[tuple[SourceLine, ...], ...] = ()


@dataclass(frozen=True)
class Facts:
    """The data of a report about one program.

    Attributes:
        name: The compiled function's name.
        device: A description of its device, or of the target that it was compiled for.
        versions: Of this package and xDSL.
        statistics: The compiler's counters.
        files: The user's source, as far as it can be read.
        levels: The IR, from the top down; none for a program from a file.
        passes: The pass runs, in order.
        kernels: The kernels' code.
        runs: The dispatches, in order.
        values: The buffers that they use.
        arenas: The size of each allocation, by name.
        step_seconds: The time of a step with every kernel measured, which is slower than other steps; or None.
        peaks: The bytes and the operations per second that kernels reach on the device, if measured: its roofline.
        script: The program that compiled it, as in labels, if it is a file; `tg replay` runs it.
    """

    name: str
    device: str
    versions: Mapping[str, str]
    statistics: Mapping[str, Any]
    files: tuple[SourceFile, ...] = ()
    levels: tuple[Level, ...] = ()
    passes: tuple[PassRun, ...] = ()
    kernels: tuple[KernelCode, ...] = ()
    runs: tuple[PlannedStep, ...] = ()
    values: tuple[Value, ...] = ()
    arenas: Mapping[str, int] = field(default_factory=dict[str, int])
    step_seconds: float | None = None
    peaks: Peaks | None = None
    script: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Returns everything in the form of JSON."""
        return asdict(self)

    @property
    def dispatches(self) -> int:
        """The number of dispatches of a step; those in loops count once per iteration."""
        return sum(run.times for run in self.runs)

    @property
    def bytes_moved(self) -> int:
        """The bytes that a step moves."""
        return sum(run.times * run.bytes for run in self.runs)

    def live_bytes(self) -> list[int]:
        """Returns the number of live bytes of the workspace at each dispatch; where buffers overlap, each byte once."""
        ranges: list[list[tuple[str, int, int]]] = [[] for _ in self.runs]
        for index, value in enumerate(self.values):
            if value.role == "workspace" and value.first >= 0:
                arena = value.arena or f"%{index}"  # without a memory plan each buffer has memory of its own
                for number in range(value.first, value.last + 1):
                    ranges[number].append((arena, value.offset, value.offset + value.bytes))
        return [covered_bytes(live) for live in ranges]
