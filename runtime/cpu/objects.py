"""Object code of LLVM IR: kept on disk, and compiled in several processes where there is much of it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

from platformdirs import user_cache_path

from tensorgrad.runtime.cpu import compiler
from tensorgrad.runtime.cpu.threads import thread_count

CACHE_VARIABLE = "TENSORGRAD_CACHE_OBJECTS"
"""The folder of object code, or 0 for none; by default the user's cache folder."""

CACHE_BYTES = 256 << 20
"""Object code is kept up to so many bytes; what was not used for longest goes first."""

LEAST_SHARE = 1 << 17
"""A process compiles at least so many characters: in the time that it takes to start, LLVM compiles half as many."""


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
    if missing and folder is not None:
        _trim(folder)
    return [cast(bytes, data) for data in found], len(texts) - len(missing)


def _key(text: str) -> str:
    host = compiler.host_cpu()
    parts = (text, host.name, host.features, host.triple, host.llvm, str(compiler.OPTIMIZATION))
    return hashlib.sha256(repr(parts).encode()).hexdigest()


# Compiling. LLVM is locked in a process, so that what is to be compiled at a time takes a process each.


def _compiled(texts: Sequence[str]) -> list[bytes]:
    """Returns the object file of each text: this process compiles a share of them, others the rest."""
    shares = _shares(texts, min(thread_count(), sum(map(len, texts)) // LEAST_SHARE))
    found: dict[int, bytes] = {}
    with ThreadPoolExecutor(max(len(shares) - 1, 1)) as threads:
        beside = [(share, threads.submit(_by_process, [texts[i] for i in share])) for share in shares[1:]]
        for number in shares[0]:
            found[number] = compiler.object_of(texts[number])
        for share, future in beside:
            # What a process can't do, such as where none can be started, this one does, or says why not.
            objects = future.result() or [compiler.object_of(texts[i]) for i in share]
            found.update(zip(share, objects, strict=True))
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


def _by_process(texts: Sequence[str]) -> list[bytes] | None:
    """Returns the object files that a process of its own compiles; `None` where that fails."""
    if not sys.executable:
        return None
    command = [sys.executable, "-P", compiler.__file__]
    try:
        done = subprocess.run(command, input=json.dumps(list(texts)).encode(), capture_output=True, check=True)
        found: object = pickle.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, pickle.PickleError, EOFError):
        return None
    objects = cast("list[bytes]", found)
    return objects if len(objects) == len(texts) else None


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
        path.unlink(missing_ok=True)
        return None
    with contextlib.suppress(OSError):  # a folder that can't be written to
        os.utime(path)
    return data


def _write(path: Path, data: bytes) -> None:
    """Keeps object code; the file appears at once and whole, whoever else writes it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(hashlib.sha256(data).digest() + data)
        os.replace(file.name, path)
    except OSError:
        pass  # not kept


def _trim(folder: Path) -> None:
    """Removes what was not used for longest, until the rest is small enough."""
    found = sorted(((entry.stat().st_mtime, entry.stat().st_size, entry) for entry in folder.glob("*.o")), reverse=True)
    total = 0
    for _, size, entry in found:
        total += size
        if total > CACHE_BYTES:
            entry.unlink(missing_ok=True)
