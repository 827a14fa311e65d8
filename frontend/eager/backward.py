"""The backward pass over the tape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from tensorgrad.eager.folding import Pass, nodes_behind
from tensorgrad.eager.tape import Edge, Hook, Leaf, Operand, TapeNode
from tensorgrad.eager.templates import ApplicationValue, Derivative, Template
from tensorgrad.eager.values import Kind, Value
from tensorgrad.errors import GradientError
from tensorgrad.tracing.grad_mode import recording
from tensorgrad.tracing.tensor import Array


class Applier(Protocol):
    """The device that a backward pass runs on."""

    def applied(self, template: Template, operands: Sequence[Operand]) -> list[Operand]:
        """Applies a template, and records it on the tape if derivatives flow through it."""
        ...

    def run(
        self, template: Template, operands: Sequence[Value], edges: Sequence[Edge | None] | None
    ) -> tuple[list[Value], list[Edge | None] | None]:
        """Applies a template; see `AutogradDevice.run`."""
        ...

    def operand(self, x: Array) -> Operand:
        """Returns a tensor's current value, and the edge of its derivative."""
        ...

    def wrap(self, value: Value, edge: Edge | None) -> Array:
        """Returns a tensor with a value."""
        ...

    def sum(self, x: Operand, y: Operand) -> Operand:
        """Returns the sum of two tensors of the same type."""
        ...

    def copy(self, x: Operand) -> Operand:
        """Returns the same values, as a distinct value."""
        ...

    def full(self, kind: Kind, number: float) -> Operand:
        """Returns a tensor filled with a number that seeds backward passes."""
        ...

    def arrived(self, x: Operand, source: Applier) -> Operand:
        """Returns a copy of another device's tensor; derivatives flow back to that device."""
        ...

    def whole_pass(self, root: TapeNode, place: int, seed: Kind) -> Pass | None:
        """Returns the backward pass from a result as one application; `None` if it must run node by node."""
        ...


class Crossing(TapeNode):
    """A copy between devices on the tape: the cotangent of the copy is copied back.

    Attributes:
        source: The device copied from.

    Args:
        source: The device copied from.
        edge: The edge of the derivative on that device.
        copy: The copy on this device.
    """

    __slots__ = ("source",)
    crosses: ClassVar[bool] = True

    def __init__(self, source: Applier, edge: Edge, copy: Value):
        super().__init__(Derivative(None, (), (None,), (True,), (copy.kind,), ()), [edge], [], [copy])
        self.source = source


