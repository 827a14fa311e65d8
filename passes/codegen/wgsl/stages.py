"""Shared code of the archetypes `thread` and `group`: stages that run one after another, with unrolled loops.

A thread may compute several neighbouring points, and its loops may be unrolled: indices and loads are then shared, and
contiguous elements are loaded as vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects import memref, vector
from xdsl.dialects.builtin import f32
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from tensorgrad.dialects import wgsl
from tensorgrad.dialects.buf import (
    KernelOp,
    element_of,
    is_reduction,
    is_shape_only,
    maps_of,
)
from tensorgrad.dialects.schedule import GroupSchedule, ThreadSchedule
from tensorgrad.dialects.stages import Reduction, reductions_of
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.affine import Linear
from tensorgrad.passes.analyses.kinds import is_in_order
from tensorgrad.passes.analyses.machine import VECTOR
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.common.reductions import EXACT, accumulators
from tensorgrad.passes.codegen.common.stage_bodies import clone_body, values_to_fold
from tensorgrad.passes.codegen.common.stage_loops import Loops, grid_loops, own_loops, place_of
from tensorgrad.passes.codegen.common.unrolled_loops import UnrolledLoop, unrolled
from tensorgrad.passes.codegen.wgsl.vectors import (
    are_whole,
    may_be_vector,
    place_key,
    vector_and_lane,
)
from tensorgrad.passes.scalars import Value

Sites: TypeAlias = "list[list[Loops]]"
"""The loops at each point of a thread, for each unrolled step."""


@dataclass(frozen=True)
class Unrolling:
    """How the loops of a kernel are unrolled.

    Attributes:
        width: The number of neighbouring points per thread; it divides the grid's last extent.
        steps: The unroll factor of a stage's innermost own loop. The remainder is in vectors or scalar.
        lanes: The number of threads that share each point, and a stage's own loops, flattened; 0 if they are not
            shared.
    """

    width: int = 1
    steps: int = 1
    lanes: int = 0

    @staticmethod
    def of(schedule: ThreadSchedule | GroupSchedule) -> Unrolling:
        """Returns how a schedule unrolls loops."""
        if isinstance(schedule, ThreadSchedule):
            return Unrolling(schedule.width, schedule.steps)
        return Unrolling(steps=schedule.steps, lanes=schedule.lanes)

    def unrolled(self, extent: int) -> list[UnrolledLoop]:
        """Returns the main loop and the remainder of a loop."""
        return unrolled(extent, self.steps, self.lanes)

    def loops(self, own: list[int]) -> tuple[list[int], int]:
        """Returns the extents of the own loops that enclose a stage's unrolled loop, and that loop's extent."""
        return ([], math.prod(own)) if self.lanes else (own[:-1], own[-1])

    def grid(self, extents: Sequence[int]) -> tuple[int, ...]:
        """Returns a grid of blocks of points along the last loop."""
        return tuple(extents) if self.width == 1 else (*extents[:-1], extents[-1] // self.width)

    def points(self, loops: Loops) -> list[Loops]:
        """Returns the grid's loops at each point of a block."""
        if self.width == 1:
            return [loops]
        *others, last = loops.expressions
        return [
            Loops(loops.bases, loops.extents, (*others, last * self.width + number)) for number in range(self.width)
        ]


