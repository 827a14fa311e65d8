"""Merges two kernels into one, over the grid of the first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import memref
from xdsl.dialects.builtin import LocationAttr, UnknownLoc
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import IndexOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from tensorgrad.dialects.buf import element_of, parts_of, shape_of
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.stages import Parts, Stage, new_local
from tensorgrad.passes.analyses.storage import Accesses
from tensorgrad.passes.buffers.fuse.cost import is_cheap
from tensorgrad.passes.buffers.fuse.inline import inverse


def divided_loops(first: Parts, second: Parts) -> list[AffineExpr] | None:
    """Returns, for each loop of `second`'s grid, the expression of `first`'s loops that divide it.

    A convolution of a dilated image writes its results along an axis in blocks of several phases, each a loop. A
    pointwise kernel that reads each result once can run over the same loops.

    A pointwise kernel that reads each result at its place in memory, as an array of another shape, can do so too: its
    loops are the digits of that place.

    Returns:
        The expressions; `None` if `second` isn't such a kernel, or if `first` has one loop for each axis.
    """
    if not second.is_pointwise or math.prod(first.grid) != math.prod(second.grid):
        return None
    return _phases(first, second) or _reshaped(first, second)


def _phases(first: Parts, second: Parts) -> list[AffineExpr] | None:
    """Returns the loops of a kernel that reads the results of another, which several loops along an axis write."""
    written = {
        buffer: m
        for stage in first.stages
        for buffer, m in stage.writes
        if buffer in first.outputs and not _is_plain(m)
    }
    if not written:
        return None
    divided: set[tuple[AffineExpr, ...]] = set()
    for stage in second.stages:
        for buffer, m in stage.reads:
            if buffer in first.outputs:
                loops = _written_at(written[buffer], m) if buffer in written else None
                if loops is None:
                    return None
                divided.add(loops)
        if any(load.memref in first.outputs for load in stage.loads()):
            return None
    if len(divided) != 1:
        return None
    (loops,) = divided
    used = sorted(loop for expressions in loops for loop in expressions.used_dims())
    divides = all(_covers(loop, first.grid, extent) for loop, extent in zip(loops, second.grid, strict=True))
    return list(loops) if divides and used == list(range(len(first.grid))) else None


def _reshaped(first: Parts, second: Parts) -> list[AffineExpr] | None:
    """Returns the loops of a kernel that reads the results of another as an array of another shape.

    Both number all elements by their loops. No access may take a division, which vectors can't. What takes functions or
    divisions is left apart: native code of rows would compute it point by point, not in vectors.
    """
    if first.is_pointwise or len(first.grid) == len(second.grid) or not is_cheap(second):
        return None
    places = {buffer: _position(buffer, m, stage.extents) for stage in first.stages for buffer, m in stage.writes}
    distinct: set[tuple[AffineExpr, ...]] = set()
    for stage in second.stages:
        if any(isinstance(op, IndexOp | memref.LoadOp) for op in stage.body.walk()):
            return None
        for buffer, m in stage.reads:
            if buffer in first.outputs:
                loops = _digits(places[buffer], _position(buffer, m, second.grid), first.grid, second.grid)
                if loops is None:
                    return None
                distinct.add(loops)
    if len(distinct) != 1:
        return None
    (loops,) = distinct
    old = AffineMap(len(first.grid), 0, loops)
    accesses = [access for stage in second.stages for access in (*stage.reads, *stage.writes)]
    composed = [_position(buffer, affine.composed(m, old, first.grid), first.grid) for buffer, m in accesses]
    is_plain = all(isinstance(atom, AffineDimExpr) for place in composed for atom in place.terms)
    return list(loops) if is_plain else None


def _position(buffer: SSAValue, m: AffineMap, extents: Sequence[int]) -> affine.Linear:
    return affine.linear_position(m.results, shape_of(buffer), extents)


def _digits(
    written: affine.Linear, read: affine.Linear, writer: Sequence[int], reader: Sequence[int]
) -> tuple[AffineExpr, ...] | None:
    """Returns each loop of a reader as the digit, of the place that a writer's loops write, that it counts."""
    order, outer = _numbering(read, reader), _numbering(written, writer)
    if order is None or outer is None:
        return None
    digits = affine.delinearized(written.expression(), [reader[loop] for loop in order])
    loops: list[AffineExpr] = [AffineConstantExpr(0)] * len(reader)
    for loop, digit in zip(order, digits, strict=True):
        loops[loop] = affine.linear(digit, writer).expression()
    return tuple(loops)


