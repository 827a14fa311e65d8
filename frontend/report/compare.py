"""Compares two compilations."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tensorgrad.report.difference import difference
from tensorgrad.report.facts import Facts

MOST_CHANGED = 4_000
"""The most lines of a level's diff."""


@dataclass(frozen=True)
class Comparison:
    """The differences between two programs.

    Attributes:
        names: Their names.
        figures: The name of a figure, and its two values.
        levels: A unified diff by the name of each level that both have; empty where nothing differs.
        kernels: A line of the user's program, and how many dispatches it has in each of the two, if these differ.
    """

    names: tuple[str, str]
    figures: tuple[tuple[str, str, str], ...]
    levels: tuple[tuple[str, str], ...]
    kernels: tuple[tuple[str, int, int], ...]


def compared(first: Facts, second: Facts) -> Comparison:
    """Returns the differences between two programs."""
    levels = {level.name: level for level in second.levels}
    lines = [Counter[str](), Counter[str]()]
    for facts, counts in zip((first, second), lines, strict=True):
        for run in facts.runs:
            counts[run.label if run.kernel >= 0 else "copy"] += run.times
    return Comparison(
        (_title(first), _title(second)),
        tuple((name, str(value), str(figures(second).get(name, ""))) for name, value in figures(first).items()),
        tuple(
            (level.name, difference(level.text.splitlines(), levels[level.name].text.splitlines(), MOST_CHANGED))
            for level in first.levels
            if level.name in levels
        ),
        tuple(
            (label, lines[0][label], lines[1][label])
            for label in sorted({*lines[0], *lines[1]})
            if lines[0][label] != lines[1][label]
        ),
    )


def figures(facts: Facts) -> dict[str, int | float]:
    """Returns the figures of a program that are compared."""
    results: dict[str, int | float] = {
        "dispatches": facts.dispatches,
        "kernels": len(facts.kernels),
        "bytes moved": facts.bytes_moved,
        "bytes of buffers": sum(facts.arenas.values()),
        "bytes of workspace in use at most": max(facts.live_bytes(), default=0),
        "characters of kernels": sum(len(kernel.code) for kernel in facts.kernels),
    }
    if facts.passes:
        results["seconds in passes"] = round(sum(pass_.seconds for pass_ in facts.passes), 3)
    if facts.step_seconds is not None:
        results["seconds a step with each kernel measured"] = facts.step_seconds
    return results


def _title(facts: Facts) -> str:
    return f"{facts.name} on {facts.device}" if facts.device else facts.name
