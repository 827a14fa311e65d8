"""The rows and the columns of a matrix product: grid loops that index only one of its operands."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations
from typing import TypeAlias

from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import BlockArgument

from tensorgrad.dialects.buf import KernelOp, iterators_of, maps_of
from tensorgrad.passes.analyses.axes import loops_of_operands
from tensorgrad.passes.analyses.factors import summed_product
from tensorgrad.passes.codegen.common.archetype import has_own_loops

Sides: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""The loops that form the rows, and those that form the columns."""


def is_blockable(kernel: KernelOp, stage: GenericOp) -> bool:
    """Returns whether a kernel's contraction can be computed in blocks."""
    if any(s is not stage and has_own_loops(s, kernel) for s in kernel.stages):
        return False
    if iterators_of(stage)[len(kernel.extents) :].count(IteratorType.PARALLEL):
        return False
    written = {output for other in kernel.stages for output in other.outputs}
    # The result of another stage at the same point is no operand in memory, from which a block could read.
    return not any(operand in written for op in stage.walk() for operand in op.operands if operand not in stage.outputs)


def sides_of(kernel: KernelOp, stage: GenericOp) -> Sides:
    """Returns the grid loops that index only one of two operands: those of the rows and those of the columns.

    If each term of the sum is a product, its factors count, with the conditions that mask them. Where operands are
    compared with indices instead, as in a product with one-hot rows, the result of the comparison counts as an operand.
    The results of adjacent columns are contiguous in memory.
    """
    grid, loops = kernel.extents, loops_of_operands(stage)

    def extent(loops: frozenset[int]) -> int:
        return math.prod(grid[loop] for loop in loops)

    read = [loop for value, loop in loops.items() if isinstance(value, BlockArgument)]
    # The others only scale or mask these.
    whole = [side for side in read if not any(side < other for other in read)]
    product = summed_product(stage)
    factors = [] if product is None else [loops[factor] for factor in product.operands if factor in loops]
    pairs = (
        _pairs(factors, len(grid))
        or _pairs(whole, len(grid))
        or _pairs(read, len(grid))
        or _pairs(loops.values(), len(grid))
    )
    first, second = max(pairs, key=lambda pair: extent(pair[0]) * extent(pair[1]))
    last = _last_loops(kernel)
    if last & first or (not last & second and extent(first) > extent(second)):
        first, second = second, first
    return tuple(sorted(first)), tuple(sorted(second))


def _pairs(loops: Iterable[frozenset[int]], rank: int) -> list[tuple[frozenset[int], frozenset[int]]]:
    """Returns, for pairs of values that change within the sum, the grid loops that only one of the two depends on."""
    changing = [varying for varying in loops if any(loop >= rank for loop in varying)]
    sides = list(dict.fromkeys(frozenset(loop for loop in varying if loop < rank) for varying in changing))
    return [(a - b, b - a) for a, b in combinations(sides, 2) if a - b and b - a]


def _last_loops(kernel: KernelOp) -> frozenset[int]:
    """Returns the grid loops along which the results are contiguous in memory, or closest to it."""
    last_loops, last = frozenset((len(kernel.extents) - 1,)), kernel.stages[-1]
    for m in maps_of(last)[len(last.inputs) :]:
        moving = [loops for result in m.results if (loops := frozenset(result.used_dims()))]
        last_loops = moving[-1] if moving else last_loops
    return last_loops
