"""Affine positions of a contraction's factors in memory: windows of images, and plainly indexed operands.

An index of padded data wraps around, and a condition tells where it is in bounds: under `d2 + d5 - 1 < 28`, the
position `(d2 + d5 + 27) mod 28` is `d2 + d5 - 1`. So neighbours along an image are neighbours in memory, also across
its rows if the window has as many positions as the image; only the condition differs between them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from xdsl.dialects import affine as affine_ops
from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, IntegerType
from xdsl.dialects.linalg.ops import GenericOp, IndexOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)

from tensorgrad.dialects.buf import is_shape_only, loop_extents, maps_of, shape_of
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.axes import needed_for
from tensorgrad.passes.analyses.factors import conjuncts
from tensorgrad.passes.analyses.guards import ULT

LEAST_RUN = 8
"""Shorter contiguous runs are read element by element."""


@dataclass(frozen=True)
class OperandPosition:
    """The position of an operand, as a linear form over loops.

    Attributes:
        linear: The row-major index, over the stage's loops.
        guard: The condition under which the operand is read; `None` if it always is.
    """

    linear: affine.Linear
    guard: SSAValue | None

    def stride(self, loop: int) -> int:
        """Returns the stride of the index along a loop, within a period."""
        atoms = [AffineDimExpr(loop), *(atom for atom in self._divided(loop) if atom.kind == AffineBinaryOpKind.Mod)]
        return sum(self.linear.terms.get(atom, 0) for atom in atoms)

    def period(self, loop: int) -> int:
        """Returns the iterations of a loop after which the index may jump, as by a division; 0 if it never does."""
        return math.gcd(*(atom.rhs.value for atom in self._divided(loop) if isinstance(atom.rhs, AffineConstantExpr)))

    def _divided(self, loop: int) -> list[AffineBinaryOpExpr]:
        return [atom for atom in self.linear.terms if isinstance(atom, AffineBinaryOpExpr) and _divides(atom, loop)]


def places_of(stage: GenericOp, value: SSAValue) -> dict[BlockArgument, OperandPosition] | None:
    """Returns the positions of the operands that a value of a contraction's body is computed from.

    Args:
        stage: The contraction.
        value: A value of its body.

    Returns:
        The position of each operand; `None` if one is neither linear nor so between divisions of a loop.
    """
    needed, extents = needed_for([value]), loop_extents(stage)
    positions: dict[BlockArgument, OperandPosition] = {}
    for argument, buffer, m in zip(stage.body.block.args, stage.inputs, maps_of(stage), strict=False):
        if argument not in needed or is_shape_only(buffer):
            continue
        guards = _guards(argument, value, needed)
        if guards is None:
            return None
        # What doesn't wrap around can be read everywhere: a mask would only slow it down.
        is_plain = plain_place(buffer, m, extents) is not None
        guard = None if is_plain else next(iter(guards), None)
        results = [index.expression() for index in _indices(m, guard, extents)]
        linear = affine.linear_position(results, shape_of(buffer), extents)
        if not all(isinstance(atom, AffineDimExpr) or _divides(atom) for atom in linear.terms):
            return None
        positions[argument] = OperandPosition(linear, guard)
    return positions


def _divides(atom: AffineExpr, loop: int | None = None) -> bool:
    """Returns whether an atom of an index is a loop, or a certain one, divided by a constant, or the remainder."""
    return (
        isinstance(atom, AffineBinaryOpExpr)
        and atom.kind in (AffineBinaryOpKind.FloorDiv, AffineBinaryOpKind.Mod)
        and isinstance(atom.lhs, AffineDimExpr)
        and isinstance(atom.rhs, AffineConstantExpr)
        and loop in (None, atom.lhs.position)
    )


def _indices(m: AffineMap, guard: SSAValue | None, extents: Sequence[int]) -> list[affine.Linear]:
    """Returns the indices of an operand where its guard holds: not wrapped around."""
    bounds = {} if guard is None else _bounds(guard, extents)
    return [_unwrapped(affine.linear(result, extents), bounds) for result in m.results]


@dataclass(frozen=True)
class WindowAxis:
    """An axis of an image along which windows move: a grid loop says where a window is, an own loop where in it.

    Positions `stride` elements apart are neighbours in one of `phases` parts of the axis, so that within a part each
    element of the window lies at a constant distance from the window's start, counted in steps of the grid's loop.

    Attributes:
        loops: The grid's loop, and the own one if there is one.
        extent: The extent of the grid's loop.
        taps: The extent of the own loop; 1 if there is none.
        stride: The elements from one position of the window to the next.
        dilation: The elements from one element of a window to the next.
        is_split: Whether each element of a window has a part of its own, so that none reaches into the next line.
    """

    loops: tuple[int, ...]
    extent: int
    taps: int
    stride: int
    dilation: int
    is_split: bool = False

    @property
    def cycle(self) -> int:
        """After how many elements of the window the parts of the axis repeat."""
        if self.is_split:
            return self.taps
        return self.stride // math.gcd(self.stride, self.dilation)

    @property
    def phases(self) -> int:
        """The number of parts that a window has elements in."""
        return min(self.taps, self.cycle)

    @property
    def advance(self) -> int:
        """The steps of the grid's loop between elements of the window in one part."""
        return self.dilation * self.cycle // self.stride

    @property
    def reach(self) -> int:
        """The steps of the grid's loop from the start of a window to its last element."""
        return (self.taps - 1) // self.cycle * self.advance


