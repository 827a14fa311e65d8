"""The kernels of convolutions and of `tg.fold`: one `linalg.generic` each, which reads through index maps.

Padding, and the holes of a dilated operand, are 0. There the index wraps around, so that the read is in bounds at every
point, and the body discards the value.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from tensorgrad.dialects.tg import convolution
from tensorgrad.dialects.tg.base import TensorOp, int_list, int_value
from tensorgrad.dialects.tg.build import element_of, shape_of
from tensorgrad.dialects.tg.convolution import spread
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.buffers.lower_tg_to_buf.kernels import KernelSpec, StageBody
from tensorgrad.passes.buffers.lower_tg_to_buf.registry import rule, view
from tensorgrad.passes.buffers.lower_tg_to_buf.scalars import by_kind, index, storage
from tensorgrad.passes.buffers.lower_tg_to_buf.views import Lowered, through
from tensorgrad.passes.scalars import Value, both


class Place:
    """A position on an axis of `extent` elements with `step - 1` holes between them, as a linear combination of loops.

    Attributes:
        terms: The loops with their factors.
        offset: The position where all loops are 0.
        wraps: Whether some point lies outside the axis or in a hole.
    """

    def __init__(self, terms: Sequence[tuple[int, int]], offset: int, extent: int, step: int, loops: Sequence[int]):
        self.terms = [(loop, factor) for loop, factor in terms if loops[loop] > 1 and factor]
        self.offset, self.extent, self.step = offset, extent, step
        reach = [factor * (loops[loop] - 1) for loop, factor in self.terms]
        self.low = offset + sum(r for r in reach if r < 0)
        self.high = offset + sum(r for r in reach if r > 0)
        self.leaves = self.low < 0 or self.high > spread(extent, step) - 1
        self.holes = any(factor % step for _, factor in self.terms) or offset % step != 0
        self.wraps = self.leaves or self.holes

    def expression(self) -> AffineExpr:
        """Returns the index of the element, wrapped around so that it is in bounds."""
        period = self.extent * self.step
        shift = -(self.low // period) * period if self.low < 0 else 0
        total: AffineExpr = AffineConstantExpr(self.offset + shift)
        for loop, factor in self.terms:
            total = total + AffineDimExpr(loop) * factor
        return (total // self.step) % self.extent

    def inside(self, b: StageBody) -> Value | None:
        """Emits whether the position has an element; returns `None` if it always has."""
        if not self.wraps:
            return None
        total: Value | None = None
        for loop, factor in sorted(self.terms, key=lambda term: -term[1]):
            at = b.loop(loop) * abs(factor)
            if factor < 0:
                total = (b.constant(0, index) if total is None else total) - at
            else:
                total = at if total is None else total + at
        if total is None:
            total = b.constant(0, index)
        total = total + self.offset if self.offset >= 0 else total - -self.offset
        # Unsigned: a position before the start is a huge number and fails the test as well.
        condition = total < spread(self.extent, self.step) if self.leaves else None
        return both(condition, (total % self.step).equals(0)) if self.holes else condition


def _kept(b: StageBody, places: Sequence[Place], value: Value) -> Value:
    """Emits `value` where every place has an element, else 0."""
    condition: Value | None = None
    for place in places:
        inside = place.inside(b)
        if inside is not None:
            condition = both(condition, inside)
    return value if condition is None else b.select(condition, value, 0)


@rule(convolution.ConvOp)
def _conv(op: convolution.ConvOp, operands: Sequence[Lowered]) -> KernelSpec:
    """Returns a kernel that loops over batch, output channels and positions, and sums over channels and the window."""
    stride, low, _, lhs_dilation, rhs_dilation = (int_list(op.properties, name) for name in op.PROPERTIES[:-1])
    outputs, channels, *sizes = shape_of(op.rhs)
    extents = (*op.shape, channels, *sizes)
    loops, rank, count = affine.dims(len(extents)), len(op.shape), len(sizes)
    places = [
        Place([(2 + i, stride[i]), (rank + 1 + i, rhs_dilation[i])], -low[i], n, lhs_dilation[i], extents)
        for i, n in enumerate(shape_of(op.lhs)[2:])
    ]
    group = loops[1] // (outputs // int_value(op.properties, "groups"))
    lhs = [loops[0], group * channels + loops[rank], *(place.expression() for place in places)]
    rhs = [loops[1], loops[rank], *loops[rank + 1 : rank + 1 + count]]
    element = element_of(op.results[0])
    multiply = by_kind("mul", element)
    return KernelSpec(
        grid=op.shape,
        reads=[
            through(operand, AffineMap(len(extents), 0, tuple(m)), extents)
            for operand, m in zip(operands, (lhs, rhs), strict=True)
        ],
        result=storage(element),
        compute=lambda b, args: b.apply(multiply, _kept(b, places, args[0]), args[1]),
        reduced=(channels, *sizes),
        combine=by_kind("add", element),
        location=op.location,
    )


@rule(convolution.FoldOp)
def _fold(op: convolution.FoldOp, operands: Sequence[Lowered]) -> KernelSpec:
    """Returns a kernel that sums, for each element, the windows that contain it.

    Along an axis whose windows don't overlap there is at most one, and no loop.
    """
    axes, stride, dilation = (int_list(op.properties, name) for name in op.PROPERTIES[:-1])
    rank = len(op.shape)
    sizes, counts = shape_of(op.operand)[rank:], shape_of(op.operand)[:rank]
    apart = [d == 1 and size <= s for size, s, d in zip(sizes, stride, dilation, strict=True)]
    reduced = tuple(1 if alone else size for alone, size in zip(apart, sizes, strict=True))
    extents = (*op.shape, *reduced)
    loops = affine.dims(len(extents))
    results = [*loops[:rank], *loops[rank:]]
    places: list[Place] = []
    for i, (axis, size, s) in enumerate(zip(axes, sizes, stride, strict=True)):
        if apart[i]:
            results[axis] = (loops[axis] // s) % counts[axis]
            results[rank + i] = (loops[axis] % s) % size
        else:
            place = Place([(axis, 1), (rank + i, -dilation[i])], 0, counts[axis], s, extents)
            places.append(place)
            results[axis] = place.expression()
    element = element_of(op.results[0])

    def compute(b: StageBody, args: Sequence[Value]) -> Value:
        value = _kept(b, places, args[0])
        for i, (axis, size, s) in enumerate(zip(axes, sizes, stride, strict=True)):
            if apart[i]:
                value = _kept_apart(b, value, axis, op.shape[axis], counts[axis], size, s)
        return value

    return KernelSpec(
        grid=op.shape,
        reads=[through(operands[0], AffineMap(len(extents), 0, tuple(results)), extents)],
        result=storage(element),
        compute=compute,
        reduced=reduced,
        combine=by_kind("add", element),
        location=op.location,
    )


def _kept_apart(b: StageBody, value: Value, axis: int, extent: int, count: int, size: int, stride: int) -> Value:
    """Emits `value` where a window contains the position, and 0 behind the last window and in gaps between windows."""
    zero = b.constant(0, value.type)
    if extent > (count - 1) * stride + size:
        value = b.select(b.loop(axis) < (count - 1) * stride + size, value, zero)
    if size < stride and count > 1:
        value = b.select(b.loop(axis) % stride < size, value, zero)
    return value


@view(convolution.WindowsOp)
def _windows(op: TensorOp) -> AffineMap:
    axes, _, stride, dilation = (int_list(op.properties, name) for name in op.PROPERTIES)
    loops = affine.dims(len(op.shape))
    results, places = loops[: -len(axes)] if axes else loops, loops[len(loops) - len(axes) :]
    for axis, place, s, d in zip(axes, places, stride, dilation, strict=True):
        results[axis] = results[axis] * s + place * d
    return AffineMap(len(loops), 0, tuple(results))
