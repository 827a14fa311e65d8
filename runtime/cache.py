"""Caches on disk: a folder of entries by key, which only its owner can read or write.

What a cache returns is executed, as machine code or as the plan of a program. So an entry counts only if it lies in a
folder that nobody else can write to, in a file of the user's own, under the key that it was stored under.
"""

from __future__ import annotations

import hashlib
import logging
import os
import random
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tensorgrad.runtime.files import PART, delete_abandoned

TRIM_SHARE = 1 / 64
"""The bytes written between two trims, on average, as a fraction of the limit: a trim reads the size of every file."""

_log = logging.getLogger("tensorgrad.cache")
_reported: set[Path] = set()
"""The folders whose refusal is in the log."""


@dataclass(frozen=True)
class DiskCache:
    """A folder of entries. Any number of processes may use it concurrently; none waits for another.

    Files are written atomically. One that can't be read, written or deleted is treated as absent.

    Attributes:
        folder: The folder, created with its missing parents when the first entry is written.
        suffix: The suffix of the files' names.
        most_bytes: The size limit, which may be exceeded by `TRIM_SHARE`; the least recently used entries are removed
            first.
    """

    folder: Path
    suffix: str
    most_bytes: int

    def path(self, key: str) -> Path:
        """Returns the path of a key's file."""
        return self.folder / f"{key}{self.suffix}"

    def read(self, key: str) -> bytes | None:
        """Returns the data stored under a key, and marks it as recently used; `None` if it is absent or damaged."""
        path = self.path(key)
        if not is_private(self.folder):
            return None
        try:
            with open(path, "rb", opener=_without_following) as file:
                if not _is_ours(os.fstat(file.fileno())):
                    return None
                content = file.read()
        except OSError:
            return None
        data = content[_DIGEST_BYTES:]
        if content[:_DIGEST_BYTES] != _digest(key, data):
            self.drop(key, "its checksum differs")
            return None
        with suppress(OSError):  # the folder may be read-only
            os.utime(path)
        return data

    def write(self, key: str, data: bytes) -> None:
        """Stores data under a key, and now and then evicts others."""
        if len(data) > self.most_bytes:
            return
        name = None
        try:
            create_private(self.folder)
            if not is_private(self.folder):
                return
            with tempfile.NamedTemporaryFile(dir=self.folder, suffix=PART, delete=False) as file:
                name = file.name
                file.write(_digest(key, data) + data)
            os.replace(name, self.path(key))
            name = None
        except OSError as error:
            _log.info("nothing can be kept in %s: %s", self.folder, error.strerror)
        finally:
            if name is not None:
                _delete(name)
        if random.random() * TRIM_SHARE * self.most_bytes < len(data):
            self._trim()

    def drop(self, key: str, reason: str) -> None:
        """Deletes a damaged entry, with a warning in the log."""
        path = self.path(key)
        _log.warning("%s is damaged, and is made anew: %s", path, reason)
        _delete(path)

    def _trim(self) -> None:
        """Removes the least recently used entries until the rest fits, and files that killed processes left unfinished.

        Other processes may remove files concurrently.
        """
        files: list[tuple[int, int, str]] = []
        try:
            entries = list(os.scandir(self.folder))
        except OSError:
            return
        for entry in entries:
            with suppress(OSError):
                status = entry.stat()
                if entry.name.endswith(PART):
                    delete_abandoned(entry.path)
                else:
                    files.append((status.st_mtime_ns, status.st_size, entry.path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self.most_bytes:
                return
            _delete(path)
            total -= size


def create_private(folder: Path) -> None:
    """Creates a folder and its missing parents, which only the user can enter, whatever the umask.

    Raises:
        OSError: It can't be created.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        with suppress(FileExistsError):  # another process creates it too
            path.mkdir(mode=0o700)
            path.chmod(0o700)  # the umask may take more


def is_private(folder: Path) -> bool:
    """Returns whether a folder exists, belongs to the user, and nobody else can enter it.

    A folder of the user's own that others may only read is closed to them. One that others may write to is refused,
    with a warning in the log: its entries may be anybody's.
    """
    try:
        status = folder.stat()
    except OSError:
        return False
    if not stat.S_ISDIR(status.st_mode):
        return False
    if os.name != "posix":
        return True  # by default, a folder of the profile can be entered by its user only
    if not _is_ours(status):
        return _refused(folder, f"it belongs to user {status.st_uid}, not to {os.geteuid()}")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.S_IMODE(status.st_mode)
        return _refused(folder, f"others may write to it (mode {mode:04o}): delete it, or choose another")
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        with suppress(OSError):  # a read-only file system
            folder.chmod(0o700)
    return True


def _refused(folder: Path, reason: str) -> bool:
    if folder not in _reported:
        _reported.add(folder)
        _log.warning("the cache in %s is not used: %s", folder, reason)
    return False


def _is_ours(status: os.stat_result) -> bool:
    return os.name != "posix" or status.st_uid == os.geteuid()


def _without_following(path: str, flags: int) -> int:
    """Opens a file, but no symbolic link, which may lead out of the folder."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0))


_DIGEST_BYTES = hashlib.sha256().digest_size


def _digest(key: str, data: bytes) -> bytes:
    """Returns a hash of an entry with its key, so that one entry can't stand in for another."""
    return hashlib.sha256(key.encode() + b"\0" + data).digest()


def _delete(path: str | Path) -> None:
    with suppress(OSError):  # the folder may be read-only, or another process may have the file open
        os.unlink(path)
