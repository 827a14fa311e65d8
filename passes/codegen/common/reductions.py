"""The reductions that a stage performs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Attribute, Operation, SSAValue

from tensorgrad.dialects.buf import element_of
from tensorgrad.dialects.stages import IDENTITIES

ACCUMULATORS = 4
"""The most independent accumulators of a reduction."""

EXACT = (arith.AddiOp, arith.MaximumfOp, arith.MinimumfOp, arith.MaxSIOp, arith.MinSIOp, arith.MaxUIOp, arith.MinUIOp)
"""The ops that return the bits of any value that they combine with their identity; a sum of 0 and -0 is 0."""


def accumulators(steps: int, most: int = ACCUMULATORS) -> int:
    """Returns the number of accumulators of an unrolled reduction: a power of two, as they are folded by halves."""
    return min(most, 1 << steps.bit_length() - 1)


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
    """Returns the reductions of a verified stage, one per output."""
    last, accumulators = cast(YieldOp, stage.body.block.last_op), stage.body.block.args[len(stage.inputs) :]
    reductions: list[Reduction] = []
    for accumulator, combined, output in zip(accumulators, last.operands, stage.outputs, strict=True):
        combine = cast(Operation, combined.owner)
        value = combine.operands[1] if combine.operands[0] is accumulator else combine.operands[0]
        reductions.append(Reduction(combine, value, element_of(output)))
    return reductions
