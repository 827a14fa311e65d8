"""Files that commands are given: arrays, and saved programs."""

from __future__ import annotations

from pathlib import Path
from zipfile import BadZipFile

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
    try:
        with Path(path).open("rb") as file:  # NumPy leaves a damaged file open that it opened itself
            return name, np.load(file, allow_pickle=False)
    except (ValueError, EOFError, BadZipFile) as error:
        raise InputError(f"--input {name}: {path} is not an .npy file of numbers") from error


def named_arrays(path: str | None) -> dict[str, np.ndarray]:
    """Returns the arrays of an `.npz` file by name; none without a file.

    Raises:
        InputError: The file contains something else.
        OSError: It can't be read.
    """
    if path is None:
        return {}
    try:
        with Path(path).open("rb") as file:
            found = np.load(file, allow_pickle=False)
            if isinstance(found, np.lib.npyio.NpzFile):
                return {name: found[name] for name in found.files}
    except (ValueError, EOFError, BadZipFile) as error:
        raise InputError(f"{path} is not an .npz file of numbers") from error
    raise InputError(f"{path} holds one array without a name; expected an .npz file, whose arrays have names")


def check_saved(path: str) -> None:
    """Refuses IR where a saved program is wanted.

    Raises:
        ProgramError: The file is called `.mlir`.
    """
    if path.endswith(".mlir"):
        raise ProgramError(f"{path} is IR, expected a saved program; `tg bench` and `tg report` compile IR")
