"""The layout of what a contraction's workgroup stages in its memory: the values of rows or columns, step by step."""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType, f32
from xdsl.ir import Attribute

from tensorgrad.dialects.schedule import ContractionTile
from tensorgrad.passes.analyses.machine import VECTOR
from tensorgrad.passes.codegen.wgsl.vectors import vector_memory

PADDING = VECTOR
"""The elements between the values of two steps.

Without them, threads that write successive steps of a row would meet in the same bank of the memory: a product of
4096x4096 on an NVIDIA H200 gained a fifth.
"""


def staged_extent(tile: ContractionTile, is_row: bool) -> int:
    """Returns how many rows, or columns, a workgroup covers."""
    return tile.rows * tile.depth if is_row else tile.columns * tile.lanes


def staged_pitch(tile: ContractionTile, is_row: bool) -> int:
    """Returns the distance of two steps in elements."""
    return staged_extent(tile, is_row) + PADDING


def staged_memory(tile: ContractionTile, element: Attribute, is_row: bool) -> MemRefType[Attribute]:
    """Returns the type of the memory that holds a chunk of a value; vectors of the rows of a thread, if they fit.

    A thread's rows are neighbours, its columns are `lanes` apart, so that threads store neighbouring results.
    """
    memory = MemRefType(element, [staged_pitch(tile, is_row) * tile.chunk])
    return vector_memory(memory) if is_row and element == f32 and tile.rows % VECTOR == 0 else memory
