"""Safetensors files, written so that a crash at any point leaves the old file or the new one, whole."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tensorgrad.runtime.errors import TensorgradError

PART = ".part"
"""How the names of files end that are not complete; what a killed process leaves of them can be deleted."""


def write_safetensors(
    path: str | os.PathLike[str], tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> None:
    """Writes a file aside, waits until it is on the disk, and puts it in the place of `path`.

    Args:
        path: The file.
        tensors: Arrays by name.
        metadata: Texts by name.

    Raises:
        OSError: The file can't be written; what was there before is still there.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    target = Path(path)
    aside = target.with_name(f".{target.name}.{os.getpid()}{PART}")
    try:
        aside.touch()
        mode = aside.stat().st_mode
        save_file({name: np.array(value, order="C") for name, value in tensors.items()}, aside, metadata=dict(metadata))
        aside.chmod(mode)  # The library makes files that only their owner can read.
        synchronize(aside)
        os.replace(aside, target)
    except SafetensorError as error:
        raise OSError(f"can't write {path}: {error}") from error
    finally:
        aside.unlink(missing_ok=True)
    synchronize(target.parent)


def read_safetensors(
    path: str | os.PathLike[str], malformed: type[TensorgradError]
) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Reads a file.

    Args:
        path: The file.
        malformed: What is raised where it is no safetensors file.

    Returns:
        The metadata and the tensors, by name.

    Raises:
        OSError: The file can't be read.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            names = file.keys()  # the library's file can list its tensors, but is no mapping to iterate over
            return file.metadata() or {}, {name: file.get_tensor(name) for name in names}
    except SafetensorError as error:
        raise malformed(f"{path} is no safetensors file: {error}") from error


def synchronize(path: Path) -> None:
    """Waits until a file, or a folder's entries, are on the disk."""
    if path.is_dir() and os.name != "posix":
        return  # Only POSIX can open a folder.
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
