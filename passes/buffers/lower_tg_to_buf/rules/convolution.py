"""The kernels of convolutions and of `tg.fold`, which read through index maps.

Padding is 0. There the index wraps around, so that the read is in bounds at every point, and the body discards the
value.
The holes of a dilated image are never read: its convolution divides by `Phases`, which are loops of the grid.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from xdsl.dialects.builtin import f16
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)

from tensorgrad.dialects.tg import convolution
from tensorgrad.dialects.tg.build import element_of, shape_of
from tensorgrad.dialects.tg.convolution import Phases, spread
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.buffers.lower_tg_to_buf.kernels import KernelSpec, StageBody
from tensorgrad.passes.buffers.lower_tg_to_buf.registry import Emit, rule, sequence, view
from tensorgrad.passes.buffers.lower_tg_to_buf.scalars import by_kind, index, storage
from tensorgrad.passes.buffers.lower_tg_to_buf.views import Lowered, View, through
from tensorgrad.passes.scalars import Value, both

FEW_OUTPUTS = 8
"""The most outputs for which the products of a dilated image with its window are stored."""

MOST_STORED = 2
"""The most products to store, in elements of the image."""


class StridedPosition:
    """A position on an axis of `extent` elements with `step - 1` holes between them, as a linear combination of loops.

    Attributes:
        position: The position, with loop `i` running over `[0, loops[i])`.
        wraps: Whether some point lies outside the axis or in a hole.
    """

    def __init__(self, position: AffineExpr, extent: int, loops: Sequence[int], step: int = 1):
        self.position, self.extent, self.step = affine.linear(position, loops), extent, step
        self.low, high = self.position.bounds(loops)
        self.leaves = self.low < 0 or high > spread(extent, step) - 1
        parts = (*self.position.terms.values(), self.position.constant)
        self.holes = any(part % step for part in parts)
        self.wraps = self.leaves or self.holes

    def expression(self) -> AffineExpr:
        """Returns the index of the element, wrapped around so that it is in bounds."""
        period = self.extent * self.step
        shift = -(self.low // period) * period if self.low < 0 else 0
        return ((self.position.expression() + shift) // self.step) % self.extent

    def inside(self, b: StageBody) -> Value | None:
        """Emits whether the position has an element; returns `None` if it always has."""
        if not self.wraps:
            return None
        total = _emitted(b, self.position)
        # Unsigned: a position before the start is a huge number and fails the test as well.
        condition = total < spread(self.extent, self.step) if self.leaves else None
        return both(condition, (total % self.step).equals(0)) if self.holes else condition


def _emitted(b: StageBody, position: affine.Linear) -> Value:
    """Emits a position."""
    total: Value | None = None
    for atom, factor in sorted(position.terms.items(), key=lambda term: -term[1]):
        at = _emitted_atom(b, atom) * abs(factor)
        if factor < 0:
            total = (b.constant(0, index) if total is None else total) - at
        else:
            total = at if total is None else total + at
    if total is None:
        total = b.constant(0, index)
    return total + position.constant if position.constant >= 0 else total - -position.constant


def _emitted_atom(b: StageBody, atom: AffineExpr) -> Value:
    """Emits a loop's index, or a quotient."""
    if isinstance(atom, AffineDimExpr):
        return b.loop(atom.position)
    assert isinstance(atom, AffineBinaryOpExpr) and atom.kind == AffineBinaryOpKind.FloorDiv
    assert isinstance(atom.rhs, AffineConstantExpr)
    return _emitted(b, affine.as_terms(atom.lhs)) // atom.rhs.value


