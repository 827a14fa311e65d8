"""Memory plans as facts for the solver: which value owns a byte at what time.

A plan is judged by the dataflow of the function that it was made for: there, each read names the writes that it reads.
In the planned function each of these values has a home, a range of bytes from its write to its last read. The solver is
asked for a byte and a time with two owners. Time goes in half steps: a dispatch reads and writes in both, since its
points run in any order; but if the solver shows that no point of a kernel overwrites what another one reads, its
reads end in the first half and its writes begin in the second.

Shares with `checks.certify`, which compares what both functions compute, only the walk through loops and branches.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import cycle, product
from math import prod
from typing import Any, TypeAlias, cast

from symbolic import Refuted, limited, z3
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.dialects.memref import CopyOp, LoadOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineMap

from tensorgrad.dialects import buf
from tensorgrad.dialects.signature import Role
from tensorgrad.interpreters.buffers import DESTINATIONS, INPUTS, UPDATED, slots_of
from tensorgrad.interpreters.control import BoundRun, Storage, Unrolling, decided
from tensorgrad.interpreters.functions import function_of

NUMBER = "proof.number"
"""The attribute that numbers the kernels of a function before it is planned; they keep it."""
ADDED = "added"
"""The number of what the plan added: copies of updates that are not in place."""
ZEROS = "0 between the parts of a row"
Key: TypeAlias = tuple[object, int]
"""The number of an op, and how often it ran before."""


@dataclass(frozen=True)
class Run:
    """One run of a kernel or copy, or the reading of a branch's predicate."""

    key: Key
    op: Operation
    reads: Sequence[Storage]
    writes: Sequence[Storage]
    dispatch: object


@dataclass(frozen=True)
class Trace:
    """The runs of a function in order, the outcomes of its branches, and the places of its arguments."""

    runs: Sequence[Run]
    outcomes: Sequence[bool]
    arguments: Mapping[tuple[str, str], Storage]
    rows: Mapping[Storage, Sequence[Storage]]


def numbered(module: ModuleOp) -> ModuleOp:
    """Numbers the kernels and copies of a module that is to be planned."""
    for number, op in enumerate(module.walk()):
        if isinstance(op, buf.KernelOp | CopyOp):
            op.attributes[NUMBER] = IntegerAttr(number, i64)
    return module


def trace(module: ModuleOp, decide: Callable[[Sequence[Run], Storage], bool]) -> Trace:
    """Returns what a function does, where `decide` says a branch's outcome from the runs so far and the predicate."""
    function = function_of(module, None)
    slots = slots_of(function)
    runs: list[Run] = []
    outcomes: list[bool] = []
    seen = Counter[object]()

    def add(op: Operation, number: object, reads: Sequence[Storage], writes: Sequence[Storage]) -> None:
        kernel = op if isinstance(op, buf.KernelOp) else None
        shared = None if kernel is None or kernel.dispatch_number is None else (op.parent, kernel.dispatch_number)
        runs.append(Run((number, seen[number]), op, reads, writes, shared))
        seen[number] += 1

    def step(run: BoundRun) -> None:
        number = run.op.attributes.get(NUMBER)
        add(run.op, number.value.data if isinstance(number, IntegerAttr) else ADDED, run.reads, run.writes)

    def outcome(predicate: Storage) -> bool:
        outcomes.append(decide(runs, predicate))
        add(function, "predicate", [predicate], [])
        return outcomes[-1]

    Unrolling(module, step, outcome).run(function.body.block, {value: Storage.of(value) for value in slots})
    packs = [op for op in function.body.block.ops if isinstance(op, buf.PackOp)]
    return Trace(
        runs,
        outcomes,
        {(str(slot.role), slot.name): Storage.of(value) for value, slot in slots.items()},
        {Storage.of(op.result): [Storage.of(part) for part in op.parts] for op in packs},
    )


def consistently(outcomes: str) -> Callable[[Sequence[Run], Storage], bool]:
    """Returns a `decide` that repeats outcomes, with 1 for true, but decides a predicate that wasn't rewritten once."""
    rest, known = cycle(outcomes), dict[object, bool]()

    def decide(runs: Sequence[Run], predicate: Storage) -> bool:
        writes = sum(place.overlaps(predicate) for run in runs for place in run.writes)
        key = predicate.arena, predicate.start, writes
        return known[key] if key in known else known.setdefault(key, next(rest) == "1")

    return decide


