"""Starts processes by `tg launch`, as a user does, and finds out which processes are running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

LIMIT = 120.0
"""Seconds after which a launch is ended, and its test fails."""

LAUNCH = (sys.executable, "-m", "tensorgrad.tools.tg", "launch")


def launched(*arguments: object, limit: float = LIMIT, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs `tg launch` with the arguments."""
    environment = {**os.environ, "TG_GROUP_TIMEOUT": "60", **variables}
    command = [*LAUNCH, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=limit)


@contextmanager
def actions(action: signal.Handlers, *numbers: signal.Signals) -> Iterator[None]:
    """Sets what processes started meanwhile do on signals; whoever runs the tests in the background ignores some."""
    # A process inherits that a signal is ignored; one that is handled has the default action in it.
    handler = action if action == signal.SIG_IGN else lambda number, frame: None
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


def descendants(process: int) -> list[int]:
    """Returns the processes that a process started, directly or indirectly."""
    children: list[int] = []
    for task in Path(f"/proc/{process}/task").glob("*"):
        for child in map(int, (task / "children").read_text(encoding="ascii").split()):
            children += [child, *descendants(child)]
    return children


def running(processes: Sequence[int]) -> list[int]:
    """Returns those of the processes that have not ended; zombies have."""
    return [process for process in processes if _state(process) not in ("", "Z")]


def _state(process: int) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def wait_until(condition: Callable[[], bool]) -> None:
    """Waits until a condition holds, or the limit has passed."""
    deadline = time.monotonic() + LIMIT
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
