"""What GitHub runs: the files are valid, and what they call exists. Nothing here runs them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from layers import ROOT
from ruamel.yaml import YAML

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def read(path: Path) -> dict[str, Any]:
    return YAML(typ="safe").load(path)


JOBS: dict[str, dict[str, Any]] = {name: job for path in WORKFLOWS for name, job in read(path)["jobs"].items()}


def commands(job: dict[str, Any]) -> list[str]:
    """Returns the lines that a job runs, once for each value of `$TARGET`."""
    targets = job.get("strategy", {}).get("matrix", {}).get("target", [""])
    lines = [line for step in job["steps"] for line in step.get("run", "").splitlines()]
    return [line.replace('"$TARGET"', target) for line in lines for target in targets]


@pytest.mark.parametrize("schema", ["vendor.github-workflows", "custom.github-workflows-require-timeout"])
def test_workflows_are_valid(schema: str) -> None:
    assert WORKFLOWS
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, WORKFLOWS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", JOBS)
def test_they_call_what_exists(name: str) -> None:
    lines = commands(JOBS[name])
    assert {line.removeprefix("make ") for line in lines if line.startswith("make ")} <= TARGETS
    paths = re.findall(r"\b(?:tests|docs|examples|tools)/[\w/.-]+", "\n".join(lines))
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert "make" not in " ".join(lines) or "windows" not in JOBS[name]["runs-on"]


def test_they_may_only_read() -> None:
    for path in WORKFLOWS:
        assert read(path)["permissions"] == {"contents": "read"}
    for name, job in JOBS.items():
        checkouts = [step for step in job["steps"] if "checkout" in step.get("uses", "")]
        assert all(step["with"]["persist-credentials"] is False for step in checkouts), name


def test_the_table_of_contributors_has_every_job() -> None:
    rows = set(re.findall(r"^\| `(\w+)` \|", CONTRIBUTING, re.MULTILINE))
    assert JOBS.keys() <= rows


def test_the_changelog_has_the_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    released = [re.fullmatch(r"\[(\d+)\.(\d+)\.(\d+)\] - \d{4}-\d\d-\d\d", heading) for heading in headings[1:]]
    assert None not in released
    versions = [tuple(map(int, one.groups())) for one in released if one is not None]
    assert versions == sorted(set(versions), reverse=True)
    current = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert current is not None and ".".join(map(str, versions[0])) == current[1]
