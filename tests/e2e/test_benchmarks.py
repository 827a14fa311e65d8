"""The benchmarks run, and contestants compute the same."""

from __future__ import annotations

import json
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from benchmarks import attention, blame, kernels
from benchmarks.__main__ import main
from benchmarks.cold import cold
from benchmarks.driver import commands, encoding, pipelines
from benchmarks.peers import hand_fused, numpy_peer, torch_peer
from benchmarks.scaling import Size, cost
from benchmarks.workloads import NAMES, gpt, workload
from tensorgrad.runtime.webgpu import WebGPUDevice

OPTIONAL = [import_module("benchmarks.peers.jax_peer")] if find_spec("jax") else []
"""Peers that are compared where someone has installed them."""


@pytest.mark.parametrize("name", NAMES)
def test_peers_have_the_same_losses(name: str) -> None:
    training, batch = workload(name)("numpy")
    weights = training.parameters()
    made = [peer.contestant(name, weights, batch) for peer in (torch_peer, numpy_peer, hand_fused, *OPTIONAL)]
    others = [one for one in made if one is not None]
    assert len(others) == (3 if name == "mlp" else 1) + len(OPTIONAL)
    expected = [float(training.step(**batch)) for _ in range(3)]
    for other in others:
        np.testing.assert_allclose([other.step() for _ in range(3)], expected, rtol=2e-4, err_msg=other.name)


def test_the_planted_line_is_blamed() -> None:
    """In the derivative of one of 24 layers, which is nothing that the sound step has."""
    training = blame.compiled("numpy", width=16)
    batch = gpt.batch()
    blame.checked(training.blame(**batch, scale=np.float32(0)))
    assert training.blame(**batch, scale=np.float32(1e-6)) is None


@pytest.mark.parametrize(
    "name",
    [
        "softmax gradient",
        "layer norm",
        "matmul 509x517x523",
        "masked matmul 2048x16x1024",
        "embedding gradient",
    ],
)
def test_kernels_compute_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "ROWS", 8)
    found = kernels.contestants(name, "numpy", peers=False)
    other = kernels.torch_cpu(kernels.KERNELS[name], kernels.KERNELS[name].arrays())
    assert other is not None
    assert found[0].step() == pytest.approx(other.step(), rel=1e-4, abs=1e-6)


def test_the_command_writes_figures_and_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.peers.PEERS", ("torch_peer",))
    main(["sine", "--rounds", "1", "--seconds", "0.1", "--out", str(tmp_path)])
    data = json.loads((tmp_path / "sine.json").read_text(encoding="utf-8"))
    ours = [f"tensorgrad {device}" for device in ("wgpu", "cpu", "numpy")]
    assert [one["name"] for one in data["timings"]] == [*ours, "torch eager (CPU)"]
    assert data["machine"]["versions"]["xdsl"]
    assert (tmp_path / "sine.png").stat().st_size > 1000


def test_costs_of_a_size() -> None:
    found = cost(Size(layers=1, width=16, batch=2, length=8), "wgpu")
    assert found.dispatches > 0 and found.peak_bytes > 0


def test_both_forms_of_attention_compute_the_same() -> None:
    """In tiles it takes less memory, and the estimate is what the compiler goes by."""
    shape = attention.Shape(groups=2, length=96, features=16, causal=True)
    (tiled, first), (composed, second) = attention.forms(shape)
    assert first.step() == pytest.approx(second.step(), rel=1e-4)
    assert tiled.stats()["peak_bytes"] < composed.stats()["peak_bytes"]
    found = attention.compare(shape, rounds=1, seconds=0.1)
    assert (found.chosen == "tiles") == (found.estimated > 1)


def test_a_cold_start_is_measured() -> None:
    found = cold("sine")
    assert found.process > found.imports + found.without_imports > 0 and found.cpu > 0


def test_a_cold_start_finds_nothing_that_was_compiled_elsewhere(tmp_path: Path) -> None:
    """Neither programs nor native code: what it compiles lies in its own folder, where the next start finds it."""
    cold("sine", "cpu", tmp_path)
    made = sorted(tmp_path.rglob("*.*"))
    assert {path.parent.name for path in made} == {"objects", "programs"}
    cold("sine", "cpu", tmp_path)
    assert sorted(tmp_path.rglob("*.*")) == made


def test_a_step_is_encoded_by_methods_and_by_the_library() -> None:
    device = WebGPUDevice()
    training, _ = workload("sine")("wgpu")
    ready = commands(training.program, device)
    assert len(ready) == training.stats()["dispatches"]
    found = encoding(device, ready)
    assert len(found) == 4
    assert all(one > 0 for one in found.values())
    assert pipelines(training.program, device, 2, "") > 0


def test_wrong_arguments() -> None:
    with pytest.raises(SystemExit):
        main(["mlp", "--rounds", "0"])
