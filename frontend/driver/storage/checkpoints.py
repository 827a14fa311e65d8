"""The state of a training as named arrays: to inspect, to store, and to resume from, bit for bit.

Parameters and buffers are named by their paths, `blocks.0.attention.q.weight`; the optimizer's state is named
`optimizer/<state>/<path>`, such as `optimizer/adam.m/blocks.0.attention.q.weight`; and what the host keeps is named
`training/<name>`: the step count, the random key and the settings. No path contains a slash.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from tensorgrad.errors import InputError, OptionError, ProgramError
from tensorgrad.nn.named_values import Loaded, checked_values
from tensorgrad.runtime.files import read_metadata, read_safetensors, write_safetensors
from tensorgrad.runtime.program import FORMAT as PROGRAM
from tensorgrad.runtime.saved import STEP, Saved
from tensorgrad.runtime.slots import DTYPES, Slot
from tensorgrad.runtime.texts import parsed_json

OPTIMIZER, TRAINING, RUN = "optimizer/", "training/", "fit/"
"""Name prefixes of the optimizer's state, of what the host keeps, and of what `tg.fit` adds."""
FORMAT, FORMAT_VERSION = "tensorgrad-checkpoint", 1


State: TypeAlias = dict[str, np.ndarray]
PARTS = ("model", "optimizer", "settings")
"""The parts of a state; see `WithState.state_dict`."""


class Persistent(Protocol):
    """Parameters and state by name: an executable's own, or the combined ones of a process group."""

    @property
    def persistent(self) -> Mapping[str, Slot]:
        """The parameters and state, by name."""
        ...

    def read(self, names: Iterable[str] | None = None) -> dict[str, np.ndarray]:
        """Returns the current values of these parameters and state, or of all."""
        ...

    def write(self, values: Mapping[str, Any]) -> None:
        """Sets parameters and state by name; checks everything before writing anything."""
        ...


def part_of(name: str) -> str:
    """Returns which of `PARTS` a name belongs to."""
    if name.startswith(OPTIMIZER) or name in (f"{TRAINING}step", f"{TRAINING}accumulated"):
        return "optimizer"
    return "settings" if name.startswith(TRAINING) else "model"


def checked_parts(parts: str | Sequence[str] | None) -> tuple[str, ...]:
    """Returns the parts that a caller named; all of them for `None`.

    Raises:
        OptionError: There is no such part.
    """
    named = PARTS if parts is None else (parts,) if isinstance(parts, str) else tuple(parts)
    for part in named:
        if part not in PARTS:
            raise OptionError(f"parts must be among {', '.join(PARTS)}, got {part!r}")
    return named


def names_of(holder: Persistent) -> dict[str, str]:
    """Returns the checkpoint name of each parameter and state, keyed by its name in the program."""
    return {name: name_of(name) for name in holder.persistent}


def name_of(persistent: str) -> str:
    """Returns the checkpoint name of a value with this name in programs."""
    return OPTIMIZER + persistent if "/" in persistent else persistent


def state_of(
    holder: Persistent, host_values: Mapping[str, np.ndarray], parts: Sequence[str] = PARTS
) -> dict[str, np.ndarray]:
    """Copies parameters, state, and what the host keeps, by their names in checkpoints.

    Args:
        holder: Has the parameters and state.
        host_values: What the host keeps between steps.
        parts: Which parts to include.
    """
    values = holder.read([own for own, name in names_of(holder).items() if part_of(name) in parts])
    state = {name_of(own): value for own, value in values.items()}
    host = {TRAINING + name: np.array(value) for name, value in host_values.items()}
    return {**state, **{name: value for name, value in host.items() if part_of(name) in parts}}


def checked_state(
    holder: Persistent,
    host_values: Mapping[str, np.ndarray],
    values: Mapping[str, Any],
    strict: bool,
    parts: Sequence[str] = PARTS,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], Loaded]:
    """Checks given values against the current state.

    Args:
        holder: Has the parameters and state.
        host_values: What the host keeps between steps.
        values: Arrays by their names in checkpoints.
        strict: Whether missing or unexpected names of these parts are errors.
        parts: Which parts to take; names of other parts are ignored.

    Returns:
        The values by their names in the program; those for the host; and the names that did not match.

    Raises:
        InputError: A shape or dtype differs, or a name is missing or unexpected; see `checked_values`.
    """
    own = {
        name: (holder.persistent[key].shape, DTYPES[holder.persistent[key].dtype])
        for key, name in names_of(holder).items()
    }
    every = {**own, **{TRAINING + name: (value.shape, value.dtype) for name, value in host_values.items()}}
    expected = {name: kind for name, kind in every.items() if part_of(name) in parts}
    advice = "parts= and strict=False load a part of it; replace_model keeps what fits another model"
    state, loaded = checked_values("training", expected, values, strict, lambda name: part_of(name) in parts, advice)
    for_program = {key: state[name] for key, name in names_of(holder).items() if name in state}
    for_host = {name: state[TRAINING + name] for name in host_values if TRAINING + name in state}
    return for_program, for_host, loaded


