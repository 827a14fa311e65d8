"""Explains the decisions of fusion, for the log topic `fusion`."""

from __future__ import annotations

import logging

from xdsl.dialects import arith
from xdsl.dialects.linalg.ops import YieldOp

from tensorgrad.passes.analyses.stages import Parts
from tensorgrad.passes.analyses.walking import operations
from tensorgrad.passes.labels import label_of, working_folder

MOST_NAMES = 4
"""The most names of ops in the description of a kernel."""

_UNNAMED = (arith.ConstantOp, YieldOp)

_log = logging.getLogger("tensorgrad.fusion")


def is_logged() -> bool:
    """Returns whether the topic is logged."""
    return _log.isEnabledFor(logging.DEBUG)


def fused(rule: str, first: Parts, second: Parts) -> None:
    """Logs that two kernels are merged."""
    if is_logged():
        _log.debug("%s: %s into %s", rule, described(first), described(second))


def stored(first: Parts, second: Parts, reason: str) -> None:
    """Logs why two kernels are not merged."""
    _log.debug("%s stays apart from %s: %s", described(first), described(second), reason)


def described(kernel: Parts) -> str:
    """Returns a description of a kernel: the user's line, its kind, its ops and its grid."""
    kind = "pointwise" if kernel.is_pointwise else "reduction"
    if kernel.single is not None:
        kind = kernel.single.name.removeprefix("buf.")
    elif kernel.contraction is not None:
        kind = "contraction"
    grid = " x ".join(map(str, kernel.grid)) or "one point"
    location = kernel.location
    line = "" if location is None else label_of(location, working_folder())
    computed = ", ".join(_computed(kernel))
    return f"{line or 'a kernel'} ({kind}{computed and f' of {computed}'} over {grid})"


def _computed(kernel: Parts) -> list[str]:
    """Returns the distinct names of a kernel's scalar ops, at most `MOST_NAMES` of them."""
    ops = (op for stage in kernel.stages for op in operations(stage.body))
    names = dict.fromkeys(op.name.partition(".")[2] for op in ops if not isinstance(op, _UNNAMED))
    return [*names] if len(names) <= MOST_NAMES else [*list(names)[:MOST_NAMES], "…"]
