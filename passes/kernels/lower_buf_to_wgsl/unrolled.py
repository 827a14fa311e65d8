"""Threads that take several points, or several steps of a row, at a time: they share indices and loads, in vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects import arith, memref, vector
from xdsl.dialects.builtin import f32
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from tensorgrad.dialects import wgsl
from tensorgrad.dialects.buf import (
    KernelOp,
    element_of,
    is_reduction,
    is_shape_only,
    iterators_of,
    loop_extents,
    maps_of,
)
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.affine import Linear
from tensorgrad.passes.kernels.lower_buf_to_wgsl.emission import (
    Code,
    Loops,
    grid_loops,
    place_of,
    reductions_of,
    values_to_fold,
)
from tensorgrad.passes.kernels.lower_buf_to_wgsl.rows import at_point, fold_lanes, folded, updates_in_place
from tensorgrad.passes.kernels.lower_buf_to_wgsl.vectors import (
    VECTOR_WIDTH,
    are_whole,
    may_be_vector,
    place_key,
    vector_and_lane,
)

ACCUMULATORS = 4
"""A reduction keeps so many sums at most, which don't wait for each other."""

Sites: TypeAlias = "list[list[Loops]]"
"""The loops at each point of a thread, for each step of a turn."""


@dataclass(frozen=True)
class Turn:
    """A loop that takes some steps in each turn, from `start` to `extent`; in a turn, each of `lanes` takes so many."""

    extent: int
    steps: int
    start: int = 0
    lanes: int = 1


