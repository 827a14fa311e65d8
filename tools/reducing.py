"""`tg reduce`: shrinks a module that makes a command fail."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from tensorgrad.checks.reduction.language import Language
from tensorgrad.checks.reduction.search import Reduced, Reduction
from tensorgrad.errors import ProgramError
from tensorgrad.runtime.texts import read_text
from tensorgrad.tools.arrays import in_folder
from tensorgrad.tools.extensions import load_extension
from tensorgrad.tools.interestingness import Checker, Command, reason
from tensorgrad.tools.parsing import parse_module
from tensorgrad.tools.printing import plain, print_json


@dataclass(frozen=True)
class Reduce:
    """Shrinks a module of IR that makes a command fail to a small one that still does.

    FILE is IR of any level. A module fails if the command exits with a nonzero status and, with --match, its standard
    error matches. Without --check, the command is the first line of FILE, as in the reproducers that crashed passes
    write, and a module has to fail for the same reason. Candidates are valid modules, unless FILE is invalid itself.

    Attributes:
        path: The file.
        check: The command, with `{}` for the file, or else the file is appended; by default that in its first line.
        match: A regular expression that standard error has to match.
        timeout: Seconds after which the command is ended; this is a failure only if FILE itself takes that long.
        seconds: Seconds after which reduction stops with the smallest module so far.
        out: Where to write the reduced module; to standard output by default.
        json: Whether to print it, and a summary of the reduction, as JSON.
    """

    path: str
    check: str | None = None
    match: str | None = None
    timeout: float = 60.0
    seconds: float = 600.0
    out: str | None = None
    json: bool = False

    def run(self, console: Console) -> None:
        """Reduces the module.

        Raises:
            TensorgradError: The file is not IR, the command can't be run, or it doesn't fail on the file.
            OSError: A file can't be read or written.
        """
        name, text = Path(self.path).name, read_text(self.path, ProgramError)
        command = Command.in_file(text, name) if self.check is None else Command.of(self.check)
        pattern = None if self.match is None else _pattern(self.match)
        extensions = [load_extension(path) for path in command.loaded]
        dialects = tuple(dialect for extension in extensions for dialect in extension.dialects)
        unregistered = "--allow-unregistered-dialect" in command.words
        language = Language(partial(parse_module, dialects=dialects, unregistered=unregistered))
        language.read_any(text, self.path)
        status = Console(stderr=True).status(f"checking {name}")
        with status, Checker(command, name, self.timeout) as checker:
            self._look(checker, text, pattern)
            reduced = Reduction(
                text,
                language,
                checker.fails,
                self.seconds,
                lambda ops, tried: status.update(f"{ops} ops, {tried} modules checked"),
                self.path,
            ).run()
        line = shlex.join(command.on(Path(self.out or self.path).name))
        self._write(console, reduced, line)

    def _look(self, checker: Checker, text: str, pattern: re.Pattern[str] | None) -> None:
        """Runs the command on the original file, and determines the failure to look for.

        Raises:
            ProgramError: It doesn't fail.
        """
        first = checker.outcome(text)
        checker.may_time_out = first.timed_out
        if not first.status:
            raise ProgramError(f"{self.path}: the check does not fail, so there is nothing to reduce")
        if not first.timed_out:
            checker.pattern = re.compile(reason(first.stderr)) if self.check is None and not pattern else pattern
            if checker.pattern is not None and not checker.pattern.search(first.stderr):
                last = (first.stderr.strip().splitlines() or ["nothing"])[-1]
                raise ProgramError(f"{self.path}: the check fails, but not with {self.match!r}; it prints {last}")

    def _write(self, console: Console, reduced: Reduced, line: str) -> None:
        module = f"// {line}\n{reduced.text}"
        if self.out is not None:
            in_folder(self.out).write_text(module, encoding="utf-8")
        if self.json:
            facts = {"before_ops": reduced.before_ops, "after_ops": reduced.after_ops, "tried": reduced.tried}
            print_json(console, {**facts, "seconds": reduced.seconds, "check": line, "module": module})
        elif self.out is None:
            console.out(module, end="", highlight=False)
        else:
            how = "" if reduced.finished else "; stopped by --seconds"
            ops = f"{reduced.before_ops} ops became {reduced.after_ops}"
            console.print(plain(f"wrote {self.out}: {ops}{how}"), soft_wrap=True)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ProgramError(f"--match {text!r} is not a regular expression: {error}") from error
