"""The default schedule of attention."""

from __future__ import annotations

from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.attention import FORWARD, KEYS, AttentionOp
from tensorgrad.dialects.schedule import Schedule, Tile
from tensorgrad.runtime.target import Target

SOFTWARE_LANES = 8
"""A CPU that plays the GPU runs so many invocations as one vector."""

ACCUMULATORS, MOST_ACCUMULATORS = 128, 256
"""How many a thread has at most on a CPU: more rows read keys less often, but the kernel takes longer to compile."""

LONG = 128
"""So many rows pay for a kernel that takes two to three times as long to compile: one with more accumulators, and with
two columns a lane, so that each row that a lane passes on meets both."""


def attention_schedule(stage: AttentionOp, target: Target) -> Schedule:
    """Blocks of rows a workgroup; its lanes share the rows' features.

    Raises:
        DiagnosticException: There are more rows than the target's workgroups cover.
    """
    a, part = stage.attention, stage.part.data
    broadcast = target.software and target.subgroups and target.subgroup_size == SOFTWARE_LANES
    most = target.max_compute_invocations_per_workgroup
    lanes = SOFTWARE_LANES if target.software else 16
    while lanes > most:
        lanes //= 2
    features = {FORWARD: a.values, KEYS: a.features + a.values}.get(part, a.features)
    held = -(-features // lanes)
    row_count = a.keys if part == KEYS else a.queries
    short = target.software and min(a.queries, a.keys) < LONG
    columns = 1 if short else 2
    most_held = (ACCUMULATORS if short else MOST_ACCUMULATORS) if target.software else 64
    rows = 16 if target.software else 4
    while rows > 1 and (rows * held > most_held or rows // 2 >= row_count):
        rows //= 2
    depth = 1 if target.software else max(1, min(8, most // lanes))
    while depth > 1 and (depth // 2 * rows >= row_count or _shared(part, rows * depth, lanes * columns, target)):
        depth //= 2
    blocks = -(-row_count // (rows * depth))
    limit = target.max_compute_workgroups_per_dimension
    layers = -(-a.groups // limit)
    if blocks > limit or layers > limit:
        raise DiagnosticException(f"an attention of {a.groups} groups of {row_count} rows needs too many workgroups")
    across = -(-a.groups // layers)
    tile = Tile((1,), (1,), rows, columns, lanes, depth, broadcast=int(broadcast))
    return Schedule("attention", (lanes, depth, 1), (blocks, across, layers), tile)


def _shared(part: str, rows: int, width: int, target: Target) -> bool:
    """Whether the weights of a block take more workgroup memory than there is."""
    return (2 if part == KEYS else 1) * rows * width * 4 > target.max_compute_workgroup_storage_size
