"""`fuse`: what reads an array as one of another shape takes the loops that write it, tried with 24 elements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import permutations, product
from types import SimpleNamespace
from typing import Any

from xdsl.dialects import test as test_ops
from xdsl.dialects.builtin import MemRefType, f32
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap

from tensorgrad.passes.analyses import affine
from tensorgrad.passes.buffers.fuse import merge


def divisions(count: int) -> Iterator[tuple[int, ...]]:
    """Yields the shapes of a number of elements, in up to three axes."""
    for shape in product(range(1, count + 1), repeat=3):
        if math.prod(shape) == count:
            yield tuple(extent for extent in shape if extent > 1)


def places(m: AffineMap, shape: Sequence[int], grid: Sequence[int]) -> dict[tuple[int, ...], int]:
    """Returns the place in memory that a map gives each point of a grid."""
    strides = affine.strides(shape)
    return {
        here: sum(stride * index for stride, index in zip(strides, m.eval(here, ()), strict=True))
        for here in product(*map(range, grid))
    }


def permuted(shape: Sequence[int], order: Sequence[int]) -> tuple[tuple[int, ...], AffineMap]:
    """Returns a grid with an array's axes in another order, and the map of its loops to the axes."""
    grid = tuple(shape[axis] for axis in order)
    return grid, AffineMap(len(shape), 0, tuple(AffineDimExpr(order.index(axis)) for axis in range(len(shape))))


def kernel(grid: Sequence[int], extents: Sequence[int], **accesses: Sequence[tuple[SSAValue, AffineMap]]) -> Any:
    """Returns a stand-in for a kernel of one stage over some loops, a pointwise one unless it writes."""
    stage = SimpleNamespace(**{"reads": [], "writes": [], **accesses}, extents=extents, body=Block(), loads=list)
    outputs = [target for target, _ in stage.writes]
    return SimpleNamespace(grid=grid, outputs=outputs, stages=[stage], is_pointwise=not outputs, operations=0)


def test_loops_of_another_shape() -> None:
    """Every two shapes of 24 elements, with the loops of both in every order: each element is read where it is written.

    Not for all extents at once: places are sums of their products, on which the solver gives up.
    """
    found = 0
    shapes = set(divisions(24))
    for shape, other in product(shapes, repeat=2):
        target = test_ops.TestOp(result_types=[MemRefType(f32, shape)]).results[0]
        for order, again in product(permutations(range(len(shape))), permutations(range(len(other)))):
            grid, written = permuted(shape, order)
            reader, place = permuted(other, again)
            linear = affine.linear_index(place.results, other)
            read = AffineMap(len(other), 0, tuple(affine.delinearized(linear, shape)))
            loops = merge.divided_loops(
                kernel(grid, grid, writes=[(target, written)]), kernel(reader, reader, reads=[(target, read)])
            )
            if loops is None:
                continue
            found += 1
            back = AffineMap(len(grid), 0, tuple(loops))
            taken = {here: back.eval(here, ()) for here in product(*map(range, grid))}
            at_write, at_read = places(written, shape, grid), places(read, shape, reader)
            assert all(at_read[tuple(taken[here])] == at_write[here] for here in taken), (shape, order, other, again)
            assert len(set(map(tuple, taken.values()))) == 24, (shape, order, other, again)
    assert found > 200


def test_what_loops_of_a_row_write_is_left() -> None:
    """As many points as rows read the first element of each, which the writer's points don't number."""
    target = test_ops.TestOp(result_types=[MemRefType(f32, (4, 5))]).results[0]
    row, column = AffineDimExpr(0), AffineDimExpr(1)
    writer = kernel((4,), (4, 5), writes=[(target, AffineMap(2, 0, (row, column)))])
    reader = kernel((2, 2), (2, 2), reads=[(target, AffineMap(2, 0, (row * 2 + column, AffineConstantExpr(0))))])
    assert merge.divided_loops(writer, reader) is None