@dataclass(frozen=True)
class Windows:
    """Windows of an image, 0 outside of it, as a factor of a contraction.

    Attributes:
        operand: The image.
        indices: The index along each of its axes, as linear forms over the loops.
        outer: The reduction's outer loops, such as the channels: those that no window moves along.
        axes: The lines, and the positions in a line.
        is_transposed: Whether neighbours in the image's memory are in neighbouring lines, and all positions in a line
            lie in the image, such as its channels.
    """

    operand: BlockArgument
    indices: tuple[affine.Linear, ...]
    outer: tuple[int, ...]
    axes: tuple[WindowAxis, ...]
    is_transposed: bool

    @property
    def taps(self) -> int:
        """The elements of a window."""
        return math.prod(axis.taps for axis in self.axes)

    @property
    def pitch(self) -> int:
        """The elements of a padded line, in steps of the grid's loop."""
        return self.axes[-1].extent + self.axes[-1].reach

    def in_split_lines(self) -> Windows:
        """Returns the windows with a part of the lines for each element of a window along them.

        Neighbouring columns are neighbours in a part also across the ends of lines.
        """
        *before, along = self.axes
        return replace(self, axes=(*before, replace(along, is_split=True)))


def windows_of(
    stage: GenericOp, value: SSAValue, rank: int, columns: Sequence[int], holding: Collection[SSAValue] = ()
) -> Windows | None:
    """Returns the windows that a contraction's factor consists of; `None` if it is anything else.

    Args:
        stage: The contraction.
        value: The factor.
        rank: The number of the grid's loops.
        columns: The one or two grid loops along which windows move: lines, and positions in a line.
        holding: Conditions that hold wherever the factor is read.
    """
    extents = loop_extents(stage)
    image, guard = value, None
    if isinstance(value.owner, arith.SelectOp) and _is_zero(value.owner.rhs):
        image, guard = value.owner.lhs, value.owner.cond
    if not isinstance(image, BlockArgument) or image.index >= len(stage.inputs):
        return None
    buffer, m = stage.inputs[image.index], maps_of(stage)[image.index]
    indices = _indices(m, guard, extents)
    conditions = [] if guard is None else [other for other in conjuncts(guard) if other not in holding]
    if not _are_inside(conditions, shape_of(buffer), indices, extents):
        return None
    axes: list[WindowAxis] = []
    taps: list[int] = []
    for column in columns:
        moving = [index.terms for index in indices if column in _loops(index)]
        if len(moving) != 1 or not all(isinstance(atom, AffineDimExpr) for atom in moving[0]):
            return None
        (terms,) = moving
        own = [loop for loop in range(rank, len(extents)) if AffineDimExpr(loop) in terms]
        loops = (column, *own)
        strides = [terms[AffineDimExpr(loop)] for loop in loops]
        if (
            len(own) > 1
            or min(strides) < 0
            or any(AffineDimExpr(other) in terms for other in columns if other != column)
        ):
            return None
        taps += own
        count, apart = (extents[own[0]], strides[-1]) if own else (1, 1)
        axes.append(WindowAxis(loops, extents[column], count, strides[0], apart))
    outer = tuple(loop for loop in range(rank, len(extents)) if loop not in taps)
    in_order = (*outer, *taps) == tuple(range(rank, len(extents)))
    if not taps or not in_order or any(sum(tap in _loops(index) for index in indices) != 1 for tap in taps):
        return None
    return Windows(image, tuple(indices), outer, tuple(axes), _is_transposed(axes, indices, shape_of(buffer), extents))


