"""Kills processes at each operation of a training, and checks what the next process finds.

A process compiles once, and forks for each kill: a fork runs the operation until the signal ends it, and another one,
which knows nothing of that, checks what is left in the folder. Arguments: a device, operations, and how many points of
each to take (0 for all). Prints how many kills were survived, by kind.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

import injection
from injection import Fault, Injector
from operations import CACHE, Operation, Undisturbed
from sweeps import OPERATIONS, caches, points

from tensorgrad.runtime.files import ABANDONED_SECONDS, PART

WAYS: dict[str, tuple[Injector, signal.Signals]] = {
    "SIGKILL at a file": (injection.files(injection.signalling(signal.SIGKILL), removes=True), signal.SIGKILL),
    "SIGTERM at a file": (injection.files(injection.signalling(signal.SIGTERM), removes=True), signal.SIGTERM),
    "SIGKILL at a run": (injection.runs(injection.signalling(signal.SIGKILL)), signal.SIGKILL),
    "killed within a write": (injection.full(100, ends=True), signal.SIGXFSZ),
}


def forked(act: Callable[[], object]) -> int:
    """Runs a function in a fork; returns its status, negative if a signal ended it."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            act()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def counted(operation: Operation, inject: Injector, count: Path) -> int:
    """Returns how many points an operation has, which a fork counts: here it starts anew each time."""

    def act() -> None:
        fault = Fault(0)
        with inject(fault, operation.folder):
            operation.run()
        count.write_text(str(fault.count))

    operation.prepare()
    assert forked(act) == 0
    return int(count.read_text())


def age(folder: Path) -> None:
    """Makes what a killed process has left unfinished as old as what is abandoned."""
    long_ago = time.time() - 2 * ABANDONED_SECONDS
    for path in folder.rglob(f"*{PART}"):
        os.utime(path, (long_ago, long_ago))


def check(operation: Operation) -> None:
    """Checks what is left: the next run cleans up, too, except the caches, which are cleaned up as they grow."""
    age(operation.folder)
    operation.check()
    left = [path for path in operation.folder.rglob(f"*{PART}") if CACHE not in path.parts]
    assert not left, left


def main() -> None:
    device: Any = sys.argv[1]
    names, most = sys.argv[2].split(","), int(sys.argv[3]) or None
    reference = Undisturbed(device)
    survived: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder, "own")
        with caches(own):
            for name in names:
                operation = OPERATIONS[name](reference, own)
                for way, (inject, number) in WAYS.items():
                    for at in points(counted(operation, inject, Path(folder, "count")), most, len(way)):
                        operation.prepare()

                        def act(inject: Injector = inject, at: int = at, operation: Operation = operation) -> None:
                            with inject(Fault(at), operation.folder):
                                operation.run()

                        status = forked(act)
                        # 0 if the file fits, or the caches have what was opened before.
                        assert status in (0, -number), (name, way, at, status)
                        assert forked(lambda operation=operation: check(operation)) == 0, (name, way, at)
                        survived[way] += status != 0
    for way, number in survived.items():
        print(f"{way}: {number}")


if __name__ == "__main__":
    main()