def _numbering(place: affine.Linear, extents: Sequence[int]) -> list[int] | None:
    """Returns the loops of a grid, outermost first, that number elements without gaps; `None` if a place isn't so."""
    order: list[int] = []
    step = 1
    for atom, factor in sorted(place.terms.items(), key=lambda term: term[1]):
        if not isinstance(atom, AffineDimExpr) or atom.position >= len(extents) or factor != step:
            return None
        order.append(atom.position)
        step *= extents[atom.position]
    return order[::-1] if place.constant == 0 and step == math.prod(extents) else None


def _written_at(written: AffineMap, read: AffineMap) -> tuple[AffineExpr, ...] | None:
    """Returns each loop of a plain read as the expression by which the axis that it indexes is written."""
    loops: dict[int, AffineExpr] = {}
    for place, result in zip(read.results, written.results, strict=True):
        if isinstance(place, AffineDimExpr) and place.position not in loops:
            loops[place.position] = result
        elif place != result:
            return None
    return tuple(loops[loop] for loop in range(read.num_dims)) if len(loops) == read.num_dims else None


def _is_plain(m: AffineMap) -> bool:
    return all(isinstance(result, AffineDimExpr | AffineConstantExpr) for result in m.results)


def _covers(expression: AffineExpr, grid: Sequence[int], extent: int) -> bool:
    """Returns whether an expression of a grid's loops takes each value below an extent once."""
    form, step = affine.linear(expression, grid), 1
    for atom, factor in sorted(form.terms.items(), key=lambda term: term[1]):
        if not isinstance(atom, AffineDimExpr) or factor != step:
            return False
        step *= grid[atom.position]
    return form.constant == 0 and step == extent


def aligned_loops(first: Parts, second: Parts) -> list[int] | None:
    """Returns, for each loop of `first`'s grid, the loop of `second`'s grid that matches it.

    The accesses of `second` to `first`'s outputs determine the match. The result is `None` if one of them is at another
    grid point or at a computed index, or if the extents differ.
    """
    written = {output: _placement(first, output) for output in first.outputs}
    parts = {part for output in first.outputs for part in parts_of(output)}
    if any(part in parts for value in second.inputs if value not in written for part in parts_of(value)):
        return None  # the grid of a row differs from those of its parts
    grid, result = second.grid, None
    for stage in second.stages:
        if any(load.memref in written for load in stage.loads()):
            return None
        for buffer, m in (*stage.reads, *stage.writes):
            if buffer not in written:
                continue
            back = written[buffer]
            if back is None:
                return None
            loops = [_plain(expression, m, len(grid)) for expression in back]
            if any(loop is None for loop in loops) or len(set(loops)) != len(loops):
                return None
            if result is not None and loops != result:
                return None
            result = loops
    if result is None:
        result = list(range(len(first.grid))) if first.grid == grid[: len(first.grid)] else None
    if result is None or [grid[loop] for loop in result if loop is not None] != list(first.grid):
        return None
    return [loop for loop in result if loop is not None]


def _placement(kernel: Parts, output: SSAValue) -> list[AffineExpr] | None:
    """Returns each grid loop as an expression of the index at which a kernel writes an output, if it is one."""
    rank = len(kernel.grid)
    for stage in kernel.stages:
        for buffer, m in stage.writes:
            if buffer is output:
                used = {r.position for r in m.results if isinstance(r, AffineDimExpr)}
                return None if any(loop >= rank for loop in used) else inverse(AffineMap(rank, 0, m.results))
    return None


def _plain(expression: AffineExpr, m: AffineMap, rank: int) -> int | None:
    """Returns the grid loop that a map assigns to an index expression, or `None` if it is not a single loop."""
    if not isinstance(expression, AffineDimExpr):
        return None
    result = m.results[expression.position]
    return result.position if isinstance(result, AffineDimExpr) and result.position < rank else None


