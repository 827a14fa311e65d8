"""The control flow of `buf`: functions of kernels that run in order, in loops and in branches.

Before `plan-memory`, a function with loops or branches runs others, which contain the kernels, by `buf.run` and
`buf.choose`. After it, the kernels are inlined into `buf.repeat` and `buf.branch`, on `buf.row`s of views.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import cast

from xdsl.dialects.builtin import (
    I64,
    AffineMapAttr,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
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
    optional,
    shape_of,
)
from tensorgrad.dialects.buf_tiles import ForallOp, ProcessorAttr, SpaceAttr, TiledOp
from tensorgrad.dialects.collective import CollectiveOp
from tensorgrad.dialects.counting_sort import CountingSortOp
from tensorgrad.dialects.recipe import RecipeAttr
from tensorgrad.dialects.schedule import ScheduleAttr

GROUPS = ("consts", "init", "over", "constants", "last", "stacks")
"""The groups of operands of a run, in order."""


@irdl_op_definition
class RunOp(IRDLOperation):
    """Runs the kernels of a function, once or in a loop.

    Without `length`, the function takes the buffers of `consts`, `constants` and `stacks`, in this order, and writes
    those of `stacks`. With `length`, it runs that many times. An iteration at a position (from the last to the first if
    `reverse`) takes `consts`; the carried values, initially `init`; the slice of each of `over` along axis 0;
    `constants`; the buffers for the next carried values; and the slice of each of `stacks`, which it writes. `last`
    receives the final carried values. The loop may overwrite `init`.

    Example:
        buf.run @step length = 8 init(%h : memref<4xf32>) over(%x : memref<8x4xf32>) last(%l : memref<4xf32>)
    """

    name = "buf.run"
    callee = prop_def(SymbolRefAttr)
    length = opt_prop_def(IntegerAttr[I64])
    reverse = opt_prop_def(UnitAttr)
    consts = var_operand_def(MemRefType)
    init = var_operand_def(MemRefType)
    over = var_operand_def(MemRefType)
    constants = var_operand_def(MemRefType)
    last = var_operand_def(MemRefType)
    stacks = var_operand_def(MemRefType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def()

    assembly_format = (
        "$callee (`length` `=` $length^)? (`reverse` $reverse^)? "
        f"{' '.join(optional(name, name) for name in GROUPS)} attr-dict-with-keyword"
    )

    @classmethod
    def of(
        cls, callee: str, groups: Sequence[Sequence[SSAValue]], length: int | None = None, reverse: bool = False
    ) -> RunOp:
        """Returns a run; `groups` lists the operands of each of `GROUPS`."""
        properties: dict[str, Attribute] = {
            "callee": SymbolRefAttr(callee),
            "operandSegmentSizes": DenseArrayBase.from_list(i32, [len(group) for group in groups]),
        }
        if length is not None:
            properties["length"] = IntegerAttr(length, i64)
        if reverse:
            properties["reverse"] = UnitAttr()
        return cls.create(operands=[value for group in groups for value in group], properties=properties)

    @property
    def function(self) -> str:
        """The name of the function."""
        return self.callee.root_reference.data

    @property
    def count(self) -> int | None:
        """The trip count of a loop, or `None` if the function runs once."""
        return None if self.length is None else self.length.value.data

    def position(self, iteration: int) -> int:
        """Returns the position in the sequences at a loop's iteration index."""
        assert self.count is not None
        return self.count - 1 - iteration if self.reverse is not None else iteration

    @property
    def written(self) -> tuple[SSAValue, ...]:
        """The buffers that it writes."""
        return (*self.last, *self.stacks)

    def arguments_of(self, block: Block) -> dict[str, list[SSAValue]]:
        """Returns the arguments of the function's block, by the group of operands that they stand for."""
        sizes, arguments = [len(getattr(self, name)) for name in GROUPS], iter(block.args)
        return {name: list(islice(arguments, size)) for name, size in zip(GROUPS, sizes, strict=True)}

    def expected(self) -> list[Attribute]:
        """Returns the types that the function's arguments must have."""
        sliced = ("over", "stacks") if self.count is not None else ()
        groups = {name: cast("Sequence[SSAValue]", getattr(self, name)) for name in GROUPS}
        return [
            row_type(value.type) if name in sliced else value.type for name, group in groups.items() for value in group
        ]

    def verify_(self) -> None:
        if self.count is None:
            if self.init or self.over or self.last or self.reverse is not None:
                raise VerifyException("only a loop (with a length) may carry values or go over sequences")
            return
        if self.count < 1:
            raise VerifyException(f"a loop must have a length of at least 1, got {self.count}")
        if [value.type for value in self.init] != [value.type for value in self.last]:
            raise VerifyException("the final values of a loop must have the types of its initial values")
        for value in (*self.over, *self.stacks):
            if shape_of(value)[:1] != (self.count,):
                raise VerifyException(f"goes over {value.type}, whose axis 0 is not the length {self.count}")


