"""Selections of parameters by name."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from tensorgrad.errors import OptionError

Decay: TypeAlias = str | Sequence[str] | Callable[[str], bool]
"""Which parameters decay, by name: a glob such as `*.weight`, several, or a predicate."""
Groups: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Settings that override others for some parameters, by pattern: `{"*.bias": {"weight_decay": 0.0}}`."""


def chosen(owner: str, patterns: Decay, parameters: Sequence[str], what: str = "decay") -> tuple[str, ...]:
    """Returns the parameters that match patterns or a predicate.

    Raises:
        OptionError: A pattern matches none.
    """
    if callable(patterns):
        return tuple(name for name in parameters if patterns(name))
    listed = [patterns] if isinstance(patterns, str) else patterns
    for pattern in listed:
        if not fnmatch.filter(parameters, pattern):
            raise OptionError(
                f"{owner}: {what} {pattern!r} matches no parameter; the parameters are {', '.join(parameters)}"
            )
    return tuple(name for name in parameters if any(fnmatch.fnmatchcase(name, pattern) for pattern in listed))


def check_choice(owner: str, patterns: Decay | None, what: str = "decay") -> None:
    """Checks that a selection consists of patterns, or is a function.

    Raises:
        OptionError: It is neither.
    """
    names = isinstance(patterns, Sequence) and all(isinstance(pattern, str) for pattern in patterns)
    if patterns is not None and not names and not callable(patterns):
        raise OptionError(
            f"{owner}: {what} must be a pattern, a list of them or a function of a name, got {patterns!r}"
        )


def group_numbers(
    owner: str, groups: Mapping[str, Mapping[str, float]], parameters: Sequence[str]
) -> dict[str, dict[str, int]]:
    """Returns the group that determines each setting of each parameter: the last whose pattern matches.

    Raises:
        OptionError: A pattern matches no parameter; names the nearest.
    """
    for pattern in groups:
        if not any(fnmatch.fnmatchcase(path, pattern) for path in parameters):
            near = ", ".join(difflib.get_close_matches(pattern, parameters, cutoff=0))
            raise OptionError(f"{owner}: groups: {pattern!r} matches no trained parameter; the nearest are {near}")
    results: dict[str, dict[str, int]] = {path: {} for path in parameters}
    for number, (pattern, settings) in enumerate(groups.items(), 1):
        for path in parameters:
            if fnmatch.fnmatchcase(path, pattern):
                results[path] |= dict.fromkeys(settings, number)
    return results
