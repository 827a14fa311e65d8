"""Certifies memory plans: a planned function computes the same results as before, whatever its kernels compute.

Both functions run symbolically. A kernel is an uninterpreted function, identified by its code: what it writes is a
symbol for that code and everything that it reads. A plan is correct if the results are the same symbols before and
after, and if no kernel overwrites data that another point of its own grid, or another kernel of its dispatch, still
reads. Shares no code with the planner.

The kernels of a dispatch run concurrently on a GPU, but mostly in sequence on a software adapter, where testing values
does not reveal that one of them uses what another writes.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from typing import TypeAlias, cast

from xdsl.dialects import memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.printer import Printer

from tensorgrad.dialects import buf
from tensorgrad.dialects.buf_control import BranchOp, ChooseOp
from tensorgrad.dialects.locations import line_in
from tensorgrad.dialects.signature import Role
from tensorgrad.interpreters.buffers import (
    DESTINATIONS,
    INPUTS,
    UPDATED,
    packs_of,
    slots_of,
    without_packs,
    works_in_place,
)
from tensorgrad.interpreters.control import BoundRun, Storage, Unrolling
from tensorgrad.interpreters.functions import function_of
from tensorgrad.runtime.errors import NumericsError

Contents: TypeAlias = tuple[tuple[int, int, int, int], ...]
"""The contents of a range: the begin and end within it, the symbol, and the offset in the symbol's own bytes."""

DECISIONS = ("1", "0", "10", "01", "110", "001")
"""Outcomes of predicates, repeated cyclically: each branch alone, and both in some orders."""


@dataclass(frozen=True)
class _Segment:
    """A byte range written by one run.

    Attributes:
        start: The first byte.
        end: One past the last byte.
        symbol: The symbol that was written.
        offset: The offset in the symbol's own bytes at which it begins.
        writer: The run that wrote it; `None` for the caller.
        value: The buffer through which it was written.
    """

    start: int
    end: int
    symbol: int
    offset: int
    writer: BoundRun | None
    value: SSAValue | int | None


class _Memory:
    """The bytes of every arena as sorted segments; bytes that were never written are in none."""

    def __init__(self) -> None:
        self._arenas: dict[SSAValue, list[_Segment]] = {}

    def segments(self, place: Storage) -> list[_Segment]:
        """Returns the segments of a range, clipped to it."""
        arena = self._arenas.get(place.arena, [])
        first, last = _touched(arena, place.start, place.end)
        return [_cut(segment, place.start, place.end) for segment in arena[first:last]]

    def contents(self, place: Storage) -> Contents:
        """Returns the contents of a range."""
        return tuple(_relative(segment, place) for segment in self.segments(place))

    def write(self, place: Storage, segments: Iterable[_Segment]) -> None:
        """Replaces a range's contents by these segments."""
        arena = self._arenas.setdefault(place.arena, [])
        first, last = _touched(arena, place.start, place.end)
        rest = [_cut(segment, 0, place.start) for segment in arena[first:last] if segment.start < place.start]
        rest += segments
        rest += [_cut(segment, place.end, segment.end) for segment in arena[first:last] if segment.end > place.end]
        arena[first:last] = rest


def _touched(segments: Sequence[_Segment], start: int, end: int) -> tuple[int, int]:
    """Returns the index range of the segments that overlap a byte range."""
    first = bisect_right(segments, start, key=lambda segment: segment.end)
    return first, max(first, bisect_left(segments, end, key=lambda segment: segment.start))


def _relative(segment: _Segment, place: Storage) -> tuple[int, int, int, int]:
    return segment.start - place.start, segment.end - place.start, segment.symbol, segment.offset


def _cut(segment: _Segment, start: int, end: int) -> _Segment:
    first, last = max(segment.start, start), min(segment.end, end)
    return replace(segment, start=first, end=last, offset=segment.offset + first - segment.start)


