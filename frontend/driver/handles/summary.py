"""`Training.summary`: a table of a training's parameters and of the cost of a step."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tensorgrad.nn.weights import Leaf, is_parameter
from tensorgrad.runtime.columns import aligned
from tensorgrad.tracing.dtypes import SHORT

HEADER = ("name", "shape", "dtype", "count", "trained")


def table(title: str, declared: Mapping[str, Leaf], trained: Collection[str], stats: Mapping[str, Any]) -> str:
    """Returns a table of parameters and buffers by path, their totals, and the cost of a step.

    Args:
        title: The first line.
        declared: The model's parameters and buffers, by path.
        trained: The paths of the parameters that a step updates.
        stats: The result of `Compiled.stats`.
    """
    rows = [_row(path, leaf, path in trained) for path, leaf in declared.items()]
    return "\n".join([title, *_ruled([HEADER, *rows]), *_totals(declared, trained), _cost(stats)])


def _row(path: str, leaf: Leaf, is_trained: bool) -> tuple[str, ...]:
    extents = " x ".join(map(str, leaf.shape)) or "scalar"
    trained = "buffer" if not is_parameter(leaf) else "yes" if is_trained else "no"
    return path, extents, SHORT[leaf.dtype], f"{math.prod(leaf.shape):,}", trained


def _ruled(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Returns rows with a rule below the first; the counts are right-aligned."""
    lines = aligned(rows, numbers=(HEADER.index("count"),))
    return [lines[0], "-" * max(map(len, lines)), *lines[1:]]


def _totals(declared: Mapping[str, Leaf], trained: Collection[str]) -> list[str]:
    parameters = [leaf for leaf in declared.values() if is_parameter(leaf)]
    buffers = [leaf for leaf in declared.values() if not is_parameter(leaf)]
    updated = _count([leaf for path, leaf in declared.items() if path in trained])
    lines = [f"parameters: {_count(parameters):,}, {updated:,} of them trained ({_size(_bytes(parameters))})"]
    return [*lines, f"buffers: {_count(buffers):,} ({_size(_bytes(buffers))})"] if buffers else lines


def _count(leaves: Sequence[Leaf]) -> int:
    return sum(math.prod(leaf.shape) for leaf in leaves)


def _bytes(leaves: Sequence[Leaf]) -> int:
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves)


def _cost(stats: Mapping[str, Any]) -> str:
    dispatches = stats["dispatches"]
    runs = f"{dispatches} dispatches of {stats['kernels']} kernels, " if dispatches else ""
    return f"a step: {runs}{_size(stats['peak_bytes'])} at its peak, {_size(stats['bytes_moved'])} moved"


def _size(count: float) -> str:
    """Returns a human-readable number of bytes."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} GiB"
