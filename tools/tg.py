"""`tg`: programs on the command line."""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, Protocol, TypeAlias, cast

from rich.console import Console

import tensorgrad
from tensorgrad.driver.handles.load import DEVICES as LOADED_ON
from tensorgrad.errors import TensorgradError, UserError
from tensorgrad.runtime.printable import printable
from tensorgrad.tools.bench import DEVICES, Bench
from tensorgrad.tools.caches import Cache
from tensorgrad.tools.completion import PROGRAMS, SHELLS, Completion
from tensorgrad.tools.devices import Devices
from tensorgrad.tools.exporting import Export, Serve
from tensorgrad.tools.inspecting import Inspect
from tensorgrad.tools.launching import Launch
from tensorgrad.tools.reducing import Reduce
from tensorgrad.tools.replaying import Replay
from tensorgrad.tools.reporting import Report
from tensorgrad.tools.running import ProgramRun

BENCH = """\
Times the dispatches of a program on a device: a table of those that take the most, each with the line it is from.

FILE is what `save` wrote, with its parameters; or IR of the level `tg` as `tg-opt` prints it, in a .mlir file or, as
`-`, on standard input. It is compiled for the device then; --tune measures other schedules first, and keeps the best on
disk, where `tg.compile(..., tune=...)` finds them too. Programs that train do so, but nothing is saved.
"""

REPLAY = """\
Runs a step on the reference, from a checkpoint and on a batch, and prints what each op made, forward, backward and in
the update. No value of the training changes.

FILE is imported, so what it does only as a program goes below `if __name__ == "__main__":`. NAME is a training in it,
or a function of no arguments that gives one; it can be left out where the file has one training.
"""

RUN = """\
Runs a function that `save` wrote on arrays from .npy files, or steps of a training, and prints the results.

--device cpu runs native code, which can do anything: trust the file.
"""


class Command(Protocol):
    """A subcommand."""

    def run(self, console: Console) -> int | None:
        """Runs it; returns the exit status, unless it is 0."""
        ...


Parser: TypeAlias = argparse.ArgumentParser


def _bench(parser: Parser) -> None:
    parser.add_argument("path", metavar="FILE", help="a saved program, a .mlir file, or - for standard input")
    parser.add_argument("--device", choices=list(DEVICES), default="wgpu", help="an adapter, or cpu (default: wgpu)")
    parser.add_argument("--steps", type=_positive, default=10, help="how many steps are measured (default: 10)")
    parser.add_argument("--tune", type=_seconds, default=0.0, metavar="SECONDS", help="measure schedules for so long")
    parser.add_argument("--inputs", metavar="NPZ", help="arrays for inputs, by name (default: normal floats, zeros)")
    parser.add_argument("--rows", type=_positive, default=20, help="how many rows to print (default: 20)")


def _cache(parser: Parser) -> None:
    parser.add_argument("--clear", action="store_true", help="delete it")


def _completion(parser: Parser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="the shell")
    parser.add_argument("program", choices=PROGRAMS, nargs="?", default="tg", help="what is completed (default: tg)")


def _devices(parser: Parser) -> None:
    pass


def _export(parser: Parser) -> None:
    parser.add_argument("where", choices=["web"], help="what for: a page")
    parser.add_argument("files", metavar="FILE", nargs="+", help="saved programs; at most one is a training")
    parser.add_argument("folder", metavar="FOLDER", help="where to")
    parser.add_argument("--example", metavar="NPZ", help="arrays for inputs, by name, that the page runs on")


def _inspect(parser: Parser) -> None:
    parser.add_argument("path", metavar="FILE", help="a saved program")
    parser.add_argument("--rows", type=_positive, default=20, help="how many rows a table has (default: 20)")