class Backward:
    """One backward pass, in reverse order of application across all devices that its tensors live on.

    Args:
        device: The device of the tensor that it starts from.
        retain_graph: Whether the tape is kept for another pass.
        create_graph: Whether the pass itself is recorded, for derivatives of gradients.
        only: The leaves and results whose gradients are requested; `None` is all leaves.
    """

    def __init__(self, device: Applier, retain_graph: bool, create_graph: bool, only: set[Edge] | None):
        self._device, self._retain, self._only = device, retain_graph, only
        self._create = create_graph
        self._found: dict[Edge, Operand] = {}
        self._devices: dict[
            TapeNode | Leaf, Applier
        ] = {}  # where their cotangents live; `_device` is the current device

    def run(self, root: Edge, cotangent: Operand) -> None:
        """Propagates a cotangent from a value back to the leaves.

        Raises:
            GradientError: A value that is needed was changed in place, or freed.
        """
        if self._at_once(root, cotangent):
            return
        with recording(self._create):
            self._add(root, cotangent)
            if isinstance(root[0], TapeNode):
                for node in nodes_behind(root[0]):
                    self._through(node)
            for edge, gradient in list(self._found.items()):
                if isinstance(edge[0], Leaf):
                    self._gather(edge[0], gradient)

    def _at_once(self, root: Edge, cotangent: Operand) -> bool:
        """Runs all nodes as one application, if no node needs separate handling; returns whether it did."""
        if self._create or self._only is not None or not isinstance(root[0], TapeNode):
            return False
        whole_pass = self._device.whole_pass(root[0], root[1], cotangent[0].kind)
        if whole_pass is None:
            return False
        gradients, _ = self._device.run(whole_pass.template, [cotangent[0], *whole_pass.values], None)
        if not self._retain:
            for node in whole_pass.nodes:
                node.let_go()
        for leaf, gradient in zip(whole_pass.leaves, gradients, strict=True):
            if leaf.grad is not None:
                gradient, _ = self._device.sum(self._device.operand(leaf.grad), (gradient, None))
            leaf.grad = self._device.wrap(gradient, None)
        return True

    def _add(self, edge: Edge, piece: Operand) -> None:
        self._devices[edge[0]] = self._device
        before = self._found.get(edge)
        self._found[edge] = piece if before is None else self._device.sum(before, piece)

    def _through(self, node: TapeNode) -> None:
        """Propagates the cotangents of a node's results to its operands."""
        if node.values is None:
            raise GradientError(
                f"backward: what the line {_named(node.line)} saved for it was freed by an earlier "
                "backward pass; backward(retain_graph=True) keeps it for another one"
            )
        self._device = self._devices.get(node, self._device)
        cotangents: dict[int, Operand] = {}
        for place in range(len(node.results)):
            cotangent = self._found.pop((node, place), None)
            if cotangent is not None:
                cotangents[place] = self._seen(node, place, cotangent)
        derivative = node.derivative
        if cotangents and isinstance(node, Crossing):
            self._cross(node, cotangents[0])
        elif cotangents and derivative.template is not None:
            operands = [
                self._cotangent(node, place[1], cotangents) if value is None else self._value(node, place, value)
                for place, value in zip(derivative.uses, node.values, strict=True)
            ]
            pieces = self._device.applied(derivative.template, operands)
            for edge, piece in zip(node.edges, derivative.pieces, strict=True):
                if edge is not None and piece is not None:
                    self._add(edge, pieces[piece])
        if not self._retain:
            node.let_go()

    def _cross(self, node: Crossing, cotangent: Operand) -> None:
        """Copies the cotangent of a copy back to the source device."""
        (edge,) = node.edges
        assert edge is not None
        back = node.source.arrived(cotangent, self._device)
        self._device = node.source
        self._add(edge, back)

    def _seen(self, node: TapeNode, place: int, cotangent: Operand) -> Operand:
        """Calls the hooks of a result, and retains its gradient if requested."""
        for hook in list(node.hooks.get(place, {}).values()):
            cotangent = self._hooked(hook, cotangent)
        leaf = node.retained.get(place)
        if leaf is not None and (leaf.gathers if self._only is None else (node, place) in self._only):
            self._keep(leaf, cotangent)
        return cotangent

    def _hooked(self, hook: Hook, cotangent: Operand) -> Operand:
        gradient = self._device.wrap(*cotangent)
        result = hook(gradient)
        if result is None:
            return cotangent
        value = self._device.operand(result) if isinstance(result, Array) else None
        if value is None or value[0].kind is not cotangent[0].kind:
            raise GradientError(
                f"a hook returned {result!r} for a gradient of shape {cotangent[0].shape}; it must "
                "return a tensor of that shape and dtype, or None"
            )
        return value

    def _cotangent(self, node: TapeNode, number: int, cotangents: dict[int, Operand]) -> Operand:
        return cotangents[number] if number in cotangents else self._device.full(node.results[number], 0)

    def _value(self, node: TapeNode, place: ApplicationValue, value: Value) -> Operand:
        """Returns an operand or a result of a node, with its value at the time of the application.

        Raises:
            GradientError: The tensor has been changed in place since.
        """
        if value.is_outdated:
            assert value.version is not None
            raise GradientError(
                f"backward: a tensor of shape {value.shape}, which the derivative of the line "
                f"{_named(node.line)} needs, was changed in place by the line {_named(value.version.line)}; change a "
                "clone() of it"
            )
        what, number = place
        return value, (node.edges[number] if what == "operand" else (node, number))

    def _gather(self, leaf: Leaf, gradient: Operand) -> None:
        if self._only is not None and (leaf, 0) not in self._only:
            return
        self._device = self._devices[leaf]
        for hook in list(leaf.hooks.values()):
            gradient = self._hooked(hook, gradient)
        self._keep(leaf, gradient)

    def _keep(self, leaf: Leaf, gradient: Operand) -> None:
        """Accumulates a gradient, in a new tensor so that in-place changes of one affect no other."""
        if leaf.grad is not None:
            gradient = self._device.sum(self._device.operand(leaf.grad), gradient)
        else:
            gradient = self._device.copy(gradient)
        leaf.grad = self._device.wrap(*gradient)


def _named(line: tuple[str, int]) -> str:
    return f"{line[0]}:{line[1]}"
