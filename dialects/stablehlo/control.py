"""Loops, branches, composites and calls of what StableHLO doesn't define."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self, cast

from xdsl.dialects.builtin import (
    ComplexType,
    DictionaryAttr,
    FlatSymbolRefAttrConstr,
    IntegerAttr,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def, region_def, traits_def, var_region_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure

from tensorgrad.dialects.stablehlo.base import HloOp, ints_text, parse_ints
from tensorgrad.dialects.stablehlo.regions import GenericOp


@irdl_op_definition
class WhileOp(HloOp):
    """Repeats its second region while its first returns true; both take the carried values.

    `while(%a = %0, %b = %1) : type, type cond { … } do { … }`; regions may use values from outside.
    """

    name = "stablehlo.while"
    cond = region_def("single_block")
    body = region_def("single_block")
    traits = traits_def(Pure())

    def print(self, printer: Printer) -> None:
        arguments = self.cond.block.args
        printer.print_string("(")
        for place, (argument, operand) in enumerate(zip(arguments, self.operands, strict=True)):
            printer.print_string(", " if place else "")
            printer.print_ssa_value(argument)
            printer.print_string(" = ")
            printer.print_ssa_value(operand)
        printer.print_string(")")
        if self.operands:
            printer.print_string(" : ")
            printer.print_list(self.operand_types, printer.print_attribute)
        if self.attributes:
            printer.print_string(" attributes ")
            printer.print_attr_dict(self.attributes)
        printer.print_string(" cond ")
        printer.print_region(self.cond, print_entry_block_args=False)
        printer.print_string(" do ")
        # Both regions name their arguments alike.
        names: dict[SSAValue, str] = cast(Any, printer)._ssa_values
        names.update({own: names[of] for own, of in zip(self.body.block.args, arguments, strict=True)})
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        names: list[Parser.UnresolvedArgument] = []
        operands: list[UnresolvedOperand] = []

        def carried() -> None:
            names.append(parser.parse_argument(expect_type=False))
            parser.parse_punctuation("=")
            operands.append(parser.parse_unresolved_operand())

        parser.parse_comma_separated_list(parser.Delimiter.PAREN, carried)
        start = parser.pos
        kinds: Sequence[Attribute] = ()
        if operands:
            parser.parse_punctuation(":")
            kinds = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        regions: list[Region] = []
        for keyword in ("cond", "do"):
            parser.parse_keyword(keyword)
            arguments = [name.resolve(kind) for name, kind in zip(names, kinds, strict=True)]
            regions.append(parser.parse_region(arguments))
        return cls.create(
            operands=parser.resolve_operands(operands, kinds, start),
            result_types=kinds,
            attributes={} if attributes is None else dict(attributes.data),
            regions=regions,
        )


@irdl_op_definition
class CaseOp(GenericOp):
    """Runs the branch of the operand's number, or the last for a number that no branch has."""

    name = "stablehlo.case"
    branches = var_region_def("single_block")
    traits = traits_def(Pure())


@irdl_op_definition
class IfOp(GenericOp):
    """Runs the first branch if the operand holds, else the second."""

    name = "stablehlo.if"
    true_branch = region_def("single_block")
    false_branch = region_def("single_block")
    traits = traits_def(Pure())


@irdl_op_definition
class CompositeOp(HloOp):
    """A named operation with a decomposition: `composite "chlo.erf" %a {decomposition = @erf} : (type) -> type`."""

    name = "stablehlo.composite"
    callee = prop_def(StringAttr, prop_name="name")
    composite_attributes = opt_prop_def(DictionaryAttr)
    decomposition = prop_def(FlatSymbolRefAttrConstr)
    version = opt_prop_def(IntegerAttr)
    traits = traits_def(Pure())

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.callee.data)
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        self.print_rest(printer, {"name"})

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        properties: dict[str, Attribute] = {"name": StringAttr(parser.parse_str_literal())}
        operands = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
        )
        return cls.finish(parser, operands or [], properties)


