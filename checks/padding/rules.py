"""What is known of the results of `tg` ops without regions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from string import ascii_letters
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Block, Operation

from tensorgrad.checks.padding.facts import Array, ElementFacts, Flags, compact, unknown
from tensorgrad.checks.tolerance import is_float
from tensorgrad.dialects.tg.base import Moves, TensorOp, integer, numpy_dtype, size_of, tensor
from tensorgrad.dialects.tg.build import shape_of
from tensorgrad.dialects.tg.contract import DotGeneralOp, free_axes
from tensorgrad.dialects.tg.convolution import ConvOp
from tensorgrad.dialects.tg.elementwise.arithmetic import (
    AddOp,
    AndOp,
    CastOp,
    CompareOp,
    DivOp,
    MulOp,
    OrOp,
    SelectOp,
    SubOp,
)
from tensorgrad.dialects.tg.index import (
    ScatterAddAlongAxisOp,
    ScatterAddOp,
    ScatterAlongAxisOp,
    ScatterOp,
    ScatterReduceAlongAxisOp,
    ScatterReduceOp,
    TakeAlongAxisOp,
    TakeOp,
    identity_of,
)
from tensorgrad.dialects.tg.leaves import IotaOp
from tensorgrad.dialects.tg.reduce import MaxOp, MinOp, ProdOp, ReduceOp, SumOp
from tensorgrad.dialects.tg.shape import BroadcastOp, ReshapeOp
from tensorgrad.dialects.tg.sort import ArgsortOp
from tensorgrad.dialects.tg.traits import is_elementwise, is_leaf, is_view

REAL: ContextVar[Mapping[int, int]] = ContextVar("real", default=MappingProxyType({}))
"""How many positions aren't padded, by the number of positions of extents that are."""

MASKED = -1e3
"""Scores of padded positions of at most this count as masked, after a mask of -10000, as BERT's, was added to others or
divided. Its exponential is 0 from -104 on in f32."""

MOST_POSITIONS = 1 << 20
"""Longer counters, such as those of random numbers, are taken for data."""


def single(op: Operation, operands: Sequence[ElementFacts]) -> ElementFacts:
    """Returns what is known of the only result of an op without regions."""
    assert isinstance(op, TensorOp)
    if operands and not any(operand.says_anything for operand in operands):
        return unknown(op.results[0])
    if type(op) in _RULES:
        result = _RULES[type(op)](op, operands)
    elif isinstance(op, ReduceOp):
        result = _reduced(op, operands[0])
    elif is_leaf(op):
        result = _leaf(op)
    elif is_elementwise(op):
        result = _elementwise(op, operands)
    elif op.has_trait(Moves):
        result = _moved(op, operands)
    else:
        result = _mixed(op, operands)
    return settled(op, operands, result)


def _leaf(op: TensorOp) -> ElementFacts:
    if isinstance(op, IotaOp) and max(op.shape) > MOST_POSITIONS:
        return unknown(op.results[0])
    false = np.zeros((1,) * len(op.shape), bool)
    return ElementFacts(false, false, ~false, false, compact(op.evaluate()))


def settled(op: Operation, operands: Sequence[ElementFacts], result: ElementFacts) -> ElementFacts:
    """Returns facts that agree with each other, with the op as their origin if padding first reaches elements there.

    If all are at padded positions, as the last element of each row is, there is no other position any more: they depend
    on padding.
    """
    reached, padded = result.reached, result.padded
    if result.is_padding and not any(operand.is_padding for operand in operands):
        reached, padded = ~result.known, np.zeros_like(padded)
    reached = compact(reached & ~padded & ~result.known)
    told = result.known | result.unequal
    value = compact(np.where(told, result.value, np.ones_like(result.value)))
    before = result.origins.union(*(operand.origins for operand in operands))
    through = frozenset[Operation]() if not reached.any() else before or frozenset({op})
    known, unequal = compact(result.known), compact(result.unequal)
    return ElementFacts(compact(padded), reached, known, unequal, value, through, result.sums)


def _any(arrays: Sequence[Flags]) -> Flags:
    return functools.reduce(np.logical_or, arrays)


