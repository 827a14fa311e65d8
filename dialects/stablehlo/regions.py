"""Ops whose regions combine or compare elements: reductions, windows, sorts, gathers and scatters.

Upstream prints all but `reduce` in generic form, and so do we.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def, region_def, traits_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure
from xdsl.utils.hints import isa

from tensorgrad.dialects.stablehlo.attributes import GatherAttr, ScatterAttr
from tensorgrad.dialects.stablehlo.base import (
    HloOp,
    ints_text,
    parse_ints,
)


@irdl_op_definition
class ReturnOp(HloOp):
    """Ends a region: `return %a, %b : type, type`."""

    name = "stablehlo.return"
    traits = traits_def(IsTerminator(), Pure())

    def print_types(self, printer: Printer) -> None:
        """Prints the operands' types."""
        if self.operands:
            printer.print_string(" : ")
            printer.print_list(self.operand_types, printer.print_attribute)

    @classmethod
    def parse_types(cls, parser: Parser, count: int) -> tuple[Sequence[Attribute], Sequence[Attribute]]:
        """Parses the operands' types."""
        if not count:
            return [], []
        parser.parse_punctuation(":")
        return parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type), []


class GenericOp(HloOp):
    """An op that is printed in generic form."""

    print = Operation.print

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        parser.raise_error(f"{cls.name} is written in generic form")


@irdl_op_definition
class ReduceOp(HloOp):
    """Combines elements along axes: `reduce(%a init: %b) applies op across dimensions = [1] : (types) -> type`.

    Several tensors may be reduced together, with a region of two elements of each: `(%a init: %b), (%c init: %d)`.
    """

    name = "stablehlo.reduce"
    dimensions = prop_def()
    body = region_def("single_block")
    traits = traits_def(Pure())

    def applied(self) -> Operation | None:
        """Returns the only op of the region if it applies to its two arguments in order."""
        ops = list(self.body.block.ops)
        if len(ops) == 2 and list(ops[0].operands) == list(self.body.block.args) and len(self.body.block.args) == 2:
            return ops[0] if list(ops[1].operands) == list(ops[0].results) and not ops[0].properties else None
        return None

    def print(self, printer: Printer) -> None:
        half = len(self.operands) // 2
        for place in range(half):
            printer.print_string(", (" if place else "(")
            printer.print_ssa_value(self.operands[place])
            printer.print_string(" init: ")
            printer.print_ssa_value(self.operands[half + place])
            printer.print_string(")")
        applied = self.applied()
        if applied is not None:
            printer.print_string(f" applies {applied.name}")
        printer.print_string(f" across dimensions = {ints_text(self.dimensions)}")
        self.print_rest(printer, {"dimensions"})
        if applied is None:
            self._print_reducer(printer, half)

    def _print_reducer(self, printer: Printer, half: int) -> None:
        printer.print_string(" reducer")
        args = self.body.block.args
        for place in range(half):
            printer.print_string("(")
            printer.print_list((args[place], args[half + place]), printer.print_block_argument)
            printer.print_string(") ")
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands: list[UnresolvedOperand] = []
        inits: list[UnresolvedOperand] = []
        while True:
            with parser.in_parens():
                operands.append(parser.parse_unresolved_operand())
                parser.parse_keyword("init")
                parser.parse_punctuation(":")
                inits.append(parser.parse_unresolved_operand())
            if not parser.parse_optional_punctuation(","):
                break
        applied = parser.parse_identifier() if parser.parse_optional_keyword("applies") else None
        parser.parse_keyword("across")
        parser.parse_keyword("dimensions")
        parser.parse_punctuation("=")
        properties: dict[str, Attribute] = {"dimensions": parse_ints(parser)}
        attributes = cls.parse_attributes(parser, properties)
        start = parser.pos
        types, results = cls.parse_types(parser, 2 * len(operands))
        region = cls._parse_reducer(parser, len(operands)) if applied is None else None
        if region is None:
            assert applied is not None
            region = _applying(parser, applied, types[1], start)
        return cls.create(
            operands=parser.resolve_operands([*operands, *inits], types, start),
            result_types=results,
            properties=properties,
            attributes=attributes,
            regions=[region],
        )

    @staticmethod
    def _parse_reducer(parser: Parser, count: int) -> Region:
        parser.parse_keyword("reducer")
        lhs: list[Parser.Argument] = []
        rhs: list[Parser.Argument] = []
        for _ in range(count):
            with parser.in_parens():
                lhs.append(parser.parse_argument())
                parser.parse_optional_location()
                parser.parse_punctuation(",")
                rhs.append(parser.parse_argument())
                parser.parse_optional_location()
        return parser.parse_region([*lhs, *rhs])


def _applying(parser: Parser, name: str, scalar: Attribute, start: int) -> Region:
    """Returns the region that applies an op of this name to its two arguments."""
    kind = parser.ctx.get_optional_op(name)
    if kind is None or not isa(scalar, TensorType[Attribute]):
        parser.raise_error(f"{name} can't be applied to {scalar}", start, parser.pos)
    block = Block(arg_types=[scalar, scalar])
    op = kind.create(operands=list(block.args), result_types=[scalar])
    block.add_ops([op, ReturnOp.create(operands=list(op.results))])
    return Region(block)


@irdl_op_definition
class ReduceWindowOp(GenericOp):
    """Combines the elements of each window into one."""

    name = "stablehlo.reduce_window"
    window_dimensions = prop_def()
    window_strides = opt_prop_def()
    base_dilations = opt_prop_def()
    window_dilations = opt_prop_def()
    padding = opt_prop_def()
    body = region_def("single_block")
    traits = traits_def(Pure())


@irdl_op_definition
class SelectAndScatterOp(GenericOp):
    """Adds each element of the second operand at the place that its window of the first operand selects."""

    name = "stablehlo.select_and_scatter"
    window_dimensions = opt_prop_def()
    window_strides = opt_prop_def()
    padding = opt_prop_def()
    select = region_def("single_block")
    scatter = region_def("single_block")
    traits = traits_def(Pure())


@irdl_op_definition
class SortOp(GenericOp):
    """Sorts tensors together along an axis, by a comparison of two elements of each."""

    name = "stablehlo.sort"
    dimension = opt_prop_def()
    is_stable = opt_prop_def()
    comparator = region_def("single_block")
    traits = traits_def(Pure())


@irdl_op_definition
class GatherOp(GenericOp):
    """Reads a box of a fixed size at each vector of indices, moved inside where it is not."""

    name = "stablehlo.gather"
    dimension_numbers = prop_def(GatherAttr)
    slice_sizes = prop_def()
    indices_are_sorted = opt_prop_def()
    traits = traits_def(Pure())


@irdl_op_definition
class ScatterOp(GenericOp):
    """Combines updates with the elements at each vector of indices; boxes that are not inside are dropped."""

    name = "stablehlo.scatter"
    scatter_dimension_numbers = prop_def(ScatterAttr)
    indices_are_sorted = opt_prop_def()
    unique_indices = opt_prop_def()
    update_computation = region_def("single_block")
    traits = traits_def(Pure())


def returned(region: Region) -> Sequence[SSAValue]:
    """Returns the values that a region's block returns."""
    last = region.block.last_op
    return () if last is None else last.operands


OPS: tuple[type[HloOp], ...] = (
    ReturnOp,
    ReduceOp,
    ReduceWindowOp,
    SelectAndScatterOp,
    SortOp,
    GatherOp,
    ScatterOp,
)
