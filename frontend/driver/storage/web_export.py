"""Directories for web servers: programs, the module that runs them in a page, and a starter page."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tensorgrad.errors import InputError, OptionError
from tensorgrad.runtime.backend import check_inputs
from tensorgrad.runtime.errors import ProgramError
from tensorgrad.runtime.files import write_safetensors
from tensorgrad.runtime.program import ProgramRole
from tensorgrad.runtime.saved import STEP, Saved
from tensorgrad.runtime.sharing import persistent_in
from tensorgrad.runtime.target import WEBGPU_DEFAULT
from tensorgrad.runtime.weights import F32
from tensorgrad.tracing.location import user_line
from tensorgrad.web import MODULE, STARTER

TRAINING, EXAMPLE, MANIFEST = "training", "example.safetensors", "folder.json"
BROWSER = replace(WEBGPU_DEFAULT, name="what every browser has", shader_dialect="standard")


class Savable(Protocol):
    """A program that can be saved for another target: a training, or a function."""

    def save(self, path: str | os.PathLike[str], target: str | None = None) -> None:
        """Writes the file."""
        ...


def export_programs(
    folder: str | os.PathLike[str], programs: Mapping[str, Savable], example: Mapping[str, Any] | None
) -> None:
    """Compiles programs for browsers, and writes a directory with them; see `Training.export_web`.

    Args:
        folder: The directory.
        programs: Functions by name, and at most one training.
        example: An array for each input, or for some.

    Raises:
        OptionError, InputError, ProgramError, TargetError, OSError: As `export_files`.
    """
    _check_names(programs)
    _check_built()
    with tempfile.TemporaryDirectory() as aside:
        paths = {name: Path(aside, f"{name}.tg") for name in programs}
        for name, program in programs.items():
            program.save(paths[name], target=WEBGPU_DEFAULT.name)
        export_files(folder, paths, example)


def export_files(
    folder: str | os.PathLike[str],
    paths: Mapping[str, str | os.PathLike[str]],
    example: Mapping[str, Any] | None = None,
    weights: str = F32,
) -> None:
    """Writes a directory with already saved programs. An existing page is kept.

    Args:
        folder: The directory.
        paths: The files by program name: functions, and at most one training.
        example: An array for each input, or for some.
        weights: How the directory stores the functions' parameters; see `Inference.save`.

    Raises:
        ProgramError: A file contains no program, there are several trainings, or a function is not one of the
            training's.
        TargetError: A program needs a feature that not every browser has.
        OptionError: The web module is not built, a program's name is not allowed, or there is a training, whose
            parameters have to be exact.
        InputError: The example doesn't match, or a parameter can't be stored so.
        OSError: A file can't be read or written.
    """
    _check_names(paths)
    _check_built()
    saved = {name: Saved.load(path) for name, path in paths.items()}
    training = _training_in(saved)
    if training and weights != F32:
        raise OptionError(
            f"weights={weights!r}: {training} is a training, which goes on from its exact parameters; "
            "export functions without it"
        )
    arrays = None if example is None else _checked_example(example, saved, training)
    into = Path(folder)
    into.mkdir(parents=True, exist_ok=True)
    for name, path in paths.items():
        exported = into / f"{name}.tg"
        if weights != F32:
            saved[name].save(exported, weights)
        elif not exported.exists() or not os.path.samefile(path, exported):
            shutil.copyfile(path, exported)
    if arrays is not None:
        write_safetensors(into / EXAMPLE, arrays, {})
    manifest = {
        "name": saved[training or next(iter(saved))].program.name,
        "training": training and f"{training}.tg",
        "functions": {name: f"{name}.tg" for name in saved if name != training},
        "example": None if arrays is None else EXAMPLE,
    }
    (into / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    shutil.copyfile(MODULE, into / MODULE.name)
    if not (into / STARTER[0].name).exists():
        for path in STARTER:
            shutil.copyfile(path, into / path.name)


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
