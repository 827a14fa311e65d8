"""Which schedule a kernel gets by default."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects import memref
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir.affine import AffineDimExpr

from tensorgrad.dialects.affine import used_dims
from tensorgrad.dialects.buf import KernelOp, is_reduction, is_shape_only, iterators_of, loop_extents, maps_of
from tensorgrad.passes.kernels.kinds import contraction_of
from tensorgrad.passes.schedule.attention import attention_schedule
from tensorgrad.passes.schedule.schedules import Schedule, Tile, folded
from tensorgrad.runtime.target import Target

SOFTWARE_LANES = 8
"""A CPU that plays the GPU runs so many invocations as one vector."""

GPU_LANES = 64

STAGED_STEPS = 16
"""How many steps of a reduction a workgroup stages at a time on a GPU."""


def choose(kernel: KernelOp, target: Target) -> Schedule:
    """The default schedule of a kernel on a target."""
    if kernel.attention is not None:
        return attention_schedule(kernel.attention, target)
    stage = contraction_of(kernel)
    if stage is not None:
        found = _contraction(kernel, stage, target)
        if found is not None:
            return found
    total = math.prod(kernel.extents)
    own = own_steps(kernel)
    if _wants_group(kernel, total, own, target):
        lanes = _lanes(own, target)
        return Schedule("group", (lanes, 1, 1), (total, 1, 1))
    width = SOFTWARE_LANES if target.software and total < 1 << 14 else GPU_LANES
    width = min(width, target.max_compute_invocations_per_workgroup)
    return Schedule("thread", (width, 1, 1), folded(-(-total // width), target))


def own_steps(kernel: KernelOp) -> int:
    """The most steps that a stage has at one grid point."""
    return max((math.prod(loop_extents(s)[len(kernel.extents) :]) for s in kernel.stages), default=1)


def _lanes(own: int, target: Target) -> int:
    limit = min(target.max_compute_invocations_per_workgroup, 64 if target.software else 256)
    lanes = 1  # a power of two: lanes fold by halves
    while lanes * 2 <= min(limit, max(own, SOFTWARE_LANES)):
        lanes *= 2
    return lanes


def _wants_group(kernel: KernelOp, total: int, own: int, target: Target) -> bool:
    """Whether a workgroup should share each grid point: few points, or long rows on a GPU."""
    if own < SOFTWARE_LANES or not can_group(kernel, _lanes(own, target), target):
        return False
    if target.software:
        return total < 2 * SOFTWARE_LANES
    return total < 1024 or (own >= GPU_LANES and not _reads_across(kernel))


def can_group(kernel: KernelOp, lanes: int, target: Target) -> bool:
    """Whether a workgroup of so many lanes can share each grid point."""
    if math.prod(kernel.extents) > target.max_compute_workgroups_per_dimension:
        return False
    if any(_mixes_loops(stage, len(kernel.extents)) for stage in kernel.stages):
        return False
    folds = sum(len(stage.outputs) for stage in kernel.stages if is_reduction(stage))
    return folds * lanes * 8 <= target.max_compute_workgroup_storage_size


def _mixes_loops(stage: GenericOp, rank: int) -> bool:
    """Whether a stage has both parallel and reduction loops of its own."""
    return len(set(iterators_of(stage)[rank:])) > 1


def _reads_across(kernel: KernelOp) -> bool:
    """Whether neighbouring grid points read neighbouring elements: then a thread a point reads in order already."""
    rank = len(kernel.extents)
    for stage in kernel.stages:
        for operand, m in zip(stage.inputs, maps_of(stage), strict=False):
            if is_shape_only(operand) or not m.results or not used_dims(m) - set(range(rank)):
                continue
            last = m.results[-1]
            if isinstance(last, AffineDimExpr) and last.position == rank - 1:
                return True
    return False


def _contraction(kernel: KernelOp, stage: GenericOp, target: Target) -> Schedule | None:
    """Register blocks: neighbours along a row for each thread, lanes along the output's last axis."""
    if any(s is not stage and len(s.iterator_types) > len(kernel.extents) for s in kernel.stages):
        return None
    if iterators_of(stage)[len(kernel.extents) :].count(IteratorType.PARALLEL):
        return None
    written = {output for other in kernel.stages for output in other.outputs}
    if any(operand in written for op in stage.walk() for operand in op.operands if operand not in stage.outputs):
        return None  # what another stage computes at a point is no operand that a block could read from memory
    grid = kernel.extents
    column = _column(kernel, stage, _column_lanes(target))
    row = _row(stage, grid, column)
    reduced = math.prod(loop_extents(stage)[len(grid) :])
    tile = _shared(_tile(grid, row, column, target), stage, reduced, target)
    columns, rows, rest = tile.groups(grid)
    if max(columns, rows, rest) > target.max_compute_workgroups_per_dimension:
        return None
    return Schedule("contraction", (tile.lanes, tile.depth, 1), (columns, rows, rest), tile)


