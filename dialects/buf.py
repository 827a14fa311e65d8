"""`buf`: kernels over memrefs, whose loops are `linalg.generic`, and the memory plan.

Before `plan-memory`, a function takes its inputs and its results as memref arguments, allocations are `memref.alloc`,
and every buffer has exactly one writer. After it, storage is `buf.arena`s and `buf.view`s into them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias, cast

from xdsl.dialects import memref
from xdsl.dialects.builtin import (
    I64,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    MemRefType,
    NoneAttr,
    StringAttr,
    SymbolRefAttr,
    i8,
    i64,
)
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsolatedFromAbove, NoTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from tensorgrad.dialects.attention import AttentionOp
from tensorgrad.dialects.bindings import Buffer as Buffer
from tensorgrad.dialects.bindings import buffer_bytes as buffer_bytes
from tensorgrad.dialects.bindings import element_bytes as element_bytes
from tensorgrad.dialects.bindings import element_of as element_of
from tensorgrad.dialects.bindings import shape_of as shape_of
from tensorgrad.dialects.bindings import verify_bindings
from tensorgrad.dialects.collective import CollectiveOp
from tensorgrad.dialects.counting_sort import CountingSortOp
from tensorgrad.dialects.native_schedules import RecipeSchedule
from tensorgrad.dialects.recipe import RecipeAttr
from tensorgrad.dialects.schedule import ScheduleAttr, loops_of
from tensorgrad.dialects.signature import NAME, ROLE, Role, read_slot
from tensorgrad.dialects.stages import is_reduction as is_reduction
from tensorgrad.dialects.stages import iterators_of as iterators_of
from tensorgrad.dialects.stages import loop_extents as loop_extents
from tensorgrad.dialects.stages import maps_of as maps_of
from tensorgrad.dialects.stages import segments as segments
from tensorgrad.dialects.stages import verify_stage
from tensorgrad.dialects.tg.base import ints

PACKED_VIEW = "buf.packed"
"""Marks a view that aliases the views in its range, and the zeros between them."""

SingleOp: TypeAlias = AttentionOp | CollectiveOp | CountingSortOp
"""An op that is all that a kernel consists of: it takes the place of stages."""

ROLES = tuple(role for role in Role if role not in (Role.GRADIENT, Role.UPDATE, Role.NORM))
"""The roles of buffers. Gradients lie in those of outputs, and updates in those of the old values."""


def buffer_type(shape: Sequence[int], element: Attribute) -> Buffer:
    """Returns the type `memref<shape x element>` with the identity layout."""
    return _buffer_type(tuple(shape), element)


@lru_cache(maxsize=1 << 11)
def _buffer_type(shape: tuple[int, ...], element: Attribute) -> Buffer:
    return MemRefType(element, shape)


def optional(keyword: str, operands: str) -> str:
    """Returns the assembly format of operands that may be absent: `keyword(%a, %b : type, type)`."""
    return f"(`{keyword}` `(` ${operands}^ `:` type(${operands}) `)`)?"


def is_shape_only(value: SSAValue) -> bool:
    """Returns whether a kernel's local only defines a loop's extent: it is never loaded, stored to or bound."""
    return isinstance(value.owner, memref.AllocaOp) and "buf.shape_only" in value.owner.attributes


@irdl_op_definition
class KernelOp(IRDLOperation):
    """Stages that run in order at every point of a grid. A kernel becomes one dispatch, or part of a shared one.

    The body holds `linalg.generic` stages over the block arguments (one per operand) and over locals (`memref.alloca`),
    or else one `buf.attention`, `buf.collective` or `buf.counting_sort`. The first loops of every stage are the grid's,
    all parallel; further loops are the stage's own and run inside each point. A local has the shape of the grid, one
    value per point, and lives in a register. A stage may read the results of earlier stages only at its own point.
    Every output and every local has one writer. `schedule`, set by a later pass, maps points to threads and never
    changes what is computed. A `recipe` says the same as a list of transformations; the pass `tile` applies it, and
    makes one of the schedule if there is none. `schedule` keeps a recipe, of which native code is made. Adjacent
    kernels with the same number `dispatch` are independent and are co-scheduled in one dispatch.

    Example:
        buf.kernel grid = [4] ins(%x : memref<4x3xf32>) outs(%y : memref<4xf32>) {
        ^bb0(%0: memref<4x3xf32>, %1: memref<4xf32>):
          linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>],
                          iterator_types = ["parallel", "reduction"]}
                         ins(%0 : memref<4x3xf32>) outs(%1 : memref<4xf32>) {
          ^bb1(%a: f32, %acc: f32):
            %s = arith.addf %acc, %a : f32
            linalg.yield %s : f32
          }
        }

    The initial value of a reduction belongs to it: 0 for sums, the identity of its combiner otherwise.
    """

    name = "buf.kernel"
    inputs = var_operand_def(MemRefType)
    outputs = var_operand_def(MemRefType)
    grid = prop_def(DenseArrayBase[I64])
    schedule = opt_prop_def(ScheduleAttr)
    recipe = opt_prop_def(RecipeAttr)
    dispatch = opt_prop_def(IntegerAttr[I64])
    body = region_def("single_block")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(NoTerminator(), IsolatedFromAbove())

    assembly_format = (
        f"`grid` `=` $grid {optional('ins', 'inputs')} {optional('outs', 'outputs')} "
        "(`schedule` `=` qualified($schedule)^)? (`recipe` `=` qualified($recipe)^)? "
        "(`dispatch` `=` $dispatch^)? attr-dict-with-keyword $body"
    )

    @classmethod
    def build_kernel(
        cls,
        grid: Sequence[int],
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        block: Block,
    ) -> KernelOp:
        """Returns a kernel over `grid`, whose block takes `inputs` followed by `outputs`."""
        properties: dict[str, Attribute] = {
            "grid": ints(grid),
            "operandSegmentSizes": segments(len(inputs), len(outputs)),
        }
        return cls.create(operands=[*inputs, *outputs], properties=properties, regions=[Region(block)])

    @property
    def extents(self) -> tuple[int, ...]:
        """The extents of the grid."""
        return self.grid.get_values()

    @property
    def dispatch_number(self) -> int | None:
        """The number of the dispatch that the kernel shares with others, or `None`."""
        return None if self.dispatch is None else self.dispatch.value.data

    @property
    def stages(self) -> tuple[GenericOp, ...]:
        """The stages in order."""
        return tuple(op for op in self.body.block.ops if isinstance(op, GenericOp))

    @property
    def single(self) -> SingleOp | None:
        """The op that the kernel consists of, if it has no stages."""
        first = self.body.block.first_op
        return first if isinstance(first, SingleOp) else None

    @property
    def attention(self) -> AttentionOp | None:
        """The attention that the kernel consists of, if any."""
        return self.single if isinstance(self.single, AttentionOp) else None

    @property
    def collective(self) -> CollectiveOp | None:
        """The collective that the kernel consists of, if any. The runtime executes it; it has no schedule."""
        return self.single if isinstance(self.single, CollectiveOp) else None

    @property
    def counting_sort(self) -> CountingSortOp | None:
        """The counting sort that the kernel consists of, if any."""
        return self.single if isinstance(self.single, CountingSortOp) else None

    @property
    def locals(self) -> tuple[memref.AllocaOp, ...]:
        """The buffers that are private to this kernel."""
        return tuple(op for op in self.body.block.ops if isinstance(op, memref.AllocaOp))

    @property
    def input_arguments(self) -> tuple[BlockArgument, ...]:
        """The block arguments of the inputs."""
        return tuple(self.body.block.args[: len(self.inputs)])

    @property
    def output_arguments(self) -> tuple[BlockArgument, ...]:
        """The block arguments of the outputs."""
        return tuple(self.body.block.args[len(self.inputs) :])

    def verify_(self) -> None:
        if [a.type for a in self.body.block.args] != [operand.type for operand in self.operands]:
            raise VerifyException("the block's arguments must have the operands' types, in order")
        single = self.single
        if single is not None and (len(self.body.block.ops) != 1 or single.grid != self.extents):
            raise VerifyException(
                f"a {single.name} must be the only op of its kernel, whose grid must be {list(single.grid)}"
            )
        for op in self.body.block.ops:
            if op is not single and not isinstance(op, GenericOp | memref.AllocaOp):
                raise VerifyException(f"a kernel may hold only stages (linalg.generic) and locals, got {op.name}")
        for local in self.locals:
            if not is_shape_only(local.memref) and shape_of(local.memref) != self.extents:
                raise VerifyException(
                    f"a local must have the grid's shape {list(self.extents)}, got {local.memref.type}"
                )
        self._verify_stages()
        self._verify_single_writers()
        self._verify_own_points()
        if self.recipe is not None and isinstance(single, CollectiveOp | CountingSortOp):
            raise VerifyException(f"a recipe is for stages or for an attention, not for {single.name}")
        if self.schedule is not None:
            schedule = self.schedule.data
            if self.collective is not None:
                raise VerifyException("a buf.collective must not have a schedule: no kernel computes it")
            if self.recipe is None and schedule.single != (None if single is None else single.name):
                raise VerifyException(
                    f"a schedule of the archetype {schedule.archetype} is for {schedule.single or 'stages'}, not for "
                    f"{'stages' if single is None else single.name}"
                )
            if isinstance(schedule, RecipeSchedule) != (self.recipe is not None):
                raise VerifyException(
                    "a kernel with a recipe takes no schedule but `recipe`, which no other kernel takes, got "
                    f"{schedule}"
                )
            loops = loops_of(schedule)
            if len(set(loops)) < len(loops) or not set(loops) <= set(range(len(self.extents))):
                raise VerifyException(
                    f"a schedule's rows and columns must be distinct loops of the grid {list(self.extents)}, got "
                    f"{schedule}"
                )
            schedule.check_covers(self.extents)
            for stage in filter(is_reduction, self.stages):
                schedule.check_reduction(loop_extents(stage)[len(self.extents) :])

    def _verify_stages(self) -> None:
        rank = len(self.extents)
        for stage in self.stages:
            if loop_extents(stage)[:rank] != self.extents:
                raise VerifyException(
                    f"a stage's first loops {list(loop_extents(stage))} must be the grid {list(self.extents)}"
                )
            if any(kind != IteratorType.PARALLEL for kind in iterators_of(stage)[:rank]):
                raise VerifyException("the loops of the grid must be parallel")
            verify_stage(stage)

    def _verify_single_writers(self) -> None:
        inside = [output for stage in self.stages for output in stage.outputs]
        inside += [] if self.single is None else self.single.outputs
        expected = {*self.output_arguments, *(x.memref for x in self.locals if not is_shape_only(x.memref))}
        if len(inside) != len(set(inside)) or set(inside) != expected:
            raise VerifyException("every output and every local must be written by exactly one stage")
        for output in self.outputs:
            if _is_placed(output):
                continue
            pack = pack_of(output)
            names = [output] if pack is None else [output, pack.result]
            writers = [use for name in names for use in name.uses if _writes(use.operation, use.index)]
            if len(writers) != 1:
                raise VerifyException(f"a buffer must have exactly one writer, this one has {len(writers)}")

    def _verify_own_points(self) -> None:
        """Raises if a stage reads a buffer that the kernel writes at another point, or before it is written."""
        writers = {output: stage for stage in self.stages for output in stage.outputs}
        written: dict[SSAValue, AffineMap] = {}
        for stage in self.stages:
            extents, count = loop_extents(stage), len(stage.inputs)
            for operand, read in zip(stage.inputs, maps_of(stage), strict=False):
                if operand in writers and operand not in written:
                    raise VerifyException("a stage reads a buffer that the kernel writes later")
                if operand in written and _at_point(read, extents) != written[operand]:
                    raise VerifyException(
                        f"a stage may read the result of an earlier one at its own point only, not at {read}"
                    )
            loads = (op.memref for op in stage.body.walk() if isinstance(op, memref.LoadOp))
            if any(buffer in writers for buffer in loads):
                raise VerifyException("a stage may not load from a buffer that the kernel writes")
            for output, write in zip(stage.outputs, maps_of(stage)[count:], strict=True):
                written[output] = _at_point(write, extents)


def _at_point(index: AffineMap, extents: Sequence[int]) -> AffineMap:
    """Returns an index map over the loops of extent above 1 only, so that maps of different stages can be compared."""
    zero = AffineConstantExpr(0)
    loops = [zero if extent == 1 else AffineDimExpr(loop) for loop, extent in enumerate(extents)]
    results = tuple(result.replace_dims_and_symbols(loops, ()) for result in index.results)
    return AffineMap(0, 0, results)


def _is_placed(value: SSAValue) -> bool:
    """Returns whether a buffer is a range of an arena."""
    return isinstance(value.owner, Operation) and value.owner.name in ("buf.view", "buf.row")


def _writes(op: Operation, index: int) -> bool:
    return isinstance(op, KernelOp) and index >= len(op.inputs)


@irdl_op_definition
class ArenaOp(IRDLOperation):
    """Allocates a device buffer of bytes with one role; `buf.view`s are ranges of it.

    Example:
        %0 = buf.arena "parameters" role = "parameter" : memref<1024xi8>
    """

    name = "buf.arena"
    label = prop_def(StringAttr)
    role = prop_def(StringAttr)
    result = result_def(MemRefType)
    traits = traits_def()

    assembly_format = "$label `role` `=` $role attr-dict-with-keyword `:` type($result)"

    @classmethod
    def of(cls, label: str, role: Role, size: int) -> ArenaOp:
        """Returns an arena of `size` bytes."""
        return cls.build(
            properties={"label": StringAttr(label), "role": StringAttr(str(role))},
            result_types=[buffer_type([size], i8)],
        )

    @property
    def size(self) -> int:
        """The size of the arena in bytes."""
        return shape_of(self.result)[0]

    def verify_(self) -> None:
        if self.role.data not in ROLES:
            raise VerifyException(f"role {self.role.data!r} is not one of {', '.join(ROLES)}")
        if element_of(self.result) != i8 or len(shape_of(self.result)) != 1:
            raise VerifyException("an arena must be a one-dimensional memref of bytes")


VALUE = "buf.value"
"""The attribute of views with the number of the value that they belong to: equal for all views of a value's memory."""


