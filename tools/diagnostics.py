"""`--verify-diagnostics`: compares the errors of a module with the `expected-error` comments in its text."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr, UnknownLoc
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import ParseError, VerifyException

from tensorgrad.dialects.signature import verify_signature
from tensorgrad.passes.analyses.dominance import undominated_uses
from tensorgrad.runtime.errors import ProgramError
from tensorgrad.tools.parsing import LocatingParser
from tensorgrad.tools.verifying import verifying

_EXPECTATION = re.compile(
    r"expected-(?P<kind>error|note|remark|warning)(?P<regex>-re)?\s*"
    r"(?:@(?P<place>[+-]\d+|above|below|unknown))?\s*\{\{(?P<text>.*)\}\}\s*$"
)
"""A comment as `mlir-opt` reads it: at most one in a line."""

_SCATTERED = re.compile(r"\{\{(.*?)\}\}")
"""A regular expression inside the text of an `-re`."""


@dataclass(frozen=True)
class Expectation:
    """A diagnostic that a comment announces.

    Attributes:
        written: The line of the comment.
        line: The line that the diagnostic must be about; `None` for one without a place.
        kind: `error`, or a kind that nothing here produces.
        text: What the message must contain.
        pattern: The same as a regular expression.
    """

    written: int
    line: int | None
    kind: str
    text: str
    pattern: re.Pattern[str]


def expectations(text: str, first: int = 1) -> list[Expectation]:
    """Returns the diagnostics that the comments of a text announce.

    Args:
        text: IR, or a part of a file.
        first: The number of its first line.
    """
    expected: list[Expectation] = []
    waiting: list[tuple[int, re.Match[str]]] = []
    above = first
    for number, line in enumerate(text.split("\n"), first):
        match = _EXPECTATION.search(line)
        if match is None:
            expected += [_expectation(written, number, pending) for written, pending in waiting]
            waiting.clear()
            above = number
            continue
        place = match["place"]
        if place == "below":
            waiting.append((number, match))
        elif place in ("above", "unknown"):
            expected.append(_expectation(number, above if place == "above" else None, match))
        else:
            expected.append(_expectation(number, number + int(place or 0), match))
    return expected + [_expectation(written, written, pending) for written, pending in waiting]


def _expectation(written: int, line: int | None, match: re.Match[str]) -> Expectation:
    parts = _SCATTERED.split(match["text"]) if match["regex"] else [match["text"]]
    pattern = "".join(part if number % 2 else re.escape(part) for number, part in enumerate(parts))
    return Expectation(written, line, match["kind"], match["text"], re.compile(pattern))


class TrackingParser(LocatingParser):
    """The parser, which also remembers where each op begins: that is its location, unless the text has another one.

    Args:
        context: The dialects.
        text: The text.
        name: Its name in messages and locations.
        lines_before: The lines before the text in its file.
    """

    def __init__(self, context: Context, text: str | bytes, name: str = "<unknown>", lines_before: int = 0):
        super().__init__(context, text, name)
        self.starts: dict[Operation, int] = {}
        self._name, self._lines_before = StringAttr(name), lines_before
        self._line_ends = [match.start() for match in re.finditer("\n", self.lexer.input.content)]

    def parse_operation(self) -> Operation:
        """Parses an op, and records its place."""
        start = self._current_token.span.start
        op = super().parse_operation()
        self.starts[op] = start
        if isinstance(op.location, UnknownLoc):
            line = self._lines_before + bisect_left(self._line_ends, start) + 1
            op.location = FileLineColLoc(self._name, IntAttr(line), IntAttr(0))
        return op


def line_of(error: Exception, module: ModuleOp | None, starts: Mapping[Operation, int], text: str) -> int | None:
    """Returns the line of a text that an error is about, from 1 on; `None` if it names no op of the text.

    Args:
        error: A parse error, a verifier's, or a pass's.
        module: The module, if it was parsed.
        starts: The places of its ops in the text.
        text: What was parsed.
    """
    if isinstance(error, ParseError):
        return _line(text, error.span.start)
    op = None
    if module is not None and isinstance(error, VerifyException):
        invalid = (suspect for suspect in module.walk() if _complaint(suspect) == str(error))
        op = next(invalid, None) or next((user for user, _ in undominated_uses(module)), None)
    return None if op is None or op not in starts else _line(text, starts[op])


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _complaint(op: Operation) -> str | None:
    """Returns what the verifier says about an op itself, not about those inside; `None` if it says nothing."""
    try:
        with verifying():
            op.verify(verify_nested_ops=False)
            if isinstance(op, FuncOp):
                verify_signature(op)
    except VerifyException as error:
        return str(error)
    return None


def check_diagnostics(name: str, expected: list[Expectation], error: Exception | None, line: int | None) -> None:
    """Compares the error of a module, if there is one, with what its text expects.

    Args:
        name: The file.
        expected: What the text expects.
        error: The error.
        line: The line that it is about, if known.

    Raises:
        ProgramError: The error isn't expected, or an expected one didn't occur; the message has a line each.
    """
    faults: list[str] = []
    missing = list(expected)
    if error is not None:
        message = error.msg if isinstance(error, ParseError) else str(error)
        match = next(
            (
                expectation
                for expectation in expected
                if expectation.kind == "error" and expectation.line == line and expectation.pattern.search(message)
            ),
            None,
        )
        if match is None:
            faults.append(f"{name}:{'' if line is None else f'{line}:'} unexpected error: {message}")
        else:
            missing.remove(match)
    faults += [
        f'{name}:{expectation.written}: expected {expectation.kind} "{expectation.text}" was not produced'
        for expectation in missing
    ]
    if faults:
        raise ProgramError("\n".join(faults))
