"""Merges two kernels into one over the first's grid."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import LocationAttr
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from tensorgrad.dialects.buf import KernelOp, element_of, maps_of
from tensorgrad.passes.fuse.inline import inverse
from tensorgrad.passes.kernels.stages import Parts, Stage, new_local, put_together, take_apart


def aligned_loops(first: KernelOp, second: KernelOp) -> list[int] | None:
    """Which loop of `second`'s grid each loop of `first`'s grid is, by how `second` reads what `first` writes.

    `None` when some read is at another point than the grid's, or at a computed index.
    """
    written = {output: _placement(first, output) for output in first.outputs}
    shared = [(i, value) for i, value in enumerate(second.inputs) if value in written]
    grid, result = second.extents, None
    for position, value in shared:
        back = written[value]
        argument = second.body.block.args[position]
        if back is None or any(use.operation.name == "memref.load" for use in argument.uses):
            return None
        for stage in second.stages:
            for operand, m in zip(stage.operands, maps_of(stage), strict=True):
                if operand is not argument:
                    continue
                loops = [_plain(expression, m, len(grid)) for expression in back]
                if any(loop is None for loop in loops) or len(set(loops)) != len(loops):
                    return None
                if result is not None and loops != result:
                    return None
                result = loops
    if result is None:
        result = list(range(len(first.extents))) if first.extents == grid[: len(first.extents)] else None
    if result is None or [grid[loop] for loop in result if loop is not None] != list(first.extents):
        return None
    return [loop for loop in result if loop is not None]


def _placement(kernel: KernelOp, output: SSAValue) -> list[AffineExpr] | None:
    """Each grid loop as an expression of the index at which a kernel writes an output."""
    argument = kernel.output_arguments[list(kernel.outputs).index(output)]
    rank = len(kernel.extents)
    for stage in kernel.stages:
        for operand, m in zip(stage.operands, maps_of(stage), strict=True):
            if operand is argument and operand in stage.outputs:
                plain = AffineMap(rank, 0, m.results)
                used = {r.position for r in m.results if isinstance(r, AffineDimExpr)}
                return None if any(loop >= rank for loop in used) else inverse(plain)
    return None


def _plain(expression: AffineExpr, m: AffineMap, rank: int) -> int | None:
    """The grid loop that an index expression comes to under a map."""
    if not isinstance(expression, AffineDimExpr):
        return None
    result = m.results[expression.position]
    return result.position if isinstance(result, AffineDimExpr) and result.position < rank else None


def merge(first: KernelOp, second: KernelOp, loops: Sequence[int], private: Sequence[SSAValue]) -> KernelOp:
    """One kernel that runs `first`'s stages and then `second`'s, over `first`'s grid.

    Args:
        first: Runs first; it is taken apart.
        second: Runs behind it; it is taken apart.
        loops: Which loop of `second`'s grid each of `first`'s is. Loops of `second` that are none of these become the
            stages' own.
        private: Outputs of `first` that only `second` reads: they become locals.

    Returns:
        The new kernel, not in a block yet.
    """
    a, b = take_apart(first), take_apart(second)
    rank = len(b.grid)
    rest = [loop for loop in range(rank) if loop not in loops]
    for stage in b.stages:
        _permute(stage, [*loops, *rest], rank)
        stage.own = (*(IteratorType.PARALLEL for _ in rest), *stage.own)
    parts = a
    if list(loops) != list(range(len(loops))):
        b.locals = [_placed(value, b.stages, a, first.location) for value in b.locals]
    for value in private:
        local = new_local(a.grid, element_of(value), first.location)
        _rename(a.stages, value, local, len(a.grid))
        _rename(b.stages, value, local, len(a.grid))
        parts.locals.append(local)
        parts.outputs.remove(value)
    parts.stages += b.stages
    parts.outputs += b.outputs
    parts.locals += b.locals
    parts.location = second.location
    return put_together(parts)


def _placed(value: SSAValue, stages: Sequence[Stage], like: Parts, location: LocationAttr) -> SSAValue:
    """A local in place of `value`, with the shape of another grid, whose loops the stages have taken over."""
    local = new_local(like.grid, element_of(value), location)
    _rename(stages, value, local, len(like.grid))
    return local


def _permute(stage: Stage, order: Sequence[int], rank: int) -> None:
    """Puts the grid's loops into a new order; those behind the new grid become the stage's own, in front."""
    own = len(stage.extents) - rank
    new: list[AffineExpr] = [AffineConstantExpr(0)] * len(stage.extents)
    for position, loop in enumerate(order):
        new[loop] = AffineDimExpr(position)
    for loop in range(rank, rank + own):
        new[loop] = AffineDimExpr(loop)
    extents = [*(stage.extents[loop] for loop in order), *stage.extents[rank:]]
    if list(order) != list(range(rank)):
        stage.reindexed(new, extents, stage.own)


def _rename(stages: Sequence[Stage], old: SSAValue, new: SSAValue, rank: int) -> None:
    """Replaces an output by a local, whose index is the grid point."""
    for stage in stages:
        at = AffineMap(len(stage.extents), 0, tuple(AffineDimExpr(loop) for loop in range(rank)))
        stage.reads = [(new, at) if buffer is old else (buffer, m) for buffer, m in stage.reads]
        stage.writes = [(new, at) if buffer is old else (buffer, m) for buffer, m in stage.writes]
