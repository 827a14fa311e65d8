"""`fuse`: reads and writes are aligned, so that a point reads what was written at the same one, or by the same loops.

Kernels are stand-ins over grids of any extents; which loops and constants index them is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import pytest
from symbolic import Number, Path, Refuted, explore, within
from test_index_rules import ADD, MULTIPLY, value
from xdsl.dialects import test as test_ops
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from tensorgrad.dialects.tg.base import tensor
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.buffers.fuse import inline, merge


def prove_inverse(loops: int, results: Sequence[AffineExpr]) -> int:
    """Proves of a placement that its inverse gives each loop; returns whether it has one."""
    back = inline.inverse(AffineMap(loops, 0, tuple(results)))
    if back is None:
        return 0

    def run(path: Path) -> None:
        values = [path.fresh("loop") for _ in range(loops)]

        index = at(AffineMap(loops, 0, tuple(results)), values)
        for loop, again in zip(values, at(AffineMap(len(index), 0, tuple(back)), index), strict=True):
            path.prove(again.term == loop.term, "inverse")

    return explore(run)


@pytest.mark.parametrize("loops", [1, 2, 3])
def test_inverse(loops: int) -> None:
    """Every placement of up to three loops in as many axes and one more."""
    proved = 0
    entries = [*(AffineDimExpr(loop) for loop in range(loops)), AffineConstantExpr(0), AffineDimExpr(0) + 1]
    for axes in range(loops, loops + 2):
        proved += sum(prove_inverse(loops, results) for results in product(entries, repeat=axes))
    assert proved


Accesses = Sequence[tuple[SSAValue, AffineMap]]


def buffer() -> SSAValue:
    return test_ops.TestOp(result_types=[tensor([4], f32)]).results[0]


def kernel(grid: Sequence[Any], reads: Accesses, writes: Accesses) -> Any:
    """Returns a stand-in for a kernel of one pointwise stage, over a grid of symbols."""
    stage = SimpleNamespace(reads=reads, writes=writes, loads=list)
    return SimpleNamespace(
        grid=tuple(grid),
        inputs=[value for value, _ in reads],
        outputs=[value for value, _ in writes],
        stages=[stage],
        is_pointwise=True,
    )


def point(path: Path, name: str, grid: Sequence[Number]) -> list[Number]:
    """Returns any point of a grid."""
    loops = [path.fresh(name) for _ in grid]
    path.assume(*(within(loop.term, 0, extent - 1) for loop, extent in zip(loops, grid, strict=True)))
    return loops


def positive(path: Path, name: str, count: int) -> list[Number]:
    numbers = [path.fresh(name) for _ in range(count)]
    path.assume(*(number.term > 0 for number in numbers))
    return numbers


def assume_equal(path: Path, index: Sequence[Number], other: Sequence[Number]) -> None:
    path.assume(*(x.term == y.term for x, y in zip(index, other, strict=True)))


def at(index_map: AffineMap, loops: Sequence[Number]) -> list[Number]:
    return [value(result, dict(enumerate(loops))) for result in index_map.results]


def prove_alignment(written: AffineMap, read: Sequence[AffineMap], rank: int) -> int:
    """Proves that the point which writes what a kernel reads is the one that its loops are aligned with.

    Returns:
        The number of paths on which they are.
    """
    aligned = 0

    def run(path: Path) -> None:
        nonlocal aligned
        target = buffer()
        first = kernel(positive(path, "grid", written.num_dims), [], [(target, written)])
        second = kernel(positive(path, "other", rank), [(target, each) for each in read], [])
        loops = merge.aligned_loops(first, second)
        if loops is None:
            path.prove(True, "nothing is claimed")
            return
        aligned += 1
        here, writer = point(path, "here", second.grid), point(path, "writer", first.grid)
        for loop, extent in zip(loops, first.grid, strict=True):
            path.prove(second.grid[loop].term == extent.term, "the extent of a loop")
        assume_equal(path, at(read[0], here), at(written, writer))
        for loop, place in zip(loops, writer, strict=True):
            path.prove(here[loop].term == place.term, "the point of the writer")

    explore(run)
    return aligned


def maps(loops: int, axes: int) -> Iterator[AffineMap]:
    """Returns the maps of loops to axes that have plain loops, constants or neighbours."""
    entries = [*(AffineDimExpr(loop) for loop in range(loops)), AffineConstantExpr(0), AffineDimExpr(0) + 1]
    yield from (AffineMap(loops, 0, results) for results in product(entries, repeat=axes))


@pytest.mark.parametrize("rank", [1, 2])
def test_aligned_loops(rank: int) -> None:
    """Every placement of up to two loops in as many axes, and every read in as many loops and one more."""
    placements = [each for each in maps(rank, rank) if inline.inverse(each) is not None]
    reads = [each for more in range(2) for each in maps(rank + more, rank)]
    assert sum(prove_alignment(each, [read], read.num_dims) for each, read in product(placements, reads))
    straight = affine.identity(rank)
    assert sum(prove_alignment(straight, [each, straight], rank) for each in reads if each.num_dims == rank)


def prove_blocks(monkeypatch: pytest.MonkeyPatch, written: Callable[[Number], AffineExpr], read: AffineMap) -> int:
    """Proves that a kernel's points are those by which another's loops divide them, each once.

    The producer writes along the second of two axes by two loops.

    Returns:
        The number of paths on which they do.
    """
    monkeypatch.setattr(affine, "linear", lambda expression, extents: affine.as_terms(expression))
    divided = 0

    def run(path: Path) -> None:
        nonlocal divided
        target = buffer()
        writes = AffineMap(3, 0, (AffineDimExpr(0), written(path.fresh("factor"))))
        first = kernel(positive(path, "grid", 3), [], [(target, writes)])
        second = kernel(positive(path, "other", 2), [(target, read)], [])
        loops = merge.divided_loops(first, second)
        if loops is None:
            path.prove(True, "nothing is claimed")
            return
        divided += 1
        here, again = point(path, "here", first.grid), point(path, "again", first.grid)
        expressions = AffineMap(3, 0, tuple(loops))
        place, other = at(expressions, here), at(expressions, again)
        for x, y in zip(at(read, place), at(writes, here), strict=True):
            path.prove(x.term == y.term, "the element that is read")
        assume_equal(path, place, other)
        (axis,) = [axis for axis, loop in enumerate(loops) if not isinstance(loop, AffineDimExpr)]
        _, blocks, phases = first.grid
        path.prove_division(second.grid[axis], phases, blocks, Number(0), "blocks and phases of the grid")
        for _, block, phase in (here, again):
            path.prove_division(place[axis], phases, block, phase, "the block and the phase of a point")
        for loop, extent in zip(place, second.grid, strict=True):
            path.prove(within(loop.term, 0, extent - 1), "within the grid")
        for x, y in zip(here, again, strict=True):
            path.prove(x.term == y.term, "each point once")

    explore(run)
    return divided


BLOCK, PHASE = AffineDimExpr(1), AffineDimExpr(2)


def blocked(factor: Number) -> AffineExpr:
    """Returns a place in a block of any number of phases."""
    by = AffineConstantExpr(cast(int, factor))
    return AffineBinaryOpExpr(ADD, AffineBinaryOpExpr(MULTIPLY, BLOCK, by), PHASE)


@pytest.mark.parametrize("read", list(maps(2, 2)), ids=str)
def test_divided_loops(read: AffineMap, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of any number of phases, which are a loop, and every read: plain ones are divided if the extents agree."""
    plain = inline.inverse(read) is not None
    assert bool(prove_blocks(monkeypatch, blocked, read)) == plain


