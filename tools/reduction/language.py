"""Text to modules and back, as a reduction needs it: what it writes can be read again, and is as valid as its input."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from io import StringIO
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Dialect
from xdsl.printer import Printer
from xdsl.universe import Universe
from xdsl.utils.exceptions import DiagnosticException, ParseError, VerifyException

from tensorgrad.errors import ProgramError
from tensorgrad.passes.analyses.dominance import verify_dominance
from tensorgrad.runtime.errors import MALFORMED
from tensorgrad.tools.parsing import LocatingParser
from tensorgrad.tools.universe import TENSORGRAD_UNIVERSE

UNFIT = (ParseError, VerifyException, DiagnosticException, AssertionError, *MALFORMED)
"""What reading, changing, verifying or printing a module that makes no sense may come to."""

FORMS: tuple[dict[str, bool], ...] = ({}, {"print_generic_format": True}, {"print_debuginfo": True})
"""How a module may be printed. An op that is invalid may only have the generic form; a failure may be of locations."""

_SHAPE = re.compile(r"(?<=<)(?:\d+x)+")
_NUMBERS = re.compile(r"(?<=\[)[\d, ]+(?=\])|(?<=i64: )[\d, ]+(?=>)")


@dataclass(frozen=True)
class Candidate:
    """A module that may be the reduced one.

    Attributes:
        module: The module, as its text reads.
        text: The module as text.
        size: What a reduction makes smaller, the most important number first.
    """

    module: ModuleOp
    text: str
    size: tuple[int, int, int] = field(init=False)

    def __post_init__(self) -> None:
        extents = sum(int(one) for shape in _SHAPE.findall(self.text) for one in shape.split("x") if one)
        object.__setattr__(self, "size", (self.ops, len(self.text), extents))

    @property
    def ops(self) -> int:
        """How many ops it has, at any depth."""
        return sum(1 for _ in self.module.walk()) - 1


@dataclass(frozen=True)
class Language:
    """How modules are read and written.

    Attributes:
        dialects: Those of the user's own.
        unregistered: Whether ops of no dialect are read.
        verifies: Whether a module must be valid to be read.
        form: How a module is printed, of `FORMS`.
    """

    dialects: tuple[Dialect, ...] = ()
    unregistered: bool = False
    verifies: bool = True
    form: dict[str, bool] = field(default_factory=dict[str, bool])

    def read(self, text: str, name: str = "<candidate>") -> Candidate:
        """Returns the module that a text is.

        Raises:
            ProgramError: It is not IR, or is invalid.
        """
        context = Context(allow_unregistered=self.unregistered)
        known = {**Universe.get_multiverse().all_dialects, **TENSORGRAD_UNIVERSE.all_dialects}
        for dialect, load in {**known, **{one.name: lambda one=one: one for one in self.dialects}}.items():
            context.register_dialect(dialect, load)
        try:
            module = LocatingParser(context, text, name).parse_module()
            if self.verifies:
                module.verify()
                verify_dominance(module)
        except UNFIT as error:
            raise ProgramError(f"{name}: {error}") from error
        return Candidate(module, text)

    def read_any(self, text: str, name: str) -> tuple[ModuleOp, bool]:
        """Returns the module that a text is, and whether it is valid.

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
    """Yields a module's text with one number smaller wherever it is an extent, or stands in a list of numbers."""
    extents = {int(one) for shape in _SHAPE.findall(text) for one in shape.split("x") if one}
    for extent in sorted(extents, reverse=True):
        for smaller in (one for one in dict.fromkeys((1, 2, 3, extent // 2)) if 0 < one < extent):
            yield _replaced(text, extent, smaller, (_SHAPE, _NUMBERS))


def _replaced(text: str, old: int, new: int, where: Sequence[re.Pattern[str]]) -> str:
    number = re.compile(rf"(?<!\d){old}(?!\d)")
    for pattern in where:
        text = pattern.sub(lambda found: number.sub(str(new), found[0]), text)
    return text
