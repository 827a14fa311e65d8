"""A training run killed by `kill -9` at random moments and resumed ends like an uninterrupted one."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("killed_run.py")


def started(folder: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", str(SCRIPT), str(folder), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(python: str, folder: Path, *options: str) -> None:
    command = [python, "-W", "error", str(SCRIPT), str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def killed(folder: Path, step: int, wait: float, *options: str) -> None:
    """Kills a run a given number of seconds after it has reported a finished step."""
    with started(folder, *options) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) >= step:
                break
        time.sleep(wait)
        process.kill()
        _, errors = process.communicate()
    assert process.returncode == -signal.SIGKILL, errors


def files(folder: Path) -> dict[str, bytes]:
    paths = [folder / "final.safetensors", folder / "log.csv", *sorted((folder / "checkpoints").iterdir())]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def check(python: str, tmp_path: Path, device: str, steps: int, kills: int, accumulate: int = 1) -> None:
    options = ("--device", device, "--steps", str(steps), "--accumulate", str(accumulate))
    finished(python, tmp_path / "whole", *options)
    generator = random.Random(kills)
    for number in range(1, kills + 1):
        # Anywhere up to here, so that runs go on from each other; far enough from the end to be alive.
        step = generator.randrange(1, 1 + steps * 3 // 4 * number // kills)
        killed(tmp_path / "parts", step, generator.uniform(0, 0.02), *options)
    finished(python, tmp_path / "parts", *options)
    expected, actual = files(tmp_path / "whole"), files(tmp_path / "parts")
    assert actual.keys() == expected.keys()
    assert [name for name in actual if actual[name] != expected[name]] == []


@pytest.mark.nightly
def test_ten_kills(python, tmp_path):
    check(python, tmp_path, "numpy", steps=400, kills=10)


@pytest.mark.nightly
@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
def test_many_kills(device, python, tmp_path):
    check(python, tmp_path, device, steps=4000, kills=30)


@pytest.mark.nightly
def test_a_kill_while_gradients_are_added_up(python, tmp_path):
    check(python, tmp_path, "numpy", steps=40, kills=1, accumulate=5)


@pytest.mark.nightly
def test_kills_while_gradients_are_added_up(python, tmp_path):
    check(python, tmp_path, "numpy", steps=100, kills=3, accumulate=5)


@pytest.mark.nightly
def test_a_kill_on_the_device(python, tmp_path):
    check(python, tmp_path, "wgpu", steps=120, kills=2)
