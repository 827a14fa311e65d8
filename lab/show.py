"""Code, diffs, tables and pictures for notebooks, with the colors of reports."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from itertools import cycle

import marimo as mo

from tensorgrad.report.highlight import Highlighter


def code(text: str, language: str = "mlir", height: int = 420) -> mo.Html:
    """Returns a text with colours, in a frame that scrolls.

    Args:
        text: The text.
        language: "mlir", "python", "wgsl", "llvm" or "diff".
        height: The greatest height of the frame, in pixels.
    """
    marked, style = _highlighter().html(text, language), _style()
    frame = f"max-height: {height}px; overflow: auto; font-size: 12px; line-height: 1.45; margin: 0; padding: 8px"
    return mo.Html(f'<style>{style}</style><div class="code"><pre style="{frame}">{marked}</pre></div>')


def diff(text: str, height: int = 420) -> mo.Html:
    """Returns a unified diff with colours; says so if there is nothing to show."""
    return code(text, "diff", height) if text else mo.md("*It changes nothing.*")


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> mo.Html:
    """Returns a table."""
    style = 'style="padding: 2px 10px; text-align: left"'
    head = "".join(f"<th {style}>{escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td {style}>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return mo.Html(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")


COLORS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2")
"""The colors of the pictures of reports."""
WIDTH, HEIGHT = 420, 220
"""The size of a picture, in pixels."""


def lines(
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]], title: str, logarithmic: bool = False
) -> mo.Html:
    """Returns a picture of curves.

    Args:
        series: The x and y of each curve by its name; points that are not finite are left out.
        title: What is shown.
        logarithmic: Whether y has a logarithmic scale.
    """
    scale = math.log10 if logarithmic else float
    points: dict[str, list[tuple[float, float]]] = {}
    for name, (across, up) in series.items():
        pairs = [(float(x), float(y)) for x, y in zip(across, up, strict=True) if math.isfinite(y)]
        points[name] = [(x, scale(y)) for x, y in pairs if y > 0 or not logarithmic]
    every = [point for curve in points.values() for point in curve] or [(0.0, 0.0)]
    (left, right), (low, high) = ((min(axis), max(axis)) for axis in zip(*every, strict=True))

    def at(x: float, y: float) -> str:
        across, up = (x - left) / ((right - left) or 1), (y - low) / ((high - low) or 1)
        return f"{across * WIDTH:.1f},{HEIGHT - up * HEIGHT:.1f}"

    parts: list[str] = []
    for color, curve in zip(cycle(COLORS), points.values(), strict=False):
        places = " ".join(at(*point) for point in curve)
        parts.append(f'<polyline fill="none" stroke="{color}" stroke-width="1.5" points="{places}"/>')
    keys = " ".join(
        f'<span style="color: {color}">{escape(name)}</span>'
        for color, name in zip(cycle(COLORS), points, strict=False)
    )
    ends = [f"{10**end if logarithmic else end:.3g}" for end in (low, high)]
    return _picture(f"{escape(title)}: {keys}, from {ends[0]} to {ends[1]}", parts)


def plan(buffers: Iterable[tuple[int, int, int, int, str]]) -> mo.Html:
    """Returns a picture of a memory plan: dispatches to the right, offsets upwards.

    Args:
        buffers: For each the first and the last dispatch, its offset and size in bytes, and its name.
    """
    rows = list(buffers)
    steps = max((last + 1 for _, last, *_ in rows), default=1)
    size = max((offset + count for _, _, offset, count, _ in rows), default=1)
    parts: list[str] = []
    for color, (first, last, offset, count, name) in zip(cycle(COLORS), rows, strict=False):
        x, width = first / steps * WIDTH, (last + 1 - first) / steps * WIDTH
        y, height = HEIGHT - (offset + count) / size * HEIGHT, count / size * HEIGHT
        box = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
        parts.append(f'<rect {box} fill="{color}" opacity="0.8"><title>{escape(name)}: {count:,} bytes</title></rect>')
    return _picture(f"{steps} dispatches, {size:,} bytes", parts)


def _picture(caption: str, parts: Iterable[str]) -> mo.Html:
    frame = f'viewBox="-2 -2 {WIDTH + 4} {HEIGHT + 4}" style="width: 100%; max-width: {WIDTH}px"'
    return mo.Html(f'<figure><svg role="img" {frame}>{"".join(parts)}</svg><figcaption>{caption}</figcaption></figure>')


@cache
def _highlighter() -> Highlighter:
    return Highlighter()


@cache
def _style() -> str:
    return _highlighter().style()
