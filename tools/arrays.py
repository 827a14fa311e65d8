"""Files that commands read and write: arrays, and saved programs."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tensorgrad.errors import InputError, ProgramError
from tensorgrad.runtime.conversion import kind_of, to_numpy


def named_array(text: str) -> tuple[str, np.ndarray]:
    """Returns the name and the array of `--input name=file.npy`, or of numbers as in `name=[[1, 2], [3, 4]]`.

    Raises:
        InputError: It is neither, or the file is not an array of numbers.
        OSError: The file can't be read.
    """
    name, _, written = text.partition("=")
    if not name or not written:
        raise InputError(f"--input takes name=file.npy or name=numbers, got {text!r}")
    if (numbers := _numbers(written)) is not None:
        array = to_numpy(numbers, f"--input {name}")
    else:
        with _reading(f"--input {name}: {written} is not an .npy file of numbers"), Path(written).open("rb") as file:
            array = np.asarray(np.load(file, allow_pickle=False))
    if kind_of(array.dtype) not in "biuf":
        raise InputError(f"--input {name}: {written} is not an array of numbers, but of {array.dtype}")
    return name, array


def _numbers(text: str) -> Any:
    """Returns the number, bool or list that a text is in JSON, with NaN and infinities; `None` for another text."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, int | float | list) else None


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


def in_folder(path: str) -> Path:
    """Returns the path of a file to write, in a folder that is made if there is none.

    Raises:
        OSError: It can't be made; names it as in the path.
    """
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def input_fault(path: str, inputs: Mapping[str, tuple[tuple[int, ...], str]], names: Collection[str]) -> str | None:
    """Returns a message that shows how to pass a program's inputs, unless exactly these are given.

    Args:
        path: The program.
        inputs: The shape and dtype of each input, by name.
        names: The names of those that are given.
    """
    missing = [name for name in inputs if name not in names]
    unknown = [name for name in names if name not in inputs]
    if not missing and not unknown:
        return None
    faults = [f"{what}: {', '.join(some)}" for what, some in (("missing", missing), ("unknown", unknown)) if some]
    options = [f"--input {name}=FILE.npy" for name in inputs]
    width = max(map(len, options), default=0)
    listed = [f"  {option:{width}}  {array_type(*kind)}" for option, kind in zip(options, inputs.values(), strict=True)]
    return "\n".join([f"{path} takes {'these inputs' if listed else 'no inputs'} ({'; '.join(faults)})", *listed])


def array_type(shape: Sequence[int], dtype: object) -> str:
    """Returns a type as text, such as `f32[3, 4]`."""
    return f"{dtype}[{', '.join(map(str, shape))}]"


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
        raise ProgramError(f"{path} is IR, expected a saved program; `tg run`, `tg bench` and `tg report` take IR")