@dataclass(eq=False)
class Home:
    """Where a value is from one time to another, in half steps.

    Attributes:
        value: The value.
        arena: The arena.
        start: The first byte.
        end: One past the last byte.
        birth: The first time.
        death: The last time.
    """

    value: Value
    arena: SSAValue
    start: int
    end: int
    birth: int
    death: int

    def __str__(self) -> str:
        return f"{self.value.name} [{self.start}, {self.end})"


@dataclass(eq=False)
class Value:
    """What one run wrote to one range, or the caller before the first run."""

    name: str
    size: int
    homes: list[Home] = field(default_factory=list)


Part: TypeAlias = "tuple[Value | None, int, int, int]"
"""A part of what is read: the value, its place in the operand, that in the value, and its length."""


class Dataflow:
    """What each run of a function without a plan reads and writes; its buffers share no bytes."""

    def __init__(self, traced: Trace):
        self._rows = {row.arena for row in traced.rows}
        self._written: dict[SSAValue, list[tuple[int, Value]]] = defaultdict(list)
        self.given: dict[tuple[str, str], Value] = {}
        for key, place in traced.arguments.items():
            if key[0] in INPUTS:
                self.given[key] = self._write(" ".join(key), place.arena, place.start, place.end)
        self.reads: dict[Key, list[list[Part]]] = {}
        self.partly: dict[Key, list[list[Part]]] = {}
        self.writes: dict[Key, list[list[tuple[Value, int]]]] = {}
        for run in traced.runs:
            self.reads[run.key] = [self.sources(place) for place in run.reads]
            partly = [is_partly_written(run.op, number, place) for number, place in enumerate(run.writes)]
            pairs = list(zip(run.writes, partly, strict=True))
            self.partly[run.key] = [self.sources(place, True) if part else [] for place, part in pairs]
            self.writes[run.key] = [
                [
                    (
                        self._write(f"result {number} of {run.key}", part.arena, part.start, part.end),
                        part.start - place.start,
                    )
                    for part in traced.rows.get(place, (place,))
                ]
                for number, place in enumerate(run.writes)
            ]

    def _write(self, name: str, arena: SSAValue, start: int, end: int) -> Value:
        value = Value(name, end - start)
        self._written[arena].append((start, value))
        return value

    def sources(self, place: Storage, is_rest: bool = False) -> list[Part]:
        """Returns the parts of what is read at a place; 0 between the parts of a row is part of no value."""
        left, parts = [(place.start, place.end)], list[Part]()
        for start, value in reversed(self._written[place.arena]):
            rest: list[tuple[int, int]] = []
            for first, last in left:
                low, high = max(first, start), min(last, start + value.size)
                if low >= high:
                    rest.append((first, last))
                    continue
                parts.append((value, low - place.start, low - start, high - low))
                rest += [(a, b) for a, b in ((first, low), (high, last)) if a < b]
            left = rest
        if not is_rest:
            assert not left or place.arena in self._rows, f"reads what nothing wrote: {place}"
            parts += [(None, first - place.start, 0, last - first) for first, last in left]
        return parts


def is_partly_written(op: Operation, number: int, place: Storage) -> bool:
    """Returns whether other runs write the rest of a result."""
    for stage in op.stages if isinstance(op, buf.KernelOp) else ():
        for target in stage.outputs:
            if target is cast(buf.KernelOp, op).output_arguments[number]:
                loops = zip(buf.loop_extents(stage), buf.iterators_of(stage), strict=True)
                points = prod(extent for extent, kind in loops if kind == IteratorType.PARALLEL)
                return points < prod(place.shape)
    return False


Access: TypeAlias = "tuple[int, GenericOp, AffineMap]"


