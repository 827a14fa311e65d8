"""The transformation `vectorize`: the innermost loops of stages on adjacent elements, as vectors."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, f32
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir.affine import AffineDimExpr

from tensorgrad.dialects.buf import element_of, is_shape_only, loop_extents, maps_of
from tensorgrad.dialects.buf_tiles import MAPPING, ProcessorAttr, TiledOp
from tensorgrad.dialects.recipe import Processor, Vectorize
from tensorgrad.passes.codegen.transforms.failure import DoesNotFit


def vectorize(kernel: TiledOp, step: Vectorize) -> None:
    """Runs the innermost loop of stages as vectors, where it has whole ones and an operand's elements are adjacent."""
    stages = [op for op in kernel.walk() if isinstance(op, GenericOp) and _is_vectorizable(op, step.width)]
    if not stages:
        raise DoesNotFit(f"no stage reads or writes {step.width} adjacent elements of f32 in its innermost loop")
    for stage in stages:
        outer = [ProcessorAttr(Processor.SEQUENTIAL)] * (len(stage.iterator_types) - 1)
        stage.attributes[MAPPING] = ArrayAttr([*outer, ProcessorAttr(Processor.VECTOR)])


def _is_vectorizable(stage: GenericOp, width: int) -> bool:
    extents = loop_extents(stage)
    if not extents or not extents[-1] or extents[-1] % width:
        return False
    last = AffineDimExpr(len(extents) - 1)
    return any(
        m.results and m.results[-1] == last and element_of(buffer) == f32 and not is_shape_only(buffer)
        for buffer, m in zip(stage.operands, maps_of(stage), strict=True)
    )
