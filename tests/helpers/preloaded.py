"""Runs Python programs in forks of a process that has already imported what they need.

Importing xDSL and the passes takes longer than most tests run, so `lit.cfg.py` and the fixture `python` each start one
process that imports them. In a folder is a client for each command: it hands its arguments, environment, folder and
open files to that process, which forks, and runs the command's own script in the fork, as `__main__`. The client ends
as the fork did: with its status, or killed by the same signal. The client `python` takes the interpreter's arguments.
Variables that the interpreter reads as it starts, such as PYTHONHASHSEED, are those of the process that forks.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TextIO

PYTHON = Path("python")
"""The script that stands for the interpreter itself: with `-W error`, and a file, `-c code` or `-m module`."""

SUPPORTED = hasattr(os, "fork") and hasattr(socket, "AF_UNIX")

# Imports little, since it starts for every command.
CLIENT = """#!{python} -IS
import _socket, json, os, struct, sys
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect({address!r})
request = json.dumps([{script!r}, sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("3i", 0, 1, 2))
server.sendmsg([struct.pack("!I", len(request))], [rights])
while request:
    request = request[server.send(request):]
for file in (0, 1, 2):  # so that only the command holds them, and readers of its output see its end
    os.close(file)
answer = server.recv(4)
status = struct.unpack("!i", answer)[0] if answer else 1
if status < 0:
    os.kill(os.getpid(), -status)
os._exit(status)
"""


@dataclass(frozen=True)
class Preloaded:
    """The server.

    Attributes:
        clients: The folder of clients, each named as its script.
        process: The server's process.
        held: The write end of a pipe. The server exits once every process that holds it has closed it or ended.
    """

    clients: Path
    process: subprocess.Popen[bytes]
    held: int

    def end(self) -> None:
        """Lets the server exit, unless a fork of this process still holds the pipe."""
        os.close(self.held)
        self.process.wait()


def start(
    scripts: Sequence[Path], modules: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> Preloaded:
    """Starts the server that runs Python scripts for this process and its forks, with more modules imported."""
    clients = Path(tempfile.mkdtemp(prefix="tg-preloaded-"))
    address = str(clients / "socket")
    for script in scripts:
        client = clients / script.name
        client.write_text(CLIENT.format(python=sys.executable, address=address, script=str(script)), encoding="utf-8")
        client.chmod(0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(address)
        listener.listen(64)  # clients can connect now, and wait until everything is imported
        lives, held = os.pipe()
        process = subprocess.Popen(
            [sys.executable, __file__, str(clients), str(listener.fileno()), str(lives), *modules],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(listener.fileno(), lives),
        )
        os.close(lives)
    return Preloaded(clients, process, held)


def serve(listener: socket.socket, lives: int) -> socket.socket | None:
    """Forks for each connection, until every holder of the pipe `lives` is gone.

    Returns:
        In a fork, its connection; in the server, `None` at the end.
    """
    waiting: dict[int, socket.socket] = {}
    woken, wakes = os.pipe()
    for end in (woken, wakes):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # a handler, so that the pipe is written to
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt ends lit, and thereby the server
    gc.freeze()  # otherwise the collector would write to, and so copy, the pages that forks share
    while True:
        ready, _, _ = select.select([listener, lives, woken], [], [])
        if lives in ready:
            return None
        if woken in ready:
            os.read(woken, 4096)
            answer(waiting)
        if listener in ready:
            connection, _ = listener.accept()
            fork = os.fork()
            if fork == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.signal(signal.SIGINT, signal.default_int_handler)
                for file in (listener.detach(), lives, woken, wakes, *(client.detach() for client in waiting.values())):
                    os.close(file)
                return connection
            waiting[fork] = connection


def answer(waiting: dict[int, socket.socket]) -> None:
    """Sends the exit statuses of finished forks to their clients."""
    while waiting:
        fork, status = os.waitpid(-1, os.WNOHANG)
        if fork == 0:
            return
        with waiting.pop(fork) as connection, contextlib.suppress(OSError):  # the client may have been killed
            connection.sendall(struct.pack("!i", os.waitstatus_to_exitcode(status)))


def run(connection: socket.socket) -> None:
    """Runs the command that a client requests, in this process, whose end is then that of the command."""
    with connection:
        header, files, _, _ = socket.recv_fds(connection, 4, 3)
        with connection.makefile("rb") as stream:
            script, arguments, folder, environment = json.loads(stream.read(struct.unpack("!I", header)[0]))
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        setattr(sys, name, reopened(getattr(sys, name), mode))
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if script == str(PYTHON):
        interpret(arguments)
    else:
        run_script(script, arguments)


def run_script(script: str, arguments: Sequence[str]) -> None:
    """Runs a file as the interpreter does, with the absolute path in tracebacks."""
    script = os.path.abspath(script)
    sys.argv = [script, *arguments]
    sys.path[0] = os.path.dirname(script)
    runpy.run_path(script, run_name="__main__")


def interpret(arguments: Sequence[str]) -> None:
    """Runs what the interpreter would with these arguments, of which the forks' server has had `-W error`."""
    if arguments[:2] == ["-W", "error"]:
        arguments = arguments[2:]
    option, *others = arguments
    if option == "-c":
        sys.argv, sys.path[0] = ["-c", *others[1:]], ""
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(others[0], "<string>", "exec"), vars(main))
    elif option == "-m":
        sys.argv, sys.path[0] = ["-m", *others[1:]], os.getcwd()
        runpy.run_module(others[0], run_name="__main__", alter_sys=True)
    elif option.startswith("-"):
        raise ValueError(f"{option}: forks only take -W error, -c and -m")
    else:
        run_script(option, others)


def reopened(stream: TextIO, mode: str) -> IO[Any]:
    """Returns a new stream on the descriptor of a standard stream, which has been replaced."""
    return open(
        stream.fileno(), mode, 1 if stream.line_buffering else -1, stream.encoding, stream.errors, closefd=False
    )


def preload(modules: Sequence[str]) -> None:
    """Imports what the commands import, and the modules."""
    for name in ("filecheck.main", "xdsl.targets.mlir", "tensorgrad.tools.tg_opt", *modules):
        importlib.import_module(name)
    for name in ("wgsl.emit_wgsl", "llvm.emit_llvm"):
        importlib.import_module(f"tensorgrad.passes.codegen.{name}")
    from tensorgrad.tools import tg_opt_server
    from tensorgrad.tools.universe import TENSORGRAD_UNIVERSE

    for load in (*TENSORGRAD_UNIVERSE.all_dialects.values(), *TENSORGRAD_UNIVERSE.all_passes.values()):
        load()
    tg_opt_server.preload()


if __name__ == "__main__":
    preload(sys.argv[4:])
    clients = Path(sys.argv[1])
    with socket.socket(fileno=int(sys.argv[2])) as listener:
        connection = serve(listener, int(sys.argv[3]))
    if connection is not None:
        run(connection)
    else:
        for file in clients.iterdir():
            file.unlink()
        clients.rmdir()
