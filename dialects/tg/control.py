"""`tg.scan` and `tg.cond`: a loop with carried values, and a conditional."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, TypeVar, cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, UnitAttr, i1, i32
from xdsl.ir import Attribute, Block, BlockArgument, OpResult, Region, SSAValue
from xdsl.ir.core import SSAValues
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, Pure

from tensorgrad.dialects.tg.base import Tensor, integer, require, tensor
from tensorgrad.dialects.tg.call import (
    CallOp,
    ReturnOp,
    check_region,
    check_returned,
    check_tensors,
    listed,
    parse_signature,
    print_signature,
    returned,
)

T = TypeVar("T")


@irdl_op_definition
class ScanOp(IRDLOperation):
    """Executes its body `length` times, passing carried values from iteration to iteration, over slices of sequences.

    The body takes the constants, which are loop-invariant, then the carried values, initially `carry`, then the slice
    of each operand in `over` at the current position along axis 0. It returns the next carried values, followed by any
    number of other values. The results are the final carried values (`carry` itself if `length` is 0), and the other
    values of all iterations stacked along a new axis 0. With `reverse`, positions go from the last to the first, both
    in the slices that are read and in the stacks that are written.

    Example:
        %last, %all = tg.scan (%w) carry (%h) over (%x) length = 8 : (tensor<2xf32>, tensor<2xf32>, tensor<8x2xf32>)
            -> (tensor<2xf32>, tensor<8x2xf32>) {
        ^bb0(%w0: tensor<2xf32>, %h0: tensor<2xf32>, %x0: tensor<2xf32>):
          %0 = tg.mul %w0, %h0 : tensor<2xf32>, tensor<2xf32>
          %1 = tg.add %0, %x0 : tensor<2xf32>, tensor<2xf32>
          tg.return %1, %0 : tensor<2xf32>, tensor<2xf32>
        }
    """

    name = "tg.scan"
    length = prop_def(IntegerAttr)
    reverse = opt_prop_def(UnitAttr)
    consts = var_operand_def()
    init = var_operand_def()
    xs = var_operand_def()
    outputs = var_result_def()
    body = region_def("single_block")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure(), IsolatedFromAbove())

    @classmethod
    def of(
        cls,
        consts: Sequence[SSAValue],
        init: Sequence[SSAValue],
        xs: Sequence[SSAValue],
        length: int,
        reverse: bool,
        body: Block,
    ) -> ScanOp:
        """Returns a scan whose result types follow from the values that the body returns."""
        properties: dict[str, Attribute] = {"length": integer(length), **_segments(consts, init, xs)}
        if reverse:
            properties["reverse"] = UnitAttr()
        types = [cast(Tensor, value.type) for value in returned(body)]
        stacks = [stacked(kind, length) for kind in types[len(init) :]]
        return cls.create(
            operands=[*consts, *init, *xs],
            result_types=[*types[: len(init)], *stacks],
            properties=properties,
            regions=[Region(body)],
        )

    @property
    def count(self) -> int:
        """The trip count."""
        return self.length.value.data

    @property
    def carries(self) -> int:
        """The number of carried values."""
        return len(self.init)

    @property
    def arguments(self) -> tuple[tuple[BlockArgument, ...], tuple[BlockArgument, ...], tuple[BlockArgument, ...]]:
        """The body's arguments: constants, carried values, slices."""
        consts, carried, slices = self.split(self.body.block.args)
        return tuple(consts), tuple(carried), tuple(slices)

    def split(self, values: Sequence[T]) -> tuple[Sequence[T], Sequence[T], Sequence[T]]:
        """Returns, of values for all operands, those for the constants, the carried values and the sequences."""
        first = len(self.consts)
        second = first + self.carries
        return values[:first], values[first:second], values[second:]

    def set_operands(self, consts: Sequence[SSAValue], init: Sequence[SSAValue], xs: Sequence[SSAValue]) -> None:
        """Replaces all operands; the caller must update the body's arguments."""
        self.operands = [*consts, *init, *xs]
        self.properties.update(_segments(consts, init, xs))

    def stack(self, value: SSAValue) -> SSAValue:
        """Adds a result that stacks a value of the body over all positions, and returns it; other results remain."""
        values = returned(self.body.block)
        for position, result_value in enumerate(values[self.carries :], self.carries):
            if result_value is value:
                return self.results[position]
        result = OpResult(stacked(cast(Tensor, value.type), self.count), self, len(self.results))
        self.results = SSAValues((*self.results, result))
        set_returned(self.body.block, [*values, value])
        return result

    def keep_results(self, positions: Sequence[int]) -> None:
        """Drops the other results, which must have no uses, and the values that the body returns for them."""
        values = returned(self.body.block)
        results = [self.results[position] for position in positions]
        for position, result in enumerate(results):
            result.index = position
        self.results = SSAValues(results)
        set_returned(self.body.block, [values[position] for position in positions])

    def verify_(self) -> None:
        check_tensors(self)
        length = self.count
        require(length >= 0, f"length {length} is negative")
        slices: list[Attribute] = []
        for kind in (cast(Tensor, x.type) for x in self.xs):
            shape = kind.get_shape()
            require(bool(shape) and shape[0] == length, f"goes over {kind}, whose axis 0 is not the length {length}")
            slices.append(tensor(shape[1:], kind.get_element_type()))
        carried = [value.type for value in self.init]
        check_region("body", self.body.block, [*(value.type for value in self.consts), *carried, *slices])
        types = [value.type for value in returned(self.body.block)]
        require(
            types[: len(carried)] == carried,
            lambda: f"the body returns {listed(types)}, which must begin with what it carries, {listed(carried)}",
        )
        expected = [*carried, *(stacked(cast(Tensor, kind), length) for kind in types[len(carried) :])]
        types = list(self.result_types)
        require(types == expected, lambda: f"the results are {listed(types)}, expected {listed(expected)}")

    def print(self, printer: Printer) -> None:
        for keyword, operands in (("", self.consts), ("carry ", self.init), ("over ", self.xs)):
            printer.print_string(f" {keyword}(")
            printer.print_list(operands, printer.print_ssa_value)
            printer.print_string(")")
        printer.print_string(f" length = {self.count}")
        if self.reverse is not None:
            printer.print_string(" reverse")
        print_signature(printer, self)
        printer.print_region(self.body)

    @classmethod
    def parse(cls, parser: Parser) -> ScanOp:
        start = parser.pos
        groups = [parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)]
        for keyword in ("carry", "over"):
            parser.parse_keyword(keyword)
            groups.append(parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand))
        parser.parse_keyword("length")
        parser.parse_punctuation("=")
        properties: dict[str, Attribute] = {"length": integer(parser.parse_integer())}
        if parser.parse_optional_keyword("reverse"):
            properties["reverse"] = UnitAttr()
        attributes, types, results = parse_signature(parser)
        operands = parser.resolve_operands([operand for group in groups for operand in group], types, start)
        properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, [len(group) for group in groups])
        return cls.create(
            operands=operands,
            result_types=results,
            properties=properties,
            attributes=attributes,
            regions=[parser.parse_region()],
        )


