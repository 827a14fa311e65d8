"""`tg replay`: a step of a training on the reference, from a checkpoint and on a batch, op by op."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np
from rich.console import Console

from tensorgrad.checks.inspection import Inspected
from tensorgrad.checks.nonfinite import Content
from tensorgrad.driver.handles.training import Training
from tensorgrad.errors import InputError, OptionError, ProgramError, TensorgradError
from tensorgrad.runtime.columns import aligned
from tensorgrad.tools.arrays import array_type, in_folder, named_array, named_arrays
from tensorgrad.tools.printing import plain, print_json
from tensorgrad.tools.tables import Listing
from tensorgrad.tracing import trees

COLUMNS = ("op", "phase", "line", "module", "type", "least", "most", "mean", "not finite")
NUMBERS = 5
"""The first column with numbers."""


@dataclass(frozen=True)
class Replay:
    """Runs a step op by op.

    Attributes:
        path: A Python file, followed by `:NAME` if it has several trainings.
        checkpoint: The state before the step, from `save_checkpoint` or `tg.fit`; or none.
        inputs: `name=file.npy` for inputs.
        batch: An `.npz` file with inputs by name, or none.
        at: The selected ops, as for `Training.inspect`; or none, for all.
        blame: Whether to name the op that produces the first NaN or infinity instead.
        rows: The number of rows in the table.
        out: An `.npz` file for the values, or none.
        json: Whether to print JSON.
    """

    path: str
    checkpoint: str | None = None
    inputs: Sequence[str] = ()
    batch: str | None = None
    at: str | None = None
    blame: bool = False
    rows: int = 20
    out: str | None = None
    json: bool = False

    def run(self, console: Console) -> None:
        """Runs it, and prints the values.

        Raises:
            TensorgradError: There is no such training, or the checkpoint or an input doesn't fit.
            OSError: A file can't be read or written.
        """
        if self.blame and (self.at is not None or self.out is not None):
            raise OptionError("--blame covers the whole step and writes no values: leave out --at and --out")
        named = [*named_arrays(self.batch).items(), *map(named_array, self.inputs)]
        arrays = dict(named)
        if len(arrays) < len(named):
            raise InputError("an input is given twice, by --batch and --input or by two of these")
        training = training_in(self.path)
        if self.checkpoint is not None:
            try:
                training.load_checkpoint(self.checkpoint)
            except InputError as error:
                raise InputError(f"{self.checkpoint}: {error.message}") from error
        if self.blame:
            self._blame(console, training, arrays)
        else:
            self._values(console, training, arrays)

    def _blame(self, console: Console, training: Training[Any], arrays: Mapping[str, np.ndarray]) -> None:
        blame = training.blame(**arrays)
        if self.json:
            print_json(console, {**_place(training), "blame": None if blame is None else _plain(asdict(blame))})
        else:
            what = "every value that it gives is finite" if blame is None else str(blame)
            console.print(plain(f"{_title(training)}: {what}"), soft_wrap=True)

    def _values(self, console: Console, training: Training[Any], arrays: Mapping[str, np.ndarray]) -> None:
        rows: list[tuple[Inspected, Content]] = []
        saved: dict[str, np.ndarray] = {}

        def look(inspected: Inspected) -> None:
            if self.out is not None:
                saved[f"{len(rows):06d} {inspected.phase} {inspected.op}"] = np.array(inspected.value)
            rows.append((inspected, Content.of(inspected.value)))

        results = training.replay(look, self.at, **arrays)
        if self.out is not None:
            cast(Any, np.savez)(in_folder(self.out), **saved)
        named = zip(trees.paths(results), trees.flatten(results)[0], strict=True)
        values = {name or "result": np.asarray(leaf) for name, leaf in named}
        if self.json:
            listed = [_row(*row) for row in rows]
            outputs = {name: _plain(value.tolist()) for name, value in values.items()}
            print_json(console, {**_place(training), "results": outputs, "values": listed})
            return
        scalars = [f"{name} {value:.6g}" for name, value in values.items() if value.shape == ()]
        console.print(plain(f"{_title(training)}: {', '.join([f'{len(rows)} values', *scalars])}"), soft_wrap=True)
        cells = [_cells(*row) for row in rows[: self.rows]]
        if console.is_terminal:
            table = Listing(COLUMNS[:NUMBERS], COLUMNS[NUMBERS:], light=True)
            for row in cells:
                table.add(*row)
            table.print(console)
        else:
            lines = aligned([COLUMNS, *cells], numbers=range(NUMBERS, len(COLUMNS)))
            console.out("\n".join(lines), highlight=False)
        if len(rows) > self.rows:
            console.print(plain(f"and {len(rows) - self.rows} others"))


def training_in(path: str) -> Training[Any]:
    """Imports a Python file, and returns a training of it.

    Args:
        path: The file, followed by `:NAME` for a training, or a function without arguments that returns one.

    Raises:
        ProgramError: It is not a Python file, fails, or has no such training; or it has several, and none is named.
        OSError: It can't be read.
    """
    file, name = (path, "") if Path(path).exists() else path.rpartition(":")[::2] if ":" in path else (path, "")
    if Path(file).suffix != ".py":
        raise ProgramError(
            f"{file}: a step is replayed from the Python file that compiles the training: a saved program has kernels, "
            "and none of the ops that they are made of"
        )
    namespace = _imported(Path(file))
    trainings = {attribute: value for attribute, value in namespace.items() if isinstance(value, Training)}
    if name:
        result = namespace.get(name)
        if callable(result) and not isinstance(result, Training):
            result = _guarded(file, result)
        if not isinstance(result, Training):
            raise ProgramError(
                f"{file}: {name} is neither a training nor a function without arguments that returns one"
            )
        return result
    if len(set(map(id, trainings.values()))) != 1:
        there = f"has the trainings {', '.join(trainings)}" if trainings else "has no training at its level"
        raise ProgramError(f"{file} {there}: name one, or a function that returns one, as in {file}:NAME")
    return next(iter(trainings.values()))


def _imported(file: Path) -> dict[str, Any]:
    """Returns the names defined by a Python file, which can import modules in its folder as when it is run."""
    with file.open("rb"):
        pass  # an OSError names the file
    loader = SourceFileLoader(file.stem, str(file.resolve()))
    module = sys.modules[file.stem] = ModuleType(file.stem)
    module.__file__ = loader.path
    sys.path.insert(0, str(Path(loader.path).parent))
    _guarded(str(file), lambda: loader.exec_module(module))
    return vars(module)


def _guarded(file: str, function: Callable[[], Any]) -> Any:
    """Returns the result of a user's function.

    Raises:
        ProgramError: It fails.
    """
    try:
        return function()
    except (TensorgradError, OSError):
        raise
    except Exception as error:
        raise ProgramError(f"{file}: {type(error).__name__}: {error}") from error


def _place(training: Training[Any]) -> dict[str, Any]:
    own = {"step": training.step_count + 1}
    many = {"micro_batch": training.accumulated + 1, "micro_batches": training.accumulate}
    return {**own, **many} if training.accumulate > 1 else own


def _title(training: Training[Any]) -> str:
    place = _place(training)
    part = f", micro-batch {place['micro_batch']} of {place['micro_batches']}" if "micro_batch" in place else ""
    return f"step {place['step']}{part}"


def _row(entry: Inspected, content: Content) -> dict[str, Any]:
    """Returns a value for JSON."""
    own = {
        "op": entry.op,
        "line": entry.line,
        "module": entry.module,
        "phase": entry.phase,
        "is_result": entry.is_result,
    }
    return {**own, **_plain(asdict(content))}


def _plain(value: Any) -> Any:
    """Returns a value that JSON can represent: dtypes as text, and no NaN."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, np.dtype):
        return str(value)
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _cells(inspected: Inspected, content: Content) -> tuple[str, ...]:
    """Returns a row of the table for a value, by `COLUMNS`."""
    line = inspected.line.replace("\\", "/").rpartition("/")[2]
    module = f"{inspected.module} (result)" if inspected.is_result else inspected.module
    kind = array_type(content.shape, content.dtype)
    numbers = ("" if number is None else f"{number:.4g}" for number in (content.least, content.most, content.mean))
    bad = content.nans + content.infinities
    return inspected.op, inspected.phase, line, module, kind, *numbers, str(bad) if bad else ""
