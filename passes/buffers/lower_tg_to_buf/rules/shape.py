"""Ops that move elements: views where an index map suffices, kernels where elements are padded or concatenated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.ir.affine import AffineExpr, AffineMap

from tensorgrad.dialects.tg import shape
from tensorgrad.dialects.tg.build import element_of, shape_of
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.buffers.lower_tg_to_buf.kernels import KernelSpec, StageBody
from tensorgrad.passes.buffers.lower_tg_to_buf.registry import rule, view
from tensorgrad.passes.buffers.lower_tg_to_buf.scalars import storage
from tensorgrad.passes.buffers.lower_tg_to_buf.views import Lowered, View, through
from tensorgrad.passes.scalars import Value, both


def _map(rank: int, results: Sequence[AffineExpr]) -> AffineMap:
    return AffineMap(rank, 0, tuple(results))


@view(shape.ReshapeOp)
def _reshape(op: shape.ReshapeOp) -> AffineMap:
    return affine.reshape_map(op.shape, shape_of(op.operands[0]))


@view(shape.TransposeOp)
def _transpose(op: shape.TransposeOp) -> AffineMap:
    permutation = op.permutation.get_values()
    loops = affine.dims(len(permutation))
    return _map(len(loops), [loops[permutation.index(axis)] for axis in range(len(loops))])


@view(shape.BroadcastOp)
def _broadcast(op: shape.BroadcastOp) -> AffineMap:
    loops = affine.dims(len(op.shape))
    return _map(len(loops), [loops[axis] for axis in op.dims.get_values()])


@view(shape.SliceOp)
def _slice(op: shape.SliceOp) -> AffineMap:
    start, step = op.start.get_values(), op.step.get_values()
    loops = affine.dims(len(op.shape))
    return _map(len(loops), [loop * s + a for loop, a, s in zip(loops, start, step, strict=True)])


@view(shape.ReverseOp)
def _reverse(op: shape.ReverseOp) -> AffineMap:
    axes = op.axes.get_values()
    loops = affine.dims(len(op.shape))
    return _map(
        len(loops),
        [loop * -1 + (op.shape[i] - 1) if i in axes else loop for i, loop in enumerate(loops)],
    )


@rule(shape.PadOp, in_memory=(0,))
def _pad(op: shape.PadOp, operands: Sequence[Lowered]) -> KernelSpec:
    low, interior = op.low.get_values(), op.interior.get_values()
    source = cast(View, operands[0])
    extents = shape_of(op.operand)
    scalar = through(operands[1], AffineMap(len(op.shape), 0, ()), op.shape)

    def compute(b: StageBody, args: Sequence[Value]) -> Value:
        inside: Value | None = None
        inner: list[Value] = []
        for axis, extent in enumerate(extents):
            position = b.loop(axis)
            step = interior[axis] + 1
            if low[axis] or op.shape[axis] != extent:
                # Unsigned: a position before the start wraps to a huge number and fails the test as well.
                position = position - low[axis]
                inside = both(inside, position < (extent - 1) * step + 1)
            if step > 1:
                inside = both(inside, (position % step).equals(0))
                position = position // step
            inner.append(position)
        if inside is None:
            return b.load_at(source, inner)
        return b.guarded(inside, lambda: b.load_at(source, inner), args[0])

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
    """Returns a kernel that reads each element from the operand that contains it, and from no other.

    It is searched for by halves: conditions one in the other for each operand would be slow, and too deep. WGSL has
    at most 127 levels, and Mesa's software driver takes those beyond 80 for false without a word.
    """
    axis, rank = op.axis.value.data, len(op.shape)
    parts: list[tuple[Lowered, int]] = []
    start = 0
    for part, lowered in zip(op.parts, operands, strict=True):
        extent = shape_of(part)[axis]
        if extent:
            parts.append((lowered, start))
        start += extent
    element = storage(element_of(op.results[0]))

    def compute(b: StageBody, args: Sequence[Value]) -> Value:
        loops = [b.loop(loop) for loop in range(rank)]

        def read(lowered: Lowered, first: int) -> Value:
            if not isinstance(lowered, View):
                return b.constant(lowered.number, element)
            place = list(loops)
            if first:
                place[axis] = loops[axis] - first
            return b.load_at(lowered, place)

        def choose(low: int, high: int) -> Value:
            if high - low == 1:
                return read(*parts[low])
            middle = (low + high) // 2
            is_before = loops[axis] < parts[middle][1]
            return b.guarded(is_before, lambda: choose(low, middle), lambda: choose(middle, high))

        return choose(0, len(parts))

    buffers = [lowered.buffer for lowered, _ in parts if isinstance(lowered, View)]
    return KernelSpec(
        grid=op.shape,
        reads=(),
        gathered=list(dict.fromkeys(buffers)),
        result=element,
        compute=compute,
        location=op.location,
    )
