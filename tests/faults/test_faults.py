"""Faults everywhere: what they leave is whole, their message is clear, and what follows is right."""

from __future__ import annotations

from pathlib import Path

import pytest
from operations import OPERATIONS
from sweeps import KINDS, sweep

CASES = [
    (device, name, kind)
    for kind, each in KINDS.items()
    for name in each.operations
    for device in each.devices
    if device in OPERATIONS[name].devices and not (name == "compile" and device == "numpy" and each.names_file)
]
"""Without those that have no points: numpy keeps nothing on disk."""


@pytest.mark.in_turns(3)
@pytest.mark.parametrize(("device", "name", "kind"), CASES)
def test_some_faults(device: str, name: str, kind: str, tmp_path: Path) -> None:
    """Evenly over the operation."""
    assert sweep(device, name, KINDS[kind], tmp_path, OPERATIONS[name].sample) > 0


@pytest.mark.nightly
@pytest.mark.parametrize(("device", "name", "kind"), CASES)
def test_all_faults(device: str, name: str, kind: str, tmp_path: Path) -> None:
    assert sweep(device, name, KINDS[kind], tmp_path) > 0
