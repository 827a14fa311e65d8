"""The machine model: what passes assume about devices, with each constant defined once.

`machine_of` returns the model of a target. A CPU's costs are cycles of one core, a GPU's are bytes of memory traffic;
only costs on the same machine are compared. Limits on code size are common to all: they bound the driver's compile
time, not the device's run time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorgrad.dialects.schedule import ContractionTile
from tensorgrad.runtime.target import Target

VECTOR = 4
"""Elements of f32 in one vector load or store: WGSL's `vec4`."""

LINE_BYTES = 64
"""The bytes of a CPU's cache line."""

# Code size. Drivers compile long kernels slowly: measured on lavapipe, compile time is superlinear.

MOST_OPS = 400
"""The most ops in the bodies of one kernel, counting every unrolled copy."""

MOST_PROLOGUE_OPS = 128
"""The highest cost, in additions, of a prologue per iteration of a contraction: it is repeated for every row and column
of a block."""

MOST_PRODUCTS = 512
"""The most products that one iteration of a contraction's innermost loop accumulates."""

MOST_RESULTS = 128
"""The most results that a thread of a contraction holds in registers."""

DEEPEST_NESTING = 60
"""The deepest nesting of conditions. Mesa's llvmpipe silently ignores those below the 80th, and WGSL compilers fail at
127 braces."""

MOST_SHARING = 12
"""The most kernels that share a dispatch: drivers compile them as one."""

MOST_SHARED_OPS = 800
"""The most ops of the kernels that share a dispatch."""

OPS_FOR_A_DISPATCH = 300
"""The most ops that may be compiled redundantly for each dispatch that this saves per step."""

# Workgroup memory.

MOST_HELD_BYTES = 8192
"""The most bytes of sums that a contraction holds in workgroup memory until its epilogue."""


def holds_sums(tile: ContractionTile) -> bool:
    """Returns whether a contraction's sums fit in workgroup memory until its epilogue; used on CPUs."""
    return not tile.chunk and 4 * tile.rows * tile.columns * tile.threads <= MOST_HELD_BYTES


# Exchanges between processes.

BUCKET_BYTES = 1 << 20
"""The minimum bytes per exchange: smaller ones would be dominated by message latency."""

BUCKET_BYTES_A_PROCESS = 1 << 15
"""The minimum bytes of a bucket per pair of processes: about the bandwidth-delay product of networks."""


def bucket_bytes(size: int) -> int:
    """Returns the bytes per exchange in a group of `size` processes."""
    return max(BUCKET_BYTES, size * BUCKET_BYTES_A_PROCESS)


# Fusion.

CHEAP_OPS = 12
"""The most simple ops of a body that may be recomputed for each element that reads it."""

SCANNED_OPS = 8
"""The most ops of a body that a scan computes, one term after another: those of more take less time as vectors."""

ROW_LANES = 64
"""The number of lanes that can share the own loops of one grid point."""

ENOUGH_LANES = 2048
"""The number of busy lanes from which a kernel has ample parallelism."""

SMALL_WORK = 1 << 18
"""The most points of kernels that are co-scheduled in one dispatch even if they share no data."""

BUSY_BYTES = 1 << 24
"""The bytes moved from which a kernel saturates a device by itself: co-scheduling it with a kernel of another archetype
does not help."""

# Native loops.

NEAR_POINTS = 1024
"""The number of points per block of a kernel's stages: values between stages stay in the L1 cache."""

TASK_WORK = 1 << 16
"""The approximate minimum iterations of a task: fetching one takes a thread less time than running it."""

# Split reductions.

MOST_PARTS = 64
"""The most parts of a split reduction."""

LEAST_PART = 64
"""The fewest values reduced by a part."""

MOST_PART_BYTES = 1 << 22
"""The most bytes of partial results."""


