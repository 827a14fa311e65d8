"""Pointwise and row kernels: a thread a grid point, or a workgroup a grid point."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr

from tensorgrad.dialects import wgsl
from tensorgrad.dialects.buf import KernelOp, iterators_of, loop_extents, maps_of
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.kernels.lower_buf_to_wgsl.emission import (
    Code,
    Loops,
    Reduction,
    grid_loops,
    reduced_values,
    reductions_of,
    stage_values,
)


def thread_a_point(kernel: KernelOp, code: Code, lanes: int) -> None:
    """Each thread takes one point of the grid and runs the stages one behind the other.

    A workgroup has `lanes` threads; the dispatch may be folded into two dimensions.
    """
    total = math.prod(kernel.extents)

    def stages(inner: Code, point: SSAValue) -> None:
        loops = grid_loops(point, kernel.extents)
        known: dict[SSAValue, SSAValue] = {}
        for stage in kernel.stages:
            _run_in_thread(kernel, stage, inner, loops, known)

    at_point(code, total, lanes, stages)


def at_point(code: Code, total: int, lanes: int, body: Callable[[Code, SSAValue], None]) -> None:
    """Runs `body` with the thread's number, in threads below `total`."""
    if code.frame.number is not None:
        start = code.index_op(arith.MuliOp, code.frame.number, lanes)
        point = code.index_op(arith.AddiOp, start, code.add(wgsl.LocalIndexOp()))
        if total % lanes:
            code.when(code.below(point, total), lambda inner: body(inner, point))
        else:
            body(code, point)
        return
    width = code.frame.groups[0] * lanes
    x = code.add(wgsl.GlobalIdOp(0))
    folded = code.index_op(arith.MuliOp, code.add(wgsl.GlobalIdOp(1)), width)
    point = code.index_op(arith.AddiOp, x, folded) if width < total else x
    outside = code.add(arith.CmpiOp(point, code.number(total), "uge"))
    code.block.add_op(wgsl.ReturnIfOp(outside))
    body(code, point)


def _run_in_thread(
    kernel: KernelOp, stage: GenericOp, code: Code, loops: Loops, known: dict[SSAValue, SSAValue]
) -> None:
    rank = len(kernel.extents)
    own, kinds = loop_extents(stage)[rank:], iterators_of(stage)[rank:]
    parallel = [extent for extent, kind in zip(own, kinds, strict=True) if kind == IteratorType.PARALLEL]
    reduced = list(own[len(parallel) :])

    def finish(inner: Code, here: Loops) -> None:
        values = _reduce(inner, stage, here, reduced, known) if reduced else stage_values(inner, stage, here, known)
        write(kernel, stage, inner, here, values)
        if not parallel:
            known.update(zip(stage.outputs, values, strict=True))

    if not parallel:
        finish(code, loops)
        return

    def body(inner: Code, found: list[SSAValue], _: object) -> list[SSAValue]:
        finish(inner, loops.with_own(found, parallel))
        return []

    code.nest(parallel, [], body)


def _reduce(
    code: Code, stage: GenericOp, loops: Loops, reduced: list[int], known: dict[SSAValue, SSAValue]
) -> list[SSAValue]:
    reductions = reductions_of(stage)
    start = [code.scalar(one.start(), one.element) for one in reductions]

    def body(inner: Code, found: list[SSAValue], held: Sequence[SSAValue]) -> list[SSAValue]:
        return folded(inner, reductions, held, reduced_values(inner, stage, loops.with_own(found, reduced), known))

    return code.nest(reduced, start, body)


def folded(
    code: Code, reductions: Sequence[Reduction], held: Sequence[SSAValue], values: Sequence[SSAValue]
) -> list[SSAValue]:
    """The accumulators with one more value each."""
    return [code.combine(type(one.combine), old, new) for one, old, new in zip(reductions, held, values, strict=True)]


def write(kernel: KernelOp, stage: GenericOp, code: Code, loops: Loops, values: list[SSAValue]) -> None:
    """Stores what a stage yields into those of its outputs that outlive the kernel."""
    maps = maps_of(stage)[len(stage.inputs) :]
    for output, m, value in zip(stage.outputs, maps, values, strict=True):
        if output in kernel.output_arguments:
            code.store(value, output, m.results, loops)


