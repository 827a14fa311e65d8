"""Parses and prints modules for a reduction: printed modules can be parsed again, and are as valid as the input."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from io import StringIO
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer
from xdsl.utils.exceptions import DiagnosticException, ParseError, VerifyException

from tensorgrad.errors import ProgramError
from tensorgrad.passes.analyses.structure import verify_structure
from tensorgrad.runtime.errors import MALFORMED

UNFIT = (ParseError, VerifyException, DiagnosticException, AssertionError, *MALFORMED)
"""The exceptions that parsing, changing, verifying or printing an invalid module may raise."""

FORMS: tuple[dict[str, bool], ...] = ({}, {"print_generic_format": True}, {"print_debuginfo": True})
"""The forms in which a module may be printed. An invalid op may need the generic form; a failure may need locations."""

_SHAPE = re.compile(r"(?<=<)(?:\d+x)+")
_NUMBERS = re.compile(r"(?<=\[)[\d, ]+(?=\])|(?<=i64: )[\d, ]+(?=>)")


@dataclass(frozen=True)
class Candidate:
    """A candidate for the reduced module.

    Attributes:
        module: The module, as parsed from its text.
        text: The module as text.
        size: The numbers to minimize, the most important first.
    """

    module: ModuleOp
    text: str
    size: tuple[int, int, int] = field(init=False)

    def __post_init__(self) -> None:
        extents = sum(int(extent) for shape in _SHAPE.findall(self.text) for extent in shape.split("x") if extent)
        object.__setattr__(self, "size", (self.ops, len(self.text), extents))

    @property
    def ops(self) -> int:
        """The number of ops, at any depth."""
        return sum(1 for _ in self.module.walk()) - 1


@dataclass(frozen=True)
class Language:
    """How modules are parsed and printed.

    Attributes:
        parse: Returns the module of a text, given the text and its name in messages.
        verifies: Whether modules must be valid.
        form: The form in which modules are printed, one of `FORMS`.
    """

    parse: Callable[[str, str], ModuleOp]
    verifies: bool = True
    form: dict[str, bool] = field(default_factory=dict[str, bool])

    def read(self, text: str, name: str = "<candidate>") -> Candidate:
        """Returns the module of a text.

        Raises:
            ProgramError: It is not IR, or is invalid.
        """
        try:
            module = self.parse(text, name)
            if self.verifies:
                module.verify()
                verify_structure(module)
        except UNFIT as error:
            raise ProgramError(f"{name}: {error}") from error
        return Candidate(module, text)

    def read_any(self, text: str, name: str) -> tuple[ModuleOp, bool]:
        """Returns the module of a text, and whether it is valid.

        Raises:
            ProgramError: It is not IR.
        """
        try:
            return replace(self, verifies=True).read(text, name).module, True
        except ProgramError:
            return replace(self, verifies=False).read(text, name).module, False

    def written(self, module: ModuleOp) -> str:
        """Returns a module as text."""
        out = StringIO()
        options: dict[str, Any] = dict(self.form)
        Printer(stream=out, **options).print_op(module)
        return out.getvalue().strip() + "\n"


def with_smaller_extents(text: str) -> Iterator[str]:
    """Yields a module's text with one number reduced wherever it is an extent or in a list of numbers."""
    extents = {int(number) for shape in _SHAPE.findall(text) for number in shape.split("x") if number}
    for extent in sorted(extents, reverse=True):
        for smaller in (
            smaller_extent for smaller_extent in dict.fromkeys((1, 2, 3, extent // 2)) if 0 < smaller_extent < extent
        ):
            yield _replaced(text, extent, smaller, (_SHAPE, _NUMBERS))


def _replaced(text: str, old: int, new: int, where: Sequence[re.Pattern[str]]) -> str:
    number = re.compile(rf"(?<!\d){old}(?!\d)")
    for pattern in where:
        text = pattern.sub(lambda match: number.sub(str(new), match[0]), text)
    return text
