"""Directories for web servers: programs, the module that runs them in a page, and a starter page."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from tensorgrad.errors import InputError, OptionError
from tensorgrad.runtime.errors import ProgramError
from tensorgrad.runtime.files import replacing, write_safetensors, write_text
from tensorgrad.runtime.inputs import check_inputs
from tensorgrad.runtime.program import HOST_DTYPES, Program, ProgramRole
from tensorgrad.runtime.saved import GENERATOR, STEP, Saved
from tensorgrad.runtime.sharing import persistent_in
from tensorgrad.runtime.target import WEBGPU_DEFAULT
from tensorgrad.runtime.weights import F32
from tensorgrad.tracing import trees
from tensorgrad.tracing.location import user_line
from tensorgrad.web import MODULE, STARTER

TRAINING, EXAMPLE, MANIFEST = "training", "example.safetensors", "folder.json"
BROWSER = replace(WEBGPU_DEFAULT, name="what every browser has", shader_dialect="standard")


MOST_RECORDED = 2000
"""The most numbers of a function's results that are recorded for browsers that can't compute them."""


class Savable(Protocol):
    """A program that can be saved for another target: a training, or a function."""

    def save(self, path: str | os.PathLike[str], target: str | None = None) -> None:
        """Writes the file."""
        ...


class Function(Savable, Protocol):
    """A function that can be saved, and called here."""

    def __call__(self, /, **inputs: Any) -> Any:
        """Returns its results."""
        ...


def export_programs(
    folder: str | os.PathLike[str],
    training: Savable,
    functions: Mapping[str, Function],
    example: Mapping[str, Any] | None,
    labels: Sequence[str] | None,
) -> None:
    """Compiles programs for browsers, and writes a directory with them; see `Training.export_web`.

    Args:
        folder: The directory.
        training: The training.
        functions: Functions of it, by name.
        example: An array for each input, or for some.
        labels: The names of the classes.

    Raises:
        OptionError, InputError, ProgramError, TargetError, OSError: As `export_files`; a function can't be saved.
    """
    programs: Mapping[str, Savable] = {TRAINING: training, **functions}
    _check_folder(folder)
    _check_names(programs)
    for name, program in programs.items():
        if not callable(getattr(program, "save", None)):
            raise OptionError(
                f"export_web: functions: {name!r} is a {type(program).__name__}, which can't be saved: pass what "
                "training.attach(function) returns"
            )
    _check_built()
    with tempfile.TemporaryDirectory() as aside:
        paths = {name: Path(aside, f"{name}.tg") for name in programs}
        for name, program in programs.items():
            program.save(paths[name], target=WEBGPU_DEFAULT.name)
        export_files(folder, paths, example, labels=labels, functions=functions)


def export_files(
    folder: str | os.PathLike[str],
    paths: Mapping[str, str | os.PathLike[str]],
    example: Mapping[str, Any] | None = None,
    weights: str = F32,
    labels: Sequence[str] | None = None,
    functions: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
) -> None:
    """Writes a directory with already saved programs. An existing page is kept.

    Args:
        folder: The directory.
        paths: The files by program name: functions, generators, and at most one training.
        example: An array for each input, or for some.
        weights: How the directory stores the functions' parameters; see `Inference.save`.
        labels: The names of the classes: of the entries of functions' results along their last axis. For a generator
            the texts of its tokens.
        functions: What computes functions here, by name. Their results for the example are recorded, for browsers that
            can't compute them.

    Raises:
        ProgramError: A file contains no program, there are several trainings, or a function is not one of the
            training's.
        TargetError: A program needs a feature that not every browser has.
        OptionError: The web module is not built, the folder or a program has a name that is not allowed, no function
            has as many results as there are labels, or weights are given with a training, whose parameters have to be
            exact.
        InputError: The example doesn't match, or a parameter can't be stored so.
        OSError: A file can't be read or written.
    """
    _check_folder(folder)
    _check_names(paths)
    _check_built()
    saved = {name: Saved.load(path) for name, path in paths.items()}
    training = _training_in(saved)
    if training and weights != F32:
        raise OptionError(
            f"weights={weights!r}: {training} is a training, which goes on from its exact parameters; "
            "export functions without it"
        )
    if weights != F32:  # all are stored so before the first is written to the folder
        with tempfile.TemporaryDirectory() as aside:
            stored = {name: Path(aside, f"{name}.tg") for name in saved}
            for name, path in stored.items():
                saved[name].save(path, weights)
            export_files(folder, stored, example, labels=labels, functions=functions)
        return
    names = None if labels is None else _checked_labels(labels, [saved[name] for name in saved if name != training])
    arrays = None if example is None else _checked_example(example, saved, training)
    recorded = {name: _recorded(call, saved[name].program, arrays or {}) for name, call in functions.items()}
    generators = [name for name, entry in saved.items() if entry.host is not None and entry.host.kind == GENERATOR]
    into = Path(folder)
    into.mkdir(parents=True, exist_ok=True)
    for name, path in paths.items():
        if not (into / f"{name}.tg").exists() or not os.path.samefile(path, into / f"{name}.tg"):
            _copied(path, into / f"{name}.tg")
    if arrays is not None:
        write_safetensors(into / EXAMPLE, arrays, {})
    manifest = {
        "name": saved[training or next(iter(saved))].program.name,
        "training": training and f"{training}.tg",
        "functions": {name: f"{name}.tg" for name in saved if name not in (training, *generators)},
        "generators": {name: f"{name}.tg" for name in generators},
        "example": None if arrays is None else EXAMPLE,
        "labels": names,
        "recorded": {name: results for name, results in recorded.items() if results is not None},
    }
    write_text(into / MANIFEST, json.dumps(manifest, indent=1) + "\n")
    _copied(MODULE, into / MODULE.name)
    if not (into / STARTER[0].name).exists():
        for path in reversed(STARTER):  # the page last: while it is missing, an export writes all of them
            _copied(path, into / path.name)


def _copied(source: str | os.PathLike[str], path: Path) -> None:
    """Copies a file; an older one stays if that fails."""
    with replacing(path) as aside:
        shutil.copyfile(source, aside)


def _training_in(saved: Mapping[str, Saved]) -> str | None:
    """Returns the name of the training among programs, if there is one.

    Raises:
        ProgramError: There are several, or a program is not callable, or does not belong to the training.
        TargetError: A program needs a feature that not every browser has.
    """
    kinds = {name: None if function.host is None else function.host.kind for name, function in saved.items()}
    trainings = [name for name, kind in kinds.items() if kind == STEP]
    if len(trainings) > 1:
        raise ProgramError(f"{user_line()}: a page has one training, there are {', '.join(trainings)}")
    for name, entry in saved.items():
        if kinds[name] is None:
            raise ProgramError(f"{user_line()}: {name} is a program alone, without what calls it: save a function")
        for program in (entry.program, entry.others):
            if program is not None:
                program.check_fits(BROWSER)
        if trainings and name not in trainings:
            persistent_in(entry.program, saved[trainings[0]].program)
    return trainings[0] if trainings else None


def _checked_example(
    example: Mapping[str, Any], saved: Mapping[str, Saved], training: str | None
) -> dict[str, np.ndarray]:
    """Returns the example as arrays; the training's inputs take precedence over functions' inputs of the same names.

    Raises:
        InputError: It doesn't match.
    """
    ordered = sorted(saved, key=lambda name: name == training)
    inputs = {name: slot for key in ordered for name, slot in saved[key].program.slots(ProgramRole.INPUT).items()}
    unknown = sorted(set(example) - set(inputs))
    if unknown:
        raise InputError(f"example: no input {', '.join(unknown)}; there are {', '.join(inputs)}")
    return check_inputs({name: inputs[name] for name in example}, example, what="example")


def _checked_labels(labels: Sequence[str], functions: Iterable[Saved]) -> list[str]:
    """Returns the labels.

    Raises:
        OptionError: One is not a text, or no function has as many results.
    """
    names = [] if isinstance(labels, str) else list(labels)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise OptionError(f"labels must be a list of names, got {labels!r}")
    outputs = [slot for function in functions for slot in function.program.slots(ProgramRole.OUTPUT).values()]
    if not any(slot.shape[-1:] == (len(names),) for slot in outputs):
        raise OptionError(f"labels: there are {len(names)}, and no function has as many results along its last axis")
    return names


def _recorded(function: Callable[..., Any], program: Program, example: Mapping[str, np.ndarray]) -> Any:
    """Returns a function's results for the example as JSON: `None` if they are many, or the example lacks an input."""
    inputs = program.slots(ProgramRole.INPUT)
    if not all(name in example and example[name].shape == slot.shape for name, slot in inputs.items()):
        return None
    leaves, rebuild = trees.flatten(function(**{name: example[name] for name in inputs}))
    arrays = [np.asarray(leaf) for leaf in leaves]
    many = sum(array.size for array in arrays) > MOST_RECORDED
    return None if many else rebuild([_plain(array) for array in arrays])


def _plain(array: np.ndarray) -> Any:
    """Returns an array as the page reads it: a number, or an object; what is not finite is `None`."""
    bytes_for_bools = array.astype(np.uint8) if array.dtype == np.bool_ else array
    numbers = [number if np.isfinite(number) else None for number in bytes_for_bools.ravel().tolist()]
    dtype = next(name for name, own in HOST_DTYPES.items() if own == array.dtype)
    return {"shape": array.shape, "dtype": dtype, "data": numbers} if array.ndim else numbers[0]


def _check_folder(folder: str | os.PathLike[str]) -> None:
    """Refuses the empty path, as of a variable that is not set: it would be the current folder."""
    if not os.fspath(folder):
        raise OptionError("the path of the folder to write is empty: '.' is the current folder")


def _check_names(names: Iterable[str]) -> None:
    for name in names:
        if not name.replace("-", "_").isidentifier():
            raise OptionError(f"a program can't be called {name!r}: its file would be {name}.tg")
    if not names:
        raise OptionError("there is no program to export")


def _check_built() -> None:
    if not MODULE.exists():
        raise OptionError(
            "the module for pages is not built: in a clone `make web` builds it, and so does `pip install .` "
            "where npm's registry can be reached"
        )
