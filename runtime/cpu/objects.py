"""Object code of LLVM IR: kept on disk, and compiled in several processes where there is much of it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import cast

from platformdirs import user_cache_path

from tensorgrad.runtime.cpu import compiler
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

HELPER_SECONDS = 600.0
"""A process that compiles is waited for so long."""

_NO_WINDOW: int = getattr(subprocess, "CREATE_NO_WINDOW", 0)
"""Windows opens none for a process that compiles."""

LEAST_SHARE = 1 << 17
"""A process compiles at least so many characters: in the time that it takes to start, LLVM compiles half as many."""

_log = logging.getLogger("tensorgrad.cache")


def objects_of(texts: Sequence[str]) -> tuple[list[bytes], int]:
    """Returns the object file of each text, and how many of them were found on disk.

    Raises:
        RuntimeError: LLVM refuses a text.
    """
    folder = cache_folder()
    paths = [None if folder is None else folder / f"{_key(text)}.o" for text in texts]
    found = [None if path is None else _read(path) for path in paths]
    missing = [number for number, data in enumerate(found) if data is None]
    for number, data in zip(missing, _compiled([texts[number] for number in missing]), strict=True):
        found[number] = data
        path = paths[number]
        if path is not None:
            _write(path, data)
    _log.debug("%d of %d kernels were compiled before, found in %s", len(texts) - len(missing), len(texts), folder)
    if folder is not None and missing and random.random() < TRIM_SHARE * len(missing):
        _trim(folder)
    return [cast(bytes, data) for data in found], len(texts) - len(missing)


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


# Compiling. LLVM is locked in a process, so that what is to be compiled at a time takes a process each.


def _compiled(texts: Sequence[str]) -> list[bytes]:
    """Returns the object file of each text: this process compiles a share of them, others the rest.

    What a process can't do, such as where none can be started, this one does, or says why not.
    """
    shares = _shares(texts, min(thread_count(), sum(map(len, texts)) // LEAST_SHARE))
    found: dict[int, bytes] = {}
    with tempfile.TemporaryDirectory(prefix="tensorgrad-", ignore_cleanup_errors=True) as folder:
        helpers = [_Helper(Path(folder) / str(i), [texts[n] for n in share]) for i, share in enumerate(shares[1:])]
        try:
            for number in shares[0]:
                found[number] = compiler.object_of(texts[number])
            for share, helper in zip(shares[1:], helpers, strict=True):
                objects = helper.objects() or [compiler.object_of(texts[n]) for n in share]
                found.update(zip(share, objects, strict=True))
        finally:
            for helper in helpers:
                helper.stop()
    return [found[number] for number in range(len(texts))]


def _shares(texts: Sequence[str], count: int) -> list[list[int]]:
    """Returns the positions of texts in shares of about equal length, at most `count` and at least one."""
    shares: list[list[int]] = [[] for _ in range(max(count, 1))]
    lengths = [0] * len(shares)
    for number in sorted(range(len(texts)), key=lambda i: -len(texts[i])):
        least = lengths.index(min(lengths))
        shares[least].append(number)
        lengths[least] += len(texts[number])
    return [shares[0], *(share for share in shares[1:] if share)]


class _Helper:
    """A process that compiles.

    Args:
        path: Where files of its own go: what it reads, and beside that what it writes.
        texts: LLVM IR.
    """

    def __init__(self, path: Path, texts: Sequence[str]):
        self.count = len(texts)
        self.written = path.with_suffix(".objects")
        self.process: subprocess.Popen[bytes] | None = None
        # In a program that is one executable file, that file is no Python.
        if not sys.executable or getattr(sys, "frozen", False):
            return
        command = [sys.executable, "-P", compiler.__file__, str(path), str(self.written)]
        with contextlib.suppress(OSError):
            path.write_text(json.dumps(list(texts)), encoding="utf-8")
            quiet = subprocess.DEVNULL
            self.process = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, creationflags=_NO_WINDOW)

    def objects(self) -> list[bytes] | None:
        """Returns the object files when they are all there; `None` where the process fails or takes too long."""
        if self.process is None:
            return None
        try:
            if self.process.wait(HELPER_SECONDS):
                return None
            found = compiler.unpacked(self.written.read_bytes())
        except (OSError, subprocess.TimeoutExpired):
            return None
        return found if found is not None and len(found) == self.count else None

    def stop(self) -> None:
        """Ends the process, if it still runs."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


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
