"""The machine model: what passes assume of the devices that run kernels, each constant once.

`machine_of` picks the model of a target. A CPU's costs are cycles of one core, a GPU's are bytes of memory traffic;
only costs of one machine are compared. What bounds the size of code is common: it is the driver's time, not the
device's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorgrad.dialects.schedule import Tile
from tensorgrad.runtime.target import Target

VECTOR = 4
"""Elements of f32 in one vector load or store: WGSL's `vec4`."""

# Code size. Drivers compile long kernels slowly: lavapipe's time grows faster than the code, by measurement.

MOST_OPS = 400
"""The most ops in the bodies of one kernel, unrolled ones counted as often as they are repeated."""

MOST_PROLOGUE_OPS = 128
"""The most additions that an iteration of a contraction takes with a prologue: each is repeated for every row and
column of a block."""

MOST_PRODUCTS = 512
"""The most products that one iteration of a contraction's innermost loop accumulates."""

MOST_RESULTS = 128
"""The most results that a thread of a contraction holds in registers."""

DEEPEST_NESTING = 60
"""The deepest nesting of conditions. Mesa's llvmpipe ignores those below the 80th and says nothing, and compilers of
WGSL give up at 127 braces."""

MOST_SHARING = 12
"""The most kernels that share a dispatch: drivers compile all of them as one."""

MOST_SHARED_OPS = 800
"""The most ops of the kernels that share a dispatch."""

OPS_FOR_A_DISPATCH = 300
"""How many ops may be compiled once more for each dispatch that a step saves by it."""

# Memory of a workgroup.

MOST_HELD_BYTES = 8192
"""The most bytes of sums that a contraction holds in its workgroup's memory until it finishes them."""


def holds_sums(tile: Tile) -> bool:
    """Returns whether a contraction may keep its sums in workgroup memory until it finishes them; on a CPU it does."""
    return not tile.chunk and 4 * tile.rows * tile.columns * tile.threads <= MOST_HELD_BYTES


# Exchanges between processes.

BUCKET_BYTES = 1 << 20
"""The bytes that are exchanged at a time, at least: fewer would take the latency of messages more often."""

BUCKET_BYTES_A_PROCESS = 1 << 15
"""The bytes that one process sends another of a bucket, at least: about what networks move in a message's latency."""


def bucket_bytes(size: int) -> int:
    """Returns how many bytes a group of processes exchanges at a time."""
    return max(BUCKET_BYTES, size * BUCKET_BYTES_A_PROCESS)


# Fusion.

CHEAP_OPS = 12
"""A body of at most so many simple ops may be recomputed for each element that reads it."""

ROW_LANES = 64
"""How many lanes can share the own loops of one grid point."""

ENOUGH_LANES = 2048
"""A kernel that keeps so many lanes busy has parallelism to spare."""

SMALL_WORK = 1 << 18
"""Kernels of at most so many points are co-scheduled in one dispatch even if they share nothing."""

BUSY_BYTES = 1 << 24
"""A kernel that moves so many bytes keeps a device busy by itself: co-scheduling it with a kernel of another archetype
does not help."""

# Native loops.

NEAR_POINTS = 1024
"""How many points run through the stages of a kernel together: what lies between stages stays in the first cache."""

TASK_WORK = 1 << 16
"""A task has about so many iterations at least: threads take one in less time than it runs."""

# Reductions that are split.

MOST_PARTS = 64
"""The most parts of a split reduction."""

LEAST_PART = 64
"""The fewest values that a part folds."""

MOST_PART_BYTES = 1 << 22
"""The most bytes of partial results."""