WRONG: dict[str, tuple[str, Callable[..., Any], str]] = {
    "points are never compared": ("_plain", lambda expression, m, rank: expression.position, "the point of the writer"),
    "any block covers": ("_covers", lambda expression, grid, extent: True, "(blocks|grid|block)"),
    "loops in the order of the axes": (
        "_written_at",
        lambda written, read: tuple(written.results),
        "the element that is read",
    ),
}


@pytest.mark.parametrize("variant", WRONG)
def test_a_wrong_alignment_has_a_counterexample(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, wrong, what = WRONG[variant]
    monkeypatch.setattr(merge, name, wrong)
    swapped = AffineMap(2, 0, (AffineDimExpr(1), AffineDimExpr(0)))
    with pytest.raises(Refuted, match=rf"{what}.*: .*\.\d+ = "):
        if name == "_plain":
            prove_alignment(AffineMap(2, 0, (AffineDimExpr(0), AffineDimExpr(1))), [swapped], 2)
        else:
            prove_blocks(monkeypatch, blocked, swapped)


def test_a_wrong_rule_has_a_counterexample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops in the order of the axes, whatever the placement."""
    monkeypatch.setattr(inline, "inverse", lambda written: [AffineDimExpr(loop) for loop in range(written.num_dims)])
    with pytest.raises(Refuted, match=r"inverse: loop\.1 = "):
        prove_inverse(2, [AffineDimExpr(1), AffineDimExpr(0)])
