"""The factors of a contraction that is a matrix product."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, bf16, f32, f64
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import BlockArgument, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from tensorgrad.dialects.buf import loop_extents, maps_of, shape_of
from tensorgrad.dialects.stages import reductions_of
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.axes import axes_of_values, grid_of_sides, loops_of_operands, needed_for

LEAST_REUSE = 48
"""The fewest rows and columns for which pairs of bf16 pay: with fewer, packing them takes longer than they save."""


@dataclass(frozen=True)
class Factors:
    """The two values of a body whose products are summed: one varies by row, the other by column."""

    row: SSAValue
    column: SSAValue


def summed_product(stage: GenericOp) -> arith.MulfOp | None:
    """Returns the product of floats that a reduction with one result sums; `None` if it doesn't."""
    (reduction,) = reductions_of(stage)
    product = reduction.value.owner
    return product if isinstance(reduction.combine, arith.AddfOp) and isinstance(product, arith.MulfOp) else None


def factors_of(stage: GenericOp, row: Collection[int], column: Collection[int]) -> Factors | None:
    """Returns the factors of a contraction; `None` if it isn't a sum of products of its two sides.

    Args:
        stage: A contraction.
        row: The loops that make the rows; none if there is one row, whose factor then varies in the reduction only.
        column: The loops that make the columns.
    """
    product, axes = summed_product(stage), axes_of_values(stage, row, column)
    if product is None or product.result.type not in (f32, f64):
        return None
    for x, y in ((product.lhs, product.rhs), (product.rhs, product.lhs)):
        if axes.get(x) == frozenset(("row",) if row else ()) and axes.get(y) == frozenset(("column",)):
            return Factors(x, y)
    return None


def unrounded(value: SSAValue) -> SSAValue | None:
    """Returns what a value of bf16 that is f32 now was before, itself if it was always bf16; `None` for any other."""
    wide = value.owner
    if not isinstance(wide, arith.ExtFOp) or wide.input.type != bf16:
        return None
    narrow = wide.input.owner
    return narrow.input if isinstance(narrow, arith.TruncFOp) else value


def unrounded_both(factors: Factors) -> Factors | None:
    """Returns the factors before they were rounded to bf16; `None` unless both were."""
    row, column = unrounded(factors.row), unrounded(factors.column)
    return None if row is None or column is None else Factors(row, column)


def step_conditions(stage: GenericOp, factors: Factors, sides: Collection[int]) -> list[SSAValue]:
    """Returns the conditions under which an iteration has a product, in all rows and columns alike.

    Where one of them does not hold, both factors are masked, so that the product is 0 whatever they are.

    Args:
        stage: A contraction.
        factors: Its factors.
        sides: The loops that make the rows, and those that make the columns.
    """
    loops = loops_of_operands(stage)
    masks = [conjuncts(mask) if (mask := _mask(factor)) else [] for factor in (factors.row, factors.column)]
    return [
        condition
        for condition in masks[0]
        if condition in masks[1] and condition in loops and not loops[condition] & set(sides)
    ]


def _mask(value: SSAValue) -> SSAValue | None:
    """Returns the condition where a value is not 0, if an `arith.select` masks it."""
    op = value.owner
    if not isinstance(op, arith.SelectOp) or not isinstance(op.rhs.owner, arith.ConstantOp):
        return None
    number = op.rhs.owner.value
    return op.cond if isinstance(number, FloatAttr) and number.value.data == 0 else None


def conjuncts(condition: SSAValue) -> list[SSAValue]:
    """Returns the conditions that a conjunction consists of."""
    op = condition.owner
    if isinstance(op, arith.AndIOp):
        return [*conjuncts(op.lhs), *conjuncts(op.rhs)]
    return [condition]


def lies_along_steps(stage: GenericOp, value: SSAValue, rank: int) -> bool:
    """Returns whether the operands of a factor are contiguous along the reduction.

    Args:
        stage: A contraction.
        value: One of its factors.
        rank: The number of the grid's loops.
    """
    needed = needed_for([value])
    for argument, m in zip(stage.body.block.args, maps_of(stage), strict=False):
        if argument in needed and m.results:
            return any(loop >= rank for loop in m.results[-1].used_dims())
    return False


@dataclass(frozen=True)
class Strides:
    """The strides of a factor in memory.

    Attributes:
        side: The distance from one row (or column) to the next.
        step: The distance from one iteration of the reduction to the next.
    """

    side: int
    step: int


def is_extended(factor: SSAValue) -> bool:
    """Returns whether a factor is stored with fewer bits, so that reading it takes a conversion too."""
    return isinstance(factor.owner, arith.ExtFOp)


def operand_of(factor: SSAValue) -> BlockArgument | None:
    """Returns the operand that a factor is an element of, extended to f32 if it is short; `None` for any other."""
    stored = factor.owner.input if isinstance(factor.owner, arith.ExtFOp) else factor
    return stored if isinstance(stored, BlockArgument) else None


def strides_of(
    stage: GenericOp, value: SSAValue, grid: Sequence[int], row: Sequence[int], column: Sequence[int]
) -> Strides | None:
    """Returns the strides of a factor that is an operand in a regular grid; `None` for any other.

    Args:
        stage: A contraction.
        value: One of its factors.
        grid: The extents of the kernel's loops.
        row: The loops that make the rows.
        column: The loops that make the columns.
    """
    operand = operand_of(value)
    if operand is None:
        return None
    extents, expressions = grid_of_sides(grid, row, column)
    own = loop_extents(stage)[len(grid) :]
    bases = (*extents, math.prod(own))
    steps = affine.delinearized(AffineDimExpr(len(extents)), own)
    loops = (*expressions, *(affine.linear(step, bases).expression() for step in steps))
    place = _place_in(stage.inputs[operand.index], maps_of(stage)[operand.index], loops, bases)
    if place is None:
        return None
    _, across, down, step = (place.terms.get(AffineDimExpr(base), 0) for base in range(len(bases)))
    return Strides(across + down, step)  # A factor has one side only.


def result_stride(
    buffer: SSAValue, m: AffineMap, grid: Sequence[int], row: Sequence[int], column: Sequence[int]
) -> int | None:
    """Returns the distance between the results of neighbouring columns; `None` if it isn't constant.

    Args:
        buffer: The buffer of the results.
        m: Their index map over the grid.
        grid: The extents of the kernel's loops.
        row: The loops that make the rows.
        column: The loops that make the columns.
    """
    extents, expressions = grid_of_sides(grid, row, column)
    place = _place_in(buffer, m, expressions, extents)
    return None if place is None else place.terms.get(AffineDimExpr(2), 0)


def _place_in(
    buffer: SSAValue, m: AffineMap, loops: Sequence[AffineExpr], bases: Sequence[int]
) -> affine.Linear | None:
    """Returns the row-major index of an element as a linear form over the bases, if it is one."""
    placed = [result.replace_dims_and_symbols(loops, ()) for result in m.results]
    place = affine.linear_position(placed, shape_of(buffer), bases)
    # The first base is the same for all rows and columns, so its divisions don't matter.
    linear = all(isinstance(atom, AffineDimExpr) or atom.used_dims() == {0} for atom in place.terms)
    return place if linear else None