@dataclass(frozen=True, kw_only=True)
class CpuModel:
    """A CPU. Costs are cycles of one core, for one vector of lanes, while all cores are busy.

    Attributes:
        lanes: Invocations that run as one vector.
        cores: Cores that are assumed: fewer workgroups leave some idle.
        load: A load from memory. Dear on lavapipe, which fills a vector lane by lane.
        uniform_load: A load that is the same for all lanes.
        operation: An addition; `weights.py` has other ops relative to it.
        iteration: The overhead of an iteration of the innermost loop.
        result: Finishing and storing a result.
        workgroup: Starting a workgroup.
        saved_dispatch: What one dispatch less saves at least: its encoding; another kernel may fill the wait.
        added_dispatch: What one dispatch more costs at most: threads wake up and wait for each other.
        prologue_margin: By what factor a prologue may take longer than estimated: it leaves fewer registers.
        waves: With so many workgroups for each core, the last ones leave little of it idle.
        near_bytes: What stays in a core's caches while an inner loop runs over it again and again.
        line: Bytes of a cache line.
        point_lanes: Invocations of a workgroup that computes many points.
        many_points: From so many points on, a thread takes several: they share indices and loads.
        short_row: Shorter rows are not unrolled: the driver's time would exceed the gain.
        long_row: Rows so long are unrolled by two vectors.
        many_rows: So many rows of an attention pay for a kernel that takes two to three times as long to compile: one
            with more accumulators, and with two columns a lane, so that each broadcast row meets both.
        accumulators: The most accumulators of an attention's thread, for fewer rows and for many: more rows at once
            read keys less often.
    """

    lanes: int
    cores: int
    load: float
    uniform_load: float
    operation: float
    iteration: float
    result: float
    workgroup: float
    saved_dispatch: float
    added_dispatch: float
    prologue_margin: float
    waves: int
    near_bytes: int
    line: int
    point_lanes: int
    many_points: int
    short_row: int
    long_row: int
    many_rows: int
    accumulators: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class GpuModel:
    """A GPU. Costs are bytes that its memory moves meanwhile.

    Attributes:
        lanes: Invocations of a workgroup that computes points.
        row_lanes: The most lanes that share a point.
        cached: A byte read from a cache.
        operation: An addition.
        dispatch: Starting a dispatch.
        staged: How many iterations of a reduction a workgroup stages at a time.
        busy_groups: So many workgroups keep a GPU busy.
        few_points: Fewer points than this get a workgroup each.
        split_work: Smaller reductions end sooner than a further dispatch starts.
        long_row: Rows so long get a workgroup each, unless neighbouring points read neighbouring elements.
        tile_lanes: A contraction's or an attention's lanes along the columns.
        accumulators: The most accumulators of an attention's thread.
    """

    lanes: int
    row_lanes: int
    cached: float
    operation: float
    dispatch: float
    staged: int
    busy_groups: int
    few_points: int
    split_work: int
    long_row: int
    tile_lanes: int
    accumulators: int


SOFTWARE = CpuModel(
    lanes=8,
    cores=8,
    load=17.0,
    uniform_load=4.0,
    operation=0.75,
    iteration=8.0,
    result=20.0,
    workgroup=500.0,
    saved_dispatch=2e4,
    added_dispatch=3e5,
    prologue_margin=2.0,
    waves=4,
    near_bytes=1 << 16,
    line=64,
    point_lanes=64,
    many_points=1 << 14,
    short_row=16,
    long_row=256,
    many_rows=128,
    accumulators=(128, 256),
)
"""A CPU that plays the GPU: Mesa's lavapipe with AVX2, measured kernel by kernel."""

NATIVE = replace(
    SOFTWARE,
    lanes=16,
    cores=4,
    load=1.0,
    uniform_load=0.1,
    operation=0.5,
    iteration=1.0,
    result=2.0,
    workgroup=100.0,
    saved_dispatch=1e3,
    added_dispatch=4e3,
    near_bytes=1 << 18,
)
"""A CPU that runs native code, with vectors of 8 to 16 floats."""

GPU = GpuModel(
    lanes=64,
    row_lanes=256,
    cached=0.25,
    operation=0.1,
    dispatch=1 << 20,
    staged=16,
    busy_groups=128,
    few_points=1024,
    split_work=1 << 22,
    long_row=64,
    tile_lanes=16,
    accumulators=64,
)
"""Any GPU: orders of magnitude that hold from integrated ones to a large one; tuning measures the rest."""


@dataclass(frozen=True, kw_only=True)
class AttentionModel:
    """What native code takes for an attention and its derivative, in cycles of one core for each score.

    Attributes:
        lanes: Products that are computed at once.
        composed_products: How many products of matrices there are where scores are stored.
        tiled_products: How many there are where none is: scores are computed again.
        near_score: What a stored score takes besides: softmax, its derivative, loads, stores and packing.
        far_score: The same where scores leave the caches.
        near_bytes: So many bytes of scores stay in the caches.
        tiled_score: What a score in tiles takes besides.
        apart: What all that is multiplied by where the derivative is two kernels, which compute scores and their
            cotangents once more.
        skipped_tile: The keys of a tile: those that causality rules out are left out by whole tiles.
    """

    lanes: int
    composed_products: int
    tiled_products: int
    near_score: float
    far_score: float
    near_bytes: int
    tiled_score: float
    apart: float
    skipped_tile: int


NATIVE_ATTENTION = AttentionModel(
    lanes=16,
    composed_products=6,
    tiled_products=7,
    near_score=8.0,
    far_score=14.0,
    near_bytes=1 << 21,
    tiled_score=7.0,
    apart=1.3,
    skipped_tile=32,
)
"""Measured with AVX-512, for 64 to 1024 queries and keys of 32 to 128 features."""


def machine_of(target: Target) -> CpuModel | GpuModel:
    """Returns the model of a target's machine."""
    if target.native:
        return NATIVE
    return SOFTWARE if target.software else GPU
