"""Runs `tg-opt` repeatedly, each time in a fork of a process that has already imported it.

A request is a line of JSON on standard input, a response a line of JSON on standard output. A fork may end by exiting,
by a crash of native code, or by the alarm that enforces its time limit.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from functools import cache
from importlib import import_module, metadata
from typing import Any, NoReturn

from tensorgrad.tools import tg_opt


def run(arguments: Sequence[str], timeout: float) -> dict[str, Any]:
    """Returns the exit status of `tg-opt`, its standard error, and whether it exceeded the time limit."""
    with tempfile.TemporaryFile() as errors:
        child = os.fork()
        if not child:
            _run_and_exit(arguments, timeout, errors.fileno())
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        errors.seek(0)
        text = errors.read().decode("utf-8", "replace")
    return {"status": status, "stderr": text, "timed_out": status == -signal.SIGALRM}


def _run_and_exit(arguments: Sequence[str], timeout: float, errors: int) -> NoReturn:
    signal.setitimer(signal.ITIMER_REAL, timeout)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number, file in enumerate((nothing, nothing, errors)):
        os.dup2(file, number)
    status: Any = 1
    try:
        status = tg_opt.main(arguments)
    except SystemExit as exit:
        status = exit.code
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else 0 if status is None else 1)


def preload() -> None:
    """Does once in this process what each of its forks would do again."""
    import_module("tensorgrad.checks.numerics")  # for --verify-numerics-each
    # xDSL asks three times for plugins, and each time the metadata of all installed packages is read.
    plugins: Any = metadata
    plugins.entry_points = cache(metadata.entry_points)
    plugins.entry_points(group="xdsl.universe")


def main() -> None:
    """Answers requests until the input ends."""
    preload()
    for line in sys.stdin:
        print(json.dumps(run(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