def _elementwise(op: TensorOp, operands: Sequence[ElementFacts]) -> ElementFacts:
    known = functools.reduce(np.logical_and, [operand.known for operand in operands])
    known = known | _any([_absorbs(op, place, operand) for place, operand in enumerate(operands)])
    ones = np.ones((1,) * known.ndim, numpy_dtype(op.type))
    value = op.evaluate(*(operand.value for operand in operands)) if known.any() else ones
    padded = _any([operand.padded for operand in operands])
    reached = _any([operand.reached for operand in operands])
    means = _means(op, operands) if isinstance(op, MulOp | DivOp) else frozenset[Operation]()
    if means:
        reached = np.ones_like(reached)
    result = ElementFacts(padded, reached, known, np.zeros_like(known), value, means)
    if isinstance(op, CompareOp):
        return _compared(op, operands, result)
    return _cast(op, operands[0], result) if isinstance(op, CastOp) else result


def _means(op: TensorOp, operands: Sequence[ElementFacts]) -> frozenset[Operation]:
    """Returns sums that are divided by the number of their terms, padded ones included, or multiplied by a share."""
    x, y = operands
    means = set[Operation]()
    for facts, other in [(x, y)] if isinstance(op, DivOp) else [(x, y), (y, x)]:
        if other.known.all() and other.value.size == 1:
            number = float(other.value.item())
            factor = number if isinstance(op, DivOp) else 1 / number if number else 0.0
            means |= {total for total, count in facts.sums if math.isclose(factor, count, rel_tol=1e-3)}
    return frozenset(means)


def _cast(op: CastOp, operand: ElementFacts, result: ElementFacts) -> ElementFacts:
    """Keeps what is known of a sum, and which number an integer isn't, if the type has all of them."""
    result = replace(result, sums=operand.sums)
    if operand.value.dtype.kind not in "iu" or result.value.itemsize < operand.value.itemsize:
        return result
    unequal = operand.unequal & ~result.known
    return replace(result, unequal=unequal, value=op.evaluate(operand.value)) if unequal.any() else result


def _compared(op: CompareOp, operands: Sequence[ElementFacts], result: ElementFacts) -> ElementFacts:
    """Decides comparisons with what an element isn't, and of positions with the number of those that aren't padded."""
    x, y = operands
    predicate = op.predicate.data
    if predicate in ("eq", "ne"):
        differ = (x.value == y.value) & (x.known & y.unequal | x.unequal & y.known)
        value = np.where(differ, predicate == "ne", result.value)
        return replace(result, known=result.known | differ, value=value)
    for positions, count, predicates in ((x, y, ("lt", "ge")), (y, x, ("gt", "le"))):
        real = _real_positions(positions)
        if predicate in predicates and real is not None and not count.says_anything:
            number = np.full_like(count.value, real)
            values = (positions.value, number) if positions is x else (number, positions.value)
            return replace(result, known=np.ones_like(result.known), value=op.evaluate(*values))
    return result


def _real_positions(facts: ElementFacts) -> int | None:
    """Returns how many positions aren't padded, if a value is that of all positions along one axis."""
    counted = facts.value.reshape(-1)
    if not facts.known.all() or facts.value.dtype.kind not in "iu" or counted.size not in facts.value.shape:
        return None
    real = REAL.get().get(counted.size)
    return real if real is not None and np.array_equal(counted, np.arange(counted.size)) else None


_ABSORBING: Mapping[type[Operation], tuple[tuple[float, ...], ...]] = {
    AddOp: ((-np.inf, np.inf), (-np.inf, np.inf)),
    AndOp: ((0,), (0,)),
    DivOp: ((0,), ()),
    MulOp: ((0,), (0,)),
    SubOp: ((-np.inf, np.inf), (-np.inf, np.inf)),
}
"""Numbers that alone determine the result, by operand, if the other one is finite, and a divisor not 0."""


def _absorbs(op: TensorOp, place: int, operand: ElementFacts) -> Flags:
    """Returns where an operand alone determines the result of an elementwise op, which its value with 1s shows."""
    if isinstance(op, OrOp):
        return operand.are(True) if operand.value.dtype == bool else np.zeros_like(operand.known)
    places = _ABSORBING.get(type(op), ())
    flags = operand.are(*places[place]) if place < len(places) else np.zeros_like(operand.known)
    if isinstance(op, AddOp | SubOp) and is_float(operand.value):
        value = -operand.value if isinstance(op, SubOp) and place else operand.value
        flags = flags | (operand.known & operand.padded & (value <= MASKED))
    return flags