class _Symbols:
    """Interns symbols: two are equal if their code and everything that it reads are."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        self._codes: dict[buf.KernelOp, str] = {}

    def number(self, key: object) -> int:
        """Returns the number of a symbol."""
        return self._numbers.setdefault(key, len(self._numbers) + 1)

    def code(self, op: buf.KernelOp) -> str:
        """Returns a kernel's computation as text, independent of its buffers."""
        if op not in self._codes:
            stream = StringIO()
            stream.write(f"{op.location} {op.extents}")
            Printer(stream=stream).print_region(op.body)
            self._codes[op] = stream.getvalue()
        return self._codes[op]


@dataclass(frozen=True)
class _Step:
    """A run of a kernel.

    Attributes:
        run: The run.
        code: The kernel's computation.
        reads: The contents that it read, by operand.
        segments: The segments that it read.
    """

    run: BoundRun
    code: str
    reads: tuple[tuple[Contents, ...], ...]
    segments: tuple[tuple[list[_Segment], ...], ...]


class _Execution:
    """Runs a function symbolically.

    Args:
        module: The module that holds it.
        name: Its name; by default the only public function.
        symbols: The symbols shared by both functions.
    """

    def __init__(self, module: ModuleOp, name: str | None, symbols: _Symbols):
        self._module, self._symbols = module, symbols
        function = function_of(module, name)
        self._block = function.body.block
        self._slots = slots_of(function)
        self._packs = packs_of(self._block)
        self.memory = _Memory()
        self.steps: list[_Step] = []
        self.predicates: list[Contents] = []
        self._beside: list[BoundRun] = []
        """The kernels of the current dispatch so far."""
        self._defined = set[SSAValue | int]()
        """The buffers that were written."""

    def run(self, decisions: str) -> None:
        """Runs the function.

        Args:
            decisions: Outcomes of predicates, repeated cyclically, with 1 for true. Equal predicates have equal
                outcomes.

        Raises:
            NumericsError: A kernel overwrites data that another point of it, or another kernel of its dispatch, may
                still read; or it accesses bytes outside of an arena.
        """
        self.memory, self.steps, self.predicates, self._beside = _Memory(), [], [], []
        self._defined = set()
        for value, slot in self._slots.items():
            if slot.role in INPUTS:
                self._give(Storage.of(value), f"{slot.role} {slot.name}")
        env = {value: Storage.of(value) for value in self._slots}
        rest, known = itertools.cycle(decisions), dict[Contents, bool]()

        def decide(predicate: Storage) -> bool:
            contents = self.memory.contents(predicate)
            self.predicates.append(contents)
            return known[contents] if contents in known else known.setdefault(contents, next(rest) == "1")

        Unrolling(self._module, self._step, decide).run(self._block, env)

    def results(self) -> dict[str, Contents]:
        """Returns the contents of outputs, gradients and updated values, by `role/name`."""
        results: dict[str, Contents] = {}
        for value, slot in self._slots.items():
            if slot.role in (*DESTINATIONS, *UPDATED):
                role = Role.UPDATE if slot.role in UPDATED else slot.role
                contents = self.memory.contents(Storage.of(value))
                if slot.role == Role.UPDATE or f"{role}/{slot.name}" not in results:
                    results[f"{role}/{slot.name}"] = contents
        return results

    def _give(self, place: Storage, what: str) -> None:
        symbol = self._symbols.number(what)
        self._write(place, [_Segment(place.start, place.end, symbol, 0, None, place.value)])

    def _write(self, place: Storage, segments: Iterable[_Segment]) -> None:
        self.memory.write(place, segments)
        if place.value is not None:
            self._defined.add(place.value)

    def _check_holds(self, run: BoundRun) -> None:
        """Checks that a run reads what was last written to each of its buffers.

        Raises:
            NumericsError: Another buffer has overwritten a part of it since.
        """
        for number, place in enumerate(run.reads):
            if place.value not in self._defined:
                continue
            others = [s for s in self.memory.segments(place) if s.value != place.value]
            if others:
                there = " and ".join(dict.fromkeys(_named(segment.writer) for segment in others))
                raise NumericsError(
                    f"{_named(run)} reads operand {number} from memory that no longer holds it: {there} wrote there, "
                    f"in bytes {place.start} to {place.end} of the {_arena(place)}, as another buffer"
                )

    def _step(self, run: BoundRun) -> None:
        for place in run.operands:
            _check_bounds(run, place)
        self._join(run)
        self._check_holds(run)
        if isinstance(run.op, memref.CopyOp):
            source, target = run.operands
            moved = target.start - source.start
            copies = [
                replace(s, start=s.start + moved, end=s.end + moved, value=target.value)
                for s in self.memory.segments(source)
            ]
            self._write(target, copies)
            return
        if not isinstance(run.op, buf.KernelOp):
            raise NumericsError(f"plans are certified of kernels, before `tile` writes them out: {_named(run)}")
        _check_overlaps(run, run.op)
        code = self._symbols.code(run.op)
        parts = [self._parts(place) for place in run.reads]
        segments_of_parts = tuple(tuple(map(self.memory.segments, places)) for places in parts)
        reads = tuple(tuple(map(self.memory.contents, places)) for places in parts)
        self.steps.append(_Step(run, code, reads, segments_of_parts))
        for number, place in enumerate(run.writes):
            symbol = self._symbols.number((code, number, reads))
            for part in without_packs([place], self._packs):
                offset = part.start - place.start
                self.memory.write(part, [_Segment(part.start, part.end, symbol, offset, run, place.value)])
            if place.value is not None:
                self._defined.add(place.value)

    def _join(self, run: BoundRun) -> None:
        """Adds a kernel to the current dispatch, or starts a new dispatch.

        Raises:
            NumericsError: One kernel of the dispatch writes what another one uses.
        """
        first = self._beside[0].op if self._beside else None
        if not _is_beside(run.op, first) or any(other.op is run.op for other in self._beside):
            self._beside = []
        for other in self._beside:
            for writer, user in ((run, other), (other, run)):
                written = [part for place in writer.writes for part in self._parts(place)]
                used = [part for place in user.operands for part in self._parts(place)]
                if any(place.overlaps(part) for place in written for part in used):
                    raise NumericsError(f"{_named(writer)} writes what {_named(user)} uses in the same dispatch")
        self._beside.append(run)

    def _parts(self, place: Storage) -> list[Storage]:
        """Returns a buffer, or the parts of a row, including the padding between its buffers."""
        return sorted(without_packs([place], self._packs), key=lambda part: part.start)


