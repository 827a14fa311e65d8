"""Locations of ops: a line of the user's program, and the calls of modules in which it ran.

`loc("blocks.3.attention"("blocks.3"("model.py":12:0)))` is a line that ran in the module `blocks.3.attention`, which
`blocks.3` called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, CallSiteLoc, FileLineColLoc, FusedLoc, LocationAttr, NameLoc, StringAttr
from xdsl.ir import Attribute


def line_in(location: Attribute) -> FileLineColLoc | None:
    """Returns the line of a location without the calls around it, or `None` if it has no line.

    Of what other compilers write, a call site's is the line that was called, and a fused location's the first that has
    one.
    """
    while isinstance(location, NameLoc | CallSiteLoc):
        location = location.location if isinstance(location, NameLoc) else location.callee
    if isinstance(location, FusedLoc):
        parts = cast("ArrayAttr[Attribute]", location.locations)
        return next(filter(None, map(line_in, parts)), None)
    return location if isinstance(location, FileLineColLoc) else None


def line_of(location: Attribute) -> str:
    """Returns the line of a location for messages, `file:line`, or `<unknown>` if it has no line."""
    line = line_in(location)
    return "<unknown>" if line is None else f"{line.filename.data}:{line.line.data}"


def calls_in(location: Attribute) -> tuple[str, ...]:
    """Returns the calls of modules in a location, outermost first."""
    calls: list[str] = []
    while isinstance(location, NameLoc):
        calls.append(location.desc.data)
        location = location.location
    return tuple(reversed(calls))


def within_calls(line: LocationAttr, calls: Sequence[str]) -> LocationAttr:
    """Returns the location of a line within calls of modules, outermost first."""
    location = line
    for name in calls:
        location = NameLoc(StringAttr(name), location)
    return location
