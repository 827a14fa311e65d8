"""The archetype `contraction`: matrix products and convolutions, with their prologues and epilogues."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from xdsl.dialects import memref
from xdsl.dialects.builtin import f32, i64
from xdsl.dialects.linalg.ops import GenericOp, IndexOp, YieldOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineDimExpr, AffineExpr

from tensorgrad.dialects.buf import (
    KernelOp,
    element_of,
    is_reduction,
    is_shape_only,
    loop_extents,
    maps_of,
    shape_of,
)
from tensorgrad.dialects.schedule import ContractionSchedule, ContractionTile
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.axes import Axes, axes_of_values, loops_of_operands, needed_for, one_sided_values
from tensorgrad.passes.analyses.kinds import contraction_of
from tensorgrad.passes.analyses.machine import (
    MOST_PRODUCTS,
    MOST_RESULTS,
    VECTOR,
    CpuModel,
    GpuModel,
    holds_sums,
    machine_of,
)
from tensorgrad.passes.analyses.walking import operations
from tensorgrad.passes.codegen.common.archetype import Archetype, body_size
from tensorgrad.passes.codegen.common.sides import Sides, is_blockable, sides_of
from tensorgrad.passes.codegen.common.weights import weight_of
from tensorgrad.passes.codegen.wgsl.staging import staged_pitch
from tensorgrad.runtime.target import Target

BLOCK_ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
BLOCK_COLUMNS = (1, 2, 3, 4, 5, 6, 7, 8)
"""The extents of a thread's block that are considered for a CPU."""


class ContractionArchetype(Archetype[ContractionSchedule]):
    """Keeps a block of results per thread in registers; lanes lie along the columns."""

    schedule = ContractionSchedule

    def default(self, kernel: KernelOp, target: Target) -> ContractionSchedule | None:
        stage = contraction_of(kernel)
        if stage is None or not is_blockable(kernel, stage):
            return None
        sides, machine = sides_of(kernel, stage), machine_of(target)
        if isinstance(machine, CpuModel):
            tile = _cpu_tile(kernel, stage, sides, machine, target)
        else:
            tile = _gpu_tile(kernel, stage, sides, machine, target)
        limit = target.max_compute_workgroups_per_dimension
        while max(tile.groups_over(kernel.extents)) > limit and len(tile.column) > 1:
            tile = replace(tile, column=tile.column[1:])  # the outer column loop becomes one of the other grid loops
        schedule = ContractionSchedule.of(tile, kernel.extents)
        return schedule if max(schedule.groups) <= limit else None

    def neighbours(
        self, schedule: ContractionSchedule, kernel: KernelOp, target: Target
    ) -> Iterator[ContractionSchedule]:
        stage = contraction_of(kernel)
        assert stage is not None
        for tile in _changed(schedule, len(loop_extents(stage)) - len(kernel.extents)):
            other = ContractionSchedule.of(tile, kernel.extents) if _is_possible(tile, stage, kernel, target) else None
            limit = target.max_compute_workgroups_per_dimension
            if other is not None and other != schedule and max(other.groups) <= limit:
                yield other

    def cycles(
        self, schedule: ContractionSchedule, kernel: KernelOp, target: Target, machine: CpuModel, parts: int
    ) -> float:
        stage = contraction_of(kernel)
        assert stage is not None
        return _fastest(kernel, stage, sides_of(kernel, stage), machine, target, parts)[1]

    def code_size(self, schedule: ContractionSchedule, kernel: KernelOp) -> int:
        cells = schedule.rows * schedule.columns  # a product and a sum each
        return sum(body_size(s) + (3 * (cells - 1) if is_reduction(s) else 0) for s in kernel.stages)

    def workgroup_arrays(self, schedule: ContractionSchedule, kernel: KernelOp) -> Counter[tuple[Attribute, int]]:
        result: Counter[tuple[Attribute, int]] = Counter()
        for stage in (stage for stage in kernel.stages if is_reduction(stage)):
            if holds_sums(schedule):
                result[element_of(stage.outputs[0]), schedule.rows * schedule.threads] += schedule.columns
            if schedule.chunk:
                extent = max(staged_pitch(schedule, is_row) for is_row in (True, False)) * schedule.chunk
                result.update((element_of(operand), extent) for operand in stage.inputs if not is_shape_only(operand))
        return result


