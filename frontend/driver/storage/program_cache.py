"""Compiled programs on disk, so that restarting a training runs no pass.

Only device programs are cached. Numpy runs the IR itself, and parsing it back from text takes twice the time of the
passes on `tg` that this would save.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import platformdirs

from tensorgrad.driver.storage.program_key import ProgramKey
from tensorgrad.runtime.cache import DiskCache
from tensorgrad.runtime.errors import MALFORMED, OptionError, ProgramError
from tensorgrad.runtime.plan import relabeled
from tensorgrad.runtime.program import Program, constants_of, program_from_json, program_to_json
from tensorgrad.runtime.schema import BESIDE, read, write
from tensorgrad.runtime.texts import parsed_json

VARIABLE = "TENSORGRAD_CACHE"
"""The environment variable that names the cache directory."""

SWITCH = "TENSORGRAD_CACHE_PROGRAMS"
"""The environment variable that turns this cache off if it is 0."""

MOST_BYTES = 1 << 28
"""The size limit of the cache in bytes; the least recently used programs are evicted."""

SUFFIX = ".program"

FORMAT = 2
"""The version of the files."""

_logger = logging.getLogger("tensorgrad.cache")


def cache_folder() -> Path:
    """Returns the cache directory: the user's cache directory, or `TENSORGRAD_CACHE` if that is set.

    Raises:
        OptionError: It is set to 0, which turns other caches off.
    """
    chosen = os.environ.get(VARIABLE)
    if chosen == "0":
        raise OptionError(
            f"{VARIABLE} is a folder, not 0; {SWITCH}=0 turns the cache of programs off, TENSORGRAD_CACHE_OBJECTS=0 "
            "that of native code"
        )
    return Path(chosen or platformdirs.user_cache_dir("tensorgrad", appauthor=False))


@dataclass(frozen=True)
class Entry:
    """A cached compilation.

    Attributes:
        program: The program that the device runs.
        parameters: The names of its parameters, in memory order.
        settings: The host values that formulas of its scalars depend on.
        segments: The number of segments that `remat` divides the function into.
        frugal: Whether kernels are ordered for low memory use.
        memory_cost: The cost of a memory limit.
        is_tuned: Whether tuning of its schedules is complete.
        lines: The source line of each op of the traced module, in order.
    """

    program: Annotated[Program, BESIDE]
    parameters: tuple[str, ...]
    settings: frozenset[str]
    segments: int
    frugal: bool
    memory_cost: Mapping[str, int]
    is_tuned: bool
    lines: tuple[str, ...]

    def to_bytes(self) -> bytes:
        """Returns the content of the entry's file: a line of JSON fields, a line of the program, and its constants.

        Raises:
            ProgramError: The program is malformed.
        """
        from safetensors.numpy import save

        texts = (json.dumps(write(self)), program_to_json(self.program))
        return b"\n".join([*(text.encode() for text in texts), save(constants_of(self.program))])

    @staticmethod
    def from_bytes(data: bytes, source: str) -> Entry:
        """Returns the entry stored in a file.

        Args:
            data: The file's content.
            source: The file's name in error messages.

        Raises:
            ProgramError: It is damaged.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            around, program, constants = data.split(b"\n", 2)
            stored = program_from_json(program.decode(), load(constants), source)
            return read(Entry, {**parsed_json(around.decode()), "program": stored})
        except (SafetensorError, *MALFORMED) as error:
            raise ProgramError(f"{source} is damaged: {error}") from error

    def moved_to(self, lines: Sequence[str]) -> Entry | None:
        """Returns the entry with other source lines.

        Args:
            lines: The source line of each op of the traced module, as it is now.

        Returns:
            The entry, or `None` if it doesn't tell which line a dispatch moves to: two ops that were on one line no
            longer are.
        """
        if tuple(lines) == self.lines:
            return self
        pairs = set(zip(self.lines, lines, strict=False))
        labels = {"": "", **dict(pairs)}
        if len(lines) != len(self.lines) or len(dict(pairs)) < len(pairs):
            return None
        try:
            program = replace(self.program, plan=relabeled(self.program.plan, labels))
        except KeyError:  # a line of the compiler's own
            return None
        return replace(self, program=program, lines=tuple(lines))


class ProgramCache:
    """The user's compiled programs on disk, by key.

    Args:
        folder: The folder, see `DiskCache`.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._disk = DiskCache(folder, SUFFIX, MOST_BYTES)

    @classmethod
    def from_environment(cls) -> ProgramCache | None:
        """Returns the user's cache, or `None` if it is disabled."""
        return None if os.environ.get(SWITCH) == "0" else cls(cache_folder() / "programs")

    def read(self, key: ProgramKey) -> Entry | None:
        """Returns the entry of a key, with the lines that the key's module has; marks it as recently used.

        Returns `None` if the entry is absent or damaged, or if its lines can't be told apart (see `Entry.moved_to`).
        """
        data = self._disk.read(key.digest)
        if data is None:
            _logger.debug("no compiled program in %s", self._disk.path(key.digest))
            return None
        try:
            return Entry.from_bytes(data, str(self._disk.path(key.digest))).moved_to(key.lines)
        except ProgramError as error:
            self._disk.drop(key.digest, str(error))
            return None

    def write(self, key: ProgramKey, entry: Entry) -> None:
        """Stores an entry under a key."""
        self._disk.write(key.digest, entry.to_bytes())
