"""Upper bounds on a step's cost for each workload: on the software adapter, and on any WebGPU device."""

from __future__ import annotations

import pytest

from benchmarks.counts import count
from benchmarks.workloads import NAMES, gpt

MOST_DISPATCHES = {
    ("mlp", "lavapipe"): 8,
    ("sine", "lavapipe"): 5,
    ("convnet", "lavapipe"): 15,
    ("addition", "lavapipe"): 71,
    ("gpt", "lavapipe"): 81,
    ("mlp", "webgpu-default"): 7,
    ("sine", "webgpu-default"): 5,
    ("convnet", "webgpu-default"): 16,
}

MOST_BYTES = {"mlp": 4_500_000, "sine": 320_000, "convnet": 11_200_000, "addition": 14_500_000, "gpt": 48_900_000}


@pytest.mark.in_turns(6, 2)
@pytest.mark.parametrize(("name", "target"), MOST_DISPATCHES)
def test_a_step_costs_little(name: str, target: str) -> None:
    counts = count(name, target)
    assert counts.dispatches <= MOST_DISPATCHES[name, target], counts
    assert counts.copies == 0, counts
    assert counts.peak_bytes <= MOST_BYTES[name], counts
    assert counts.peak_bytes <= 1.1 * counts.least_bytes, counts


def test_every_workload_has_bounds() -> None:
    assert {name for name, _ in MOST_DISPATCHES} == set(MOST_BYTES) == set(NAMES)


@pytest.mark.nightly
def test_layers_share_their_kernels() -> None:
    """A deeper model has the shaders of a shallower one: only the tables of buffer locations differ."""
    texts: list[set[str]] = []
    for layers in (4, 6):
        training, _ = gpt.build("numpy", layers)
        program = training.program_for("lavapipe")
        assert any(buffer.name == "starts" for buffer in program.buffers)
        texts.append({kernel.code.replace(kernel.entry, "kernel") for kernel in program.kernels})
        assert len(texts[-1]) == len(program.kernels)
    assert len(texts[1]) <= len(texts[0]) + 2
    assert sum(map(len, texts[1])) <= 1.1 * sum(map(len, texts[0]))