@cache
def may_overwrite(kernel: buf.KernelOp, source: int, target: int) -> bool:
    """Returns whether the solver shows that no point of a kernel overwrites what another, or it itself later, reads."""
    read, written = kernel.input_arguments[source], kernel.output_arguments[target]
    if kernel.single is not None or read.type != written.type:
        return False
    if any(isinstance(op, LoadOp) and op.memref is read for op in kernel.body.walk()):
        return False
    rank, reads, writes = len(kernel.extents), list[Access](), list[Access]()
    for position, stage in enumerate(kernel.stages):
        for number, (operand, index_map) in enumerate(zip(stage.operands, buf.maps_of(stage), strict=True)):
            if operand is read:
                reads.append((position, stage, index_map))
            elif operand is written and number >= len(stage.inputs):
                writes.append((position, stage, index_map))
    for (first, reader, read_at), (last, writer, written_at) in product(reads, writes):
        before, after = loops_of(reader, "read"), loops_of(writer, "write")
        same_element = equal(at(read_at, before), at(written_at, after))
        own_point = equal(before[:rank], after[:rank])
        in_turn = equal(before, after) if first == last else z3.BoolVal(first < last)
        solver = limited()
        solver.add(*within_loops(reader, before), *within_loops(writer, after))
        solver.add(same_element, z3.Not(z3.And(own_point, in_turn)))
        if solver.check() != z3.unsat:
            return False
    return True


def equal(index: Sequence[Any], other: Sequence[Any]) -> Any:
    return z3.And(*(x == y for x, y in zip(index, other, strict=True)))


def loops_of(stage: GenericOp, name: str) -> list[Any]:
    return [z3.Int(f"{name}.{loop}") for loop in range(len(buf.loop_extents(stage)))]


def within_loops(stage: GenericOp, loops: Sequence[Any]) -> Iterator[Any]:
    for loop, extent in zip(loops, buf.loop_extents(stage), strict=True):
        yield z3.And(loop >= 0, loop < extent)


def at(index_map: AffineMap, loops: Sequence[Any]) -> list[Any]:
    """Returns the index at a point; z3 divides by positive numbers as index maps do."""
    return [expression.eval(list(loops), []) for expression in index_map.results]


