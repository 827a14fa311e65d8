"""How each op of `tg` becomes a kernel of one stage; ops that only move elements become views instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from tensorgrad.dialects.tg import contract, leaves, reduce, shape
from tensorgrad.dialects.tg import index as indexing
from tensorgrad.dialects.tg.base import TensorOp, int_list, int_value, is_float
from tensorgrad.dialects.tg.build import element_of, shape_of
from tensorgrad.dialects.tg.contract import free_axes
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.buffers.lower_tg_to_buf.elementary import ELEMENTARY
from tensorgrad.passes.buffers.lower_tg_to_buf.kernels import KernelSpec, StageBody
from tensorgrad.passes.buffers.lower_tg_to_buf.random import RANDOM
from tensorgrad.passes.buffers.lower_tg_to_buf.scalars import POINTWISE, by_kind, index, storage
from tensorgrad.passes.buffers.lower_tg_to_buf.views import Lowered, View

OpT = TypeVar("OpT", bound=TensorOp)
Rule: TypeAlias = Callable[[OpT, Sequence[Lowered]], KernelSpec]
"""Makes the kernel of an op from its lowered operands; called with at least one element in the result."""

RULES: dict[type[TensorOp], Rule[TensorOp]] = {}

MEMORY_OPERANDS: dict[type[TensorOp], tuple[int, ...]] = {}
"""The operands that a kernel loads from at computed indices, and so must lie in memory; `rule` fills it."""


def rule(kind: type[OpT], in_memory: tuple[int, ...] = ()) -> Callable[[Rule[OpT]], Rule[OpT]]:
    """Registers the kernel of an op.

    Args:
        kind: The op.
        in_memory: The operands that the kernel loads from at computed indices, and so must lie in memory.
    """

    def register(function: Rule[OpT]) -> Rule[OpT]:
        RULES[kind] = cast("Rule[TensorOp]", function)
        MEMORY_OPERANDS[kind] = in_memory
        return function

    return register


BODIES = {**POINTWISE, **RANDOM, **ELEMENTARY}
"""What every op that works element by element does to one element."""


def _pointwise(op: TensorOp, operands: Sequence[Lowered]) -> KernelSpec:
    body = BODIES[type(op)]
    return KernelSpec(
        grid=op.shape,
        reads=operands,
        result=storage(element_of(op.results[0])),
        compute=lambda b, args: body(b, op, args),
        location=op.location,
    )


RULES.update(dict.fromkeys(BODIES, _pointwise))


@rule(leaves.IotaOp)
def _iota(op: leaves.IotaOp, operands: Sequence[Lowered]) -> KernelSpec:
    element = element_of(op.results[0])
    axis = int_value(op.properties, "axis")

    def compute(b: StageBody, args: Sequence[SSAValue]) -> SSAValue:
        position = b.convert(arith.IndexCastOp, b.loop(axis), i32)
        return b.convert(arith.UIToFPOp, position, element) if is_float(element) else position

    return KernelSpec(grid=op.shape, reads=(), result=storage(element), compute=compute, location=op.location)


def _loops_for(kept: Sequence[int], rank: int) -> AffineMap:
    """From (kept axes, then the others) to the axes in order."""
    order = [*kept, *(axis for axis in range(rank) if axis not in kept)]
    loops = affine.dims(rank)
    return AffineMap(rank, 0, tuple(loops[order.index(axis)] for axis in range(rank)))


def _reduce(op: reduce.ReduceOp, operands: Sequence[Lowered], family: str) -> KernelSpec:
    axes, extents = int_list(op.properties, "axes"), shape_of(op.operand)
    kept = [axis for axis in range(len(extents)) if axis not in axes]
    reduced = tuple(extents[axis] for axis in range(len(extents)) if axis in axes)
    loops = (*op.shape, *reduced)
    element = element_of(op.results[0])
    reads = [_through(operand, _loops_for(kept, len(extents)), loops) for operand in operands]
    return KernelSpec(
        grid=op.shape,
        reads=reads,
        result=storage(element),
        compute=lambda b, args: args[0],
        reduced=reduced,
        combine=by_kind(family, element),
        location=op.location,
    )


def _through(operand: Lowered, inner: AffineMap, extents: Sequence[int]) -> Lowered:
    return operand.through(inner, extents) if isinstance(operand, View) else operand


@rule(reduce.SumOp)
def _sum(op: reduce.SumOp, operands: Sequence[Lowered]) -> KernelSpec:
    return _reduce(op, operands, "add")


@rule(reduce.MaxOp)
def _max(op: reduce.MaxOp, operands: Sequence[Lowered]) -> KernelSpec:
    return _reduce(op, operands, "max")


@rule(reduce.MinOp)
def _min(op: reduce.MinOp, operands: Sequence[Lowered]) -> KernelSpec:
    return _reduce(op, operands, "min")


@rule(reduce.ProdOp)
def _prod(op: reduce.ProdOp, operands: Sequence[Lowered]) -> KernelSpec:
    return _reduce(op, operands, "mul")


@rule(contract.DotGeneralOp)
def _dot_general(op: contract.DotGeneralOp, operands: Sequence[Lowered]) -> KernelSpec:
    lb, rb, lc, rc = (int_list(op.properties, name) for name in op.PROPERTIES)
    left, right = shape_of(op.lhs), shape_of(op.rhs)
    lf, rf = free_axes(len(left), lb, lc), free_axes(len(right), rb, rc)
    reduced = tuple(left[axis] for axis in lc)
    extents = (*op.shape, *reduced)
    loops = affine.dims(len(extents))
    left_loops: dict[int, AffineExpr] = {}
    right_loops: dict[int, AffineExpr] = {}
    for i, (a, b) in enumerate(zip(lb, rb, strict=True)):
        left_loops[a] = right_loops[b] = loops[i]
    for i, axis in enumerate(lf):
        left_loops[axis] = loops[len(lb) + i]
    for i, axis in enumerate(rf):
        right_loops[axis] = loops[len(lb) + len(lf) + i]
    for i, (a, b) in enumerate(zip(lc, rc, strict=True)):
        left_loops[a] = right_loops[b] = loops[len(op.shape) + i]
    maps = [
        AffineMap(len(extents), 0, tuple(found[axis] for axis in range(len(found))))
        for found in (left_loops, right_loops)
    ]
    element = element_of(op.results[0])
    multiply = by_kind("mul", element)
    return KernelSpec(
        grid=op.shape,
        reads=[_through(operand, m, extents) for operand, m in zip(operands, maps, strict=True)],
        result=storage(element),
        compute=lambda b, args: b.apply(multiply, *args),
        reduced=reduced,
        combine=by_kind("add", element),
        location=op.location,
    )


@rule(shape.PadOp, in_memory=(0,))
def _pad(op: shape.PadOp, operands: Sequence[Lowered]) -> KernelSpec:
    low, interior = int_list(op.properties, "low"), int_list(op.properties, "interior")
    source = cast(View, operands[0])
    extents = shape_of(op.operand)
    scalar = _through(operands[1], AffineMap(len(op.shape), 0, ()), op.shape)

    def compute(b: StageBody, args: Sequence[SSAValue]) -> SSAValue:
        condition: SSAValue | None = None
        inner: list[SSAValue] = []
        for axis, extent in enumerate(extents):
            position = b.loop(axis)
            step = interior[axis] + 1
            if low[axis] or op.shape[axis] != extent:
                # Unsigned: a position before the start wraps to a huge number and fails the test as well.
                position = b.apply(arith.SubiOp, position, b.constant(low[axis], index))
                fits = b.compare("ult", position, b.constant((extent - 1) * step + 1, index))
                condition = fits if condition is None else b.apply(arith.AndIOp, condition, fits)
            if step > 1:
                remainder = b.apply(arith.RemUIOp, position, b.constant(step, index))
                fits = b.compare("eq", remainder, b.constant(0, index))
                condition = fits if condition is None else b.apply(arith.AndIOp, condition, fits)
                position = b.apply(arith.DivUIOp, position, b.constant(step, index))
            inner.append(position)

        def read(then: StageBody) -> SSAValue:
            return then.load(source.buffer, then.evaluate(source.map, inner))

        return read(b) if condition is None else b.guarded(condition, read, args[0])

    return KernelSpec(
        grid=op.shape,
        reads=[scalar],
        gathered=[source.buffer],
        result=storage(element_of(op.results[0])),
        compute=compute,
        location=op.location,
    )


@rule(shape.ConcatOp)
def _concat(op: shape.ConcatOp, operands: Sequence[Lowered]) -> KernelSpec:
    """Each element is read from the one operand that holds it."""
    axis, rank = int_value(op.properties, "axis"), len(op.shape)
    parts: list[tuple[Lowered, int, int]] = []
    start = 0
    for part, lowered in zip(op.parts, operands, strict=True):
        extent = shape_of(part)[axis]
        if extent:
            parts.append((lowered, start, start + extent))
        start += extent
    element = storage(element_of(op.results[0]))

    def compute(b: StageBody, args: Sequence[SSAValue]) -> SSAValue:
        loops = [b.loop(loop) for loop in range(rank)]

        def read(inner: StageBody, lowered: Lowered, first: int) -> SSAValue:
            if not isinstance(lowered, View):
                return inner.constant(lowered.number, element)
            place = list(loops)
            if first:
                place[axis] = inner.apply(arith.SubiOp, loops[axis], inner.constant(first, index))
            return inner.load(lowered.buffer, inner.evaluate(lowered.map, place))

        def choose(inner: StageBody, number: int) -> SSAValue:
            lowered, first, last = parts[number]
            if number == len(parts) - 1:
                return read(inner, lowered, first)
            here = inner.compare("ult", loops[axis], inner.constant(last, index))
            return inner.guarded(
                here, lambda then: read(then, lowered, first), lambda orelse: choose(orelse, number + 1)
            )

        return choose(b, 0)

    buffers = [lowered.buffer for lowered, _, _ in parts if isinstance(lowered, View)]
    return KernelSpec(
        grid=op.shape,
        reads=(),
        gathered=list(dict.fromkeys(buffers)),
        result=element,
        compute=compute,
        location=op.location,
    )


def _gather(
    op: TensorOp,
    operands: Sequence[Lowered],
    extent: int,
    index_map: AffineMap,
    position: Callable[[StageBody, SSAValue], list[SSAValue]],
) -> KernelSpec:
    """Reads `operands[0]` at an index that `operands[1]` gives, if it is below `extent`."""
    source = cast(View, operands[0])
    element = storage(element_of(op.results[0]))

    def compute(b: StageBody, args: Sequence[SSAValue]) -> SSAValue:
        inside = b.compare("ult", args[0], b.constant(extent, args[0].type))
        fill = b.constant(float("nan") if is_float(element) else 0, element)

        def read(then: StageBody) -> SSAValue:
            found = then.convert(arith.IndexCastOp, args[0], index)
            return then.load(source.buffer, then.evaluate(source.map, position(then, found)))

        return b.guarded(inside, read, fill)

    return KernelSpec(
        grid=op.shape,
        reads=[_through(operands[1], index_map, op.shape)],
        gathered=[source.buffer],
        result=element,
        compute=compute,
        location=op.location,
    )


def _axes_map(rank: int, axes: Sequence[int]) -> AffineMap:
    loops = affine.dims(rank)
    return AffineMap(rank, 0, tuple(loops[axis] for axis in axes))


@rule(indexing.TakeOp, in_memory=(0,))
def _take(op: indexing.TakeOp, operands: Sequence[Lowered]) -> KernelSpec:
    axis, count = int_value(op.properties, "axis"), len(shape_of(op.indices))
    rank = len(op.shape)

    def position(b: StageBody, found: SSAValue) -> list[SSAValue]:
        before = [b.loop(i) for i in range(axis)]
        return [*before, found, *(b.loop(i) for i in range(axis + count, rank))]

    index_map = _axes_map(rank, range(axis, axis + count))
    return _gather(op, operands, shape_of(op.operand)[axis], index_map, position)


@rule(indexing.TakeAlongAxisOp, in_memory=(0,))
def _take_along_axis(op: indexing.TakeAlongAxisOp, operands: Sequence[Lowered]) -> KernelSpec:
    axis, rank = int_value(op.properties, "axis"), len(op.shape)

    def position(b: StageBody, found: SSAValue) -> list[SSAValue]:
        return [found if i == axis else b.loop(i) for i in range(rank)]

    return _gather(op, operands, shape_of(op.operand)[axis], affine.identity(rank), position)


def _scatter(
    op: TensorOp, operands: Sequence[Lowered], reduced: tuple[int, ...], axis: int, update_axes: Sequence[int]
) -> KernelSpec:
    """Each element of the result looks for the indices that name it and adds their updates, in order.

    One writer, no atomics: the same result on every run. Updates are read where the index matches, nowhere else.
    """
    source = cast(View, operands[0])
    extents = (*op.shape, *reduced)
    element = element_of(op.results[0])
    loops = affine.dims(len(extents))
    own = range(len(op.shape), len(extents))
    along = isinstance(op, indexing.ScatterAddAlongAxisOp)
    index_axes = [own[0] if i == axis else i for i in range(len(op.shape))] if along else list(own)

    def compute(b: StageBody, args: Sequence[SSAValue]) -> SSAValue:
        here = b.convert(arith.IndexCastOp, b.loop(axis), args[0].type)
        hit = b.compare("eq", args[0], here)

        def read(then: StageBody) -> SSAValue:
            position = [then.loop(loop) for loop in update_axes]
            return then.load(source.buffer, then.evaluate(source.map, position))

        return b.guarded(hit, read, b.constant(0, storage(element)))

    index_map = AffineMap(len(extents), 0, tuple(loops[i] for i in index_axes))
    return KernelSpec(
        grid=op.shape,
        reads=[_through(operands[1], index_map, extents)],
        gathered=[source.buffer],
        result=storage(element),
        compute=compute,
        reduced=reduced,
        combine=by_kind("add", element),
        location=op.location,
    )


def searched_scatter(op: indexing.ScatterAddOp, operands: Sequence[Lowered]) -> KernelSpec:
    """Returns the kernel of a scatter whose elements each look through all indices."""
    axis, indices = int_value(op.properties, "axis"), shape_of(op.indices)
    rank = len(op.shape)
    own = range(rank, rank + len(indices))
    return _scatter(op, operands, indices, axis, [*range(axis), *own, *range(axis + 1, rank)])


def searched_scatter_along_axis(op: indexing.ScatterAddAlongAxisOp, operands: Sequence[Lowered]) -> KernelSpec:
    """Returns the same where each row has indices of its own."""
    axis, rank = int_value(op.properties, "axis"), len(op.shape)
    update_axes = [rank if i == axis else i for i in range(rank)]
    return _scatter(op, operands, (shape_of(op.indices)[axis],), axis, update_axes)
