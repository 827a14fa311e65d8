"""The gamma function's logarithm and the polygamma functions: functions of the file, in f64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tensorgrad.dialects.tg.base import TensorOp, int_value
from tensorgrad.dialects.tg.elementwise import gamma
from tensorgrad.exporters.onnx.graph import F64, Graph
from tensorgrad.exporters.onnx.table import rule


@dataclass(frozen=True)
class _Number:
    """A value in f64, or a condition, whose operators append nodes.

    Attributes:
        graph: The graph.
        name: The name of the value.
    """

    graph: Graph
    name: str

    def constant(self, number: float) -> _Number:
        return _Number(self.graph, self.graph.number(number, F64))

    def node(self, op: str, *others: _Number | float) -> _Number:
        names = [other.name if isinstance(other, _Number) else self.constant(other).name for other in others]
        return _Number(self.graph, self.graph.node(op, self.name, *names))

    def __abs__(self) -> _Number:
        return self.node("Abs")

    def __neg__(self) -> _Number:
        return self.node("Neg")

    def __add__(self, other: _Number | float) -> _Number:
        return self.node("Add", other)

    def __sub__(self, other: _Number | float) -> _Number:
        return self.node("Sub", other)

    def __mul__(self, other: _Number | float) -> _Number:
        return self.node("Mul", other)

    def __truediv__(self, other: _Number | float) -> _Number:
        return self.node("Div", other)

    def __rsub__(self, other: float) -> _Number:
        return self.constant(other).node("Sub", self)

    def __rtruediv__(self, other: float) -> _Number:
        return self.constant(other).node("Div", self)

    def __lt__(self, other: float) -> _Number:
        return self.node("Less", other)

    def __gt__(self, other: float) -> _Number:
        return self.node("Greater", other)


NODES: gamma.Elements[_Number] = gamma.Elements(
    floor=lambda x: x.node("Floor"),
    log=lambda x: x.node("Log"),
    select=lambda condition, on_true, on_false: condition.node("Where", on_true, on_false),
)


def _call(graph: Graph, op: TensorOp, name: str, formula: Callable[[_Number], _Number]) -> str:
    def build(body: Graph, names: Sequence[str]) -> list[str]:
        result = formula(_Number(body, body.cast(names[0], F64)))
        return [body.node("CastLike", result.name, names[0])]

    return graph.call(name, build, graph.value(op.operands[0]))[0]


@rule(gamma.LgammaOp)
def _lgamma(graph: Graph, op: gamma.LgammaOp) -> str:
    return _call(graph, op, "lgamma", lambda x: gamma.lgamma(NODES, x, gamma.F64))


@rule(gamma.PolygammaOp)
def _polygamma(graph: Graph, op: gamma.PolygammaOp) -> str:
    order = int_value(op.properties, "order")
    return _call(graph, op, f"polygamma_{order}", lambda x: gamma.polygamma(NODES, x, order, gamma.F64))
