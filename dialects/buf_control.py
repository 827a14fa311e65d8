"""`buf`'s control flow: functions of kernels that run in order, in loops and in branches.

Before `plan-memory` a function with loops or branches runs others, which hold kernels, by `buf.run` and `buf.choose`.
After it, their kernels stand in the function itself, in `buf.repeat` and `buf.branch`, on `buf.row`s of views.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

from xdsl.dialects.builtin import (
    AffineMapAttr,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    SymbolRefAttr,
    UnitAttr,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, BlockArgument, Dialect, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from tensorgrad.dialects.attention import AttentionOp
from tensorgrad.dialects.buf import (
    ArenaOp,
    Buffer,
    DispatchOp,
    KernelOp,
    PackOp,
    ViewOp,
    buffer_type,
    element_of,
    shape_of,
)
from tensorgrad.dialects.collective import CollectiveOp
from tensorgrad.dialects.schedule import ScheduleAttr


@irdl_op_definition
class RunOp(IRDLOperation):
    """Runs the kernels of a function, once or in a loop.

    Without `length`, the function takes the buffers of `consts`, `constants` and `stacks`, in this order, and writes
    the last ones. With it, the function runs `length` times, and takes: `consts`; the values that `init` begins with;
    at each position (from the last one on if `reverse`) the slice along axis 0 of each of `over`; `constants`; where to
    write the next carried values; and where to write the slice at the same position of each of `stacks`. `last` holds
    the last carried values. The loop may write over `init`.

    Example:
        buf.run @step length = 8 init(%h : memref<4xf32>) over(%x : memref<8x4xf32>) last(%l : memref<4xf32>)
    """

    name = "buf.run"
    callee = prop_def(SymbolRefAttr)
    length = opt_prop_def(IntegerAttr)
    reverse = opt_prop_def(UnitAttr)
    consts = var_operand_def(MemRefType)
    init = var_operand_def(MemRefType)
    over = var_operand_def(MemRefType)
    constants = var_operand_def(MemRefType)
    last = var_operand_def(MemRefType)
    stacks = var_operand_def(MemRefType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def()

    GROUPS: ClassVar[tuple[str, ...]] = ("consts", "init", "over", "constants", "last", "stacks")
    """The kinds of operands, in order."""

    @classmethod
    def of(
        cls, callee: str, groups: Sequence[Sequence[SSAValue]], length: int | None = None, reverse: bool = False
    ) -> RunOp:
        """Returns a run; `groups` has the operands of each of `GROUPS`."""
        properties: dict[str, Attribute] = {
            "callee": SymbolRefAttr(callee),
            "operandSegmentSizes": DenseArrayBase.from_list(i32, [len(group) for group in groups]),
        }
        if length is not None:
            properties["length"] = IntegerAttr(length, i64)
        if reverse:
            properties["reverse"] = UnitAttr()
        return cls.create(operands=[one for group in groups for one in group], properties=properties)

    @property
    def function(self) -> str:
        """The name of the function."""
        return self.callee.root_reference.data

    @property
    def count(self) -> int | None:
        """How often a loop runs; `None` where this is not a loop."""
        return None if self.length is None else cast("IntegerAttr[IntegerType]", self.length).value.data

    def position(self, iteration: int) -> int:
        """Returns the position in the sequences of a loop's iteration."""
        assert self.count is not None
        return self.count - 1 - iteration if self.reverse is not None else iteration

    @property
    def written(self) -> tuple[SSAValue, ...]:
        """The buffers that it writes."""
        return (*self.last, *self.stacks)

    def expected(self) -> list[Attribute]:
        """Returns the types that the function's arguments must have."""
        sliced = ("over", "stacks") if self.count is not None else ()
        groups = {name: cast("Sequence[SSAValue]", getattr(self, name)) for name in self.GROUPS}
        return [
            row_type(value.type) if name in sliced else value.type for name, group in groups.items() for value in group
        ]

    def verify_(self) -> None:
        if self.count is None:
            if self.init or self.over or self.last or self.reverse is not None:
                raise VerifyException("only a loop carries values or goes over sequences")
            return
        if self.count < 1:
            raise VerifyException(f"a loop runs at least once, not {self.count} times")
        if [value.type for value in self.init] != [value.type for value in self.last]:
            raise VerifyException("a loop ends with values of the types that it begins with")
        for value in (*self.over, *self.stacks):
            if shape_of(value)[:1] != (self.count,):
                raise VerifyException(f"goes over {value.type}, whose axis 0 is not the length {self.count}")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.function)
        if self.count is not None:
            printer.print_string(f" length = {self.count}")
        if self.reverse is not None:
            printer.print_string(" reverse")
        for name in self.GROUPS:
            _print_group(printer, name, getattr(self, name))
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> RunOp:
        callee = parser.parse_symbol_name().data
        length = None
        if parser.parse_optional_keyword("length"):
            parser.parse_punctuation("=")
            length = parser.parse_integer()
        reverse = parser.parse_optional_keyword("reverse") is not None
        groups = [_parse_group(parser, name) for name in cls.GROUPS]
        op = cls.of(callee, groups, length, reverse)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        if attributes is not None:
            op.attributes.update(attributes.data)
        return op


