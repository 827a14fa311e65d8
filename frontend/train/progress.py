"""The progress display of a training run: a bar on terminals and in notebooks, a few lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tensorgrad.train.run import Callback, Record, Run, numbers

LINES = 10
"""The number of lines that a run of known length prints without a terminal, besides one per evaluation."""
STEPS_A_LINE = 1000
"""The number of steps per line of a run of unknown length."""


class Display(Protocol):
    """A place in a notebook's output."""

    def update(self, shown: NotebookBar) -> object:
        """Shows something in place of what was there."""
        ...


class MarimoDisplay:
    """The output of the running cell of a marimo notebook."""

    def __init__(self, shown: NotebookBar):
        self.update(shown)

    def update(self, shown: NotebookBar) -> None:
        """Shows something in place of what was there; the cell's own result replaces it at the end."""
        sys.modules["marimo"].output.replace(shown)


def _jupyter(shown: NotebookBar) -> Display:
    """Returns a display of a Jupyter notebook, in which something is shown."""
    return sys.modules["IPython.display"].display(shown, display_id=True)


def notebook() -> Callable[[NotebookBar], Display] | None:
    """Returns what opens a display in the notebook in which this runs, with what it shows first; `None` elsewhere.

    A notebook has imported its package: that of marimo says whether it runs one, and IPython has a kernel in Jupyter.
    """
    if getattr(sys.modules.get("marimo"), "running_in_notebook", lambda: False)():
        return MarimoDisplay
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    is_jupyter = getattr(shell, "kernel", None) is not None and "IPython.display" in sys.modules
    return _jupyter if is_jupyter else None


class NotebookBar:
    """A bar in a notebook: one display, which each update replaces."""

    def __init__(self, total: int | None, done: int, opened: Callable[[NotebookBar], Display]):
        self._total, self._done, self._text = total, done, ""
        self._display = opened(self)

    def update(self, done: int, text: str) -> None:
        """Shows how many steps are done, and a text."""
        self._done, self._text = done, text
        self._display.update(self)

    def _repr_html_(self) -> str:
        extents = "" if self._total is None else f' max="{self._total}" value="{self._done}"'
        return f'<progress{extents}></progress> <span style="font-family: monospace">{escape(self._text)}</span>'

    def __repr__(self) -> str:
        return self._text


class ProgressBar(Callback):
    """Shows the step, the loss, the speed and the remaining time."""

    first_only = True

    def __init__(self) -> None:
        self._console = Console()
        self._bar: Progress | None = None
        self._notebook: NotebookBar | None = None
        self._evaluation = ""
        self._next_line = 0

    def on_start(self, run: Run) -> None:
        """Shows the bar."""
        self._started, self._first = time.perf_counter(), run.steps_done
        self._every = max(1, run.steps // LINES) if run.steps else STEPS_A_LINE
        self._next_line = run.steps_done + self._every
        opened = notebook()
        if opened is not None:
            self._notebook = NotebookBar(run.steps, run.steps_done, opened)
        elif self._console.is_terminal:
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
        if self._notebook is not None:
            total = "" if run.last_step is None else f" of {run.last_step}"
            self._notebook.update(run.steps_done, f"step {last.step}{total}: {shown}{self._evaluation}")
        elif self._bar is not None:
            self._bar.update(self._task, completed=run.steps_done, step=last.step, shown=shown + self._evaluation)
        elif run.steps_done >= self._next_line:
            self._next_line = (run.steps_done // self._every + 1) * self._every
            total = "" if run.last_step is None else f" of {run.last_step}"
            self._print(f"step {last.step}{total}: {shown}")

    def on_evaluate(self, run: Run, metrics: Mapping[str, float]) -> None:
        """Shows the evaluation."""
        if self._bar is not None or self._notebook is not None:
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
