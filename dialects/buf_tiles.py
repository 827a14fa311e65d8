"""Tiles: kernels of `buf` whose loops say who runs them, and whose local memory says where it lies.

A `buf.tiled` computes what a `buf.kernel` does, written out as its schedule runs it: loops around small stages on parts
of buffers (`memref.subview`) and on local memory. All else is upstream's: `linalg.generic`, `linalg.fill`,
`memref.copy`, `scf.for`, `affine.apply`, `affine.min`, `gpu.barrier`. Ours are only a loop with upstream's
`scf.forall` in mind, which xDSL lacks, and the names of processors and memories, of which `gpu` has none for a CPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from xdsl.dialects import affine, arith, gpu, memref, scf
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    I64,
    ArrayAttr,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    MemRefType,
    i64,
)
from xdsl.dialects.linalg.ops import FillOp, GenericOp
from xdsl.ir import Attribute, Block, BlockArgument, Data, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, NoTerminator
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa
from xdsl.utils.str_enum import StrEnum

from tensorgrad.dialects.attention import AttentionOp
from tensorgrad.dialects.buf import Buffer, element_of, is_shape_only, optional, segments, shape_of
from tensorgrad.dialects.recipe import Processor, RecipeAttr
from tensorgrad.dialects.stages import verify_reductions

MAPPING = "mapping"
"""The attribute of a stage with the processor of each of its loops; without it, they run in order."""

DISPATCHED = (Processor.TASK, Processor.WORKGROUP_X, Processor.WORKGROUP_Y, Processor.WORKGROUP_Z)
"""The processors that a dispatch starts, which lie around all others."""


class Space(StrEnum):
    """Where local memory lies."""

    REGISTER = "register"
    """Registers: a lane's own or, outside loops over lanes, the same in each, or divided among those that write it."""
    WORKGROUP = "workgroup"
    """Memory that the lanes of a workgroup share."""
    SCRATCH = "scratch"
    """The memory of a task of native code, which stays in the caches."""


@irdl_attr_definition
class SpaceAttr(Data[Space]):
    """The space of a local memref.

    Example:
        memref<4xf32, #buf.space<register>>
    """

    name = "buf.space"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Space:
        with parser.in_angle_brackets():
            return parser.parse_str_enum(Space)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data)


@irdl_attr_definition
class ProcessorAttr(Data[Processor]):
    """Who runs a loop.

    Example:
        mapping = [#buf.processor<vector>]
    """

    name = "buf.processor"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Processor:
        with parser.in_angle_brackets():
            return parser.parse_str_enum(Processor)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data)


def space_of(value: SSAValue) -> Space | None:
    """Returns the space of a buffer; `None` if it is a kernel's operand, in the device's memory."""
    space = cast(Buffer, value.type).memory_space
    return space.data if isinstance(space, SpaceAttr) else None


def root_of(buffer: SSAValue) -> SSAValue:
    """Returns the operand or local memory that a buffer is a part of."""
    while isinstance(buffer.owner, memref.SubviewOp):
        buffer = buffer.owner.source
    return buffer


