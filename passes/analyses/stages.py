"""Decomposes kernels into stages, and rebuilds them. Fusion works on the parts.

A decomposed kernel refers directly to the buffers outside it; rebuilding gives it block arguments again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from xdsl.dialects import affine as affine_ops
from xdsl.dialects import memref, scf
from xdsl.dialects.builtin import AffineMapAttr, LocationAttr, UnitAttr, UnknownLoc, i1
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import GenericOp, IndexOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.rewriter import Rewriter

from tensorgrad.dialects.buf import (
    KernelOp,
    SingleOp,
    element_of,
    is_shape_only,
    iterators_of,
    loop_extents,
    maps_of,
    shape_of,
)
from tensorgrad.dialects.collective import CollectiveOp
from tensorgrad.dialects.stages import generic
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.axes import loops_of_values
from tensorgrad.passes.analyses.kinds import contracts
from tensorgrad.passes.analyses.storage import Accesses
from tensorgrad.passes.analyses.walking import cloned, operations


@dataclass(eq=False)
class Stage:
    """A stage outside its kernel.

    Attributes:
        reads: The operands and their maps, one for each of the body's first block arguments.
        writes: The written buffers and their maps, for the block arguments that follow.
        extents: The extents of the loops, the grid's first.
        own: The iterator kinds of the loops after the grid's.
        body: The scalar computation; it may load from buffers directly.
    """

    reads: list[tuple[SSAValue, AffineMap]]
    writes: list[tuple[SSAValue, AffineMap]]
    extents: tuple[int, ...]
    own: tuple[IteratorType, ...]
    body: Block
    location: LocationAttr

    @property
    def reduces(self) -> bool:
        """Whether the stage has a reduction loop."""
        return IteratorType.REDUCTION in self.own

    def contracts(self, rank: int) -> bool:
        """Returns whether two values each lack a loop, of the grid's `rank` loops, that the other has."""
        if not self.reduces or len(self.writes) != 1:
            return False
        return contracts(loops_of_values(self.body, [m for _, m in self.reads]).values(), rank)

    def accesses(self) -> Accesses:
        """Returns the buffers that the stage accesses."""
        return Accesses(self.reads, self.writes, [load.memref for load in self.loads()])

    def copy(self) -> Stage:
        """Returns a deep copy of the stage."""
        body = Block(arg_types=[argument.type for argument in self.body.args])
        values: dict[SSAValue, SSAValue] = dict(zip(self.body.args, body.args, strict=True))
        for op in self.body.ops:
            body.add_op(cloned(op, values))
        return Stage(list(self.reads), list(self.writes), self.extents, self.own, body, self.location)

    def loads(self) -> list[memref.LoadOp]:
        """Returns the loads at computed indices."""
        return [op for op in operations(self.body) if type(op) is memref.LoadOp]

    def buffers(self) -> list[SSAValue]:
        """Returns every buffer that the stage reads, each once."""
        return list(dict.fromkeys([*(b for b, _ in self.reads), *(load.memref for load in self.loads())]))

    def reindexed(self, loops: Sequence[AffineExpr], extents: Sequence[int], own: Sequence[IteratorType]) -> None:
        """Replaces the loops: each old loop is an expression of the new ones."""
        old = AffineMap(len(extents), 0, tuple(loops))
        self.reads = [(buffer, affine.composed(m, old, extents)) for buffer, m in self.reads]
        self.writes = [(buffer, affine.composed(m, old, extents)) for buffer, m in self.writes]
        self.extents, self.own = tuple(extents), tuple(own)
        for op in [op for op in self.body.ops if isinstance(op, IndexOp)]:
            expression = loops[op.dim.value.data]
            if isinstance(expression, AffineDimExpr) and expression.position == op.dim.value.data:
                continue
            value = index_value(self.body, op, expression, len(extents))
            op.results[0].replace_all_uses_with(value)
            Rewriter.erase_op(op)

    def merge_equal_reads(self) -> None:
        """Merges duplicate reads of an element."""
        unique = list(dict.fromkeys(self.reads))
        if len(unique) == len(self.reads):
            return
        first = {read: self.body.args[self.reads.index(read)] for read in unique}
        for position in reversed(range(len(self.reads))):
            argument = self.body.args[position]
            if first[self.reads[position]] is not argument:
                argument.replace_all_uses_with(first[self.reads[position]])
                self.body.erase_arg(argument)
        self.reads = unique


def index_value(block: Block, before: Operation | None, expression: AffineExpr, rank: int) -> SSAValue:
    """Returns an index expression of a stage's loops as a value, computed before `before` (at the start if `None`)."""
    used = sorted(expression.used_dims())
    anchor = block.first_op if before is None else before
    assert anchor is not None
    loops: list[SSAValue] = []
    for position in used:
        op = IndexOp(position)
        op.location = anchor.location
        block.insert_op_before(op, anchor)
        loops.append(op.results[0])
    if isinstance(expression, AffineDimExpr):
        return loops[0]
    renumbered: list[AffineExpr] = [AffineDimExpr(0)] * rank
    for number, position in enumerate(used):
        renumbered[position] = AffineDimExpr(number)
    result = expression.replace_dims_and_symbols(renumbered, ())
    apply = affine_ops.ApplyOp(loops, AffineMapAttr(AffineMap(len(used), 0, (result,))))
    apply.location = anchor.location
    block.insert_op_before(apply, anchor)
    return apply.result


