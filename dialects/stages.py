"""The stages of a kernel, `linalg.generic` over buffers: builds, reads and verifies them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, IntegerType
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp, IndexOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.utils.exceptions import VerifyException

from tensorgrad.dialects.bindings import element_of, shape_of
from tensorgrad.dialects.ranges import is_index, range_of_expression, stays_within
from tensorgrad.dialects.tg.base import short_ints

IDENTITIES: dict[type[Operation], Callable[[Attribute], float]] = {
    arith.AddfOp: lambda element: 0.0,
    arith.AddiOp: lambda element: 0,
    arith.MulfOp: lambda element: 1.0,
    arith.MuliOp: lambda element: 1,
    arith.MaximumfOp: lambda element: float("-inf"),
    arith.MinimumfOp: lambda element: float("inf"),
    arith.MaxSIOp: lambda element: -(2 ** (cast(IntegerType, element).bitwidth - 1)),
    arith.MinSIOp: lambda element: 2 ** (cast(IntegerType, element).bitwidth - 1) - 1,
    arith.MaxUIOp: lambda element: 0,
    arith.MinUIOp: lambda element: -1,
}
"""The ops that reductions combine with, each with its identity for an element type."""


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


def segments(inputs: int, outputs: int) -> Attribute:
    """Returns the attribute with the numbers of inputs and outputs among the operands."""
    return short_ints((inputs, outputs))


def maps_of(stage: GenericOp) -> tuple[AffineMap, ...]:
    """Returns the indexing maps of a stage, inputs first."""
    return tuple(attribute.data for attribute in stage.indexing_maps)


def iterators_of(stage: GenericOp) -> tuple[IteratorType, ...]:
    """Returns the iterator kinds of a stage, one per loop."""
    return tuple(attribute.data for attribute in stage.iterator_types)


def loop_extents(stage: GenericOp) -> tuple[int, ...]:
    """Returns the extent of each loop of a stage, taken from the operands that the loop indexes directly."""
    extents: dict[int, int] = {}
    for operand, affine in zip(stage.operands, maps_of(stage), strict=True):
        for expression, extent in zip(affine.results, shape_of(operand), strict=True):
            if isinstance(expression, AffineDimExpr):
                extents.setdefault(expression.position, extent)
    rank = len(stage.iterator_types)
    missing = [loop for loop in range(rank) if loop not in extents]
    if missing:
        raise VerifyException(f"no operand has loops {missing} as plain indices; add a shape-only operand")
    return tuple(extents[loop] for loop in range(rank))


def is_reduction(stage: GenericOp) -> bool:
    """Returns whether a stage has a reduction loop."""
    return any(kind == IteratorType.REDUCTION for kind in iterators_of(stage))


@dataclass(frozen=True)
class Reduction:
    """A reduced output of a stage: the combining op, and the value of the body that it folds in."""

    combine: Operation
    value: SSAValue
    element: Attribute

    def start(self) -> float:
        """Returns the identity element."""
        return IDENTITIES[type(self.combine)](self.element)


def reductions_of(stage: GenericOp) -> list[Reduction]:
    """Returns the reductions of a stage whose outputs are all combined, as they are in a verified one that reduces."""
    last, accumulators = cast(YieldOp, stage.body.block.last_op), stage.body.block.args[len(stage.inputs) :]
    reductions: list[Reduction] = []
    for accumulator, combined, output in zip(accumulators, last.operands, stage.outputs, strict=True):
        combine = cast(Operation, combined.owner)
        value = combine.operands[1] if combine.operands[0] is accumulator else combine.operands[0]
        reductions.append(Reduction(combine, value, element_of(output)))
    return reductions


def verify_stage(stage: GenericOp) -> None:
    """Checks what a stage yields, how it reduces, and where it reads and writes.

    Raises:
        VerifyException: It yields other types than its outputs hold; a reduction combines otherwise than `IDENTITIES`
            allows; an index leaves its buffer or is none that kernels have; or several iterations write one element.
    """
    _verify_yield(stage)
    verify_reductions(stage)
    _verify_indices(stage)
    _verify_distinct(stage)


def _verify_yield(stage: GenericOp) -> None:
    """Raises if a stage's body yields other types than the elements of its outputs."""
    last, elements = stage.body.block.last_op, [element_of(output) for output in stage.outputs]
    if not isinstance(last, YieldOp) or list(last.operand_types) != elements:
        raise VerifyException(f"a stage must yield elements of its outputs, ({', '.join(map(str, elements))})")


def verify_reductions(stage: GenericOp) -> None:
    """Checks that each output of a reduction is an element of its point, and combined once, by an op of `IDENTITIES`.

    Raises:
        VerifyException: One is not.
    """
    last, count = cast(YieldOp, stage.body.block.last_op), len(stage.inputs)
    reduced = {loop for loop, kind in enumerate(iterators_of(stage)) if kind == IteratorType.REDUCTION}
    outputs = zip(stage.body.block.args[count:], last.operands, maps_of(stage)[count:], strict=True)
    for accumulator, combined, write in outputs:
        if any(reduced & index.used_dims() for index in write.results):
            raise VerifyException(f"a stage writes at points of its parallel loops only, not at {write}")
        users = [use.operation for use in accumulator.uses]
        if not users and not reduced:
            continue
        if users != [combined.owner] or type(combined.owner) not in IDENTITIES or combined.uses.get_length() != 1:
            names = ", ".join(sorted(user.name for user in users)) or "nothing"
            allowed = ", ".join(op.name for op in IDENTITIES)
            raise VerifyException(
                f"a reduction combines its accumulator once, by the op that it yields, of {allowed}; {names} uses it"
            )


def _verify_indices(stage: GenericOp) -> None:
    """Raises if an index of a stage is none that kernels have, or leaves its buffer, or its loop doesn't exist."""
    extents = loop_extents(stage)
    loops = tuple((0, extent - 1) for extent in extents)
    for operand, m in zip(stage.operands, maps_of(stage), strict=True):
        for index, extent in zip(m.results, shape_of(operand), strict=True):
            if isinstance(index, AffineDimExpr):
                continue
            if not is_index(index):
                raise VerifyException(
                    f"an index must be made of sums, multiples, and floordiv and mod by positive constants, got {index}"
                )
            if 0 not in extents and not stays_within(index, loops, extent):
                raise VerifyException(f"index {index} over loops {list(extents)} leaves an axis of extent {extent}")
    for op in stage.body.walk():
        if isinstance(op, IndexOp) and not 0 <= op.dim.value.data < len(extents):
            raise VerifyException(f"a stage of {len(extents)} loops has no index of loop {op.dim.value.data}")


def _verify_distinct(stage: GenericOp) -> None:
    """Raises if iterations of a stage's parallel loops write the same element, whose value is up to chance.

    Gaps between the elements that a map reaches are not taken into account, so that some such maps pass.
    """
    kinds = zip(loop_extents(stage), iterators_of(stage), strict=True)
    extents = [extent if kind == IteratorType.PARALLEL else 1 for extent, kind in kinds]
    loops = [(0, max(extent - 1, 0)) for extent in extents]
    for write in maps_of(stage)[len(stage.inputs) :]:
        used = {loop for index in write.results for loop in index.used_dims()}
        ranges = [range_of_expression(index, loops) for index in write.results]
        elements = math.prod(high - low + 1 for low, high in ranges)
        is_unused = any(extent > 1 and loop not in used for loop, extent in enumerate(extents))
        if is_unused or elements < math.prod(extents):
            raise VerifyException(
                f"iterations of loops {list(loop_extents(stage))} write the same elements, at {write}"
            )
