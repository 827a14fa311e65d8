"""Merges two kernels into one over the first's grid."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import LocationAttr, UnknownLoc
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from tensorgrad.dialects.buf import element_of, parts_of
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.stages import Parts, Stage, new_local
from tensorgrad.passes.analyses.storage import Accesses
from tensorgrad.passes.buffers.fuse.inline import inverse


def aligned_loops(first: Parts, second: Parts) -> list[int] | None:
    """Returns which loop of `second`'s grid each loop of `first`'s grid is, from how `second` reads `first`'s outputs.

    `None` if a read is not at the grid point, or at a computed index.
    """
    written = {output: _placement(first, output) for output in first.outputs}
    parts = {part for output in first.outputs for part in parts_of(output)}
    if any(part in parts for value in second.inputs if value not in written for part in parts_of(value)):
        return None  # the points of a row differ from those of its parts
    grid, result = second.grid, None
    for stage in second.stages:
        if any(load.memref in written for load in stage.loads()):
            return None
        for buffer, m in (*stage.reads, *stage.writes):
            if buffer not in written:
                continue
            back = written[buffer]
            if back is None:
                return None
            loops = [_plain(expression, m, len(grid)) for expression in back]
            if any(loop is None for loop in loops) or len(set(loops)) != len(loops):
                return None
            if result is not None and loops != result:
                return None
            result = loops
    if result is None:
        result = list(range(len(first.grid))) if first.grid == grid[: len(first.grid)] else None
    if result is None or [grid[loop] for loop in result if loop is not None] != list(first.grid):
        return None
    return [loop for loop in result if loop is not None]


def _placement(kernel: Parts, output: SSAValue) -> list[AffineExpr] | None:
    """Returns each grid loop as an expression of the index at which a kernel writes an output."""
    rank = len(kernel.grid)
    for stage in kernel.stages:
        for buffer, m in stage.writes:
            if buffer is output:
                used = {r.position for r in m.results if isinstance(r, AffineDimExpr)}
                return None if any(loop >= rank for loop in used) else inverse(AffineMap(rank, 0, m.results))
    return None


def _plain(expression: AffineExpr, m: AffineMap, rank: int) -> int | None:
    """Returns the grid loop that an index expression is under a map."""
    if not isinstance(expression, AffineDimExpr):
        return None
    result = m.results[expression.position]
    return result.position if isinstance(result, AffineDimExpr) and result.position < rank else None


def merge(first: Parts, second: Parts, loops: Sequence[int], private: Sequence[SSAValue]) -> Parts:
    """Returns one kernel that runs `first`'s stages and then `second`'s, over `first`'s grid.

    Args:
        first: Runs first; its stages are taken.
        second: Runs after it; its stages are taken and changed.
        loops: Which loop of `second`'s grid each of `first`'s is. Other loops of `second` become the stages' own.
        private: Outputs of `first` that only `second` reads: they become locals.
    """
    rank = len(second.grid)
    rest = [loop for loop in range(rank) if loop not in loops]
    order = [*loops, *rest]
    for stage in second.stages:
        if order != list(range(rank)):
            extents = [*(stage.extents[loop] for loop in order), *stage.extents[rank:]]
            stage.reindexed(_permutation(order, len(stage.extents)), extents, stage.own)
        stage.own = (*(IteratorType.PARALLEL for _ in rest), *stage.own)
    location = first.location or UnknownLoc()
    local = list(second.locals)
    if list(loops) != list(range(len(loops))):
        local = [_placed(value, second.stages, first, location) for value in local]
    made: list[SSAValue] = []
    for value in private:
        one = new_local(first.grid, element_of(value), location)
        _rename((*first.stages, *second.stages), value, one, len(first.grid))
        made.append(one)
    outputs = [*(value for value in first.outputs if value not in private), *second.outputs]
    stages = [*first.stages, *second.stages]
    return Parts(first.grid, stages, outputs, [*first.locals, *made, *local], second.location)


def merged_accesses(first: Parts, second: Parts, loops: Sequence[int]) -> list[Accesses]:
    """Returns the buffers that the stages of both would touch as one kernel."""
    rank = len(second.grid)
    order = [*loops, *(loop for loop in range(rank) if loop not in loops)]
    result = [stage.accesses() for stage in first.stages]
    for stage in second.stages:
        found = stage.accesses()
        if order != list(range(rank)):
            old = AffineMap(len(stage.extents), 0, tuple(_permutation(order, len(stage.extents))))
            extents = [*(stage.extents[loop] for loop in order), *stage.extents[rank:]]
            reads, writes = (
                [(buffer, affine.composed(m, old, extents)) for buffer, m in places]
                for places in (found.reads, found.writes)
            )
            found = Accesses(reads, writes, found.loads)
        result.append(found)
    return result


def _permutation(order: Sequence[int], rank: int) -> list[AffineExpr]:
    """Returns the renumbering of loops: those of the grid in a new order, the others unchanged."""
    new: list[AffineExpr] = [AffineDimExpr(loop) for loop in range(rank)]
    for position, loop in enumerate(order):
        new[loop] = AffineDimExpr(position)
    return new


def _placed(value: SSAValue, stages: Sequence[Stage], like: Parts, location: LocationAttr) -> SSAValue:
    """Returns a local that replaces `value`, with the shape of another grid, whose loops the stages now have."""
    local = new_local(like.grid, element_of(value), location)
    _rename(stages, value, local, len(like.grid))
    return local


def _rename(stages: Sequence[Stage], old: SSAValue, new: SSAValue, rank: int) -> None:
    """Replaces an output with a local, indexed by the grid point."""
    for stage in stages:
        at = AffineMap(len(stage.extents), 0, tuple(AffineDimExpr(loop) for loop in range(rank)))
        stage.reads = [(new, at) if buffer is old else (buffer, m) for buffer, m in stage.reads]
        stage.writes = [(new, at) if buffer is old else (buffer, m) for buffer, m in stage.writes]
