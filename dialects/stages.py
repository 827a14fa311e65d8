"""Builds the stages of a kernel: `linalg.generic` over buffers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineMap

from tensorgrad.dialects.buf import segments


def generic(
    inputs: Sequence[SSAValue],
    outputs: Sequence[SSAValue],
    maps: Sequence[AffineMap],
    parallel: int,
    reductions: int,
    block: Block,
) -> GenericOp:
    """Returns a stage of `parallel` parallel loops followed by `reductions` reduction loops."""
    properties: dict[str, Attribute] = {
        "indexing_maps": ArrayAttr([AffineMapAttr(affine) for affine in maps]),
        "iterator_types": _iterator_types(parallel, reductions),
        "operandSegmentSizes": segments(len(inputs), len(outputs)),
    }
    return GenericOp.create(operands=[*inputs, *outputs], properties=properties, regions=[Region(block)])


@lru_cache
def _iterator_types(parallel: int, reductions: int) -> ArrayAttr[IteratorTypeAttr]:
    kinds = [IteratorType.PARALLEL] * parallel + [IteratorType.REDUCTION] * reductions
    return ArrayAttr([IteratorTypeAttr(kind) for kind in kinds])
