"""Logs of training runs: a row for each step and evaluation, truncated to the checkpoint when a run resumes."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tensorgrad.errors import InputError, OptionError
from tensorgrad.runtime.files import naming, write_text
from tensorgrad.train.run import Callback, Record, Run
from tensorgrad.train.run_state import count, kept

__all__ = ["Log"]

Row = Mapping[str, Any]


class Log(Callback):
    """Writes the results of steps and evaluations to a file, `.csv` or `.jsonl`.

    The row of a step has `step`, `epoch`, `loss`, the loss' metrics by path, and `learning_rate`; that of an evaluation
    has `step`, `epoch`, and its metrics as `evaluation.<name>`. Nothing in it depends on the clock. `tg.fit` refuses
    metrics of the loss that have the name of another column.

    Args:
        path: The file. A resumed run first truncates it to the checkpoint, or starts it anew if it is empty.

    Raises:
        OptionError: The suffix is neither.
    """

    first_only = True
    own_names = frozenset(("step", "epoch", "loss", "learning_rate"))

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        if self.path.suffix not in (".csv", ".jsonl"):
            raise OptionError(f"a log is a .csv or a .jsonl file, got {str(path)!r}")
        self._is_csv = self.path.suffix == ".csv"
        self._columns: list[str] = []
        self._rows = 0
        self._file: io.TextIOWrapper | None = None

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues after the given number of rows.

        Raises:
            InputError: The file has fewer, and is not empty.
        """
        rows = kept("Log", state, "rows", count)
        try:
            row_count = max(len(self._lines()) - self._is_csv, 0)
        except UnicodeDecodeError as error:
            raise InputError(f"log {self.path} is damaged: {error}") from None
        is_empty = self.path.exists() and not self.path.stat().st_size
        if row_count < rows and not is_empty:
            raise InputError(
                f"log {self.path} has {row_count} rows, there were {rows} at the checkpoint: bring it back, or put an "
                "empty file there to start it anew"
            )
        self._rows = 0 if is_empty else rows

    def state_dict(self) -> dict[str, Any]:
        """Flushes the rows to disk, and returns their number."""
        if self._file is not None:
            with naming(self.path):
                self._file.flush()
                os.fsync(self._file.fileno())
        return {"rows": self._rows}

    def on_start(self, run: Run) -> None:
        """Truncates the file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines = self._lines()[: self._rows + self._is_csv] if self._rows else []
        self._columns = next(csv.reader(lines[:1]), []) if self._is_csv else []
        self._replace(lines)

    def on_records(self, run: Run, records: Sequence[Record]) -> None:
        """Writes a row for each."""
        self._write(
            [
                {"step": r.step, "epoch": r.epoch, "loss": r.loss, **r.metrics, "learning_rate": r.learning_rate}
                for r in records
            ]
        )

    def on_evaluate(self, run: Run, metrics: Mapping[str, float]) -> None:
        """Writes a row."""
        values = {f"evaluation.{name}": value for name, value in metrics.items()}
        self._write([{"step": run.step, "epoch": run.epoch, **values}])

    def close(self) -> None:
        """Closes the file."""
        file, self._file = self._file, None
        if file is not None:
            with naming(self.path):
                file.close()

    def _lines(self) -> list[str]:
        """Returns the complete lines of the file."""
        if not self.path.exists():
            return []
        return [line + "\n" for line in self.path.read_text("utf-8").split("\n")[:-1]]

    def _replace(self, lines: Sequence[str]) -> None:
        """Replaces the file with a new one that starts with the given lines, and opens it."""
        self.close()
        write_text(self.path, "".join(lines))
        self._file = self.path.open("a", encoding="utf-8", newline="")

    def _write(self, rows: Sequence[Row]) -> None:
        added = [name for row in rows for name in row if name not in self._columns]
        if self._is_csv and added:
            self._widen(list(dict.fromkeys(added)))
        assert self._file is not None
        with naming(self.path):
            for row in rows:
                self._file.write(self._line(row))
            self._file.flush()
        self._rows += len(rows)

    def _line(self, row: Row) -> str:
        if self._is_csv:
            return _csv_line([_text(row[name]) if name in row else "" for name in self._columns])
        return json.dumps({name: _number(value) for name, value in row.items()}) + "\n"

    def _widen(self, columns: Sequence[str]) -> None:
        """Adds columns, which are empty in existing rows."""
        old = self._lines()[1:] if self._columns else []
        self._columns += columns
        empty = "," * len(columns)
        self._replace([_csv_line(self._columns), *(line.rstrip("\n") + empty + "\n" for line in old)])


def _csv_line(cells: Sequence[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()


def _text(value: Any) -> str:
    """Returns a number with as few digits as its dtype needs."""
    return str(value.item() if isinstance(value, (np.integer, np.bool_)) else value)


def _number(value: Any) -> Any:
    """Returns a number for JSON, in which numbers that aren't finite are null."""
    if isinstance(value, (np.floating, float)):
        return float(str(value)) if math.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value
