"""Scalars that the host computes in each step, such as a scheduled learning rate, as nodes in f64."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from tensorgrad.exporters.onnx.graph import F64, Graph

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "Add",
    ast.Sub: "Sub",
    ast.Mult: "Mul",
    ast.Div: "Div",
    ast.Pow: "Pow",
}
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "Less",
    ast.LtE: "LessOrEqual",
    ast.Gt: "Greater",
    ast.GtE: "GreaterOrEqual",
    ast.Eq: "Equal",
}
_FUNCTIONS = {"min": "Min", "max": "Max", "sqrt": "Sqrt", "cos": "Cos", "exp": "Exp", "floor": "Floor"}


def evaluated(graph: Graph, formula: str, names: Mapping[str, str]) -> str:
    """Appends the nodes of a formula; see `tensorgrad.runtime.formula.Formula`.

    Args:
        graph: The graph.
        formula: The formula, which has been checked.
        names: The values in f64 of the names in it.
    """
    return _number(graph, ast.parse(formula.strip(), mode="eval").body, names)


def _number(graph: Graph, node: ast.expr, names: Mapping[str, str]) -> str:
    """Appends a subexpression as a number: a comparison is 1 or 0."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return graph.number(float(value), F64)
        case ast.Name(id=name):
            return names[name]
        case ast.UnaryOp(operand=operand):
            return graph.node("Neg", _number(graph, operand, names))
        case ast.BinOp(left=left, op=operation, right=right):
            return graph.node(_BINARY[type(operation)], *(_number(graph, part, names) for part in (left, right)))
        case ast.IfExp(test=test, body=then, orelse=otherwise):
            # Both are computed: what has no value where it isn't chosen, such as a division by 0, is not chosen.
            choices = [_number(graph, part, names) for part in (then, otherwise)]
            return graph.node("Where", _condition(graph, test, names), *choices)
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return graph.node(_FUNCTIONS[name], *(_number(graph, argument, names) for argument in arguments))
        case ast.Compare():
            return graph.cast(_condition(graph, node, names), F64)
    raise AssertionError(f"a formula has no {ast.unparse(node)}")


def _condition(graph: Graph, node: ast.expr, names: Mapping[str, str]) -> str:
    if not isinstance(node, ast.Compare):
        zero = graph.number(0, F64)
        return graph.node("Not", graph.node("Equal", _number(graph, node, names), zero))
    sides = [_number(graph, side, names) for side in (node.left, node.comparators[0])]
    if isinstance(node.ops[0], ast.NotEq):
        return graph.node("Not", graph.node("Equal", *sides))
    return graph.node(_COMPARISONS[type(node.ops[0])], *sides)
