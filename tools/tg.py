"""`tg`: what there is to do with programs on the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console

import tensorgrad
from tensorgrad.errors import TensorgradError
from tensorgrad.tools.bench import DEVICES, Bench

BENCH = """\
Times the dispatches of a program on a device: a table of those that take the most, each with the line it is from.

FILE is what `save` wrote, with its parameters; or IR of the level `tg` as `tg-opt` prints it, in a .mlir file or, as
`-`, on standard input. It is compiled for the device then; --tune measures other schedules first, and keeps the best on
disk, where `tg.compile(..., tune=...)` finds them too. Programs that train do so, but nothing is saved.
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tg", description=__doc__)
    parser.add_argument("--version", action="version", version=f"tg {tensorgrad.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    raw = argparse.RawDescriptionHelpFormatter
    bench = commands.add_parser(
        "bench", help="time the dispatches of a program", description=BENCH, formatter_class=raw
    )
    bench.add_argument("path", metavar="FILE", help="a saved program, a .mlir file, or - for standard input")
    bench.add_argument("--device", choices=list(DEVICES), default="wgpu", help="an adapter, or cpu (default: wgpu)")
    bench.add_argument("--steps", type=int, default=10, help="how many steps are measured (default: 10)")
    bench.add_argument("--tune", type=float, default=0.0, metavar="SECONDS", help="measure schedules for so long")
    bench.add_argument("--inputs", metavar="NPZ", help="arrays for inputs, by name (default: normal floats, zeros)")
    bench.add_argument("--rows", type=int, default=20, help="how many rows to print (default: 20)")
    return parser


def main(args: Sequence[str] | None = None) -> int:
    """Runs `tg`.

    Args:
        args: The command line without the program's name; by default the process's own.

    Returns:
        The exit status: 0, or 1 after an error that the input caused, which goes to stderr.
    """
    parser = _parser()
    options = vars(parser.parse_args(args))
    del options["command"]
    if options["steps"] < 1 or options["rows"] < 1 or not 0 <= options["tune"] < float("inf"):
        parser.error("--steps and --rows must be at least 1, --tune no negative number of seconds")
    try:
        Bench(**options).run(Console())
    except (TensorgradError, OSError, ValueError) as error:
        print(f"tg: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