@irdl_op_definition
class CondOp(IRDLOperation):
    """Applies one of two functions to the operands: the first if the predicate holds, else the second.

    Only the chosen one runs. Both return values of the same types, which become the results.

    Example:
        %1 = tg.cond %p (%0) : (tensor<4xf32>) -> (tensor<4xf32>) {
        ^bb0(%x: tensor<4xf32>):
          %y = tg.exp %x : tensor<4xf32>
          tg.return %y : tensor<4xf32>
        } else {
        ^bb0(%x: tensor<4xf32>):
          tg.return %x : tensor<4xf32>
        }
    """

    name = "tg.cond"
    predicate = operand_def()
    inputs = var_operand_def()
    outputs = var_result_def()
    then = region_def("single_block")
    otherwise = region_def("single_block")
    traits = traits_def(Pure(), IsolatedFromAbove())

    @classmethod
    def of(cls, predicate: SSAValue, operands: Sequence[SSAValue], then: Block, otherwise: Block) -> CondOp:
        """Returns a conditional whose result types are those that the first function returns."""
        return cls.create(
            operands=[predicate, *operands],
            result_types=[value.type for value in returned(then)],
            regions=[Region(then), Region(otherwise)],
        )

    @property
    def branches(self) -> tuple[Block, Block]:
        """The blocks of the two functions: for a true predicate, and for a false one."""
        return self.then.block, self.otherwise.block

    def keep_results(self, positions: Sequence[int]) -> None:
        """Drops the other results, which must have no uses, and the values that the branches return for them."""
        results = [self.results[position] for position in positions]
        for position, result in enumerate(results):
            result.index = position
        self.results = SSAValues(results)
        for block in self.branches:
            values = returned(block)
            set_returned(block, [values[position] for position in positions])

    def verify_(self) -> None:
        check_tensors(self)
        require(
            self.predicate.type == tensor((), i1),
            lambda: f"the predicate must be {tensor((), i1)}, got {self.predicate.type}",
        )
        inputs, outputs = [value.type for value in self.inputs], list(self.result_types)
        for what, block in zip(("the first branch", "the second branch"), self.branches, strict=True):
            check_region(what, block, inputs)
            check_returned(what, block, outputs)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.predicate)
        printer.print_string(" (")
        printer.print_list(self.inputs, printer.print_ssa_value)
        printer.print_string(")")
        print_signature(printer, self, self.inputs)
        printer.print_region(self.then)
        printer.print_string(" else ")
        printer.print_region(self.otherwise)

    @classmethod
    def parse(cls, parser: Parser) -> CondOp:
        start = parser.pos
        predicate = parser.resolve_operand(parser.parse_unresolved_operand(), tensor((), i1))
        unresolved = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        attributes, types, results = parse_signature(parser)
        operands = parser.resolve_operands(unresolved, types, start)
        then = parser.parse_region()
        parser.parse_keyword("else")
        return cls.create(
            operands=[predicate, *operands],
            result_types=results,
            attributes=attributes,
            regions=[then, parser.parse_region()],
        )


RegionOp: TypeAlias = CallOp | ScanOp | CondOp
"""An op whose semantics are defined by its regions."""

REGION_OPS: tuple[type[IRDLOperation], ...] = (CallOp, ReturnOp, ScanOp, CondOp)
"""The ops that have or terminate regions; they may have any number of results."""


def stacked(kind: Tensor, length: int) -> Tensor:
    """Returns the type of `length` tensors of type `kind` stacked along a new axis 0."""
    return tensor((length, *kind.get_shape()), kind.get_element_type())


def set_returned(block: Block, values: Sequence[SSAValue]) -> None:
    """Makes a region's block return `values`."""
    old = block.last_op
    assert isinstance(old, ReturnOp)
    new = ReturnOp(values)
    new.location = old.location
    block.insert_op_after(new, old)
    block.erase_op(old)


def _segments(*groups: Sequence[SSAValue]) -> dict[str, Attribute]:
    return {"operandSegmentSizes": DenseArrayBase.from_list(i32, [len(group) for group in groups])}
