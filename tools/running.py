"""`tg run`: runs a saved function, steps of a saved training, or IR of any level, on arrays from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from rich.console import Console

from tensorgrad.driver.handles.load import load
from tensorgrad.errors import InputError, OptionError, ProgramError
from tensorgrad.runtime.conversion import kind_of
from tensorgrad.runtime.loaded import LoadedFunction
from tensorgrad.tools.arrays import array_type, in_folder, input_fault, named_array
from tensorgrad.tools.printing import print_json
from tensorgrad.tools.tables import Listing
from tensorgrad.tracing import trees

MOST_SHOWN = 8
"""The number of elements of a result to print."""


@dataclass(frozen=True)
class ProgramRun:
    """Runs a program.

    Attributes:
        path: A saved program, or IR: a file called `.mlir`, or `-` for standard input.
        inputs: `name=file.npy`, or `name=` and numbers as in JSON, for each input; for IR, for any arguments.
        device: As for `tg.load`. IR runs where its level does.
        steps: The number of training steps, on the same inputs.
        out: An `.npz` file for the results, or none.
        save: A file to write a training to after its steps, or none.
        json: Whether to print JSON.
    """

    path: str
    inputs: Sequence[str] = ()
    device: str = "auto"
    steps: int = 1
    out: str | None = None
    save: str | None = None
    json: bool = False

    def run(self, console: Console) -> None:
        """Runs it, and prints the results of the last step.

        Raises:
            TensorgradError: The program can't be loaded, or an input doesn't fit.
            OSError: A file can't be read or written.
        """
        arrays = dict(named_array(text) for text in self.inputs)
        if self.path == "-" or self.path.endswith(".mlir"):
            self._evaluate(console, arrays)
        else:
            self._run(console, arrays)

    def _evaluate(self, console: Console, arrays: Mapping[str, np.ndarray]) -> None:
        """Runs IR at its own level."""
        from tensorgrad.checks.evaluation import Evaluation, Samples
        from tensorgrad.passes.levels import Level, level_of
        from tensorgrad.tools.parsing import parsed_file

        options = {"--device": self.device != "auto", "--steps": self.steps != 1, "--save": self.save is not None}
        if extra := [option for option, is_set in options.items() if is_set]:
            raise OptionError(f"{self.path} is IR, which runs where its level does, once: leave out {', '.join(extra)}")
        module = parsed_file(self.path)
        level = level_of(module)
        if level is Level.STABLEHLO:
            raise ProgramError(f"{self.path}: stablehlo has no reference here; tg-opt --stablehlo-to-tg first")
        samples = Samples(arrays, seed=0)
        evaluation = Evaluation(samples, poisons=True)
        evaluation.start_at(level)
        results = evaluation.results(module)
        if unknown := [name for name in arrays if name not in samples.used]:
            names = ", ".join(evaluation.arguments) or "none"
            raise InputError(f"{self.path} has no argument {', '.join(unknown)}; it has {names}")
        self._write(results)
        arguments = evaluation.arguments
        if self.json:
            print_json(console, {"arguments": _listed(arguments), "results": _listed(results)})
            return
        title = self.path if level is None else f"{self.path}, at level {level.value}"
        table = Listing(("value", "from", "type", "values"), title=title)
        for name, value in arguments.items():
            source = "passed" if name.partition("/")[2] in samples.used else "sampled"
            table.add(name, source, array_type(value.shape, value.dtype), _shown(value))
        for name, value in results.items():
            table.add(name, "result", array_type(value.shape, value.dtype), _shown(value))
        table.print(console)

    def _write(self, values: Mapping[str, np.ndarray]) -> None:
        if self.out is not None:
            cast(Any, np.savez)(in_folder(self.out), **values)

    def _run(self, console: Console, arrays: Mapping[str, np.ndarray]) -> None:
        """Runs a saved program."""
        loaded = load(self.path, device=self.device)
        if (fault := input_fault(self.path, loaded.inputs, arrays)) is not None:
            raise InputError(fault)
        result: Any = None
        if isinstance(loaded, LoadedFunction):
            result = loaded(**arrays)
        else:
            for _ in range(self.steps):
                result = loaded.step(**arrays)
        paths, leaves = trees.paths(result), trees.flatten(result)[0]
        values = {path or "result": np.asarray(leaf) for path, leaf in zip(paths, leaves, strict=True)}
        self._write(values)
        if self.save is not None:
            loaded.save(in_folder(self.save))
        if self.json:
            print_json(console, {"device": loaded.device, "results": _listed(values)})
            return
        table = Listing(("result", "type", "values"), title=f"{loaded!r}")
        for name, value in values.items():
            table.add(name, array_type(value.shape, value.dtype), _shown(value))
        table.print(console)


def _listed(values: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return {name: value.tolist() for name, value in values.items()}


def _shown(value: np.ndarray) -> str:
    flat = value.reshape(-1)
    form = "{:.6g}" if kind_of(value.dtype) == "f" else "{}"
    shown = ", ".join(form.format(element) for element in flat[:MOST_SHOWN])
    return shown + (", …" if flat.size > MOST_SHOWN else "")
