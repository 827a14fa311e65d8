"""A report as one page of HTML, which needs no network."""

from __future__ import annotations

import base64
import gzip
import html
import json
from dataclasses import asdict, astuple
from importlib.resources import files
from typing import Any

from tensorgrad.errors import OptionError
from tensorgrad.report.compare import Comparison, compared
from tensorgrad.report.drawings import costs, memory
from tensorgrad.report.facts import Facts, SourceLine
from tensorgrad.report.graph import graph_of
from tensorgrad.report.text import summary_of

PARTS = ("base", "code", "passes", "panel", "flow", "pictures", "search", "start")
"""The parts of the page's script, in order."""

NEEDED = "a page needs the package vl-convert-python: pip install vl-convert-python"


def page_of(facts: Facts, other: Facts | None = None) -> str:
    """Returns a page about one program, or about two side by side.

    Args:
        facts: The program's data.
        other: The data of a second program to compare with.

    Raises:
        OptionError: The package that draws is not installed; says which.
    """
    try:
        import vl_convert

        from tensorgrad.report.highlight import Highlighter
    except ImportError as error:
        raise OptionError(f"{NEEDED} ({error})") from error
    marked, (nodes, edges) = Highlighter(), graph_of(facts)
    data: dict[str, Any] = {
        "facts": _marked(facts, marked),
        "drawings": {"memory": memory(facts), "costs": costs(facts)},
        "graph": {"nodes": [asdict(node) for node in nodes], "edges": [astuple(edge) for edge in edges]},
        "comparison": None if other is None else _compared(compared(facts, other), marked),
    }
    packed = base64.b64encode(gzip.compress(json.dumps(data, separators=(",", ":")).encode(), 9, mtime=0)).decode()
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    title = facts.name if other is None else f"{facts.name} beside {other.name}"
    parts = {
        "@TITLE@": html.escape(f"{title}: report"),
        "@COLOURS@": marked.style(),
        "@STYLE@": _asset("page.css"),
        "@VEGA@": script.replace("</script", "<\\/script"),
        "@DATA@": packed,
        "@SCRIPT@": "\n".join(_asset(f"page.{part}.js") for part in PARTS),
    }
    page = _asset("page.html")
    for mark, text in parts.items():
        page = page.replace(mark, text)
    return page


def _asset(name: str) -> str:
    return files("tensorgrad.report").joinpath(name).read_text(encoding="utf-8")


def _marked(facts: Facts, marked: Any) -> dict[str, Any]:
    """Returns facts with their texts as highlighted lines."""
    results = facts.to_dict()
    results["summary"] = summary_of(facts)
    results["live"] = facts.live_bytes()
    for file in results["files"]:
        file["html"] = marked.html(file.pop("text"), "python")
    for level in results["levels"]:
        level["html"] = marked.html(level.pop("text"), "mlir")
        level["places"] = _flat(level["places"])
    for kernel in results["kernels"]:
        kernel["html"] = marked.html(kernel.pop("code"), kernel["language"])
        kernel["lines"] = [_flat(places) for places in kernel["lines"]]
    for result in results["passes"]:
        result["html"] = marked.html(result.pop("diff"), "diff")
    return results


def _flat(places: tuple[SourceLine, ...]) -> list[int]:
    return [number for place in places for number in place]


def _compared(comparison: Comparison, marked: Any) -> dict[str, Any]:
    return {
        "names": list(comparison.names),
        "figures": [list(row) for row in comparison.figures],
        "levels": [{"name": name, "html": marked.html(diff, "diff")} for name, diff in comparison.levels],
        "kernels": [list(row) for row in comparison.kernels],
    }