def _is_transposed(
    axes: Sequence[WindowAxis], indices: Sequence[affine.Linear], shape: Sequence[int], extents: Sequence[int]
) -> bool:
    """Returns whether the lines of an image of this shape are neighbours, and consist of what lies in it."""
    across, along = axes[0], axes[-1]
    if across is along or across.stride != 1 or along.taps > 1:
        return False
    position = next(i for i, index in enumerate(indices) if along.loops[0] in _loops(index))
    low, high = indices[position].bounds(extents)
    return low >= 0 and high < shape[position] and set(indices[-1].terms) == set(map(AffineDimExpr, across.loops))


def _loops(index: affine.Linear) -> set[int]:
    return {loop for atom in index.terms for loop in atom.used_dims()}


def _are_inside(
    conditions: Sequence[SSAValue], shape: Sequence[int], indices: Sequence[affine.Linear], extents: Sequence[int]
) -> bool:
    """Returns whether each of some conditions says that an index is below the extent of a shape."""
    bounds = [
        (bound, form)
        for condition in conditions
        for bound, forms in _bounds(condition, extents).items()
        for form in forms
    ]
    known = [
        any(bound == extent and form.terms == index.terms and form.constant == index.constant for bound, form in bounds)
        for extent, index in zip(shape, indices, strict=True)
    ]
    return sum(known) == len(bounds) == len(conditions)


def _is_zero(value: SSAValue) -> bool:
    op = value.owner
    return isinstance(op, arith.ConstantOp) and isinstance(op.value, FloatAttr) and op.value.value.data == 0


def plain_place(buffer: SSAValue, m: AffineMap, extents: Sequence[int]) -> OperandPosition | None:
    """Returns the position of a buffer's accesses by an index map over loops with these extents, if it is linear."""
    linear = affine.linear_position(m.results, shape_of(buffer), extents)
    return OperandPosition(linear, None) if all(isinstance(atom, AffineDimExpr) for atom in linear.terms) else None


def _guards(argument: BlockArgument, value: SSAValue, needed: set[SSAValue]) -> set[SSAValue] | None:
    """Returns the condition under which a value needs an operand; empty if it always does.

    Returns:
        At most one condition; `None` if it can't be determined, such as with several.
    """
    guards: set[SSAValue] = set()
    waiting: list[SSAValue] = [argument]
    while waiting:
        guard = waiting.pop()
        if guard is value:
            return set()
        for use in guard.uses:
            op = use.operation
            if op.regions or op.parent is not argument.owner:
                return None
            if isinstance(op, arith.SelectOp) and use.index == 1 and isinstance(op.rhs.owner, arith.ConstantOp):
                guards.add(op.cond)
            else:
                waiting += [result for result in op.results if result in needed]
    depends_on_data = any(isinstance(value, BlockArgument) for value in needed_for(guards))
    return guards if len(guards) == 1 and not depends_on_data else None


def _bounds(condition: SSAValue, extents: Sequence[int]) -> dict[int, list[affine.Linear]]:
    """Returns the indices that a condition bounds, by their (exclusive) upper bound."""
    op = condition.owner
    if isinstance(op, arith.AndIOp):
        left, right = (_bounds(operand, extents) for operand in op.operands)
        return {number: [*left.get(number, []), *right.get(number, [])] for number in {**left, **right}}
    if isinstance(op, arith.CmpiOp) and op.predicate.value.data == ULT:
        index, limit = index_form(op.lhs, extents), index_form(op.rhs, extents)
        if index is not None and limit is not None and not limit.terms:
            return {limit.constant: [index]}
    return {}


