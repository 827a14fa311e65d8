"""Backward passes as one application: graphs of one structure share a template that covers all their nodes."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.ir import Block, SSAValue

from tensorgrad.dialects.tg.build import TensorBuilder
from tensorgrad.dialects.tg.call import ReturnOp
from tensorgrad.eager.recording import KnownPass, Recording
from tensorgrad.eager.tape import Leaf, TapeNode
from tensorgrad.eager.templates import Template
from tensorgrad.eager.values import Kind, Value

Target: TypeAlias = tuple[int, int]
"""The target of a cotangent: the number of a node, or of a leaf, counting down from -1; and the index of its result."""


def nodes_behind(root: TapeNode) -> Iterator[TapeNode]:
    """Yields the nodes of a graph, each once, in reverse order of application."""
    waiting, seen = [root], {root}
    while waiting:
        node = heapq.heappop(waiting)
        for edge in node.edges:
            if edge is not None and isinstance(edge[0], TapeNode) and edge[0] not in seen:
                seen.add(edge[0])
                heapq.heappush(waiting, edge[0])
        yield node


@dataclass
class Graph:
    """The graph that a plain backward pass traverses.

    Attributes:
        nodes: The nodes, in reverse order of application.
        numbers: The number of each node, used in targets.
        targets: For each node, the targets of its operands' cotangents.
        leaves: The leaves by number: the first one is -1.
        root: The index of the result of the first node that the pass starts from.
        values: The values that the derivatives use, in order.
    """

    nodes: list[TapeNode]
    numbers: list[int]
    targets: list[tuple[Target | None, ...]]
    leaves: list[Leaf]
    root: int
    values: list[Value]

    @property
    def key(self) -> Hashable:
        """Equal for graphs that share a template."""
        derivatives = tuple([node.derivative for node in self.nodes])
        return self.root, derivatives, tuple(self.numbers), tuple(self.targets)

    @staticmethod
    def behind(root: TapeNode, place: int) -> Graph | None:
        """Returns the graph that leads to a result of a node.

        It is `None` if the pass has to be interrupted: it continues on another device, a hook or a retained gradient
        observes it, or a value that is needed is gone, which must be reported.
        """
        graph = Graph([], [], [], [], place, [])
        numbers: dict[TapeNode | Leaf, int] = {root: 0}
        count = 1
        for node in nodes_behind(root):
            if node.values is None or node.hooks or node.retained or node.crosses:
                return None
            targets: list[Target | None] = []
            for edge in node.edges:
                if edge is None:
                    targets.append(None)
                    continue
                target, place = edge
                number = numbers.get(target)
                if number is None:
                    if isinstance(target, TapeNode):
                        number = numbers[target] = count
                        count += 1
                    elif target.hooks:
                        return None
                    else:
                        graph.leaves.append(target)
                        number = numbers[target] = -len(graph.leaves)
                targets.append((number, place))
            for value in node.values:
                if value is not None:
                    if value.is_outdated:
                        return None
                    graph.values.append(value)
            graph.nodes.append(node)
            graph.numbers.append(numbers[node])
            graph.targets.append(tuple(targets))
        return graph


@dataclass(frozen=True)
class Pass:
    """A backward pass as one application.

    Attributes:
        template: Takes the cotangent of the root, then `values`; returns the gradients of `leaves`.
        nodes: The nodes that it covers.
        values: The values that their derivatives use.
        leaves: The leaves whose gradients it returns.
    """

    template: Template
    nodes: Sequence[TapeNode]
    values: Sequence[Value]
    leaves: Sequence[Leaf]


@dataclass(frozen=True)
class Folded:
    """The backward pass over graphs of one structure.

    Attributes:
        template: Takes the cotangent of the root, then the graph's values; returns the gradients of leaves.
        leaves: The leaves of these gradients.
    """

    template: Template
    leaves: tuple[int, ...]

    def through(self, graph: Graph) -> Pass:
        """Returns the pass over a graph of the structure."""
        return Pass(self.template, graph.nodes, graph.values, [graph.leaves[number] for number in self.leaves])


def folded(graph: Graph, seed: Kind) -> Folded:
    """Returns the backward pass over a graph.

    Args:
        graph: The graph.
        seed: The type of the cotangent that it starts from.
    """
    block = Block(arg_types=[seed.type, *(value.kind.type for value in graph.values)])
    builder = TensorBuilder(block)
    arguments = iter(block.args)
    pending: dict[Target, SSAValue] = {(0, graph.root): next(arguments)}
    for number, node, targets in zip(graph.numbers, graph.nodes, graph.targets, strict=True):
        assert node.values is not None
        used = [None if value is None else next(arguments) for value in node.values]
        cotangents = [pending.pop((number, place), None) for place in range(len(node.results))]
        template = node.derivative.template
        if template is None or all(cotangent is None for cotangent in cotangents):
            continue
        places = [place for _, place in node.derivative.uses]
        operands = [
            _cotangent(cotangents[place], node.results[place], builder) if value is None else value
            for place, value in zip(places, used, strict=True)
        ]
        pieces = template.inlined(operands, builder)
        for target, piece in zip(targets, node.derivative.pieces, strict=True):
            if target is not None and piece is not None:
                before = pending.get(target)
                pending[target] = pieces[piece] if before is None else builder.add(before, pieces[piece])
    leaves = [target for target in pending if target[0] < 0]
    block.add_op(ReturnOp([pending[target] for target in leaves]))
    return Folded(Template("backward", block), tuple(-1 - number for number, _ in leaves))


def _cotangent(cotangent: SSAValue | None, kind: Kind, builder: TensorBuilder) -> SSAValue:
    return builder.zeros(kind.shape, kind.type.get_element_type()) if cotangent is None else cotangent


def known_pass(graph: Graph, folded: Folded, recording: Recording) -> KnownPass | None:
    """Returns the reusable description of a graph's pass; `None` if it is not confined to the recorded block."""
    numbers = {node: number for number, node in enumerate(recording.nodes) if node is not None}
    leaves = [recording.target((leaf, 0)) for leaf in graph.leaves]
    if any(node not in numbers for node in graph.nodes):
        return None
    known = [number for number in leaves if number is not None]
    assert len(known) == len(leaves)  # an op of the block uses each of them
    return KnownPass(folded.template, [numbers[node] for node in graph.nodes], known, folded.leaves)


def known_again(known: KnownPass, recording: Recording) -> Pass | None:
    """Returns a pass over a block of the same structure; `None` if it has to be interrupted, as in `Graph`."""
    edges = recording.edges()
    leaves: list[Leaf] = []
    for number in known.leaves:
        leaf = edges[number][0]
        if not isinstance(leaf, Leaf) or leaf.hooks:
            return None
        leaves.append(leaf)
    nodes: list[TapeNode] = []
    values: list[Value] = []
    for number in known.nodes:
        node = recording.nodes[number]
        if node is None or node.values is None or node.hooks or node.retained:
            return None
        nodes.append(node)
        for value in node.values:
            if value is not None:
                if value.is_outdated:
                    return None
                values.append(value)
    return Pass(known.template, nodes, values, [leaves[number] for number in known.answered])
