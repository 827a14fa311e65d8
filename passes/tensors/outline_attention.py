"""The pass `outline-attention`: matches attention that is composed of other ops."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, UnknownLoc, f32, f64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import Rewriter

from tensorgrad.dialects.attention import Attention
from tensorgrad.dialects.tg import leaves, reduce, shape
from tensorgrad.dialects.tg.base import NumpyArray, splat_value
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.dialects.tg.call import CallOp, ReturnOp
from tensorgrad.dialects.tg.contract import DotGeneralOp, free_axes
from tensorgrad.dialects.tg.control import CondOp, ScanOp
from tensorgrad.dialects.tg.elementwise import arithmetic, functions
from tensorgrad.passes.levels import TENSORS, LevelPass
from tensorgrad.passes.tensors.attention import attention_call
from tensorgrad.passes.tensors.attention_cost import FEWEST_SCORES, pays
from tensorgrad.passes.tensors.simplify import erase_dead, simplify_block
from tensorgrad.runtime.target import Target

OpT = TypeVar("OpT", bound=Operation)

MOST_BIASES = 4
"""The most biases of an attention: each doubles the ways in which a sum may be one of scores and biases."""


@dataclass(frozen=True)
class OutlineAttentionPass(LevelPass):
    """Replaces each `softmax(scale * q @ k.T + bias, masked) @ v` with a composite `tg.call @attention`.

    Expects `tg` after `simplify`: the matcher compares SSA values, so equal ops must have been merged. Guarantees the
    same results up to rounding, and a derivative that keeps no matrix of scores. Regions of calls, loops and branches
    are rewritten too.

    The pass matches scores that are one `tg.dot_general` of queries and keys, along any axes; scaled, before or after
    the product; with biases added; replaced by a constant where masked; then a softmax along the keys, composed as
    `tensorgrad.softmax` does or as `exp(x - max(x)) / sum(exp(x - max(x)))`; then the product with values. Masks that
    compare positions, and constants equal to such masks, become causality, which skips masked tiles. Attention whose
    weights have other uses, such as dropout, does not match.

    Outlining saves storing the scores; `attention_cost` weighs that against what the derivative recomputes.

    Attributes:
        fewest_scores: The fewest scores of a group for which to outline. A value below `FEWEST_SCORES` overrides the
            cost model, so with 1 every match is outlined whose head is not too wide for shaders.
        target: A profile or JSON that says what runs the attention; assumed to be a software adapter if omitted.
    """

    name = "outline-attention"
    levels = TENSORS

    fewest_scores: int = FEWEST_SCORES
    target: Target | None = None

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.walk():
            if isinstance(function, FuncOp):
                for block in function.body.blocks:
                    outline_attention(block, self.target, self.fewest_scores)


def outline_attention(block: Block, target: Target | None = None, fewest_scores: int = FEWEST_SCORES) -> None:
    """Outlines the attentions in a block with a terminator, and in the calls, loops and branches in it.

    Args:
        block: The block, which `simplify` has run on.
        target: The target, if known.
        fewest_scores: The fewest scores of a group for which to outline, see `attention_cost.pays`.
    """
    changed = False
    for op in list(block.ops):
        if isinstance(op, ScanOp | CondOp) or (isinstance(op, CallOp) and op.composite is None):
            for region in op.regions:
                for inner in region.blocks:
                    outline_attention(inner, target, fewest_scores)
        match = _found(op) if isinstance(op, DotGeneralOp) else None
        if match is not None and pays(match.attention, target, fewest_scores):
            _replace(match)
            changed = True
    if changed:
        erase_dead(block)


def outlined(block: Block, values: Sequence[SSAValue]) -> Sequence[SSAValue]:
    """Outlines the attentions in a block that has no terminator yet; returns the replacements of `values`.

    Ops that no value needs may be erased. The target is not known at this point.
    """
    kinds = {type(inner) for op in block.ops for inner in op.walk()}
    if not {DotGeneralOp, functions.ExpOp, arithmetic.DivOp} <= kinds:
        return values
    end = ReturnOp(values)
    end.location = UnknownLoc()
    block.add_op(end)
    simplify_block(block)
    outline_attention(block)
    values = list(end.values)
    Rewriter.erase_op(end)
    return values


@dataclass(frozen=True)
class _Mask:
    """A boolean mask of the scores.

    Attributes:
        value: The booleans.
        negated: Whether true excludes a score rather than allowing it.
        path: The views that give `value` the shape of the scores, in order.
    """

    value: SSAValue
    negated: bool = False
    path: tuple[shape.ReshapeOp | shape.BroadcastOp, ...] = ()

    def causal(self, rank: int) -> int | None:
        """Returns how far beyond its own position a query attends if the mask, of this rank, is causal, else `None`."""
        array = _array(self.value)
        if array is not None:
            for op in self.path:
                array = op.evaluate(array)
            return _causal_array(array != self.negated)
        comparison = _behind_views(_causal_comparison(self.value, self.negated), self.path)
        return comparison[2] if comparison is not None and comparison[:2] == (rank - 2, rank - 1) else None

    def emit(self, b: TensorBuilder) -> SSAValue:
        """Emits the mask in the shape of the scores, true where a score is allowed; returns it."""
        value = _negated(b, self.value) if self.negated else self.value
        for op in self.path:
            value = b.emit(type(op), [value], **op.properties)
        return value


@dataclass(frozen=True)
class _Scores:
    """The state of a match between the softmax and the product that computes the scores, followed backwards.

    Attributes:
        value: The value to match next; its last axis is that of the keys.
        scale, fill, zeros, causal, period: As in `Attention`; `fill` is `None` until a mask is found.
        biases: The biases found so far; each has as many elements as the scores.
        masks: The masks found so far, likewise.
    """

    value: SSAValue
    scale: float = 1.0
    fill: float | None = None
    zeros: bool = False
    causal: int | None = None
    period: int = 1
    biases: tuple[SSAValue, ...] = ()
    masks: tuple[_Mask, ...] = ()


@dataclass(frozen=True)
class _Found:
    """A matched attention: its parameters, its first and last product, the unscaled query, and the matched scores."""

    attention: Attention
    first: DotGeneralOp
    last: DotGeneralOp
    query: SSAValue
    scores: _Scores


def _replace(match: _Found) -> None:
    """Replaces the product with the values with a call."""
    a, first, last = match.attention, match.first, match.last
    b = TensorBuilder(cast(Block, last.parent), before=last, location=last.location)
    lb, rb, lc, rc = first.dimension_numbers
    right = first.operands[1]
    q = _moved(
        b, match.query, [*lb, *free_axes(len(shape_of(match.query)), lb, lc), *lc], (a.groups, a.queries, a.features)
    )
    k = _moved(b, right, [*rb, *free_axes(len(shape_of(right)), rb, rc), *rc], (a.groups, a.keys, a.features))
    _, batch, _, axes = last.dimension_numbers
    value = last.operands[1]
    free = free_axes(len(shape_of(value)), batch, axes)
    v = _moved(b, value, [*batch, *axes, *free], (a.groups, a.keys, a.values))
    masks = [mask.emit(b) for mask in match.scores.masks]
    scores = [b.reshape(operand, (a.groups, a.queries, a.keys)) for operand in (*match.scores.biases, *masks)]
    call = attention_call(a, [q, k, v, *scores], b)
    result = b.reshape(call.results[0], shape_of(last.result))
    result.name_hint = last.result.name_hint
    last.result.replace_all_uses_with(result)
    Rewriter.erase_op(last)


def _moved(b: TensorBuilder, value: SSAValue, order: Sequence[int], extents: Sequence[int]) -> SSAValue:
    return b.reshape(b.transpose(value, order), extents)


def _negated(b: TensorBuilder, mask: SSAValue) -> SSAValue:
    """Negates booleans, before they are broadcast or reshaped."""
    op = mask.owner
    if isinstance(op, shape.ReshapeOp | shape.BroadcastOp):
        return b.emit(type(op), [_negated(b, op.operands[0])], **op.properties)
    return b.unary(arithmetic.NotOp, mask)


# Matching


def _is(value: SSAValue, kind: type[OpT]) -> OpT | None:
    return value.owner if isinstance(value.owner, kind) else None


def _reshaped(value: SSAValue) -> SSAValue:
    """Returns the source of a chain of reshapes; `value` itself if there is none."""
    while (op := _is(value, shape.ReshapeOp)) is not None:
        value = op.operands[0]
    return value


def _row(value: SSAValue) -> SSAValue | None:
    """Returns the value that is broadcast along a new last axis, or `None` if `value` is no such broadcast."""
    op = _is(value, shape.BroadcastOp)
    if op is None or list(op.dims.get_values()) != list(range(len(op.shape) - 1)):
        return None
    return _reshaped(op.operands[0])


def _reduced(value: SSAValue | None, kind: type[reduce.ReduceOp], of: SSAValue) -> bool:
    """Returns whether a value is the reduction of `of` along its last axis, up to reshapes."""
    op = None if value is None else _is(_reshaped(value), kind)
    return op is not None and op.operands[0] is of and op.axes.get_values() == (len(shape_of(of)) - 1,)


def _chosen(value: SSAValue, otherwise: float) -> tuple[SSAValue, SSAValue] | None:
    """Returns the condition and the first choice of a select whose second choice is the constant `otherwise`."""
    op = _is(value, arithmetic.SelectOp)
    return (op.operands[0], op.operands[1]) if op is not None and splat_value(op.operands[2]) == otherwise else None


def _is_top(value: SSAValue | None, x: SSAValue) -> bool:
    """Returns whether a value is the maximum of each row of `x`, possibly with 0 where that is not finite or `-inf`."""
    if value is None:
        return False
    value = _reshaped(value)
    choice = _is(value, arithmetic.SelectOp)
    if choice is not None:
        test, first, second = choice.operands
        top = second if splat_value(first) == 0 else first
        finite = _is(test, functions.IsFiniteOp)
        is_finite = top is first and finite is not None and finite.operands[0] is top and splat_value(second) == 0
        if not is_finite and not (top is second and _equals(test, -math.inf) is top):
            return False
        value = _reshaped(top)
    stopped = _is(value, arithmetic.StopGradientOp)
    return _reduced(value if stopped is None else stopped.operands[0], reduce.MaxOp, x)


def _equals(value: SSAValue, number: float) -> SSAValue | None:
    """Returns what a value compares with the constant `number` for equality, else `None`."""
    op = _is(value, arithmetic.CompareOp)
    is_equality = op is not None and op.predicate == StringAttr("eq") and splat_value(op.operands[1]) == number
    return op.operands[0] if op is not None and is_equality else None


@dataclass(frozen=True)
class _Softmax:
    """A matched softmax: its scores, its mask if it has one, and whether a row without scores is zeros, not NaN."""

    scores: SSAValue
    mask: SSAValue | None = None
    zeros: bool = False


def _softmax(value: SSAValue) -> _Softmax | None:
    """Matches a softmax along the last axis: as `tensorgrad.softmax` composes it, or without care for empty rows."""
    undefined: SSAValue | None = None
    if (added := _is(value, arithmetic.AddOp)) is not None:
        value, undefined = added.operands[0], _undefined(added.operands[1])
        if undefined is None:
            return None
    division = _is(value, arithmetic.DivOp)
    total = None if division is None else _row(division.operands[1])
    if division is None or total is None:
        return None
    powers, guard = division.operands[0], _is(total, arithmetic.SelectOp)
    if guard is not None:
        test, one, total = guard.operands
        if splat_value(one) != 1 or _equals(test, 0) is not total or undefined not in (None, test):
            return None
    elif undefined is not None:
        return None
    if not _reduced(total, reduce.SumOp, powers):
        return None
    exponential = _is(powers, functions.ExpOp)
    if exponential is None:
        return _masked_softmax(powers) if guard is not None and undefined is None else None
    shifted = _is(exponential.operands[0], arithmetic.SubOp)
    if shifted is None or not _is_top(_row(shifted.operands[1]), shifted.operands[0]):
        return None
    return _Softmax(shifted.operands[0], zeros=guard is not None and undefined is None)


def _undefined(value: SSAValue) -> SSAValue | None:
    """Returns the condition on which each row of a value is NaN rather than 0, or `None` for other values."""
    row = _row(value)
    chosen = None if row is None else _chosen(row, 0.0)
    number = None if chosen is None else splat_value(chosen[1])
    return chosen[0] if chosen is not None and number is not None and math.isnan(number) else None


def _masked_softmax(powers: SSAValue) -> _Softmax | None:
    """Matches the exponentials that `tensorgrad.softmax` composes with `where`."""
    counted = _chosen(powers, 0.0)
    exponential = None if counted is None else _is(counted[1], functions.ExpOp)
    inside = None if exponential is None else _chosen(exponential.operands[0], 0.0)
    if counted is None or inside is None or inside[0] is not (mask := counted[0]):
        return None
    shifted = _is(inside[1], arithmetic.SubOp)
    if shifted is None:
        return None
    scores, top = shifted.operands[0], _row(shifted.operands[1])
    for use in scores.uses:
        if isinstance(use.operation, arithmetic.SelectOp) and _chosen(use.operation.results[0], -math.inf) == (
            mask,
            scores,
        ):
            return _Softmax(scores, mask, zeros=True) if _is_top(top, use.operation.results[0]) else None
    return None


def _found(last: DotGeneralOp) -> _Found | None:
    """Matches the attention whose last op is the product of weights and values."""
    batch, _, axes, _ = last.dimension_numbers
    weights = last.operands[0]
    extents = shape_of(weights)
    if element_of(weights) not in (f32, f64) or 0 in (*shape_of(last.result), *extents):
        return None
    if list(axes) != [len(extents) - 1] or list(batch) != list(range(len(batch))):
        return None
    while weights.has_one_use() and (reshape := _is(weights, shape.ReshapeOp)) is not None:
        weights = reshape.operands[0]
    matched = _softmax(weights) if weights.has_one_use() and shape_of(weights)[-1:] == extents[-1:] else None
    if matched is None:
        return None
    start = _Scores(matched.scores, fill=-math.inf if matched.zeros else None, zeros=matched.zeros)
    if matched.mask is not None:
        start = _with_mask(start, matched.mask)
    groups = math.prod(extents[axis] for axis in batch)
    rows = math.prod(extents[len(batch) : -1])
    attentions = (_checked(place, last, groups, rows, extents[-1]) for place in _followed(start))
    return next((attention for attention in attentions if attention is not None), None)


def _checked(scores: _Scores, last: DotGeneralOp, groups: int, queries: int, keys: int) -> _Found | None:
    """Returns the attention between two products if their shapes agree, else `None`."""
    first = cast(DotGeneralOp, scores.value.owner)
    lb, rb, lc, rc = first.dimension_numbers
    left, right = shape_of(first.operands[0]), shape_of(first.operands[1])
    batch = math.prod(left[axis] for axis in lb)
    rows = math.prod(left[axis] for axis in free_axes(len(left), lb, lc))
    columns = math.prod(right[axis] for axis in free_axes(len(right), rb, rc))
    features = math.prod(left[axis] for axis in lc)
    values = math.prod(shape_of(last.result)) // (groups * queries)
    if (batch, rows, columns) != (groups, queries, keys) or queries % scores.period:
        return None
    query, scale = _unscaled(first.operands[0])
    attention = Attention(
        groups,
        queries,
        keys,
        features,
        values,
        scale=scale * scores.scale,
        fill=-math.inf if scores.fill is None else scores.fill,
        zeros=scores.zeros,
        causal=scores.causal,
        period=queries if scores.causal is None else scores.period,
        biases=len(scores.biases),
        masks=len(scores.masks),
    )
    return _Found(attention, first, last, query, scores)


def _unscaled(value: SSAValue) -> tuple[SSAValue, float]:
    """Returns a value stripped of constant factors, and the product of these."""
    scale = 1.0
    while (factor := _factor(value)) is not None:
        value, scale = factor[0], scale * factor[1]
    return value, scale


def _factor(value: SSAValue) -> tuple[SSAValue, float] | None:
    """Matches a product with, or a quotient by, a finite nonzero constant; returns the operand and the factor."""
    op = value.owner
    if not isinstance(op, arithmetic.MulOp | arithmetic.DivOp):
        return None
    pairs = [(op.operands[0], op.operands[1])]
    if isinstance(op, arithmetic.MulOp):
        pairs.append((op.operands[1], op.operands[0]))
    for other, constant in pairs:
        number = splat_value(constant)
        if number is not None and math.isfinite(number) and number:
            return other, number if isinstance(op, arithmetic.MulOp) else 1 / number
    return None


def _followed(scores: _Scores) -> Iterator[_Scores]:
    """Yields each way to trace scores back to a product, whose result is then their `value`."""
    op = scores.value.owner
    if isinstance(op, DotGeneralOp):
        yield scores
    elif isinstance(op, shape.ReshapeOp):
        if shape_of(op.operands[0])[-1:] == shape_of(scores.value)[-1:]:
            yield from _followed(replace(scores, value=op.operands[0]))
    elif isinstance(op, arithmetic.SelectOp):
        yield from _below_choice(scores, op)
    elif (factor := _factor(scores.value)) is not None:
        yield from _followed(replace(scores, value=factor[0], scale=scores.scale * factor[1]))
    elif isinstance(op, arithmetic.AddOp) and scores.scale == 1 and len(scores.biases) < MOST_BIASES:
        x, y = op.operands
        for value, bias in ((x, y), (y, x)):
            yield from _followed(_with_bias(scores, value, bias))


def _with_bias(scores: _Scores, value: SSAValue, bias: SSAValue) -> _Scores:
    """Returns the scores before a bias is added; a causal constant of 0 and -inf is taken as a mask."""
    array = _array(bias)
    if array is not None and scores.fill in (None, -math.inf) and bool(np.isin(array, (0, -np.inf)).all()):
        causal = _with_causal(scores, _causal_array(array == 0), shape_of(bias))
        if causal is not None:
            return replace(causal, value=value, fill=-math.inf)
    return replace(scores, value=value, biases=(*scores.biases, bias))


def _below_choice(scores: _Scores, op: arithmetic.SelectOp) -> Iterator[_Scores]:
    condition, x, y = op.operands
    for value, constant, negated in ((x, y, False), (y, x, True)):
        fill = splat_value(constant)
        if fill is None or (scores.fill is not None and fill != scores.fill):
            continue
        # A scale or bias after the select applies to the constant too; only -inf is not changed by it.
        if fill != -math.inf and (scores.biases or scores.scale != 1):
            continue
        if scores.scale > 0:
            yield from _followed(_with_mask(replace(scores, value=value, fill=float(fill)), condition, negated))


def _with_mask(scores: _Scores, mask: SSAValue, negated: bool = False) -> _Scores:
    extents = shape_of(mask)
    for part in [_Mask(mask, True)] if negated else _conjuncts(mask):
        causal = _with_causal(scores, part.causal(len(extents)), extents)
        scores = replace(scores, masks=(*scores.masks, part)) if causal is None else causal
    return scores


def _conjuncts(mask: SSAValue) -> list[_Mask]:
    """Returns masks whose conjunction is `mask`."""
    op = mask.owner
    if isinstance(op, arithmetic.AndOp):
        return [part for operand in op.operands for part in _conjuncts(operand)]
    if isinstance(op, shape.ReshapeOp | shape.BroadcastOp):
        parts = _conjuncts(op.operands[0])
        if len(parts) > 1:
            return [replace(part, path=(*part.path, op)) for part in parts]
    return [_Mask(mask)]


def _with_causal(scores: _Scores, causal: int | None, extents: Sequence[int]) -> _Scores | None:
    """Returns the scores below a causal mask with these extents too; `None` without one, or if its positions differ."""
    if causal is None or (scores.causal is not None and scores.period != extents[-2]):
        return None
    least = causal if scores.causal is None else min(causal, scores.causal)
    return replace(scores, causal=least, period=extents[-2])


# Causality


def _array(value: SSAValue) -> NumpyArray | None:
    """Returns the elements of a constant, possibly broadcast or reshaped; `None` for other values."""
    op = _outside(value).owner
    if isinstance(op, leaves.ConstantOp):
        return op.evaluate()
    if isinstance(op, shape.ReshapeOp | shape.BroadcastOp):
        inner = _array(op.operands[0])
        return None if inner is None else op.evaluate(inner)
    return None


def _outside(value: SSAValue) -> SSAValue:
    """Returns the operand behind a loop invariant: `simplify` hoists what depends on constants alone out of loops."""
    while isinstance(value, BlockArgument) and isinstance(around := value.block.parent_op(), ScanOp):
        if value.index >= len(around.consts):
            break
        value = around.consts[value.index]
    return value


def _causal_array(allowed: NumpyArray) -> int | None:
    """Returns how far beyond its own position a query attends if booleans are a causal mask, else `None`."""
    if allowed.ndim < 2 or min(allowed.shape[-2:]) < 2:
        return None
    rows = allowed.reshape(-1, *allowed.shape[-2:])
    seen = np.flatnonzero(rows[0].any(axis=-1))
    if not seen.size:
        return None
    ahead = int(rows[0, seen[0]].sum()) - 1 - int(seen[0])
    allowed_by_position = np.tri(*allowed.shape[-2:], k=ahead, dtype=bool)
    return ahead if all(np.array_equal(row, allowed_by_position) for row in rows) else None


def _causal_comparison(value: SSAValue, negated: bool) -> tuple[int, int, int] | None:
    """Returns the axes of queries and keys, and how far ahead a query attends, if a value compares their positions."""
    op = _outside(value).owner
    if isinstance(op, shape.ReshapeOp | shape.BroadcastOp):
        return _behind_views(_causal_comparison(op.operands[0], negated), [op])
    if isinstance(op, arithmetic.NotOp):
        return _causal_comparison(op.operands[0], not negated)
    if not isinstance(op, arithmetic.CompareOp):
        return None
    places = [_position(operand) for operand in op.operands]
    if places[0] is None or places[1] is None:
        return None
    (left, a), (right, b) = places[0], places[1]
    predicate = op.predicate.data
    if negated:
        predicate = {"le": "gt", "lt": "ge", "ge": "lt", "gt": "le"}.get(predicate, predicate)
    # `key + a <= query + b`, or its mirror image; a strict comparison allows one position less.
    if predicate in ("le", "lt"):
        return right, left, b - a - (predicate == "lt")
    if predicate in ("ge", "gt"):
        return left, right, a - b - (predicate == "gt")
    return None


def _behind_views(
    comparison: tuple[int, int, int] | None, path: Sequence[shape.ReshapeOp | shape.BroadcastOp]
) -> tuple[int, int, int] | None:
    """Returns a causal comparison with its axes mapped through views, or `None` if one does not survive."""
    for op in path:
        if comparison is None:
            return None
        queries, keys = (_axis_behind(op, axis) for axis in comparison[:2])
        comparison = None if queries is None or keys is None else (queries, keys, comparison[2])
    return comparison


def _position(value: SSAValue) -> tuple[int, int] | None:
    """Returns the axis whose index each element of a value holds, and the constant added to it; else `None`."""
    op = _outside(value).owner
    if isinstance(op, leaves.IotaOp):
        return op.axis.value.data, 0
    if isinstance(op, shape.ReshapeOp | shape.BroadcastOp):
        position = _position(op.operands[0])
        axis = None if position is None else _axis_behind(op, position[0])
        return None if position is None or axis is None else (axis, position[1])
    if isinstance(op, arithmetic.AddOp | arithmetic.SubOp):
        x, y = op.operands
        for other, constant in ((x, y), (y, x)) if isinstance(op, arithmetic.AddOp) else ((x, y),):
            position, number = _position(other), splat_value(_outside(constant))
            if position is not None and isinstance(number, int):
                return position[0], position[1] + (number if isinstance(op, arithmetic.AddOp) else -number)
    return None


def _axis_behind(op: shape.ReshapeOp | shape.BroadcastOp, axis: int) -> int | None:
    """Returns the axis of a view's result that corresponds to an axis of its operand, or `None`."""
    if isinstance(op, shape.BroadcastOp):
        return op.dims.get_values()[axis]
    old, new = shape_of(op.operands[0]), op.shape
    for other, extent in enumerate(new):
        if extent == old[axis] > 1 and math.prod(new[other:]) == math.prod(old[axis:]):
            return other
    return None
