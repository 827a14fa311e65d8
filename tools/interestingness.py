"""The interestingness test of a reduction: a command, its exit status, and the reason for its failure."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tensorgrad.errors import ProgramError

PLACE = "{}"
"""The placeholder for the file in a command."""

PREFIX = "tg-opt: error: "

_VARIES = re.compile(
    r"(\w+\.py:\d+)|; the module before it.*|\"[^\"]*\"|'[^']*'|<[^<>]*>|\[[^\[\]]*\]|\([^()]*\)|%\w+|[^\s:]*/[^\s:]*"
    r"|(?<!\w)[-+]?\d[\w.+-]*|\b(?:nan|inf)\b"
)
"""The parts of a message that vary between modules and runs; the first group, a line of Python source, is kept."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a command.

    Attributes:
        status: Its exit status; negative if a signal ended it.
        stderr: Its standard error output.
        timed_out: Whether it was killed after the time limit.
    """

    status: int
    stderr: str
    timed_out: bool = False


@dataclass(frozen=True)
class Command:
    """A command on a file.

    Attributes:
        words: The command line's words, with `{}` for the file.
    """

    words: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Command:
        """Returns the command in the argument of `--check`; without a placeholder, the file is appended.

        Raises:
            ProgramError: It is empty, or has an unclosed quote.
        """
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise ProgramError(f"--check {text!r}: {error}") from error
        if not words:
            raise ProgramError("--check takes a command, got an empty string")
        return cls(tuple(words if any(PLACE in word for word in words) else [*words, PLACE]))

    @classmethod
    def in_file(cls, text: str, name: str) -> Command:
        """Returns the command in the first line of a reproducer.

        Raises:
            ProgramError: The first line is not a `tg-opt` command.
        """
        line = text.partition("\n")[0]
        try:
            start, *words = shlex.split(line.removeprefix("//")) if line.startswith("// tg-opt ") else ("", "")
        except ValueError as error:
            raise ProgramError(f"{name}:1: {error}") from error
        if not start:
            raise ProgramError(
                f"{name}: the first line is not `// tg-opt FILE -p PASSES`: give the command with --check"
            )
        place = words.index(name) if name in words else 0
        return cls((start, *words[:place], PLACE, *words[place + 1 :]))

    def on(self, path: str) -> list[str]:
        """Returns the command line's words for a file."""
        return [word.replace(PLACE, path) for word in self.words]

    @property
    def loaded(self) -> list[str]:
        """The Python files that it passes to `tg-opt` with `--load`."""
        pairs = zip(self.words, self.words[1:], strict=False)
        after = [second for first, second in pairs if first == "--load"]
        return after + [word.removeprefix("--load=") for word in self.words if word.startswith("--load=")]


def reason(stderr: str) -> str:
    """Returns a regular expression for the error's line, which matches any values, names, types and paths."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    line = next((line for line in lines if line.startswith(PREFIX)), lines[-1] if lines else "")
    parts, start = list[str](), 0
    for match in _VARIES.finditer(line):
        if not match[1]:
            parts.append(line[start : match.start()])
            start = match.end()
    return ".*".join(re.escape(part) for part in (*parts, line[start:])).removesuffix(".*")


class Checker:
    """Tests whether a command fails on modules, given as text; a context manager.

    Args:
        command: The command.
        name: The name of the file that it is run on.
        timeout: The time limit of a command in seconds; 0 for none.

    Attributes:
        pattern: A regular expression that standard error has to match, or `None`.
        may_time_out: Whether a timeout counts as a failure.
    """

    def __init__(self, command: Command, name: str, timeout: float):
        self._command = command
        self._timeout = timeout
        self._name = name
        self.pattern: re.Pattern[str] | None = None
        self.may_time_out = False

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            self._path = folder / self._name
            # Reproducers that the command writes are deleted with the folder.
            self._environment = {**os.environ, "TMPDIR": str(folder), "PYTHONIOENCODING": "utf-8"}
            forks = self._command.words[0] == "tg-opt" and hasattr(os, "fork")
            self._server = stack.enter_context(_server(self._environment)) if forks else None
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def outcome(self, text: str) -> Outcome:
        """Runs the command on a text.

        Raises:
            ProgramError: The command can't be run.
        """
        self._path.write_text(text, encoding="utf-8")
        words = self._command.on(str(self._path))
        if self._server is None:
            start = [sys.executable, "-m", "tensorgrad.tools.tg_opt"] if words[0] == "tg-opt" else words[:1]
            return _run([*start, *words[1:]], self._timeout, self._environment)
        request = {"arguments": words[1:], "timeout": self._timeout}
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        answer = self._server.stdout.readline()
        if not answer:
            raise ProgramError("the process that runs tg-opt has ended")
        return Outcome(**json.loads(answer))

    def fails(self, text: str) -> bool:
        """Returns whether the command fails on a text, with the expected message."""
        outcome = self.outcome(text)
        if outcome.timed_out:
            return self.may_time_out
        return outcome.status != 0 and (self.pattern is None or self.pattern.search(outcome.stderr) is not None)


def _server(environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """Starts the server that runs `tg-opt`; as it forks, it must not have threads."""
    return subprocess.Popen(
        [sys.executable, "-m", "tensorgrad.tools.tg_opt_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**environment, "OPENBLAS_NUM_THREADS": "1"},
    )


def _run(words: Sequence[str], timeout: float, environment: Mapping[str, str]) -> Outcome:
    """Runs a command in a new process.

    Raises:
        ProgramError: There is no such command.
    """
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=timeout or None,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return Outcome(-1, (error.stderr or b"").decode("utf-8", "replace"), True)
    except OSError as error:
        raise ProgramError(f"--check can't run {words[0]}: {error}") from error
    return Outcome(done.returncode, done.stderr.decode("utf-8", "replace"))
