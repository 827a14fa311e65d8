"""The progress display of a training run: a bar on terminals, a few lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tensorgrad.train.run import Callback, Record, Run, numbers

LINES = 10
"""The number of lines that a run of known length prints without a terminal, besides one per evaluation."""
STEPS_A_LINE = 1000
"""The number of steps per line of a run of unknown length."""


class ProgressBar(Callback):
    """Shows the step, the loss, the speed and the remaining time."""

    first_only = True

    def __init__(self) -> None:
        self._console = Console()
        self._bar: Progress | None = None
        self._evaluation = ""
        self._next_line = 0

    def on_start(self, run: Run) -> None:
        """Shows the bar."""
        self._started, self._first = time.perf_counter(), run.steps_done
        self._every = max(1, run.steps // LINES) if run.steps else STEPS_A_LINE
        self._next_line = run.steps_done + self._every
        if self._console.is_terminal:
            columns = (
                TextColumn("step {task.fields[step]}"),
                BarColumn(),
                TextColumn("{task.fields[shown]}"),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, console=self._console)
            self._task = self._bar.add_task("", total=run.steps, completed=run.steps_done, step=run.step, shown="")
            self._bar.start()

    def on_records(self, run: Run, records: Sequence[Record]) -> None:
        """Shows the last record."""
        last = records[-1]
        rate = (run.steps_done - self._first) / max(time.perf_counter() - self._started, 1e-9)
        shown = f"loss {last.loss:.4g}, {rate:.3g} steps/s"
        if self._bar is not None:
            self._bar.update(self._task, completed=run.steps_done, step=last.step, shown=shown + self._evaluation)
        elif run.steps_done >= self._next_line:
            self._next_line = (run.steps_done // self._every + 1) * self._every
            total = "" if run.last_step is None else f" of {run.last_step}"
            self._print(f"step {last.step}{total}: {shown}")

    def on_evaluate(self, run: Run, metrics: Mapping[str, float]) -> None:
        """Shows the evaluation."""
        if self._bar is not None:
            self._evaluation = f"; {numbers(metrics)}"
        else:
            self._print(f"step {run.step}, evaluation: {numbers(metrics)}")

    def on_end(self, run: Run) -> None:
        """Removes the bar and prints a summary."""
        self.close()
        self._print(str(run.report()))

    def close(self) -> None:
        """Removes the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)
