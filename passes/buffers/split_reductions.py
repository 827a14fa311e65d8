"""The pass `split-reductions`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import KernelOp, element_of, is_reduction, iterators_of, loop_extents
from tensorgrad.passes.analyses.identity import by_structure
from tensorgrad.passes.analyses.kinds import is_in_order
from tensorgrad.passes.analyses.stages import Parts, Stage, fold_of, put_together, take_apart
from tensorgrad.passes.analyses.walking import operations
from tensorgrad.passes.buffers.schedule.splits import split_of
from tensorgrad.passes.levels import KERNELS, LevelPass
from tensorgrad.runtime.target import WEBGPU_DEFAULT, Target


@dataclass(frozen=True)
class SplitReductionsPass(LevelPass):
    """Splits long reductions with few results into two kernels, so that more workgroups share the work.

    Expects functions of `buf` between `fuse` and `schedule`. Guarantees the same results up to the order of the same
    additions, which is fixed. It applies where a kernel's results keep few workgroups busy and each is reduced from
    many values (the gradient of a convolution's weights, the mean of a whole tensor). The first kernel reduces ranges
    of one of the loops into a buffer, with the range as an additional grid loop. The second reduces the ranges and runs
    the kernel's other stages.

    Attributes:
        target: The device, software or GPU, which determines how many workgroups keep it busy.
        parts: The number of ranges into which the first divisible loop is cut, whatever the gain; 0 decides by cost.
    """

    name = "split-reductions"
    levels = KERNELS

    target: Target = WEBGPU_DEFAULT
    parts: int = 0

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        if self.parts < 0:
            raise DiagnosticException(f"{self.name}: parts must be at least 0, got {self.parts}")
        chosen = by_structure(lambda kernel: split_of(kernel, self.target))
        for kernel in list(operations(op.body.block)):
            if isinstance(kernel, KernelOp) and is_splittable(kernel):
                loop_and_parts = chosen(kernel) if self.parts == 0 else _any_loop(kernel, self.parts)
                if loop_and_parts is not None:
                    split(kernel, *loop_and_parts)


def is_splittable(kernel: KernelOp) -> bool:
    """Returns whether only a kernel's first stage has loops besides the grid's, all of them reductions in any order."""
    rank, stages = len(kernel.extents), kernel.stages
    if kernel.single is not None or kernel.schedule is not None or not stages or not is_reduction(stages[0]):
        return False
    if is_in_order(stages[0]) or any(len(iterators_of(stage)) > rank for stage in stages[1:]):
        return False
    return all(kind == IteratorType.REDUCTION for kind in iterators_of(stages[0])[rank:])


def _any_loop(kernel: KernelOp, parts: int) -> tuple[int, int] | None:
    """Returns the first reduction loop whose extent is a larger multiple of `parts`, with `parts`."""
    own = loop_extents(kernel.stages[0])[len(kernel.extents) :]
    return next(((loop, parts) for loop, extent in enumerate(own) if extent % parts == 0 and extent > parts), None)


def split(kernel: KernelOp, loop: int, count: int) -> None:
    """Replaces a kernel with two.

    Args:
        kernel: A kernel for which `is_splittable` holds.
        loop: The index of the reduction loop to cut, among the first stage's own loops.
        count: The number of ranges, which divides the loop's extent.
    """
    block = kernel.parent
    assert block is not None
    parts = take_apart(kernel)
    partial: list[SSAValue] = []
    for buffer, _ in parts.stages[0].writes:
        alloc = memref.AllocOp.get(element_of(buffer), shape=[count, *parts.grid])
        alloc.location = kernel.location
        assert block.first_op is not None
        block.insert_op_before(alloc, block.first_op)
        partial.append(alloc.memref)
    first, second = _halves(parts, loop, count, partial)
    for half in (first, second):
        block.insert_op_before(put_together(half), kernel)
    Rewriter.erase_op(kernel)


def _halves(parts: Parts, loop: int, count: int, partial: Sequence[SSAValue]) -> tuple[Parts, Parts]:
    stage, rank = parts.stages[0], len(parts.grid)
    outputs = list(stage.writes)
    fold = fold_of(stage)
    extents = [count, *stage.extents]
    extents[1 + rank + loop] //= count
    loops: list[AffineExpr] = [AffineDimExpr(1 + i) for i in range(len(stage.extents))]
    loops[rank + loop] = AffineDimExpr(0) * extents[1 + rank + loop] + AffineDimExpr(1 + rank + loop)
    stage.reindexed(loops, extents, stage.own)
    place = AffineMap(len(extents), 0, tuple(AffineDimExpr(i) for i in range(1 + rank)))
    stage.writes = [(buffer, place) for buffer in partial]
    first = Parts((count, *parts.grid), [stage], list(partial), [], parts.location)
    at = AffineMap(rank + 1, 0, (AffineDimExpr(rank), *(AffineDimExpr(i) for i in range(rank))))
    whole = Stage(
        [(buffer, at) for buffer in partial],
        [(buffer, AffineMap(rank + 1, 0, m.results)) for buffer, m in outputs],
        (*parts.grid, count),
        (IteratorType.REDUCTION,),
        fold,
        stage.location,
    )
    return first, Parts(parts.grid, [whole, *parts.stages[1:]], parts.outputs, parts.locals, parts.location)
