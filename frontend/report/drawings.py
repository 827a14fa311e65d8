"""The pictures of a report, as specifications of Vega."""

from __future__ import annotations

from typing import Any, TypeAlias

from tensorgrad.report.facts import Facts
from tensorgrad.report.graph import GraphLayout, graph_of, laid_out

Spec: TypeAlias = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega/v6.json"
"""The schema of Vega's language, with its version."""

ACROSS, DOWN = 190, 90
"""The initial spacing of nodes in the data flow, in pixels."""

ROLES = {"dispatch": "#4c78a8", "copy": "#9d755d", "input": "#54a24b", "output": "#e45756"}
"""The colours of nodes."""

MOVED: list[Spec] = [
    {
        "name": "width",
        "init": "containerSize()[0]",
        "on": [{"events": "window:resize", "update": "containerSize()[0]"}],
    },
    {
        "name": "down",
        "value": None,
        "on": [
            {"events": "pointerdown[!event.item || event.item.mark.name != 'node']", "update": "xy()"},
            {"events": "window:pointerup", "update": "null"},
        ],
    },
    {"name": "from", "value": [0, 0], "on": [{"events": {"signal": "down"}, "update": "middle"}]},
    {
        "name": "middle",
        "init": "[focus[0], focus[1]]",
        "on": [
            {
                "events": "[pointerdown, window:pointerup] > window:pointermove!",
                "update": "down ? [from[0] - (x() - down[0]) / zoom, from[1] - (y() - down[1]) / zoom] : middle",
            },
            {"events": {"signal": "shift"}, "update": "[middle[0] + shift[0] / zoom, middle[1] + shift[1] / zoom]"},
            {"events": {"signal": "reset"}, "update": "[focus[0], focus[1]]"},
        ],
    },
    {
        "name": "zoom",
        "init": "start",
        "on": [
            {
                "events": {"type": "wheel", "consume": True},
                "update": "clamp(zoom * pow(1.001, -event.deltaY * pow(16, event.deltaMode)), 0.02, 4)",
            },
            {"events": {"signal": "scale"}, "update": "clamp(zoom * scale[0], 0.02, 4)"},
            {"events": {"signal": "reset"}, "update": "start"},
        ],
    },
    {"name": "shift", "value": [0, 0]},
    {"name": "scale", "value": [1]},
    {"name": "reset", "value": 0},
]
"""Signals for panning and zooming a picture: by pointer and wheel, and by `shift`, `scale` and `reset`."""


def data_flow(facts: Facts) -> Spec:
    """Returns the data flow between dispatches: boxes, and edges whose width grows with the buffer's size.

    Raises:
        ImportError: The package igraph is not installed.
    """
    nodes, edges = graph_of(facts)
    layout = laid_out(len(nodes), edges)
    boxes = [
        {
            "node": number,
            "run": node.run,
            "name": node.name,
            "label": node.label,
            "role": node.role,
            "x": x * ACROSS,
            "y": y * DOWN,
        }
        for number, (node, (x, y)) in enumerate(zip(nodes, layout.places, strict=True))
    ]
    points = [
        {
            "edge": number,
            "x": x * ACROSS,
            "y": y * DOWN,
            "bytes": facts.values[edge.value].bytes,
            "what": _named(facts, edge.value),
        }
        for number, (edge, bends) in enumerate(zip(edges, layout.bends, strict=True))
        for x, y in bends
    ]
    return {
        "$schema": SCHEMA,
        "description": f"The {len(facts.runs)} dispatches of {facts.name} and the buffers between them",
        "height": 620,
        "padding": 0,
        "signals": [
            *_focus(layout),
            *MOVED,
            {"name": "chosen", "value": -1, "on": [{"events": "@node:click", "update": "datum.run"}]},
        ],
        "data": [
            {"name": "nodes", "values": boxes},
            {"name": "points", "values": points},
        ],
        "marks": _flow_marks(),
    }


