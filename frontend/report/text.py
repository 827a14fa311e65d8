"""A report as text, for terminals and logs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tensorgrad.report.compare import Comparison
from tensorgrad.report.facts import Facts
from tensorgrad.runtime.columns import aligned
from tensorgrad.runtime.printable import printable


def summary_of(facts: Facts) -> str:
    """Returns a program in one line."""
    parts = [facts.device] if facts.device else []
    parts.append(f"{facts.dispatches} dispatches of {len(facts.kernels)} kernels")
    parts.append(f"{facts.bytes_moved:,} bytes moved a step")
    parts.append(f"{sum(facts.arenas.values()):,} bytes of buffers")
    if facts.step_seconds is not None:
        parts.append(f"{1e3 * facts.step_seconds:.3f} ms a step with each kernel measured")
    if facts.peaks is not None:
        memory, arithmetic = facts.peaks.bytes_per_second, facts.peaks.flops_per_second
        parts.append(f"roofline of {memory / 1e9:.1f} GB/s and {arithmetic / 1e9:.1f} GFLOP/s")
    if facts.passes:
        parts.append(f"{sum(pass_.seconds for pass_ in facts.passes):.2f} s in passes")
    return printable(", ".join(parts))


def text_of(facts: Facts) -> str:
    """Returns a report as text: passes, dispatches with their reads and writes, and the workspace over time."""
    sections = [f"{printable(facts.name)}: {summary_of(facts)}"]
    if facts.passes:
        rows = [
            (step.name, f"{step.seconds:.3f}", str(step.ops), str(step.kernels), _changed(step.diff))
            for step in facts.passes
        ]
        sections.append(_table(("pass", "seconds", "ops", "kernels", "lines changed"), rows))
    live = facts.live_bytes()
    rows = [
        (
            str(number),
            "copy" if run.kernel < 0 else facts.kernels[run.kernel].name,
            run.label,
            run.module,
            str(run.times),
            "" if run.seconds is None else f"{1e6 * run.seconds:.1f}",
            f"{run.bytes:,}",
            f"{run.flops:,}",
            f"{live[number]:,}",
        )
        for number, run in enumerate(facts.runs)
    ]
    columns = ("dispatch", "kernel", "from", "module", "times", "us", "bytes", "flops", "workspace")
    sections.append(_table(columns, rows))
    lines = _by_line(facts)
    if lines:
        sections.append(_table(("line", "dispatches"), lines))
    return "\n\n".join(sections)


def comparison_text(comparison: Comparison) -> str:
    """Returns the differences between two programs, as text."""
    sections = [_table(("", *comparison.names), comparison.figures)]
    if comparison.kernels:
        rows = [(label, str(first), str(second)) for label, first, second in comparison.kernels]
        sections.append(_table(("dispatches of the line", *comparison.names), rows))
    same = [name for name, diff in comparison.levels if not diff]
    if same:
        sections.append(f"the same at: {', '.join(same)}")
    sections += [f"{name}:\n{diff}" for name, diff in comparison.levels if diff]
    return "\n\n".join(sections)


def _by_line(facts: Facts) -> list[tuple[str, str]]:
    """Returns for each line of the user's program the dispatches that compute it."""
    runs: dict[tuple[int, int], list[str]] = {}
    for number, run in enumerate(facts.runs):
        for place in run.places:
            runs.setdefault(place, []).append(str(number))
    return [(f"{facts.files[file].path}:{line}", ", ".join(numbers)) for (file, line), numbers in sorted(runs.items())]


def _changed(diff: str) -> str:
    lines = diff.splitlines()
    added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    return f"+{added} -{removed}" if lines else ""


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(aligned([columns, *rows]))