@irdl_op_definition
class ForallOp(IRDLOperation):
    """Independent loops from 0 on, and who runs each of them; like upstream's `scf.forall`.

    An extent is a number, or an index that is at least 0: a value below 0 runs no iteration. Loops without a mapping
    haven't been assigned yet. All iterations are done before what follows begins, as far as it can tell: lanes that
    read each other's memory afterwards need a `gpu.barrier`.

    Example:
        buf.forall (%g, %l) in (16, %n) mapping (workgroup_x, lane) {
          ...
        }
    """

    name = "buf.forall"
    bounds = var_operand_def(IndexType())
    static_extents = prop_def(DenseArrayBase[I64])
    processors = opt_prop_def(ArrayAttr[ProcessorAttr])
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    @classmethod
    def of(cls, extents: Sequence[int | SSAValue], mapping: Sequence[Processor] = ()) -> ForallOp:
        """Returns loops with an empty body; without a mapping they are not assigned."""
        static = [extent if isinstance(extent, int) else DYNAMIC_INDEX for extent in extents]
        properties: dict[str, Attribute] = {"static_extents": DenseArrayBase.from_list(i64, static)}
        if mapping:
            properties["processors"] = ArrayAttr([ProcessorAttr(processor) for processor in mapping])
        return cls.create(
            operands=[extent for extent in extents if isinstance(extent, SSAValue)],
            properties=properties,
            regions=[Region(Block(arg_types=[IndexType()] * len(extents)))],
        )

    @property
    def indices(self) -> tuple[BlockArgument, ...]:
        """The index of each loop."""
        return tuple(self.body.block.args)

    @property
    def extents(self) -> tuple[int | SSAValue, ...]:
        """The extent of each loop."""
        dynamic = iter(self.bounds)
        return tuple(
            next(dynamic) if extent == DYNAMIC_INDEX else extent for extent in self.static_extents.get_values()
        )

    @property
    def mapping(self) -> tuple[Processor, ...]:
        """The processor of each loop; empty if they are not assigned."""
        return () if self.processors is None else tuple(attribute.data for attribute in self.processors)

    def most(self, loop: int) -> int | None:
        """Returns the most iterations of a loop, or `None` if its extent doesn't say."""
        extent = self.extents[loop]
        if isinstance(extent, int):
            return extent
        least = extent.owner
        if not isinstance(least, affine.MinOp):
            return None
        constants = [c.value for c in least.map.data.results if isinstance(c, AffineConstantExpr)]
        return min(constants, default=None)

    @classmethod
    def parse(cls, parser: Parser) -> ForallOp:
        arguments = [
            argument.resolve(IndexType())
            for argument in parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: parser.parse_argument(expect_type=False)
            )
        ]
        parser.parse_keyword("in")
        extents = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN,
            lambda: _parse_extent(parser),
        )
        mapping: list[Processor] = []
        if parser.parse_optional_keyword("mapping"):
            mapping = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: parser.parse_str_enum(Processor)
            )
        attributes = parser.parse_optional_attr_dict_with_keyword()
        op = cls.of(extents, mapping)
        op.detach_region(0)
        op.add_region(parser.parse_region(arguments))
        if attributes is not None:
            op.attributes |= attributes.data
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        with printer.in_parens():
            printer.print_list(self.indices, lambda index: printer.print_block_argument(index, print_type=False))
        printer.print_string(" in ")
        with printer.in_parens():
            printer.print_list(self.extents, lambda extent: _print_extent(printer, extent))
        if self.mapping:
            printer.print_string(f" mapping ({', '.join(self.mapping)})")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)

    def verify_(self) -> None:
        static = self.static_extents.get_values()
        if sum(extent == DYNAMIC_INDEX for extent in static) != len(self.bounds):
            raise VerifyException("each extent that is no number must be an operand, and no other")
        if any(extent < 0 and extent != DYNAMIC_INDEX for extent in static):
            raise VerifyException(f"extents must be at least 0, got {list(static)}")
        if [argument.type for argument in self.body.block.args] != [IndexType()] * len(static):
            raise VerifyException(f"loops of {len(static)} extents have as many indices, of type index")
        if self.mapping and len(self.mapping) != len(static):
            raise VerifyException(f"{len(static)} loops need as many processors, got {', '.join(self.mapping)}")


def _parse_extent(parser: Parser) -> int | SSAValue:
    number = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
    return parser.resolve_operand(parser.parse_unresolved_operand(), IndexType()) if number is None else number


def _print_extent(printer: Printer, extent: int | SSAValue) -> None:
    if isinstance(extent, int):
        printer.print_string(str(extent))
    else:
        printer.print_ssa_value(extent)


