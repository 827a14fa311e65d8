"""Tuned schedules in a JSON file: the best for each kernel, and the state of interrupted searches."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.schedule import Schedule, fields_of, schedule_of
from tensorgrad.runtime.errors import MALFORMED
from tensorgrad.runtime.files import write_text

FORMAT = 5
"""The version of the format, which changes with the meaning of schedules or kernel keys; other files are ignored."""


@dataclass
class Search:
    """An unfinished search for a kernel's schedule.

    Attributes:
        seconds: The seconds of a run with the default schedule.
        best: The best schedule so far.
        tried: The schedules measured so far, including the best.
    """

    seconds: float
    best: Schedule
    tried: set[Schedule] = field(default_factory=set[Schedule])


def read_table(path: Path) -> dict[str, Schedule]:
    """Returns the schedules in a file by `kernel_key`; none if the file is missing or has another format version.

    Raises:
        DiagnosticException: The file is malformed.
    """
    return read_file(path)[0]


def read_file(path: Path) -> tuple[dict[str, Schedule], dict[str, Search]]:
    """Returns the schedules and the unfinished searches in a file, by `kernel_key`; see `read_table`.

    Raises:
        DiagnosticException: The file is malformed.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            return {}, {}
        table = {key: _schedule(entry) for key, entry in data["kernels"].items()}
        return table, {key: _search(entry) for key, entry in data.get("searches", {}).items()}
    except FileNotFoundError:
        return {}, {}
    except MALFORMED as error:
        raise DiagnosticException(f"{path} is not a table of tuned schedules; delete it ({error!r})") from error


def write_table(path: Path, table: Mapping[str, Schedule], searches: Mapping[str, Search] | None = None) -> None:
    """Writes schedules and unfinished searches to a file, which is replaced atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {
        "format": FORMAT,
        "kernels": {key: _written(schedule) for key, schedule in sorted(table.items())},
        "searches": {
            key: {
                "seconds": search.seconds,
                "best": _written(search.best),
                "tried": sorted(map(_written, search.tried), key=json.dumps),
            }
            for key, search in sorted((searches or {}).items())
        },
    }
    write_text(path, json.dumps(data, indent=1))


def _search(data: Mapping[str, Any]) -> Search:
    return Search(float(data["seconds"]), _schedule(data["best"]), {_schedule(tried) for tried in data["tried"]})


def _written(schedule: Schedule) -> dict[str, Any]:
    return {"archetype": schedule.archetype, **fields_of(schedule)}


def _schedule(data: Mapping[str, Any]) -> Schedule:
    """Returns a schedule from an untrusted file.

    Raises:
        ValueError, LookupError, TypeError, AttributeError: The data is not a schedule.
    """
    return schedule_of(data["archetype"], {name: value for name, value in data.items() if name != "archetype"})
