"""Arrays from files named by options of commands."""

from __future__ import annotations

import numpy as np

from tensorgrad.errors import InputError


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
        return name, np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(f"--input {name}: {path} holds no array: {error}") from error


def named_arrays(path: str | None) -> dict[str, np.ndarray]:
    """Returns the arrays of an `.npz` file by name; none without a file.

    Raises:
        ValueError: The file contains something else.
        OSError: It can't be read.
    """
    if path is None:
        return {}
    found = np.load(path, allow_pickle=False)
    if not isinstance(found, np.lib.npyio.NpzFile):
        raise InputError(f"{path} holds one array without a name; an .npz file has names")
    with found:
        return {name: found[name] for name in found.files}
