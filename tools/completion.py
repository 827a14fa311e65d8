"""`tg completion`: shell completion of the commands."""

from __future__ import annotations

from argparse import Action, ArgumentParser
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import shtab
from rich.console import Console

from tensorgrad.runtime.target import PROFILES
from tensorgrad.tools.printing import print_json

SHELLS = ("bash", "zsh", "fish")
PROGRAMS = ("tg", "tg-opt")

FILES = frozenset({"CHECKPOINT", "FILE", "FILE[:NAME]", "HOSTS", "HTML", "NPZ", "input_file", "output_file"})
"""The names in usage messages of arguments that are files."""


@dataclass(frozen=True)
class Completion:
    """Prints a script that makes a shell complete subcommands, options, devices, targets, passes and files.

    Attributes:
        parser: Parses the command line of `tg`.
        shell: The shell.
        program: The command to complete, `tg` or `tg-opt`.
        json: Whether to print JSON.
    """

    parser: ArgumentParser
    shell: str
    program: str = "tg"
    json: bool = False

    def run(self, console: Console) -> None:
        """Prints the completion script."""
        parser, completed = self.parser, {"target": _words("tg_target", PROFILES)}
        if self.program == "tg-opt":
            parser, completed = _tg_opt()
        for action in _actions(parser):
            how = shtab.FILE if (action.metavar or action.dest) in FILES else completed.get(action.dest)
            if how is not None:
                vars(action)["complete"] = how  # an attribute that shtab looks for
        script = shtab.complete(parser, self.shell)
        if self.json:
            print_json(console, {"program": self.program, "shell": self.shell, "script": script})
        else:
            console.out(script, highlight=False)


def _tg_opt() -> tuple[ArgumentParser, dict[str, Any]]:
    """Returns the parser of `tg-opt`, with completion of its arguments, including passes and pipelines."""
    from tensorgrad.passes.pipelines import PIPELINES
    from tensorgrad.tools.tg_opt import TgOpt
    from tensorgrad.tools.universe import TENSORGRAD_UNIVERSE

    tool, passes = TgOpt([]), [*PIPELINES, *TENSORGRAD_UNIVERSE.all_passes]
    listed = _pass_list(passes)
    lists = dict.fromkeys(("passes", "pass_pipeline", "print_ir_before", "print_ir_after"), listed)
    return tool.parser, {"target": _words("tg_opt_target", tool.available_targets), **lists}


def _actions(parser: ArgumentParser) -> Iterator[Action]:
    """Yields the arguments of a parser and of its subcommands."""
    for action in parser._actions:  # argparse has no public way to list arguments
        yield action
        if isinstance(action.choices, Mapping):
            for subcommand in action.choices.values():
                yield from _actions(subcommand)


def _words(name: str, words: Iterable[str]) -> dict[str, Any]:
    """Returns how shells complete one of some words, although other words are allowed."""
    listed = " ".join(sorted(words))
    return _by_shell(name, f'compgen -W "{listed}" -- "$1"', f"({listed})", listed)


def _pass_list(names: Iterable[str]) -> dict[str, Any]:
    """Returns how shells complete the last word of a comma-separated list of passes."""
    listed = " ".join(names)
    bash = f"""local before=""
  [[ "$1" == *,* ]] && before="${{1%,*}},"
  compgen -P "$before" -W "{listed}" -- "${{1##*,}}\""""
    return _by_shell("tg_opt_passes", bash, f"_values -s , pass {listed}", f"(__fish_append , {listed})")


def _by_shell(name: str, bash: str, zsh: str, fish: str) -> dict[str, Any]:
    """Returns an action for each shell, as shtab needs it; for bash, the name of a function."""
    function = f"_complete_{name}"
    return {
        "bash": function,
        "zsh": zsh,
        "fish": fish,
        "preamble": {"bash": f"{function}() {{\n  {bash}\n}}"},
    }
