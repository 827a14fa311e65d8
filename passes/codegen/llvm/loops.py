"""Writes kernels of the archetype `loops`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.dialects.utils.fast_math import FastMathFlag
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr

from tensorgrad.dialects.buf import KernelOp, element_of, is_shape_only, loop_extents, maps_of, shape_of
from tensorgrad.dialects.cpu import MASKED, PARALLEL
from tensorgrad.dialects.native_schedules import LoopsSchedule
from tensorgrad.dialects.stages import Reduction, reductions_of
from tensorgrad.dialects.tg.base import is_float
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.codegen.common.blocked_sums import (
    MOST_BLOCKS,
    MOST_TERMS,
    Accumulators,
    block_widths,
    fold_in_blocks,
    is_summed,
)
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.common.stage_bodies import (
    clone_body,
    reduced_values,
    stage_env,
    stage_values,
    store_outputs,
    values_to_fold,
)
from tensorgrad.passes.codegen.common.stage_loops import Loops, grid_loops, merged_loops, own_loops, strided
from tensorgrad.passes.codegen.llvm.extremes import ORDERED, as_float, ordered
from tensorgrad.passes.codegen.llvm.kept_values import Kept, kept_values
from tensorgrad.passes.codegen.llvm.loop_kinds import mark, parallel
from tensorgrad.passes.codegen.llvm.scratch import new_array
from tensorgrad.passes.scalars import Value

REASSOCIATED = {"fastmath": arith.FastMathFlagsAttr([FastMathFlag.REASSOC])}

FEWEST, WIDEST = 4, 16
"""The fewest elements of a row that take longer one by one than in a masked vector, and the lanes of the widest one."""

UNROLLED_TERMS, UNROLLED_OPS = 16, 256
"""Reductions of at most this many terms, and this many ops in total, are fully unrolled."""

Around: TypeAlias = tuple[Sequence[Value], Sequence[int]]
"""The indices and the extents of a stage's own loops around some code."""

AtPoint: TypeAlias = Callable[[Loops, Mapping[SSAValue, Value]], None]
"""Writes code at a point of a block, given its loops, and the values left by earlier stages."""


def write_loops(
    kernel: KernelOp, schedule: LoopsSchedule, code: Code, first: Value, last: Value, has_masks: bool
) -> None:
    """Writes a loop over the blocks of the tasks in [`first`, `last`).

    Args:
        kernel: The kernel.
        schedule: Its schedule.
        code: Where to write.
        first: The first task.
        last: The one after the last task.
        has_masks: Whether masked vectors are as fast as whole ones.
    """
    total = schedule.blocks_over(kernel.extents)
    start = first * schedule.blocks
    stop = last * schedule.blocks
    if total % schedule.blocks:
        stop = stop.at_most(total)

    top = code.block
    rows = Rows.of(kernel, top) if schedule.block == 1 else None

    def block(at: Value, _: Sequence[Value]) -> list[Value]:
        if rows is not None:
            _Points(kernel, code, grid_loops(at, kernel.extents), rows, has_masks).write()
        else:
            _Blocks(kernel, code, top, at, schedule, has_masks).write()
        return []

    code.loop_to(stop, [], block, start=start)


def _nest_of_reduction(
    code: Code,
    extents: Sequence[int],
    start: Sequence[Value],
    body: Callable[[list[Value], Sequence[Value]], Sequence[Value]],
    is_masked: bool,
) -> list[Value]:
    """Writes the loops of a reduction; if the innermost one is short, it uses masked vectors."""
    *outer, last = extents

    def innermost(positions: list[Value], held: Sequence[Value]) -> list[Value]:
        results = code.loop(last, held, lambda at, values: body([*positions, at], values))
        if is_masked:
            mark(code, PARALLEL, MASKED)
        return results

    return code.nest(outer, start, innermost)