class Parts:
    """A decomposed kernel. Call `changed` after modifying its stages or buffers.

    Attributes:
        grid: The extents of the grid.
        stages: The stages that run at each point.
        outputs: The buffers that it writes.
        locals: The buffers local to it.
        single: The op that the kernel consists of, instead of stages.
    """

    def __init__(
        self,
        grid: tuple[int, ...],
        stages: list[Stage],
        outputs: list[SSAValue],
        local: list[SSAValue],
        location: LocationAttr | None = None,
        single: SingleOp | None = None,
    ):
        self.grid = grid
        self.stages = stages
        self.outputs = outputs
        self.locals = local
        self.location = location
        self.single = single

    def changed(self) -> None:
        """Invalidates cached properties of the stages."""
        for name in ("_read", "operations", "contraction", "has_computed_loops", "nesting"):
            self.__dict__.pop(name, None)

    @property
    def inputs(self) -> list[SSAValue]:
        """The buffers that the kernel reads and does not write itself, each once."""
        return self._read

    @cached_property
    def _read(self) -> list[SSAValue]:
        if self.single is not None:
            return list(dict[SSAValue, None].fromkeys(self.single.inputs))
        own = {*self.outputs, *self.locals}
        return list(dict.fromkeys(b for stage in self.stages for b in stage.buffers() if b not in own))

    @cached_property
    def operations(self) -> int:
        """The number of scalar ops in the bodies."""
        return sum(1 for stage in self.stages for _ in operations(stage.body))

    @cached_property
    def contraction(self) -> Stage | None:
        """The stage that reuses its operands, such as a matrix product or a convolution."""
        return next((stage for stage in self.stages if stage.contracts(len(self.grid))), None)

    @cached_property
    def has_computed_loops(self) -> bool:
        """Whether a body contains a loop, whose bounds are read from memory."""
        return any(isinstance(op, scf.ForOp) for stage in self.stages for op in operations(stage.body))

    @cached_property
    def nesting(self) -> int:
        """The nesting depth of conditions and loops in the bodies."""
        return max((_nesting(stage.body) for stage in self.stages), default=0)

    @property
    def is_exchange(self) -> bool:
        """Whether it is a collective."""
        return isinstance(self.single, CollectiveOp)

    @property
    def is_pointwise(self) -> bool:
        """Whether no stage has loops of its own."""
        return self.single is None and not any(stage.own for stage in self.stages)


def _nesting(block: Block) -> int:
    inner = [inner_block for op in block.ops for region in op.regions for inner_block in region.blocks]
    return 1 + max(map(_nesting, inner)) if inner else 0


def take_apart(kernel: KernelOp) -> Parts:
    """Decomposes a kernel; the op must not be used afterwards, except to erase it."""
    grid = kernel.extents
    for argument, operand in zip(kernel.body.block.args, list(kernel.operands), strict=True):
        argument.replace_all_uses_with(operand)
    single = kernel.single
    if single is not None:
        single.detach()
        return Parts(grid, [], list(kernel.outputs), [], kernel.location, single)
    stages = [_stage(op, len(grid)) for op in kernel.stages]
    local: list[SSAValue] = [op.memref for op in kernel.locals if not is_shape_only(op.memref)]
    for op in reversed(list(kernel.body.block.ops)):
        op.detach()
        if not isinstance(op, memref.AllocaOp) or is_shape_only(op.memref):
            op.erase()
    return Parts(grid, stages, list(kernel.outputs), local, kernel.location)


def _stage(op: GenericOp, rank: int) -> Stage:
    extents, maps, inputs = loop_extents(op), maps_of(op), op.inputs
    own = iterators_of(op)[rank:]
    body = op.body.detach_block(op.body.block)
    reads: list[tuple[SSAValue, AffineMap]] = []
    for position, operand in reversed(list(enumerate(inputs))):
        if is_shape_only(operand):
            body.erase_arg(body.args[position])
        else:
            reads.insert(0, (operand, maps[position]))
    writes = list(zip(op.outputs, maps[len(inputs) :], strict=True))
    return Stage(reads, writes, extents, own, body, op.location)