def write_checkpoint(
    path: str | os.PathLike[str], state: Mapping[str, np.ndarray], run: Mapping[str, Any] | None = None
) -> None:
    """Writes a state to a safetensors file atomically.

    Args:
        path: The file.
        state: Arrays by name.
        run: What else `tg.fit` needs to resume; JSON.

    Raises:
        InputError: What `tg.fit` needs is not JSON.
        OSError: The file can't be written.
    """
    try:
        text = json.dumps({"version": FORMAT_VERSION, "run": run, "checksums": _checksums(state)})
    except TypeError as error:
        raise InputError(f"the state_dict of data and callbacks must be JSON: {error}") from None
    # One entry: the library writes several in arbitrary order, and equal states must give equal files.
    write_safetensors(path, state, {FORMAT: text})


def read_checkpoint(path: str | os.PathLike[str]) -> tuple[dict[str, np.ndarray], dict[str, Any] | None]:
    """Reads what `write_checkpoint` wrote.

    Returns:
        The state, including what `tg.fit` added under its own names; and the data `tg.fit` needs, if it wrote the file.

    Raises:
        InputError: The file is not a checkpoint, or one of another format version; or a checksum is wrong.
        OSError: The file can't be read.
    """
    metadata, state = read_safetensors(path, InputError)
    if FORMAT not in metadata:
        raise InputError(f"{path} is not a checkpoint of tensorgrad's")
    try:
        content = parsed_json(metadata[FORMAT])
        version = content["version"]
        # Another version may store its other data under different names.
        run = content["run"] if version == FORMAT_VERSION else None
        kept = dict(content.get("checksums", {}))  # earlier releases wrote none
    except (ValueError, TypeError, LookupError) as error:
        raise InputError(f"{path} is a damaged checkpoint: {error!r}") from None
    if version != FORMAT_VERSION:
        raise InputError(f"{path} is of version {version}; this release reads version {FORMAT_VERSION}")
    if run is not None and not isinstance(run, dict):
        raise InputError(f"{path} is a damaged checkpoint: what tg.fit keeps is {type(run).__name__}")
    actual = _checksums(state) if kept else {}
    wrong = next((name for name in sorted({*kept, *actual}) if kept.get(name) != actual.get(name)), None)
    if wrong is not None:
        raise InputError(f"{path} is a damaged checkpoint: {wrong} is not what was written")
    return state, run


def _checksums(state: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Returns the CRC-32 of each array's elements as files have them, by name."""
    arrays = {name: np.asarray(value, order="C") for name, value in state.items()}
    return {name: zlib.crc32(array.reshape(-1).view(np.uint8).data) for name, array in arrays.items()}


def of_saved(path: str | os.PathLike[str], settings: Callable[[Mapping[str, float]], Mapping[str, float]]) -> State:
    """Reads a file written by `Training.save`, or by a page, as a state.

    Args:
        path: The file.
        settings: Maps a file's settings to their names in checkpoints.

    Returns:
        The state, by its names in checkpoints.

    Raises:
        InputError: The file contains no training.
        OSError: It can't be read.
    """
    try:
        saved = Saved.load(path)
    except ProgramError as error:
        raise InputError(str(error)) from None
    host = saved.host
    if host is None or host.kind != STEP:
        raise InputError(f"{path} holds no training to continue from")
    host_values = {"step": np.array(host.step_count, np.int64), "key": np.array(host.key, np.int64)}
    if host.accumulate > 1:
        host_values["accumulated"] = np.array(host.accumulated, np.int64)
    host_values |= {name: np.array(value, np.float64) for name, value in settings(host.settings).items()}
    return {
        **{name_of(name): value for name, value in saved.state.items()},
        **{TRAINING + name: value for name, value in host_values.items()},
    }


def is_saved(path: str | os.PathLike[str]) -> bool:
    """Returns whether a file was written by `Training.save` rather than as a checkpoint.

    Raises:
        InputError: It is not a safetensors file.
        OSError: It can't be read.
    """
    return read_metadata(path, InputError).get("format") == PROGRAM


def of_training(state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns a checkpoint's state without what `tg.fit` added."""
    return {name: value for name, value in state.items() if not name.startswith(RUN)}


def whole(name: str, value: np.ndarray, least: int = 0, most: int = 2**63 - 1) -> Sequence[int]:
    """Returns the integers of an array.

    Raises:
        InputError: One is out of range.
    """
    numbers = [int(number) for number in value.ravel()]
    if not all(least <= number <= most for number in numbers):
        raise InputError(f"{TRAINING}{name} must be from {least} to {most}, got {numbers}")
    return numbers
