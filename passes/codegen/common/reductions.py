"""The reductions that a stage performs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import element_of
from tensorgrad.dialects.locations import line_of

ACCUMULATORS = 4
"""The most independent accumulators of a reduction."""

NEUTRAL: dict[type[Operation], Callable[[Attribute], float]] = {
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
"""The identity element of a reduction by each op."""

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
        return NEUTRAL[type(self.combine)](self.element)


def reductions_of(stage: GenericOp) -> list[Reduction]:
    """Returns the reductions of a stage, one per output.

    Raises:
        DiagnosticException: An output's accumulator is not updated by a single yielded op.
    """
    count = len(stage.inputs)
    last = stage.body.block.last_op
    assert isinstance(last, YieldOp)
    reductions: list[Reduction] = []
    for position, result in enumerate(last.operands):
        accumulator = stage.body.block.args[count + position]
        op = result.owner
        uses = list(accumulator.uses)
        if not isinstance(op, Operation) or type(op) not in NEUTRAL or len(uses) != 1 or uses[0].operation is not op:
            raise DiagnosticException(
                f"a reduction must update its accumulator by a single op, at {line_of(stage.location)}"
            )
        value = op.operands[1] if op.operands[0] is accumulator else op.operands[0]
        reductions.append(Reduction(op, value, element_of(stage.outputs[position])))
    return reductions