def selected(_: Operation, operands: Sequence[ElementFacts]) -> ElementFacts:
    """Returns what is known of a choice, by a condition, between two values."""
    condition, yes, no = operands
    # A softmax of scores that are all masked is NaN on purpose.
    nan = yes.known & (yes.value != yes.value)
    decided = condition.known | nan | (no.known & (no.value != no.value))
    holds = np.where(condition.known, condition.value, ~nan)
    same = (yes.value == no.value) & (_is_negative(yes.value) == _is_negative(no.value))

    def choice(of: Callable[[ElementFacts], Array], otherwise: Array) -> Array:
        return np.where(decided, np.where(holds, of(yes), of(no)), otherwise)

    return ElementFacts(
        condition.padded | yes.padded | no.padded,
        (condition.reached & ~decided) | choice(lambda x: x.reached, yes.reached | no.reached),
        choice(lambda x: x.known, yes.known & no.known & same),
        choice(lambda x: x.unequal, yes.unequal & no.unequal & same),
        choice(lambda x: x.value, yes.value),
    )


def _is_negative(value: Array) -> Flags:
    return np.signbit(value.astype(np.float64))


_NEUTRAL: Mapping[type[Operation], Callable[[Array], Flags]] = {
    SumOp: lambda value: value == 0,
    ProdOp: lambda value: value == 1,
    MaxOp: lambda value: value <= (MASKED if is_float(value) else np.iinfo(value.dtype).min),
    MinOp: lambda value: value >= (-MASKED if is_float(value) else np.iinfo(value.dtype).max),
}
"""Whether a value has no effect on a reduction."""


def _reduced(op: ReduceOp, operand: ElementFacts) -> ElementFacts:
    axes, shape = op.axes.get_values(), shape_of(op.operand)
    padding, some = np.asarray(operand.padded.all(axes)), np.asarray(operand.padded.any(axes))
    effective = operand.padded & ~(operand.known & _is_neutral(op, operand, axes))
    reached = np.asarray((operand.reached | effective).any(axes))
    known = np.asarray(operand.known.all(axes)) & (padding | ~some)
    value = np.ones((1,) * known.ndim, operand.value.dtype)
    if known.any():
        value = op.evaluate(np.broadcast_to(operand.value, shape))
    sums = frozenset[tuple[Operation, int]]()
    if isinstance(op, SumOp):
        terms = size_of([shape[axis] for axis in axes])
        sums = frozenset((total, count * terms) for total, count in operand.sums)
        if (some & ~padding).any():
            padded_terms = size_of([shape[axis] for axis in axes if operand.padded.shape[axis] > 1])
            sums |= {(op, terms), (op, padded_terms)}
    return ElementFacts(padding, reached, known, np.zeros_like(known), value, sums=sums)


def _is_neutral(op: ReduceOp, operand: ElementFacts, axes: Sequence[int]) -> Flags:
    """Returns which values have no effect: also those that don't exceed a known one of a position that isn't padded."""
    neutral, value = _NEUTRAL[type(op)](operand.value), operand.value
    real = operand.known & ~operand.padded
    if isinstance(op, MaxOp | MinOp) and real.any():
        sign = 1 if isinstance(op, MaxOp) else -1
        ordered = sign * value.astype(np.float64)
        neutral = neutral | (ordered <= np.where(real, ordered, -np.inf).max(tuple(axes), keepdims=True))
    return neutral


def _multiplied(op: TensorOp, operands: Sequence[ElementFacts]) -> ElementFacts:
    """Handles sums of products: a term has no effect if a factor is known to be 0."""
    x, y = operands
    count = _term_counter(op, x, y)
    x_acts, y_acts = ~x.are(0), ~y.are(0)
    effective = count(x_acts & (x.padded | x.reached), y_acts) + count(x_acts, y_acts & (y.padded | y.reached)) > 0
    padding = count(~x.padded, ~y.padded) == 0
    known = count(x_acts, y_acts) == 0
    zero = np.zeros((1,) * known.ndim, numpy_dtype(op.type))
    sums = frozenset[tuple[Operation, int]]()
    if isinstance(op, DotGeneralOp):
        axes = op.lhs_contracting.get_values()
        all_terms = count(np.ones_like(x.padded), np.ones_like(y.padded))
        if ((count(~x.padded, ~y.padded) < all_terms) & ~padding).any():
            sums = frozenset({(op, size_of([shape_of(op.lhs)[axis] for axis in axes]))})
    return ElementFacts(padding, effective, known, np.zeros_like(known), zero, sums=sums)


