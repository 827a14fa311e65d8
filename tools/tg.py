"""`tg`: programs on the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from importlib import import_module
from re import findall
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, cast

import tensorgrad
from tensorgrad.errors import TensorgradError, UserError
from tensorgrad.runtime.printable import printable

if TYPE_CHECKING:
    from rich.console import Console

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
Runs a function that `save` wrote, or steps of a training, on arrays from .npy files or numbers, and prints the results.

IR runs at its own level: tg and buf in NumPy, wgsl on an adapter, cpu and llvm natively. Arguments that aren't passed
are sampled, and printed too.

--device cpu, and IR of the levels cpu and llvm, run native code, which can do anything: trust the file.
"""


class Command(Protocol):
    """A subcommand."""

    def run(self, console: Console) -> int | None:
        """Runs it; returns the exit status, unless it is 0."""
        ...


Parser: TypeAlias = argparse.ArgumentParser


def _bench(parser: Parser) -> None:
    from tensorgrad.tools.bench import DEVICES

    parser.add_argument("path", metavar="FILE", help="a saved program, a .mlir file, or - for standard input")
    parser.add_argument("--device", choices=list(DEVICES), default="wgpu", help="an adapter, or cpu (default: wgpu)")
    parser.add_argument("--steps", type=_positive, default=10, help="how many steps are measured (default: 10)")
    parser.add_argument("--tune", type=_seconds, default=0.0, metavar="SECONDS", help="measure schedules for so long")
    parser.add_argument("--inputs", metavar="NPZ", help="arrays for inputs, by name (default: normal floats, zeros)")
    parser.add_argument("--rows", type=_positive, default=20, help="how many rows to print (default: 20)")


def _cache(parser: Parser) -> None:
    parser.add_argument("--clear", action="store_true", help="delete it")


def _completion(parser: Parser) -> None:
    from tensorgrad.tools.completion import PROGRAMS, SHELLS

    parser.add_argument("shell", choices=SHELLS, help="the shell")
    parser.add_argument("program", choices=PROGRAMS, nargs="?", default="tg", help="what is completed (default: tg)")


def _devices(parser: Parser) -> None:
    pass


def _export(parser: Parser) -> None:
    parser.add_argument("where", choices=["web"], help="what for: a page")
    parser.add_argument("files", metavar="FILE", nargs="+", help="saved programs; at most one is a training")
    parser.add_argument("folder", metavar="FOLDER", help="where to")
    parser.add_argument("--example", metavar="NPZ", help="arrays for inputs, by name, that the page runs on")
    parser.add_argument(
        "--labels", metavar="NAMES", help="the classes' names, separated by commas, or a JSON file with a list of them"
    )
    parser.add_argument(
        "--weights", choices=["f32", "f16", "int8"], default="f32", help="how parameters are stored (default: f32)"
    )


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
    parser.add_argument("--input", dest="inputs", action="append", default=[], metavar="NAME=VALUE", help="an input")
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
    from tensorgrad.driver.handles.load import DEVICES

    parser.add_argument("path", metavar="FILE", help="a saved program, a .mlir file, or - for IR on standard input")
    parser.add_argument("--input", dest="inputs", action="append", default=[], metavar="NAME=VALUE", help="an input")
    parser.add_argument("--device", choices=list(DEVICES), default="auto", help="where to run it (default: auto)")
    parser.add_argument("--steps", type=_positive, default=1, help="how many steps a training makes (default: 1)")
    parser.add_argument("--out", metavar="NPZ", help="where to write the results")
    parser.add_argument("--save", metavar="FILE", help="where to write the program with its parameters afterwards")


def _lab(parser: Parser) -> None:
    parser.add_argument("chapter", nargs="?", metavar="CHAPTER", help="a chapter (default: choose in the browser)")
    parser.add_argument("--folder", default="tensorgrad-lab", help="where the copies are (default: tensorgrad-lab)")
    parser.add_argument("--copy-only", action="store_true", help="only copy the notebooks")


def _serve(parser: Parser) -> None:
    parser.add_argument("folder", metavar="FOLDER", help="what `tg export web` wrote")
    parser.add_argument("--port", type=_port, default=8000, help="where; 0 is any that is free (default: 8000)")
    parser.add_argument("--seconds", type=_seconds, help="for how long (default: until Ctrl-C)")


class Subcommand(NamedTuple):
    """What a subcommand is called, takes and does. Its module is imported when it runs, or when its help is printed.

    Attributes:
        line: A line of help.
        add: A function that adds the arguments to a parser.
        module: The module of `tools` that has its class.
        kind: The name of the class, whose fields are the arguments.
        description: The description, unless it is that of the class.
    """

    line: str
    add: Callable[[Parser], None]
    module: str
    kind: str
    description: str = ""

    def load(self) -> Callable[..., Command]:
        """Returns the class."""
        return getattr(import_module(f"tensorgrad.tools.{self.module}"), self.kind)

    def described(self) -> str:
        """Returns the description, of which that of a class leaves out its attributes."""
        from inspect import cleandoc

        return cleandoc(self.description or str(self.load().__doc__)).partition("\n\nAttributes:")[0]


