"""The checker of commit messages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tensorgrad.tools.check_commits import problems

TOOL = Path(__file__).resolve().parents[2] / "tools" / "check_commits.py"
BODY = "\n\nIt was slow."


@pytest.mark.parametrize(
    "message",
    [
        "Lower gather to a load at a computed index" + BODY,
        "Pass targets as objects" + BODY,
        "Process rows in blocks" + BODY,
        "Merge branch 'rooms'",
        'Revert "Lower gather"',
    ],
)
def test_good_messages(message: str) -> None:
    assert problems(message) == []


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("Lower gather", "no body"),
        ("Lower gather\nIt was slow.", "no blank line"),
        ("Lower gather\n\nCo-authored-by: A <a@b>", "no body"),
        ("Lowered gather" + BODY, "not in the imperative: it starts with 'Lowered'"),
        ("Lowers gather" + BODY, "not in the imperative"),
        ("Lowering of gather" + BODY, "not in the imperative"),
        ("lower gather" + BODY, "capital letter"),
        ("Lower gather." + BODY, "period"),
        ("L" + 72 * "o" + BODY, "73 characters"),
    ],
)
def test_bad_messages(message: str, problem: str) -> None:
    found = problems(message)
    assert len(found) == 1 and problem in found[0]


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, TOOL, *arguments], cwd=folder, capture_output=True, text=True, check=False)


def test_the_tool_reads_a_range(tmp_path: Path) -> None:
    assert run(tmp_path).returncode == 0 and run(tmp_path, "HEAD").returncode == 1
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@b.c"]
    subprocess.run([*git, "init", "-q"], cwd=tmp_path, check=True)
    for message in ("Added a file", "Add a file" + BODY):
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", message], cwd=tmp_path, check=True)
    last, both = run(tmp_path), run(tmp_path, "HEAD")
    assert last.returncode == 0 and not last.stdout
    assert both.returncode == 1 and "Added a file: there is no body" in both.stdout
    subprocess.run([*git, "update-ref", "refs/remotes/origin/main", "HEAD"], cwd=tmp_path, check=True)
    assert run(tmp_path).returncode == 0