@irdl_op_definition
class CustomCallOp(HloOp):
    """A call of what only the other program's runtime has: `custom_call @name(%a) {…} : (type) -> type`."""

    name = "stablehlo.custom_call"
    call_target_name = prop_def(StringAttr)
    traits = traits_def()

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.call_target_name.data)
        with printer.in_parens():
            printer.print_list(self.operands, printer.print_ssa_value)
        self.print_rest(printer, {"call_target_name"})

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        properties: dict[str, Attribute] = {"call_target_name": parser.parse_symbol_name()}
        operands = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        return cls.finish(parser, operands, properties)


class ForeignOp(HloOp):
    """An op without a counterpart here, which is read so that a message can name it, and others like it.

    Attributes:
        WORDS: The words of its text that have a value: a name, or a list of integers.
    """

    WORDS: ClassVar[tuple[str, ...]] = ()
    SHORT_TYPES: ClassVar = True

    def print(self, printer: Printer) -> None:
        if self.operands:
            printer.print_string(" ")
            printer.print_list(self.operands, printer.print_ssa_value)
        for word in self.WORDS:
            value = self.attributes.get(word)
            if value is not None:
                printer.print_string(f", {word} = {value.data if isinstance(value, StringAttr) else ints_text(value)}")
        rest = {name: value for name, value in self.attributes.items() if name not in self.WORDS}
        if rest:
            printer.print_string(" ")
            printer.print_attr_dict(rest)
        self.print_types(printer)

    @classmethod
    def parse_clause(cls, parser: Parser, properties: dict[str, Attribute]) -> bool:
        """Parses a word and its value; they are kept as attributes."""
        word = parser.parse_optional_keyword_in(cls.WORDS)
        if word is None:
            return False
        parser.parse_punctuation("=")
        name = parser.parse_optional_identifier()
        properties[word] = parse_ints(parser) if name is None else StringAttr(name)
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
        op = super().finish(parser, operands, {}, regions)
        op.attributes.update(properties)
        return op


@irdl_op_definition
class ComplexOp(ForeignOp):
    """Complex numbers of real and imaginary parts: `complex %a, %b : tensor<…xcomplex<f32>>`."""

    name = "stablehlo.complex"

    def print_types(self, printer: Printer) -> None:
        """Prints the result's type."""
        printer.print_string(" : ")
        printer.print_attribute(self.kind)

    @classmethod
    def parse_types(cls, parser: Parser, count: int) -> tuple[Sequence[Attribute], Sequence[Attribute]]:
        """Parses the result's type, of which the operands have the parts."""
        parser.parse_punctuation(":")
        kind = cast("TensorType[ComplexType]", parser.parse_type())
        part = TensorType(kind.get_element_type().element_type, kind.get_shape())
        return [part] * count, [kind]


def _foreign(name: str, *words: str) -> type[HloOp]:
    members = {
        "name": f"stablehlo.{name}",
        "WORDS": words,
        "__annotations__": {"WORDS": ClassVar[tuple[str, ...]]},
        "__doc__": ForeignOp.__doc__,
        "__module__": __name__,
    }
    return cast("type[HloOp]", irdl_op_definition(type(name, (ForeignOp,), members)))


FOREIGN = (
    ComplexOp,
    _foreign("cholesky", "lower"),
    _foreign("dynamic_broadcast_in_dim", "dims"),
    _foreign("dynamic_iota", "dim"),
    _foreign("dynamic_reshape"),
    _foreign("fft", "type", "length"),
    _foreign("get_dimension_size", "dim"),
    _foreign("imag"),
    _foreign("partition_id"),
    _foreign("real"),
    _foreign("replica_id"),
    _foreign("rng", "distribution"),
    _foreign("rng_bit_generator", "algorithm"),
)
"""Ops that JAX writes for functions which have no counterpart here."""

OPS: tuple[type[HloOp], ...] = (WhileOp, CaseOp, IfOp, CompositeOp, CustomCallOp, *FOREIGN)
