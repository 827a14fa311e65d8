"""The gamma function's logarithm and the polygamma functions: functions of the file, in f64."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorgrad.dialects.tg.base import TensorOp
from tensorgrad.dialects.tg.elementwise import gamma
from tensorgrad.exporters.onnx.graph import F64, Graph
from tensorgrad.exporters.onnx.table import rule

NODES = {
    "abs": "Abs",
    "add": "Add",
    "floor": "Floor",
    "gt": "Greater",
    "log": "Log",
    "lt": "Less",
    "mul": "Mul",
    "neg": "Neg",
    "select": "Where",
    "sub": "Sub",
    "truediv": "Div",
}
"""ONNX's nodes for what `gamma.Symbol` applies."""


def _call(graph: Graph, op: TensorOp, name: str, formula: Callable[[gamma.Symbol[str]], gamma.Symbol[str]]) -> str:
    def build(body: Graph, names: Sequence[str]) -> list[str]:
        def append(kind: str, values: Sequence[str]) -> str:
            return body.node(NODES[kind], *values)

        x = gamma.Symbol(append, lambda number: body.number(number, F64), body.cast(names[0], F64))
        return [body.node("CastLike", formula(x).value, names[0])]

    return graph.call(name, build, graph.value(op.operands[0]))[0]


@rule(gamma.LgammaOp)
def _lgamma(graph: Graph, op: gamma.LgammaOp) -> str:
    return _call(graph, op, "lgamma", lambda x: gamma.lgamma(gamma.SYMBOLS, x, gamma.F64))


@rule(gamma.PolygammaOp)
def _polygamma(graph: Graph, op: gamma.PolygammaOp) -> str:
    order = op.order.value.data
    return _call(graph, op, f"polygamma_{order}", lambda x: gamma.polygamma(gamma.SYMBOLS, x, order, gamma.F64))