@irdl_op_definition
class TiledOp(IRDLOperation):
    """A kernel as its schedule runs it: mapped loops around stages on parts of its operands and on local memory.

    The body may hold loops (`buf.forall` if iterations are independent, `scf.for` if they run in order), stages
    (`linalg.generic`), `linalg.fill`, `memref.copy`, local memory (`memref.alloca` with a `#buf.space`), parts of
    buffers (`memref.subview`), index arithmetic (`affine.apply`, `affine.min`, constants), and `gpu.barrier`. What a
    stage folds into an output is folded into its present value, in the order of its reduction loops; `buf.kernel` has
    an implicit start instead. Until the step `attend`, a kernel of an attention holds only its `buf.attention`.

    Tasks and workgroups are the outermost loops that have a mapping, and lanes lie within a workgroup. Code of a
    workgroup outside its loops over lanes runs once: all lanes know the registers that it writes. Of registers that
    lanes write there, each has a part, which it keeps from loop to loop. `recipe` holds the steps that are still to be
    applied.

    Example:
        buf.tiled ins(%x : memref<1000xf32>) outs(%y : memref<1000xf32>) {
        ^bb0(%0: memref<1000xf32>, %1: memref<1000xf32>):
          buf.forall (%g) in (16) mapping (workgroup_x) {
            %n = affine.min affine_map<(d0) -> (64, d0 * -64 + 1000)> (%g)
            buf.forall (%l) in (%n) mapping (lane) {
              %i = affine.apply affine_map<(d0, d1) -> (d0 * 64 + d1)> (%g, %l)
              %a = memref.subview %0[%i] [1] [1] : memref<1000xf32> to memref<f32, strided<[], offset: ?>>
              %b = memref.subview %1[%i] [1] [1] : memref<1000xf32> to memref<f32, strided<[], offset: ?>>
              linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []}
                             ins(%a : memref<f32, strided<[], offset: ?>>)
                             outs(%b : memref<f32, strided<[], offset: ?>>) {
              ^bb1(%v: f32, %old: f32):
                %w = arith.negf %v : f32
                linalg.yield %w : f32
              }
            }
          }
        }
    """

    name = "buf.tiled"
    inputs = var_operand_def(MemRefType)
    outputs = var_operand_def(MemRefType)
    recipe = opt_prop_def(RecipeAttr)
    dispatch = opt_prop_def(IntegerAttr[I64])
    body = region_def("single_block")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(NoTerminator(), IsolatedFromAbove())

    assembly_format = (
        f"{optional('ins', 'inputs')} {optional('outs', 'outputs')} "
        "(`recipe` `=` qualified($recipe)^)? (`dispatch` `=` $dispatch^)? attr-dict-with-keyword $body"
    )

    @classmethod
    def of(cls, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue], body: Region, recipe: RecipeAttr) -> TiledOp:
        """Returns a kernel with this body, whose arguments are `inputs` followed by `outputs`."""
        properties: dict[str, Attribute] = {"operandSegmentSizes": segments(len(inputs), len(outputs))}
        if recipe.data:
            properties["recipe"] = recipe
        return cls.create(operands=[*inputs, *outputs], properties=properties, regions=[body])

    @property
    def output_arguments(self) -> tuple[BlockArgument, ...]:
        """The block arguments of the outputs."""
        return tuple(self.body.block.args[len(self.inputs) :])

    def verify_(self) -> None:
        if [argument.type for argument in self.body.block.args] != [operand.type for operand in self.operands]:
            raise VerifyException("the block's arguments must have the operands' types, in order")
        written = {root_of(target) for op in self.body.walk() for target in targets_of(op)}
        inputs = self.body.block.args[: len(self.inputs)]
        if any(argument in written for argument in inputs):
            raise VerifyException("a tiled kernel may not write its inputs")
        if any(argument not in written for argument in self.output_arguments):
            raise VerifyException("a tiled kernel must write all of its outputs")
        _verify_block(self.body.block, ())


def targets_of(op: Operation) -> Sequence[SSAValue]:
    """Returns the buffers that an op of a tiled kernel writes, which may be parts of others."""
    if isinstance(op, GenericOp | FillOp | AttentionOp):
        return op.outputs
    return (op.destination,) if isinstance(op, memref.CopyOp) else ()