def group_a_point(kernel: KernelOp, code: Code, lanes: int) -> None:
    """Each workgroup takes one point; its lanes share the stages' own loops and fold through workgroup memory."""
    row = code.group(0)
    lane = code.add(wgsl.LocalIndexOp())
    loops = grid_loops(row, kernel.extents)
    known: dict[SSAValue, SSAValue] = {}
    first = code.add(arith.CmpiOp(lane, code.number(0), "eq"))
    rank = len(kernel.extents)
    for stage in kernel.stages:
        own = loop_extents(stage)[rank:]
        if not own:
            values = stage_values(code, stage, loops, known)
            known.update(zip(stage.outputs, values, strict=True))
            if updates_in_place(kernel, stage, code):
                code.block.add_op(wgsl.BarrierOp(storage=True))  # every lane has read the old value before one writes
            code.when(first, lambda c, s=stage, v=values: write(kernel, s, c, loops, v))
        elif IteratorType.REDUCTION in iterators_of(stage)[rank:]:
            values = _fold_in_group(code, stage, loops, list(own), known, lane, lanes)
            known.update(zip(stage.outputs, values, strict=True))
            code.when(first, lambda c, s=stage, v=values: write(kernel, s, c, loops, v))
        else:
            if updates_in_place(kernel, stage, code):
                code.block.add_op(wgsl.BarrierOp(storage=True))  # other lanes may have read what this one writes
            _share_in_group(kernel, code, stage, loops, list(own), known, lane, lanes)


def updates_in_place(kernel: KernelOp, stage: GenericOp, code: Code) -> bool:
    """Whether a stage writes a buffer that the kernel reads as well."""
    read = {code.bindings[argument].memory for argument in kernel.input_arguments}
    return any(code.bindings[o].memory in read for o in stage.outputs if o in kernel.output_arguments)


def strided(loops: Loops, at: SSAValue, own: list[int]) -> Loops:
    """A stage's loops with its own ones from one index over all of them."""
    total = math.prod(own)
    base = AffineDimExpr(len(loops.bases))
    extents = (*loops.extents, total)
    expressions = [affine.linear(e, extents).expression() for e in affine.delinearized(base, own)]
    return Loops((*loops.bases, at), extents, (*loops.expressions, *expressions))


def _share_in_group(
    kernel: KernelOp,
    code: Code,
    stage: GenericOp,
    loops: Loops,
    own: list[int],
    known: dict[SSAValue, SSAValue],
    lane: SSAValue,
    lanes: int,
) -> None:
    def body(inner: Code, at: SSAValue, _: object) -> list[SSAValue]:
        here = strided(loops, at, own)
        write(kernel, stage, inner, here, stage_values(inner, stage, here, known))
        return []

    code.loop(math.prod(own), [], body, start=lane, step=lanes)


def _fold_in_group(
    code: Code,
    stage: GenericOp,
    loops: Loops,
    own: list[int],
    known: dict[SSAValue, SSAValue],
    lane: SSAValue,
    lanes: int,
) -> list[SSAValue]:
    reductions = reductions_of(stage)
    start = [code.scalar(one.start(), one.element) for one in reductions]

    def body(inner: Code, at: SSAValue, held: Sequence[SSAValue]) -> list[SSAValue]:
        return folded(inner, reductions, held, reduced_values(inner, stage, strided(loops, at, own), known))

    partial = code.loop(math.prod(own), start, body, start=lane, step=lanes)
    return fold_lanes(code, reductions, partial, lane, lanes)


def fold_lanes(
    code: Code, reductions: Sequence[Reduction], partial: Sequence[SSAValue], lane: SSAValue, lanes: int
) -> list[SSAValue]:
    """What all lanes of a workgroup have, folded through its memory by halves."""
    shared: list[SSAValue] = []
    for one, value in zip(reductions, partial, strict=True):
        memory = code.frame.array(code, MemRefType(one.element, [lanes]))
        code.put(value, memory, lane)
        shared.append(memory)
    width = lanes // 2
    while width:
        code.block.add_op(wgsl.BarrierOp())

        def fold(inner: Code, width: int = width) -> None:
            for one, memory in zip(reductions, shared, strict=True):
                mine = inner.element(memory, lane)
                other = inner.element(memory, inner.index_op(arith.AddiOp, lane, width))
                both = inner.combine(type(one.combine), mine, other)
                inner.put(both, memory, lane)

        code.when(code.below(lane, width), fold)
        width //= 2
    code.block.add_op(wgsl.BarrierOp())
    return [code.element(memory, code.number(0)) for memory in shared]