@irdl_op_definition
class ViewOp(IRDLOperation):
    """A tensor's range of an arena, starting at byte `offset`.

    Example:
        %1 = buf.view %0[256] : memref<1024xi8> to memref<4x3xf32>
    """

    name = "buf.view"
    arena = operand_def(MemRefType)
    offset = prop_def(IntegerAttr[I64])
    result = result_def(MemRefType)
    traits = traits_def(Pure())

    assembly_format = "$arena `[` $offset `]` attr-dict-with-keyword `:` type($arena) `to` type($result)"

    @classmethod
    def of(cls, arena: SSAValue, offset: int, kind: Buffer) -> ViewOp:
        """Returns a view of type `kind` at byte `offset`."""
        return cls.create(operands=(arena,), properties={"offset": IntegerAttr(offset, i64)}, result_types=(kind,))

    @property
    def start(self) -> int:
        """The offset of the range in bytes."""
        return self.offset.value.data

    @property
    def size(self) -> int:
        """The size of the range in bytes."""
        return buffer_bytes(self.result.type)

    def overlaps(self, other: ViewOp) -> bool:
        """Returns whether two views share bytes."""
        apart = self.start + self.size <= other.start or other.start + other.size <= self.start
        return self.arena is other.arena and not apart

    def verify_(self) -> None:
        if not isinstance(self.arena.owner, ArenaOp):
            raise VerifyException("a view must be into a buf.arena")
        end = self.start + self.size
        if self.start < 0 or self.start % 4 or end > self.arena.owner.size:
            raise VerifyException(
                f"bytes [{self.start}, {end}) are not an aligned range of an arena of {self.arena.owner.size} bytes"
            )
        if not isinstance(self.result.type.layout, NoneAttr):
            raise VerifyException("a view must be contiguous")
        if (NAME in self.attributes) != (ROLE in self.attributes):
            raise VerifyException(f"a view that the caller knows has both {NAME} and {ROLE}")
        read_slot(self.attributes)