@dataclass(frozen=True, kw_only=True)
class CpuModel:
    """A CPU. Costs are cycles of one core for one vector of lanes, with all cores busy.

    Attributes:
        lanes: Invocations that run as one vector.
        cores: The assumed number of cores: fewer workgroups leave some idle.
        load: A load from memory. Expensive on lavapipe, which gathers lane by lane.
        gather: A load at a computed index: on native code a branch, divisions and a load for each lane.
        uniform_load: A load that is uniform over the lanes.
        operation: An addition; `weights.py` has the costs of other ops relative to it.
        byte: A byte of memory traffic that no cache holds. With `operation` it says what bounds a kernel.
        iteration: The loop overhead per iteration of the innermost loop.
        result: The epilogue and store of a result.
        workgroup: Starting a workgroup.
        saved_dispatch: The minimum gain of removing a dispatch: its encoding; another kernel may fill the wait.
        added_dispatch: The maximum cost of adding a dispatch: threads wake up and synchronize.
        prologue_margin: The factor by which a prologue may exceed its estimate: in the loop that multiplies, it leaves
            fewer registers (measured on lavapipe: 0.3 to 1.8). Native code packs operands in loops of their own.
        waves: The number of workgroups per core from which the tail leaves little of it idle.
        near_bytes: The bytes that stay in a core's caches while an inner loop reads them repeatedly.
        line: The size of a cache line in bytes.
        point_lanes: Invocations of a workgroup that computes many points.
        many_points: The number of points from which a thread takes several, which share indices and loads.
        short_row: Rows shorter than this are not unrolled: compile time would exceed the gain.
        long_row: Rows of at least this length are unrolled by two vectors.
        many_rows: The number of an attention's rows from which a kernel that takes two to three times as long to
            compile pays off: one with more accumulators, and with two columns per lane, so that each broadcast row
            meets both.
        accumulators: The most accumulators of an attention's thread, for fewer rows and for many: more rows at a time
            read keys less often.
    """

    lanes: int
    cores: int
    load: float
    gather: float
    uniform_load: float
    operation: float
    byte: float
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
    """A GPU. Costs are in bytes of memory traffic that take the same time.

    Attributes:
        lanes: Invocations of a workgroup that computes points.
        many_points: The number of points from which a GPU has more than enough threads, so that each takes a vector of
            points where it can, in workgroups of `point_lanes`.
        point_lanes: Invocations of a workgroup that computes many points.
        row_lanes: The most lanes that share a point.
        cached: Reading a byte from a cache.
        operation: An addition.
        dispatch: Starting a dispatch.
        added_dispatch: The maximum cost of adding a dispatch that waits for another one.
        staged: The number of iterations of a reduction that a workgroup stages at a time.
        busy_groups: The number of workgroups that keeps a GPU busy: one for each of a large one's multiprocessors.
        few_points: Below this number, each point gets a workgroup.
        split_work: Smaller reductions finish before another dispatch would start.
        long_row: Rows of at least this length get a workgroup each, unless neighbouring points read neighbouring
            elements.
        tile_lanes: A contraction's or an attention's lanes along the columns.
        tile_depth: A contraction's lanes along the rows. With it a workgroup computes 64x64 results, 8x4 a lane.
        accumulators: The most accumulators of an attention's thread.
    """

    lanes: int
    many_points: int
    point_lanes: int
    row_lanes: int
    cached: float
    operation: float
    dispatch: float
    added_dispatch: float
    staged: int
    busy_groups: int
    few_points: int
    split_work: int
    long_row: int
    tile_lanes: int
    tile_depth: int
    accumulators: int


SOFTWARE = CpuModel(
    lanes=8,
    cores=8,
    load=17.0,
    gather=17.0,
    uniform_load=4.0,
    operation=0.75,
    byte=0.7,
    iteration=8.0,
    result=20.0,
    workgroup=500.0,
    saved_dispatch=2e4,
    added_dispatch=3e5,
    prologue_margin=1.75,
    waves=4,
    near_bytes=1 << 16,
    line=LINE_BYTES,
    point_lanes=64,
    many_points=1 << 14,
    short_row=16,
    long_row=256,
    many_rows=128,
    accumulators=(128, 256),
)
"""A software GPU: Mesa's lavapipe with AVX2, measured per kernel. `byte` is 17 GB/s at 12e9 cycles of all cores."""

NATIVE = replace(
    SOFTWARE,
    lanes=16,
    cores=4,
    load=1.0,
    gather=32.0,
    uniform_load=0.1,
    operation=0.5,
    iteration=1.0,
    result=2.0,
    workgroup=100.0,
    saved_dispatch=1e3,
    added_dispatch=4e3,
    prologue_margin=1.0,
    near_bytes=1 << 18,
)
"""A CPU that runs native code, with vectors of 8 to 16 floats."""

GPU = GpuModel(
    lanes=64,
    many_points=1 << 17,
    point_lanes=256,
    row_lanes=256,
    cached=0.25,
    operation=0.1,
    dispatch=1 << 20,
    added_dispatch=1 << 22,
    staged=16,
    busy_groups=128,
    few_points=1024,
    split_work=1 << 20,
    long_row=64,
    tile_lanes=16,
    tile_depth=8,
    accumulators=64,
)
"""Any GPU: orders of magnitude that hold from integrated to large ones; tuning measures the rest.

A large GPU starts workgroups at a limited rate: on an H200, streams of 16.7 million threads of one scalar each reach
1250 GB/s in workgroups of 64, 3400 in workgroups of 256, and 4200 to 4300 with a vector per thread, in any workgroup.
"""


@dataclass(frozen=True, kw_only=True)
class AttentionModel:
    """The costs of native code for attention and its derivative, in cycles of one core per score.

    Attributes:
        lanes: The number of products computed at a time.
        composed_products: The number of matrix products if scores are stored.
        tiled_products: The number of matrix products if they are not: scores are recomputed.
        near_score: The other costs of a stored score: softmax, its derivative, loads, stores and packing.
        far_score: As `near_score`, if scores don't fit the caches.
        near_bytes: The bytes of scores that fit the caches.
        tiled_score: The other costs of a score in tiles.
        apart: The factor on all this if the derivative is two kernels, which compute scores and their cotangents twice.
        skipped_tile: The keys of a tile: those excluded by causality are skipped by whole tiles.
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


def roofline(machine: CpuModel | GpuModel, bytes_moved: int, flops: int) -> tuple[float, float]:
    """Returns what a kernel's memory traffic and its arithmetic cost on a machine, in its units; the larger bounds it.

    After S. Williams, A. Waterman, D. Patterson: Roofline: An Insightful Visual Performance Model for Multicore
    Architectures (CACM 52, 2009).
    """
    if isinstance(machine, GpuModel):
        return float(bytes_moved), machine.operation * flops
    return machine.byte * bytes_moved, machine.operation / machine.lanes * flops
