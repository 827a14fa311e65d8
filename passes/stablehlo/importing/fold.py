"""Reductions by functions of their own: trees of pairs, whose leaves are the elements in their order."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Block, Region, SSAValue

from tensorgrad.dialects.tg.base import tensor
from tensorgrad.dialects.tg.build import element_of, shape_of
from tensorgrad.passes.stablehlo.importing.reader import Reader
from tensorgrad.passes.tensors.batch import repeated


def folded(
    reader: Reader, region: Region, values: Sequence[SSAValue], starts: Sequence[SSAValue], axes: Sequence[int]
) -> list[SSAValue]:
    """Returns tensors reduced together along axes by a function of scalars, such as one that adds logarithms.

    Neighbours are combined, then neighbours among the results, and so on: the function is written once for each halving
    of the elements, and applied to all pairs at once. The specification leaves the tree open, not the order of leaves:
    the function has to be associative, but needn't be commutative.

    Args:
        reader: Where to write.
        region: The function, of a scalar for each tensor so far and one for each that follows.
        values: The tensors, of one shape.
        starts: The scalar in front of each tensor's elements.
        axes: The axes that are reduced.
    """
    b, shape = reader.builder, shape_of(values[0])
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    result, count = [shape[axis] for axis in kept], math.prod(shape[axis] for axis in axes)
    width = math.prod(result)
    first = [reader.spread(start, (1, width)) for start in starts]
    if not width * count:
        return [b.reshape(start, result) for start in first]
    rows = [b.reshape(b.transpose(x, [*axes, *kept]), (count, width)) for x in values]
    while count > 1:
        pairs, rest = divmod(count, 2)
        lower, upper = ([b.slice(x, (at, 0), (2 * pairs, width), (2, 1)) for x in rows] for at in (0, 1))
        combined = _combined(reader, region, lower, upper)
        if rest:
            last = [b.slice(x, (count - 1, 0), (count, width), (1, 1)) for x in rows]
            combined = [b.concat(both, 0) for both in zip(combined, last, strict=True)]
        rows, count = combined, pairs + rest
    return [b.reshape(x, result) for x in _combined(reader, region, first, rows)]


def _combined(reader: Reader, region: Region, xs: Sequence[SSAValue], ys: Sequence[SSAValue]) -> list[SSAValue]:
    """Returns the function of each pair of elements."""
    b, shape = reader.builder, shape_of(xs[0])
    block = Block(arg_types=[tensor((), element_of(value)) for value in (*xs, *ys)])
    inside = reader.inside(block)
    inside.values.update(zip(region.block.args, block.args, strict=True))
    results = inside.block(region.block)
    elements = [b.reshape(value, (math.prod(shape),)) for value in (*xs, *ys)]
    combined = repeated(block, dict(zip(block.args, elements, strict=True)), results, b)
    return [b.reshape(value, shape) for value in combined]
