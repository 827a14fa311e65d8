"""The check of a reduction: a command, how it fails, and why."""

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
"""What stands for the file in a command."""

PREFIX = "tg-opt: error: "

_VARIES = re.compile(
    r"(\w+\.py:\d+)|; the module before it.*|\"[^\"]*\"|'[^']*'|<[^<>]*>|\[[^\[\]]*\]|\([^()]*\)|%\w+|[^\s:]*/[^\s:]*"
    r"|(?<!\w)[-+]?\d[\w.+-]*|\b(?:nan|inf)\b"
)
"""What in a message is of one module or run alone; but a line of a program's own is kept, the first group."""


@dataclass(frozen=True)
class Outcome:
    """How a command ended.

    Attributes:
        status: Its exit status; negative where a signal ended it.
        stderr: What it wrote to standard error.
        timed_out: Whether it was ended because its time was over.
    """

    status: int
    stderr: str
    timed_out: bool = False


@dataclass(frozen=True)
class Command:
    """A command on a file.

    Attributes:
        words: What it consists of, with `{}` for the file.
    """

    words: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Command:
        """Returns the command that `--check` gives, whose file comes last where it is not said.

        Raises:
            ProgramError: It is empty, or a quote is not closed.
        """
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise ProgramError(f"--check {text!r}: {error}") from error
        if not words:
            raise ProgramError("--check takes a command, got an empty text")
        return cls(tuple(words if any(PLACE in word for word in words) else [*words, PLACE]))

    @classmethod
    def in_file(cls, text: str, name: str) -> Command:
        """Returns the command in the first line of a file that reproduces a failure.

        Raises:
            ProgramError: The first line is none.
        """
        line = text.partition("\n")[0]
        try:
            start, *words = shlex.split(line.removeprefix("//")) if line.startswith("// tg-opt ") else ("", "")
        except ValueError as error:
            raise ProgramError(f"{name}:1: {error}") from error
        if not start:
            raise ProgramError(f"{name}: the first line is no `// tg-opt FILE -p PASSES`: say how to check by --check")
        place = words.index(name) if name in words else 0
        return cls((start, *words[:place], PLACE, *words[place + 1 :]))

    def on(self, path: str) -> list[str]:
        """Returns the words of the command on a file."""
        return [word.replace(PLACE, path) for word in self.words]

    @property
    def loaded(self) -> list[str]:
        """The files of Python that it gives `tg-opt`."""
        pairs = zip(self.words, self.words[1:], strict=False)
        after = [second for first, second in pairs if first == "--load"]
        return after + [word.removeprefix("--load=") for word in self.words if word.startswith("--load=")]


def reason(stderr: str) -> str:
    """Returns a regular expression of what failed: the error's line without values, names, types and paths."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    line = next((line for line in lines if line.startswith(PREFIX)), lines[-1] if lines else "")
    parts, start = list[str](), 0
    for found in _VARIES.finditer(line):
        if not found[1]:
            parts.append(line[start : found.start()])
            start = found.end()
    return ".*".join(re.escape(part) for part in (*parts, line[start:])).removesuffix(".*")


class Checker:
    """Runs a command on texts, and says whether it fails; to be used as a context manager.

    Args:
        command: The command.
        name: What the file is called.
        timeout: After so many seconds a command is ended; 0 for no limit.

    Attributes:
        pattern: What standard error has to match, or nothing.
        may_time_out: Whether to be ended counts as a failure.
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
            # Reproducers that a command leaves go with the folder.
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
        """Returns how the command ends on a text.

        Raises:
            ProgramError: It can't be run.
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
        """Returns whether the command fails on a text, for the reason that is looked for."""
        found = self.outcome(text)
        if found.timed_out:
            return self.may_time_out
        return found.status != 0 and (self.pattern is None or self.pattern.search(found.stderr) is not None)


def _server(environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """Starts what runs `tg-opt`; it forks, so it must have no threads."""
    return subprocess.Popen(
        [sys.executable, "-m", "tensorgrad.tools.reduction.server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**environment, "OPENBLAS_NUM_THREADS": "1"},
    )


def _run(words: Sequence[str], timeout: float, environment: Mapping[str, str]) -> Outcome:
    """Returns how a command of any kind ends.

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
