"""Compiled programs on disk, so that restarting a training runs no pass.

Only device programs are cached. Numpy runs the IR itself, and parsing it back from text takes twice the time of the
passes on `tg` that this would save.
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
"""The environment variable that names the cache directory."""

SWITCH = "TENSORGRAD_CACHE_PROGRAMS"
"""The environment variable that turns this cache off if it is 0."""

MOST_BYTES = 1 << 28
"""The size limit of the cache in bytes; the least recently used programs are evicted."""

FORMAT = 1
"""The version of the files."""

_logger = logging.getLogger("tensorgrad.cache")


def cache_folder() -> Path:
    """Returns the cache directory: the user's cache directory, or `TENSORGRAD_CACHE` if that is set."""
    return Path(os.environ.get(VARIABLE) or platformdirs.user_cache_dir("tensorgrad", appauthor=False))


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
    """

    program: Program
    parameters: tuple[str, ...]
    settings: frozenset[str]
    segments: int
    frugal: bool
    memory_cost: Mapping[str, int]
    is_tuned: bool

    def to_bytes(self) -> bytes:
        """Returns the bytes of the entry as a file: a line with the hash of the rest, JSON fields, program, constants.

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
        """Returns the entry stored in a file.

        Args:
            data: The file's content.
            source: The file's name in error messages.

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
    """Returns the fields of an entry besides its program, from an untrusted file.

    Raises:
        ValueError, LookupError, TypeError, AttributeError: They are malformed.
    """
    names, numbers = [*found["parameters"], *found["settings"]], [found["segments"], *found["memory_cost"].values()]
    if not all(isinstance(name, str) for name in names) or not all(type(number) is int for number in numbers):
        raise ValueError("names are texts, and costs are integers")
    if not isinstance(found["frugal"], bool) or not isinstance(found["is_tuned"], bool):
        raise ValueError("frugal and is_tuned are true or false")
    return {**found, "parameters": tuple(found["parameters"]), "settings": frozenset(found["settings"])}


class ProgramCache:
    """A directory of entries, by key. Any number of processes may use it concurrently; none waits for another.

    Files are written atomically. One that can't be read, written or deleted is treated as absent.

    Attributes:
        folder: The directory.
    """

    def __init__(self, folder: Path):
        self.folder = folder

    @classmethod
    def from_environment(cls) -> ProgramCache | None:
        """Returns the user's cache, or `None` if it is disabled."""
        return None if os.environ.get(SWITCH) == "0" else cls(cache_folder() / "programs")

    def read(self, key: str) -> Entry | None:
        """Returns the entry of a key, and marks it as recently used; `None` if it is absent or damaged."""
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
        with suppress(OSError):  # the directory may be read-only
            os.utime(path)
        return entry

    def write(self, key: str, entry: Entry) -> None:
        """Stores an entry under a key, evicting others if needed."""
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
        """Evicts the least recently used files, including leftovers of killed processes, until the rest fits."""
        found: list[tuple[int, int, Path]] = []
        for path in self.folder.iterdir():
            try:
                status = path.stat()
            except OSError:
                continue  # another process has deleted it
            found.append((status.st_mtime_ns, status.st_size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= MOST_BYTES:
                return
            if path != newest:
                _delete(path)
                total -= size


def _delete(path: Path) -> None:
    with suppress(OSError):  # the directory may be read-only, or another process may have the file open
        path.unlink(missing_ok=True)