def _flow_marks() -> list[Spec]:
    """Returns the marks of the data flow: edges, boxes and their texts."""
    return [
        {
            "type": "group",
            "from": {"facet": {"name": "path", "data": "points", "groupby": "edge"}},
            "marks": [
                {
                    "type": "line",
                    "from": {"data": "path"},
                    "encode": {
                        "enter": {
                            "interpolate": {"value": "monotone"},
                            "orient": {"value": "vertical"},
                            "stroke": {"value": "#888"},
                            "strokeOpacity": {"value": 0.45},
                            "tooltip": {"signal": "datum.what"},
                        },
                        "update": {
                            **_moved("x", "y"),
                            "strokeWidth": {"signal": "max(1, zoom * 0.9 * log(2 + datum.bytes / 4096))"},
                        },
                        "hover": {"strokeOpacity": {"value": 1}},
                    },
                }
            ],
        },
        {
            "name": "node",
            "type": "rect",
            "from": {"data": "nodes"},
            "encode": {
                "enter": {
                    "cornerRadius": {"value": 5},
                    "fill": {"signal": f"{ROLES!r}[datum.role]".replace("'", '"')},
                    "cursor": {"value": "pointer"},
                    "tooltip": {"signal": "datum.name + ' ' + datum.label"},
                },
                "update": {
                    "xc": {"signal": "width / 2 + zoom * (datum.x - middle[0])"},
                    "yc": {"signal": "height / 2 + zoom * (datum.y - middle[1])"},
                    "width": {"signal": f"zoom * {ACROSS - 30}"},
                    "height": {"signal": "zoom * 40"},
                    "stroke": {"signal": "datum.run >= 0 && datum.run == chosen ? 'orange' : null"},
                    "strokeWidth": {"value": 3},
                },
            },
        },
        _text("datum.name", 11, -7),
        _text("datum.label", 9, 9),
    ]


def _named(facts: Facts, number: int) -> str:
    value = facts.values[number]
    return f"{value.name}: {value.type}, {value.bytes} bytes"


def _focus(layout: GraphLayout) -> list[Spec]:
    """Returns the signals of the initial view: the whole picture if it is legible, else its top."""
    xs = [x * ACROSS for points in (layout.places, *layout.bends) for x, _ in points] or [0.0]
    ys = [y * DOWN for _, y in layout.places] or [0.0]
    wide = max(xs) - min(xs) + ACROSS
    return [
        {"name": "start", "init": f"clamp(containerSize()[0] / {wide}, 0.35, 1)"},
        {"name": "focus", "init": f"[{(min(xs) + max(xs)) / 2}, {min(ys) - 40} + 310 / start]"},
    ]


def _moved(x: str, y: str) -> Spec:
    return {
        "x": {"signal": f"width / 2 + zoom * (datum.{x} - middle[0])"},
        "y": {"signal": f"height / 2 + zoom * (datum.{y} - middle[1])"},
    }


def _text(field: str, size: int, below: int) -> Spec:
    return {
        "type": "text",
        "interactive": False,
        "from": {"data": "nodes"},
        "encode": {
            "enter": {"align": {"value": "center"}, "baseline": {"value": "middle"}, "fill": {"value": "white"}},
            "update": {
                "x": {"signal": "width / 2 + zoom * (datum.x - middle[0])"},
                "y": {"signal": f"height / 2 + zoom * (datum.y - middle[1] + {below})"},
                "text": {"signal": field},
                "limit": {"signal": f"zoom * {ACROSS - 36}"},
                "fontSize": {"signal": f"zoom * {size}"},
                "opacity": {"signal": "zoom > 0.3 ? 1 : 0"},
            },
        },
    }


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
            MOVED[0],
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
        "signals": [MOVED[0], {"name": "chosen", "value": -1, "on": [{"events": "@bar:click", "update": "datum.run"}]}],
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