# On a CPU


@dataclass(frozen=True)
class _Work:
    """The work of one step of a contraction's reduction, per row, per column, per result, and per thread.

    Attributes:
        steps: The number of steps.
        loads: The number of loads.
        operations: The cost of arithmetic, in additions.
    """

    steps: int
    loads: _Counts
    operations: _Counts

    @staticmethod
    def of(kernel: KernelOp, stage: GenericOp, sides: Sides, is_staged: bool = False) -> _Work:
        """Counts the work of a step.

        Loop-invariant values are hoisted and don't count, unless operands are staged: their prologues are computed for
        each element that is staged, and so is what they need.
        """
        rank, axes, loops = len(kernel.extents), axes_of_values(stage, *sides), loops_of_operands(stage)
        if is_staged:
            axes |= _axes_of_staging(stage, sides, axes)
        loads, operations = dict.fromkeys(KINDS, 0.0), dict.fromkeys(KINDS, 0.0)
        for value, loops_of_value in loops.items():
            if is_staged or any(loop >= rank for loop in loops_of_value):
                kind, op = tuple(sorted(axes[value])), value.owner
                if isinstance(op, Operation):
                    operations[kind] += weight_of(op.walk())
                    loads[kind] += sum(1 for inner in op.walk() if isinstance(inner, memref.LoadOp))
                else:
                    loads[kind] += 1
        steps = math.prod(loop_extents(stage)[rank:])
        return _Work(steps, *(_Counts(*(counts[kind] for kind in KINDS)) for counts in (loads, operations)))


def _axes_of_staging(stage: GenericOp, sides: Sides, axes: Mapping[SSAValue, Axes]) -> dict[SSAValue, Axes]:
    """Returns the side of values that only the prologue of one staged side needs."""
    staged = one_sided_values(stage, *sides)
    apart = needed_for(_results(stage), staged)
    needs = [(axes[value], needed_for([value]) - apart) for value in staged]
    shared = Counter(value for _, values in needs for value in values)
    return {value: side for side, values in needs for value in values if shared[value] == 1}


@dataclass(frozen=True)
class _Counts:
    """How often something is done per row of a block, per column, per result, and per thread."""

    row: float
    column: float
    result: float
    once: float

    def over(self, rows: float, columns: float, results: float, threads: float = 1) -> float:
        """Returns the total count for the given numbers of rows, columns, results and threads."""
        return self.row * rows + self.column * columns + self.result * results + self.once * threads


KINDS: tuple[tuple[str, ...], ...] = (("row",), ("column",), ("column", "row"), ())
"""The axes on which values may depend, in the order of the fields of `_Counts`."""


def _cpu_tile(kernel: KernelOp, stage: GenericOp, sides: Sides, machine: CpuModel, target: Target) -> ContractionTile:
    """Returns the tile with the fewest estimated cycles, with its innermost loop and unrolling."""
    best, _ = _fastest(kernel, stage, sides, machine, target)
    tile = replace(best, inner=_inner_loop(kernel, stage, best, machine))
    in_vectors = _reads_vectors(kernel, stage, tile) and can_step(tile, VECTOR, kernel, stage)
    return replace(tile, steps=VECTOR) if in_vectors else tile


def _reads_vectors(kernel: KernelOp, stage: GenericOp, tile: ContractionTile) -> bool:
    """Returns whether steps of the innermost loop are contiguous in an operand, and aligned to vectors."""
    extents = loop_extents(stage)
    inner = AffineDimExpr(len(kernel.extents) + tile.inner if tile.inner >= 0 else len(extents) - 1)
    for operand, m in zip(stage.inputs, maps_of(stage), strict=False):
        if not is_shape_only(operand) and element_of(operand) == f32:
            place = affine.linear(affine.linear_index(m.results, shape_of(operand)), extents)
            others = [factor for atom, factor in place.terms.items() if atom != inner]
            if place.terms.get(inner) == 1 and not any(factor % VECTOR for factor in (*others, place.constant)):
                return True
    return False