def _is_masked(stage: GenericOp, loop: int, extent: int, has_masks: bool) -> bool:
    """Returns whether a loop of a stage uses masked vectors: if otherwise more iterations than vectors ran one by one.

    Where masked vectors are slow, only a loop that fills none uses them. They are if neighbouring iterations access
    elements that are no neighbours, which LLVM then gathers.
    """
    if extent < WIDEST:
        return True
    return has_masks and extent % WIDEST > extent // WIDEST and not _has_stride(stage, loop)


def _has_stride(stage: GenericOp, loop: int) -> bool:
    """Returns whether neighbouring iterations of a loop access elements of a buffer that are no neighbours."""
    extents = loop_extents(stage)
    places = [
        affine.linear_position(m.results, shape_of(buffer), extents)
        for buffer, m in zip(stage.operands, maps_of(stage), strict=True)
        if not is_shape_only(buffer)
    ]
    return any(factor != 1 and loop in atom.used_dims() for place in places for atom, factor in place.terms.items())


def _folded(code: Code, reductions: Sequence[Reduction], held: Sequence[Value], new: Sequence[Value]) -> list[Value]:
    """Returns the accumulators combined with one more value each; sums may be vectorized, products keep their order."""
    return [
        _combined(code, type(reduction.combine), x, y) for reduction, x, y in zip(reductions, held, new, strict=True)
    ]


def _combined(code: Code, kind: type[Operation], x: Value, y: Value) -> Value:
    if kind is arith.AddfOp:
        return code.make(kind, (x.ssa, y.ssa), x.type, REASSOCIATED)
    return code.apply(kind, x, y)


def _is_ordered(reduction: Reduction) -> bool:
    """Returns whether a loop carries an accumulator as an integer; see `extremes`."""
    return type(reduction.combine) in ORDERED and is_float(reduction.element)


def _started(code: Code, reductions: Sequence[Reduction]) -> list[Value]:
    """Returns the initial accumulators of a loop."""
    starts = [(reduction, code.constant(reduction.start(), reduction.element)) for reduction in reductions]
    return [ordered(type(reduction.combine), value) if _is_ordered(reduction) else value for reduction, value in starts]


def _carried_on(
    code: Code, reductions: Sequence[Reduction], held: Sequence[Value], new: Sequence[Value]
) -> list[Value]:
    """Returns a loop's accumulators with one more value folded in."""
    values: list[Value] = []
    for reduction, x, y in zip(reductions, held, new, strict=True):
        kind = type(reduction.combine)
        if _is_ordered(reduction):
            values.append(code.apply(ORDERED[kind], x, ordered(kind, y)))
        else:
            values.append(_combined(code, kind, x, y))
    return values


def _finished(reductions: Sequence[Reduction], held: Sequence[Value]) -> list[Value]:
    """Returns the results of a loop's accumulators."""
    return [
        as_float(value, cast("AnyFloat", reduction.element)) if _is_ordered(reduction) else value
        for reduction, value in zip(reductions, held, strict=True)
    ]


@dataclass(frozen=True)
class Rows:
    """Rows of values that stages keep for later ones, in scratch memory.

    Attributes:
        kept: The kept values.
        arrays: The memory of each array.
    """

    kept: Kept
    arrays: Sequence[SSAValue]

    @staticmethod
    def of(kernel: KernelOp, top: Block) -> Rows:
        """Returns the kept rows of a kernel, with memory allocated at the start of a block."""
        kept = kept_values(kernel)
        return Rows(kept, [new_array(top, element, extent) for element, extent in kept.arrays])

    def load(self, code: Code, stage: GenericOp, at: Callable[[], Value]) -> dict[SSAValue, SSAValue]:
        """Returns the kept values that a stage loads, at a position in the row."""
        loaded = self.kept.loaded.get(stage, {})
        return {value: code.element(self.arrays[array], at()).ssa for value, array in loaded.items()}

    def store(self, code: Code, stage: GenericOp, at: Callable[[], Value], env: Mapping[SSAValue, SSAValue]) -> None:
        """Stores the values that later stages load."""
        for value, array in self.kept.stored.get(stage, {}).items():
            code.put(code.value(env[value]), self.arrays[array], at())


