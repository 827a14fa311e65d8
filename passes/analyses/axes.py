"""Which loops, and which axes of a contraction, the values of a stage's body depend on."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from xdsl.dialects.builtin import IndexType, i1
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import GenericOp, IndexOp, YieldOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from tensorgrad.dialects.buf import is_shape_only, iterators_of, maps_of
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.affine import used_dims

Axes = frozenset[str]
"""`row`, `column`, both or none."""


def loops_of_values(
    body: Block, maps: Sequence[AffineMap], known: Mapping[SSAValue, frozenset[int]] | None = None
) -> dict[SSAValue, frozenset[int]]:
    """Returns the loops that each value of a stage's body depends on.

    Args:
        body: The scalar computation.
        maps: The maps of its first block arguments; the others are left out.
        known: The loops of other values that it takes, from around the stage.
    """
    loops = dict(known or {})
    for argument, m in zip(body.args, maps, strict=False):
        loops[argument] = frozenset(used_dims(m))
    for op in body.ops:
        read: list[frozenset[int]] = []
        for inner in op.walk() if op.regions else (op,):
            if type(inner) is IndexOp:
                read.append(frozenset([inner.dim.value.data]))
            read += [loops[operand] for operand in inner.operands if operand in loops]
        loops.update(dict.fromkeys(op.results, frozenset[int]().union(*read)))
    return loops


def loops_of_operands(stage: GenericOp) -> dict[SSAValue, frozenset[int]]:
    """Returns the loops that each value of a stage's body depends on, without accumulators and shape-only arguments."""
    args, maps = stage.body.block.args, maps_of(stage)
    loops = loops_of_values(stage.body.block, maps)
    empty = {argument for argument, operand in zip(args, stage.inputs, strict=False) if is_shape_only(operand)}
    left_out = {*empty, *args[len(stage.inputs) :]}
    return {value: loop for value, loop in loops.items() if value not in left_out}


def axes_of_values(stage: GenericOp, row: Collection[int], column: Collection[int]) -> dict[SSAValue, Axes]:
    """Returns whether each value of a stage's body depends on row loops, and on column loops.

    Args:
        stage: A contraction.
        row: The loops that make the rows.
        column: The loops that make the columns.
    """
    sides = {"row": row, "column": column}
    return {
        value: frozenset(name for name, side in sides.items() if any(loop in side for loop in loops))
        for value, loops in loops_of_values(stage.body.block, maps_of(stage)).items()
    }


def one_sided_values(stage: GenericOp, row: Collection[int], column: Collection[int]) -> list[SSAValue]:
    """Returns the one-sided values of a contraction's body that meet the other side or the sum.

    The ops that compute them are a prologue, which needs to be computed only once per row (or column) and step of the
    reduction. Conditions are excluded, as are values that are invariant in the reduction.
    """
    rank = iterators_of(stage).index(IteratorType.REDUCTION)
    return values_of_one_side(stage.body.block, loops_of_operands(stage), rank, row, column)


def values_of_one_side(
    body: Block, loops: Mapping[SSAValue, frozenset[int]], rank: int, row: Collection[int], column: Collection[int]
) -> list[SSAValue]:
    """Returns the values of `one_sided_values`, given the loops that each value depends on.

    Args:
        body: The scalar computation of a contraction.
        loops: The loops of each of its values, but for accumulators and arguments that only have a shape.
        rank: The number of the first loop of the reduction; all later ones are its loops too.
        row: The loops that make the rows.
        column: The loops that make the columns.
    """
    waiting = [operand for op in body.ops if isinstance(op, YieldOp) for operand in op.operands]
    one_sided, seen = set[SSAValue](), set[SSAValue]()
    while waiting:
        value = waiting.pop()
        if value in seen or value not in loops:
            continue
        seen.add(value)
        sides = sum(not loops[value].isdisjoint(side) for side in (row, column))
        if sides == 1 and max(loops[value]) >= rank and value.type not in (i1, IndexType()):
            one_sided.add(value)
        elif isinstance(value.owner, Operation):
            waiting += [operand for op in value.owner.walk() for operand in op.operands]
    return [value for value in loops if value in one_sided]


def needed_for(values: Iterable[SSAValue], known: Collection[SSAValue] = ()) -> set[SSAValue]:
    """Returns the backward slice of some values of a body, these included.

    Args:
        values: The roots.
        known: Values that are available already, and need not be computed; what only they need is excluded.
    """
    waiting, results = list(values), set[SSAValue]()
    while waiting:
        value = waiting.pop()
        if value in results:
            continue
        results.add(value)
        if isinstance(value.owner, Operation) and value not in known:
            waiting += [operand for op in value.owner.walk() for operand in op.operands]
    return results


def grid_of_sides(
    grid: Sequence[int], row: Sequence[int], column: Sequence[int]
) -> tuple[tuple[int, int, int], tuple[AffineExpr, ...]]:
    """Returns the extents of the rest, the rows and the columns, and each grid loop as an expression of these.

    Args:
        grid: The extents of the grid's loops.
        row: The loops that make the rows.
        column: The loops that make the columns.
    """
    rest = [i for i in range(len(grid)) if i not in (*row, *column)]
    layers, rows, columns = (math.prod(grid[i] for i in loops) for loops in (rest, row, column))
    extents = layers, rows, columns
    expressions: list[AffineExpr] = [AffineConstantExpr(0)] * len(grid)
    for base, loops in enumerate((rest, row, column)):
        places = affine.delinearized(AffineDimExpr(base), [grid[i] for i in loops])
        for loop, place in zip(loops, places, strict=True):
            expressions[loop] = affine.linear(place, extents).expression()
    return extents, tuple(expressions)
