"""`fuse`: what reads an array as one of another shape takes the loops that write it, tried with 24 elements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import permutations, product
from types import SimpleNamespace
from typing import Any, cast

from xdsl.dialects import test as test_ops
from xdsl.dialects.builtin import MemRefType, f32
from xdsl.ir.affine import AffineDimExpr, AffineMap

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
            body = SimpleNamespace(walk=list)
            first = SimpleNamespace(
                grid=grid, outputs=[target], stages=[SimpleNamespace(writes=[(target, written)])], is_pointwise=False
            )
            second = SimpleNamespace(
                grid=reader,
                stages=[SimpleNamespace(reads=[(target, read)], writes=[], body=body, loads=list)],
                is_pointwise=True,
            )
            loops = merge.divided_loops(cast(Any, first), cast(Any, second))
            if loops is None:
                continue
            found += 1
            back = AffineMap(len(grid), 0, tuple(loops))
            taken = {here: back.eval(here, ()) for here in product(*map(range, grid))}
            at_write, at_read = places(written, shape, grid), places(read, shape, reader)
            assert all(at_read[tuple(taken[here])] == at_write[here] for here in taken), (shape, order, other, again)
            assert len(set(map(tuple, taken.values()))) == 24, (shape, order, other, again)
    assert found > 200
