"""Files that commands are given: arrays, and saved programs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tensorgrad.errors import InputError, ProgramError


def named_array(text: str) -> tuple[str, np.ndarray]:
    """Returns the name and the array of `--input name=file.npy`.

    Raises:
        InputError: It is not `name=file`, or the file is not an array of numbers.
        OSError: The file can't be read.
    """
    name, _, path = text.partition("=")
    if not name or not path:
        raise InputError(f"--input takes name=file.npy, got {text!r}")
    with _reading(f"--input {name}: {path} is not an .npy file of numbers"), Path(path).open("rb") as file:
        return name, np.asarray(np.load(file, allow_pickle=False))


def named_arrays(path: str | None) -> dict[str, np.ndarray]:
    """Returns the arrays of an `.npz` file by name; none without a file.

    Raises:
        InputError: The file contains something else.
        OSError: It can't be read.
    """
    if path is None:
        return {}
    with _reading(f"{path} is not an .npz file of numbers"), Path(path).open("rb") as file:
        loaded = np.load(file, allow_pickle=False)
        if isinstance(loaded, np.lib.npyio.NpzFile):
            return {name: loaded[name] for name in loaded.files}
    raise InputError(f"{path} holds one array without a name; expected an .npz file, whose arrays have names")


@contextmanager
def _reading(problem: str) -> Iterator[None]:
    """Raises an `InputError` for whatever NumPy raises if a file, which it must not open itself, is damaged."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:  # of NumPy, of its archives, of its parser of headers
        raise InputError(problem) from error


def check_saved(path: str) -> None:
    """Refuses IR where a saved program is wanted.

    Raises:
        ProgramError: The file is called `.mlir`.
    """
    if path.endswith(".mlir"):
        raise ProgramError(f"{path} is IR, expected a saved program; `tg bench` and `tg report` compile IR")
