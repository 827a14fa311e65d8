"""Windows of buffers: if a kernel's grid is cut, each part of it needs only some rows of a buffer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from tensorgrad.dialects.buf import PACKED_VIEW, Buffer, PackOp, ViewOp, buffer_bytes, shape_of
from tensorgrad.passes.analyses.storage import Accesses, Bindings, bindings_of, chunk_bytes
from tensorgrad.runtime.target import Target


@dataclass(frozen=True)
class Cut:
    """A way to cut the grid of a kernel.

    Attributes:
        axis: The grid loop that is cut.
        step: The number of iterations in each part but the last.
        rows: The buffers of which a part needs only the rows of its own iterations, with the axis of these rows.
    """

    axis: int
    step: int
    rows: dict[SSAValue, int]


def cuts_of(
    grid: Sequence[int], accesses: Callable[[], Sequence[Accesses]], buffers: Iterable[SSAValue], target: Target
) -> list[Cut]:
    """Returns the ways to cut a kernel's grid so that buffers above the binding size limit are bound in windows.

    Args:
        grid: The extents of the grid.
        accesses: Returns the accesses of the kernel's stages; only called if there is a large buffer.
        buffers: The buffers that it binds.
        target: Has the limits on the size and alignment of bindings.

    Returns:
        One cut for each loop that gives windows of a large buffer, and of every buffer that the kernel writes; none if
        there is no large buffer.
    """
    remaining = list(dict.fromkeys(buffers))
    large = [value for value in remaining if bindings_of(_bytes(value), target) > 1]
    if not large:
        return []
    stages = accesses()
    written = {value for stage in stages for value, _ in stage.writes if value in remaining}
    loaded = {value for stage in stages for value in stage.loads}
    maps: dict[SSAValue, list[AffineMap]] = {value: [] for value in remaining if value not in loaded}
    for stage in stages:
        for value, index in (*stage.reads, *stage.writes):
            if value in maps:
                maps[value].append(index)
    results: list[Cut] = []
    for axis, extent in enumerate(grid):
        rows = {
            value: place for value, map_ in maps.items() if (place := _row_axis(value, map_, axis, extent)) is not None
        }
        step = _step([_row_bytes(value, rows[value]) for value in large if value in rows], target)
        if 0 < step < extent and written <= rows.keys():
            results.append(Cut(axis, step, rows))
    return results


def fits(
    bindings: Bindings,
    grid: Sequence[int],
    accesses: Callable[[], Sequence[Accesses]],
    buffers: Sequence[SSAValue],
) -> bool:
    """Returns whether a kernel fits the binding limit, either as it is or after `cut-grids`.

    Args:
        bindings: The limit.
        grid: The extents of the grid.
        accesses: Returns the accesses of the kernel's stages.
        buffers: The buffers that it binds.
    """
    return bindings.fit(buffers) or any(
        bindings.fit(buffers, cut.rows) for cut in cuts_of(grid, accesses, buffers, bindings.target)
    )


def _row_bytes(value: SSAValue, axis: int) -> int:
    """Returns the bytes of a buffer per index of its first axis of more than one element."""
    return _bytes(value) // shape_of(value)[axis]


def _bytes(value: SSAValue) -> int:
    return buffer_bytes(cast(Buffer, value.type))


def _row_axis(value: SSAValue, maps: Sequence[AffineMap], loop: int, extent: int) -> int | None:
    """Returns the outermost axis of a buffer if it is indexed by exactly a loop in every access."""
    if isinstance(value.owner, PackOp) or (isinstance(value.owner, ViewOp) and PACKED_VIEW in value.owner.attributes):
        return None  # it aliases several buffers
    shape = shape_of(value)
    axis = next((axis for axis, size in enumerate(shape) if size > 1), None)
    if axis is None or not maps or shape[axis] != extent:
        return None
    for map_ in maps:
        others = (*map_.results[:axis], *map_.results[axis + 1 :])
        if map_.results[axis] != AffineDimExpr(loop) or any(loop in other.used_dims() for other in others):
            return None
    return axis


def _step(rows: Sequence[int], target: Target) -> int:
    """Returns the most rows, given their sizes in bytes, of a window with an aligned start; 0 if none."""
    if not rows:
        return 0
    alignment = target.min_storage_buffer_offset_alignment
    aligned = math.lcm(*(alignment // math.gcd(size, alignment) for size in rows))
    return chunk_bytes(target) // max(rows) // aligned * aligned
