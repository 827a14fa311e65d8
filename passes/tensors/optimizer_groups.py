"""Settings of optimizers: which parameters have which, and what the host computes from them for each step."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.signature import Slot
from tensorgrad.runtime.formula import Formula

RATE = "learning_rate"
"""The setting that every optimizer has, and that is always given by the host."""


@dataclass(frozen=True)
class Group:
    """Parameters with settings in common.

    Attributes:
        parameters: Their names; none for all that are in no other group.
        values: Their settings, where they have others than the optimizer's own.
        names: What the host calls settings that it gives at each step; others are constants of the program.
    """

    parameters: tuple[str, ...] = ()
    values: Mapping[str, float] = field(default_factory=dict[str, float])
    names: Mapping[str, str] = field(default_factory=dict[str, str])


def read_groups(text: str | None, settings: Collection[str], where: str) -> list[Group]:
    """The groups that a pass' option has as JSON: a list of objects with `parameters`, `values` and maybe `names`.

    Raises:
        DiagnosticException: It is something else, has a setting that is none, or a parameter twice.
    """
    if text is None:
        return []
    try:
        groups = [_group(one) for one in cast(Sequence[Mapping[str, Any]], json.loads(text))]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DiagnosticException(f"{where}: groups must be JSON of parameters, values and names: {error}") from error
    parameters = [name for group in groups for name in group.parameters]
    for name in parameters:
        if parameters.count(name) > 1:
            raise DiagnosticException(f"{where}: {name!r} is in two groups")
    for name in (name for group in groups for name in (*group.values, *group.names)):
        if name not in settings and name != RATE:
            raise DiagnosticException(f"{where}: groups have no setting {name!r}")
    return groups


def _group(given: Mapping[str, Any]) -> Group:
    values = {str(name): float(value) for name, value in given["values"].items()}
    names = {str(name): str(own) for name, own in given.get("names", {}).items()}
    return Group(tuple(map(str, given["parameters"])), values, names)


@dataclass(frozen=True)
class Coefficients:
    """What updates are computed with, besides parameters, gradients and state.

    Attributes:
        slots: The scalars that the host computes for each step.
        by_group: For each group, the optimizer's own first: a constant, or the name of a scalar.
    """

    slots: tuple[Slot, ...]
    by_group: tuple[Mapping[str, float | str], ...]


def coefficients(
    formulas: Mapping[str, str],
    tables: Sequence[Mapping[str, str]],
    unused: Sequence[Collection[str]],
) -> Coefficients:
    """Scalars and constants for formulas.

    Args:
        formulas: By name, in terms of `step` and the settings.
        tables: For each group, what stands for a setting: a formula in terms of `step` and what the host gives.
        unused: For each group, the names that it does without.

    Returns:
        What stays a formula is a scalar, which groups share where it is the same.
    """
    slots: dict[str, Slot] = {}
    by_group: list[dict[str, float | str]] = []
    for number, (table, without) in enumerate(zip(tables, unused, strict=True)):
        found: dict[str, float | str] = {}
        for name, formula in formulas.items():
            if name in without:
                continue
            text = substituted(formula, table)
            parsed = Formula(text)
            if not parsed.names:
                found[name] = parsed.evaluate({})
                continue
            same = [one for one in (name, *(f"{name}.{i}" for i in range(1, number))) if one in slots]
            shared = next((one for one in same if slots[one].formula == text), None)
            own = name if not number else f"{name}.{number}"
            found[name] = own if shared is None else shared
            if shared is None:
                slots[own] = Slot(own, "scalar", text)
        by_group.append(found)
    return Coefficients(tuple(slots.values()), tuple(by_group))


def substituted(formula: str, table: Mapping[str, str]) -> str:
    """A formula with other terms for some of its names."""
    return re.sub(r"\b[A-Za-z_]\w*", lambda match: table.get(match[0], match[0]), formula)