def sources_of(op: Operation) -> Iterator[SSAValue]:
    """Yields the buffers that an op of a tiled kernel reads, which may be parts of others."""
    if isinstance(op, GenericOp):
        yield from op.inputs
        accumulators = op.body.block.args[len(op.inputs) :]
        yield from (target for target, held in zip(op.outputs, accumulators, strict=True) if held.uses)
        yield from (inner.memref for inner in op.body.walk() if isinstance(inner, memref.LoadOp))
    elif isinstance(op, memref.CopyOp):
        yield op.source
    elif isinstance(op, AttentionOp):
        yield from op.inputs


def rank_of(op: Operation) -> int:
    """Returns the number of loops of a stage; a fill or a copy has one for each axis of what it writes."""
    return len(op.iterator_types) if isinstance(op, GenericOp) else len(shape_of(targets_of(op)[0]))


def mapping_of(op: Operation) -> tuple[Processor, ...]:
    """Returns the processor of each loop of a stage; without a mapping, they run one after another."""
    mapping = op.attributes.get(MAPPING)
    if not isa(mapping, ArrayAttr[ProcessorAttr]):
        return (Processor.SEQUENTIAL,) * rank_of(op)
    return tuple(attribute.data for attribute in mapping)


def map_stage(op: Operation, mapping: Sequence[Processor]) -> None:
    """Sets the processor of each loop of a stage."""
    op.attributes[MAPPING] = ArrayAttr([ProcessorAttr(processor) for processor in mapping])


def around(op: Operation) -> Iterator[Processor]:
    """Yields the processors of the loops around an op, the innermost first."""
    return (processor for _, processor in _loops_around(op))


def _loops_around(op: Operation) -> Iterator[tuple[SSAValue, Processor]]:
    """Yields the index and the processor of each mapped loop around an op, the innermost first."""
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, ForallOp) and parent.mapping:
            yield from reversed([*zip(parent.indices, parent.mapping, strict=True)])
        parent = parent.parent_op()


def _verify_block(block: Block, outside: tuple[Processor, ...]) -> None:
    """Raises if a block holds what a tiled kernel may not hold there, given the processors of the loops around it."""
    for op in block.ops:
        if isinstance(op, ForallOp):
            _verify_mapping(op, outside)
            _verify_block(op.body.block, (*outside, *op.mapping))
        elif isinstance(op, scf.ForOp):
            if op.iter_args:
                raise VerifyException("a loop of a tiled kernel carries nothing: keep the value in local memory")
            _verify_block(op.body.block, outside)
        elif isinstance(op, memref.AllocaOp):
            _verify_local(op, outside)
        elif isinstance(op, memref.SubviewOp):
            _verify_part(op)
        elif isinstance(op, gpu.BarrierOp):
            if not _has_workgroup(outside) or Processor.LANE in outside:
                raise VerifyException("a barrier must lie in a loop over workgroups, and outside of loops over lanes")
        elif isinstance(op, GenericOp | FillOp | memref.CopyOp):
            _verify_writes(op, outside)
            if isinstance(op, GenericOp) and op.iterator_types:
                verify_reductions(op)
        elif isinstance(op, AttentionOp):
            if outside:
                raise VerifyException("an attention lies in no loop: `attend` writes its loops")
        elif not isinstance(op, arith.ConstantOp | affine.ApplyOp | affine.MinOp | scf.YieldOp):
            raise VerifyException(f"a tiled kernel may hold only loops, stages and local memory, got {op.name}")


def _has_workgroup(processors: Iterable[Processor]) -> bool:
    return any(processor.is_workgroup for processor in processors)


