"""Type checking of programs that use tensorgrad: correct uses have types, incorrect ones are errors.

The programs in `tests/types/programs` are what users write: a strict checker finds nothing unknown in them, and they
run.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TYPES = Path(__file__).parents[1] / "types"
USES = TYPES / "uses.py"
PROGRAMS = sorted((TYPES / "programs").glob("*.py"))


def expected() -> dict[int, str]:
    """Returns the rule that each line marked `# error: rule` violates."""
    lines = USES.read_text(encoding="utf-8").splitlines()
    marks = {number: re.search(r"# error: (\w+)$", line) for number, line in enumerate(lines, 1)}
    return {number: mark[1] for number, mark in marks.items() if mark}


def diagnosed(folder: Path) -> list[dict[str, Any]]:
    """Checks a folder outside of the project, like a user's: with the installed package, its stubs and `py.typed`."""
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return json.loads(done.stdout)["generalDiagnostics"]


def test_wrong_uses_are_errors_and_right_ones_are_none(tmp_path: Path) -> None:
    shutil.copy(USES, tmp_path)
    found = diagnosed(tmp_path)
    said = {one["range"]["start"]["line"] + 1: (one.get("rule"), one["message"]) for one in found}
    assert len(said) == len(found), found
    assert {line: rule for line, (rule, _) in said.items()} == expected(), said


@pytest.mark.nightly
def test_nothing_is_unknown_in_users_programs(tmp_path: Path) -> None:
    for program in PROGRAMS:
        shutil.copy(program, tmp_path)
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}', encoding="utf-8")
    found = [
        f"{Path(one['file']).name}:{one['range']['start']['line'] + 1}: {one['message']}" for one in diagnosed(tmp_path)
    ]
    assert len(PROGRAMS) >= 20 and not found, "\n".join(found)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_users_programs_run(program: Path, tmp_path: Path, python: str) -> None:
    command = [python, "-W", "error", str(program)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
