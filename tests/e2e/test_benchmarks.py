"""The benchmarks run, and all contestants compute the same losses."""

from __future__ import annotations

import json
import math
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from benchmarks import attention, blame, edits, extents, kernel_texts, kernels, quantized
from benchmarks.__main__ import main
from benchmarks.cold import cold, peer_cold, save_state
from benchmarks.driver import commands, encoding, pipelines
from benchmarks.harness import difference
from benchmarks.peers import hand_fused, numpy_peer, torch_peer
from benchmarks.scaling import Size, cost
from benchmarks.workloads import NAMES, gpt, smollm2, workload
from tensorgrad.runtime.webgpu import WebGPUDevice

OPTIONAL = [import_module("benchmarks.peers.jax_peer")] if find_spec("jax") else []
"""Peers that are compared where someone has installed them."""


@pytest.mark.in_turns(6)
@pytest.mark.parametrize("name", NAMES)
def test_peers_have_the_same_losses(name: str) -> None:
    training, batch = workload(name)("numpy")
    weights = training.parameters()
    contestants = [peer.contestant(name, weights, batch) for peer in (torch_peer, numpy_peer, hand_fused, *OPTIONAL)]
    others = [contestant for contestant in contestants if contestant is not None]
    assert len(others) == (3 if name == "mlp" else 1) + len(OPTIONAL)
    expected = [float(training.step(**batch)) for _ in range(3)]
    for other in others:
        np.testing.assert_allclose([other.step() for _ in range(3)], expected, rtol=2e-4, err_msg=other.name)


@pytest.mark.nightly
def test_a_small_smollm2_has_the_losses_of_pytorch() -> None:
    """Two layers of the full width, with a part of the vocabulary."""
    training, batch = smollm2.build("cpu", layers=2, vocabulary=512)
    other = torch_peer.contestant("smollm2", training.parameters(), batch)
    expected = [float(training.step(**batch)) for _ in range(4)]
    assert expected[-1] < expected[0] - 1
    np.testing.assert_allclose([other.step() for _ in range(4)], expected, rtol=2e-4)


def test_smollm2_has_135_million_parameters() -> None:
    parameters = smollm2.SmolLM2(smollm2.VOCABULARY, smollm2.LAYERS).parameters()
    assert sum(math.prod(parameter.shape) for parameter in parameters) == 134_515_008


@pytest.mark.nightly
def test_adapters_over_weights_of_few_bits_train_as_over_floats() -> None:
    contestants = {name: quantized.contestant(name, "cpu", layers=1, vocabulary=256) for name in quantized.FORMATS}
    losses = {name: [contestant.step() for _ in range(4)] for name, contestant in contestants.items()}
    assert losses["f32"][-1] < losses["f32"][0]
    for name, values in losses.items():
        np.testing.assert_allclose(values, losses["f32"], rtol=5e-2 if name.startswith("nf4") else 1e-2)
    for products in ("", ", bf16 products"):
        names = [f"{bits}{products}" for bits in ("f32", "int8", "nf4")]
        peaks = [contestants[name].counts["peak_bytes"] for name in names]
        assert peaks == sorted(peaks, reverse=True)


@pytest.mark.nightly
def test_the_planted_line_is_blamed() -> None:
    """The NaN is in the derivative of one of 24 layers; the step on sound inputs has none."""
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
    ours, other = kernels.contestants(name, "numpy")
    assert other.name == "torch eager (CPU)"
    assert ours.step() == pytest.approx(other.step(), rel=1e-4, abs=1e-6)


@pytest.mark.nightly
def test_the_command_writes_figures_and_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.peers.PEERS", ("torch_peer",))
    main(["sine", "--rounds", "1", "--seconds", "0.1", "--out", str(tmp_path)])
    data = json.loads((tmp_path / "sine.json").read_text(encoding="utf-8"))
    ours = [f"tensorgrad {device}" for device in ("wgpu", "cpu", "numpy")]
    assert [timing["name"] for timing in data["timings"]] == [*ours, "torch eager (CPU)"]
    assert data["machine"]["versions"]["xdsl"]
    assert (tmp_path / "sine.png").stat().st_size > 1000


@pytest.mark.nightly
def test_first_steps_of_a_large_workload_are_measured_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours and PyTorch's, each in a separate process on the CPU; a small workload replaces the large one."""
    monkeypatch.setattr("benchmarks.__main__.LARGE", ("sine",))
    main(["sine", "--rounds", "1", "--seconds", "0.1", "--out", str(tmp_path)])
    timings = json.loads((tmp_path / "sine.json").read_text(encoding="utf-8"))["timings"]
    assert [timing["name"] for timing in timings] == ["tensorgrad cpu", "torch eager (CPU)"]
    cold_starts = json.loads((tmp_path / "sine cold.json").read_text(encoding="utf-8"))
    assert all(len(cold_starts[part]["sine"]) == 1 for part in ("runs", "second", "torch"))