@irdl_op_definition
class PackOp(IRDLOperation):
    """A row that aliases several buffers, each at its offset in elements; `plan-memory` places them accordingly.

    A read of the row reads the buffers, and 0 between them; a write to it writes them. A buffer is in at most one row.

    Example:
        %2 = buf.pack %0, %1 offsets = [0, 64] : memref<4x3xf32>, memref<5xf32> to memref<128xf32>
    """

    name = "buf.pack"
    parts = var_operand_def(MemRefType)
    offsets = prop_def(DenseArrayBase[I64])
    result = result_def(MemRefType)
    traits = traits_def()

    assembly_format = "$parts `offsets` `=` $offsets attr-dict-with-keyword `:` type($parts) `to` type($result)"

    @classmethod
    def of(cls, parts: Sequence[SSAValue], offsets: Sequence[int], size: int) -> PackOp:
        """Returns a row of `size` elements with the buffers at the given offsets."""
        return cls.build(
            operands=[list(parts)],
            properties={"offsets": ints(offsets)},
            result_types=[buffer_type([size], element_of(parts[0]))],
        )

    @property
    def starts(self) -> tuple[int, ...]:
        """The offset of each buffer in the row, in elements."""
        return self.offsets.get_values()

    def verify_(self) -> None:
        if not self.parts or len(self.starts) != len(self.parts) or len(shape_of(self.result)) != 1:
            raise VerifyException("a row must be one-dimensional and have one offset for each of its buffers")
        end = 0
        for part, start in zip(self.parts, self.starts, strict=True):
            if element_of(part) != element_of(self.result):
                raise VerifyException(
                    f"a row of {element_of(self.result)} must hold buffers of its element type, got {element_of(part)}"
                )
            if start < end:
                raise VerifyException(f"the buffer at {start} starts before {end}, the end of the preceding one")
            end = start + cast(Buffer, part.type).element_count()
            if any(isinstance(use.operation, PackOp) and use.operation is not self for use in part.uses):
                raise VerifyException("a buffer may be in one row at most")
        if end > shape_of(self.result)[0] or len(set(self.parts)) != len(self.parts):
            raise VerifyException(f"buffers up to {end} don't fit in {self.result.type}, or one is listed twice")


