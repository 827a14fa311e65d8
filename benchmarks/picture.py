"""Plots timings: one bar per contestant for each workload, on a logarithmic scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.harness import Timing


def draw(timed: Mapping[str, Sequence[Timing]], path: Path) -> None:
    """Plots the medians, with the range of steps as a line, and writes the picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = sum(len(timings) for timings in timed.values())
    figure, axes = pyplot.subplots(
        len(timed), 1, figsize=(8, 0.9 * len(timed) + 0.32 * rows), squeeze=False, layout="constrained"
    )
    for axis, (name, timings) in zip(axes[:, 0], timed.items(), strict=True):
        medians = [1e3 * timing.median for timing in timings]
        ranges = [
            [1e3 * (timing.median - timing.low) for timing in timings],
            [1e3 * (timing.high - timing.median) for timing in timings],
        ]
        colors = ["tab:blue" if timing.name.startswith("tensorgrad") else "tab:gray" for timing in timings]
        bars = axis.barh([timing.name for timing in timings], medians, xerr=ranges, color=colors)
        axis.bar_label(bars, [f"{median:.3g} ms" for median in medians], padding=4)
        axis.set(xscale="log", title=f"{name}: milliseconds a step")
        axis.margins(x=0.2)
        axis.invert_yaxis()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