def _is_beside(op: Operation, other: Operation | None) -> bool:
    """Returns whether two kernels belong to one dispatch."""
    if not (isinstance(op, buf.KernelOp) and isinstance(other, buf.KernelOp)) or op.dispatch_number is None:
        return False
    return op.dispatch_number == other.dispatch_number and op.parent is other.parent


def check_dispatches(module: ModuleOp, function: str | None = None) -> None:
    """Checks that no kernel uses what another kernel of its dispatch writes.

    Args:
        module: A `buf` module, with a memory plan or without.
        function: The function's name; by default the only public one.

    Raises:
        NumericsError: One does; names both by their lines.
        ExecutionError: There is no such function, or it contains an unsupported op.
    """
    if any(isinstance(op, buf.KernelOp) and op.dispatch_number is not None for op in module.walk()):
        execution = _Execution(module, function, _Symbols())
        for decisions in DECISIONS[:2]:  # kernels of different branches share no dispatch
            execution.run(decisions)


def check_plan(module: ModuleOp, function: str | None = None) -> None:
    """Checks a memory plan by itself: each kernel reads what was last written to its buffers, within the arenas.

    Args:
        module: A `buf` module with arenas, before its kernels are lowered.
        function: The function's name; by default the only public one.

    Raises:
        NumericsError: A kernel reads a buffer of which another one has overwritten a part, overwrites what other points
            of its own, or other kernels of its dispatch, still read, or leaves its arena.
        ExecutionError: There is no such function, or it contains an unsupported op.
    """
    branches = any(isinstance(op, ChooseOp | BranchOp) for op in module.walk())
    execution = _Execution(module, function, _Symbols())
    for decisions in DECISIONS if branches else DECISIONS[:1]:
        execution.run(decisions)


