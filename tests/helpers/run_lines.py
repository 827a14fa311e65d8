"""Runs the RUN lines of an IR test in one fork of lit's own process, which has imported what they need.

The commands are called one after another, each on the output of the one before, so that a test costs one fork, rather
than for each command a client and a fork of a server. A test that fails is run by lit's shell too, which reports it; so
is one whose lines say more than these commands, pipes and redirections.
"""

from __future__ import annotations

import filecmp
import io
import os
import re
import shlex
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import filecheck.main
import lit.formats
import lit.Test
from xdsl.tools import xdsl_opt

from tensorgrad.tools import tg_opt

Main: TypeAlias = Callable[[list[str]], object]


def compare(words: Sequence[str]) -> int:
    """Returns the status of `cmp` of two files."""
    return 0 if filecmp.cmp(*words, shallow=False) else 1


def upstream(words: list[str]) -> None:
    sys.argv[1:] = words  # which it reads
    xdsl_opt.main()


COMMANDS: Mapping[str, Main] = {
    "tg-opt": tg_opt.main,
    "filecheck": lambda words: filecheck.main.main(["filecheck", *words]),
    "xdsl-opt": upstream,
    "cmp": compare,
}

RUN = re.compile(r"// RUN: *(.*)")

OPERATORS = re.compile(r"[|<>&;]+")
"""What shlex takes for punctuation."""


@dataclass
class Command:
    """A command of a pipeline.

    Attributes:
        words: Its name and arguments.
        fails: Whether it has to fail.
        joins: Whether its errors are a part of its output.
        source: The file that it reads, if not the output of the one before.
        target: The file that it writes, if not for the one after.
    """

    words: list[str]
    fails: bool = False
    joins: bool = False
    source: str | None = None
    target: str | None = None


def pipeline_of(line: str) -> list[Command] | None:
    """Returns the commands of a RUN line; `None` if it says more than this module knows."""
    if re.search(r"\\$|[013-9]>|2>(?!&1)", line):
        return None
    lexer = shlex.shlex(line.replace(" 2>&1", " >& "), posix=True, punctuation_chars="|<>&;")
    lexer.whitespace_split, lexer.commenters = True, ""
    pipeline, words = [Command([])], iter(lexer)
    for word in words:
        last = pipeline[-1]
        if word == "|":
            pipeline.append(Command([]))
        elif word == ">&":
            last.joins = True
        elif word == "<":
            last.source = next(words)
        elif word == ">" and not last.joins:
            last.target = next(words)
        elif OPERATORS.fullmatch(word):
            return None
        elif word == "not" and not last.words and not last.fails:
            last.fails = True
        else:
            last.words.append(word)
    return pipeline if all(one.words and one.words[0] in COMMANDS for one in pipeline) else None


def pipelines(path: Path, substitutions: Mapping[str, str]) -> list[list[Command]] | None:
    """Returns the pipelines of a file, in order; `None` if lit's shell has to run it."""
    result: list[list[Command]] = []
    for line in RUN.findall(path.read_text(encoding="utf-8")):
        for name, text in substitutions.items():
            line = line.replace(name, text)
        pipeline = pipeline_of(line)
        if pipeline is None or re.search(r"%(?!t\b|s\b|S\b)", line):
            return None
        result.append(pipeline)
    return result


def placed(word: str, path: Path) -> str:
    """Returns a word with the test's file and folder; files of the test itself are in the current folder."""
    return word.replace("%s", str(path)).replace("%S", str(path.parent)).replace("%t", "t")


def succeeds(pipeline: Sequence[Command], path: Path) -> bool:
    """Runs a pipeline in this process; returns whether each command ends as it should."""
    data = b""
    for command in pipeline:
        name, *words = (placed(word, path) for word in command.words)
        if command.source is not None:
            data = Path(placed(command.source, path)).read_bytes()
        sys.stdin = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")
        sys.stdout = sys.stderr = output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        if not command.joins:
            sys.stderr = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        try:
            status: Any = COMMANDS[name](words)
        except SystemExit as end:
            status = end.code
        except BaseException:
            traceback.print_exc()
            status = 1
        if bool(status) != command.fails:
            return False
        data = output.buffer.getvalue() if isinstance(output.buffer, io.BytesIO) else b""
        if command.target is not None:
            Path(placed(command.target, path)).write_bytes(data)
            data = b""
    return True


def passes(tests: Sequence[Sequence[Command]], path: Path) -> bool:
    """Runs the pipelines of a file in a fork, in a folder of its own; returns whether all succeed."""
    with tempfile.TemporaryDirectory() as folder:
        fork = os.fork()
        if fork == 0:
            status = 1
            try:
                os.chdir(folder)
                warnings.simplefilter("error")
                status = 0 if all(succeeds(pipeline, path) for pipeline in tests) else 1
            finally:
                os._exit(status)
        return os.waitpid(fork, 0)[1] == 0


class RunLines(lit.formats.ShTest):
    """Tests whose RUN lines are run in a fork, if they can be."""

    def execute(self, test: Any, litConfig: Any) -> Any:
        path = Path(test.getSourcePath())
        tests = None if litConfig.noExecute else pipelines(path, dict(test.config.substitutions))
        if tests and passes(tests, path):
            return lit.Test.Result(lit.Test.PASS)
        return super().execute(test, litConfig)
