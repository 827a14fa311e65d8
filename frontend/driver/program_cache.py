"""Compiled programs on disk, so that a second start of a training runs no pass.

They are those of devices. On numpy what runs is the IR itself, and reading that back from text takes twice the time of
the passes on `tg` that it would save.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

from tensorgrad.runtime.errors import MALFORMED, ProgramError
from tensorgrad.runtime.files import PART, parsed_json
from tensorgrad.runtime.program import Program, constants_of, program_from_json, program_to_json

VARIABLE = "TENSORGRAD_CACHE"
"""The environment variable that names the folder of all that is kept."""

SWITCH = "TENSORGRAD_CACHE_PROGRAMS"
"""The environment variable that turns this cache off, where it is 0."""

MOST_BYTES = 1 << 28
"""So much the programs may take together; those that were used least recently make room."""

FORMAT = 1
"""The version of the files."""

_logger = logging.getLogger("tensorgrad.cache")


def cache_folder() -> Path:
    """Returns where things are kept: the user's cache folder, or `TENSORGRAD_CACHE` where that is set."""
    return Path(os.environ.get(VARIABLE) or platformdirs.user_cache_dir("tensorgrad", appauthor=False))


@dataclass(frozen=True)
class Entry:
    """What a compilation found out.

    Attributes:
        program: What the device runs.
        parameters: Their names, in the order in which they lie in memory.
        settings: What the formulas of its scalars are computed from.
        segments: Into how many runs `remat` divides the function.
        frugal: Whether kernels run in an order that needs little memory.
        memory_cost: What keeping to a memory limit took.
        is_tuned: Whether nothing was left to measure for its schedules.
    """

    program: Program
    parameters: tuple[str, ...]
    settings: frozenset[str]
    segments: int
    frugal: bool
    memory_cost: Mapping[str, int]
    is_tuned: bool

    def to_bytes(self) -> bytes:
        """Returns the entry as a file has it: a line with the hash of the rest, this as JSON, program, constants.

        Raises:
            ProgramError: The program is malformed.
        """
        from safetensors.numpy import save

        around = {
            "parameters": self.parameters,
            "settings": sorted(self.settings),
            "segments": self.segments,
            "frugal": self.frugal,
            "memory_cost": dict(self.memory_cost),
            "is_tuned": self.is_tuned,
        }
        texts = (json.dumps(around), program_to_json(self.program))
        content = b"\n".join([*(text.encode() for text in texts), save(constants_of(self.program))])
        return f"tensorgrad {FORMAT} {hashlib.sha256(content).hexdigest()}\n".encode() + content

    @staticmethod
    def from_bytes(data: bytes, source: str) -> Entry:
        """Returns the entry that a file holds.

        Args:
            data: The file's content.
            source: What messages call it.

        Raises:
            ProgramError: It is damaged.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load

        head, _, content = data.partition(b"\n")
        if head != f"tensorgrad {FORMAT} {hashlib.sha256(content).hexdigest()}".encode():
            raise ProgramError(f"{source} is damaged")
        try:
            around, program, constants = content.split(b"\n", 2)
            fields = _checked(parsed_json(around.decode()))
            return Entry(program_from_json(program.decode(), load(constants), source), **fields)
        except (SafetensorError, *MALFORMED) as error:
            raise ProgramError(f"{source} is damaged: {error}") from error


def _checked(found: Any) -> dict[str, Any]:
    """Returns the fields of an entry around its program, from an untrusted file.

    Raises:
        ValueError, LookupError, TypeError, AttributeError: They are none.
    """
    names, numbers = [*found["parameters"], *found["settings"]], [found["segments"], *found["memory_cost"].values()]
    if not all(isinstance(name, str) for name in names) or not all(type(number) is int for number in numbers):
        raise ValueError("names are texts, and costs are integers")
    if not isinstance(found["frugal"], bool) or not isinstance(found["is_tuned"], bool):
        raise ValueError("frugal and is_tuned are true or false")
    return {**found, "parameters": tuple(found["parameters"]), "settings": frozenset(found["settings"])}


class ProgramCache:
    """A folder of entries, by key. Any number of processes may use it at a time; none waits for another.

    A file appears whole or not at all. One that can't be read, written or deleted is as if it were not there.

    Attributes:
        folder: Where the files are.
    """

    def __init__(self, folder: Path):
        self.folder = folder

    @classmethod
    def from_environment(cls) -> ProgramCache | None:
        """Returns the user's cache, or `None` where it is turned off."""
        return None if os.environ.get(SWITCH) == "0" else cls(cache_folder() / "programs")

    def read(self, key: str) -> Entry | None:
        """Returns what is kept by a key, which counts as used now; `None` where there is nothing, or only damage."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError as error:
            _logger.debug("no compiled program in %s: %s", path, error.strerror)
            return None
        try:
            entry = Entry.from_bytes(data, str(path))
        except ProgramError as error:
            _logger.warning("%s, and is made anew", error)
            _delete(path)
            return None
        with suppress(OSError):  # The folder can perhaps only be read.
            os.utime(path)
        return entry

    def write(self, key: str, entry: Entry) -> None:
        """Keeps an entry by a key, and makes room for it."""
        path = self._path(key)
        aside = path.with_name(f".{key}.{os.getpid()}.{threading.get_ident()}{PART}")
        try:
            data = entry.to_bytes()
            if len(data) > MOST_BYTES:
                return
            self.folder.mkdir(parents=True, exist_ok=True)
            aside.write_bytes(data)
            os.replace(aside, path)
            _logger.debug("wrote a compiled program of %d bytes to %s", len(data), path)
            self._make_room(path)
        except OSError as error:
            _logger.info("compiled programs can't be kept in %s: %s", self.folder, error.strerror)
            _delete(aside)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.program"

    def _make_room(self, newest: Path) -> None:
        """Deletes what was used least recently, what killed processes left included, until the rest is small enough."""
        found: list[tuple[int, int, Path]] = []
        for path in self.folder.iterdir():
            try:
                status = path.stat()
            except OSError:
                continue  # Another process has deleted it.
            found.append((status.st_mtime_ns, status.st_size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= MOST_BYTES:
                return
            if path != newest:
                _delete(path)
                total -= size


def _delete(path: Path) -> None:
    with suppress(OSError):  # The folder can perhaps only be read, or another process has the file open.
        path.unlink(missing_ok=True)