def _launch(parser: Parser) -> None:
    parser.add_argument("script", metavar="FILE", help="a Python file")
    parser.add_argument("arguments", metavar="ARGUMENT", nargs=argparse.REMAINDER, help="its arguments")
    parser.add_argument("-n", "--processes", type=_positive, required=True, metavar="N", help="how many processes")
    parser.add_argument("--hostfile", metavar="HOSTS", help="a file with the hosts to run on, in the MPI's format")
    parser.add_argument("--cores-per-process", type=_positive, metavar="N", help="threads of each (default: its share)")
    parser.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="for how long one waits for the others")
    parser.add_argument(
        "--restarts", type=_count, default=0, metavar="N", help="how often to start a run that died again"
    )
    parser.add_argument(
        "--restart-with", type=_positive, metavar="N", help="how many processes then (default: as many)"
    )


def _reduce(parser: Parser) -> None:
    parser.add_argument("path", metavar="FILE", help="IR of any level")
    parser.add_argument("--check", metavar="COMMAND", help="what fails, with {} for the file")
    parser.add_argument("--match", metavar="REGEX", help="what standard error has to match")
    parser.add_argument("--timeout", type=_seconds, default=60.0, help="seconds for a check (default: 60)")
    parser.add_argument("--seconds", type=_seconds, default=600.0, help="when to stop (default: 600)")
    parser.add_argument("--out", metavar="MLIR", help="where to write the module (default: standard output)")


def _replay(parser: Parser) -> None:
    parser.add_argument("path", metavar="FILE[:NAME]", help="a Python file, and in it a training or what makes one")
    parser.add_argument("--checkpoint", metavar="CHECKPOINT", help="the state before the step (default: the file's)")
    parser.add_argument("--input", dest="inputs", action="append", default=[], metavar="NAME=NPY", help="an input")
    parser.add_argument("--batch", metavar="NPZ", help="inputs by name")
    parser.add_argument("--at", metavar="WHERE", help="a line, an op or a module (default: all)")
    parser.add_argument("--blame", action="store_true", help="name the op that makes the first NaN or infinity")
    parser.add_argument("--rows", type=_positive, default=20, help="how many rows to print (default: 20)")
    parser.add_argument("--out", metavar="NPZ", help="where to write the values")


def _report(parser: Parser) -> None:
    parser.add_argument("paths", metavar="FILE", nargs="+", help="IR, a saved program, or two of them to compare")
    parser.add_argument("--out", metavar="HTML", default="report.html", help="the page (default: report.html)")
    parser.add_argument("--target", default="webgpu-default", help="what IR is compiled for (default: webgpu-default)")
    parser.add_argument("--text", action="store_true", help="print the report as text")


def _run(parser: Parser) -> None:
    parser.add_argument("path", metavar="FILE", help="a saved program")
    parser.add_argument("--input", dest="inputs", action="append", default=[], metavar="NAME=NPY", help="an input")
    parser.add_argument("--device", choices=list(LOADED_ON), default="auto", help="where to run it (default: auto)")
    parser.add_argument("--steps", type=_positive, default=1, help="how many steps a training makes (default: 1)")
    parser.add_argument("--out", metavar="NPZ", help="where to write the results")
    parser.add_argument("--save", metavar="FILE", help="where to write the program with its parameters afterwards")


def _serve(parser: Parser) -> None:
    parser.add_argument("folder", metavar="FOLDER", help="what `tg export web` wrote")
    parser.add_argument("--port", type=_port, default=8000, help="where; 0 is any that is free (default: 8000)")
    parser.add_argument("--seconds", type=_seconds, help="for how long (default: until Ctrl-C)")


