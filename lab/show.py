"""Code, diffs, tables and pictures for notebooks, with the colors of reports."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape

import marimo as mo
import vl_convert

from tensorgrad.report import drawings
from tensorgrad.report.facts import Facts
from tensorgrad.report.highlight import Highlighter

WIDTH = 760
"""The width of a picture, in pixels."""


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


def memory(facts: Facts) -> mo.Html:
    """Returns a report's picture of a memory plan: dispatches to the right, offsets upwards."""
    spec = drawings.memory(facts)
    signals = [{"name": "width", "value": WIDTH} if signal["name"] == "width" else signal for signal in spec["signals"]]
    return mo.Html(vl_convert.vega_to_svg({**spec, "signals": signals}))


def lines(series: Mapping[str, tuple[Iterable[float], Iterable[float]]], title: str, scale: str = "linear") -> mo.Html:
    """Returns a picture of curves.

    Args:
        series: The x and y of each curve by its name.
        title: What is shown.
        scale: The scale of y, "linear" or "log"; points that it doesn't have are left out.
    """
    points = [
        {"x": float(x), "y": float(y), "curve": name}
        for name, pair in series.items()
        for x, y in zip(*pair, strict=True)
        if math.isfinite(y) and (y > 0 or scale != "log")
    ]
    axes = {name: {"field": name, "type": "quantitative", "title": None} for name in ("x", "y")}
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "title": title,
        "width": WIDTH // 2,
        "data": {"values": points},
        "mark": "line",
        "encoding": {**axes, "y": {**axes["y"], "scale": {"type": scale}}, "color": {"field": "curve", "title": None}},
    }
    return mo.Html(vl_convert.vegalite_to_svg(spec))


@cache
def _highlighter() -> Highlighter:
    return Highlighter()


@cache
def _style() -> str:
    return _highlighter().style()