def can_step(tile: ContractionTile, steps: int, kernel: KernelOp, stage: GenericOp) -> bool:
    """Returns whether the innermost loop can be unrolled by `steps` without becoming too long to compile."""
    extent = loop_extents(stage)[len(kernel.extents) :][tile.inner]
    fits = tile.rows * tile.columns * steps <= MOST_PRODUCTS
    return steps == 1 or (fits and extent % steps == 0 and extent > steps and not tile.chunk)


def blocked_cost(kernel: KernelOp, stage: GenericOp, target: Target) -> float:
    """Returns the estimated cost of a contraction's default schedule, in the unit of the target's machine model."""
    machine, sides = machine_of(target), sides_of(kernel, stage)
    if isinstance(machine, CpuModel):
        return _fastest(kernel, stage, sides, machine, target)[1]
    return _bytes(kernel, stage, sides, machine, target)


def _fastest(
    kernel: KernelOp, stage: GenericOp, sides: Sides, machine: CpuModel, target: Target, parts: int = 1
) -> tuple[ContractionTile, float]:
    """Returns the fastest tile on a CPU with its estimated cycles, if the reduction is split into `parts`."""
    row, column = sides
    work: list[tuple[Sides, _Work]] = []
    for pair in (sides, (column, row)):
        whole = _Work.of(kernel, stage, pair)
        work.append((pair, replace(whole, steps=whole.steps // parts)))
    lanes = min(machine.lanes, target.most_lanes)
    broadcasts = target.subgroups and target.subgroup_size == lanes and lanes_share(stage)
    return _fastest_block((*kernel.extents, parts), tuple(work), lanes, broadcasts, machine)


@lru_cache(maxsize=1024)  # a model's layers repeat the same query
def _fastest_block(
    grid: tuple[int, ...], work: tuple[tuple[Sides, _Work], ...], lanes: int, broadcasts: bool, machine: CpuModel
) -> tuple[ContractionTile, float]:
    cycles = {
        tile: _cycles(tile, grid, each, machine)
        for pair, each in work
        for tile in _blocks(grid, pair, lanes, broadcasts)
    }
    best = min(cycles, key=lambda tile: cycles[tile])
    return best, cycles[best]


def _blocks(grid: Sequence[int], sides: Sides, lanes: int, broadcasts: bool) -> Iterator[ContractionTile]:
    row_extent, column_extent = (math.prod(grid[loop] for loop in loops) for loops in sides)
    for rows in BLOCK_ROWS:
        for columns in BLOCK_COLUMNS:
            fits = (rows == 1 or rows < 2 * row_extent) and (columns - 1) * lanes < column_extent
            if rows * columns <= MOST_RESULTS and fits:
                broadcast = int(broadcasts and rows > 1)
                yield ContractionTile(
                    row=sides[0], column=sides[1], rows=rows, columns=columns, lanes=lanes, depth=1, broadcast=broadcast
                )


def _cycles(tile: ContractionTile, grid: Sequence[int], work: _Work, machine: CpuModel) -> float:
    """Returns the estimated cycles of a contraction on a CPU."""
    rows = -(-tile.rows // tile.lanes) if tile.broadcast else tile.rows
    outputs = tile.rows * tile.columns
    loads, operations = (counts.over(rows, tile.columns, outputs) for counts in (work.loads, work.operations))
    loading = machine.load * (loads - work.loads.once) + machine.uniform_load * work.loads.once
    each = loading + machine.operation * operations + machine.iteration
    groups = math.prod(tile.groups_over(grid))
    return -(-groups // machine.cores) * (work.steps * each + machine.result * outputs + machine.workgroup)


def _inner_loop(kernel: KernelOp, stage: GenericOp, tile: ContractionTile, machine: CpuModel) -> int:
    """Returns the reduction loop to run innermost, so that bounds checks at the edges of images are outside it."""
    rank = len(kernel.extents)
    own = loop_extents(stage)[rank:]
    maps = [m for operand, m in zip(stage.inputs, maps_of(stage), strict=False) if not is_shape_only(operand)]
    uneven = {loop for m in maps for result in m.results for loop in _in_divisions(result)}
    uneven |= {op.dim.value.data for op in stage.walk() if isinstance(op, IndexOp)}
    lines = tile.rows + tile.columns * tile.lanes * 4 // machine.line + 1
    even = [
        loop
        for loop, extent in enumerate(own)
        if loop + rank not in uneven and extent >= machine.lanes and extent * lines * machine.line <= machine.near_bytes
    ]
    if not even or not any(loop >= rank for loop in uneven):
        return -1
    best = max(even, key=lambda loop: own[loop])
    return -1 if best == len(own) - 1 else best


def _in_divisions(expression: AffineExpr) -> set[int]:
    """Returns the loops that occur in a division or a remainder."""
    if not isinstance(expression, AffineBinaryOpExpr):
        return set()
    if expression.kind in (AffineBinaryOpKind.FloorDiv, AffineBinaryOpKind.Mod):
        return expression.used_dims()
    return _in_divisions(expression.lhs) | _in_divisions(expression.rhs)


# On a GPU


def _gpu_tile(kernel: KernelOp, stage: GenericOp, sides: Sides, machine: GpuModel, target: Target) -> ContractionTile:
    """Returns the largest tile that leaves enough workgroups and wastes little at the edges."""
    grid, lanes = kernel.extents, machine.tile_lanes
    while lanes > target.most_lanes:
        lanes //= 2
    row, column = sides
    if 2 * math.prod(grid[loop] for loop in column) <= lanes:  # most lanes would idle
        row, column = max((sides, sides[::-1]), key=lambda pair: math.prod(grid[loop] for loop in pair[1]))
    row_extent, column_extent = (math.prod(grid[loop] for loop in loops) for loops in (row, column))
    most_deep = min(machine.tile_depth, target.max_compute_invocations_per_workgroup // lanes)
    most_deep = min(most_deep, target.max_compute_workgroup_size_y)
    rest = math.prod(grid) // (row_extent * column_extent)
    columns = min(4, max(1, -(-column_extent // lanes)))
    rows = min(8, row_extent)

    def deep() -> int:
        depth = most_deep
        while depth > 1 and depth // 2 * rows >= row_extent:
            depth //= 2
        return depth

    def groups() -> int:
        across = -(-column_extent // (columns * lanes))
        return across * -(-row_extent // (rows * deep())) * rest

    while groups() < machine.busy_groups and (rows > 1 or columns > 1):
        if columns > rows:
            columns = -(-columns // 2)
        else:
            rows = -(-rows // 2)
    tile = ContractionTile(row=row, column=column, rows=rows, columns=columns, lanes=lanes, depth=deep())
    steps = math.prod(loop_extents(stage)[len(grid) :])
    # Chunks of one length have constant trip counts.
    even = (chunk for chunk in range(machine.staged, machine.staged // 2, -1) if steps % chunk == 0)
    staged = replace(tile, chunk=next(even, machine.staged))
    fits = steps >= 2 * staged.chunk and can_stage(staged, stage, target)
    return staged if fits and tile.threads >= machine.lanes else tile


def _bytes(kernel: KernelOp, stage: GenericOp, sides: Sides, machine: GpuModel, target: Target) -> float:
    """Returns the estimated cost of a contraction on a GPU, in bytes of memory traffic; its loads hit the caches."""
    tile = _gpu_tile(kernel, stage, sides, machine, target)
    work = _Work.of(kernel, stage, (tile.row, tile.column), is_staged=tile.chunk > 0)
    threads = tile.threads
    rows, columns = (tile.rows * tile.depth, tile.columns * tile.lanes)
    results = rows * columns
    if not tile.chunk:
        rows, columns = tile.rows * threads, tile.columns * threads
    loads, operations = (counts.over(rows, columns, results, threads) for counts in (work.loads, work.operations))
    steps = math.prod(tile.groups_over(kernel.extents)) * work.steps
    return steps * (machine.cached * 4 * loads + machine.operation * operations)


def can_stage(tile: ContractionTile, stage: GenericOp, target: Target) -> bool:
    """Returns whether a workgroup's threads can share the values of rows and columns through workgroup memory.

    Loads at computed indices must be among these values: otherwise each thread would wait for its own.
    """
    if tile.broadcast or not tile.row or tile.depth == 1:
        return False
    staged = one_sided_values(stage, tile.row, tile.column)
    apart = needed_for(_results(stage), staged) - set(staged)
    owners = [value.owner for value in apart if isinstance(value.owner, Operation)]
    if any(isinstance(op, memref.LoadOp) for owner in owners for op in owner.walk()):
        return False
    return staged_bytes(tile, stage, staged) <= target.max_compute_workgroup_storage_size


def staged_bytes(tile: ContractionTile, stage: GenericOp, staged: Sequence[SSAValue]) -> int:
    """Returns the bytes of workgroup memory that staged values of a contraction's body take."""
    axes = axes_of_values(stage, tile.row, tile.column)
    return sum(4 * staged_pitch(tile, side == "row") * tile.chunk for value in staged for side in axes[value])


def _results(stage: GenericOp) -> Sequence[SSAValue]:
    last = stage.body.block.last_op
    assert isinstance(last, YieldOp)
    return last.operands


# What tuning tries


def _changed(tile: ContractionTile, own: int) -> Iterator[ContractionTile]:
    """Yields the tiles that differ in one choice, for a contraction with `own` reduction loops."""
    for name in ("rows", "columns", "lanes", "depth"):
        value: int = getattr(tile, name)
        yield from (replace(tile, **{name: other}) for other in (value // 2, value * 2))
    yield replace(tile, rows=tile.rows * 2, columns=tile.columns // 2)
    yield replace(tile, rows=tile.rows // 2, columns=tile.columns * 2)
    yield replace(tile, broadcast=1 - tile.broadcast)
    chunks = (tile.chunk // 2, tile.chunk * 2, 0) if tile.chunk else (8, 16)
    yield from (replace(tile, chunk=chunk) for chunk in chunks)
    yield from (replace(tile, steps=steps) for steps in (1, 2, VECTOR))
    yield from (replace(tile, inner=inner) for inner in range(-1, own - 1))
    yield replace(tile, row=tile.column, column=tile.row)


def lanes_share(stage: GenericOp) -> bool:
    """Returns whether a subgroup can exchange the values of a stage; not every device can exchange 64 bits."""
    inner = (result for op in operations(stage.body.block) for result in op.results)
    return all(value.type != i64 for value in (*stage.body.block.args, *inner))


def _is_possible(tile: ContractionTile, stage: GenericOp, kernel: KernelOp, target: Target) -> bool:
    if min(tile.rows, tile.columns, tile.lanes, tile.depth) < 1 or tile.rows * tile.columns > MOST_RESULTS:
        return False
    if tile.threads > target.max_compute_invocations_per_workgroup or tile.lanes > target.max_compute_workgroup_size_x:
        return False
    if tile.depth > target.max_compute_workgroup_size_y:
        return False
    if not tile.row and (tile.rows > 1 or tile.depth > 1):
        return False
    if not can_step(tile, tile.steps, kernel, stage):
        return False
    one_subgroup = target.subgroups and target.subgroup_size == tile.lanes and tile.depth == 1 and lanes_share(stage)
    if tile.broadcast and not (one_subgroup and tile.rows > 1):
        return False
    return not tile.chunk or _can_stage(tile, stage, kernel, target)


def _can_stage(tile: ContractionTile, stage: GenericOp, kernel: KernelOp, target: Target) -> bool:
    reduced = math.prod(loop_extents(stage)[len(kernel.extents) :])
    return reduced >= 2 * tile.chunk and can_stage(tile, stage, target)
