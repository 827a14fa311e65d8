"""Affine positions of a contraction's factors in memory: windows of images, and plainly indexed operands.

An index of padded data wraps around, and a condition tells where it is in bounds: under `d2 + d5 - 1 < 28`, the
position `(d2 + d5 + 27) mod 28` is `d2 + d5 - 1`. So neighbours along an image are neighbours in memory, also across
its rows if the window has as many positions as the image; only the condition differs between them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import affine as affine_ops
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr
from xdsl.dialects.linalg.ops import GenericOp, IndexOp
from xdsl.ir import Block, BlockArgument, SSAValue
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
from tensorgrad.passes.analyses.guards import ULT


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
        """Returns the stride of the index along a loop."""
        return self.linear.terms.get(AffineDimExpr(loop), 0)


def places_of(stage: GenericOp, value: SSAValue) -> dict[BlockArgument, OperandPosition] | None:
    """Returns the positions of the operands that a value of a contraction's body is computed from.

    Args:
        stage: The contraction.
        value: A value of its body.

    Returns:
        The position of each operand; `None` if one is not linear.
    """
    needed, extents = needed_for([value]), loop_extents(stage)
    positions: dict[BlockArgument, OperandPosition] = {}
    for argument, buffer, m in zip(stage.body.block.args, stage.inputs, maps_of(stage), strict=False):
        if argument not in needed or is_shape_only(buffer):
            continue
        guards = _guards(argument, value, needed)
        if guards is None:
            return None
        guard = next(iter(guards), None)
        bounds = {} if guard is None else _bounds(guard, extents)
        results = [_unwrapped(affine.linear(result, extents), bounds).expression() for result in m.results]
        place = _in_line(buffer, results, extents, guard)
        if place is None:
            return None
        positions[argument] = place
    return positions


def plain_place(buffer: SSAValue, m: AffineMap, extents: Sequence[int]) -> OperandPosition | None:
    """Returns the position of a buffer's accesses by an index map over loops with these extents, if it is linear."""
    return _in_line(buffer, m.results, extents, None)


def _in_line(
    buffer: SSAValue, results: Sequence[AffineExpr], extents: Sequence[int], guard: SSAValue | None
) -> OperandPosition | None:
    linear = affine.linear_position(results, shape_of(buffer), extents)
    return OperandPosition(linear, guard) if all(isinstance(atom, AffineDimExpr) for atom in linear.terms) else None


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
        index, limit = _index(op.lhs, extents), _index(op.rhs, extents)
        if index is not None and limit is not None and not limit.terms:
            return {limit.constant: [index]}
    return {}


def _index(value: SSAValue, extents: Sequence[int]) -> affine.Linear | None:
    """Returns an index computed by a body as a linear form over loops."""
    op = value.owner
    if isinstance(op, Block):
        return None
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return affine.Linear(constant=op.value.value.data)
    if isinstance(op, IndexOp):
        return affine.linear(AffineDimExpr(op.dim.value.data), extents)
    if isinstance(op, affine_ops.ApplyOp):
        parts = [_index(operand, extents) for operand in op.operands]
        placed = [part.expression() for part in parts if part is not None]
        if len(placed) < len(parts):
            return None
        return affine.linear(op.map.data.results[0].replace_dims_and_symbols(placed, ()), extents)
    if not isinstance(op, arith.AddiOp | arith.SubiOp | arith.MuliOp):
        return None
    left, right = (_index(operand, extents) for operand in op.operands)
    if left is None or right is None:
        return None
    if isinstance(op, arith.MuliOp):
        return left.times(right.constant) if not right.terms else right.times(left.constant) if not left.terms else None
    return left.plus(right, 1 if isinstance(op, arith.AddiOp) else -1)


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
        run *= extent
    return run if moving else 1
