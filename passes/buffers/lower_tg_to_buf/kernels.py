"""Builds kernels of one stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from xdsl.dialects import affine as affine_ops
from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import AffineMapAttr, IndexType, IntegerAttr, LocationAttr, f16, f32, i1, i64
from xdsl.dialects.linalg.ops import IndexOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from tensorgrad.dialects.buf import KernelOp, buffer_type, element_of, segments, shape_of
from tensorgrad.dialects.stages import generic
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.stages import shape_only
from tensorgrad.passes.analyses.trips import MOST_TRIPS
from tensorgrad.passes.analyses.walking import operations
from tensorgrad.passes.buffers.lower_tg_to_buf.views import Lowered, Splat, View
from tensorgrad.passes.scalars import ScalarBuilder, Value

index = IndexType()


class StageBody(ScalarBuilder):
    """Builds the body of a stage: scalars, loop indices, loads at computed indices."""

    def __init__(self, block: Block, buffers: dict[SSAValue, SSAValue], grid_loops: Sequence[int]):
        super().__init__(block)
        self._body = block
        self._buffers = buffers
        self._grid_loops = grid_loops

    def loop(self, position: int) -> Value:
        """Returns the index of a loop. The stage omits loops of extent 1, whose index is 0."""
        if position not in self._grid_loops:
            return self.constant(0, index)
        # linalg.index goes directly into the stage's body, never into a condition.
        op = IndexOp(self._grid_loops.index(position))
        self._body.add_op(op)
        return self.value(op.result)

    def evaluate(self, at: AffineMap, loops: Sequence[Value]) -> list[Value]:
        """Emits the results of an index map at the given indices."""
        values: list[Value] = []
        for result in at.results:
            if isinstance(result, AffineDimExpr):
                values.append(loops[result.position])
            else:
                map_ = AffineMap(at.num_dims, 0, (result,))
                values.append(self.add(affine_ops.ApplyOp([loop.ssa for loop in loops], AffineMapAttr(map_))))
        return values

    def load(self, buffer: SSAValue, indices: Sequence[Value]) -> Value:
        """Emits a load from one of the kernel's operands, given as the buffer outside the kernel."""
        operands = (self._buffers[buffer], *(at.ssa for at in indices))
        return self.make(memref.LoadOp, operands, element_of(buffer))

    def load_at(self, source: View, indices: Sequence[Value]) -> Value:
        """Emits a load of an element of a view."""
        return self.load(source.buffer, self.evaluate(source.map, indices))

    def guarded(self, condition: Value, inside: Callable[[], Value], otherwise: Value | Callable[[], Value]) -> Value:
        """Emits a condition: `inside` where it holds, else `otherwise`. Only the side that is taken reads memory."""
        then, orelse = Block(), Block()
        with self.within(then):
            value = inside().ssa
            then.add_op(scf.YieldOp(value))
        with self.within(orelse):
            other = otherwise() if callable(otherwise) else otherwise
            orelse.add_op(scf.YieldOp(other.ssa))
        return self.add(scf.IfOp(condition.ssa, [value.type], Region(then), Region(orelse)))

    def fold(
        self, start: Value, stop: Value, most: int, initial: Value, body: Callable[[Value, Value], Value]
    ) -> Value:
        """Emits a loop from `start` to `stop` of at most `most` iterations, and returns the final carried value."""
        block = Block(arg_types=[index, initial.type])
        with self.within(block):
            block.add_op(scf.YieldOp(body(*self.values(block.args)).ssa))
        loop = scf.ForOp(start.ssa, stop.ssa, self.constant(1, index).ssa, [initial.ssa], block)
        loop.attributes[MOST_TRIPS] = IntegerAttr(most, i64)
        return self.add(loop)


Compute: TypeAlias = Callable[[StageBody, Sequence[Value]], Value]


@dataclass
class KernelSpec:
    """The specification of a kernel of one stage.

    Attributes:
        grid: The extents of the grid.
        reduced: The extents of the stage's reduction loops.
        reads: The operands; the map of each goes from all loops to the buffer's index.
        gathered: Buffers that the body loads from at computed indices.
        result: The element type of the result in buffers.
        compute: Builds the value to store or, in a reduction, to combine.
        combine: In a reduction, the op that folds a value into the accumulator.
        shape: The shape of the result, if it is not the grid.
        placed: The index of a grid point's result, as expressions of the grid's loops; by default the grid's loops.
    """

    grid: tuple[int, ...]
    reads: Sequence[Lowered]
    result: Attribute
    compute: Compute
    reduced: tuple[int, ...] = ()
    gathered: Sequence[SSAValue] = ()
    combine: type[Operation] | None = None
    location: LocationAttr | None = None
    shape: tuple[int, ...] | None = None
    placed: tuple[AffineExpr, ...] | None = None

    @property
    def written(self) -> tuple[int, ...]:
        """The shape of the result."""
        return self.grid if self.shape is None else self.shape

    @property
    def extents(self) -> tuple[int, ...]:
        """The extents of all loops."""
        return (*self.grid, *self.reduced)