class _Points:
    """Writes the stages point by point, with each stage's own loops innermost."""

    def __init__(self, kernel: KernelOp, code: Code, point: Loops, rows: Rows, has_masks: bool):
        self.kernel, self.code, self.point, self.rows, self.has_masks = kernel, code, point, rows, has_masks
        self.known: dict[SSAValue, Value] = {}

    def write(self) -> None:
        """Writes all stages."""
        for stage in self.kernel.stages:
            own, reduced = own_loops(self.kernel, stage)
            if not own:
                values = self._values(self.code, stage, [], [], reduced)
                self.known.update(zip(stage.outputs, values, strict=True))
                continue
            self._over(stage, own, reduced)

    def _over(self, stage: GenericOp, own: Sequence[int], reduced: Sequence[int]) -> None:
        """Writes a stage with parallel loops of its own."""

        code, rank = self.code, len(self.kernel.extents)
        groups = merged_loops(stage, rank, own)
        *outer, last = map(math.prod, groups)

        def inside(positions: list[Value], _: Sequence[Value]) -> list[Value]:
            def innermost(at: Value) -> None:
                self._values(code, stage, [*positions, at], groups, reduced)

            parallel(code, code.number(last), None, innermost, self._is_masked(stage, rank + len(own) - 1, last))
            return []

        code.nest(outer, [], inside)

    def _values(
        self, code: Code, stage: GenericOp, at: Sequence[Value], own: Sequence[Sequence[int]], reduced: Sequence[int]
    ) -> list[Value]:
        """Computes, stores and returns a stage's results at a point, and at indices of groups of its parallel loops."""
        loops = self.point.with_merged(at, own)
        if not reduced:
            env = self._operands(code, stage, loops, at, own)
            values = clone_body(code, stage.body.block, env, loops)
            self.rows.store(code, stage, lambda: _place(at, own), env)
        else:
            reductions, rank = reductions_of(stage), len(loop_extents(stage))
            groups = merged_loops(stage, rank - len(reduced), reduced)

            def body(positions: list[Value], held: Sequence[Value]) -> list[Value]:
                places, around = [*at, *positions], [*own, *groups]
                inside = loops.with_merged(positions, groups)
                env = self._operands(code, stage, inside, places, around)
                new = values_to_fold(code, stage, env, inside)
                self.rows.store(code, stage, lambda: _place(places, around), env)
                return _carried_on(code, reductions, held, new)

            extents = list(map(math.prod, groups))
            is_masked = self._is_masked(stage, rank - 1, extents[-1])
            values = _nest_of_reduction(code, extents, _started(code, reductions), body, is_masked)
            values = _finished(reductions, values)
        store_outputs(self.kernel, stage, code, loops, values)
        return values

    def _is_masked(self, stage: GenericOp, loop: int, extent: int) -> bool:
        return extent >= FEWEST and _is_masked(stage, loop, extent, self.has_masks)

    def _operands(
        self, code: Code, stage: GenericOp, loops: Loops, at: Sequence[Value], groups: Sequence[Sequence[int]]
    ) -> dict[SSAValue, SSAValue]:
        """Returns the already known values of a stage's body."""
        env = stage_env(code, stage, loops, self.known)
        return env | self.rows.load(code, stage, lambda: _place(at, groups))


def _place(at: Sequence[Value], groups: Sequence[Sequence[int]]) -> Value:
    """Returns the row-major position, in an array over groups of loops, of the iteration of each group."""
    result = at[0]
    for index, extents in zip(at[1:], groups[1:], strict=True):
        result = result * math.prod(extents) + index
    return result


