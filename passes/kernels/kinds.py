"""What kinds of kernels and stages there are: reductions, contractions, pointwise work."""

from __future__ import annotations

from xdsl.dialects.linalg.ops import GenericOp

from tensorgrad.dialects.affine import used_dims
from tensorgrad.dialects.buf import KernelOp, is_reduction, is_shape_only, maps_of


def contraction_of(kernel: KernelOp) -> GenericOp | None:
    """The stage of a kernel that reuses its operands: a matrix product, a convolution."""
    for stage in kernel.stages:
        if is_contraction(stage, len(kernel.extents)):
            return stage
    return None


def is_contraction(stage: GenericOp, rank: int) -> bool:
    """Whether two operands of a reduction each lack a loop of the grid that the other has."""
    if not is_reduction(stage):
        return False
    grid = set(range(rank))
    own = set(range(rank, len(stage.iterator_types)))
    found = [
        used_dims(m)
        for operand, m in zip(stage.inputs, maps_of(stage), strict=False)
        if not is_shape_only(operand) and used_dims(m) & own
    ]
    return any(a & grid - b and b & grid - a for a in found for b in found)


def is_pointwise(kernel: KernelOp) -> bool:
    """Whether no stage has loops of its own."""
    return all(len(stage.iterator_types) == len(kernel.extents) for stage in kernel.stages)
