"""Elementwise ops: most by name in tables, as they differ in nothing else here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, Self, TypeVar, cast

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tensorgrad.dialects.stablehlo.attributes import (
    ComparisonDirection,
    ComparisonDirectionAttr,
    ComparisonType,
    ComparisonTypeAttr,
)
from tensorgrad.dialects.stablehlo.base import HloOp, int_of

OpT = TypeVar("OpT", bound=HloOp)


class ElementwiseOp(HloOp):
    """An op whose operands and result have one shape.

    Attributes:
        OPERANDS: The number of operands.
    """

    traits = traits_def(Pure())
    OPERANDS: ClassVar[int] = 1
    SHORT_TYPES: ClassVar = True

    def verify_(self) -> None:
        super().verify_()
        if (len(self.operands), len(self.results)) != (self.OPERANDS, 1):
            raise VerifyException(f"must have {self.OPERANDS} operands and one result")


class BinaryOp(ElementwiseOp):
    """An elementwise op on two tensors."""

    OPERANDS: ClassVar = 2


class FunctionTypedOp(ElementwiseOp):
    """An elementwise op on one tensor whose types are always those of a function."""

    SHORT_TYPES: ClassVar = False


class ChloOp(ElementwiseOp):
    """An op of `chlo`, whose types are written `type, type -> type`."""

    def print_types(self, printer: Printer) -> None:
        """Prints the types of the operands and of the result."""
        printer.print_string(" : ")
        printer.print_list(self.operand_types, printer.print_attribute)
        printer.print_string(" -> ")
        printer.print_attribute(self.kind)

    @classmethod
    def parse_types(cls, parser: Parser, count: int) -> tuple[Sequence[Attribute], Sequence[Attribute]]:
        """Parses the types of the operands and of the result."""
        parser.parse_punctuation(":")
        operands = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        parser.parse_punctuation("->")
        return operands, [parser.parse_type()]


class BinaryChloOp(ChloOp):
    """An op of `chlo` on two tensors."""

    OPERANDS: ClassVar = 2


def named(base: type[OpT], dialect: str, *names: str) -> dict[str, type[OpT]]:
    """Returns op definitions that differ from `base` by their names alone."""
    ops: dict[str, type[OpT]] = {}
    for name in names:
        members = {"name": f"{dialect}.{name}", "__doc__": base.__doc__, "__module__": __name__}
        ops[f"{dialect}.{name}"] = cast("type[OpT]", irdl_op_definition(type(name, (base,), members)))
    return ops


UNARY = named(
    ElementwiseOp,
    "stablehlo",
    *("abs", "cbrt", "ceil", "convert", "cosine", "count_leading_zeros", "exponential", "exponential_minus_one"),
    *("floor", "log", "log_plus_one", "logistic", "negate", "not", "popcnt", "round_nearest_afz"),
    *("round_nearest_even", "rsqrt", "sign", "sine", "sqrt", "tan", "tanh"),
)
FUNCTION_TYPED = named(FunctionTypedOp, "stablehlo", "is_finite", "bitcast_convert")
BINARY = named(
    BinaryOp,
    "stablehlo",
    *("add", "and", "atan2", "divide", "maximum", "minimum", "multiply", "or", "power", "remainder", "shift_left"),
    *("shift_right_arithmetic", "shift_right_logical", "subtract", "xor"),
)
CHLO_UNARY = named(
    ChloOp,
    "chlo",
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "digamma", "erf", "erf_inv", "erfc", "lgamma"),
    *("sinh", "square", "tan"),
)
CHLO_BINARY = named(BinaryChloOp, "chlo", "next_after", "polygamma", "zeta")


@irdl_op_definition
class CompareOp(HloOp):
    """Compares elementwise: `compare LT, %a, %b, FLOAT : (types) -> type`."""

    name = "stablehlo.compare"
    comparison_direction = prop_def(ComparisonDirectionAttr)
    compare_type = opt_prop_def(ComparisonTypeAttr)
    traits = traits_def(Pure())

    @property
    def direction(self) -> str:
        """How the elements compare, in lower case."""
        return self.comparison_direction.data.value.lower()

    @property
    def is_total(self) -> bool:
        """Whether floats compare in their total order: -NaN, -inf, …, -0, 0, …, inf, NaN."""
        return self.compare_type is not None and self.compare_type.data is ComparisonType.TOTALORDER

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.comparison_direction.data.value}, ")
        printer.print_list(self.operands, printer.print_ssa_value)
        if self.compare_type is not None:
            printer.print_string(f", {self.compare_type.data.value}")
        self.print_rest(printer, {"comparison_direction", "compare_type"})

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        direction = parser.parse_str_enum(ComparisonDirection)
        parser.parse_punctuation(",")
        lhs = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        rhs = parser.parse_unresolved_operand()
        properties: dict[str, Attribute] = {"comparison_direction": ComparisonDirectionAttr(direction)}
        if parser.parse_optional_punctuation(","):
            properties["compare_type"] = ComparisonTypeAttr(parser.parse_str_enum(ComparisonType))
        return cls.finish(parser, [lhs, rhs], properties)


@irdl_op_definition
class ReducePrecisionOp(ElementwiseOp):
    """Rounds floats to those with fewer bits: `reduce_precision %a, format = e8m7 : type`."""

    name = "stablehlo.reduce_precision"
    exponent_bits = prop_def(IntegerAttr)
    mantissa_bits = prop_def(IntegerAttr)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        exponent, mantissa = int_of(self.exponent_bits), int_of(self.mantissa_bits)
        printer.print_string(f", format = e{exponent}m{mantissa}")
        self.print_rest(printer, {"exponent_bits", "mantissa_bits"})

    @classmethod
    def parse_clause(cls, parser: Parser, properties: dict[str, Attribute]) -> bool:
        if parser.parse_optional_keyword("format") is None:
            return False
        parser.parse_punctuation("=")
        start = parser.pos
        bits = re.fullmatch(r"e(\d+)m(\d+)", parser.parse_identifier())
        if bits is None:
            parser.raise_error("expected a format such as e8m7", start)
        for name, number in zip(("exponent_bits", "mantissa_bits"), bits.groups(), strict=True):
            properties[name] = IntegerAttr(int(number), i32)
        return True


@irdl_op_definition
class SelectOp(HloOp):
    """Takes elements of the second operand where the first holds, else of the third; the first may be a scalar."""

    name = "stablehlo.select"
    traits = traits_def(Pure())

    def print_types(self, printer: Printer) -> None:
        """Prints the types of the condition and of the result."""
        printer.print_string(" : ")
        printer.print_list([self.operands[0].type, self.kind], printer.print_attribute)

    @classmethod
    def parse_types(cls, parser: Parser, count: int) -> tuple[Sequence[Attribute], Sequence[Attribute]]:
        """Parses the types of the condition and of the result."""
        parser.parse_punctuation(":")
        condition = parser.parse_type()
        parser.parse_punctuation(",")
        kind = parser.parse_type()
        return [condition, kind, kind], [kind]


@irdl_op_definition
class ClampOp(HloOp):
    """Limits the second operand to between the first and the third, which may be scalars."""

    name = "stablehlo.clamp"
    traits = traits_def(Pure())
    SHORT_TYPES: ClassVar = True


@irdl_op_definition
class OptimizationBarrierOp(HloOp):
    """The operands, of which no op is moved to the other side."""

    name = "stablehlo.optimization_barrier"
    traits = traits_def(Pure())

    def print_types(self, printer: Printer) -> None:
        """Prints the operands' types."""
        printer.print_string(" : ")
        printer.print_list(self.operand_types, printer.print_attribute)

    @classmethod
    def parse_types(cls, parser: Parser, count: int) -> tuple[Sequence[Attribute], Sequence[Attribute]]:
        """Parses the operands' types."""
        parser.parse_punctuation(":")
        kinds = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        return kinds, kinds


OPS: tuple[type[HloOp], ...] = (
    *UNARY.values(),
    *FUNCTION_TYPED.values(),
    *BINARY.values(),
    CompareOp,
    ReducePrecisionOp,
    SelectOp,
    ClampOp,
    OptimizationBarrierOp,
)
CHLO_OPS: tuple[type[HloOp], ...] = (*CHLO_UNARY.values(), *CHLO_BINARY.values())
