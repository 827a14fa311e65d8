"""Where in the user's code are we?"""

from __future__ import annotations

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr
from xdsl.ir import Attribute

from tensorgrad.runtime.errors import user_frame

_locations: dict[tuple[str, int], FileLineColLoc] = {}


def user_location() -> FileLineColLoc:
    """Returns the user's line as an IR location."""
    frame = user_frame()
    key = ("<unknown>", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
    found = _locations.get(key)
    if found is None:
        found = _locations[key] = FileLineColLoc(StringAttr(key[0]), IntAttr(key[1]), IntAttr(0))
    return found


def user_line() -> str:
    """Returns the user's line, as `file:line`."""
    return line_of(user_location())


def line_of(location: Attribute) -> str:
    """Returns the line that an op is from, as `file:line`."""
    if not isinstance(location, FileLineColLoc):
        return "<unknown>"
    return f"{location.filename.data}:{location.line.data}"
