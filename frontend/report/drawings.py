"""The pictures of a report, as specifications of Vega."""

from __future__ import annotations

from typing import Any, TypeAlias

from tensorgrad.report.facts import Facts

Spec: TypeAlias = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega/v6.json"
"""The schema of Vega's language, with its version."""

WIDTH: Spec = {
    "name": "width",
    "init": "containerSize()[0]",
    "on": [{"events": "window:resize", "update": "containerSize()[0]"}],
}
"""The signal of a picture's width: that of the page."""


def _named(facts: Facts, number: int) -> str:
    value = facts.values[number]
    return f"{value.name}: {value.type}, {value.bytes} bytes"


LIVES: list[Spec] = [
    {
        "name": "life",
        "type": "rect",
        "from": {"data": "lives"},
        "encode": {
            "enter": {
                "x": {"scale": "x", "field": "first"},
                "y": {"scale": "y", "field": "high"},
                "y2": {"scale": "y", "field": "low"},
                "fill": {"scale": "colour", "field": "label"},
                "fillOpacity": {"value": 0.75},
                "stroke": {"value": "#888"},
                "strokeWidth": {"value": 0.5},
                "tooltip": {"field": "what"},
                "cursor": {"value": "pointer"},
            },
            "update": {"x": {"scale": "x", "field": "first"}, "x2": {"scale": "x", "field": "end"}},
            "hover": {"fillOpacity": {"value": 1}},
        },
    },
    {
        "type": "line",
        "from": {"data": "live"},
        "encode": {
            "enter": {
                "interpolate": {"value": "step-after"},
                "stroke": {"value": "#e45756"},
                "strokeWidth": {"value": 2},
            },
            "update": {"x": {"scale": "x", "field": "dispatch"}, "y": {"scale": "y", "field": "bytes"}},
        },
    },
]
"""The marks of buffers by dispatch and offset, and of live bytes."""


def memory(facts: Facts) -> Spec:
    """Returns the picture of the workspace: the offset and live range of each buffer."""
    lives = [
        {
            "first": value.first,
            "end": value.last + 1,
            "low": value.offset,
            "high": value.offset + value.bytes,
            "what": f"{_named(facts, number)}, dispatches {value.first} to {value.last}",
            "label": facts.runs[value.first].label,
        }
        for number, value in enumerate(facts.values)
        if value.role == "workspace" and value.first >= 0
    ]
    live = facts.live_bytes()
    steps = [{"dispatch": number, "bytes": count} for number, count in enumerate(live)]
    peak = max(range(len(live)), key=lambda number: live[number], default=0)
    x = {"name": "x", "domain": [0, max(1, len(live))], "range": "width"}
    high = max([life["high"] for life in lives], default=1)
    return {
        "$schema": SCHEMA,
        "description": f"The workspace of {facts.name}: buffers by dispatch and offset",
        "height": 380,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "signals": [
            WIDTH,
            {"name": "chosen", "value": -1, "on": [{"events": "@life:click", "update": "datum.first"}]},
        ],
        "data": [{"name": "lives", "values": lives}, {"name": "live", "values": steps}],
        "scales": [
            x,
            {"name": "y", "domain": [0, high], "range": "height"},
            {
                "name": "colour",
                "type": "ordinal",
                "domain": {"data": "lives", "field": "label"},
                "range": {"scheme": "tableau20"},
            },
        ],
        "axes": [
            {"orient": "bottom", "scale": "x", "title": "dispatch", "tickMinStep": 1},
            {"orient": "left", "scale": "y", "title": "bytes", "format": ".3s", "grid": True, "gridOpacity": 0.3},
        ],
        "marks": [
            *LIVES,
            {
                "type": "rule",
                "encode": {
                    "enter": {
                        "stroke": {"value": "#e45756"},
                        "strokeDash": {"value": [4, 3]},
                        "tooltip": {"value": f"the most: {live[peak] if live else 0:,} bytes at dispatch {peak}"},
                    },
                    "update": {"x": {"scale": "x", "value": peak + 0.5}, "y": {"value": 0}, "y2": {"signal": "height"}},
                },
            },
        ],
    }


def costs(facts: Facts) -> Spec:
    """Returns the picture of each dispatch's cost: its time if measured, else its bytes moved."""
    timed = any(run.seconds is not None for run in facts.runs)
    rows = [
        {
            "run": number,
            "name": f"{number} {facts.kernels[run.kernel].name if run.kernel >= 0 else 'copy'} {run.label}",
            "cost": 1e6 * (run.seconds or 0.0) if timed else run.times * run.bytes,
        }
        for number, run in enumerate(facts.runs)
    ]
    rows = sorted(rows, key=lambda row: -float(row["cost"]))[:40]
    unit = "us" if timed else "bytes"
    return {
        "$schema": SCHEMA,
        "description": f"What the dispatches of {facts.name} take",
        "height": 18 * max(1, len(rows)),
        "autosize": {"type": "fit-x", "contains": "padding"},
        "signals": [WIDTH, {"name": "chosen", "value": -1, "on": [{"events": "@bar:click", "update": "datum.run"}]}],
        "data": [{"name": "rows", "values": rows}],
        "scales": [
            {"name": "x", "domain": {"data": "rows", "field": "cost"}, "range": "width", "zero": True, "nice": True},
            {
                "name": "y",
                "type": "band",
                "domain": {"data": "rows", "field": "name"},
                "range": "height",
                "padding": 0.15,
            },
        ],
        "axes": [
            {
                "orient": "top",
                "scale": "x",
                "title": "microseconds in a step" if timed else "bytes moved in a step",
                "format": "s",
            },
            {"orient": "left", "scale": "y", "labelLimit": 260},
        ],
        "marks": [
            {
                "name": "bar",
                "type": "rect",
                "from": {"data": "rows"},
                "encode": {
                    "enter": {
                        "fill": {"value": "#4c78a8"},
                        "cursor": {"value": "pointer"},
                        "tooltip": {"signal": f"format(datum.cost, '{',.1f' if timed else ',d'}') + ' {unit}'"},
                    },
                    "update": {
                        "x": {"scale": "x", "value": 0},
                        "x2": {"scale": "x", "field": "cost"},
                        "y": {"scale": "y", "field": "name"},
                        "height": {"scale": "y", "band": 1},
                    },
                },
            }
        ],
    }
