"""Faults everywhere: what they leave is whole, their message is clear, and what follows is right."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from sweeps import KINDS, OPERATIONS, sweep

ON_FILES = ("no space", "I/O error", "short write", "empty write", "SIGINT at a file")
NO_MEMORY = ("numpy", "compile", "no memory")

CASES = [
    (device, name, kind)
    for kind, each in KINDS.items()
    for name in each.operations
    for device in each.devices
    if device in OPERATIONS[name].devices and not (name == "compile" and device == "numpy" and kind in ON_FILES)
]
"""Without those that have no points: numpy keeps nothing on disk."""

QUICK = [case for case in CASES if case[1] != "compile" or case == NO_MEMORY]
"""With one compilation, the quickest."""


@pytest.mark.in_turns(24)
@pytest.mark.parametrize(("device", "name", "kind"), QUICK)
def test_some_faults(device: str, name: str, kind: str, tmp_path: Path) -> None:
    """Evenly over the operation."""
    assert sweep(device, name, KINDS[kind], tmp_path, OPERATIONS[name].sample) > 0


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("device", "name", "kind"), CASES)
def test_all_faults(device: str, name: str, kind: str, tmp_path: Path) -> None:
    assert sweep(device, name, KINDS[kind], tmp_path, OPERATIONS[name].most) > 0


KILLS = ("SIGKILL at a file", "SIGTERM at a file", "SIGKILL at a run", "killed within a write")


def check_kills(python: str, device: str, names: str, most: int) -> None:
    command = [python, "-W", "error", str(Path(__file__).with_name("killed.py")), device, names, str(most)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    survived = dict(line.split(": ") for line in done.stdout.splitlines())
    assert survived.keys() == set(KILLS) and all(int(count) > 0 for count in survived.values()), survived


@pytest.mark.nightly
def test_some_kills(python: str) -> None:
    check_kills(python, "numpy", "save_checkpoint,fit", 4)


@pytest.mark.nightly
@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_all_kills(device: str, python: str) -> None:
    names = [name for name, operation in OPERATIONS.items() if device in operation.devices and name != "evaluate"]
    check_kills(python, device, ",".join(names), 0)