def pack_of(buffer: SSAValue) -> PackOp | None:
    """Returns the pack that contains a buffer, or `None`."""
    return next((use.operation for use in buffer.uses if isinstance(use.operation, PackOp)), None)


def parts_of(buffer: SSAValue) -> tuple[SSAValue, ...]:
    """Returns the buffers of a pack, or the buffer itself if it is none."""
    return tuple(buffer.owner.parts) if isinstance(buffer.owner, PackOp) else (buffer,)


KERNELS = "buf.kernels"
"""The attribute of a dispatch with the number of kernels that it replaces, if that is not 1."""


@irdl_op_definition
class DispatchOp(IRDLOperation):
    """Dispatches a `wgsl.kernel`, a `cpu.kernel` or an `llvm.func` over a grid of workgroups.

    Its bindings are the operands, in order. With `indirect`, the three numbers of workgroups are read from a buffer at
    run time. A dispatch replaces one `buf.kernel`, unless the attribute `buf.kernels` gives another number.

    Example:
        buf.dispatch @thread0 workgroups = [4, 1, 1] (%1, %2) : memref<256xf32>, memref<256xf32>
    """

    name = "buf.dispatch"
    kernel = prop_def(SymbolRefAttr)
    workgroups = prop_def(DenseArrayBase[I64])
    bindings = var_operand_def(MemRefType)
    arguments = opt_operand_def(MemRefType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def()

    assembly_format = (
        f"$kernel `workgroups` `=` $workgroups {optional('indirect', 'arguments')} "
        "attr-dict-with-keyword ` ` `(` $bindings `)` `:` type($bindings)"
    )

    @classmethod
    def of(cls, kernel: str, workgroups: Sequence[int], bindings: Sequence[SSAValue]) -> DispatchOp:
        """Returns a dispatch of the kernel with the symbol `kernel`."""
        properties = {
            "kernel": SymbolRefAttr(kernel),
            "workgroups": ints(workgroups),
            "operandSegmentSizes": segments(len(bindings), 0),
        }
        return cls.create(operands=bindings, properties=properties)

    @property
    def groups(self) -> tuple[int, int, int]:
        """The number of workgroups in each dimension."""
        x, y, z = self.workgroups.get_values()
        return (x, y, z)

    @property
    def kernels(self) -> int:
        """The number of consecutive kernels that it replaces."""
        attribute = self.attributes.get(KERNELS)
        return cast("IntegerAttr[IntegerType]", attribute).value.data if isinstance(attribute, IntegerAttr) else 1

    def indirect(self, arguments: SSAValue) -> None:
        """Makes the dispatch read the numbers of workgroups from a buffer."""
        sizes = segments(len(self.bindings), 1)
        self.operands = [*self.bindings, arguments]
        self.properties["operandSegmentSizes"] = sizes

    def verify_(self) -> None:
        counts = self.workgroups.get_values()
        if len(counts) != 3 or min(counts) < 1:
            raise VerifyException(f"workgroups must be three positive counts, got {list(counts)}")
        for binding in self.bindings:
            if not _is_placed(binding):
                raise VerifyException("a binding must be a buf.view or a buf.row of one")
        before = self.prev_op
        while before is not None and not isinstance(before, DispatchOp):
            before = before.prev_op
        if before is None and self.parent is not None:  # stands for all of its block: kernels are listed once
            dispatches = [op for op in self.parent.ops if isinstance(op, DispatchOp)]
            bound = [(op.kernel.string_value(), op.bindings.types) for op in dispatches]
            verify_bindings(self.get_toplevel_object(), bound)
