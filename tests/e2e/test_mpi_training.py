"""Training over a real MPI: reproducible bits, and runs that are killed repeatedly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import parallel_models
import pytest
from parallel_models import MODELS
from processes import LIMIT, launched

LOSSES = Path(__file__).with_name("losses_run.py")
FITTED = Path(__file__).with_name("fitted_run.py")
SCRIPT = Path(__file__).with_name("trained_run.py")
PROCESSES, STEPS = 2, 40


def end_of(folder: Path) -> dict[str, np.ndarray]:
    """Returns the state at the end of a run."""
    with np.load(folder / "end.npz") as saved:
        return dict(saved)


def check_bits(folder: Path, other: Path) -> None:
    first, second = end_of(folder), end_of(other)
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name], name)


def run(folder: Path, moments: list[str], processes: int = PROCESSES, **variables: str) -> str:
    """Runs the training, which is restarted once per moment; returns the output of `tg launch`."""
    folder.mkdir()
    listed = folder / "moments"
    listed.write_text("\n".join(moments))
    limit = LIMIT * (1 + len(moments))
    done = launched("-n", processes, "--restarts", len(moments), SCRIPT, folder, listed, limit=limit, **variables)
    assert done.returncode == 0, done.stderr
    return done.stderr


def killed_at(count: int) -> list[str]:
    """Returns random moments: a rank, a step, and the number of seconds after that step's start."""
    rng = np.random.default_rng(count)
    steps = np.sort(rng.integers(1, STEPS - 1, count))
    return [f"{rng.integers(PROCESSES)} {step} {rng.uniform(0, 0.005):.4f}" for step in steps]


@pytest.mark.nightly
def test_the_same_run_has_the_same_bits(tmp_path: Path) -> None:
    """Also if MPI supports only one thread, so that nothing is computed during collectives."""
    assert run(tmp_path / "first", []) == ""
    said = run(tmp_path / "second", [], MPI4PY_RC_THREAD_LEVEL="single")
    assert said == "[0] MPI serves one thread of a process alone: nothing is computed while values are exchanged\n"
    check_bits(tmp_path / "first", tmp_path / "second")


@pytest.mark.nightly
@pytest.mark.parametrize("name", MODELS)
def test_losses_of_several_processes(tmp_path: Path, name: str) -> None:
    """50 steps of 1, 2 and 4 processes with the same batches; equal numbers of processes give equal bits."""

    def losses(processes: int, run: str) -> dict[str, np.ndarray]:
        file = tmp_path / f"{run}.npz"
        models = str(Path(parallel_models.__file__).parent)
        done = launched("-n", processes, LOSSES, name, file, limit=4 * LIMIT, PYTHONPATH=models)
        assert done.returncode == 0, done.stderr
        with np.load(file) as saved:
            return dict(saved)

    alone = losses(1, "one")
    assert len(alone["losses"]) == 50
    for processes in (2, 4):
        first, second = (losses(processes, f"{processes}{run}") for run in "ab")
        np.testing.assert_allclose(first["losses"], alone["losses"], rtol=1e-6)
        for path, value in first.items():
            np.testing.assert_array_equal(value, second[path])


def fitted(folder: Path, *options: object, killed: object = "") -> str:
    """Runs `tg.fit`, kills it after a step, and restarts it with other options; returns the output."""
    folder.mkdir()
    done = launched(*options, FITTED, folder, *([killed] if killed else []), limit=2 * LIMIT)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.nightly
@pytest.mark.parametrize(("before", "after"), [(2, 1), (2, 4), (4, 2), (1, 2)])
def test_a_killed_fit_goes_on_with_other_processes_at_its_sample(tmp_path: Path, before: int, after: int) -> None:
    """After step 8 the last checkpoint is that of step 6; the following losses equal those of an uninterrupted run."""
    fitted(tmp_path / "whole", "-n", 1)
    options = ("-n", before, "--restarts", 1, "--restart-with", after)
    said = fitted(tmp_path / "killed", *options, killed=8)
    assert said == f"[0] {after} processes ran the steps 7 to 20\n"
    whole, killed = end_of(tmp_path / "whole"), end_of(tmp_path / "killed")
    for name, value in whole.items():
        np.testing.assert_allclose(killed[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(killed["losses"], whole["losses"], rtol=1e-6)


@pytest.mark.nightly
@pytest.mark.parametrize("count", [3, 10])
def test_a_killed_run_ends_with_the_bits_of_another(tmp_path: Path, count: int) -> None:
    run(tmp_path / "whole", [])
    said = run(tmp_path / "killed", killed_at(count))
    assert said.count("restart ") == count
    check_bits(tmp_path / "whole", tmp_path / "killed")
