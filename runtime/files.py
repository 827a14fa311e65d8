"""Safetensors files and settings, written atomically: a crash leaves either the old file or the new one, complete."""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tensorgrad.runtime.errors import MALFORMED, TensorgradError

DTYPES = ("BOOL", "U8", "I8", "I16", "U16", "F16", "I32", "U32", "F32", "F64", "I64", "U64")
"""The safetensors names of the dtypes that NumPy has."""
MOST_AXES, MOST_EXTENT = 64, 2**59

PART = ".part"
"""The suffix of files that are being written; after a crash they can be deleted."""


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields the path of a file to write, which is synced to disk afterwards, and renamed to `path`.

    Raises:
        OSError: The file can't be written; the old file is unchanged.
    """
    target = Path(path)
    aside = target.with_name(f".{target.name}.{os.getpid()}{PART}")
    try:
        yield aside
        synchronize(aside)
        os.replace(aside, target)
    except OSError as error:
        if str(error.filename) != str(aside):
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error  # the name that the user knows
    finally:
        aside.unlink(missing_ok=True)
    synchronize(target.parent)


def write_safetensors(
    path: str | os.PathLike[str], tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> None:
    """Writes a file of arrays; the old one stays if the new one can't be written.

    Args:
        path: The file.
        tensors: Arrays by name.
        metadata: Texts by name.

    Raises:
        OSError: The file can't be written; the old file is unchanged.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    with replacing(path) as aside:
        aside.touch()
        mode = aside.stat().st_mode
        ordered = {name: np.asarray(value, order="C") for name, value in tensors.items()}
        try:
            save_file(ordered, aside, metadata=dict(metadata))
        except SafetensorError as error:
            raise OSError(f"can't write {path}: {error}") from error
        aside.chmod(mode)  # The library creates files that only their owner can read.


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Writes a file of settings; the old one stays if the new one can't be written."""
    with replacing(path) as aside:
        aside.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def read_metadata(path: str | os.PathLike[str], malformed: type[TensorgradError]) -> dict[str, str]:
    """Returns a file's metadata without reading any array; see `read_safetensors`."""
    from safetensors import SafetensorError, safe_open

    _check_no_folder(path)
    try:
        with safe_open(path, framework="numpy") as file:
            return file.metadata() or {}
    except (SafetensorError, *MALFORMED) as error:
        raise malformed(f"{path} is not a safetensors file of arrays: {error}") from error


def read_safetensors(
    path: str | os.PathLike[str], malformed: type[TensorgradError]
) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Reads a file.

    Args:
        path: The file.
        malformed: The exception class to raise if it is not a safetensors file.

    Returns:
        The metadata and the tensors, by name.

    Raises:
        TensorgradError: The file is malformed; of the class `malformed`.
        OSError: The file can't be read.
    """
    from safetensors import SafetensorError, safe_open

    _check_no_folder(path)
    try:
        with safe_open(path, framework="numpy") as file:
            names = file.keys()  # the file object has `keys`, but is not an iterable mapping
            for name in names:
                _check_described(name, file.get_slice(name))
            return file.metadata() or {}, {name: file.get_tensor(name) for name in names}
    except (SafetensorError, *MALFORMED) as error:
        raise malformed(f"{path} is not a safetensors file of arrays: {error}") from error


def _check_no_folder(path: str | os.PathLike[str]) -> None:
    """Refuses a folder by name: the library gives neither that nor a reason."""
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))


def _check_described(name: str, described: Any) -> None:
    """Checks the array that a file describes before NumPy creates it.

    Raises:
        ValueError: The description is not a valid array.
    """
    dtype, shape = described.get_dtype(), described.get_shape()
    if dtype not in DTYPES:
        raise ValueError(f"{name} is {dtype}; arrays are {', '.join(DTYPES)}")
    check_shape(name, shape)


def check_shape(name: str, shape: Sequence[int]) -> None:
    """Checks that NumPy has arrays of a shape; it counts the elements of an empty one without the axes of size 0.

    Raises:
        ValueError: It has none.
    """
    if len(shape) > MOST_AXES:
        raise ValueError(f"{name} has {len(shape)} axes, at most {MOST_AXES}")
    count = math.prod(filter(None, shape))
    if count > MOST_EXTENT:
        raise ValueError(f"{name} has axes of {count} elements, at most {MOST_EXTENT}")


def synchronize(path: Path) -> None:
    """Waits until a file, or a directory's entries, are on disk."""
    if path.is_dir() and os.name != "posix":
        return  # Only POSIX can open a directory.
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
