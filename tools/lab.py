"""`tg lab`: opens the notebooks of the laboratory."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

import tensorgrad
from tensorgrad.errors import OptionError, ProgramError
from tensorgrad.tools.printing import plain, print_json

ORDER = ("levels", "passes", "schedules", "training", "derivatives", "bugs", "memory", "optimizers")
"""The chapters, in the order in which they are read."""

NEEDED = {"marimo": "marimo", "vl-convert-python": "vl_convert"}
"""The packages of the extra `lab`, and a module of each."""


@dataclass(frozen=True)
class Lab:
    """Opens the notebooks of the laboratory in a browser, to watch the compiler and change it while it runs.

    They are copied into a folder, where they are yours to edit; those that are there already stay as they are.

    Attributes:
        chapter: The chapter; `None` to choose in the browser.
        folder: Where the copies are.
        copy_only: Whether only to copy.
        json: Whether to print JSON.
    """

    chapter: str | None = None
    folder: str = "tensorgrad-lab"
    copy_only: bool = False
    json: bool = False

    def run(self, console: Console) -> int:
        """Copies the notebooks, and opens them until Ctrl-C; returns the status of the editor.

        Raises:
            OptionError: There is no such chapter.
            ProgramError: The notebooks need a package that isn't installed.
            OSError: The folder can't be written.
        """
        if self.chapter is not None and self.chapter not in ORDER:
            raise OptionError(f"there is no chapter {self.chapter!r}; there are {', '.join(ORDER)}")
        missing = [package for package, module in NEEDED.items() if find_spec(module) is None]
        if missing:
            raise ProgramError(f"the laboratory needs {' and '.join(missing)}: pip install {' '.join(missing)}")
        files = self._copied()
        if self.json:
            print_json(console, {"folder": self.folder, "chapters": [str(file) for file in files]})
        else:
            console.print(plain(f"the notebooks are in {self.folder}"), soft_wrap=True)
        if self.copy_only:
            return 0
        opened = Path(self.folder) if self.chapter is None else files[ORDER.index(self.chapter)]
        try:
            return subprocess.run([sys.executable, "-m", "marimo", "edit", str(opened)], check=False).returncode
        except KeyboardInterrupt:
            return 0

    def _copied(self) -> list[Path]:
        folder = Path(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        source = Path(str(tensorgrad.__file__)).parent / "lab" / "chapters"
        files = [folder / f"{number}_{name}.py" for number, name in enumerate(ORDER, 1)]
        for file, name in zip(files, ORDER, strict=True):
            if not file.exists():
                shutil.copyfile(source / f"{name}.py", file)
        return files
