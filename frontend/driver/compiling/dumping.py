"""`TG_DUMP`: writes every level of every compilation to a directory."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.llvm import FuncOp as LlvmFuncOp

from tensorgrad.dialects.wgsl import KernelOp
from tensorgrad.errors import OptionError
from tensorgrad.report.locations import Sources
from tensorgrad.runtime.program import Dispatch, Program, runs

VARIABLE = "TG_DUMP"
"""The environment variable that names the directory."""

FILES = {
    "traced": "0-traced.mlir",
    "tg": "1-tg.mlir",
    "buf": "2-buf.mlir",
    "wgsl": "3-wgsl.mlir",
    "llvm": "3-llvm.mlir",
}
"""The file name of each level, chosen so that a listing shows them in order."""

ENDINGS = {"wgsl": "wgsl", "llvm": "ll"}
"""The file extension of kernels, by language."""

_numbers = count(1)


class Dump:
    """The files of one compilation.

    Attributes:
        folder: The directory: `<TG_DUMP>/<process>-<number>-<name>`.
    """

    def __init__(self, folder: Path):
        self.folder = folder

    @classmethod
    def from_environment(cls, name: str) -> Dump | None:
        """Returns the dump of a new compilation, or `None` if `TG_DUMP` is not set.

        Args:
            name: The compiled function.

        Raises:
            OptionError: `TG_DUMP` does not name a writable directory.
        """
        root = os.environ.get(VARIABLE)
        if not root:
            return None
        folder = Path(root) / f"{os.getpid()}-{next(_numbers):03}-{name}"
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            raise OptionError(f"{VARIABLE}={root} can't be written to: {error.strerror}") from error
        return cls(folder)

    def module(self, level: str, module: ModuleOp) -> None:
        """Writes the IR of a level; a later module of the same level replaces it."""
        (self.folder / FILES[level]).write_text(f"{module!s}\n", encoding="utf-8")

    def program(self, program: Program, module: ModuleOp) -> None:
        """Writes the kernels' code, and a table of the dispatches with the Python lines that each computes.

        Args:
            program: The compiled program.
            module: Its kernels as IR, which holds the source location of each op.
        """
        kernels = self.folder / "kernels"
        kernels.mkdir(exist_ok=True)
        for kernel in program.kernels:
            path = kernels / f"{kernel.entry}.{ENDINGS[kernel.language]}"
            path.write_text(kernel.code, encoding="utf-8")
        sources = Sources()
        lines = {op.sym_name.data: sources.labels(op) for op in module.ops if isinstance(op, KernelOp | LlvmFuncOp)}
        rows = ["dispatch  kernel                lines"]
        for number, (step, _) in enumerate(runs(program.plan)):
            if isinstance(step, Dispatch):
                entry = program.kernels[step.kernel].entry
                others = [line for line in lines.get(entry, []) if line != step.label]
                rows.append(f"{number:8}  {entry:20}  {', '.join([step.label, *others])}")
        (self.folder / "dispatches.txt").write_text("\n".join([*rows, ""]), encoding="utf-8")
