"""Lines of the user's program as programs name them: those leave this machine, and its folders stay here."""

from __future__ import annotations

from pathlib import Path

from xdsl.ir import Attribute

from tensorgrad.dialects.locations import line_in


def label_of(location: Attribute, here: Path | None) -> str:
    """Returns the line that an op comes from as `file:line`, without the folders above the present one.

    Args:
        location: The op's; one that is not a line has no label.
        here: The present folder, see `working_folder`.
    """
    line = line_in(location)
    return "" if line is None else f"{_public(line.filename.data, here)}:{line.line.data}"


def working_folder() -> Path | None:
    """Returns the present folder, or `None` where it is gone."""
    try:
        return Path.cwd()
    except OSError:
        return None


def _public(file: str, here: Path | None) -> str:
    path = Path(file)
    if here is not None and path.is_relative_to(here):
        path = path.relative_to(here)
    return path.name if path.is_absolute() or ".." in path.parts else path.as_posix()