def put_together(parts: Parts) -> KernelOp:
    """Builds a kernel from its parts, and takes ownership of them."""
    inputs = parts.inputs
    buffers = [*inputs, *parts.outputs]
    block = Block(arg_types=[buffer.type for buffer in buffers])
    inside: dict[SSAValue, SSAValue] = dict(zip(buffers, block.args, strict=True))
    for local in parts.locals:
        block.add_op(cast(memref.AllocaOp, local.owner))
    if parts.single is not None:
        parts.single.operands = [inside[operand] for operand in parts.single.operands]
        block.add_op(parts.single)
    for stage in parts.stages:
        block.add_op(_generic(stage, block, inside, len(parts.grid)))
    kernel = KernelOp.build_kernel(parts.grid, inputs, parts.outputs, block)
    for op in operations(block):
        if parts.location is not None and isinstance(op.location, UnknownLoc):
            op.location = parts.location
    if parts.location is not None:
        kernel.location = parts.location
    return kernel


def _generic(stage: Stage, block: Block, inside: dict[SSAValue, SSAValue], rank: int) -> GenericOp:
    for load in stage.loads():
        if load.memref in inside:
            load.operands[0] = inside[load.memref]
    stage.reads = [(buffer, affine.partial(m, shape_of(buffer), stage.extents)) for buffer, m in stage.reads]
    maps = [m for _, m in (*stage.reads, *stage.writes)]
    extra = shape_only(block, maps, stage.extents)
    for number, (local, _) in enumerate(extra):
        stage.body.insert_arg(element_of(local), len(stage.reads) + number)
    ins = [*(inside.get(b, b) for b, _ in stage.reads), *(local for local, _ in extra)]
    outs = [inside.get(b, b) for b, _ in stage.writes]
    all_maps = [*(m for _, m in stage.reads), *(m for _, m in extra), *(m for _, m in stage.writes)]
    parallel = sum(1 for kind in stage.own if kind == IteratorType.PARALLEL)
    ordered = [IteratorType.PARALLEL] * parallel + [IteratorType.REDUCTION] * (len(stage.own) - parallel)
    assert list(stage.own) == ordered, "parallel loops stand before reduction loops"
    op = generic(ins, outs, all_maps, rank + parallel, len(stage.own) - parallel, stage.body)
    op.location = stage.location
    return op


def new_local(grid: Sequence[int], element: Attribute, location: LocationAttr) -> SSAValue:
    """Returns a local of a kernel over `grid`."""
    op = memref.AllocaOp.get(element, shape=list(grid))
    op.location = location
    return op.memref


def shape_only(block: Block, maps: Sequence[AffineMap], extents: Sequence[int]) -> list[tuple[SSAValue, AffineMap]]:
    """Returns a shape-only local that determines the extent of each loop that no operand indexes directly."""
    plain = {r.position for map_ in maps for r in map_.results if isinstance(r, AffineDimExpr)}
    results: list[tuple[SSAValue, AffineMap]] = []
    for loop, extent in enumerate(extents):
        if loop not in plain:
            local = memref.AllocaOp.get(i1, shape=[extent])
            local.attributes["buf.shape_only"] = UnitAttr()
            block.add_op(local)
            results.append((local.memref, AffineMap(len(extents), 0, (AffineDimExpr(loop),))))
    return results


def is_foldable(stage: Stage) -> bool:
    """Returns whether a stage's own loops accumulate each of its results by a single binary op."""
    last = stage.body.last_op
    if not isinstance(last, YieldOp) or not stage.own or IteratorType.PARALLEL in stage.own:
        return False
    folded = stage.body.args[len(stage.reads) :]
    return all(
        [use.operation for use in argument.uses] == [value.owner] and len(cast(Operation, value.owner).operands) == 2
        for value, argument in zip(last.operands, folded, strict=True)
    )


def fold_of(stage: Stage) -> Block:
    """Returns a body that folds a value into each of a stage's outputs, by the ops by which the stage accumulates."""
    last = stage.body.last_op
    assert isinstance(last, YieldOp)
    kinds = [value.type for value in last.operands]
    block, count = Block(arg_types=[*kinds, *kinds]), len(kinds)
    results: list[SSAValue] = []
    for number, value in enumerate(last.operands):
        combine = value.owner
        assert isinstance(combine, Operation)
        combined = type(combine).create(
            operands=[block.args[count + number], block.args[number]],
            result_types=[kinds[number]],
            properties=dict(combine.properties),
        )
        combined.location = combine.location
        block.add_op(combined)
        results.append(combined.results[0])
    end = YieldOp(*results)
    end.location = last.location
    block.add_op(end)
    return block


def erase_stages(whole: Parts) -> None:
    """Erases the stages of a kernel that has been replaced."""
    for stage in whole.stages:
        for op in reversed(list(stage.body.ops)):
            Rewriter.erase_op(op)


def erase_unused(stage: Stage) -> None:
    """Erases the ops and reads of a stage that no result depends on: bodies have no side effects."""
    _erase_unused_ops(stage.body)
    for position in reversed(range(len(stage.reads))):
        if not stage.body.args[position].uses:
            stage.body.erase_arg(stage.body.args[position])
            del stage.reads[position]


def _erase_unused_ops(block: Block) -> None:
    for op in reversed(list(block.ops)):
        if op.results and not any(result.uses for result in op.results):
            Rewriter.erase_op(op)
            continue
        for region in op.regions:
            _erase_unused_ops(region.block)
