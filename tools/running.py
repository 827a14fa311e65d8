"""`tg run`: runs a saved function, or steps of a saved training, on arrays from files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from rich.console import Console

from tensorgrad.driver.handles.load import load
from tensorgrad.errors import InputError
from tensorgrad.runtime.conversion import kind_of
from tensorgrad.runtime.loaded import LoadedFunction
from tensorgrad.tools.arrays import array_type, check_saved, in_folder, input_fault, named_array
from tensorgrad.tools.printing import print_json
from tensorgrad.tools.tables import Listing
from tensorgrad.tracing import trees

MOST_SHOWN = 8
"""The number of elements of a result to print."""


@dataclass(frozen=True)
class ProgramRun:
    """Runs a program.

    Attributes:
        path: A saved program.
        inputs: `name=file.npy` for each input.
        device: As for `tg.load`.
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
        check_saved(self.path)
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
        if self.out is not None:
            cast(Any, np.savez)(in_folder(self.out), **values)
        if self.save is not None:
            loaded.save(in_folder(self.save))
        if self.json:
            print_json(console, {"device": loaded.device, "results": {n: v.tolist() for n, v in values.items()}})
            return
        table = Listing(("result", "type", "values"), title=f"{loaded!r}")
        for name, value in values.items():
            table.add(name, array_type(value.shape, value.dtype), _shown(value))
        table.print(console)


def _shown(value: np.ndarray) -> str:
    flat = value.reshape(-1)
    form = "{:.6g}" if kind_of(value.dtype) == "f" else "{}"
    shown = ", ".join(form.format(element) for element in flat[:MOST_SHOWN])
    return shown + (", …" if flat.size > MOST_SHOWN else "")
