"""Weights in safetensors files, one or several, read one array at a time."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from ml_dtypes import bfloat16

from tensorgrad.errors import InputError
from tensorgrad.runtime.errors import MALFORMED
from tensorgrad.runtime.files import check_shape, read_metadata
from tensorgrad.tracing.location import user_line

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
"""What a folder of Hugging Face's holds: several files and which array is in which, or one file."""

FORMATS = {
    "BOOL": "?",
    **{f"{kind}{bits}": f"<{code}{bits // 8}" for kind, code in (("I", "i"), ("U", "u")) for bits in (8, 16, 32, 64)},
    "F16": "<f2",
    "F32": "<f4",
    "F64": "<f8",
    "BF16": bfloat16,
}
"""NumPy's dtypes of what files hold."""


class Entry(Protocol):
    """An array of a file, which is read when it is asked for."""

    @property
    def file(self) -> Path:
        """The file."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        ...

    def read(self) -> np.ndarray:
        """Returns the array.

        Raises:
            InputError: The file has changed.
        """
        ...


@dataclass(frozen=True)
class _Entry:
    """Where an array is: its file, as it was, its first byte, its description; and whether its bf16 becomes f32."""

    file: Path
    state: tuple[int, int]
    start: int
    dtype: str
    shape: tuple[int, ...]
    is_widened: bool

    def read(self) -> np.ndarray:
        """Returns the array."""
        if _state(self.file) != self.state:
            raise InputError(f"{user_line()}: {self.file} has changed since it was read: read_weights reads it anew")
        if 0 in self.shape:
            stored = np.zeros(self.shape, FORMATS[self.dtype])
        else:
            stored = np.memmap(self.file, FORMATS[self.dtype], "r", self.start, self.shape)
        return stored.astype(np.float32) if self.is_widened else np.asarray(stored)


class WeightFiles(Mapping[str, np.ndarray]):
    """Arrays by name, each read from its file when it is asked for; made by `read_weights`.

    Arrays are read-only views of the file. Those of bf16 become f32, which has every one of their values, unless they
    are to stay.

    Attributes:
        entries: Where they are, by name.
    """

    def __init__(self, entries: Mapping[str, Entry]):
        self.entries = entries

    def __getitem__(self, name: str) -> np.ndarray:
        return self.entries[name].read()

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the arrays by name; nothing is read."""
        return {name: entry.shape for name, entry in self.entries.items()}

    def renamed(self, rule: Callable[[str], str | None]) -> WeightFiles:
        """Returns the same arrays under other names, without those for which the rule returns `None`."""
        named = {rule(name): entry for name, entry in self.entries.items()}
        return WeightFiles({name: entry for name, entry in named.items() if name is not None})

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return f"WeightFiles of {len(self)} arrays in {len({entry.file for entry in self.entries.values()})} files"


def read_weights(path: str | os.PathLike[str], *, keep_bf16: bool = False) -> WeightFiles:
    """Returns the arrays of a safetensors file or of a folder with a model, which are read when they are asked for.

    `tg.nn.from_torch(model, tg.nn.read_weights(folder), names=...)` gives them the names of a model here.

    Args:
        path: A file; or a folder with `model.safetensors`, or with several files and `model.safetensors.index.json`, as
            Hugging Face's libraries write them.
        keep_bf16: Whether arrays of bf16 stay bf16, rather than become f32, which takes twice the memory.

    Raises:
        InputError: A file is malformed, or holds arrays of a dtype that NumPy doesn't have; or the index names a file
            outside of the folder, or an array that its file doesn't hold.
        OSError: A file can't be read.

    Example:
        >>> import pathlib, tempfile
        >>> from safetensors.numpy import save_file
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> save_file({"weight": np.ones((5, 3), np.float16)}, folder / "model.safetensors")
        >>> tg.nn.read_weights(folder)["weight"].shape
        (5, 3)
    """
    place = Path(path)
    if not place.is_dir():
        return WeightFiles(_entries(place, keep_bf16))
    index = place / INDEX
    if not index.exists():
        return WeightFiles(_entries(place / SINGLE, keep_bf16))
    try:
        files: dict[str, str] = dict(json.loads(index.read_text(encoding="utf-8"))["weight_map"])
        outside = [file for file in files.values() if Path(file).name != file]
    except MALFORMED as error:
        raise InputError(f"{user_line()}: {index} is no index of weights: {error!r}") from None
    if outside:
        raise InputError(f"{user_line()}: {index} names a file outside of its folder, {outside[0]!r}")
    held = {file: _entries(place / file, keep_bf16) for file in sorted(set(files.values()))}
    absent = [name for name, file in files.items() if name not in held[file]]
    if absent:
        raise InputError(f"{user_line()}: {index} says that {files[absent[0]]} holds {absent[0]!r}, which it doesn't")
    return WeightFiles({name: held[file][name] for name, file in files.items()})


def _state(file: Path) -> tuple[int, int]:
    """Returns what changes with a file: its size, and when it was written."""
    status = file.stat()
    return status.st_size, status.st_mtime_ns


def _entries(file: Path, keep_bf16: bool) -> dict[str, _Entry]:
    """Returns the arrays that a file describes; the library checks that the description fits the file."""
    state = _state(file)
    read_metadata(file, InputError)
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        header: dict[str, Any] = json.loads(stream.read(length))
    header.pop("__metadata__", None)
    entries: dict[str, _Entry] = {}
    for name, described in header.items():
        dtype, shape = described["dtype"], tuple(described["shape"])
        if dtype not in FORMATS:
            raise InputError(f"{user_line()}: {file}: {name} is {dtype}, which NumPy has no arrays of")
        check_shape(name, shape)
        start, is_widened = 8 + length + described["data_offsets"][0], dtype == "BF16" and not keep_bf16
        entries[name] = _Entry(file, state, start, dtype, shape, is_widened)
    return entries
