"""Groups of processes that `tg launch` starts over a real MPI: bit-identical results, and dying processes."""

from __future__ import annotations

import json
import os
import re
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import LIMIT, launched

from tensorgrad.runtime.group.simulated import simulate

SCRIPT = Path(__file__).with_name("group_run.py")


def last_report(errors: str) -> str:
    """Returns what was printed after the last line of a process."""
    return errors[errors.rindex("tg launch: ") :]


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_processes_have_the_bits_of_a_simulated_group(size: int) -> None:
    done = launched("-n", size, SCRIPT, "agreed")
    assert done.returncode == 0, done.stderr
    expected = simulate(size, runpy.run_path(str(SCRIPT))["operations"], timeout=LIMIT)[0]
    assert done.stdout.splitlines() == [f"[0] {line}" for line in expected]


@pytest.mark.nightly
def test_lines_have_the_rank_in_front() -> None:
    done = launched("-n", 2, SCRIPT, "settings", "--an", "argument")
    assert done.returncode == 0, done.stderr
    assert [re.match(r"\[(\d)\] TG_NUM_THREADS", line) is not None for line in done.stdout.splitlines()] == [True] * 2
    assert sorted(line[:3] for line in done.stdout.splitlines()) == ["[0]", "[1]"]
    assert all(line.endswith("['--an', 'argument']") for line in done.stdout.splitlines())
    assert sorted(done.stderr.splitlines()) == ["[0] a line of 0", "[1] a line of 1"]


