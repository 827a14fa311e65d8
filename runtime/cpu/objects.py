"""An on-disk cache of object code, keyed by LLVM IR."""

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
"""The environment variable with the cache folder, or 0 for none; by default it is in the user's cache folder."""

CACHE_BYTES = 256 << 20
"""The maximum size of the cache; the least recently used entries are removed first."""

LOW_WATER = 0.8
"""The fraction of the limit that trimming leaves, so that it isn't needed again immediately."""

TRIM_SHARE = 1 / 512
"""The fraction of new entries that trigger a trim, which takes time proportional to the number of files."""

UNFINISHED, UNFINISHED_SECONDS = ".tmp", 3600.0
"""The suffix of files that are being written, and the age in seconds from which they are abandoned."""

_log = logging.getLogger("tensorgrad.cache")


class Objects:
    """Object files of texts, read from disk or compiled as soon as a text is added; a context manager."""

    def __init__(self) -> None:
        self._folder = cache_folder()
        self._compilers = Compilers(thread_count() - 1)
        self._found: dict[str, bytes | Job] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._compilers.__exit__(*error)

    def add(self, text: str) -> None:
        """Starts to compile a text, unless its object file is on disk."""
        if text not in self._found:
            path = self._path(text)
            found = None if path is None else _read(path)
            self._found[text] = self._compilers.add(text) if found is None else found

    def of(self, texts: Sequence[str]) -> tuple[list[bytes], int]:
        """Returns the object file of each text, and the number of cache hits.

        Raises:
            RuntimeError: LLVM rejects a text.
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
"""The objects that are compiled in advance while a program is built."""


@contextmanager
def compiling_ahead() -> Iterator[Objects]:
    """Yields objects whose added texts are compiled in advance of `objects_of` calls in the `with` block."""
    with Objects() as objects:
        token = _ahead.set(objects)
        try:
            yield objects
        finally:
            _ahead.reset(token)


def objects_of(texts: Sequence[str]) -> tuple[list[bytes], int]:
    """Returns the object file of each text, and the number of cache hits.

    Raises:
        RuntimeError: LLVM rejects a text.
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
    """Returns a digest of the compiler, whose options affect the code; works without its source too."""
    codes = [function.__code__ for function in (compiler.machine, compiler.optimized)]
    parts = [(code.co_code, code.co_names, repr(code.co_consts)) for code in codes]
    return hashlib.sha256(repr((compiler.OPTIMIZATION, parts)).encode()).hexdigest()


# Files


def cache_folder() -> Path | None:
    """Returns the cache folder; `None` if caching is off."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen is not None:
        return None if chosen in ("", "0") else Path(chosen)
    return user_cache_path("tensorgrad") / "objects"


def _read(path: Path) -> bytes | None:
    """Returns object code if its checksum, which precedes it, matches. Damaged entries are removed."""
    try:
        raw = path.read_bytes()
    except OSError:
        return None
    digest, data = raw[:32], raw[32:]
    if hashlib.sha256(data).digest() != digest:
        with contextlib.suppress(OSError):
            path.unlink()
        return None
    with contextlib.suppress(OSError):  # a read-only folder
        os.utime(path)
    return data


def _write(path: Path, data: bytes) -> None:
    """Writes object code atomically, also if other processes write the same file."""
    name = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=UNFINISHED, delete=False) as file:
            name = file.name
            file.write(hashlib.sha256(data).digest() + data)
        os.replace(name, path)
    except OSError:  # not cached
        if name is not None:
            with contextlib.suppress(OSError):
                os.unlink(name)


def _trim(folder: Path) -> None:
    """Removes the least recently used entries until the cache is well below its limit, and abandoned temporary files.

    Other processes may remove files concurrently.
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
