"""The transformation `vectorize`: the innermost loops of stages on adjacent elements, as vectors."""

from __future__ import annotations

from typing import cast

from xdsl.dialects import memref
from xdsl.dialects.builtin import f32, f64
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import FillOp, GenericOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr

from tensorgrad.dialects.buf import Buffer, element_of, is_shape_only, iterators_of, loop_extents, maps_of, shape_of
from tensorgrad.dialects.buf_tiles import TiledOp, map_stage, mapping_of, sources_of, targets_of
from tensorgrad.dialects.recipe import Processor, Vectorize
from tensorgrad.passes.codegen.transforms.failure import DoesNotFit

VECTORS = (f32, f64)
"""The types of elements that vectors have."""


def vectorize(kernel: TiledOp, step: Vectorize) -> None:
    """Runs the innermost loop of stages as vectors, where all elements along it are adjacent."""
    stages = [op for op in kernel.walk() if (extents := _vectorizable(op)) and extents[-1] > 1]
    if not any(isinstance(stage, GenericOp) for stage in stages):
        raise DoesNotFit("no stage reads or writes adjacent floats in its innermost loop")
    for stage in stages:
        map_stage(stage, [*mapping_of(stage)[:-1], Processor.VECTOR])


def _vectorizable(op: Operation) -> tuple[int, ...]:
    """Returns the extents of a stage's loops, if the innermost one can be vectors."""
    if isinstance(op, FillOp | memref.CopyOp):
        (target,) = targets_of(op)
        return shape_of(target) if all(map(_has_vectors, (target, *sources_of(op)))) else ()
    if not isinstance(op, GenericOp):
        return ()
    extents = loop_extents(op)
    if not extents or iterators_of(op)[-1] != IteratorType.PARALLEL:
        return ()
    last, moving = AffineDimExpr(len(extents) - 1), False
    for buffer, m in zip(op.operands, maps_of(op), strict=True):
        along = [last.position in result.used_dims() for result in m.results]
        if is_shape_only(buffer) or not any(along):
            continue
        if not _has_vectors(buffer) or m.results[-1] != last or any(along[:-1]):
            return ()
        moving = True
    return extents if moving else ()


def _has_vectors(buffer: SSAValue) -> bool:
    """Returns whether neighbours along a buffer's last axis are floats, and neighbours in memory."""
    strides = cast("Buffer", buffer.type).get_strides()
    return element_of(buffer) in VECTORS and strides is not None and [*strides][-1:] == [1]