class Plan:
    """The homes of all values of a planned function.

    Args:
        before: The function without a plan, whose kernels are `numbered`.
        after: The function with it.
        outcomes: Those of branches.

    Raises:
        Refuted: Something is read where it isn't, or too early.
    """

    def __init__(self, before: ModuleOp, after: ModuleOp, outcomes: str = "1"):
        first = trace(before, consistently(outcomes))
        answers = decided(first.outcomes)
        second = trace(after, lambda _, predicate: answers(predicate))
        self.homes: list[Home] = []
        self._flow = Dataflow(first)
        planned = Counter(run.key for run in second.runs if run.key[0] != ADDED)
        if planned != Counter(run.key for run in first.runs):
            raise Refuted("the kernels that run are not those without a plan")
        for key, value in self._flow.given.items():
            place = second.arguments[key]
            self._add(value, place.arena, place.start, -1)
        time, beside = 0, list[Run]()
        for run in second.runs:
            joins = beside and run.dispatch is not None and run.dispatch == beside[0].dispatch
            if not joins or any(run.op is other.op for other in beside):
                time, beside = time + 1, []
            beside.append(run)
            (self._copy if run.key[0] == ADDED else self._run)(run, 2 * time)
        self._keep(first, second, 2 * time + 2)
        self._views = [op for op in after.walk() if isinstance(op, buf.ViewOp)]
        self._slots = slots_of(function_of(after, None))

    def _add(self, value: Value, arena: SSAValue, start: int, birth: int) -> None:
        """Has a value live somewhere, at least to the end of the dispatch that writes it."""
        home = Home(value, arena, start, start + value.size, birth, birth | 1)
        value.homes.append(home)
        self.homes.append(home)

    def _read(self, parts: Sequence[Part], place: Storage, until: int, now: int, who: str) -> None:
        """Has what is read at a place live there until a time."""
        for value, within, offset, length in parts:
            start = place.start + within - offset
            if value is None:
                self._zeros(place.arena, start, length)
                continue
            homes = [h for h in value.homes if h.arena is place.arena and h.start == start and h.birth < now]
            if not homes:
                raise Refuted(f"{who} reads {value.name} where it isn't: byte {start} at time {now}")
            homes[-1].death = max(homes[-1].death, until)

    def _zeros(self, arena: SSAValue, start: int, length: int) -> None:
        """Has the 0 between the parts of a row live from the start on."""
        known = any((h.arena, h.start, h.end, h.birth) == (arena, start, start + length, -2) for h in self.homes)
        if not known:
            self._add(Value(ZEROS, length), arena, start, -2)

    def _run(self, run: Run, now: int) -> None:
        reads, writes = self._flow.reads[run.key], self._flow.writes[run.key]
        kernel = run.op if isinstance(run.op, buf.KernelOp) else None
        over = {
            (source, target)
            for source, place in enumerate(run.reads)
            for target, other in enumerate(run.writes)
            if kernel is not None and place.equals(other) and may_overwrite(kernel, source, target)
        }
        for number, (parts, place) in enumerate(zip(reads, run.reads, strict=True)):
            in_place = any(source == number for source, _ in over)
            self._read(parts, place, now if in_place else now + 1, now, str(run.key))
        rest = self._flow.partly[run.key]
        for number, (values, place) in enumerate(zip(writes, run.writes, strict=True)):
            self._read(rest[number], place, now, now, f"the rest of a result of {run.key}")
            in_place = bool(rest[number]) or any(target == number for _, target in over)
            for value, offset in values:
                self._add(value, place.arena, place.start + offset, now + 1 if in_place else now)

    def _copy(self, run: Run, now: int) -> None:
        """Has the youngest values at a place live at another one too."""
        (source,), (target,) = run.reads, run.writes
        left = sorted((h for h in self.homes if h.arena is source.arena and h.birth < now), key=lambda h: -h.birth)
        taken: list[Home] = []
        for home in left:
            inside = source.start <= home.start and home.end <= source.end
            if inside and not any(home.start < other.end and other.start < home.end for other in taken):
                taken.append(home)
                home.death = max(home.death, now + 1)
                self._add(home.value, target.arena, target.start + home.start - source.start, now)

    def _keep(self, first: Trace, second: Trace, end: int) -> None:
        """Has results, and what the caller keeps, live until the end."""
        for (role, name), place in first.arguments.items():
            if role not in (*DESTINATIONS, *UPDATED, Role.CONSTANT):
                continue
            if role in UPDATED and (str(Role.UPDATE), name) in first.arguments:
                continue
            roles = (str(each) for each in UPDATED) if role == Role.UPDATE else (role,)
            where = next(second.arguments[each, name] for each in roles if (each, name) in second.arguments)
            self._read(self._flow.sources(place), where, end, end, f"the caller, as {role} {name},")

    def prove(self, alignment: int = 1) -> int:
        """Proves that no byte has two owners, and that all are in their arenas, where views are aligned.

        Returns:
            The number of homes.

        Raises:
            Refuted: With a byte and a time.
        """
        for arena in dict.fromkeys(home.arena for home in self.homes):
            homes = [home for home in self.homes if home.arena is arena]
            owns = [(z3.And(h.birth <= a_time, a_time <= h.death, h.start <= a_byte, a_byte < h.end), 1) for h in homes]
            size = buf.buffer_bytes(cast(buf.Buffer, arena.type))
            refute(homes, "two owners", z3.PbGe(owns, 2))
            refute(homes, f"outside of {size} bytes", z3.PbGe(owns, 1), z3.Or(a_byte < 0, a_byte >= size))
        scalars = [value for value, slot in self._slots.items() if slot.role == Role.SCALAR]  # they are packed
        starts = [view.start for view in self._views if view.result not in scalars]
        refute([], "not aligned", z3.Or(*(a_byte == start for start in starts)), a_byte % alignment != 0)
        return len(self.homes)


a_byte, a_time = z3.Ints("byte time")


def refute(homes: Sequence[Home], what: str, *conditions: Any) -> None:
    """Proves that conditions on a byte and a time never hold.

    Raises:
        Refuted: They do; names the homes there.
    """
    solver = limited()
    solver.add(*conditions)
    answer = solver.check()
    if answer == z3.sat:
        byte, time = (solver.model().eval(x, model_completion=True).as_long() for x in (a_byte, a_time))
        there = [h for h in homes if h.birth <= time <= h.death and h.start <= byte < h.end]
        raise Refuted(f"{what}: byte {byte} at time {time}: {' and '.join(map(str, there))}")
    if answer != z3.unsat:
        raise Refuted(f"{what}: neither a proof nor a counterexample")
