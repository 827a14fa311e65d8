"""Scans: reductions that fold, at each point of a grid loop, what they fold at the point before and a few terms more.

So does a running sum, which adds `where(i >= j, x[j], 0)` over all `j`: its result at `i` is that at `i - 1` plus
`x[i]`. One scan in sequence takes as many terms as there are points, where the sums take their square.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr

from tensorgrad.dialects.buf import KernelOp, iterators_of, loop_extents, maps_of
from tensorgrad.dialects.stages import Reduction, reductions_of
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.axes import loops_of_values
from tensorgrad.passes.analyses.windows import fits, index_form
from tensorgrad.passes.codegen.common.blocked_sums import MOST_TERMS

AT_LEAST: Mapping[str, tuple[int, int]] = {"sge": (1, 0), "sgt": (1, -1), "sle": (-1, 0), "slt": (-1, -1)}
"""The sign and the constant with which a comparison of two integers says that their difference is at least 0."""


@dataclass(frozen=True)
class Direction:
    """Which points follow each other.

    Attributes:
        loop: The grid loop.
        is_reversed: Whether from its last iteration to its first.
    """

    loop: int
    is_reversed: bool


@dataclass(frozen=True)
class Scan:
    """What a reduction over `j` folds at iteration `i` of a grid loop: the terms with `j < step * i + offset`.

    In reversed order it is those with `j >= i + offset`, and `step` is 1.

    Attributes:
        direction: The order of the points.
        step: How many terms each point adds. At the first one there are no others.
        offset: The number of terms at iteration 0, if the reduction has as many; reversed, the number of those left out
            at iteration 0.
    """

    direction: Direction
    step: int
    offset: int


def scans_of(kernel: KernelOp) -> dict[GenericOp, Scan] | None:
    """Returns the scans of a kernel whose stages with loops of their own are scans in one direction, at least one.

    Where the terms that a point adds lie outside of the reduction, the nearest one inside is none of the point's own:
    its guard is false.
    """
    rank = len(kernel.extents)
    if kernel.single is not None:
        return None
    reducing = [stage for stage in kernel.stages if len(stage.iterator_types) > rank]
    scans = {stage: scan for stage in reducing if (scan := _scan(stage, rank)) is not None}
    is_one = len({scan.direction for scan in scans.values()}) == 1
    return scans if is_one and len(scans) == len(reducing) else None


def _scan(stage: GenericOp, rank: int) -> Scan | None:
    """Returns the scan of a stage, which all of its results are."""
    if [*iterators_of(stage)[rank:]] != [IteratorType.REDUCTION]:
        return None
    loops = loops_of_values(stage.body.block, maps_of(stage))
    scans = {_scan_of(reduction, loop_extents(stage), loops) for reduction in reductions_of(stage)}
    return scans.pop() if len(scans) == 1 else None


def _scan_of(reduction: Reduction, extents: Sequence[int], loops: Mapping[SSAValue, frozenset[int]]) -> Scan | None:
    """Returns the scan that a reduction over the last loop is, given the loops that each value depends on."""
    value = reduction.value
    if isinstance(value.owner, arith.ExtFOp):  # exact, so a neutral element stays one
        value = value.owner.operands[0]
    select = value.owner
    if not isinstance(select, arith.SelectOp) or not _is_constant(select.rhs, reduction.start()):
        return None
    visible, own = _visible(select.cond, extents), AffineDimExpr(len(extents) - 1)
    if visible is None or len(visible.terms) != 2 or own not in visible.terms:
        return None
    sign = visible.terms[own]
    ((point, factor),) = visible.plus(affine.Linear({own: sign}), -1).terms.items()
    if not isinstance(point, AffineDimExpr) or point.position in loops.get(select.lhs, frozenset()):
        return None
    points, terms = extents[point.position], extents[own.position]
    if isinstance(reduction.combine, arith.AddfOp) and points * max(factor, 1) > MOST_TERMS:
        return None  # one accumulator would lose digits that sums in blocks keep
    if sign == -1 and factor >= 1:
        offset = visible.constant + 1
        starts = offset <= factor and offset % factor == 0
        is_within = factor * (points - 1) + offset <= terms
        return Scan(Direction(point.position, False), factor, offset) if starts and is_within else None
    offset = -visible.constant
    is_reversed = sign == 1 and factor == -1 and offset >= 0 and terms <= points + offset
    return Scan(Direction(point.position, True), 1, offset) if is_reversed else None


def _visible(condition: SSAValue, extents: Sequence[int]) -> affine.Linear | None:
    """Returns the linear form over loops that a condition says to be at least 0; `None` if it is none."""
    compare = condition.owner
    if not isinstance(compare, arith.CmpiOp):
        return None
    known = AT_LEAST.get(arith.CMPI_COMPARISON_OPERATIONS[compare.predicate.value.data])
    left, right = (index_form(operand, extents) for operand in compare.operands)
    if known is None or left is None or right is None:
        return None
    if not all(fits(side, extents, compare.lhs.type) for side in (left, right)):
        return None
    sign, constant = known
    return left.plus(right, -1).times(sign).plus(affine.Linear(constant=constant))


def _is_constant(value: SSAValue, number: float) -> bool:
    op = value.owner
    return isinstance(op, arith.ConstantOp) and (
        isinstance(op.value, FloatAttr | IntegerAttr) and op.value.value.data == number
    )