@irdl_op_definition
class ChooseOp(IRDLOperation):
    """Runs the kernels of one of two functions: of the first where the predicate holds, else of the second.

    Each takes the buffers of `consts` and the `constants` of its own, and writes all of `outs`.

    Example:
        buf.choose @yes @no if(%p : memref<i1>) consts(%x : memref<4xf32>) outs(%y : memref<4xf32>)
    """

    name = "buf.choose"
    then = prop_def(SymbolRefAttr)
    otherwise = prop_def(SymbolRefAttr)
    predicate = operand_def(MemRefType)
    consts = var_operand_def(MemRefType)
    then_constants = var_operand_def(MemRefType)
    else_constants = var_operand_def(MemRefType)
    outs = var_operand_def(MemRefType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def()

    GROUPS: ClassVar[tuple[str, ...]] = ("if", "consts", "then", "else", "outs")
    """What the kinds of operands are called, in order."""

    @classmethod
    def of(cls, functions: tuple[str, str], groups: Sequence[Sequence[SSAValue]]) -> ChooseOp:
        """Returns a choice; `groups` has the predicate, and the operands of each other of `GROUPS`."""
        return cls.create(
            operands=[one for group in groups for one in group],
            properties={
                "then": SymbolRefAttr(functions[0]),
                "otherwise": SymbolRefAttr(functions[1]),
                "operandSegmentSizes": DenseArrayBase.from_list(i32, [len(group) for group in groups]),
            },
        )

    @property
    def functions(self) -> tuple[str, str]:
        """The names of the functions."""
        return self.then.root_reference.data, self.otherwise.root_reference.data

    @property
    def written(self) -> tuple[SSAValue, ...]:
        """The buffers that it writes."""
        return tuple(self.outs)

    def operands_of(self, branch: int) -> list[SSAValue]:
        """Returns what one of the functions takes."""
        constants = (self.then_constants, self.else_constants)[branch]
        return [*self.consts, *constants, *self.outs]

    def print(self, printer: Printer) -> None:
        for name in self.functions:
            printer.print_string(" ")
            printer.print_symbol_name(name)
        groups = ([self.predicate], self.consts, self.then_constants, self.else_constants, self.outs)
        for name, group in zip(self.GROUPS, groups, strict=True):
            _print_group(printer, name, group)
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> ChooseOp:
        functions = parser.parse_symbol_name().data, parser.parse_symbol_name().data
        op = cls.of(functions, [_parse_group(parser, name) for name in cls.GROUPS])
        attributes = parser.parse_optional_attr_dict_with_keyword()
        if attributes is not None:
            op.attributes.update(attributes.data)
        return op


@irdl_op_definition
class RepeatOp(IRDLOperation):
    """Executes its body `count` times; the block's argument is the iteration index.

    Example:
        buf.repeat count = 8 {
        ^bb0(%i: index):
          %row = buf.row %x[%i] at affine_map<(d0) -> (d0 * 4)> : memref<32xf32> to memref<4xf32>
          ...
        }
    """

    name = "buf.repeat"
    count = prop_def(IntegerAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    @classmethod
    def of(cls, count: int) -> RepeatOp:
        """Returns an empty loop."""
        block = Block(arg_types=[IndexType()])
        return cls.create(properties={"count": IntegerAttr(count, i64)}, regions=[Region(block)])

    @property
    def times(self) -> int:
        """How often it runs."""
        return cast("IntegerAttr[IntegerType]", self.count).value.data

    @property
    def iteration(self) -> BlockArgument:
        """The iteration index."""
        return self.body.block.args[0]

    def verify_(self) -> None:
        if self.times < 1:
            raise VerifyException(f"repeats at least once, not {self.times} times")
        if [argument.type for argument in self.body.block.args] != [IndexType()]:
            raise VerifyException("the block's argument is the iteration index, of type index")
        for op in self.body.block.ops:
            if not isinstance(op, KernelOp | DispatchOp | RepeatOp | RowOp | BranchOp):
                raise VerifyException(f"repeats kernels and dispatches, not {op.name}")

    def print(self, printer: Printer) -> None:
        printer.print_string(f" count = {self.times}")
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body)

    @classmethod
    def parse(cls, parser: Parser) -> RepeatOp:
        parser.parse_keyword("count")
        parser.parse_punctuation("=")
        count = parser.parse_integer()
        attributes = parser.parse_optional_attr_dict_with_keyword()
        return cls.create(
            properties={"count": IntegerAttr(count, i64)},
            attributes={} if attributes is None else dict(attributes.data),
            regions=[parser.parse_region()],
        )


@irdl_op_definition
class BranchOp(IRDLOperation):
    """Runs what the first region holds where the predicate holds, else what the second holds.

    Example:
        buf.branch %p : memref<i1> {
          ...
        } else {
          ...
        }
    """

    name = "buf.branch"
    predicate = operand_def(MemRefType)
    then = region_def("single_block")
    otherwise = region_def("single_block")
    traits = traits_def(NoTerminator())

    @classmethod
    def of(cls, predicate: SSAValue) -> BranchOp:
        """Returns two empty branches."""
        return cls.create(operands=[predicate], regions=[Region(Block()), Region(Block())])

    @property
    def branches(self) -> tuple[Block, Block]:
        """What runs where the predicate holds, and where it doesn't."""
        return self.then.block, self.otherwise.block

    def verify_(self) -> None:
        for block in self.branches:
            for op in block.ops:
                if not isinstance(op, KernelOp | DispatchOp | RepeatOp | RowOp | BranchOp):
                    raise VerifyException(f"a branch has kernels and dispatches, not {op.name}")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.predicate)
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" : ")
        printer.print_attribute(self.predicate.type)
        printer.print_string(" ")
        printer.print_region(self.then, print_empty_block=False)
        printer.print_string(" else ")
        printer.print_region(self.otherwise, print_empty_block=False)

    @classmethod
    def parse(cls, parser: Parser) -> BranchOp:
        unresolved = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict_with_keyword()
        parser.parse_punctuation(":")
        predicate = parser.resolve_operand(unresolved, parser.parse_type())
        then = parser.parse_region()
        parser.parse_keyword("else")
        otherwise = parser.parse_region()
        for region in (then, otherwise):
            if not region.blocks:
                region.add_block(Block())
        return cls.create(
            operands=[predicate],
            attributes={} if attributes is None else dict(attributes.data),
            regions=[then, otherwise],
        )