def _column_lanes(target: Target) -> int:
    """How many lanes stand along a contraction's columns."""
    return SOFTWARE_LANES if target.software else 16


def _column(kernel: KernelOp, stage: GenericOp, lanes: int) -> int:
    """The grid loop that runs across the lanes: along which the results lie in memory, unless that is too short."""
    grid, last = kernel.extents, kernel.stages[-1]
    found = len(grid) - 1
    for m in maps_of(last)[len(last.inputs) :]:
        plain = [result.position for result in m.results if isinstance(result, AffineDimExpr)]
        found = plain[-1] if plain else found
    if 2 * grid[found] > lanes:
        return found
    # The gradient of a convolution's weights ends in the window's few elements: most lanes would idle.
    return max(range(len(grid)), key=lambda loop: (grid[loop], loop == found, loop))


def _row(stage: GenericOp, grid: Sequence[int], column: int) -> int | None:
    """The longest other grid loop that an operand without the column loop has."""
    found = [
        used_dims(m) for operand, m in zip(stage.inputs, maps_of(stage), strict=False) if not is_shape_only(operand)
    ]
    candidates = {loop for dims in found if column not in dims for loop in dims if loop < len(grid) and loop != column}
    with_column = [dims for dims in found if column in dims]
    reused = [loop for loop in candidates if not all(loop in dims for dims in with_column)]
    return max(reused, key=lambda loop: (grid[loop], loop)) if reused else None


def _tile(grid: Sequence[int], row: int | None, column: int, target: Target) -> Tile:
    """The largest block that leaves enough workgroups and little waste at the edges."""
    depth, most = (1, 8) if target.software else (16, 4)
    lanes = _column_lanes(target)
    depth = max(1, min(depth, target.max_compute_invocations_per_workgroup // lanes))
    row_extent = 1 if row is None else grid[row]
    rest = math.prod(grid) // (row_extent * grid[column])
    enough = 8 if target.software else 64
    columns = min(most, max(1, -(-grid[column] // lanes)))
    rows = min(most, row_extent)
    while not target.software and depth > 1 and depth // 2 * rows >= row_extent:
        depth //= 2

    def groups() -> int:
        across = -(-grid[column] // (columns * lanes))
        return across * -(-row_extent // (rows * depth)) * rest

    while groups() < enough and (rows > 1 or columns > 1):
        if columns > rows:
            columns = -(-columns // 2)
        else:
            rows = -(-rows // 2)
    return Tile(row, column, rows, columns, lanes, depth)


def _shared(tile: Tile, stage: GenericOp, reduced: int, target: Target) -> Tile:
    """How the threads of a workgroup share what they read: by subgroup on a CPU, in workgroup memory on a GPU."""
    threads = tile.lanes * tile.depth
    if target.software:
        one_subgroup = target.subgroups and target.subgroup_size == threads
        return replace(tile, broadcast=1) if one_subgroup and 1 < tile.rows <= tile.lanes else tile
    if tile.row is None or tile.depth == 1 or reduced < 2 * STAGED_STEPS:
        return tile
    if any(isinstance(op, memref.LoadOp) for op in stage.walk()):
        return tile
    staged = replace(tile, chunk=STAGED_STEPS)
    if staged_bytes(staged, stage) > target.max_compute_workgroup_storage_size or threads < GPU_LANES:
        return tile
    return staged


def staged_bytes(tile: Tile, stage: GenericOp) -> int:
    """The workgroup memory that a contraction's operands are staged in."""
    operands = sum(1 for operand in stage.inputs if not is_shape_only(operand))
    return 4 * operands * max(tile.rows * tile.depth, tile.columns * tile.lanes) * tile.chunk
