"""The help text of `tg-opt --help` on passes and pipelines."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterable
from dataclasses import MISSING, Field, fields
from typing import Any

from tensorgrad.passes.pipelines import PIPELINES
from tensorgrad.tools.universe import TENSORGRAD_UNIVERSE

WIDTH = 100
"""The width of the list, in columns."""


def described_passes() -> str:
    """Returns a description of our pipelines and passes, in pipeline order: a summary line and the options of each."""
    pipelines = [_entry(name, kind) for name, kind in PIPELINES.items()]
    passes = [_entry(name, make()) for name, make in TENSORGRAD_UNIVERSE.all_passes.items()]
    return "\n".join(["pipelines:", *pipelines, "", "passes, in the order in which they run:", *passes])


def upstream_names(available: Iterable[str]) -> str:
    """Returns the names of xDSL's own passes."""
    names = ", ".join(sorted(set(available) - set(TENSORGRAD_UNIVERSE.all_passes)))
    wrapped = textwrap.fill(names, WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    return f"xDSL's passes:\n{wrapped}"


def _entry(name: str, kind: type) -> str:
    summary = (inspect.getdoc(kind) or "").split("\n", 1)[0]
    lines = textwrap.wrap(summary, WIDTH - 6)
    options = ", ".join(_option(field) for field in fields(kind) if field.name != "_")
    if options:
        lines += textwrap.wrap(f"options: {options}", WIDTH - 6, break_on_hyphens=False)
    return "\n".join([f"  {name}", *(f"      {line}" for line in lines)])


def _option(field: Field[Any]) -> str:
    """Returns an option as written in a pipeline, with its default if that is meaningful."""
    name = field.name.replace("_", "-")
    if field.default is MISSING or field.default in (None, (), ""):
        return name
    return f"{name}={str(field.default).lower() if isinstance(field.default, bool) else field.default}"
