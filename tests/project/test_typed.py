"""Type checking of programs that use tensorgrad: correct uses have types, incorrect ones are errors."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

USES = Path(__file__).parents[1] / "types" / "uses.py"


def expected() -> dict[int, str]:
    """Returns the rule that each line marked `# error: rule` violates."""
    lines = USES.read_text(encoding="utf-8").splitlines()
    marks = {number: re.search(r"# error: (\w+)$", line) for number, line in enumerate(lines, 1)}
    return {number: mark[1] for number, mark in marks.items() if mark}


def test_wrong_uses_are_errors_and_right_ones_are_none(tmp_path: Path) -> None:
    """Checked from an empty folder, like a user's project: with the installed package, its stubs and `py.typed`."""
    program = tmp_path / USES.name
    program.write_text(USES.read_text(encoding="utf-8"), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", program.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    said = {one["range"]["start"]["line"] + 1: (one.get("rule"), one["message"]) for one in found}
    assert len(said) == len(found), found
    assert {line: rule for line, (rule, _) in said.items()} == expected(), said
