"""Scalars that the host computes at each step: arithmetic over names, as text."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tensorgrad.runtime.errors import FormulaError

Evaluator: TypeAlias = Callable[[Mapping[str, float]], float]

BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
COMPARISONS: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
FUNCTIONS: dict[str, tuple[Callable[..., float], int, int | None]] = {
    "min": (min, 2, None),
    "max": (max, 2, None),
    "sqrt": (math.sqrt, 1, 1),
    "cos": (math.cos, 1, 1),
    "exp": (math.exp, 1, 1),
    "floor": (math.floor, 1, 1),
}
"""Each function with the least and the largest number of its arguments."""


@dataclass(frozen=True)
class Formula:
    """An arithmetic expression over names, such as `learning_rate / (1 - 0.9 ** step)`.

    It may have numbers, names, `+ - * / **`, parentheses, comparisons, `a if c else b`, and calls of `min`, `max`,
    `sqrt`, `cos`, `exp` and `floor`. Everything is computed in float64.

    Raises:
        FormulaError: The text has anything else; names that part.
    """

    text: str
    names: frozenset[str] = field(init=False, compare=False)
    _evaluator: Evaluator = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names: set[str] = set()
        try:
            tree = ast.parse(self.text.strip(), mode="eval")
            evaluator = _Compiler(self.text, names).compile(tree.body)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            if isinstance(error, FormulaError):
                raise
            raise FormulaError(f"formula {self.text!r} is not an expression: {error}") from error
        object.__setattr__(self, "names", frozenset(names))
        object.__setattr__(self, "_evaluator", evaluator)

    def evaluate(self, values: Mapping[str, float]) -> float:
        """Returns the formula's value where the names have these values; further names don't matter.

        Raises:
            FormulaError: A name that is used has no value, or the arithmetic has no real result.
        """
        try:
            return float(self._evaluator(values))
        except KeyError:
            missing = ", ".join(sorted(self.names - values.keys()))
            raise FormulaError(f"formula {self.text!r} needs {missing}") from None
        except (ArithmeticError, ValueError, TypeError) as error:
            used = ", ".join(f"{name} = {values[name]}" for name in sorted(self.names))
            raise FormulaError(f"formula {self.text!r} has no value at {used or 'all'}: {error}") from error


@dataclass(frozen=True)
class _Compiler:
    """Turns syntax into nested functions, so that nothing of Python is reachable but the tables above."""

    text: str
    names: set[str]

    def compile(self, node: ast.expr) -> Evaluator:
        match node:
            case ast.Constant(value=bool()):
                raise self.refusal(node)
            case ast.Constant(value=int() | float() as number):
                return self.constant(node, number)
            case ast.Name(id=name) if name not in FUNCTIONS:
                self.names.add(name)
                return lambda values: float(values[name])
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self.compile(operand)
                return lambda values: -inner(values)
            case ast.BinOp(op=operation) if type(operation) in BINARY:
                return self.binary(BINARY[type(operation)], node.left, node.right)
            case ast.Compare(ops=[operation]) if type(operation) in COMPARISONS:
                return self.binary(COMPARISONS[type(operation)], node.left, node.comparators[0])
            case ast.IfExp():
                condition, then, other = map(self.compile, (node.test, node.body, node.orelse))
                return lambda values: then(values) if condition(values) else other(values)
            case ast.Call(func=ast.Name(id=name), keywords=[]) if name in FUNCTIONS:
                return self.call(node, name)
        raise self.refusal(node)

    def constant(self, node: ast.expr, number: float) -> Evaluator:
        try:
            value = float(number)
        except OverflowError:
            raise self.refusal(node) from None
        return lambda values: value

    def binary(self, function: Callable[[float, float], float], left: ast.expr, right: ast.expr) -> Evaluator:
        first, second = self.compile(left), self.compile(right)
        if function is not operator.pow:
            return lambda values: function(first(values), second(values))

        def evaluate(values: Mapping[str, float]) -> float:
            result = function(first(values), second(values))
            if isinstance(result, complex):
                raise ValueError("a root of a negative number")
            return result

        return evaluate

    def call(self, node: ast.Call, name: str) -> Evaluator:
        function, least, most = FUNCTIONS[name]
        if len(node.args) < least or (most is not None and len(node.args) > most):
            count = f"{least}" if most == least else f"at least {least}"
            raise FormulaError(f"formula {self.text!r}: {name} takes {count} arguments, it has {len(node.args)}")
        arguments = [self.compile(argument) for argument in node.args]
        return lambda values: function(*(argument(values) for argument in arguments))

    def refusal(self, node: ast.expr) -> FormulaError:
        return FormulaError(
            f"formula {self.text!r}: {ast.unparse(node)!r} is not allowed; a formula has numbers, names, + - * / **, "
            f"comparisons, 'a if c else b' and the functions {', '.join(FUNCTIONS)}"
        )