Counter: TypeAlias = Callable[[Flags, Flags], Array]
"""Counts the terms of each element of a sum of products both of whose factors have a flag."""


def _term_counter(op: TensorOp, x: ElementFacts, y: ElementFacts) -> Counter:
    if isinstance(op, ConvOp):
        return _convolved_counter(op, x, y)
    assert isinstance(op, DotGeneralOp)
    left, right = x.value.ndim, y.value.ndim
    lb, rb, lc, rc = op.dimension_numbers
    rows, columns = list(range(left)), list(range(left, left + right))
    for mine, other in zip((*lb, *lc), (*rb, *rc), strict=True):
        columns[other] = rows[mine]
    result = [rows[axis] for axis in (*lb, *free_axes(left, lb, lc))]
    result += [columns[axis] for axis in free_axes(right, rb, rc)]
    letters = ["".join(map(ascii_letters.__getitem__, labels)) for labels in (rows, columns, result)]

    def count(first: Flags, second: Flags) -> Array:
        extents = dict.fromkeys([*rows, *columns], 1)
        for label, extent in zip([*rows, *columns], [*first.shape, *second.shape], strict=True):
            extents[label] = max(extents[label], extent)
        factors = [
            np.broadcast_to(flags, [extents[label] for label in labels]).astype(np.float32)
            for flags, labels in ((first, rows), (second, columns))
        ]
        return compact(np.einsum(f"{letters[0]},{letters[1]}->{letters[2]}", *factors))

    return count


def _convolved_counter(op: ConvOp, x: ElementFacts, y: ElementFacts) -> Counter:
    """Convolves flags; one image, channel and filter stand for all if all are alike."""
    shapes, properties = [shape_of(operand) for operand in op.operands], dict(op.properties)
    if all(array.shape[:2] == (1, 1) for facts in (x, y) for array in facts.arrays):
        shapes, properties["groups"] = [(1, 1, *shape[2:]) for shape in shapes], integer(1)
    kinds = [tensor(shape, f32) for shape in shapes]
    small = ConvOp.create(
        operands=Block(arg_types=kinds).args, result_types=[ConvOp.infer(kinds, properties)], properties=properties
    )

    def count(first: Flags, second: Flags) -> Array:
        pairs = zip((first, second), shapes, strict=True)
        return compact(small.evaluate(*(np.broadcast_to(flags, shape).astype(np.float32) for flags, shape in pairs)))

    return count


def _moved(op: TensorOp, operands: Sequence[ElementFacts]) -> ElementFacts:
    if isinstance(op, ReshapeOp):
        source = shape_of(op.operands[0])
        return operands[0].map(lambda array: _reshaped(array, source, op.shape))
    if isinstance(op, BroadcastOp):
        new = [axis for axis in range(len(op.shape)) if axis not in op.dims.get_values()]
        return operands[0].map(lambda array: np.expand_dims(array, new))
    columns = zip(*map(ElementFacts.spread, operands, op.operands), strict=True)
    sums = operands[0].sums if is_view(op) else frozenset[tuple[Operation, int]]()
    return ElementFacts.of((op.evaluate(*arrays) for arrays in columns), sums=sums)


def _reshaped(array: Array, source: Sequence[int], target: Sequence[int]) -> Array:
    """Returns an array with the axes of a reshape's result, of which groups stay compact that are so in the operand."""
    if size_of(source) == 0:
        return array.reshape(-1)[:1].reshape((1,) * len(target))
    groups = _groups(source, target)
    shape: list[int] = []
    expanded: list[int] = []
    for own, new in groups:
        is_compact = all(array.shape[axis] == 1 for axis in own)
        expanded += [1 if is_compact else source[axis] for axis in own]
        shape += [1 if is_compact else target[axis] for axis in new]
    return np.broadcast_to(array, expanded).reshape(shape)