def test_the_difference_of_losses_is_the_greatest_relative_one() -> None:
    assert difference([1.0, 2.2, 4.0], [1.0, 2.0, 4.4]) == pytest.approx(0.1)


@pytest.mark.nightly
def test_costs_of_a_size() -> None:
    costs = cost(Size(layers=1, width=16, batch=2, length=8), "wgpu")
    assert costs.dispatches > 0 and costs.peak_bytes > 0


@pytest.mark.nightly
def test_both_forms_of_attention_compute_the_same() -> None:
    """Tiles take less memory, and the compiler follows the estimate."""
    shape = attention.Shape(groups=2, length=96, features=16, causal=True)
    (tiled, first), (composed, second) = attention.forms(shape)
    assert first.step() == pytest.approx(second.step(), rel=1e-4)
    assert tiled.stats()["peak_bytes"] < composed.stats()["peak_bytes"]
    compared = attention.compare(shape, rounds=1, seconds=0.1)
    assert (compared.chosen == "tiles") == (compared.estimated > 1)


@pytest.mark.nightly
def test_loops_end_at_masks() -> None:
    for n, runs in extents.contestants((1, 100, extents.MOST)):
        results = [run() for run in runs]
        for bounded in results[:2]:
            np.testing.assert_allclose(bounded, results[2], rtol=1e-5, atol=1e-5, err_msg=str(n))


@pytest.mark.nightly
def test_a_cold_start_is_measured() -> None:
    start = cold("sine")
    assert start.process > start.imports + start.without_imports > 0 and start.cpu > 0


@pytest.mark.nightly
def test_an_edit_is_measured(tmp_path: Path) -> None:
    """Each edit changes the program; one that moves lines finds the program that was compiled before it."""
    changed = {name: edits.PROGRAM.replace(*edit) for name, edit in edits.EDITS.items() if edit[0]}
    assert len({edits.PROGRAM, *changed.values()}) == 1 + len(changed) == len(edits.EDITS)
    for program in (edits.PROGRAM, changed["a comment at the top"]):
        assert edits.seconds(program, "cpu", tmp_path) > 0
        assert len(list((tmp_path / "cache" / "programs").iterdir())) == 1


@pytest.mark.nightly
def test_a_cold_start_of_a_peer_is_measured(tmp_path: Path) -> None:
    """The peak memory is at least that of importing the peer."""
    save_state("sine", "numpy", tmp_path)
    start = peer_cold("sine", "torch", tmp_path)
    assert start.process > start.imports + start.without_imports > 0
    assert start.peak > 50


@pytest.mark.nightly
def test_a_cold_start_finds_nothing_that_was_compiled_elsewhere(tmp_path: Path) -> None:
    """Programs and native code are cached in its own folder, where only the next start finds them."""
    cold("sine", "cpu", tmp_path)
    files = sorted(tmp_path.rglob("*.*"))
    assert {path.parent.name for path in files} == {"kernels", "objects", "programs"}
    cold("sine", "cpu", tmp_path)
    assert sorted(tmp_path.rglob("*.*")) == files


@pytest.mark.nightly
def test_texts_of_kernels_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert kernel_texts.main(["sine", "--write", str(tmp_path)]) == 0
    texts = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert sorted(texts) == ["sine cpu.txt", "sine lavapipe.txt", "sine webgpu-default.txt"]
    assert not [name for name, text in texts.items() if "sine.py" in text or "==== dispatches" not in text]
    first = next(line for line in texts["sine cpu.txt"].splitlines() if "define" in line)
    (tmp_path / "sine cpu.txt").write_text(texts["sine cpu.txt"].replace(first, "other", 1), encoding="utf-8")
    assert list(kernel_texts.differences(texts, tmp_path)) == ["sine cpu.txt"]
    capsys.readouterr()
    assert kernel_texts.main(["sine", "--compare", str(tmp_path)]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if line.endswith("differs")] and f"+{first}" in printed


@pytest.mark.nightly
def test_a_step_is_encoded_by_methods_and_by_the_library() -> None:
    device = WebGPUDevice()
    training, _ = workload("sine")("wgpu")
    ready = commands(training.program, device)
    assert len(ready) == training.stats()["dispatches"]
    seconds = encoding(device, ready)
    assert len(seconds) == 4
    assert all(duration > 0 for duration in seconds.values())
    assert pipelines(training.program, device, 2, "") > 0


def test_wrong_arguments() -> None:
    with pytest.raises(SystemExit):
        main(["mlp", "--rounds", "0"])