def _verify_mapping(op: ForallOp, outside: Sequence[Processor]) -> None:
    dispatched = [processor for processor in op.mapping if processor in DISPATCHED]
    if len({*dispatched, *(p for p in outside if p in DISPATCHED)}) < len(dispatched) + sum(
        p in DISPATCHED for p in outside
    ):
        raise VerifyException(f"two loops have the processor {dispatched[0]}")
    inner = next((processor for processor in outside if processor not in (*DISPATCHED, Processor.SEQUENTIAL)), None)
    if dispatched and inner is not None:
        raise VerifyException(f"a loop over {dispatched[0]} lies in a loop over {inner}: it must be outside")
    if Processor.LANE in op.mapping:
        if Processor.LANE in outside:
            raise VerifyException("a loop over lanes lies in another one")
        if not _has_workgroup(outside):
            raise VerifyException("a loop over lanes must lie in a loop over workgroups")
        lanes = [loop for loop, processor in enumerate(op.mapping) if processor is Processor.LANE]
        if any(op.most(loop) is None for loop in lanes):
            raise VerifyException("a loop over lanes needs a most number of iterations: a number, or an affine.min")


def _verify_local(op: memref.AllocaOp, outside: Sequence[Processor]) -> None:
    space = space_of(op.memref)
    if is_shape_only(op.memref):
        return
    if space is None:
        raise VerifyException(f"local memory needs a space: {', '.join(f'#buf.space<{space}>' for space in Space)}")
    if space is Space.WORKGROUP and (not _has_workgroup(outside) or Processor.LANE in outside):
        raise VerifyException(
            "memory of a workgroup must be allocated in a loop over workgroups, outside of loops over lanes"
        )
    if space is Space.SCRATCH and Processor.TASK not in outside:
        raise VerifyException("scratch memory must be allocated in a loop over tasks")


def _verify_part(op: memref.SubviewOp) -> None:
    source, result = cast(Buffer, op.source.type), op.result.type
    sizes = op.static_sizes.get_values()
    if DYNAMIC_INDEX in sizes or set(op.static_strides.get_values()) - {1}:
        raise VerifyException("a part of a buffer has fixed sizes and no strides")
    if len(sizes) != len(source.get_shape()) or any(
        size > extent for size, extent in zip(sizes, source.get_shape(), strict=True)
    ):
        raise VerifyException(f"a part of {list(sizes)} doesn't fit in {source}")
    if result.get_shape() != tuple(size for size in sizes if size > 1):
        raise VerifyException(f"a part of {list(sizes)} has these extents without those of 1, it can't be {result}")
    if element_of(op.source) != element_of(op.result) or source.memory_space != result.memory_space:
        raise VerifyException(f"a part of {source} has its element type and its space, got {result}")


def _verify_writes(op: Operation, outside: Sequence[Processor]) -> None:
    for buffer in (*sources_of(op), *targets_of(op)):
        root = root_of(buffer)
        if not isinstance(root, BlockArgument) and not isinstance(root.owner, memref.AllocaOp):
            raise VerifyException(f"{op.name} takes {buffer.type}, which is no operand of the kernel and no local")
    mapping = op.attributes.get(MAPPING)
    if mapping is not None and (not isa(mapping, ArrayAttr[ProcessorAttr]) or len(mapping) != rank_of(op)):
        raise VerifyException("the mapping of a stage must have one #buf.processor for each of its loops")
    for target in targets_of(op):
        local = root_of(target).owner
        if (
            space_of(target) is Space.REGISTER
            and isinstance(local, Operation)
            and Processor.LANE in outside
            and Processor.LANE not in around(local)
            and not {i for i, processor in _loops_around(op) if processor is Processor.LANE} <= {*_taken_from(target)}
        ):
            raise VerifyException(
                "a lane writes a register that all lanes share: allocate it inside the loop over lanes or in the "
                "memory of the workgroup, or write a part that depends on each loop over lanes"
            )


def _taken_from(value: SSAValue) -> Iterator[SSAValue]:
    """Yields the values that a part of a buffer, or an index, is computed from."""
    yield value
    if isinstance(value.owner, memref.SubviewOp | affine.ApplyOp | affine.MinOp):
        for operand in value.owner.operands:
            yield from _taken_from(operand)
