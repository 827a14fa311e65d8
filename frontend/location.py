"""Where in the user's code are we?"""

from __future__ import annotations

import os
import sys
import sysconfig
from types import FrameType

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr

from tensorgrad import dialects, passes, runtime

_OURS = tuple(
    os.path.dirname(os.path.realpath(file)) + os.sep
    for file in (__file__, dialects.__file__, passes.__file__, runtime.__file__)
    if file is not None
)
_LIBRARY = os.path.realpath(sysconfig.get_paths()["stdlib"]) + os.sep
_ours_by_file: dict[str, bool] = {}
_locations: dict[tuple[str, int], FileLineColLoc] = {}


def _is_ours(file: str) -> bool:
    found = _ours_by_file.get(file)
    if found is None:
        real = os.path.realpath(file)
        inside_library = real.startswith(_LIBRARY) and "site-packages" not in real
        found = _ours_by_file[file] = real.startswith(_OURS) or inside_library or file.startswith("<frozen")
    return found


def user_frame() -> FrameType | None:
    """The innermost frame that is neither ours nor the standard library's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def user_location() -> FileLineColLoc:
    """The user's line as an IR location."""
    frame = user_frame()
    key = ("<unknown>", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
    found = _locations.get(key)
    if found is None:
        found = _locations[key] = FileLineColLoc(StringAttr(key[0]), IntAttr(key[1]), IntAttr(0))
    return found


def user_line() -> str:
    """The user's line, as `file:line`."""
    location = user_location()
    return f"{location.filename.data}:{location.line.data}"
