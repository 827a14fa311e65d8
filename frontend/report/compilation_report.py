"""`CompilationReport`: the result of `training.report()`."""

from __future__ import annotations

import html
import os
from dataclasses import dataclass

from tensorgrad.report.compare import compared
from tensorgrad.report.facts import Facts
from tensorgrad.report.text import comparison_text, summary_of, text_of
from tensorgrad.runtime.files import write_text


@dataclass(frozen=True)
class CompilationReport:
    """A report on a compilation, or on two side by side; `print` shows it as text.

    Attributes:
        facts: Its data; `facts.to_dict()` is the JSON form.
        beside: The data of a compilation to compare with, or None.
    """

    facts: Facts
    beside: Facts | None = None

    def __repr__(self) -> str:
        return f"CompilationReport({self.facts.name!r}: {summary_of(self.facts)})"

    def __str__(self) -> str:
        text = text_of(self.facts)
        return text if self.beside is None else f"{text}\n\n{comparison_text(compared(self.facts, self.beside))}"

    def _repr_html_(self) -> str:
        """Returns a small form for notebooks."""
        title, text = html.escape(f"{self.facts.name}: {summary_of(self.facts)}"), html.escape(str(self))
        return f"<details><summary>{title}</summary><pre>{text}</pre></details>"

    def page(self) -> str:
        """Returns one page of HTML that needs no network.

        Raises:
            OptionError: The packages of the extra `report` are not installed.
        """
        from tensorgrad.report.page import page_of

        return page_of(self.facts, self.beside)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page to a file.

        Raises:
            OptionError: The packages of the extra `report` are not installed.
            OSError: The file can't be written.
        """
        write_text(path, self.page())