class StageWriter:
    """Writes a thread's share of a kernel's stages."""

    def __init__(self, kernel: KernelOp, code: Code, point: Value, unrolling: Unrolling):
        self.kernel, self.code, self.unrolling = kernel, code, unrolling
        self.points = unrolling.points(grid_loops(point, unrolling.grid(kernel.extents)))
        self.known: list[dict[SSAValue, Value]] = [{} for _ in self.points]
        self._kept: dict[tuple[object, ...], Value] = {}

    # Loops

    def over(
        self,
        code: Code,
        points: list[Loops],
        extents: list[int],
        start: Sequence[Value],
        each: int,
        body: Callable[[Sites, Sequence[Value]], Sequence[Value]],
    ) -> list[Value]:
        """Writes nested loops, the innermost unrolled, which carry `each` values per unrolled step."""
        outer, last = self.unrolling.loops(extents)

        def innermost(positions: list[Value], held: Sequence[Value]) -> Sequence[Value]:
            around = [point.with_own(positions, outer) for point in points]
            for loop in self.unrolling.unrolled(last):

                def iteration(at: Value, now: Sequence[Value], loop: UnrolledLoop = loop) -> Sequence[Value]:
                    return body(_steps(around, self.bases(at, loop), loop, extents[len(outer) :]), now)

                carried = each * loop.steps
                if not code.frame.software and self.runs_once(loop):
                    held = [*iteration(self.range(code, loop)[0], held[:carried]), *held[carried:]]
                    continue
                stop = code.number(loop.extent) if self.unrolling.steps == 1 else code.concealed(loop.extent)
                first, step = self.range(code, loop)
                changed = code.loop_to(stop, held[:carried], iteration, start=first, step=step)
                held = [*changed, *held[carried:]]
            return held

        return code.nest(outer, start, innermost)

    def bases(self, at: Value, loop: UnrolledLoop) -> list[Value]:
        """Returns the bases of the indices in an iteration."""
        return [at]

    def range(self, code: Code, loop: UnrolledLoop) -> tuple[Value, int]:
        """Returns a loop's start and step."""
        return code.number(loop.start), 1

    def runs_once(self, loop: UnrolledLoop) -> bool:
        """Returns whether each lane runs one iteration; without a loop around them, stages share loads and values."""
        return False

    def reduced(self, code: Code, stage: GenericOp, points: list[Loops], reduced: list[int]) -> list[Sequence[Value]]:
        """Returns the reduced values at each point."""
        reductions = reductions_of(stage)
        each = len(reductions) * len(points)
        steps = self.unrolling.unrolled(self.unrolling.loops(reduced)[1])[0].steps
        sums = 1 if is_in_order(stage) else accumulators(steps)
        identities = [code.constant(reduction.start(), reduction.element) for reduction in reductions]
        start = identities * (len(points) * sums)
        exact = [v.ssa for v, reduction in zip(identities, reductions, strict=True) if type(reduction.combine) in EXACT]

        def body(sites: Sites, held: Sequence[Value]) -> Sequence[Value]:
            values = [value for row in self.values(code, stage, sites) for value in row]
            now = list(held)
            for step in range(len(sites)):
                mine = slice(step % sums * each, (step % sums + 1) * each)
                new = values[step * each : (step + 1) * each]
                now[mine] = folded(code, reductions * len(points), now[mine], new, exact)
            return now

        held = self.over(code, points, reduced, start, each, body)
        while len(held) > each:
            half = len(held) // 2
            held = folded(code, reductions * (half // len(reductions)), held[:half], held[half:])
        count = len(reductions)
        return [held[place * count : (place + 1) * count] for place in range(len(points))]

    # Values

    def compute(self, code: Code, stage: GenericOp, sites: Sites) -> list[Value]:
        """Computes and stores a stage without a reduction; the loop carries no values."""
        self.store(code, stage, sites, self.values(code, stage, sites))
        return []

    def values(self, code: Code, stage: GenericOp, sites: Sites) -> list[Sequence[Value]]:
        """Returns what a stage yields, or folds in, at each point of each step."""
        loaded = [self._loaded(code, stage, position, sites) for position in range(len(stage.inputs))]
        args, results = stage.body.block.args, list[Sequence[Value]]()
        for number, loops in enumerate(_flat(sites)):
            env: dict[SSAValue, SSAValue] = {
                argument: values[number].ssa for argument, values in zip(args, loaded, strict=False) if values
            }
            compute = values_to_fold if is_reduction(stage) else _body
            results.append(compute(code, stage, env, loops))
        return results

    def _loaded(self, code: Code, stage: GenericOp, position: int, sites: Sites) -> list[Value]:
        """Returns an operand at each site; shared elements are loaded once. Empty if it has no values."""
        buffer, results = stage.inputs[position], maps_of(stage)[position].results
        if is_shape_only(buffer):
            return []
        if buffer in self.known[0]:
            return [known[buffer] for _ in sites for known in self.known]
        loaded: dict[tuple[object, ...], Value] = {}
        values: list[Value] = []
        for loops in _flat(sites):
            place, lane = self._place(code, buffer, results, loops)
            key = place_key(place)
            if key not in loaded:
                loaded[key] = self._load(code, buffer, place, loops)
            values.append(loaded[key] if lane is None else code.add(vector.ExtractOp(loaded[key].ssa, [lane], f32)))
        return values

    def _load(self, code: Code, buffer: SSAValue, place: Linear, loops: Loops) -> Value:
        """Loads an element that no stage writes once per block, so that stages share it."""
        memory = _memory(code, buffer)
        written = any(_memory(code, output) is memory for output in self.kernel.output_arguments)
        if written or code.frame.software:
            return code.element(memory, self._at(code, buffer, place, loops))
        key = (code.block, memory, code.bindings[buffer].moved, place_key(place), *(base.ssa for base in loops.bases))
        if key not in self._kept:
            self._kept[key] = code.element(memory, self._at(code, buffer, place, loops))
        return self._kept[key]

    def store(self, code: Code, stage: GenericOp, sites: Sites, values: Sequence[Sequence[Value]]) -> None:
        """Stores what a stage yields into those of its outputs that outlive the kernel."""
        for number, output in enumerate(stage.outputs):
            if output not in self.kernel.output_arguments:
                continue
            results = maps_of(stage)[len(stage.inputs) + number].results
            vectors: dict[tuple[object, ...], dict[int, Value]] = {}
            for loops, row in zip(_flat(sites), values, strict=True):
                place, lane = self._place(code, output, results, loops)
                value = row[number]
                if lane is not None:
                    parts = vectors.setdefault(place_key(place), {})
                    parts[lane] = value
                    if len(parts) < VECTOR:
                        continue
                    value = code.add(wgsl.JoinOp([parts[e].ssa for e in range(VECTOR)]))
                code.put(value, _memory(code, output), self._at(code, output, place, loops))

    def _place(
        self, code: Code, buffer: SSAValue, results: Sequence[AffineExpr], loops: Loops
    ) -> tuple[Linear, int | None]:
        """Returns an element's position in its binding; for a binding of vectors, the vector and the lane."""
        place = place_of(results, buffer, code.bindings[buffer].start, loops)
        is_vector = element_of(_memory(code, buffer)) == wgsl.VECTOR
        return vector_and_lane(place) if is_vector else (place, None)

    def _at(self, code: Code, buffer: SSAValue, place: Linear, loops: Loops) -> Value:
        """Emits a position; the constant is added last, so that neighbours share the rest."""
        moved = code.bindings[buffer].moved
        if not place.terms and moved is None:
            return code.number(place.constant)
        at = code.place(Linear(place.terms), loops)
        at = at if moved is None else code.value(moved) + at
        if place.constant < 0:
            return at - -place.constant
        return at + place.constant


def _body(code: Code, stage: GenericOp, env: dict[SSAValue, SSAValue], loops: Loops) -> list[Value]:
    return clone_body(code, stage.body.block, env, loops)


def _memory(code: Code, buffer: SSAValue) -> SSAValue:
    return code.bindings[buffer].memory


def _flat(sites: Sites) -> Iterator[Loops]:
    return (loops for step in sites for loops in step)


def _steps(points: Sequence[Loops], bases: Sequence[Value], loop: UnrolledLoop, own: Sequence[int]) -> Sites:
    """Returns the loops at each unrolled step: those of the points, and `own`, flattened into the unrolled loop.

    Args:
        points: The enclosing loops.
        bases: The induction variable, and the lane if lanes share an iteration.
        loop: The unrolled loop.
        own: The extents of the flattened loops.
    """
    extents = [loop.extent] if loop.lanes == 1 else [loop.extent, loop.lanes]

    def at(loops: Loops, step: int) -> Loops:
        first = len(loops.extents)
        place: AffineExpr = AffineDimExpr(first)
        if loop.lanes > 1:
            place = place * loop.lanes + AffineDimExpr(first + 1)
        if loop.steps > 1:
            place = place * loop.steps + step
        around = (*loops.extents, *extents)
        places = [place] if len(own) == 1 else affine.delinearized(place, own)
        simplified = [affine.linear(place, around).expression() for place in places]
        return Loops((*loops.bases, *bases), around, (*loops.expressions, *simplified))

    return [[at(loops, step) for loops in points] for step in range(loop.steps)]


def vector_arguments(kernel: KernelOp, unrolling: Unrolling, starts: Sequence[int]) -> set[SSAValue]:
    """Returns the arguments that `write_thread` or `write_group` accesses only in whole vectors.

    Args:
        kernel: A kernel with one of these schedules.
        unrolling: How its loops are unrolled.
        starts: The start of each argument in its binding, in elements.
    """
    if unrolling.width == unrolling.steps == 1:
        return set()
    blocks = unrolling.grid(kernel.extents)
    expressions = affine.delinearized(AffineDimExpr(0), blocks)
    total = math.prod(blocks)
    simplified = tuple(affine.linear(e, [total]).expression() for e in expressions)
    points = unrolling.points(Loops((), (total,), simplified))
    start_of: dict[SSAValue, int] = dict(zip(kernel.body.block.args, starts, strict=True))
    scalar: set[SSAValue] = {op.memref for op in kernel.walk() if isinstance(op, memref.LoadOp)}
    for stage in kernel.stages:
        for buffer, m, accessed in _accesses(kernel, stage, points, unrolling):
            if buffer not in start_of or buffer in scalar:
                continue
            start = start_of[buffer]
            if element_of(buffer) != f32 or not all(_are_vectors(buffer, m, start, sites) for sites in accessed):
                scalar.add(buffer)
    return {argument for argument in kernel.body.block.args if argument not in scalar}


def _are_vectors(buffer: SSAValue, m: AffineMap, start: int, sites: Sites) -> bool:
    """Returns whether a buffer is accessed in whole vectors at all sites; the first site usually decides."""
    loops = list(_flat(sites))
    if len(loops) < VECTOR:
        return False
    places = (place_of(m.results, buffer, start, loop) for loop in loops)
    first = next(places)
    return may_be_vector(first) and are_whole([first, *places])


def _accesses(
    kernel: KernelOp, stage: GenericOp, points: list[Loops], unrolling: Unrolling
) -> Iterator[tuple[SSAValue, AffineMap, list[Sites]]]:
    """Yields each operand of a stage, its index map, and the sites at which it is accessed together."""
    parallel, reduced = own_loops(kernel, stage)
    results = [[point.with_own((), parallel) for point in points]] if reduced else [points]
    sites = [results]
    if parallel or reduced:
        own = reduced or parallel
        outer, last = unrolling.loops(own)
        around = [point.with_own((), outer) for point in (results[0] if reduced else points)]
        sites = [_steps(around, (), loop, own[len(outer) :]) for loop in unrolling.unrolled(last)]
    for number, (buffer, m) in enumerate(zip(stage.operands, maps_of(stage), strict=True)):
        yield buffer, m, [results] if reduced and number >= len(stage.inputs) else sites


def folded(
    code: Code,
    reductions: Sequence[Reduction],
    held: Sequence[Value],
    values: Sequence[Value],
    identities: Sequence[SSAValue] = (),
) -> list[Value]:
    """Returns the accumulators with one more value folded in, which replaces those of `identities`."""
    return [
        new if old.ssa in identities else code.apply(type(reduction.combine), old, new)
        for reduction, old, new in zip(reductions, held, values, strict=True)
    ]