@dataclass(frozen=True)
class Unrolling:
    """What a thread takes at a time.

    Attributes:
        width: How many points of the grid side by side; it divides the grid's last loop.
        steps: How many steps of a stage's innermost own loop in a turn. The rest comes in vectors or one by one.
        lanes: How many threads share each point, and a stage's own loops as one; 0 where a thread has them to itself.
    """

    width: int
    steps: int
    lanes: int = 0

    def turns(self, extent: int) -> list[Turn]:
        """How a loop is run through: in two turns at least where no lane is part of indices, so none is a constant."""
        each = self.steps * max(self.lanes, 1)
        vectors = self.steps % VECTOR_WIDTH == 0 and extent % VECTOR_WIDTH == 0
        small = VECTOR_WIDTH if vectors and (self.lanes or extent > VECTOR_WIDTH) else 1
        if extent < (each if self.lanes else 2 * each):
            return [Turn(extent // small, small)]
        whole = extent // each
        rest = [Turn(extent // small, small, whole * each // small)] if extent % each else []
        return [Turn(whole, self.steps, lanes=max(self.lanes, 1)), *rest]

    def loops(self, own: list[int]) -> tuple[list[int], int]:
        """A stage's own loops: those around the turns, and the extent of the one that is run through in turns."""
        return ([], math.prod(own)) if self.lanes else (own[:-1], own[-1])

    def grid(self, extents: Sequence[int]) -> tuple[int, ...]:
        """A grid of blocks of points along the last loop."""
        return tuple(extents) if self.width == 1 else (*extents[:-1], extents[-1] // self.width)

    def points(self, loops: Loops) -> list[Loops]:
        """The grid's loops at each point of a block."""
        if self.width == 1:
            return [loops]
        *others, last = loops.expressions
        return [
            Loops(loops.bases, loops.extents, (*others, last * self.width + number)) for number in range(self.width)
        ]


def unrolled_thread(kernel: KernelOp, code: Code, lanes: int, unrolling: Unrolling) -> None:
    """Each thread takes a block of points and runs the stages one behind the other, in turns of several steps.

    Expects a multiple of `unrolling.width` along the grid's last loop.
    """
    total = math.prod(unrolling.grid(kernel.extents))
    at_point(code, total, lanes, lambda inner, point: _Thread(kernel, inner, point, unrolling).run())


def unrolled_group(kernel: KernelOp, code: Code, unrolling: Unrolling) -> None:
    """Each workgroup takes one point; its lanes share the stages' own loops and fold through workgroup memory.

    In a turn, each lane takes several steps that are side by side, next to those of its neighbours.
    """
    _Group(kernel, code, unrolling).run()


class _Thread:
    """The code of one thread."""

    def __init__(self, kernel: KernelOp, code: Code, point: SSAValue, unrolling: Unrolling):
        self.kernel, self.code, self.unrolling = kernel, code, unrolling
        self.points = unrolling.points(grid_loops(point, unrolling.grid(kernel.extents)))
        self.known: list[dict[SSAValue, SSAValue]] = [{} for _ in self.points]

    def run(self) -> None:
        for stage in self.kernel.stages:
            parallel, reduced = own_loops(self.kernel, stage)
            if not parallel:
                for known, values in zip(self.known, self._finish(self.code, stage, self.points, reduced), strict=True):
                    known.update(zip(stage.outputs, values, strict=True))
            elif reduced:
                self._nest_of_reductions(stage, parallel, reduced)
            else:
                self._over(
                    self.code, self.points, parallel, [], 0, lambda c, sites, _, s=stage: self._write(c, s, sites)
                )

    def _nest_of_reductions(self, stage: GenericOp, parallel: list[int], reduced: list[int]) -> None:
        def body(inner: Code, found: list[SSAValue], _: object) -> list[SSAValue]:
            self._finish(inner, stage, [point.with_own(found, parallel) for point in self.points], reduced)
            return []

        self.code.nest(parallel, [], body)

    def _finish(
        self, code: Code, stage: GenericOp, points: list[Loops], reduced: list[int]
    ) -> list[Sequence[SSAValue]]:
        """The results of a stage at each point, which are stored."""
        results = self._reduced(code, stage, points, reduced) if reduced else self._values(code, stage, [points])
        self._store(code, stage, [points], results)
        return results

    def _write(self, code: Code, stage: GenericOp, sites: Sites) -> list[SSAValue]:
        self._store(code, stage, sites, self._values(code, stage, sites))
        return []

    # Loops

    def _over(
        self,
        code: Code,
        points: list[Loops],
        extents: list[int],
        start: Sequence[SSAValue],
        each: int,
        body: Callable[[Code, Sites, Sequence[SSAValue]], Sequence[SSAValue]],
    ) -> list[SSAValue]:
        """Loops inside each other, the innermost in turns of several steps, which carry `each` values a step."""
        outer, last = self.unrolling.loops(extents)

        def turns(inner: Code, found: list[SSAValue], held: Sequence[SSAValue]) -> Sequence[SSAValue]:
            around = [point.with_own(found, outer) for point in points]
            for turn in self.unrolling.turns(last):

                def one(c: Code, at: SSAValue, now: Sequence[SSAValue], turn: Turn = turn) -> Sequence[SSAValue]:
                    return body(c, _steps(around, self._bases(at, turn), turn, extents[len(outer) :]), now)

                kept = each * turn.steps
                first, step = self._range(inner, turn)
                changed = inner.loop_to(inner.concealed(turn.extent), held[:kept], one, start=first, step=step)
                held = [*changed, *held[kept:]]
            return held

        return code.nest(outer, start, turns)

    def _bases(self, at: SSAValue, turn: Turn) -> list[SSAValue]:
        """What the indices in a turn are made of."""
        return [at]

    def _range(self, code: Code, turn: Turn) -> tuple[SSAValue, int]:
        """Where a loop starts, and how far it goes in a turn."""
        return code.number(turn.start), 1

    def _reduced(
        self, code: Code, stage: GenericOp, points: list[Loops], reduced: list[int]
    ) -> list[Sequence[SSAValue]]:
        """The reduced values at each point."""
        reductions = reductions_of(stage)
        each = len(reductions) * len(points)
        sums = min(self.unrolling.turns(self.unrolling.loops(reduced)[1])[0].steps, ACCUMULATORS)
        start = [code.scalar(one.start(), one.element) for one in reductions] * (len(points) * sums)

        def body(inner: Code, sites: Sites, held: Sequence[SSAValue]) -> Sequence[SSAValue]:
            values = [value for found in self._values(inner, stage, sites) for value in found]
            now = list(held)
            for step in range(len(sites)):
                mine = slice(step % sums * each, (step % sums + 1) * each)
                now[mine] = folded(inner, reductions * len(points), now[mine], values[step * each : (step + 1) * each])
            return now

        held = self._over(code, points, reduced, start, each, body)
        while len(held) > each:
            half = len(held) // 2
            held = folded(code, reductions * (half // len(reductions)), held[:half], held[half:])
        count = len(reductions)
        return [held[place * count : (place + 1) * count] for place in range(len(points))]

    # Values

    def _values(self, code: Code, stage: GenericOp, sites: Sites) -> list[Sequence[SSAValue]]:
        """What a stage yields, or folds in, at each point of each step."""
        loaded = [self._loaded(code, stage, position, sites) for position in range(len(stage.inputs))]
        args, found = stage.body.block.args, list[Sequence[SSAValue]]()
        for number, loops in enumerate(_flat(sites)):
            env: dict[SSAValue, SSAValue] = {
                argument: values[number] for argument, values in zip(args, loaded, strict=False) if values
            }
            compute = values_to_fold if is_reduction(stage) else _body
            found.append(compute(code, stage, env, loops))
        return found

    def _loaded(self, code: Code, stage: GenericOp, position: int, sites: Sites) -> list[SSAValue]:
        """An operand at each site; elements that several read are loaded once. Empty if it has no values."""
        buffer, results = stage.inputs[position], maps_of(stage)[position].results
        if is_shape_only(buffer):
            return []
        if buffer in self.known[0]:
            return [known[buffer] for _ in sites for known in self.known]
        loaded: dict[tuple[object, ...], SSAValue] = {}
        values: list[SSAValue] = []
        for loops in _flat(sites):
            place, lane = self._place(code, buffer, results, loops)
            key = place_key(place)
            if key not in loaded:
                loaded[key] = code.element(_memory(code, buffer), self._at(code, buffer, place, loops))
            values.append(loaded[key] if lane is None else code.add(vector.ExtractOp(loaded[key], [lane], f32)))
        return values

    def _store(self, code: Code, stage: GenericOp, sites: Sites, values: Sequence[Sequence[SSAValue]]) -> None:
        """Stores what a stage yields into those of its outputs that outlive the kernel."""
        for number, output in enumerate(stage.outputs):
            if output not in self.kernel.output_arguments:
                continue
            results = maps_of(stage)[len(stage.inputs) + number].results
            vectors: dict[tuple[object, ...], dict[int, SSAValue]] = {}
            for loops, found in zip(_flat(sites), values, strict=True):
                place, lane = self._place(code, output, results, loops)
                value = found[number]
                if lane is not None:
                    parts = vectors.setdefault(place_key(place), {})
                    parts[lane] = value
                    if len(parts) < VECTOR_WIDTH:
                        continue
                    value = code.add(wgsl.JoinOp([parts[e] for e in range(VECTOR_WIDTH)]))
                code.put(value, _memory(code, output), self._at(code, output, place, loops))

    def _place(
        self, code: Code, buffer: SSAValue, results: Sequence[AffineExpr], loops: Loops
    ) -> tuple[Linear, int | None]:
        """Where an element is in its binding; in one of vectors, which of them it is in, and where in that."""
        place = place_of(results, buffer, code.bindings[buffer].start, loops)
        is_vector = element_of(_memory(code, buffer)) == wgsl.VECTOR
        return vector_and_lane(place) if is_vector else (place, None)

    def _at(self, code: Code, buffer: SSAValue, place: Linear, loops: Loops) -> SSAValue:
        """A position as code; the constant comes last, so that neighbours share the rest."""
        moved = code.bindings[buffer].moved
        at = code.place(Linear(place.terms), loops)
        at = at if moved is None else code.index_op(arith.AddiOp, moved, at)
        if place.constant < 0:
            return code.index_op(arith.SubiOp, at, -place.constant)
        return code.index_op(arith.AddiOp, at, place.constant)


class _Group(_Thread):
    """The code of a thread of a workgroup that takes one point."""

    def __init__(self, kernel: KernelOp, code: Code, unrolling: Unrolling):
        super().__init__(kernel, code, code.group(0), unrolling)
        self.lane = code.add(wgsl.LocalIndexOp())
        self.first = code.add(arith.CmpiOp(self.lane, code.number(0), "eq"))

    def run(self) -> None:
        code, points = self.code, self.points
        for stage in self.kernel.stages:
            parallel, reduced = own_loops(self.kernel, stage)
            if not reduced and updates_in_place(self.kernel, stage, code):
                code.block.add_op(wgsl.BarrierOp(storage=True))  # every lane has read the old values before one writes
            if parallel:
                self._over(code, points, parallel, [], 0, lambda c, sites, _, s=stage: self._write(c, s, sites))
                continue
            found = self._reduced(code, stage, points, reduced) if reduced else self._values(code, stage, [points])
            values = found[0]
            if reduced:
                values = fold_lanes(code, reductions_of(stage), values, self.lane, self.unrolling.lanes)
            self.known[0].update(zip(stage.outputs, values, strict=True))
            code.when(self.first, lambda c, s=stage, v=values: self._store(c, s, [points], [v]))

    def _bases(self, at: SSAValue, turn: Turn) -> list[SSAValue]:
        return [at, self.lane] if turn.lanes > 1 else [at]

    def _range(self, code: Code, turn: Turn) -> tuple[SSAValue, int]:
        if turn.lanes > 1:
            return super()._range(code, turn)
        return code.index_op(arith.AddiOp, self.lane, turn.start), self.unrolling.lanes


def _body(code: Code, stage: GenericOp, env: dict[SSAValue, SSAValue], loops: Loops) -> list[SSAValue]:
    return code.body(stage.body.block, env, loops)


def _memory(code: Code, buffer: SSAValue) -> SSAValue:
    return code.bindings[buffer].memory


def _flat(sites: Sites) -> Iterator[Loops]:
    return (loops for step in sites for loops in step)


def own_loops(kernel: KernelOp, stage: GenericOp) -> tuple[list[int], list[int]]:
    """The extents of a stage's own loops: the parallel ones, which come first, and those that reduce."""
    rank = len(kernel.extents)
    own, kinds = list(loop_extents(stage)[rank:]), iterators_of(stage)[rank:]
    count = sum(kind == IteratorType.PARALLEL for kind in kinds)
    return own[:count], own[count:]


def _steps(points: Sequence[Loops], bases: Sequence[SSAValue], turn: Turn, own: Sequence[int]) -> Sites:
    """The loops in each step of a turn: those of the points, and `own` ones, which the turns run through as one.

    Args:
        points: The loops around.
        bases: The number of the turn, and of the lane if lanes share turns.
        turn: How the loop is run through.
        own: The extents of the loops that are one.
    """
    extents = [turn.extent] if turn.lanes == 1 else [turn.extent, turn.lanes]

    def at(loops: Loops, step: int) -> Loops:
        first = len(loops.extents)
        place: AffineExpr = AffineDimExpr(first)
        if turn.lanes > 1:
            place = place * turn.lanes + AffineDimExpr(first + 1)
        if turn.steps > 1:
            place = place * turn.steps + step
        around = (*loops.extents, *extents)
        places = [place] if len(own) == 1 else affine.delinearized(place, own)
        simplified = [affine.linear(one, around).expression() for one in places]
        return Loops((*loops.bases, *bases), around, (*loops.expressions, *simplified))

    return [[at(loops, step) for loops in points] for step in range(turn.steps)]


def vector_arguments(kernel: KernelOp, unrolling: Unrolling, starts: Sequence[int]) -> set[SSAValue]:
    """The arguments of which `unrolled_thread` or `unrolled_group` reads and writes nothing but whole vectors.

    Args:
        kernel: What it runs.
        unrolling: How.
        starts: For each argument: the element of its binding that it starts at.
    """
    blocks = unrolling.grid(kernel.extents)
    expressions = affine.delinearized(AffineDimExpr(0), blocks)
    total = math.prod(blocks)
    simplified = tuple(affine.linear(e, [total]).expression() for e in expressions)
    points = unrolling.points(Loops((), (total,), simplified))
    start_of: dict[SSAValue, int] = dict(zip(kernel.body.block.args, starts, strict=True))
    scalar: set[SSAValue] = {op.memref for op in kernel.walk() if isinstance(op, memref.LoadOp)}
    for stage in kernel.stages:
        for buffer, m, turns in _accesses(kernel, stage, points, unrolling):
            if buffer not in start_of or buffer in scalar:
                continue
            start = start_of[buffer]
            if element_of(buffer) != f32 or not all(_are_vectors(buffer, m, start, sites) for sites in turns):
                scalar.add(buffer)
    return {argument for argument in kernel.body.block.args if argument not in scalar}


def _are_vectors(buffer: SSAValue, m: AffineMap, start: int, sites: Sites) -> bool:
    """Whether a buffer is accessed in whole vectors at some sites; the first mostly shows where it isn't."""
    loops = list(_flat(sites))
    if len(loops) < VECTOR_WIDTH:
        return False
    places = (place_of(m.results, buffer, start, one) for one in loops)
    first = next(places)
    return may_be_vector(first) and are_whole([first, *places])


def _accesses(
    kernel: KernelOp, stage: GenericOp, points: list[Loops], unrolling: Unrolling
) -> Iterator[tuple[SSAValue, AffineMap, list[Sites]]]:
    """Each operand of a stage, its index map, and the sites at which it is accessed together."""
    parallel, reduced = own_loops(kernel, stage)
    results = [[point.with_own((), parallel) for point in points]] if reduced else [points]
    turns = [results]
    if parallel or reduced:
        own = reduced or parallel
        outer, last = unrolling.loops(own)
        around = [point.with_own((), outer) for point in (results[0] if reduced else points)]
        turns = [_steps(around, (), turn, own[len(outer) :]) for turn in unrolling.turns(last)]
    for number, (buffer, m) in enumerate(zip(stage.operands, maps_of(stage), strict=True)):
        yield buffer, m, [results] if reduced and number >= len(stage.inputs) else turns