@dataclass(frozen=True)
class GridMap:
    """How a kernel runs over the grid of another, which runs before it in one kernel.

    Attributes:
        grid: The extents of its new loops: those of the other's grid, then those that become its stages' own.
        loops: Each loop of its own grid, as an expression of these.
    """

    grid: tuple[int, ...]
    loops: tuple[AffineExpr, ...]

    @staticmethod
    def in_order(loops: Sequence[int], grid: Sequence[int]) -> GridMap:
        """Returns the map of a grid some of whose loops form the other's, in that order."""
        order = [*loops, *(loop for loop in range(len(grid)) if loop not in loops)]
        positions = {loop: AffineDimExpr(position) for position, loop in enumerate(order)}
        return GridMap(tuple(grid[loop] for loop in order), tuple(positions[loop] for loop in range(len(grid))))

    @property
    def is_identity(self) -> bool:
        """Whether the loops stay as they are."""
        return self.loops == tuple(AffineDimExpr(loop) for loop in range(len(self.grid)))

    def of_stage(self, extents: Sequence[int]) -> tuple[list[int], list[AffineExpr]]:
        """Returns the extents of a stage's new loops, and each old loop as an expression of these."""
        own = extents[len(self.loops) :]
        places = [AffineDimExpr(len(self.grid) + number) for number in range(len(own))]
        return [*self.grid, *own], [*self.loops, *places]


def merge(first: Parts, second: Parts, grid_map: GridMap, private: Sequence[SSAValue]) -> Parts:
    """Returns one kernel that runs `first`'s stages and then `second`'s, over `first`'s grid.

    Args:
        first: The kernel that runs first. The result takes its stages.
        second: The kernel that runs second. The result takes its stages and changes them.
        grid_map: How `second` runs over the grid of `first`.
        private: Outputs of `first` that only `second` reads: they become locals.
    """
    location, local = first.location or UnknownLoc(), list(second.locals)
    rest = [IteratorType.PARALLEL] * (len(grid_map.grid) - len(first.grid))
    for stage in second.stages:
        if not grid_map.is_identity:
            extents, loops = grid_map.of_stage(stage.extents)
            stage.reindexed(loops, extents, stage.own)
        stage.own = (*rest, *stage.own)
    if not grid_map.is_identity:
        local = [_placed(value, second.stages, first, location) for value in local]
    values: list[SSAValue] = []
    for value in private:
        array = new_local(first.grid, element_of(value), location)
        _rename((*first.stages, *second.stages), value, array, len(first.grid))
        values.append(array)
    outputs = [*(value for value in first.outputs if value not in private), *second.outputs]
    stages = [*first.stages, *second.stages]
    return Parts(first.grid, stages, outputs, [*first.locals, *values, *local], second.location)


def merged_accesses(first: Parts, second: Parts, grid_map: GridMap) -> list[Accesses]:
    """Returns the accesses of both kernels' stages as they would be in one kernel."""
    result = [stage.accesses() for stage in first.stages]
    for stage in second.stages:
        accesses = stage.accesses()
        if not grid_map.is_identity:
            extents, loops = grid_map.of_stage(stage.extents)
            old = AffineMap(len(extents), 0, tuple(loops))
            reads, writes = (
                [(buffer, affine.composed(m, old, extents)) for buffer, m in places]
                for places in (accesses.reads, accesses.writes)
            )
            accesses = Accesses(reads, writes, accesses.loads)
        result.append(accesses)
    return result


def _placed(value: SSAValue, stages: Sequence[Stage], like: Parts, location: LocationAttr) -> SSAValue:
    """Replaces the local `value` in the stages with a new one of the shape of `like`'s grid, and returns it."""
    local = new_local(like.grid, element_of(value), location)
    _rename(stages, value, local, len(like.grid))
    return local


def _rename(stages: Sequence[Stage], old: SSAValue, new: SSAValue, rank: int) -> None:
    """Replaces a buffer with a local, indexed by the grid point."""
    for stage in stages:
        at = AffineMap(len(stage.extents), 0, tuple(AffineDimExpr(loop) for loop in range(rank)))
        stage.reads = [(new, at) if buffer is old else (buffer, m) for buffer, m in stage.reads]
        stage.writes = [(new, at) if buffer is old else (buffer, m) for buffer, m in stage.writes]