@irdl_op_definition
class ChooseOp(IRDLOperation):
    """Runs the kernels of the first of two functions if the predicate holds, else those of the second.

    Each takes the buffers of `consts` and its own `constants`, and writes all of `outs`.

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

    assembly_format = (
        f"$then $otherwise `if` `(` $predicate `:` type($predicate) `)` {optional('consts', 'consts')} "
        f"{optional('then', 'then_constants')} {optional('else', 'else_constants')} {optional('outs', 'outs')} "
        "attr-dict-with-keyword"
    )

    @classmethod
    def of(cls, functions: tuple[str, str], groups: Sequence[Sequence[SSAValue]]) -> ChooseOp:
        """Returns a choice; `groups` lists the predicate, `consts`, the constants of each function, and `outs`."""
        return cls.create(
            operands=[value for group in groups for value in group],
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
        """Returns the operands of one of the functions."""
        constants = (self.then_constants, self.else_constants)[branch]
        return [*self.consts, *constants, *self.outs]


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
    count = prop_def(IntegerAttr[I64])
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    assembly_format = "`count` `=` $count attr-dict-with-keyword $body"

    @classmethod
    def of(cls, count: int) -> RepeatOp:
        """Returns an empty loop."""
        block = Block(arg_types=[IndexType()])
        return cls.create(properties={"count": IntegerAttr(count, i64)}, regions=[Region(block)])

    @property
    def times(self) -> int:
        """The trip count."""
        return self.count.value.data

    @property
    def iteration(self) -> BlockArgument:
        """The iteration index."""
        return self.body.block.args[0]

    def verify_(self) -> None:
        if self.times < 1:
            raise VerifyException(f"must repeat at least once, got {self.times}")
        if [argument.type for argument in self.body.block.args] != [IndexType()]:
            raise VerifyException("the block's only argument must be the iteration index, of type index")
        for op in self.body.block.ops:
            if not isinstance(op, STEPS):
                raise VerifyException(f"may repeat only kernels and dispatches, got {op.name}")


@irdl_op_definition
class BranchOp(IRDLOperation):
    """Executes the first region if the predicate holds, else the second.

    Either may be empty. Declarative assembly formats have no block then, so this op has a custom parser.

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
        """The blocks to run if the predicate holds, and if it doesn't."""
        return self.then.block, self.otherwise.block

    def verify_(self) -> None:
        for block in self.branches:
            for op in block.ops:
                if not isinstance(op, STEPS):
                    raise VerifyException(f"a branch may hold only kernels and dispatches, got {op.name}")

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
    """A tensor's range of a view, whose start depends on loops: `at` maps iteration indices to its first element.

    Example:
        %row = buf.row %x[%i] at affine_map<(d0) -> (d0 * 4)> : memref<32xf32> to memref<4xf32>
    """

    name = "buf.row"
    view = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    at = prop_def(AffineMapAttr)
    result = result_def(MemRefType)
    traits = traits_def(Pure())

    assembly_format = "$view `[` $indices `]` `at` $at attr-dict-with-keyword `:` type($view) `to` type($result)"

    @classmethod
    def of(cls, view: SSAValue, indices: Sequence[SSAValue], at: AffineMap, kind: Buffer) -> RowOp:
        """Returns a row of type `kind` that starts at the element to which `at` maps the indices."""
        return cls.build(operands=[view, list(indices)], properties={"at": AffineMapAttr(at)}, result_types=[kind])

    @property
    def base(self) -> ViewOp:
        """The view that contains it."""
        return cast(ViewOp, self.view.owner)

    def start(self, iterations: Sequence[int]) -> int:
        """Returns the first element for the given iteration indices."""
        return self.at.data.eval(list(iterations), [])[0]

    def verify_(self) -> None:
        if not isinstance(self.view.owner, ViewOp):
            raise VerifyException("a row must be a part of a buf.view")
        if element_of(self.view) != element_of(self.result):
            raise VerifyException(f"a row of {self.view.type} must have its element type, got {self.result.type}")
        if self.at.data.num_dims != len(self.indices) or len(self.at.data.results) != 1:
            raise VerifyException("the map must take the indices to the position of the first element")


def view_of(value: SSAValue) -> ViewOp:
    """Returns the view that defines a buffer of a function with planned memory, or contains it as a row."""
    return value.owner.base if isinstance(value.owner, RowOp) else cast(ViewOp, value.owner)


def row_type(kind: Attribute) -> Buffer:
    """Returns the type of a slice along axis 0."""
    whole = cast(Buffer, kind)
    return buffer_type(whole.get_shape()[1:], whole.get_element_type())


STEPS = (KernelOp, TiledOp, DispatchOp, RepeatOp, RowOp, BranchOp)
"""The ops that loops and branches may hold."""


Buf = Dialect(
    "buf",
    [
        KernelOp,
        AttentionOp,
        CollectiveOp,
        CountingSortOp,
        ArenaOp,
        ViewOp,
        PackOp,
        DispatchOp,
        RunOp,
        ChooseOp,
        RepeatOp,
        BranchOp,
        RowOp,
        TiledOp,
        ForallOp,
    ],
    [ScheduleAttr, RecipeAttr, SpaceAttr, ProcessorAttr],
)
"""The dialect object that a context registers."""
