"""An on-disk cache of object code, keyed by LLVM IR."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Self, cast

from platformdirs import user_cache_path

from tensorgrad.runtime.cache import DiskCache
from tensorgrad.runtime.cpu import compiler
from tensorgrad.runtime.cpu.compiling import Compilers, Job
from tensorgrad.runtime.cpu.threads import thread_count

CACHE_VARIABLE = "TENSORGRAD_CACHE_OBJECTS"
"""The environment variable with the cache folder, or 0 for none; by default it is in the user's cache folder."""

SUFFIX = ".o"

CACHE_BYTES = 256 << 20
"""The maximum size of the cache; the least recently used entries are removed first."""

_log = logging.getLogger("tensorgrad.cache")


class Objects:
    """Object files of texts, read from disk or compiled as soon as a text is added; a context manager."""

    def __init__(self) -> None:
        folder = cache_folder()
        self._cache = None if folder is None else DiskCache(folder, SUFFIX, CACHE_BYTES)
        self._compilers = Compilers(thread_count() - 1)
        self._objects: dict[str, bytes | Job] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._compilers.__exit__(*error)

    def add(self, text: str) -> None:
        """Starts to compile a text, unless its object file is on disk."""
        if text not in self._objects:
            data = None if self._cache is None else self._cache.read(_key(text))
            self._objects[text] = self._compilers.add(text) if data is None else data

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
            data = self._objects[text]
            if isinstance(data, Job):
                missing += 1
                data = self._keep(data)
            objects.append(data)
        folder = None if self._cache is None else self._cache.folder
        _log.debug("%d of %d kernels were compiled before, found in %s", len(texts) - missing, len(texts), folder)
        return objects, len(texts) - missing

    def _keep(self, job: Job) -> bytes:
        data = self._objects[job.text] = cast(bytes, job.object)
        if self._cache is not None:
            self._cache.write(_key(job.text), data)
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
    functions = (compiler.machine, compiler.optimized, compiler.generator_of)
    parts = [(code.co_code, code.co_names, repr(code.co_consts)) for code in (each.__code__ for each in functions)]
    constants = compiler.OPTIMIZATION, compiler.MASK_AS_NUMBER.pattern, compiler.FOLDED_WRONGLY
    return hashlib.sha256(repr((constants, parts)).encode()).hexdigest()


def cache_folder() -> Path | None:
    """Returns the cache folder; `None` if caching is off."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen is not None:
        return None if chosen in ("", "0") else Path(chosen)
    return user_cache_path("tensorgrad") / "objects"