COMMANDS: dict[str, Subcommand] = {
    "bench": Subcommand("time the dispatches of a program", _bench, "bench", "Bench", BENCH),
    "cache": Subcommand("list or delete what is kept on disk", _cache, "caches", "Cache"),
    "completion": Subcommand("print a script that completes commands", _completion, "completion", "Completion"),
    "devices": Subcommand("list devices and what they can do", _devices, "devices", "Devices"),
    "export": Subcommand("write a folder for web servers", _export, "exporting", "Export"),
    "inspect": Subcommand("show what is in a saved program", _inspect, "inspecting", "Inspect"),
    "lab": Subcommand("open notebooks in which the compiler runs", _lab, "lab", "Lab"),
    "launch": Subcommand("run a script as several processes", _launch, "launching", "Launch"),
    "reduce": Subcommand("shrink a module on which something fails", _reduce, "reducing", "Reduce"),
    "replay": Subcommand("run a step of a training op by op", _replay, "replaying", "Replay", REPLAY),
    "report": Subcommand("write a page about a program", _report, "reporting", "Report"),
    "run": Subcommand("run a saved program, or IR", _run, "running", "ProgramRun", RUN),
    "serve": Subcommand("serve a folder to browsers on this machine", _serve, "exporting", "Serve"),
}
"""The subcommands by name."""


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


class _Version(argparse.Action):
    """Prints the version, which is looked up only then."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any):
        super().__init__(option_strings, dest=argparse.SUPPRESS, default=argparse.SUPPRESS, nargs=0, **options)

    def __call__(self, parser: Parser, *_: Any) -> None:
        print(f"tg {tensorgrad.__version__}")
        parser.exit()


class _Paragraphs(argparse.HelpFormatter):
    """Wraps each paragraph of a description to the terminal's width, but for those with indented lines."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.strip().split("\n\n")
        return "\n\n".join(part if "\n " in part else fill(part, width, break_on_hyphens=False) for part in paragraphs)


def command_line() -> Parser:
    """Returns the parser of the command line, with the arguments of every subcommand."""
    return _parsers(COMMANDS)[0]


def _parsers(requested: Container[str]) -> tuple[Parser, dict[str, Parser]]:
    """Returns the parser of the command line, and those of the subcommands by name.

    Args:
        requested: The subcommands that get a description and arguments; the modules of others aren't imported.
    """
    parsers: dict[str, Parser] = {}
    parser = argparse.ArgumentParser(prog="tg", description=__doc__)
    parser.add_argument("--version", action=_Version, help="print the version and exit")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, subcommand in COMMANDS.items():
        command = parsers[name] = commands.add_parser(name, help=subcommand.line, formatter_class=_Paragraphs)
        if name in requested:
            command.description = subcommand.described()
            subcommand.add(command)
            command.add_argument("--json", action="store_true", help="print JSON")
    return parser, parsers


def main(args: Sequence[str] | None = None) -> int:
    """Runs `tg`; without a subcommand it prints its help.

    Args:
        args: The command line without the program's name; by default that of the process.

    Returns:
        The exit status: 0, 1 after an error caused by the input, which goes to stderr, or that of the script it ran.
    """
    words = sys.argv[1:] if args is None else list(args)
    parser, subparsers = _parsers(words[:1])
    if not words:
        parser.print_help()
        return 0
    options: dict[str, Any] = vars(_parsed(words, parser, subparsers))
    name = options.pop("command")
    if name == "completion":
        options["parser"] = command_line()
    try:
        make = COMMANDS[name].load()
        from rich.console import Console

        status = make(**options).run(Console())
    except (TensorgradError, OSError, ValueError) as error:
        print(f"tg: error: {printable(_message(error), lines=True)}", file=sys.stderr)
        return 1
    return status or 0


def _parsed(words: Sequence[str], parser: Parser, subparsers: Mapping[str, Parser]) -> argparse.Namespace:
    """Returns the parsed command line; if it is invalid, prints the subcommand's usage and exits."""
    if not words[0].startswith("-") and words[0] not in subparsers:
        close = _closest(words[0], subparsers)
        hint = f"did you mean {close}?" if close else f"choose from {', '.join(subparsers)}"
        parser.error(f"there is no command {words[0]!r}; {hint}")
    result, rest = parser.parse_known_args(words)
    if rest:
        usage = subparsers[result.command].format_usage()
        options = [option for option in findall(r"--[\w-]+", usage) if option not in words]
        close = _closest(rest[0].partition("=")[0], options)
        hint = f"; did you mean {close}?" if close else ""
        subparsers[result.command].error(f"unrecognized arguments: {' '.join(rest)}{hint}")
    return result


def _closest(word: str, words: Iterable[str]) -> str | None:
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, list(words), n=1)), None)


def _message(error: Exception) -> str:
    """Returns an error's message, without the line of the script that runs `tg`; of an OSError, the file and reason."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror is not None:
        return f"{error.filename}: {error.strerror}"
    is_ours = isinstance(error, UserError) and error.location.rpartition(":")[0] == sys.argv[0]
    return (cast(UserError, error).message if is_ours else str(error)).rstrip()


if __name__ == "__main__":
    sys.exit(main())
