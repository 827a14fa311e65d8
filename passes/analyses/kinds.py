"""Classification of kernels and stages: reductions, contractions, pointwise."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects import arith
from xdsl.dialects.linalg.ops import GenericOp

from tensorgrad.dialects.buf import KernelOp, is_reduction
from tensorgrad.passes.analyses.axes import loops_of_operands


def contraction_of(kernel: KernelOp) -> GenericOp | None:
    """Returns the stage of a kernel that reuses its operands, such as a matrix product or a convolution."""
    for stage in kernel.stages:
        if is_contraction(stage, len(kernel.extents)):
            return stage
    return None


def summed_stage(kernel: KernelOp) -> GenericOp | None:
    """Returns a kernel's contraction; or else the only stage that reduces, whose operands may share all grid loops."""
    reducing = [stage for stage in kernel.stages if is_reduction(stage)]
    return contraction_of(kernel) or (reducing[0] if len(reducing) == 1 and len(reducing[0].outputs) == 1 else None)


def is_contraction(stage: GenericOp, rank: int) -> bool:
    """Returns whether a one-result reduction has two values that each lack a grid loop that the other has."""
    has_one_result = len(stage.outputs) == 1
    return has_one_result and is_reduction(stage) and contracts(loops_of_operands(stage).values(), rank)


def contracts(loops: Iterable[frozenset[int]], rank: int) -> bool:
    """Returns whether two values that vary in the reduction each lack a grid loop that the other has.

    Args:
        loops: The loops that each value depends on.
        rank: The number of grid loops, which come first.
    """
    grids = {frozenset(d for d in loop if d < rank) for loop in loops if any(d >= rank for d in loop)}
    return any(a - b and b - a for a in grids for b in grids)


def is_pointwise(kernel: KernelOp) -> bool:
    """Returns whether no stage has loops of its own."""
    return all(len(stage.iterator_types) == len(kernel.extents) for stage in kernel.stages)


def is_in_order(stage: GenericOp) -> bool:
    """Returns whether a reduction takes its values in their order, since it multiplies floats.

    A product of large and small factors may be finite, although that of some of them overflows.
    """
    accumulators = stage.body.block.args[len(stage.inputs) :]
    return any(isinstance(use.operation, arith.MulfOp) for value in accumulators for use in value.uses)
