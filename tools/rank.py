"""One process of `tg launch`: runs a script as `python` does, with line-buffered output; if it fails, all end."""

from __future__ import annotations

import io
import os
import runpy
import signal
import sys
from typing import NoReturn

from tensorgrad.runtime.group.launched import launched_as
from tensorgrad.runtime.group.mpi import end_all
from tensorgrad.tools.orphans import end_with_parent


def run(script: str, arguments: list[str]) -> None:
    """Runs a script with arguments; ends all processes if the script raises or exits with a nonzero status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # the launcher gets whole lines, whatever PYTHONUNBUFFERED says
            stream.reconfigure(line_buffering=True, write_through=False)
    sys.argv = [script, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as error:
        status = _status(error)
        if status:
            _end("SystemExit", status)
    except BaseException as error:
        traceback = error.__traceback__
        while traceback is not None and traceback.tb_frame.f_code.co_filename != script:
            traceback = traceback.tb_next
        shown = error.with_traceback(traceback or error.__traceback__)
        sys.excepthook(type(error), shown, shown.__traceback__)
        _end(type(error).__name__, 130 if isinstance(error, KeyboardInterrupt) else 1)


def _status(error: SystemExit) -> int:
    """Returns the exit status of a `SystemExit`, as the shell sees it; prints its message if it has one."""
    if error.code is None or isinstance(error.code, int):
        return int(error.code or 0) & 0xFF
    print(error.code, file=sys.stderr)
    return 1


def _end(reason: str, status: int) -> NoReturn:
    end_all(*launched_as(), reason, status)


if __name__ == "__main__":
    # A launcher that is killed can't end its processes. A process orphaned even before this can't initialize MPI.
    end_with_parent(os.getppid(), signal.SIGKILL)
    run(sys.argv[1], sys.argv[2:])
