"""What a step of each workload costs at most: on the software adapter, and on what every WebGPU device has."""

from __future__ import annotations

import pytest

from benchmarks.counts import count
from benchmarks.workloads import NAMES

MOST_DISPATCHES = {
    ("mlp", "lavapipe"): 7,
    ("sine", "lavapipe"): 5,
    ("convnet", "lavapipe"): 15,
    ("addition", "lavapipe"): 71,
    ("gpt", "lavapipe"): 78,
    ("mlp", "webgpu-default"): 7,
    ("sine", "webgpu-default"): 5,
    ("convnet", "webgpu-default"): 16,
}

MOST_BYTES = {"mlp": 4_500_000, "sine": 320_000, "convnet": 11_200_000, "addition": 14_500_000, "gpt": 48_900_000}


@pytest.mark.parametrize(("name", "target"), MOST_DISPATCHES)
def test_a_step_costs_little(name: str, target: str) -> None:
    found = count(name, target)
    assert found.dispatches <= MOST_DISPATCHES[name, target], found
    assert found.copies == 0, found
    assert found.peak_bytes <= MOST_BYTES[name], found
    assert found.peak_bytes <= 1.1 * found.least_bytes, found


def test_every_workload_has_bounds() -> None:
    assert {name for name, _ in MOST_DISPATCHES} == set(MOST_BYTES) == set(NAMES)
