"""However `tg launch` or its MPI launcher ends, no process that they started lives on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from processes import LAUNCH, actions, descendants, running, wait_until

from tensorgrad.tools.launching import ENDING, PASSED_ON

SIGNALS = [getattr(signal, name) for name in (*ENDING, *PASSED_ON)]

SCRIPTS = {
    "sleeping": "import time; print('ready'); time.sleep(600)",
    "counting": "import time; print('ready'); time.sleep(1); print('counted')",
    "stubborn": """\
import signal, time
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
print('ready'); time.sleep(600)
""",
    "waiting": """\
import tensorgrad as tg, time
group = tg.distributed.group()
print('ready')
if group.rank == 0:
    group.barrier()
time.sleep(600)
""",
}
"""What each rank does."""


@contextmanager
def launch(
    name: str, folder: Path, action: signal.Handlers = signal.SIG_DFL
) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """Runs a script as two ranks; once they are ready, yields `tg launch` and the processes that it started."""
    script, out = folder / "script.py", folder / "stdout"
    script.write_text(SCRIPTS[name], encoding="utf-8")
    with out.open("wb") as stdout, (folder / "stderr").open("wb") as stderr, actions(action, *SIGNALS):
        command = [*LAUNCH, "-n", "2", "--restarts", "1", str(script)]
        process = subprocess.Popen(command, stdout=stdout, stderr=stderr)
    with process:
        wait_until(lambda: out.read_text().count("ready") == 2 or process.poll() is not None)
        started = descendants(process.pid)
        try:
            assert len(started) >= 3, (folder / "stderr").read_text()
            yield process, started
            wait_until(lambda: not running(started))
            assert not running(started)
        finally:
            for living in running([process.pid, *started]):
                os.kill(living, signal.SIGKILL)


@pytest.mark.in_turns(4)
@pytest.mark.parametrize("name", ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM"])
def test_a_signal_ends_all(name: str, tmp_path: Path) -> None:
    with launch("sleeping", tmp_path) as (process, started):
        process.send_signal(getattr(signal, name))
        assert process.wait() == 130
        assert not running(started), "it waits for the processes"
    assert (tmp_path / "stderr").read_text() == "tg launch: it was interrupted\n"


@pytest.mark.nightly
def test_many_signals_end_all(tmp_path: Path) -> None:
    with launch("stubborn", tmp_path) as (process, _):
        for _ in range(5):
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGTERM)
        assert process.wait() == 130


@pytest.mark.nightly
def test_a_signal_for_the_script_reaches_it(tmp_path: Path) -> None:
    with launch("sleeping", tmp_path) as (process, _):
        process.send_signal(signal.SIGUSR1)
        wait_until(lambda: "restart 1 of 1" in (tmp_path / "stderr").read_text())
        process.send_signal(signal.SIGTERM)
        process.wait()
    assert " was killed by SIGUSR1\n" in (tmp_path / "stderr").read_text()


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("name", ["stubborn", "waiting"])
def test_a_killed_launch_ends_all(name: str, tmp_path: Path) -> None:
    with launch(name, tmp_path) as (process, _):
        process.kill()


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["stubborn", "waiting"])
def test_a_killed_mpi_launcher_ends_all(name: str, tmp_path: Path) -> None:
    with launch(name, tmp_path) as (process, started):
        os.kill(started[0], signal.SIGKILL)
        wait_until(lambda: not running(started))
        wait_until(lambda: "tg launch: the processes ended with status 137\n" in (tmp_path / "stderr").read_text())
        process.send_signal(signal.SIGTERM)
        process.wait()


@pytest.mark.nightly
def test_an_ignored_signal_stays_ignored(tmp_path: Path) -> None:
    """So a run started by `nohup` outlives its terminal."""
    with launch("counting", tmp_path, signal.SIG_IGN) as (process, _):
        process.send_signal(signal.SIGHUP)
        assert process.wait() == 0
    assert (tmp_path / "stdout").read_text().count("counted") == 2


@pytest.mark.nightly
def test_a_closed_output_ends_all(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import time\nwhile True:\n    print('ready')\n    time.sleep(0.1)\n", encoding="utf-8")
    command = [*LAUNCH, "-n", "2", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() in ("[0] ready\n", "[1] ready\n")
        started = descendants(process.pid)
        process.stdout.close()
        assert process.wait() == 1 and "Traceback" not in process.stderr.read()
        wait_until(lambda: not running(started))
        assert len(started) >= 3 and not running(started)


KERNEL = "import os, signal, sys; from tensorgrad.tools.orphans import end_with_parent; "
ELSEWHERE = KERNEL + "sys.platform = 'elsewhere'; "
TO_PARENT = "end_with_parent(os.getppid(), signal.SIGKILL); print(os.getpid(), flush=True); "
PARENT = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', sys.argv[1]]); time.sleep(600)"


@pytest.mark.parametrize(("start", "processes"), [(KERNEL, 1), (ELSEWHERE, 2)])
def test_an_orphan_ends(start: str, processes: int) -> None:
    command = [sys.executable, "-c", PARENT, f"{start}{TO_PARENT}signal.pause()"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        orphans = [child, *descendants(child)]
        assert len(orphans) == processes and running(orphans) == orphans
        parent.kill()
        parent.wait()
        wait_until(lambda: not running(orphans))
        assert not running(orphans)


@pytest.mark.parametrize("start", [KERNEL, ELSEWHERE])
def test_an_orphan_ends_whose_parent_has_ended_before(start: str) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as parent:
        pass
    code = f"{start}end_with_parent({parent.pid}, signal.SIGKILL); signal.pause()"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL


def test_what_polls_the_parent_ends_with_the_child() -> None:
    command = [sys.executable, "-c", f"{ELSEWHERE}{TO_PARENT}sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None and child.stdout is not None
        assert int(child.stdout.readline()) == child.pid
        polling = descendants(child.pid)
        child.stdin.close()
        assert child.wait() == 0
    wait_until(lambda: not running(polling))
    assert len(polling) == 1 and not running(polling)
