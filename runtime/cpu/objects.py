"""Object code of LLVM IR, kept on disk."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Self, cast

from platformdirs import user_cache_path

from tensorgrad.runtime.cpu import compiler
from tensorgrad.runtime.cpu.compiling import Compilers, Job
from tensorgrad.runtime.cpu.threads import thread_count

CACHE_VARIABLE = "TENSORGRAD_CACHE_OBJECTS"
"""The folder of object code, or 0 for none; by default the user's cache folder."""

CACHE_BYTES = 256 << 20
"""Object code is kept up to so many bytes; what was not used for longest goes first."""

LOW_WATER = 0.8
"""What is removed leaves so much of the limit, so that it isn't looked for again at once."""

TRIM_SHARE = 1 / 512
"""The share of new entries after which the folder is looked through, which takes as long as it has files."""

UNFINISHED, UNFINISHED_SECONDS = ".tmp", 3600.0
"""How names of files end that are being written, and after how long nobody is writing them any more."""

_log = logging.getLogger("tensorgrad.cache")


class Objects:
    """Object files of texts: from the disk, or compiled from when the text is added; a context for `with`."""

    def __init__(self) -> None:
        self._folder = cache_folder()
        self._compilers = Compilers(thread_count() - 1)
        self._found: dict[str, bytes | Job] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._compilers.__exit__(*error)

    def add(self, text: str) -> None:
        """Begins to compile a text, unless its object file is on disk."""
        if text not in self._found:
            path = self._path(text)
            found = None if path is None else _read(path)
            self._found[text] = self._compilers.add(text) if found is None else found

    def of(self, texts: Sequence[str]) -> tuple[list[bytes], int]:
        """Returns the object file of each text, and how many of them were found on disk.

        Raises:
            RuntimeError: LLVM refuses a text.
        """
        for text in texts:
            self.add(text)
        self._compilers.finish()
        missing = 0
        objects: list[bytes] = []
        for text in texts:
            found = self._found[text]
            if isinstance(found, Job):
                missing += 1
                found = self._keep(found)
            objects.append(found)
        _log.debug("%d of %d kernels were compiled before, found in %s", len(texts) - missing, len(texts), self._folder)
        if self._folder is not None and missing and random.random() < TRIM_SHARE * missing:
            _trim(self._folder)
        return objects, len(texts) - missing

    def _path(self, text: str) -> Path | None:
        return None if self._folder is None else self._folder / f"{_key(text)}.o"

    def _keep(self, job: Job) -> bytes:
        path = self._path(job.text)
        data = self._found[job.text] = cast(bytes, job.object)
        if path is not None:
            _write(path, data)
        return data


_ahead: ContextVar[Objects | None] = ContextVar("ahead", default=None)
"""What is compiled already while a program is made."""


@contextmanager
def compiling_ahead() -> Iterator[Objects]:
    """Gives what takes texts ahead of the `objects_of` in the block that asks for them."""
    with Objects() as objects:
        token = _ahead.set(objects)
        try:
            yield objects
        finally:
            _ahead.reset(token)


def objects_of(texts: Sequence[str]) -> tuple[list[bytes], int]:
    """Returns the object file of each text, and how many of them were found on disk.

    Raises:
        RuntimeError: LLVM refuses a text.
    """
    objects = _ahead.get()
    if objects is not None:
        return objects.of(texts)
    with Objects() as objects:
        return objects.of(texts)


def _key(text: str) -> str:
    host = compiler.host_cpu()
    parts = (text, host.name, host.features, host.triple, host.llvm, _compiler_digest())
    return hashlib.sha256(repr(parts).encode()).hexdigest()


@cache
def _compiler_digest() -> str:
    """Returns a digest of what compiles, whose options decide on the code too; its source need not be there."""
    codes = [function.__code__ for function in (compiler.machine, compiler.optimized)]
    parts = [(code.co_code, code.co_names, repr(code.co_consts)) for code in codes]
    return hashlib.sha256(repr((compiler.OPTIMIZATION, parts)).encode()).hexdigest()


# The disk


def cache_folder() -> Path | None:
    """Returns where object code is kept; `None` where it isn't."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen is not None:
        return None if chosen in ("", "0") else Path(chosen)
    return user_cache_path("tensorgrad") / "objects"


def _read(path: Path) -> bytes | None:
    """Returns object code, if it is whole: a checksum stands in front of it. Damaged entries are dropped."""
    try:
        raw = path.read_bytes()
    except OSError:
        return None
    digest, data = raw[:32], raw[32:]
    if hashlib.sha256(data).digest() != digest:
        with contextlib.suppress(OSError):
            path.unlink()
        return None
    with contextlib.suppress(OSError):  # a folder that can't be written to
        os.utime(path)
    return data


def _write(path: Path, data: bytes) -> None:
    """Keeps object code; the file appears at once and whole, whoever else writes it."""
    name = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=UNFINISHED, delete=False) as file:
            name = file.name
            file.write(hashlib.sha256(data).digest() + data)
        os.replace(name, path)
    except OSError:  # not kept
        if name is not None:
            with contextlib.suppress(OSError):
                os.unlink(name)


def _trim(folder: Path) -> None:
    """Removes what was not used for longest until the rest is well below the limit, and what writers left behind.

    Other processes may remove files meanwhile.
    """
    kept: list[tuple[float, int, str]] = []
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        with contextlib.suppress(OSError):
            found = entry.stat()
            if not entry.name.endswith(UNFINISHED):
                kept.append((found.st_mtime, found.st_size, entry.path))
            elif time.time() - found.st_mtime > UNFINISHED_SECONDS:
                os.unlink(entry.path)
    total = sum(size for _, size, _ in kept)
    if total <= CACHE_BYTES:
        return
    for _, size, path in sorted(kept):
        if total <= CACHE_BYTES * LOW_WATER:
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size