@pytest.mark.nightly
def test_options_reach_the_processes() -> None:
    options = ("--cores-per-process", 3, "--timeout", 45, "--json")
    done = launched("-n", 2, *options, SCRIPT, "settings", OPENBLAS_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    text = "TG_NUM_THREADS=3 OPENBLAS_NUM_THREADS=1 TG_GROUP_TIMEOUT=45 []"
    for rank in (0, 1):
        assert {"rank": rank, "stream": "stdout", "text": text} in lines
        assert {"rank": rank, "stream": "stderr", "text": f"a line of {rank}"} in lines
    assert len(lines) == 4


@pytest.mark.nightly
def test_cores_are_shared_out() -> None:
    done = launched("-n", 3, SCRIPT, "settings", TG_NUM_THREADS="", OPENBLAS_NUM_THREADS="")
    share = max(1, len(os.sched_getaffinity(0)) // 3)
    assert done.returncode == 0, done.stderr
    threads_of_processes = re.findall(r"TG_NUM_THREADS=(\d+) OPENBLAS_NUM_THREADS=\1 ", done.stdout)
    assert len(threads_of_processes) == 3 and all(1 <= int(threads) <= share for threads in threads_of_processes)


@pytest.mark.nightly
def test_a_rank_that_raises_ends_all() -> None:
    done = launched("-n", 3, SCRIPT, "raising")
    assert done.returncode == 1
    report = last_report(done.stderr)
    assert report.startswith("tg launch: rank 1 ended by ValueError\nTraceback (most recent call last):\n")
    assert report.endswith("\nValueError: a mistake of rank 1\n")
    assert report.count("File ") == 2 and str(SCRIPT) in report, "the frames of the script alone"
    assert "[1] ValueError: a mistake of rank 1\n" in done.stderr and "MPI_ABORT" not in done.stderr


@pytest.mark.nightly
@pytest.mark.parametrize(("way", "number"), [("killed", signal.SIGKILL), ("crashing", signal.SIGSEGV)])
def test_a_rank_that_is_killed_is_noticed(way: str, number: signal.Signals) -> None:
    done = launched("-n", 3, SCRIPT, way)
    assert done.returncode == 128 + number
    assert last_report(done.stderr) == f"tg launch: rank 1 was killed by {number.name}\n"


@pytest.mark.nightly
def test_arrays_of_other_sizes_are_found_before_they_are_sent() -> None:
    done = launched("-n", 2, SCRIPT, "differing")
    assert done.returncode == 1
    calls = ["all_reduce of 1,000 f32", "all_reduce of 2,000 f32"]
    report = last_report(done.stderr)
    ends = [
        f"GroupError: rank {rank} of 2 is in {calls[rank]}, but rank {1 - rank} in {calls[1 - rank]}\n"
        for rank in (0, 1)
    ]
    assert report.endswith(tuple(ends))


@pytest.mark.nightly
def test_a_rank_that_hangs_is_not_waited_for() -> None:
    done = launched("-n", 3, SCRIPT, "hanging", TG_GROUP_TIMEOUT="10")
    assert done.returncode == 1
    waited = r"GroupError: rank [02] of 3 waited 10[\d.]* s in all_reduce of 100,000 f32 \(gradient of w1\): another"
    report = last_report(done.stderr)
    assert re.match(r"tg launch: rank [02] ended by GroupError\n", report) and re.search(waited, report)


@pytest.mark.nightly
def test_a_rank_that_leaves_is_not_waited_for() -> None:
    done = launched("-n", 2, SCRIPT, "leaving")
    assert done.returncode == 1
    waited = r"GroupError: rank 0 of 2 waited [\d.]+ s in barrier \(the end of an epoch\): another rank did not join"
    assert re.search(waited, last_report(done.stderr))


@pytest.mark.nightly
def test_a_rank_that_raises_before_it_has_a_group_ends_all() -> None:
    done = launched("-n", 2, SCRIPT, "raises_before")
    assert done.returncode == 1
    assert last_report(done.stderr).endswith("\nValueError: a mistake before the group\n")


@pytest.mark.nightly
def test_a_rank_that_never_has_a_group_is_not_waited_for() -> None:
    done = launched("-n", 2, SCRIPT, "never", TG_GROUP_TIMEOUT="4")
    assert done.returncode == 1
    assert "[0] Timeout (0:00:04)!\n" in done.stderr and "in current_group\n" in done.stderr


@pytest.mark.nightly
def test_the_status_of_an_exit_is_that_of_the_run() -> None:
    done = launched("-n", 3, SCRIPT, "exiting")
    assert (done.returncode, last_report(done.stderr)) == (7, "tg launch: rank 1 ended by SystemExit\n")


@pytest.mark.nightly
def test_a_failed_call_that_is_caught_ends_all_at_the_end() -> None:
    done = launched("-n", 2, SCRIPT, "caught")
    assert done.stdout == "[0] it goes on\n"
    assert (done.returncode, last_report(done.stderr)) == (1, "tg launch: rank 0 ended by a call that failed\n")


@pytest.mark.nightly
def test_a_run_that_died_is_started_again(tmp_path: Path) -> None:
    done = launched("-n", 2, "--restarts", 3, "--restart-with", 3, SCRIPT, "resuming", tmp_path / "step")
    assert done.returncode == 0, done.stderr
    runs = [f"[{rank}] step {step} of {size} processes" for step, size in enumerate((2, 3, 3)) for rank in range(size)]
    assert sorted(done.stdout.splitlines()) == sorted(runs)
    said = [line for line in done.stderr.splitlines() if line.startswith("tg launch: ")]
    assert said == [
        "tg launch: rank 1 ended by RuntimeError",
        "tg launch: restart 1 of 3, with 3 processes",
        "tg launch: rank 2 ended by RuntimeError",
        "tg launch: restart 2 of 3, with 3 processes",
    ]


@pytest.mark.nightly
def test_restarts_are_counted(tmp_path: Path) -> None:
    done = launched("-n", 2, "--restarts", 1, SCRIPT, "resuming", tmp_path / "step")
    assert done.returncode == 1
    assert last_report(done.stderr).endswith("RuntimeError: died at step 1\n")


@pytest.mark.nightly
def test_a_launcher_alone_will_do() -> None:
    """Without `tg launch`, the group's exception hook ends all processes."""
    command = [str(Path(sys.executable).with_name("mpiexec")), "--map-by", ":OVERSUBSCRIBE", "-n", "2"]
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(
        [*command, sys.executable, str(SCRIPT), "raising"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    assert done.returncode != 0
    assert "ValueError: a mistake of rank 1\n" in done.stderr
    assert "rank 1 of 2 ended by ValueError with status 1; it ends all\n" in done.stderr
