"""The base of every StableHLO op: operands and results of static shape, and the forms that upstream prints.

The semantics of the ops are those of StableHLO's specification; what they are here is said by the passes
`stablehlo-to-tg` and `tg-to-stablehlo`. So ops check their types, and a pass that computes the result's type compares.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self, cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, TensorType, i64
from xdsl.ir import Attribute, Region
from xdsl.irdl import IRDLOperation, var_operand_def, var_result_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa


@dataclass(frozen=True)
class Clause:
    """A part of an op's text, `keyword = value`, and the property that it is.

    Attributes:
        keyword: The word in the text.
        prop: The property.
        parse: Parses a value.
        text: Returns a value's text.
    """

    keyword: str
    prop: str
    parse: Callable[[Parser], Attribute]
    text: Callable[[Attribute], str]


def int_array(values: Sequence[int]) -> DenseArrayBase[IntegerType]:
    """Returns a list of integers as StableHLO's properties hold it."""
    return DenseArrayBase.from_list(i64, list(values))


def ints_of(attribute: Attribute | None, default: Sequence[int] = ()) -> tuple[int, ...]:
    """Returns the integers of a property, or a default if it is absent."""
    if attribute is None:
        return tuple(default)
    return tuple(cast("DenseArrayBase[IntegerType]", attribute).get_values())


def int_of(attribute: Attribute | None, default: int = 0) -> int:
    """Returns the integer of a property, or a default if it is absent."""
    return default if attribute is None else cast(IntegerAttr[IntegerType], attribute).value.data


def parse_ints(parser: Parser) -> DenseArrayBase[IntegerType]:
    """Parses `[1, 2]`."""
    return int_array(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer))


def ints_text(attribute: Attribute) -> str:
    """Returns a list of integers as it is printed."""
    return str(list(ints_of(attribute)))


def ints_clause(keyword: str, prop: str) -> Clause:
    """Returns the clause of a list of integers."""
    return Clause(keyword, prop, parse_ints, ints_text)


def int_clause(keyword: str, prop: str) -> Clause:
    """Returns the clause of an integer."""
    return Clause(
        keyword, prop, lambda parser: IntegerAttr(parser.parse_integer(), i64), lambda value: str(int_of(value))
    )


class HloOp(IRDLOperation, ABC):
    """An op on tensors: `op %a, %b, keyword = value {attributes} : (types) -> types`.

    Attributes:
        CLAUSES: The properties in the text.
        SHORT_TYPES: Whether one type stands for those of all operands and of the result if they are equal.
    """

    inputs = var_operand_def()
    outputs = var_result_def()

    CLAUSES: ClassVar[tuple[Clause, ...]] = ()
    SHORT_TYPES: ClassVar[bool] = False

    @property
    def kind(self) -> TensorType[Attribute]:
        """The type of the only result."""
        return cast("TensorType[Attribute]", self.results[0].type)

    def verify_(self) -> None:
        for value in (*self.operands, *self.results):
            kind: Attribute = value.type
            if not isa(kind, TensorType[Attribute]):
                raise VerifyException(f"operands and results must be tensors, got {kind}")
            if not kind.has_static_shape():
                raise VerifyException(f"shapes must be static, got {kind}")

    def print(self, printer: Printer) -> None:
        if self.operands:
            printer.print_string(" ")
            printer.print_list(self.operands, printer.print_ssa_value)
        separator = ", " if self.operands else " "
        for clause in self.CLAUSES:
            if clause.prop in self.properties:
                printer.print_string(f"{separator}{clause.keyword} = {clause.text(self.properties[clause.prop])}")
                separator = ", "
        self.print_rest(printer, {clause.prop for clause in self.CLAUSES})

    def print_rest(self, printer: Printer, printed: set[str]) -> None:
        """Prints the attributes, with the properties that are not printed yet, and the types."""
        hidden = {name: value for name, value in self.properties.items() if name not in printed}
        if hidden or self.attributes:
            printer.print_string(" ")
            printer.print_attr_dict({**hidden, **self.attributes})
        self.print_types(printer)

    def print_types(self, printer: Printer) -> None:
        """Prints the types of the operands and results."""
        operands, results = list(self.operand_types), list(self.result_types)
        printer.print_string(" : ")
        if self.SHORT_TYPES and len({*operands, *results}) == 1 and len(results) == 1:
            printer.print_attribute(results[0])
        else:
            print_function_type(printer, operands, results)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands: list[UnresolvedOperand] = []
        properties: dict[str, Attribute] = {}
        first = parser.parse_optional_unresolved_operand()
        more = True
        if first is not None:
            operands.append(first)
            more = parser.parse_optional_punctuation(",") is not None
        while more:
            operand = parser.parse_optional_unresolved_operand()
            if operand is not None:
                operands.append(operand)
            elif not cls.parse_clause(parser, properties):
                break
            more = parser.parse_optional_punctuation(",") is not None
        return cls.finish(parser, operands, properties)

    @classmethod
    def parse_clause(cls, parser: Parser, properties: dict[str, Attribute]) -> bool:
        """Parses `keyword = value` if a clause of the op follows, and returns whether it does."""
        keywords = [clause.keyword for clause in cls.CLAUSES]
        keyword = parser.parse_optional_keyword_in(keywords)
        if keyword is None:
            return False
        clause = cls.CLAUSES[keywords.index(keyword)]
        parser.parse_punctuation("=")
        properties[clause.prop] = clause.parse(parser)
        return True

    @classmethod
    def finish(
        cls,
        parser: Parser,
        operands: Sequence[UnresolvedOperand],
        properties: dict[str, Attribute],
        regions: Sequence[Region] = (),
    ) -> Self:
        """Parses the attributes and types, and returns the op."""
        attributes = cls.parse_attributes(parser, properties)
        start = parser.pos
        types, results = cls.parse_types(parser, len(operands))
        return cls.create(
            operands=parser.resolve_operands(operands, types, start),
            result_types=results,
            properties=properties,
            attributes=attributes,
            regions=regions,
        )

    @classmethod
    def parse_attributes(cls, parser: Parser, properties: dict[str, Attribute]) -> dict[str, Attribute]:
        """Parses attributes in braces, and adds those that are properties to `properties`."""
        attributes = parser.parse_optional_attr_dict()
        known = cls.get_irdl_definition().properties
        properties.update({name: value for name, value in attributes.items() if name in known})
        return {name: value for name, value in attributes.items() if name not in known}

    @classmethod
    def parse_types(cls, parser: Parser, count: int) -> tuple[Sequence[Attribute], Sequence[Attribute]]:
        """Parses the types of `count` operands and of the results."""
        parser.parse_punctuation(":")
        function = parse_optional_function_type(parser)
        if function is not None:
            return function
        kind = parser.parse_type()
        return [kind] * count, [kind]


def print_function_type(printer: Printer, operands: Sequence[Attribute], results: Sequence[Attribute]) -> None:
    """Prints `(types) -> types`."""
    with printer.in_parens():
        printer.print_list(operands, printer.print_attribute)
    printer.print_string(" -> ")
    if len(results) == 1:
        printer.print_attribute(results[0])
    else:
        with printer.in_parens():
            printer.print_list(results, printer.print_attribute)


def parse_optional_function_type(parser: Parser) -> tuple[Sequence[Attribute], Sequence[Attribute]] | None:
    """Parses `(types) -> types` if it follows."""
    operands = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    if operands is None:
        return None
    parser.parse_punctuation("->")
    results = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    return operands, [parser.parse_type()] if results is None else results
