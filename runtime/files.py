"""Safetensors files and settings, written atomically: a crash leaves either the old file or the new one, complete."""

from __future__ import annotations

import errno
import glob
import json
import math
import os
import shutil
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from ml_dtypes import bfloat16  # also gives NumPy its name, by which the library asks for it

from tensorgrad.runtime.errors import MALFORMED, TensorgradError

DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype("|b1"),
    "U8": np.dtype("|u1"),
    "I8": np.dtype("|i1"),
    "I16": np.dtype("<i2"),
    "U16": np.dtype("<u2"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(bfloat16),
    "I32": np.dtype("<i4"),
    "U32": np.dtype("<u4"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "I64": np.dtype("<i8"),
    "U64": np.dtype("<u8"),
}
"""NumPy's dtypes by their safetensors names, in the order of the library."""
NAMES = {dtype: name for name, dtype in DTYPES.items()}
MOST_AXES, MOST_EXTENT = 64, 2**59

PART, ABANDONED_SECONDS = ".part", 3600.0
"""The suffix of files that are being written, and the age in seconds from which they are abandoned."""


@contextmanager
def naming(path: str | os.PathLike[str], aside: Path | None = None) -> Iterator[None]:
    """Makes errors of a file name it: those of a write name none, and those of the one aside a name of ours.

    Raises:
        OSError: What the block raises, with the name that the user knows.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None or str(error.filename) not in (str(None), str(aside)):
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields the path of a file to write, which is synced to disk afterwards, and renamed to `path`.

    Also deletes what killed processes have left of it; see `delete_abandoned`.

    Raises:
        OSError: The file can't be written; the old file is unchanged.
    """
    target = Path(path)
    aside = target.with_name(f".{target.name}.{os.getpid()}{PART}")
    with naming(path, aside):
        try:
            yield aside
            synchronize(aside)
            os.replace(aside, target)
        finally:
            aside.unlink(missing_ok=True)
    delete_all_abandoned(target)
    synchronize(target.parent)


def delete_all_abandoned(path: Path) -> None:
    """Deletes what killed processes have left of a file that they were writing; see `delete_abandoned`."""
    for other in path.parent.glob(f".{glob.escape(path.name)}.*{PART}"):
        delete_abandoned(other)


def delete_abandoned(path: str | os.PathLike[str]) -> None:
    """Deletes an unfinished file or folder of a killed process, if it is old: others may be being written."""
    with suppress(OSError):  # another process may delete it, or the folder be read-only
        if time.time() - os.stat(path).st_mtime > ABANDONED_SECONDS:
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)


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
    arrays = {name: np.asarray(value, order="C") for name, value in tensors.items()}
    kinds = {name: array.dtype.newbyteorder("<") for name, array in arrays.items()}
    # As the library orders them: each array lies at a multiple of its elements' size.
    names = sorted(sorted(arrays), key=lambda name: -tuple(DTYPES.values()).index(kinds[name]))
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name in names:
        dtype = NAMES[kinds[name]]
        start, end = end, end + arrays[name].nbytes
        header[name] = {"dtype": dtype, "shape": arrays[name].shape, "data_offsets": (start, end)}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with replacing(path) as aside, aside.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in names:
            file.write(arrays[name].astype(kinds[name], copy=False).reshape(-1).view(np.uint8).data)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Writes a file of settings; the old one stays if the new one can't be written."""
    write_text(path, json.dumps(content, indent=2, sort_keys=True) + "\n")


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes a file of text, without changing the ends of its lines; the old one stays if it can't be written.

    Raises:
        OSError: The file can't be written; the old file is unchanged.
    """
    with replacing(path) as aside:
        aside.write_bytes(text.encode())


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
