"""Schedules that were measured, kept by kernel in a JSON file: the best of each, and searches that were cut short."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.schedule import TILE_LOOPS, Schedule, Tile

ARCHETYPES = ("thread", "group", "contraction", "attention")

FORMAT = 3
"""Grows when schedules or what kernels are called by change their meaning; files of another format are not read."""


@dataclass
class Search:
    """A search for a kernel's schedule that is not over.

    Attributes:
        seconds: What a run takes under the default schedule.
        best: The best so far.
        tried: What was measured, the best included.
    """

    seconds: float
    best: Schedule
    tried: set[Schedule] = field(default_factory=set[Schedule])


def read_table(path: Path) -> dict[str, Schedule]:
    """The schedules in a file, by `kernel_key`; none where there is no file, or one of another format.

    Raises:
        DiagnosticException: The file is malformed.
    """
    return read_file(path)[0]


def read_file(path: Path) -> tuple[dict[str, Schedule], dict[str, Search]]:
    """The schedules in a file, and the searches that are not over, by `kernel_key`; see `read_table`.

    Raises:
        DiagnosticException: The file is malformed.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            return {}, {}
        table = {key: _schedule(found) for key, found in data["kernels"].items()}
        return table, {key: _search(found) for key, found in data.get("searches", {}).items()}
    except FileNotFoundError:
        return {}, {}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DiagnosticException(f"{path} is no table of tuned schedules; delete it ({error!r})") from error


def write_table(path: Path, table: Mapping[str, Schedule], searches: Mapping[str, Search] | None = None) -> None:
    """Writes schedules, and searches that are not over, to a file, at once when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {
        "format": FORMAT,
        "kernels": {key: asdict(schedule) for key, schedule in sorted(table.items())},
        "searches": {
            key: {
                "seconds": search.seconds,
                "best": asdict(search.best),
                "tried": sorted(map(asdict, search.tried), key=json.dumps),
            }
            for key, search in sorted((searches or {}).items())
        },
    }
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    aside.write_text(json.dumps(data, indent=1), encoding="utf-8")
    aside.replace(path)


def _search(data: Mapping[str, Any]) -> Search:
    return Search(float(data["seconds"]), _schedule(data["best"]), {_schedule(one) for one in data["tried"]})


def _schedule(data: Mapping[str, Any]) -> Schedule:
    """A schedule from a file of anybody's.

    Raises:
        ValueError, LookupError, TypeError, AttributeError: It is none.
    """
    workgroup, groups = (cast("tuple[int, int, int]", _numbers(data[name], 1)) for name in ("workgroup", "groups"))
    if len(workgroup) != 3 or len(groups) != 3 or data["archetype"] not in ARCHETYPES:
        raise ValueError(f"no schedule: {data}")
    _numbers([data["width"], data["steps"]], 1)
    fields: dict[str, Any] | None = data["tile"]
    tile = None
    if fields is not None:
        row, column = (_numbers(fields[name], 0) for name in TILE_LOOPS)
        _numbers([value for name, value in fields.items() if name not in TILE_LOOPS], -1)
        tile = Tile(row, column, **{name: value for name, value in fields.items() if name not in TILE_LOOPS})
    return Schedule(data["archetype"], workgroup, groups, tile, data["width"], data["steps"])


def _numbers(values: Sequence[object], least: int) -> tuple[int, ...]:
    if not all(isinstance(value, int) and not isinstance(value, bool) and least <= value < 1 << 31 for value in values):
        raise ValueError(f"numbers from {least} are wanted, there are {values}")
    return tuple(cast("Sequence[int]", values))