@irdl_op_definition
class RowOp(IRDLOperation):
    """A tensor's place in a view that moves with loops: a map of iteration indices gives its first element.

    Example:
        %row = buf.row %x[%i] at affine_map<(d0) -> (d0 * 4)> : memref<32xf32> to memref<4xf32>
    """

    name = "buf.row"
    view = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    at = prop_def(AffineMapAttr)
    result = result_def(MemRefType)
    traits = traits_def(Pure())

    @classmethod
    def of(cls, view: SSAValue, indices: Sequence[SSAValue], at: AffineMap, kind: Buffer) -> RowOp:
        """Returns the row of `kind` that starts at the element `at` of the indices."""
        return cls.build(operands=[view, list(indices)], properties={"at": AffineMapAttr(at)}, result_types=[kind])

    @property
    def base(self) -> ViewOp:
        """The view that it is a part of."""
        return cast(ViewOp, self.view.owner)

    def start(self, iterations: Sequence[int]) -> int:
        """Returns the first element, given the indices."""
        return self.at.data.eval(list(iterations), [])[0]

    def verify_(self) -> None:
        if not isinstance(self.view.owner, ViewOp):
            raise VerifyException("a row is a part of a buf.view")
        if element_of(self.view) != element_of(self.result):
            raise VerifyException(f"a row of {self.view.type} has its elements, not those of {self.result.type}")
        if self.at.data.num_dims != len(self.indices) or len(self.at.data.results) != 1:
            raise VerifyException("the map goes from the indices to the first element")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.view)
        printer.print_string("[")
        printer.print_list(self.indices, printer.print_ssa_value)
        printer.print_string("] at ")
        printer.print_attribute(self.at)
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" : ")
        printer.print_attribute(self.view.type)
        printer.print_string(" to ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> RowOp:
        unresolved = parser.parse_unresolved_operand()
        indices = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_unresolved_operand)
        parser.parse_keyword("at")
        at = cast(AffineMapAttr, parser.parse_attribute())
        attributes = parser.parse_optional_attr_dict_with_keyword()
        parser.parse_punctuation(":")
        view = parser.resolve_operand(unresolved, parser.parse_type())
        parser.parse_keyword("to")
        resolved = [parser.resolve_operand(one, IndexType()) for one in indices]
        op = cls.of(view, resolved, at.data, cast(Buffer, parser.parse_type()))
        if attributes is not None:
            op.attributes.update(attributes.data)
        return op


def row_type(kind: Attribute) -> Buffer:
    """Returns the type of a slice along axis 0."""
    whole = cast(Buffer, kind)
    return buffer_type(whole.get_shape()[1:], whole.get_element_type())


def _print_group(printer: Printer, name: str, operands: Sequence[SSAValue]) -> None:
    if not operands:
        return
    printer.print_string(f" {name}(")
    printer.print_list(operands, printer.print_ssa_value)
    printer.print_string(" : ")
    printer.print_list([operand.type for operand in operands], printer.print_attribute)
    printer.print_string(")")


def _parse_group(parser: Parser, name: str) -> Sequence[SSAValue]:
    if not parser.parse_optional_keyword(name):
        return ()
    start = parser.pos
    parser.parse_punctuation("(")
    unresolved = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
    parser.parse_punctuation(":")
    types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    parser.parse_punctuation(")")
    return parser.resolve_operands(unresolved, types, start)


Buf = Dialect(
    "buf",
    [
        KernelOp,
        AttentionOp,
        CollectiveOp,
        ArenaOp,
        ViewOp,
        PackOp,
        DispatchOp,
        RunOp,
        ChooseOp,
        RepeatOp,
        BranchOp,
        RowOp,
    ],
    [ScheduleAttr],
)
"""The dialect object that a context registers."""