def _tabulated(loop: AffineExpr, values: Sequence[int]) -> AffineExpr:
    """Returns the expression of a loop that has these values: a straight line, and a quotient for each jump from it."""
    slopes = [after - before for before, after in pairwise(values)]
    slope = Counter(slopes).most_common(1)[0][0] if slopes else 0
    result = loop * slope + values[0]
    for at, other in enumerate(slopes, 1):
        if other != slope:
            result = result + ((loop + (len(values) - at)) // len(values)) * (other - slope)
    return result


def _inside(b: StageBody, places: Sequence[StridedPosition]) -> Value | None:
    """Emits whether every place has an element; returns `None` if they always have."""
    condition: Value | None = None
    for place in places:
        inside = place.inside(b)
        if inside is not None:
            condition = both(condition, inside)
    return condition


def _kept(b: StageBody, condition: Value | None, value: Value) -> Value:
    """Emits `value` where a condition holds, else 0."""
    return value if condition is None else b.select(condition, value, 0)


@sequence(convolution.ConvOp)
def _conv(op: convolution.ConvOp, operands: Sequence[Lowered], emit: Emit) -> Lowered:
    return emit(_folded(op, emit(_products(op, operands))) if _has_few_outputs(op) else _direct(op, operands))


def _has_few_outputs(op: convolution.ConvOp) -> bool:
    """Returns whether a convolution of a dilated image takes less time if products are stored and then added up.

    There are at most `MOST_STORED` times as many as elements of the image. Halves would be rounded in between.
    """
    outputs, channels, *sizes = shape_of(op.rhs)
    is_dilated = any(d > 1 for d in op.lhs_dilation.get_values())
    is_alone = op.groups.value.data == 1 and element_of(op.results[0]) != f16
    few = outputs <= FEW_OUTPUTS and outputs * math.prod(sizes) <= MOST_STORED * channels
    return is_dilated and is_alone and few


def _products(op: convolution.ConvOp, operands: Sequence[Lowered]) -> KernelSpec:
    """Returns a kernel that multiplies each element of the image with each element of the window."""
    outputs, channels, *sizes = shape_of(op.rhs)
    batch, _, *positions = shape_of(op.lhs)
    grid, n = (batch, outputs, *sizes, *positions), len(sizes)
    extents = (*grid, channels)
    loops = affine.dims(len(extents))
    image, output, window, places, channel = loops[0], loops[1], loops[2 : 2 + n], loops[2 + n : 2 + 2 * n], loops[-1]
    element = element_of(op.results[0])
    return KernelSpec(
        grid=grid,
        reads=[
            through(operand, AffineMap(len(extents), 0, tuple(m)), extents)
            for operand, m in zip(operands, ([image, channel, *places], [output, channel, *window]), strict=True)
        ],
        result=storage(element),
        compute=lambda b, args: b.apply(by_kind("mul", element), args[0], args[1]),
        reduced=(channels,),
        combine=by_kind("add", element),
        location=op.location,
    )


def _folded(op: convolution.ConvOp, products: View) -> KernelSpec:
    """Returns a kernel that sums, for each result, the products that meet it."""
    stride, low, _, lhs_dilation, rhs_dilation = op.window
    sizes, rank = shape_of(op.rhs)[2:], len(op.shape)
    extents = (*op.shape, *sizes)
    loops = affine.dims(len(extents))
    places = [
        StridedPosition(position * s + tap * r - a, extent, extents, d)
        for position, tap, s, a, d, r, extent in zip(
            loops[2:rank], loops[rank:], stride, low, lhs_dilation, rhs_dilation, shape_of(op.lhs)[2:], strict=True
        )
    ]
    element = element_of(op.results[0])
    read = AffineMap(len(extents), 0, (*loops[:2], *loops[rank:], *(place.expression() for place in places)))
    return KernelSpec(
        grid=op.shape,
        reads=[products.through(read, extents)],
        result=storage(element),
        compute=lambda b, args: _kept(b, _inside(b, places), args[0]),
        reduced=tuple(sizes),
        combine=by_kind("add", element),
        location=op.location,
    )


def _direct(op: convolution.ConvOp, operands: Sequence[Lowered]) -> KernelSpec:
    """Returns a kernel that loops over batch, groups, output channels and positions; it sums over channels and windows.

    If the left operand is dilated, positions are loops over phases and blocks, and a phase sums only over the elements
    of the window that meet no hole.
    """
    stride, low, _, lhs_dilation, rhs_dilation = op.window
    outputs, channels, *sizes = shape_of(op.rhs)
    axes = list(map(Phases.of, op.shape[2:], sizes, stride, low, lhs_dilation, rhs_dilation))
    element = element_of(op.results[0])
    kind = storage(element)
    if not all(max(axis.taps) for axis in axes):
        return KernelSpec(op.shape, [], kind, lambda b, args: b.constant(0, kind), location=op.location)
    counts = [-(-extent // axis.count) for extent, axis in zip(op.shape[2:], axes, strict=True)]
    groups = op.groups.value.data
    grid = (*(axis.count for axis in axes), op.shape[0], groups, outputs // groups, *counts)
    reduced = (channels, *(max(axis.taps) for axis in axes))
    extents, n = (*grid, *reduced), len(axes)
    loops = affine.dims(len(extents))
    phases, (image, group, member), blocks = loops[:n], loops[n : n + 3], loops[n + 3 : 2 * n + 3]
    output = group * (outputs // groups) + member
    channel, *taps = loops[2 * n + 3 :]
    places = [
        StridedPosition(_tabulated(phase, axis.start) + block * axis.advance + tap * axis.step, extent, extents)
        for axis, phase, block, tap, extent in zip(axes, phases, blocks, taps, shape_of(op.lhs)[2:], strict=True)
    ]
    window = [
        StridedPosition(_tabulated(phase, axis.first) + tap * axis.spacing, axis.size, extents)
        for axis, phase, tap in zip(axes, phases, taps, strict=True)
    ]
    uneven = [place for axis, place in zip(axes, window, strict=True) if min(axis.taps) < max(axis.taps)]
    lhs = [image, group * channels + channel, *(place.expression() for place in places)]
    rhs = [output, channel, *(place.expression() for place in window)]

    def compute(b: StageBody, args: Sequence[Value]) -> Value:
        met, read = _inside(b, uneven), _inside(b, places)
        at_element = met if read is None else both(met, read)
        return b.apply(by_kind("mul", element), _kept(b, at_element, args[0]), _kept(b, met, args[1]))

    return KernelSpec(
        grid=grid,
        reads=[
            through(operand, AffineMap(len(extents), 0, tuple(m)), extents)
            for operand, m in zip(operands, (lhs, rhs), strict=True)
        ],
        result=kind,
        compute=compute,
        reduced=reduced,
        combine=by_kind("add", element),
        location=op.location,
        shape=(*op.shape[:2], *(count * axis.count for count, axis in zip(counts, axes, strict=True))),
        placed=(
            image,
            output,
            *(block * axis.count + phase for block, axis, phase in zip(blocks, axes, phases, strict=True)),
        ),
    )


@rule(convolution.FoldOp)
def _fold(op: convolution.FoldOp, operands: Sequence[Lowered]) -> KernelSpec:
    """Returns a kernel that sums, for each element, the windows that contain it.

    Along an axis whose windows don't overlap there is at most one, and no loop.
    """
    axes, stride, dilation = op.window
    rank = len(op.shape)
    sizes, counts = shape_of(op.operand)[rank:], shape_of(op.operand)[:rank]
    apart = [d == 1 and size <= s for size, s, d in zip(sizes, stride, dilation, strict=True)]
    reduced = tuple(1 if alone else size for alone, size in zip(apart, sizes, strict=True))
    extents = (*op.shape, *reduced)
    loops = affine.dims(len(extents))
    results = [*loops[:rank], *loops[rank:]]
    places: list[StridedPosition] = []
    for i, (axis, size, s) in enumerate(zip(axes, sizes, stride, strict=True)):
        if apart[i]:
            results[axis] = (loops[axis] // s) % counts[axis]
            results[rank + i] = (loops[axis] % s) % size
        else:
            place = StridedPosition(loops[axis] - loops[rank + i] * dilation[i], counts[axis], extents, s)
            places.append(place)
            results[axis] = place.expression()
    element = element_of(op.results[0])

    def compute(b: StageBody, args: Sequence[Value]) -> Value:
        value = _kept(b, _inside(b, places), args[0])
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
def _windows(op: convolution.WindowsOp) -> AffineMap:
    axes, _, stride, dilation = op.window
    loops = affine.dims(len(op.shape))
    results, places = loops[: -len(axes)] if axes else loops, loops[len(loops) - len(axes) :]
    for axis, place, s, d in zip(axes, places, stride, dilation, strict=True):
        results[axis] = results[axis] * s + place * d
    return AffineMap(len(loops), 0, tuple(results))
