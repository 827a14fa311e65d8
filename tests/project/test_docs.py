"""The documentation's examples run: `tg-opt` and `tg` commands and Python of README.md and of the pages under docs.

The blocks of a page run as follows:

- Lines of ```sh blocks that begin with `tg-opt`, `tg` or `python name.py` run in order, in a separate folder for each
  page; they may be a pipe, and end in `| filecheck FILE`.
- ```python blocks run as one script, in another folder.
- The ```mlir and ```python blocks that begin with a comment naming a file (`// name.mlir`, `# name.py`) are written
  into either folder first.
- `<!-- output -->` on the line above a block means that it shows printed output: its lines must occur in the output of
  the preceding command (or script), in this order; `…` matches any omitted part of a line. A ```diff block
  shows lines of the difference between the outputs of the last two commands before it. The output of a command with
  `-o` is the file that it writes.
- `<!-- continues: other.md -->` means that the page's Python continues that of another page, which runs first; so the
  last of such pages runs for all.
- `<!-- no-run -->` on the line above a block excludes it.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tensorgrad.tools import tg, tg_opt
from tensorgrad.tools.learn import chapters


def run_script(arguments: Sequence[str]) -> int:
    """Runs a Python file from a page, and prints its output."""
    done = subprocess.run([sys.executable, "-W", "error", *arguments], stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, end="")
    return done.returncode


def run_sed(arguments: list[str]) -> int:
    """Runs `sed`, whose output goes to a file, and prints its name."""
    *call, redirection, name = arguments
    assert redirection == ">"
    done = subprocess.run(["sed", *call], capture_output=True, text=True, encoding="utf-8", check=True)
    Path(name).write_text(done.stdout, encoding="utf-8")
    print(name)
    return done.returncode


PROGRAMS = {"tg-opt": tg_opt.main, "tg": tg.main, "python": run_script, "sed": run_sed}
CALL = re.compile(r"(tg-opt|tg|sed|python \w+\.py)( |$)")
"""How the command lines begin that run."""

FILECHECK = str(Path(sys.executable).parent / "filecheck")

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
BLOCK = re.compile(r"^(?P<above>[^\n]*)\n\s*^```(?P<language>\w+)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"(?://|#) (\w+\.(?:mlir|py))\n")


NIGHTLY = {
    "docs/how-to/bench.md": "times programs in processes of their own, as tests/e2e/test_benchmarks.py does",
    "docs/how-to/distributed.md": "launches groups of processes, as tests/e2e does",
    "docs/how-to/eager.md": "computes at once on each device, as tests/eager does",
    "docs/how-to/fine-tune.md": "trains parts of models, as tests/nn/test_freezing.py and test_adapters.py do",
    "docs/how-to/language-model.md": "is the steps of examples/finetune.py, which tests/e2e runs",
    "docs/how-to/mixed-precision.md": "trains in each precision, as tests/numerics/test_bf16.py and test_half.py do",
    "docs/how-to/notebooks.md": "is a run of `fit`; tests/train/test_notebook_progress.py has what it shows",
    "docs/how-to/programs.md": "saves and loads programs, as docs/tutorial/program-file.md does",
    "docs/how-to/save-and-load.md": "saves and reads as tests/driver/test_checkpoints.py and tests/e2e do",
    "docs/how-to/memory.md": "compiles ten programs; of limits, targets, half floats and tuning there are tests each",
    "docs/how-to/vision-model.md": "trains two ViTs; tests/models trains one, and tests/nn adapters",
    "docs/how-to/from-pytorch.md": "imports PyTorch and exports its modules, as tests/importers does",
    "docs/how-to/huggingface.md": "trains a language model, which tests/models reads, trains, asks and writes",
    "docs/how-to/inspect.md": "compiles four programs; tests/driver and tests/tools have hooks, dumps and reports",
    "docs/index.md": "is the beginning of README.md, whose Python runs",
    "docs/reference/tg/launch.md": "launches groups of processes, as tests/e2e/test_mpi.py does",
    "docs/reference/tg/reduce.md": "is what tests/checks/test_reduce.py does with smaller modules",
    "docs/reference/tg/replay.md": "is what tests/checks/test_replay.py does in its own process",
    "docs/reference/tg/report.md": "is what tests/tools/test_report.py does with the same command",
}
"""Pages that take too long for every change, and what else runs what they show."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    code: str
    above: str

    @property
    def runs(self) -> bool:
        return "<!-- no-run -->" not in self.above and not self.is_output

    @property
    def is_output(self) -> bool:
        return "<!-- output -->" in self.above

    @property
    def commands(self) -> list[str]:
        """The lines of a shell block that call one of our programs."""
        lines = self.code.splitlines() if self.language == "sh" and self.runs else []
        return [line for line in lines if CALL.match(line)]

    @property
    def is_python(self) -> bool:
        return self.language == "python" and self.runs


def blocks(page: Path) -> list[Block]:
    """Returns the fenced blocks of a page, in order."""
    text = "\n" + page.read_text(encoding="utf-8")
    return [Block(m["language"], m["code"], m["above"]) for m in BLOCK.finditer(text)]


def commands(page: Path) -> list[str]:
    """Returns the commands of a page that are run."""
    return [line for block in blocks(page) for line in block.commands]


def python_of(page: Path) -> str:
    """Returns the concatenated Python blocks of a page, preceded by those of the pages that it continues."""
    return "\n".join(block.code for chapter in chapters(page) for block in blocks(chapter) if block.is_python)


CONTINUED = {earlier for page in PAGES for earlier in chapters(page)[:-1]}
"""Pages whose Python runs with that of the page that continues them."""