COMMANDS: dict[str, tuple[str, str, Callable[[Parser], None], Callable[..., Command]]] = {
    "bench": ("time the dispatches of a program", BENCH, _bench, Bench),
    "cache": ("list or delete what is kept on disk", str(Cache.__doc__), _cache, Cache),
    "completion": (
        "print a script that completes commands",
        str(Completion.__doc__),
        _completion,
        lambda **options: Completion(command_line(), **options),
    ),
    "devices": ("list devices and what they can do", str(Devices.__doc__), _devices, Devices),
    "export": ("write a folder for web servers", str(Export.__doc__), _export, Export),
    "inspect": ("show what is in a saved program", str(Inspect.__doc__), _inspect, Inspect),
    "launch": ("run a script as several processes", str(Launch.__doc__), _launch, Launch),
    "reduce": ("shrink a module on which something fails", str(Reduce.__doc__), _reduce, Reduce),
    "replay": ("run a step of a training op by op", REPLAY, _replay, Replay),
    "report": ("write a page about a program", str(Report.__doc__), _report, Report),
    "run": ("run a saved program", RUN, _run, ProgramRun),
    "serve": ("serve a folder to browsers on this machine", str(Serve.__doc__), _serve, Serve),
}
"""The subcommands by name: a line of help, the description, a function that adds the options, and the class."""


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}") from None


def _positive(text: str) -> int:
    number = _whole(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def _count(text: str) -> int:
    number = _whole(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"must not be negative, got {number}")
    return number


def _port(text: str) -> int:
    number = _whole(text)
    if not 0 <= number <= 0xFFFF:
        raise argparse.ArgumentTypeError(f"must be from 0 to 65535, got {number}")
    return number


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number of seconds that is not negative, got {text}")
    return number


def command_line() -> Parser:
    """Returns the parser of the command line."""
    return _parsers()[0]


def _parsers() -> tuple[Parser, dict[str, Parser]]:
    """Returns the parser of the command line, and those of the subcommands by name."""
    made: dict[str, Parser] = {}
    found = argparse.ArgumentParser(prog="tg", description=__doc__)
    found.add_argument("--version", action="version", version=f"tg {tensorgrad.__version__}")
    commands = found.add_subparsers(dest="command", required=True, metavar="COMMAND")
    raw = argparse.RawDescriptionHelpFormatter
    for name, (line, description, add, _) in COMMANDS.items():
        description = inspect.cleandoc(description).partition("\n\nAttributes:")[0]
        command = commands.add_parser(name, help=line, description=description, formatter_class=raw)
        add(command)
        command.add_argument("--json", action="store_true", help="print JSON")
        made[name] = command
    return found, made


def main(args: Sequence[str] | None = None) -> int:
    """Runs `tg`.

    Args:
        args: The command line without the program's name; by default that of the process.

    Returns:
        The exit status: 0, 1 after an error caused by the input, which goes to stderr, or that of the script it ran.
    """
    given = sys.argv[1:] if args is None else list(args)
    options: dict[str, Any] = vars(_parsed(given))
    make = COMMANDS[options.pop("command")][3]
    try:
        status = make(**options).run(Console())
    except (TensorgradError, OSError, ValueError) as error:
        print(f"tg: error: {printable(_message(error), lines=True)}", file=sys.stderr)
        return 1
    return status or 0


def _parsed(given: Sequence[str]) -> argparse.Namespace:
    """Returns the parsed command line; if it is invalid, prints the subcommand's usage and exits."""
    parser, commands = _parsers()
    if given and not given[0].startswith("-") and given[0] not in commands:
        close = get_close_matches(given[0], commands, n=1)
        hint = f"did you mean {close[0]}?" if close else f"choose from {', '.join(commands)}"
        parser.error(f"there is no command {given[0]!r}; {hint}")
    result, rest = parser.parse_known_args(given)
    if rest:
        known = commands[result.command].format_usage()
        options = [option for option in re.findall(r"--[\w-]+", known) if option not in given]
        close = get_close_matches(rest[0].partition("=")[0], options, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        commands[result.command].error(f"unrecognized arguments: {' '.join(rest)}{hint}")
    return result


def _message(error: Exception) -> str:
    """Returns an error's message, without the line of the script that runs `tg`; of an OSError, the file and reason."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror is not None:
        return f"{error.filename}: {error.strerror}"
    is_ours = isinstance(error, UserError) and error.location.rpartition(":")[0] == sys.argv[0]
    return (cast(UserError, error).message if is_ours else str(error)).rstrip()


if __name__ == "__main__":
    sys.exit(main())