def accumulates_half(spec: KernelSpec) -> bool:
    """Returns whether a kernel would accumulate a sum or product of several f16 in f16."""
    folds = spec.combine in (arith.AddfOp, arith.MulfOp) and any(extent != 1 for extent in spec.reduced)
    return folds and spec.result == f16


def in_full(spec: KernelSpec) -> KernelSpec:
    """Returns the kernel with its f16 operands extended to f32, and arithmetic and result in f32."""

    def wide(value: Value) -> Value:
        return value.cast(arith.ExtFOp, f32) if value.type == f16 else value

    def compute(b: StageBody, args: Sequence[Value]) -> Value:
        return wide(spec.compute(b, [wide(value) for value in args]))

    return replace(spec, compute=compute, result=f32)


def rounded(source: View, spec: KernelSpec) -> KernelSpec:
    """Returns the kernel that rounds the result of `in_full` to f16."""

    def compute(b: StageBody, args: Sequence[Value]) -> Value:
        return args[0].cast(arith.TruncFOp, f16)

    return KernelSpec(spec.written, [source], f16, compute, location=spec.location)


def make_kernel(spec: KernelSpec, output: SSAValue) -> KernelOp:
    """Returns a kernel of one stage that writes `output`, without loops of extent 1."""
    grid_loops = [loop for loop, extent in enumerate(spec.extents) if extent != 1]
    grid = [extent for extent in spec.grid if extent != 1]
    own = [extent for extent in spec.reduced if extent != 1]
    loops: list[AffineExpr] = [
        AffineDimExpr(grid_loops.index(loop)) if loop in grid_loops else AffineConstantExpr(0)
        for loop in range(len(spec.extents))
    ]
    views = [read for read in spec.reads if isinstance(read, View)]
    inputs = list(dict.fromkeys([*(view.buffer for view in views), *spec.gathered]))
    block = Block(arg_types=[value.type for value in (*inputs, output)])
    inside: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=False))
    operands = list(dict.fromkeys((view.buffer, view.map) for view in views))
    maps = [
        affine.partial(_substituted(read, loops, len(grid_loops)), shape_of(buffer), [*grid, *own])
        for buffer, read in operands
    ]
    placed = tuple(affine.dims(len(spec.grid))) if spec.placed is None else spec.placed
    out_map = _substituted(AffineMap(len(spec.extents), 0, placed), loops, len(grid_loops))
    if spec.placed is not None:
        out_map = affine.simplified(out_map, [*grid, *own])
    extra = shape_only(block, [*maps, out_map], [*grid, *own])

    body_types = [*(element_of(buffer) for buffer, _ in operands), *(i1 for _ in extra), spec.result]
    body = Block(arg_types=body_types)
    scalars = StageBody(body, inside, grid_loops)
    args = [
        scalars.constant(lowered.number, lowered.element)
        if isinstance(lowered, Splat)
        else scalars.value(body.args[operands.index((lowered.buffer, lowered.map))])
        for lowered in spec.reads
    ]
    value = spec.compute(scalars, args)
    if spec.combine is not None and own:
        value = scalars.apply(spec.combine, scalars.value(body.args[-1]), value)
    body.add_op(YieldOp.create(operands=(value.ssa,)))
    ins = [*(inside[buffer] for buffer, _ in operands), *(local for local, _ in extra)]
    all_maps = [*maps, *(only for _, only in extra), out_map]
    block.add_op(generic(ins, [block.args[-1]], all_maps, len(grid), len(own), body))
    kernel = KernelOp.build_kernel(grid, inputs, [output], block)
    set_location(kernel, spec.location)
    return kernel


def _substituted(read: AffineMap, loops: Sequence[AffineExpr], rank: int) -> AffineMap:
    return AffineMap(rank, 0, tuple(result.replace_dims_and_symbols(loops, ()) for result in read.results))


def set_location(op: Operation, location: LocationAttr | None) -> None:
    """Sets the location of an op and of all ops nested in it."""
    if location is not None:
        op.location = location
        for inner in (inner for region in op.regions for block in region.blocks for inner in operations(block)):
            inner.location = location


def alloc(shape: Sequence[int], element: Attribute, location: LocationAttr) -> memref.AllocOp:
    """Returns an allocation of a buffer."""
    properties = {"operandSegmentSizes": segments(0, 0)}
    return memref.AllocOp.create(result_types=(buffer_type(shape, element),), properties=properties, location=location)