class _Blocks:
    """Writes the stages over a block of points along the grid's last loops, which are innermost in every stage, as one.

    Values that a later stage reads, and the sums of a reduction, are kept in arrays over the block.
    """

    def __init__(
        self, kernel: KernelOp, code: Code, top: Block, number: Value, schedule: LoopsSchedule, has_masks: bool
    ):
        self.kernel, self.code, self.top, self.has_masks = kernel, code, top, has_masks
        self.block = block = schedule.block
        outer, self.along = schedule.split(kernel.extents)
        last = math.prod(self.along)
        count = -(-last // block)
        self.start, self.stop = code.number(0), code.number(last)
        total = math.prod(outer)
        row = number
        if count > 1:
            row = number % total if schedule.turned else number // count
            self.start = (number // total if schedule.turned else number % count) * block
            end = self.start + block
            self.stop = end.at_most(last) if last % block else end
        expressions = affine.delinearized(AffineDimExpr(0), outer)
        self.around = tuple(affine.linear(expression, [total]).expression() for expression in expressions)
        self.row, self.rows = row, total
        self.kept: dict[SSAValue, SSAValue] = {}

    def write(self) -> None:
        """Writes all stages."""
        code = self.code
        for stage in self.kernel.stages:
            own, reduced = own_loops(self.kernel, stage)
            if reduced:
                code.nest(
                    own, [], lambda positions, _, s=stage, o=own, r=reduced: self._reduce(code, s, positions, o, r)
                )
            elif own:
                code.nest(own, [], lambda positions, _, s=stage, o=own: self._compute(code, s, positions, o))
            else:
                self._keep(stage)
                self._compute(code, stage, [], [])

    def _keep(self, stage: GenericOp) -> None:
        """Allocates arrays for those results of a stage that later stages read."""
        read = {buffer for other in self.kernel.stages for buffer in other.inputs}
        self.kept.update({output: self._array(element_of(output)) for output in stage.outputs if output in read})

    def _array(self, element: Attribute) -> SSAValue:
        """Returns a new array over the block, which is reused by all blocks of a range of tasks."""
        return new_array(self.top, element, self.block)

    def _each(self, code: Code, stage: GenericOp, around: Sequence[Value], own: Sequence[int], body: AtPoint) -> None:
        """Writes a loop over the points of the block, at one iteration of a stage's own loops."""
        arrays = {buffer: self.kept[buffer] for buffer in stage.inputs if buffer in self.kept}

        def at_point(at: Value) -> None:
            row = Loops((self.row,), (self.rows,), self.around)
            loops = strided(row, at, self.along).with_own(around, own)
            place = self._place(at)
            body(loops, {buffer: code.element(array, place) for buffer, array in arrays.items()})

        parallel(
            code,
            self.stop,
            self.start,
            at_point,
            _is_masked(stage, len(self.kernel.extents) - 1, self.block, self.has_masks),
        )

    def _place(self, at: Value) -> Value:
        """Returns a point's position in an array over the block."""
        return at - self.start

    def _compute(self, code: Code, stage: GenericOp, positions: Sequence[Value], own: Sequence[int]) -> list[Value]:
        """Writes a stage without a reduction."""

        def body(loops: Loops, known: Mapping[SSAValue, Value]) -> None:
            values = stage_values(code, stage, loops, known)
            self._finish(code, stage, loops, values)

        self._each(code, stage, positions, own, body)
        return []

    def _finish(self, code: Code, stage: GenericOp, loops: Loops, values: Sequence[Value]) -> None:
        """Stores a stage's results at a point, and keeps those that a later one reads."""
        store_outputs(self.kernel, stage, code, loops, list(values))
        for output, value in zip(stage.outputs, values, strict=True):
            if output in self.kept:
                code.put(value, self.kept[output], self._place(loops.bases[1]))

    def _reduce_unrolled(
        self, code: Code, stage: GenericOp, positions: Sequence[Value], own: Sequence[int], reduced: Sequence[int]
    ) -> list[Value]:
        """Writes a reduction of few terms: they are unrolled, and folded in registers."""
        reductions = reductions_of(stage)
        if not own:
            self._keep(stage)

        def body(loops: Loops, known: Mapping[SSAValue, Value]) -> None:
            held = [code.constant(reduction.start(), reduction.element) for reduction in reductions]
            for term in itertools.product(*map(range, reduced)):
                constants = tuple(AffineConstantExpr(index) for index in term)
                there = replace(loops, expressions=(*loops.expressions, *constants))
                held = _folded(code, reductions, held, reduced_values(code, stage, there, known))
            self._finish(code, stage, loops, held)

        self._each(code, stage, positions, own, body)
        return []

    def _reduce(
        self, code: Code, stage: GenericOp, positions: Sequence[Value], own: Sequence[int], reduced: Sequence[int]
    ) -> list[Value]:
        """Writes a reduction at one point of its own parallel loops: accumulators are in an array over the block."""
        if math.prod(reduced) <= UNROLLED_TERMS and math.prod(reduced) * len(stage.body.block.ops) <= UNROLLED_OPS:
            return self._reduce_unrolled(code, stage, positions, own, reduced)
        memory = self._accumulators(stage, positions, own)
        sums = memory.new()

        def finish(loops: Loops, _: Mapping[SSAValue, Value]) -> None:
            place = self._place(loops.bases[1])
            store_outputs(self.kernel, stage, code, loops, [code.element(array, place) for array in sums])

        memory.clear(sums)
        self._fold(stage, memory, sums, (positions, own), reduced)
        if not own:
            self.kept.update(zip(stage.outputs, sums, strict=True))
        self._each(code, stage, positions, own, finish)
        return []

    def _accumulators(self, stage: GenericOp, positions: Sequence[Value], own: Sequence[int]) -> Accumulators:
        """Returns how to write accumulators of a reduction, one for each point of the block."""
        code, reductions = self.code, reductions_of(stage)

        def clear(sums: Sequence[SSAValue]) -> None:
            def begin(loops: Loops, _: Mapping[SSAValue, Value]) -> None:
                for array, reduction in zip(sums, reductions, strict=True):
                    code.put(code.constant(reduction.start(), reduction.element), array, self._place(loops.bases[1]))

            self._each(code, stage, positions, own, begin)

        def merge(into: Sequence[SSAValue], part: Sequence[SSAValue]) -> None:
            def add(loops: Loops, _: Mapping[SSAValue, Value]) -> None:
                place = self._place(loops.bases[1])
                self._combine(code, reductions, into, loops, [code.element(array, place) for array in part])

            self._each(code, stage, positions, own, add)

        return Accumulators(lambda: [self._array(reduction.element) for reduction in reductions], clear, merge)

    def _combine(
        self, code: Code, reductions: Sequence[Reduction], sums: Sequence[SSAValue], loops: Loops, new: Sequence[Value]
    ) -> None:
        """Folds one more value into each accumulator of a point."""
        place = self._place(loops.bases[1])
        held = [code.element(array, place) for array in sums]
        for array, value in zip(sums, _folded(code, reductions, held, new), strict=True):
            code.put(value, array, place)

    def _fold(
        self, stage: GenericOp, memory: Accumulators, into: Sequence[SSAValue], around: Around, reduced: Sequence[int]
    ) -> None:
        """Writes the loops of a reduction over `reduced` extents, which fold into accumulators; long sums in blocks."""
        code, reductions = self.code, reductions_of(stage)
        positions, extents = around
        if not reduced:

            def fold(loops: Loops, known: Mapping[SSAValue, Value]) -> None:
                self._combine(code, reductions, into, loops, reduced_values(code, stage, loops, known))

            self._each(code, stage, positions, extents, fold)
            return
        extent, *rest = reduced
        terms = math.prod(rest)
        is_cut = is_summed(reductions) and extent * terms > MOST_TERMS
        is_apart = is_cut and terms > MOST_TERMS // 4

        def iterations(low: Value | None, high: Value, sums: Sequence[SSAValue]) -> None:
            part = memory.new() if is_apart else sums

            def iteration(at: Value, _: Sequence[Value]) -> list[Value]:
                if is_apart:
                    memory.clear(part)
                self._fold(stage, memory, part, ([*positions, at], [*extents, extent]), rest)
                if is_apart:
                    memory.merge(sums, part)
                return []

            code.loop_to(high, [], iteration, start=low)

        widths = block_widths(extent, *((1, MOST_BLOCKS) if is_apart else (terms,))) if is_cut else ()
        if widths:
            fold_in_blocks(code, code.number(0), code.number(extent), widths, memory, into, iterations, extent)
        else:
            iterations(None, code.number(extent), into)