def _groups(source: Sequence[int], target: Sequence[int]) -> list[tuple[range, range]]:
    """Returns the smallest groups of adjacent axes of two shapes that have the same number of elements."""
    groups: list[tuple[range, range]] = []
    i = j = 0
    while i < len(source) or j < len(target):
        first, second, left, right = i, j, 1, 1
        while (i == first and j == second) or left != right:
            if i < len(source) and (left <= right or j == len(target)):
                left, i = left * source[i], i + 1
            else:
                right, j = right * target[j], j + 1
        groups.append((range(first, i), range(second, j)))
    return groups


def _taken(op: TensorOp, operands: Sequence[ElementFacts]) -> ElementFacts:
    """Handles reads at computed indices, which are those of positions that aren't padded if they aren't known."""
    assert isinstance(op, TakeOp | TakeAlongAxisOp)
    x, indices = operands
    if indices.known.all():
        positions = np.broadcast_to(indices.value, shape_of(op.operands[1]))
        return ElementFacts.of(op.evaluate(array, positions) for array in x.spread(op.operands[0]))
    axis = op.axis.value.data
    # Of the slices along the axis, those at positions that aren't padded are read, if there are any.
    padded, reached = x.padded.all(axis, keepdims=True), x.reached.any(axis, keepdims=True)
    if isinstance(op, TakeOp):
        places = [*range(axis, axis + indices.value.ndim)]
        padded, reached = (np.expand_dims(np.take(flags, 0, axis), places) for flags in (padded, reached))
    indices = _among_slices(indices, op, len(op.shape))
    return replace(unknown(op.results[0]), padded=padded | indices.padded, reached=reached | indices.reached)


def _among_slices(indices: ElementFacts, op: TakeOp | TakeAlongAxisOp | ScatterOp, rank: int) -> ElementFacts:
    """Returns the elements of indices with the axes of the slices at them."""
    if isinstance(op, TakeAlongAxisOp | ScatterAlongAxisOp):
        return indices
    first = op.axis.value.data
    others = [*range(first), *range(first + indices.value.ndim, rank)]
    return indices.map(lambda array: np.expand_dims(array, others))


def _scattered(op: TensorOp, operands: Sequence[ElementFacts]) -> ElementFacts:
    """Handles reductions of updates at computed indices: each may go anywhere, unless its index is out of range."""
    assert isinstance(op, ScatterOp)
    updates, indices = operands
    identity = identity_of(op.combines, updates.value.dtype)
    indices = _among_slices(indices, op, updates.value.ndim)
    touched = updates.padded | updates.reached | indices.padded | indices.reached
    is_dropped = indices.known & ((indices.value < 0) | (indices.value >= op.extent.value.data))
    return _reached_if(bool((touched & ~updates.are(identity) & ~is_dropped).any()), op)


def _sorted(op: TensorOp, operands: Sequence[ElementFacts]) -> ElementFacts:
    """Handles positions in an order of the elements along the last axis, each of which depends on all of these."""
    (x,) = operands
    padded = x.padded.all(-1, keepdims=True)
    return replace(unknown(op.results[0]), padded=padded, reached=(x.reached | x.padded).any(-1, keepdims=True))


def _mixed(op: TensorOp, operands: Sequence[ElementFacts]) -> ElementFacts:
    """Handles all other ops: each element may depend on each one of the operands."""
    return _reached_if(any(bool((operand.padded | operand.reached).any()) for operand in operands), op)


def _reached_if(reached: bool, op: TensorOp) -> ElementFacts:
    result = unknown(op.results[0])
    return replace(result, reached=np.full_like(result.reached, reached))


_RULES: Mapping[type[Operation], Callable[[TensorOp, Sequence[ElementFacts]], ElementFacts]] = {
    SelectOp: selected,
    DotGeneralOp: _multiplied,
    ConvOp: _multiplied,
    TakeOp: _taken,
    TakeAlongAxisOp: _taken,
    ArgsortOp: _sorted,
    ScatterAddOp: _scattered,
    ScatterReduceOp: _scattered,
    ScatterAddAlongAxisOp: _scattered,
    ScatterReduceAlongAxisOp: _scattered,
}
