"""The dispatches of a step as a graph, laid out in layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tensorgrad.report.facts import Facts, PlannedStep

NEAR = 2
"""The most layers that an edge may span to influence the placement of nodes."""

ENDS = ("input", "output")
"""The roles of values that are nodes of their own."""


@dataclass(frozen=True)
class GraphNode:
    """A dispatch, or an input or output of the step.

    Attributes:
        run: The index of the dispatch; -1 for other nodes.
        name: Its name.
        label: Its source line, or its type.
        role: "dispatch", "copy", "input" or "output".
    """

    run: int
    name: str
    label: str
    role: str


@dataclass(frozen=True)
class Edge:
    """A buffer that one node writes and another reads.

    Attributes:
        source: The index of the node that writes it.
        target: The index of the node that reads it.
        value: The index of the buffer.
    """

    source: int
    target: int
    value: int


@dataclass(frozen=True)
class GraphLayout:
    """The positions of everything, in units of one layer downwards and one node to the right.

    Attributes:
        places: The center of each node.
        bends: The points of each edge, its ends included.
    """

    places: tuple[tuple[float, float], ...]
    bends: tuple[tuple[tuple[float, float], ...], ...]


def graph_of(facts: Facts) -> tuple[list[GraphNode], list[Edge]]:
    """Returns the nodes and edges of a step; persistent buffers, such as parameters, are not drawn."""
    nodes: list[GraphNode] = []
    for number, run in enumerate(facts.runs):
        if run.kernel < 0:
            nodes.append(GraphNode(number, "copy", "", "copy"))
        else:
            nodes.append(GraphNode(number, facts.kernels[run.kernel].name, run.label, "dispatch"))
    edges: list[Edge] = []
    ends = {number: len(nodes) + place for place, number in enumerate(_ends(facts))}
    nodes += [
        GraphNode(-1, facts.values[number].name, facts.values[number].type, facts.values[number].role)
        for number in ends
    ]
    writers = {number: [node] for number, node in ends.items() if facts.values[number].role == "input"}
    for place, run in enumerate(facts.runs):
        edges += [Edge(writer, place, number) for number in run.reads for writer in writers.get(number, [])]
        for number in run.writes:  # over what another one has written, unless only one of both runs
            kept = [one for one in writers.get(number, []) if _excludes(facts, run, one)]
            writers[number] = [*kept, place]
    edges += [
        Edge(writer, node, number)
        for number, node in ends.items()
        if facts.values[number].role == "output"
        for writer in writers.get(number, [])
    ]
    return nodes, [edge for edge in dict.fromkeys(edges) if edge.source != edge.target]


def _excludes(facts: Facts, run: PlannedStep, node: int) -> bool:
    """Returns whether a dispatch and that of a node are in mutually exclusive branches."""
    return run.branch is not None and node < len(facts.runs) and run.branch.excludes(facts.runs[node].branch)


def _ends(facts: Facts) -> list[int]:
    used = {number for run in facts.runs for number in (*run.reads, *run.writes)}
    return [number for number, value in enumerate(facts.values) if value.role in ENDS and number in used]


def laid_out(count: int, edges: Sequence[Edge]) -> GraphLayout:
    """Returns a layout of nodes and edges: in layers, with few crossings (Sugiyama, Tagawa, Toda, 1981).

    Values that the forward pass saves for the backward pass cross many layers. Such edges don't influence the placement
    of nodes: each with a column of its own, they would make the picture as wide as a step is long.

    Args:
        count: The number of nodes.
        edges: Between them, each from a node that runs earlier.

    Raises:
        ImportError: The package igraph is not installed.
    """
    from igraph import Graph

    if not count:
        return GraphLayout((), ())
    layers = _layers(count, edges)
    near = [edge for edge in edges if layers[edge.target] - layers[edge.source] <= NEAR]
    graph = Graph(count, [(edge.source, edge.target) for edge in near], directed=True)
    layout: Any = graph.layout_sugiyama(layers=layers)
    places: list[tuple[float, float]] = [(float(x), float(y)) for x, y in layout.coords]
    routes = {
        edge: [(float(x), float(y)) for x, y in points] for edge, points in zip(near, layout.edge_routing, strict=True)
    }
    for edge in edges:
        if edge not in routes:
            routes[edge] = _beside(places[edge.source], places[edge.target])
    return GraphLayout(
        tuple(places),
        tuple((places[edge.source], *routes[edge], places[edge.target]) for edge in edges),
    )


def _beside(source: tuple[float, float], target: tuple[float, float]) -> list[tuple[float, float]]:
    """Returns the bends of an edge that passes other nodes on their left, the further out the longer it is."""
    (x, top), (other, bottom) = source, target
    out = min(x, other) - 0.45 - 0.35 * math.sqrt(bottom - top)
    return [(out, top + 1.0), (out, bottom - 1.0)]


def _layers(count: int, edges: Sequence[Edge]) -> list[int]:
    """Returns the layer of each node: below all that it reads from, and inputs just above their first reader."""
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for edge in edges:
        above[edge.target].append(edge.source)
        below[edge.source].append(edge.target)
    sources = [node for node in range(count) if not above[node]]
    others = [node for node in range(count) if above[node]]
    layers = [0] * count
    for node in others:  # Dispatches are in execution order, followed by outputs.
        layers[node] = 1 + max(layers[other] for other in above[node])
    for node in sources:
        layers[node] = max(0, min((layers[other] for other in below[node]), default=1) - 1)
    return layers
