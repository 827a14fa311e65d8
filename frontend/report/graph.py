"""The dispatches of a step as a graph."""

from __future__ import annotations

from dataclasses import dataclass

from tensorgrad.report.facts import Facts, PlannedStep

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
            kept = [writer for writer in writers.get(number, []) if _excludes(facts, run, writer)]
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
