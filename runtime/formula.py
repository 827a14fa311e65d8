"""Scalars that the host computes in each step: arithmetic formulas over names, as text."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, TypeAlias, cast

from tensorgrad.runtime.errors import FormulaError

Evaluator: TypeAlias = Callable[[Mapping[str, float]], float]

BINARY = (ast.Add, ast.Sub, ast.Mult, ast.Div)
COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
FUNCTIONS: dict[str, tuple[Callable[..., float], int, int | None]] = {
    "min": (min, 2, None),
    "max": (max, 2, None),
    "sqrt": (math.sqrt, 1, 1),
    "cos": (math.cos, 1, 1),
    "exp": (math.exp, 1, 1),
    "floor": (math.floor, 1, 1),
}
"""The minimum and maximum number of arguments of each function."""

VALUES, FLOAT, POWER = "values", "float", "power"
"""Names in the generated code: a formula's argument, and the helper functions that no formula can call."""


@dataclass(frozen=True)
class Formula:
    """An arithmetic expression over names, such as `learning_rate / (1 - 0.9 ** step)`.

    It may contain numbers, names, `+ - * / **`, parentheses, comparisons, `a if c else b`, and calls of `min`, `max`,
    `sqrt`, `cos`, `exp` and `floor`. Everything is computed in float64.

    Raises:
        FormulaError: The text contains anything else; names that part.
    """

    text: str
    names: frozenset[str] = field(init=False, compare=False)
    _evaluator: Evaluator = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            names, evaluator = _compiled(self.text.strip())
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            if isinstance(error, FormulaError):
                raise
            raise FormulaError(f"formula {self.text!r} is not an expression: {error}") from error
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "_evaluator", evaluator)

    def evaluate(self, values: Mapping[str, float]) -> float:
        """Returns the formula's value for these values of its names; unused names are ignored.

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


def _power(base: float, exponent: float) -> float:
    result = base**exponent
    if isinstance(result, complex):
        raise ValueError("a root of a negative number")
    return result


REACHABLE: dict[str, Any] = {
    "__builtins__": {},
    FLOAT: float,
    POWER: _power,
    **{name: function for name, (function, _, _) in FUNCTIONS.items()},
}
"""Everything that the code of a formula can refer to."""


@lru_cache(maxsize=256)
def _compiled(text: str) -> tuple[frozenset[str], Evaluator]:
    """Returns the names in a formula, and the function that evaluates it.

    Raises:
        FormulaError: It contains something that formulas can't.
        SyntaxError, ValueError, RecursionError, MemoryError: It is not an expression, or too long.
    """
    names: set[str] = set()
    body = _Translation(text, names).of(ast.parse(text, mode="eval").body)
    arguments = ast.arguments(posonlyargs=[], args=[ast.arg(VALUES)], kwonlyargs=[], kw_defaults=[], defaults=[])
    whole = ast.fix_missing_locations(ast.Expression(ast.Lambda(arguments, body)))
    code = next(
        constant for constant in compile(whole, f"<{text}>", "eval").co_consts if isinstance(constant, CodeType)
    )
    return frozenset(names), cast("Evaluator", FunctionType(code, REACHABLE))


@dataclass(frozen=True)
class _Translation:
    """Rebuilds a formula's syntax tree from the allowed nodes only, for Python to compile."""

    text: str
    names: set[str]

    def of(self, node: ast.expr) -> ast.expr:
        """Returns the translation of a subexpression, whose value is a float, or a bool for comparisons."""
        match node:
            case ast.Constant(value=bool()):
                raise self.refusal(node)
            case ast.Constant(value=int() | float() as number):
                return self.constant(node, number)
            case ast.Name(id=name) if name not in FUNCTIONS:
                self.names.add(name)
                return _call(FLOAT, ast.Subscript(ast.Name(VALUES, ast.Load()), ast.Constant(name), ast.Load()))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return ast.UnaryOp(ast.USub(), self.of(operand))
            case ast.BinOp(op=ast.Pow()):
                return _call(POWER, self.of(node.left), self.of(node.right))
            case ast.BinOp(op=operation) if isinstance(operation, BINARY):
                return ast.BinOp(self.of(node.left), operation, self.of(node.right))
            case ast.Compare(ops=[operation]) if isinstance(operation, COMPARISONS):
                return ast.Compare(self.of(node.left), [operation], [self.of(node.comparators[0])])
            case ast.IfExp():
                condition, then, other = map(self.of, (node.test, node.body, node.orelse))
                return ast.IfExp(condition, then, other)
            case ast.Call(func=ast.Name(id=name), keywords=[]) if name in FUNCTIONS:
                return self.call(node, name)
        raise self.refusal(node)

    def constant(self, node: ast.expr, number: float) -> ast.expr:
        try:
            return ast.Constant(float(number))
        except OverflowError:
            raise self.refusal(node) from None

    def call(self, node: ast.Call, name: str) -> ast.expr:
        _, least, most = FUNCTIONS[name]
        if len(node.args) < least or (most is not None and len(node.args) > most):
            count = f"{least}" if most == least else f"at least {least}"
            raise FormulaError(f"formula {self.text!r}: {name} takes {count} arguments, it has {len(node.args)}")
        return _call(name, *map(self.of, node.args))

    def refusal(self, node: ast.expr) -> FormulaError:
        return FormulaError(
            f"formula {self.text!r}: {ast.unparse(node)!r} is not allowed; a formula has numbers, names, + - * / **, "
            f"comparisons, 'a if c else b' and the functions {', '.join(FUNCTIONS)}"
        )


def _call(name: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])
