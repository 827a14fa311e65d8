"""The command line of `tg-opt`: flags spelled as `mlir-opt` spells them, and a flag for each pass."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches

HELP = {
    "input_file": "the file; standard input if absent or -",
    "passes": "comma-separated passes and pipelines, listed below",
    "output_file": "where to write the result, if all goes well; standard output if absent or -",
    "verify_diagnostics": "compare errors with the expected-error comments of each part; fail if they differ",
    "parsing_diagnostics": "print errors of the parser to standard output, and continue",
    "split_input_file": "process the parts between // ----- separately",
    "print_op_generic": "print the generic form of every op",
    "print_debuginfo": "print locations",
}
"""Our descriptions of upstream's options, by destination."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options that upstream's driver lacks."""
    add = parser.add_argument
    add("--load", action="append", default=[], metavar="FILE", help="a Python file with passes or dialects to add")
    add(
        "--verify-numerics-each",
        action="store_true",
        help="run the module after every pass, on drawn values, and compare what it gives with what it gave before",
    )
    add(
        "--prove",
        action="store_true",
        help="prove of each kernel that accesses are in bounds and invocations don't collide; print what is not proved",
    )
    add("--pass-pipeline", default="", metavar="PIPELINE", help="the passes, as in builtin.module(func.func(cse),fuse)")
    add("--dump-pass-pipeline", action="store_true", help="print the passes that run, with all options, to stderr")
    add("--print-diagnostics", action="store_true", help="print errors of verifiers and passes to stdout, and continue")
    for when in ("before", "after"):
        names = (f"--print-ir-{when}", f"--mlir-print-ir-{when}")
        add(*names, action="append", metavar="PASSES", help=f"print the module {when} these passes, to standard error")
        add(*(f"{name}-all" for name in names), action="store_true", help=f"print the module {when} every pass")
    for outcome, what in (("change", "what changed it"), ("failure", "one that fails")):
        names = (f"--print-ir-after-{outcome}", f"--mlir-print-ir-after-{outcome}")
        add(*names, action="store_true", help=f"print the module after a pass only if that is {what}")
    add("--mlir-print-op-generic", dest="print_op_generic", action="store_true", help=HELP["print_op_generic"])
    add("--mlir-print-debuginfo", dest="print_debuginfo", action="store_true", help=HELP["print_debuginfo"])
    add("--mlir-timing", action="store_true", help="print a table of the time of each pass to standard error")
    add("--list-passes", action="store_true", help="print the passes and pipelines with their options, and exit")
    add("--show-dialects", action="store_true", help="print the names of the dialects, and exit")


def loaded_files(words: Sequence[str]) -> list[str]:
    """Returns the files after `--load`, whose passes have flags too."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--load", "-load", action="append", default=[])
    try:
        return parser.parse_known_args(words)[0].load
    except argparse.ArgumentError:
        return []  # the file is missing, which the parser of everything reports


def with_two_dashes(words: Iterable[str], names: Collection[str]) -> list[str]:
    """Returns a command line in which long names that follow one dash, as LLVM allows, follow two."""
    return [f"-{word}" if word.partition("=")[0][1:] in names and word.startswith("-") else word for word in words]


def take_passes(words: Iterable[str], passes: Collection[str]) -> tuple[list[str], list[str]]:
    """Separates the flags of passes from other words.

    Args:
        words: A command line.
        passes: The names of passes and pipelines.

    Returns:
        The other words, and each pass as written in a pipeline: `--fuse='only=inline'` is `fuse{only=inline}`.
    """
    others: list[str] = []
    flags: list[str] = []
    for word in words:
        name, _, options = word.removeprefix("--").partition("=")
        if word.startswith("--") and name in passes:
            flags.append(f"{name}{{{options}}}" if options else name)
        else:
            others.append(word)
    return others, flags


def unrecognized(words: Sequence[str], names: Collection[str]) -> str:
    """Returns a message about words that the parser leaves over, with the closest names."""
    hints = {word: get_close_matches(word.partition("=")[0].lstrip("-"), names, n=1) for word in words}
    described = [f"{word} (did you mean --{close[0]}?)" if close else word for word, close in hints.items()]
    return f"unrecognized arguments: {', '.join(described)}"