def write_files(page: Path, folder: Path) -> None:
    """Writes the blocks of a page that name a file."""
    for block in blocks(page):
        if name := FILE.match(block.code):
            (folder / name[1]).write_text(block.code, encoding="utf-8")


def marked(page: Path) -> Any:
    """Returns a page as a test parameter; pages that export need the browser runtime, which `make test-web` builds."""
    exports = any("export web" in line for line in commands(page)) or "export_web(" in python_of(page)
    marks = [(pytest.mark.nightly, named(page) in NIGHTLY), (pytest.mark.web, exports)]
    return pytest.param(page, marks=[mark for mark, holds in marks if holds])


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def assert_shows(block: Block, output: Sequence[str]) -> list[str]:
    """Checks that a block's lines occur in an output, in order; returns the rest of the output."""
    rest = [" ".join(line.split()) for line in output]
    for line in filter(None, map(str.strip, block.code.splitlines())):
        if line == "…":
            continue
        pattern = re.compile(".*".join(re.escape(" ".join(part.split())) for part in line.split("…")))
        found = next((number for number, one in enumerate(rest) if pattern.fullmatch(one)), None)
        assert found is not None, f"{line}\nis not in what was printed:\n" + "\n".join(rest)
        rest = rest[found + 1 :]
    return rest


def difference(before: str, after: str) -> list[str]:
    """Returns the lines of two outputs, each after "- ", "+ " or two spaces; renumbered values count as equal."""
    first, second = ([" ".join(line.split()) for line in text.splitlines()] for text in (before, after))
    unnumbered = [[re.sub(r"%\d+", "%", line) for line in lines] for lines in (first, second)]
    result: list[str] = []
    for kind, i, j, k, m in difflib.SequenceMatcher(None, *unnumbered, autojunk=False).get_opcodes():
        if kind == "equal":
            result += [f"  {line}" for line in second[k:m]]
        else:
            result += [f"- {line}" for line in first[i:j]] + [f"+ {line}" for line in second[k:m]]
    return result


@pytest.mark.parametrize("page", [marked(page) for page in PAGES if commands(page)], ids=named)
def test_commands(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TENSORGRAD_CACHE", str(tmp_path / "cache"))
    write_files(page, tmp_path)
    outputs, last_runs_commands = [""], False
    for block in blocks(page):
        if block.is_output and last_runs_commands:
            assert_shows(block, difference(*outputs[-2:]) if block.language == "diff" else outputs[-1].splitlines())
        elif block.runs and (block.commands or block.is_python):
            last_runs_commands = bool(block.commands)
        for command in block.commands:
            pipe, _, checks = command.partition(" | filecheck ")
            printed, arguments = "", list[str]()
            for call in pipe.split(" | "):
                name, *arguments = shlex.split(call)
                monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(printed.encode())))
                status = PROGRAMS[name](arguments)
                printed, errors = capsys.readouterr()
                assert status == 0, f"{command}\n{errors}"
            if checks:
                subprocess.run([FILECHECK, checks], input=printed, text=True, check=True)
            assert printed or " -o " in command, f"{command} prints nothing"
            written = Path(arguments[arguments.index("-o") + 1]) if "-o" in arguments else None
            outputs.append(written.read_text(encoding="utf-8") if written else printed)


@pytest.mark.parametrize(
    "page",
    [marked(page) for page in (ROOT / "README.md", *PAGES) if python_of(page) and page not in CONTINUED],
    ids=named,
)
def test_python(page: Path, tmp_path: Path, python: str) -> None:
    """Runs in a separate process and folder, from a file, since traced functions are located by their source.

    Programs are kept, as they are for users: many pages load what they have compiled.
    """
    pages = chapters(page)
    for chapter in pages:
        write_files(chapter, tmp_path)
    script = tmp_path / "example.py"
    script.write_text(python_of(page), encoding="utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8", "TENSORGRAD_CACHE": str(tmp_path / "cache")}
    del environment["TENSORGRAD_CACHE_PROGRAMS"]
    result = subprocess.run(
        [python, "-W", "error", script.name],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert result.returncode == 0, result.stderr
    lines, last_is_python = result.stdout.splitlines(), False
    for block in chain.from_iterable(map(blocks, pages)):
        if block.is_output and last_is_python:
            lines = assert_shows(block, lines)
        elif block.runs and (block.commands or block.is_python):
            last_is_python = block.is_python


def test_the_pages_have_examples() -> None:
    assert commands(DOCS / "reference" / "tg-opt.md")
    assert python_of(ROOT / "README.md")


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "<!-- output -->" in page.read_text(encoding="utf-8")], ids=named
)
def test_shown_output_follows_what_prints_it(page: Path) -> None:
    shown = [block for block in blocks(page) if block.is_output]
    assert len(shown) == page.read_text(encoding="utf-8").count("<!-- output -->")
    first = next(block for block in blocks(page) if block.is_output or block.commands or block.is_python)
    assert not first.is_output


def test_blocks_can_be_left_out(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- no-run -->\n```python\nfail\n```\n\ntext\n\n```python\nx = 1\n```\n", encoding="utf-8")
    assert python_of(page) == "x = 1\n"


def shown(code: str) -> Block:
    return Block("text", code, "<!-- output -->")


def test_shown_output_is_checked() -> None:
    output = ["a = 1", "  b =   [1, 2, 3]", "c"]
    assert_shows(shown("a = 1\nb = […]\nc\n"), output)
    assert_shows(shown("…\nc\n"), output)
    for wrong in ("c\na = 1\n", "b = [1]\n", "d\n"):
        with pytest.raises(AssertionError, match="not in what was printed"):
            assert_shows(shown(wrong), output)


def test_differences_have_signs() -> None:
    assert difference("a %1\nb\n", "a %2\n  c\n") == ["  a %2", "- b", "+ c"]