def index_form(
    value: SSAValue, extents: Sequence[int], forms: dict[SSAValue, affine.Linear | None] | None = None
) -> affine.Linear | None:
    """Returns an index computed by a body as a linear form over loops; `None` if it is none.

    Args:
        value: The index.
        extents: The extents of the loops.
        forms: The forms of indices that are known. Receives the others that `value` depends on.
    """
    forms = {} if forms is None else forms
    if value not in forms:
        forms[value] = _index_form(value.owner, extents, forms)
    return forms[value]


def _index_form(
    op: Operation | Block, extents: Sequence[int], forms: dict[SSAValue, affine.Linear | None]
) -> affine.Linear | None:
    """Returns the linear form of an op's result."""
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return affine.Linear(constant=op.value.value.data)
    if isinstance(op, IndexOp):
        return affine.linear(AffineDimExpr(op.dim.value.data), extents)
    if not isinstance(op, affine_ops.ApplyOp | arith.IndexCastOp | arith.AddiOp | arith.SubiOp | arith.MuliOp):
        return None
    operands = [form for x in op.operands if (form := index_form(x, extents, forms)) is not None]
    if len(operands) < len(op.operands):
        return None
    if isinstance(op, affine_ops.ApplyOp):
        placed = [form.expression() for form in operands]
        return affine.linear(op.map.data.results[0].replace_dims_and_symbols(placed, ()), extents)
    left, right = operands[0], operands[-1]
    if isinstance(op, arith.IndexCastOp):
        integers = op.input.type if isinstance(op.result.type, IndexType) else op.result.type
        return left if fits(left, extents, integers) else None
    if isinstance(op, arith.MuliOp):
        return left.times(right.constant) if not right.terms else right.times(left.constant) if not left.terms else None
    return left.plus(right, 1 if isinstance(op, arith.AddiOp) else -1)


def fits(form: affine.Linear, extents: Sequence[int], element: Attribute) -> bool:
    """Returns whether a form's numbers are those of a signed integer type, in which sums that fit are exact.

    An index has at least the numbers of an i32.
    """
    low, high = form.bounds(extents)
    width = cast("IntegerType", element).width.data if isinstance(element, IntegerType) else 32
    most = 1 << width - 1
    return low >= -most and high < most


def load_place(load: memref.LoadOp, extents: Sequence[int]) -> affine.Linear | None:
    """Returns the row-major position that a body loads from, as a linear form over loops; `None` if it is none."""
    forms = [index_form(index, extents) for index in load.indices]
    known = [form.expression() for form in forms if form is not None]
    return affine.linear_position(known, shape_of(load.memref), extents) if len(known) == len(forms) else None


def _unwrapped(result: affine.Linear, bounds: Mapping[int, Sequence[affine.Linear]]) -> affine.Linear:
    """Returns an index with `x mod n` replaced by an index that is congruent to `x` and known to be below `n`."""
    unwrapped = affine.Linear(constant=result.constant)
    for atom, factor in result.terms.items():
        unwrapped = unwrapped.plus(_remainder(atom, bounds) or affine.Linear({atom: 1}), factor)
    return unwrapped


def _remainder(atom: AffineExpr, bounds: Mapping[int, Sequence[affine.Linear]]) -> affine.Linear | None:
    if not (isinstance(atom, AffineBinaryOpExpr) and atom.kind == AffineBinaryOpKind.Mod):
        return None
    assert isinstance(atom.rhs, AffineConstantExpr)
    divisor, inner = atom.rhs.value, affine.as_terms(atom.lhs)
    for known in bounds.get(divisor, ()):
        difference = inner.plus(known, -1)
        if not difference.terms and difference.constant % divisor == 0:
            return known
    return None


def run_along(places: Collection[OperandPosition], loops: Sequence[int], extents: Sequence[int]) -> int:
    """Returns the number of neighbours along an axis that are contiguous in memory, in all operands.

    Args:
        places: The operands' positions.
        loops: The loops of the axis, outermost first.
        extents: The extents of all loops.

    Returns:
        The number of positions of the axis' innermost loops; 1 if neighbours are not adjacent. An operand may be the
        same for all of them.
    """
    run = 1
    moving = [place for place in places if any(place.stride(loop) for loop in loops)]
    for loop, extent in reversed(list(zip(loops, extents, strict=True))):
        if extent > 1 and any(place.stride(loop) != run for place in moving):
            break
        period = math.gcd(extent, *(place.period(loop) for place in places))
        run *= period
        if period < extent:
            break
    return run if moving else 1