def certify_plan(before: ModuleOp, after: ModuleOp, function: str | None = None) -> None:
    """Checks that a function with a memory plan computes the same as without.

    Args:
        before: The module before `plan-memory`.
        after: The module with arenas.
        function: The function's name; by default the only public one.

    Raises:
        NumericsError: A kernel reads data that was overwritten, overwrites data that other points of its own still
            read, or leaves its arena; or a result differs. Names the kernel's line, the buffer, and the writer.
        ExecutionError: There is no such function, or it contains an unsupported op.
    """
    symbols = _Symbols()
    branches = any(isinstance(op, ChooseOp | BranchOp) for op in before.walk())
    first, second = (_Execution(module, function, symbols) for module in (before, after))
    for decisions in DECISIONS if branches else DECISIONS[:1]:
        first.run(decisions)
        second.run(decisions)
        _compare(first, second)


def _compare(first: _Execution, second: _Execution) -> None:
    known = Counter((step.code, step.reads) for step in first.steps)
    for step in second.steps:
        if not known[step.code, step.reads]:
            raise NumericsError(_wrong_read(step, first.steps))
    if first.predicates != second.predicates:
        raise NumericsError("the predicate of a branch is overwritten before it is read")
    expected, actual = first.results(), second.results()
    for key, contents in expected.items():
        if actual.get(key) != contents:
            raise NumericsError(f"{key} ends with a different value than without a memory plan")


def _wrong_read(step: _Step, before: Sequence[_Step]) -> str:
    """Returns an error message that names the operand whose value was overwritten before the kernel reads it."""
    candidates = [earlier for earlier in before if earlier.code == step.code]
    if not candidates:
        return f"{_named(step.run)} is not in the function without a memory plan"
    nearest = max(candidates, key=lambda earlier: sum(map(tuple.__eq__, earlier.reads, step.reads)))
    number = next(i for i, (read, own) in enumerate(zip(nearest.reads, step.reads, strict=True)) if read != own)
    known = {symbol for contents in nearest.reads[number] for _, _, symbol, _ in contents}
    strange = [read.writer for part in step.segments[number] for read in part if read.symbol not in known]
    there = " and ".join(dict.fromkeys(map(_named, strange))) or "nothing"
    return f"{_named(step.run)} reads operand {number} from memory that no longer holds it: {there} wrote there"


def _check_bounds(run: BoundRun, place: Storage) -> None:
    size = buf.buffer_bytes(cast(buf.Buffer, place.arena.type))
    if not 0 <= place.start <= place.end <= size:
        raise NumericsError(
            f"{_named(run)} uses bytes {place.start} to {place.end}, out of bounds for an arena of {size} bytes"
        )


def _check_overlaps(run: BoundRun, kernel: buf.KernelOp) -> None:
    """Checks that a kernel's results overlap nothing that other points of its grid read or write."""
    for (number, target), (other, second) in itertools.combinations(enumerate(run.writes), 2):
        if target.overlaps(second):
            raise NumericsError(f"{_named(run)} writes its results {number} and {other} to the same bytes")
    for (index, source), (number, target) in itertools.product(enumerate(run.reads), enumerate(run.writes)):
        if not source.overlaps(target):
            continue
        arguments = kernel.input_arguments[index], kernel.output_arguments[number]
        if not (source.equals(target) and works_in_place(kernel, *arguments)):
            raise NumericsError(f"{_named(run)} writes result {number} over operand {index}, which it still reads")


def _arena(place: Storage) -> str:
    owner = place.arena.owner
    return f"arena '{owner.label.data}'" if isinstance(owner, buf.ArenaOp) else "buffer"


def _named(run: BoundRun | None) -> str:
    """Returns a kernel's name by its line, or "the caller"."""
    if run is None:
        return "the caller"
    where = line_in(run.op.location)
    line = "" if where is None else f" at {where.filename.data}:{where.line.data}"
    return f"the {'kernel' if isinstance(run.op, buf.KernelOp) else 'copy'}{line}"
