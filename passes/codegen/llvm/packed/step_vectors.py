"""Sums of products with vectors along the reduction: of windows with one row, and of few rows with contiguous columns.

The former are the derivatives of a depthwise convolution's weights: for each channel one row, the cotangents, times the
windows of the image, of which there are as many as weights. Vectors along the columns would run across the ends of the
windows' lines, most of their lanes for nothing. The latter are products with the transpose of a matrix, of which each
element is used so seldom that transposing it would take longer than multiplying it.

Along the reduction, each row and column have a vector of sums; its lanes are added last.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects import vector
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, SSAValue

from tensorgrad.passes.analyses.windows import Windows
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.llvm.packed.padded_image import PaddedImage
from tensorgrad.passes.codegen.llvm.shuffles import every, kept_lanes, lane_sums
from tensorgrad.passes.scalars import Operand, Value

MOST_UNROLLED = 4
"""The most vectors of a line that are written one after another; more are a loop."""


def has_step_vectors(windows: Windows, conditions: Sequence[SSAValue]) -> bool:
    """Returns whether neighbouring iterations are at constant distances in a padded image, and all have products."""
    return not conditions and windows.axes[-1].taps > 1 and windows.axes[-1].cycle == 1


@dataclass(frozen=True)
class StepVectors:
    """The vectors of a product's row and of its columns, along the innermost loop of the reduction.

    Attributes:
        image: The image whose windows are the columns.
        row: The memory of the packed row.
        sums: Memory for the sum of each column.
        at_once: The most columns whose sums are in registers.
        kind: The type of a vector.
    """

    image: PaddedImage
    row: SSAValue
    sums: SSAValue
    at_once: int
    kind: VectorType[Attribute]

    def sum(self, code: Code, count: Value) -> None:
        """Writes the sums of `count` iterations, whole lines of the image, to memory."""
        axes = self.image.windows.axes
        lines = itertools.product(*(range(axis.extent) for axis in axes[:-1]))
        columns = [sum(line) * self.image.pitch + column for line in lines for column in range(axes[-1].extent)]
        groups = -(-len(columns) // self.at_once)
        for group in range(groups):
            self._sum_group(code, count, columns[group::groups])

    def _sum_group(self, code: Code, count: Value, columns: Sequence[int]) -> None:
        line = self.image.windows.axes[-1].taps
        lanes = self.kind.element_count()
        whole, zero = line // lanes, _zero(code, self.kind)

        def over_line(number: Value, sums: Sequence[Value]) -> Sequence[Value]:
            start = number * line
            image = code.element(self.image.offsets, start).as_index()

            def multiplied(at: Operand, held: Sequence[Value], filled: int = lanes) -> list[Value]:
                row = kept_lanes(code.vector(self.row, start + at, self.kind), zero, 0, filled)
                values = [self._column(code, image + column, at, zero, filled) for column in columns]
                return [
                    code.make(vector.FMAOp, (row.ssa, value.ssa, x.ssa), x.type)
                    for value, x in zip(values, held, strict=True)
                ]

            if whole > MOST_UNROLLED:
                sums = code.loop(whole * lanes, sums, multiplied, step=lanes)
            else:
                for at in range(0, whole * lanes, lanes):
                    sums = multiplied(at, sums)
            return multiplied(whole * lanes, sums, line % lanes) if line % lanes else sums

        totals = code.loop_to(count // line, [zero] * len(columns), over_line)
        for column, total in zip(columns, totals, strict=True):
            code.put_vector(lane_sums(code, [total]), self.sums, code.number(column))

    def _column(self, code: Code, start: Value, at: Operand, zero: Value, filled: int) -> Value:
        """Returns a column's elements in neighbouring iterations, whose places in the image may be some apart."""
        apart, lanes = self.image.windows.axes[-1].advance, self.kind.element_count()
        begin = start + at * apart
        group = [code.vector(self.image.memory, begin + part * lanes, self.kind) for part in range(apart)]
        return kept_lanes(every(apart, group, 0), zero, 0, filled)


Read: TypeAlias = Callable[[Value], Value]
"""Writes the load of a vector of neighbouring iterations, from one on."""


def sums_along(
    code: Code, rows: Sequence[Read], columns: Sequence[Read], steps: Value, behind: int, kind: VectorType[Attribute]
) -> list[Value]:
    """Returns the sums of some rows' products with some columns, a vector for each row.

    Args:
        code: Where to write.
        rows: The rows.
        columns: The columns, a power of two of them that is at most a vector's lanes.
        steps: The iterations of the reduction, at least as many as lanes.
        behind: How many of them come after the last whole vector.
        kind: The type of a vector.
    """
    lanes = kind.element_count()
    zero = _zero(code, kind)

    def multiplied(at: Value, held: Sequence[Value], counted: int = 0) -> list[Value]:
        lefts, rights = ([kept_lanes(read(at), zero, counted, lanes) for read in side] for side in (rows, columns))
        pairs = zip(itertools.product(lefts, rights), held, strict=True)
        return [code.make(vector.FMAOp, (left.ssa, right.ssa, x.ssa), x.type) for (left, right), x in pairs]

    totals = code.loop_to(steps - behind, [zero] * (len(rows) * len(columns)), multiplied, step=lanes)
    if behind:
        # The last vector ends with the last iteration; what it has in common with the one before has been counted.
        totals = multiplied(steps - lanes, totals, lanes - behind)
    return [lane_sums(code, totals[i : i + len(columns)]) for i in range(0, len(totals), len(columns))]


def _zero(code: Code, kind: VectorType[Attribute]) -> Value:
    element = code.constant(0.0, kind.element_type)
    return code.make(vector.BroadcastOp, (element.ssa,), kind)
