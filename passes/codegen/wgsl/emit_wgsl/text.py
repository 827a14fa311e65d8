"""WGSL text: types, literals, and expressions that know where WGSL's grammar requires parentheses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, Context
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IndexType, f16, f32, i1, i32, i64
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.wgsl import VECTOR
from tensorgrad.runtime.errors import TensorgradError

VALUE_TYPES: dict[Attribute, str] = {
    IndexType(): "u32",
    i32: "i32",
    i64: "i64",
    i1: "bool",
    f32: "f32",
    f16: "f16",
    VECTOR: "vec4<f32>",
}
"""The WGSL type of a value of each type."""

_LEAST: dict[Attribute, str] = {i32: "i32(-2147483648)", i64: "bitcast<i64>(9223372036854775808lu)"}
"""The text of the minimum integer of each type."""

_BITS: dict[Attribute, int] = {i32: 32, i64: 64}
"""The integer types of `arith` that WGSL has, besides index, and their widths."""

STORED_TYPES: dict[Attribute, str] = {**VALUE_TYPES, i1: "u32"}
"""The WGSL type of an array element of each type: bool is not a storable type."""


class EmitError(TensorgradError, DiagnosticException):
    """An op or a type that WGSL can't express, with its location."""

    def __init__(self, op: Operation, problem: str) -> None:
        """Creates an error of `problem`, prefixed with `op`'s location and name."""
        super().__init__(f"{op.name} at {line_of(op.location)}: {problem}")


# WGSL's grammar mixes fewer operators than C's: the forms that each one takes unparenthesized on its left and right.
_UNARY = frozenset({"primary", "unary"})
_PRODUCT = _UNARY | {"multiply"}
_SUM = _PRODUCT | {"add"}
_SHIFT = _SUM | {"shift"}
_RELATION = _SHIFT | {"relation"}
_ACCEPTS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "multiply": (_PRODUCT, _UNARY),
    "add": (_SUM, _PRODUCT),
    "shift": (_UNARY, _UNARY),
    "relation": (_SHIFT, _SHIFT),
    "both": (_RELATION | {"both"}, _RELATION),
    "either": (_RELATION | {"either"}, _RELATION),
    "bit_and": (_UNARY | {"bit_and"}, _UNARY),
    "bit_or": (_UNARY | {"bit_or"}, _UNARY),
    "bit_xor": (_UNARY | {"bit_xor"}, _UNARY),
}
_FORMS = {
    **dict.fromkeys(("*", "/", "%"), "multiply"),
    **dict.fromkeys(("+", "-"), "add"),
    **dict.fromkeys(("<<", ">>"), "shift"),
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), "relation"),
    "&&": "both",
    "||": "either",
    "&": "bit_and",
    "|": "bit_or",
    "^": "bit_xor",
}


@dataclass(frozen=True)
class Expression:
    """The WGSL text of one value, and properties that decide where it may be used.

    Attributes:
        text: The expression.
        form: The grammar production of its outermost operator.
        constant: Whether it is a constant expression in WGSL, where overflow is a shader creation error.
        finite: Whether it is a constant other than NaN.
        reads: Whether it reads memory, so that no store may come between its definition and its use.
        variables: The loop-carried variables in it.
        unsigned: The same bits as a u32, where that is shorter than a bitcast.
    """

    text: str
    form: str = "primary"
    constant: bool = False
    finite: bool = False
    reads: bool = False
    variables: frozenset[str] = field(default=frozenset())
    unsigned: Expression | None = None

    def within(self, forms: frozenset[str]) -> str:
        """Returns the text, in parentheses unless its form is one of `forms`."""
        return self.text if self.form in forms else f"({self.text})"


def _combine(text: str, form: str, parts: Sequence[Expression], unsigned: Expression | None = None) -> Expression:
    return Expression(
        text,
        form,
        reads=any(part.reads for part in parts),
        variables=frozenset[str]().union(*(part.variables for part in parts)),
        unsigned=unsigned,
    )


def infix(operator: str, left: Expression, right: Expression) -> Expression:
    """Returns `left operator right`."""
    form = _FORMS[operator]
    accepts_left, accepts_right = _ACCEPTS[form]
    text = f"{left.within(accepts_left)} {operator} {right.within(accepts_right)}"
    return _combine(text, form, (left, right))


def prefix(operator: str, value: Expression) -> Expression:
    """Returns `operator value`, with `--` and `!!` kept apart by parentheses."""
    return _combine(operator + value.within(frozenset({"primary"})), "unary", (value,))


def call(function: str, *arguments: Expression) -> Expression:
    """Returns `function(arguments)`."""
    return _combine(f"{function}({', '.join(a.text for a in arguments)})", "primary", arguments)


def component(vector: Expression, position: int) -> Expression:
    """Returns a component of a four-component vector."""
    return _combine(f"{vector.within(frozenset({'primary'}))}.{'xyzw'[position]}", "primary", (vector,))


def element(array: str, index: Expression) -> Expression:
    """Returns `array[index]`, which reads memory."""
    return Expression(f"{array}[{index.text}]", reads=True, variables=index.variables)


def as_unsigned(value: Expression, type_: Attribute = i32) -> Expression:
    """Returns the bits of an i32 as a u32, or of an i64 as a u64."""
    return call(f"bitcast<u{_BITS[type_]}>", value) if value.unsigned is None else value.unsigned


def as_signed(value: Expression, type_: Attribute = i32) -> Expression:
    """Returns the bits of a u32 as an i32, or of a u64 as an i64."""
    return _combine(f"bitcast<i{_BITS[type_]}>({value.text})", "primary", (value,), unsigned=value)


def literal(text: str, unsigned: Expression | None = None) -> Expression:
    """Returns a literal, which needs parentheses only as the operand of a prefix operator."""
    form = "unary" if text.startswith("-") else "primary"
    return Expression(text, form, constant=True, finite=True, unsigned=unsigned)


def unsigned_literal(value: int, type_: Attribute = i32) -> Expression:
    """Returns a u32, or a u64 for i64: the value modulo 2**32 or 2**64, as the arithmetic on it is."""
    return literal(f"{value % 2 ** _BITS[type_]}{'lu' if type_ == i64 else 'u'}")


def signed_literal(value: int, type_: Attribute = i32) -> Expression:
    """Returns an i32 or an i64: the value modulo 2**32 or 2**64."""
    end = 2 ** (_BITS[type_] - 1)
    wrapped = (value + end) % (2 * end) - end
    unsigned = unsigned_literal(wrapped, type_)
    # Without its sign, the minimum integer is out of range.
    text = f"{wrapped}{'li' if type_ == i64 else 'i'}" if wrapped != -end else _LEAST[type_]
    return literal(text, unsigned=unsigned)


def float_literal(value: np.floating[Any]) -> Expression:
    """Returns the shortest decimal that reads back as the finite `value`, an f32 or f16, with its type's suffix.

    The decimal of the largest number may exceed it, which the standard rejects: it is truncated to nine digits.
    """
    suffix = "h" if value.dtype == np.float16 else "f"
    magnitude = abs(float(value))
    if magnitude == 0.0 or 1e-4 <= magnitude < 1e7:
        digits = np.format_float_positional(value, unique=True, trim="0")
    else:
        digits = np.format_float_scientific(value, unique=True, trim="-", exp_digits=1).replace("e+", "e")
    if abs(float(digits)) > float(np.finfo(value.dtype).max):
        digits = f"{Context(prec=9, rounding=ROUND_DOWN).create_decimal_from_float(float(value)):e}".replace("e+", "e")
    return literal(digits + suffix)
