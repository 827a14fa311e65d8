"""`tg report`: a report about a compilation, as an HTML page or as text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from tensorgrad.errors import ProgramError
from tensorgrad.runtime.saved import Saved
from tensorgrad.runtime.target import Target
from tensorgrad.tools.arrays import in_folder
from tensorgrad.tools.printing import plain, print_json

if TYPE_CHECKING:
    from tensorgrad.report.facts import Facts


@dataclass(frozen=True)
class Report:
    """Writes a page about a program: its IR at every level, passes, kernels, data flow and memory.

    FILE is IR at the level `tg`, in a .mlir file or, with `-`, on standard input, and is compiled for a target; or a
    saved program, which has only kernels and a plan. A second file is compared with it. The source that IR names in its
    locations is shown beside it; relative paths are looked up in FILE's folder, then in the current one.

    Attributes:
        paths: One file, or two.
        out: The page to write.
        target: The target to compile IR for: a profile's name, the path of a JSON file, or inline JSON.
        text: Whether to print the report instead of writing a page.
        json: Whether to print it as JSON.
    """

    paths: list[str]
    out: str = "report.html"
    target: str = "webgpu-default"
    text: bool = False
    json: bool = False

    def run(self, console: Console) -> None:
        """Writes or prints the report.

        Raises:
            TensorgradError: A file is malformed, or can't be compiled.
            OSError: A file can't be read, or the page can't be written.
        """
        from tensorgrad.report import CompilationReport

        if len(self.paths) > 2:
            raise ProgramError(f"tg report takes one file, or two to compare, got {len(self.paths)}")
        facts_of_each = [self._facts(path) for path in self.paths]
        report = CompilationReport(*facts_of_each)
        if self.json:
            print_json(console, [facts.to_dict() for facts in facts_of_each])
        elif self.text:
            console.out(str(report), highlight=False)
        else:
            report.save(in_folder(self.out))
            console.print(plain(f"wrote {self.out}"), soft_wrap=True)

    def _facts(self, path: str) -> Facts:
        from tensorgrad.passes.pipelines import device_passes, inlined_passes
        from tensorgrad.report.collect import collect, facts_of_program
        from tensorgrad.tools.parsing import only_function, parsed_tensors

        if path != "-" and not path.endswith(".mlir"):
            return facts_of_program(Saved.load(path).program)
        target, module = Target.from_spec(self.target), parsed_tensors(path)
        name, below = only_function(module), device_passes(target, None, False, None)
        folder = None if path == "-" else Path(path).parent
        return collect(module, inlined_passes(target), below, target, name, target.name, folder=folder)
