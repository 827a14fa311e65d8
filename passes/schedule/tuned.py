"""Schedules that were measured, kept by kernel in a JSON file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.passes.schedule.schedules import TILE_LOOPS, Schedule, Tile

FORMAT = 3
"""Grows when schedules or what kernels are called by change their meaning; files of another format are not read."""


def read_table(path: Path) -> dict[str, Schedule]:
    """The schedules in a file, by `kernel_key`; none where there is no file, or one of another format.

    Raises:
        DiagnosticException: The file is malformed.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            return {}
        return {key: _schedule(found) for key, found in data["kernels"].items()}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DiagnosticException(f"{path} is no table of tuned schedules; delete it ({error!r})") from error


def write_table(path: Path, table: Mapping[str, Schedule]) -> None:
    """Writes schedules to a file, at once when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {"format": FORMAT, "kernels": {key: asdict(schedule) for key, schedule in sorted(table.items())}}
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    aside.write_text(json.dumps(data, indent=1), encoding="utf-8")
    aside.replace(path)


def _schedule(data: Mapping[str, Any]) -> Schedule:
    workgroup, groups = (cast("tuple[int, int, int]", tuple(data[name])) for name in ("workgroup", "groups"))
    fields: dict[str, Any] | None = data["tile"]
    tile = None
    if fields is not None:
        row, column = (cast("tuple[int, ...]", tuple(fields[name])) for name in TILE_LOOPS)
        tile = Tile(row, column, **{name: value for name, value in fields.items() if name not in TILE_LOOPS})
    return Schedule(data["archetype"], workgroup, groups, tile, data["width"], data["steps"])
