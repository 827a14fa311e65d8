"""Source lines as programs name them: programs are shared, so they must not reveal the folders of this machine."""

from __future__ import annotations

from pathlib import Path

from xdsl.ir import Attribute

from tensorgrad.dialects.locations import line_in


def label_of(location: Attribute, folder: Path | None) -> str:
    """Returns the source line of an op as `file:line`, without the folders above the working directory.

    Args:
        location: The op's location; the label is empty if it names no line.
        folder: The working directory, see `working_folder`. Of files outside of it, only the name is kept.
    """
    line = line_in(location)
    return "" if line is None else f"{_public(line.filename.data, folder)}:{line.line.data}"


def working_folder() -> Path | None:
    """Returns the working directory, or `None` if it no longer exists."""
    try:
        return Path.cwd()
    except OSError:
        return None


def _public(file: str, folder: Path | None) -> str:
    path = Path(file)
    if folder is not None and path.is_relative_to(folder):
        path = path.relative_to(folder)
    return path.name if path.is_absolute() or ".." in path.parts else path.as_posix()
