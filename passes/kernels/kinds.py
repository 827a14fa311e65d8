"""What kinds of kernels and stages there are: reductions, contractions, pointwise work."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir.affine import AffineMap

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
    operands = zip(stage.inputs, maps_of(stage), strict=False)
    return is_reduction(stage) and contracts([m for operand, m in operands if not is_shape_only(operand)], rank)


def contracts(maps: Iterable[AffineMap], rank: int) -> bool:
    """Whether two operands that a reduction reads at these maps each lack a loop of the grid that the other has."""
    dims = [used_dims(m) for m in maps]
    grids = [{d for d in found if d < rank} for found in dims if any(d >= rank for d in found)]
    return any(a - b and b - a for a in grids for b in grids)


def is_pointwise(kernel: KernelOp) -> bool:
    """Whether no stage has loops of its own."""
    return all(len(stage.iterator_types) == len(kernel.extents) for stage in kernel.stages)
