"""Finds how padded positions of inputs reach a result of a traced function, from the IR alone.

Batches of several lengths are padded. A loss that forgets that somewhere, in a mean over positions, or in attention to
padded ones, trains on padding, and nobody notices. Here a function is interpreted on what is known of each element,
whatever the data: is it there only because of padding, does it depend on it, and if it's a constant, which. So a mask
counts by what it does: padding that is multiplied by 0, added to -inf before a softmax, or not selected, has no effect.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_letters
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tensorgrad.dialects.tg.base import Moves, Tensor, TensorOp, int_list, int_value, numpy_dtype, size_of, splat_value
from tensorgrad.dialects.tg.call import CallOp
from tensorgrad.dialects.tg.contract import DotGeneralOp, free_axes
from tensorgrad.dialects.tg.control import CondOp, ScanOp
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
from tensorgrad.dialects.tg.index import ScatterAddAlongAxisOp, ScatterAddOp, TakeAlongAxisOp, TakeOp
from tensorgrad.dialects.tg.reduce import MaxOp, MinOp, ProdOp, ReduceOp, SumOp
from tensorgrad.dialects.tg.shape import BroadcastOp, ReshapeOp
from tensorgrad.dialects.tg.traits import is_elementwise, is_leaf

Array: TypeAlias = NDArray[Any]
Flags: TypeAlias = NDArray[np.bool_]

MASKED = -5e3
"""Scores of at most this count as masked: half of the -10000 that BERT's masks add. Its exponential is 0 in f32."""


@dataclass(frozen=True, eq=False)
class Elements:
    """What is known of a tensor's elements, whatever the data.

    Each array has the tensor's rank, and the extent 1 along axes where all elements are alike.

    Attributes:
        padded: They are at a position that exists because of padding.
        reached: They are not, but depend on padding.
        known: They are `value`.
        unequal: They differ from `value`.
        value: 1 where it says nothing.
        origins: The ops through which padding reached them.
    """

    padded: Flags
    reached: Flags
    known: Flags
    unequal: Flags
    value: Array
    origins: frozenset[Operation] = frozenset()

    @classmethod
    def of(cls, arrays: Iterable[Array], origins: frozenset[Operation] = frozenset()) -> Elements:
        """Returns elements of what `arrays` lists."""
        *flags, value = map(compact, arrays)
        padded, reached, known, unequal = (flag.astype(bool) for flag in flags)
        return cls(padded, reached, known, unequal, value, origins)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """All arrays, in the order of the attributes."""
        return self.padded, self.reached, self.known, self.unequal, self.value

    @property
    def is_padding(self) -> bool:
        """Whether all elements are at padded positions."""
        return bool(self.padded.all())

    @property
    def says_anything(self) -> bool:
        """Whether any element has a flag."""
        return any(bool(flags.any()) for flags in self.arrays[:4])

    def are(self, *numbers: float) -> Flags:
        """Returns which elements are known to be one of some numbers."""
        return self.known & np.isin(self.value, numbers)

    def map(self, change: Callable[[Array], Array]) -> Elements:
        """Returns the elements after a change of their arrangement."""
        return Elements.of(map(change, self.arrays), self.origins)

    def spread(self, value: SSAValue) -> list[Array]:
        """Returns all arrays with the tensor's shape."""
        return [np.broadcast_to(array, _shape(value)) for array in self.arrays]


def compact(array: Array) -> Array:
    """Returns an array with the extent 1 along axes where all elements are equal."""
    for axis in range(array.ndim):
        first = array[(slice(None),) * axis + (slice(1),)]
        if array.shape[axis] > 1 and (not array.strides[axis] or bool((array == first).all())):
            array = first
    return array


def nothing_known(rank: int, dtype: np.dtype[Any]) -> Elements:
    """Returns elements that depend on data, and not on padding."""
    false = np.zeros((1,) * rank, bool)
    return Elements(false, false, false, false, np.ones((1,) * rank, dtype))


def padded_input(shape: Sequence[int], dtype: np.dtype[Any], padding: Mapping[int, float]) -> Elements:
    """Returns the elements of an input, the second half of which is padded along each axis that has a value."""
    padded = np.zeros((1,) * len(shape), bool)
    value = np.ones((1,) * len(shape), dtype)
    for axis, number in padding.items():
        position = np.arange(shape[axis]).reshape([-1 if other == axis else 1 for other in range(len(shape))])
        padded = padded | (position >= (shape[axis] + 1) // 2)
        value[...] = number
    return Elements(padded, np.zeros_like(padded), padded, ~padded, value)


def origins(function: FuncOp, inputs: Mapping[int, Elements], result: int) -> list[Operation]:
    """Returns the ops through which padding reaches a result of a function, in their order; none if it doesn't.

    What is said holds under three assumptions: the elements of inputs that aren't padded differ from the padding,
    indices that are computed from data are those of positions that aren't padded, and no number is NaN, or infinite
    where it is multiplied by 0. Extents are those of the function: a number that depends on one, otherwise than by a
    mean, isn't noticed.

    Args:
        function: A traced function.
        inputs: The elements of padded inputs, by the position of the argument.
        result: The index of the result.
    """
    through = interpreted(function, inputs)[result].origins
    return [op for op in function.walk() if op in through] if through else []


def interpreted(function: FuncOp, inputs: Mapping[int, Elements]) -> list[Elements]:
    """Returns what is known of the elements of a function's results; see `origins`."""
    block = function.body.block
    return _run(block, [inputs.get(place) or _unknown(value) for place, value in enumerate(block.args)])


def _unknown(value: SSAValue) -> Elements:
    return nothing_known(len(_shape(value)), numpy_dtype(value.type))


def _shape(value: SSAValue) -> tuple[int, ...]:
    return cast(Tensor, value.type).get_shape()


def _run(block: Block, arguments: Sequence[Elements]) -> list[Elements]:
    """Interprets a block, and returns what it returns."""
    values: dict[SSAValue, Elements] = dict(zip(block.args, arguments, strict=True))
    for op in block.ops:
        operands = [values[operand] for operand in op.operands]
        if op is block.last_op:
            return operands
        with np.errstate(all="ignore"):
            results = _REGIONS[type(op)](op, operands) if type(op) in _REGIONS else [_single(op, operands)]
        values.update(zip(op.results, results, strict=True))
    return []


def _single(op: Operation, operands: Sequence[Elements]) -> Elements:
    """Returns what is known of the only result of an op without regions."""
    assert isinstance(op, TensorOp)
    if operands and not any(operand.says_anything for operand in operands):
        return _unknown(op.results[0])
    if type(op) in _RULES:
        result = _RULES[type(op)](op, operands)
    elif isinstance(op, ReduceOp):
        result = _reduced(op, operands[0])
    elif is_leaf(op):
        false = np.zeros((1,) * len(op.shape), bool)
        result = Elements(false, false, ~false, false, compact(op.evaluate()))
    elif is_elementwise(op):
        result = _elementwise(op, operands)
    elif op.has_trait(Moves):
        result = _moved(op, operands)
    else:
        result = _mixed(op, operands)
    return _named(op, operands, result)


def _named(op: Operation, operands: Sequence[Elements], result: Elements) -> Elements:
    """Returns the elements with consistent arrays, and with the op as their origin if padding first reaches them there.

    If all are at padded positions, as the last element of each row is, there is no other position any more: they depend
    on padding.
    """
    reached, padded = result.reached, result.padded
    if result.is_padding and not any(operand.is_padding for operand in operands):
        reached, padded = ~result.known, np.zeros_like(padded)
    reached = compact(reached & ~padded & ~result.known)
    told = result.known | result.unequal
    value = compact(np.where(told, result.value, np.ones_like(result.value)))
    before = frozenset[Operation]().union(*(operand.origins for operand in operands))
    through = frozenset[Operation]() if not reached.any() else before or frozenset({op})
    return Elements(compact(padded), reached, compact(result.known), compact(result.unequal), value, through)


def _any(arrays: Sequence[Flags]) -> Flags:
    return functools.reduce(np.logical_or, arrays)


def _elementwise(op: TensorOp, operands: Sequence[Elements]) -> Elements:
    known = functools.reduce(np.logical_and, [operand.known for operand in operands])
    known = known | _any([_absorbs(op, place, operand) for place, operand in enumerate(operands)])
    ones = np.ones((1,) * known.ndim, numpy_dtype(op.type))
    value = op.evaluate(*(operand.value for operand in operands)) if known.any() else ones
    unequal = np.zeros_like(known)
    if isinstance(op, CompareOp) and op.predicate.data in ("eq", "ne"):
        differ = _differ(*operands)
        known, value = known | differ, np.where(differ, op.predicate.data == "ne", value)
    elif (
        isinstance(op, CastOp) and ones.itemsize >= operands[0].value.itemsize and operands[0].value.dtype.kind in "iu"
    ):
        unequal = operands[0].unequal & ~known
        value = op.evaluate(operands[0].value) if unequal.any() else value
    return Elements(
        _any([operand.padded for operand in operands]),
        _any([operand.reached for operand in operands]),
        known,
        unequal,
        value,
    )


def _differ(x: Elements, y: Elements) -> Flags:
    """Returns where one is known, and the other known to be something else."""
    return (x.value == y.value) & (x.known & y.unequal | x.unequal & y.known)


_ABSORBING: Mapping[type[Operation], tuple[tuple[float, ...], ...]] = {
    AddOp: ((-np.inf, np.inf), (-np.inf, np.inf)),
    AndOp: ((0,), (0,)),
    DivOp: ((0,), ()),
    MulOp: ((0,), (0,)),
    SubOp: ((-np.inf, np.inf), (-np.inf, np.inf)),
}
"""Numbers that alone determine the result, by operand, if the other one is finite, and a divisor not 0."""


def _absorbs(op: TensorOp, place: int, operand: Elements) -> Flags:
    """Returns where an operand alone determines the result of an elementwise op, which its value with 1s shows."""
    if isinstance(op, OrOp):
        return operand.are(True) if operand.value.dtype == bool else np.zeros_like(operand.known)
    places = _ABSORBING.get(type(op), ())
    flags = operand.are(*places[place]) if place < len(places) else np.zeros_like(operand.known)
    if isinstance(op, AddOp) or (isinstance(op, SubOp) and place == 0):
        flags = flags | _is_masked(operand)
    return flags


def _is_masked(operand: Elements) -> Flags:
    """Returns which elements are scores of padded positions that a mask made so small that their exponential is 0."""
    if operand.value.dtype.kind in "biu":
        return np.zeros_like(operand.known)
    return operand.known & operand.padded & (operand.value <= MASKED)


def _selected(_: Operation, operands: Sequence[Elements]) -> Elements:
    condition, yes, no = operands
    # A softmax of scores that are all masked is NaN on purpose.
    nan = yes.known & (yes.value != yes.value)
    decided = condition.known | nan | (no.known & (no.value != no.value))
    holds = np.where(condition.known, condition.value, ~nan)

    def choice(of: Callable[[Elements], Array], otherwise: Array) -> Array:
        return np.where(decided, np.where(holds, of(yes), of(no)), otherwise)

    nowhere = np.zeros_like(condition.known)
    return Elements(
        condition.padded | yes.padded | no.padded,
        (condition.reached & ~decided) | choice(lambda x: x.reached, yes.reached | no.reached),
        choice(lambda x: x.known, nowhere),
        choice(lambda x: x.unequal, nowhere),
        choice(lambda x: x.value, yes.value),
    )


_NEUTRAL: Mapping[type[Operation], Callable[[Array], Flags]] = {
    SumOp: lambda value: value == 0,
    ProdOp: lambda value: value == 1,
    MaxOp: lambda value: value <= (MASKED if value.dtype.kind not in "biu" else np.iinfo(value.dtype).min),
    MinOp: lambda value: value >= (-MASKED if value.dtype.kind not in "biu" else np.iinfo(value.dtype).max),
}
"""Whether a value has no effect on a reduction."""


def _reduced(op: ReduceOp, operand: Elements) -> Elements:
    axes = int_list(op.properties, "axes")
    padding, some = np.asarray(operand.padded.all(axes)), np.asarray(operand.padded.any(axes))
    effective = operand.padded & ~(operand.known & _NEUTRAL[type(op)](operand.value))
    reached = np.asarray((operand.reached | effective).any(axes))
    if _is_mean(op, axes):
        reached = reached | (some & ~padding)
    known = np.asarray(operand.known.all(axes)) & (padding | ~some)
    value = np.ones((1,) * known.ndim, operand.value.dtype)
    if known.any():
        value = op.evaluate(np.broadcast_to(operand.value, _shape(op.operand)))
    return Elements(padding, reached, known, np.zeros_like(known), value)


def _is_mean(op: ReduceOp, axes: Sequence[int]) -> bool:
    """Returns whether a sum is divided by the number of its elements, padded ones included."""
    share = 1 / max(size_of([_shape(op.operand)[axis] for axis in axes]), 1)
    factors = [
        splat_value(factor)
        for use in op.result.uses
        if isinstance(use.operation, MulOp)
        for factor in use.operation.operands
    ]
    return isinstance(op, SumOp) and any(
        factor is not None and np.isclose(factor, share, 1e-3, 0) for factor in factors
    )


def _multiplied(op: TensorOp, operands: Sequence[Elements]) -> Elements:
    """Handles sums of products: a term has no effect if a factor is known to be 0."""
    x, y = operands
    count = _term_counter(op, x.value.ndim, y.value.ndim)
    x_acts, y_acts = ~x.are(0), ~y.are(0)
    effective = count(x_acts & (x.padded | x.reached), y_acts) + count(x_acts, y_acts & (y.padded | y.reached)) > 0
    padding = count(~x.padded, ~y.padded) == 0
    known = count(x_acts, y_acts) == 0
    zero = np.zeros((1,) * known.ndim, numpy_dtype(op.type))
    return Elements(padding, effective, known, np.zeros_like(known), zero)


def _term_counter(op: TensorOp, left: int, right: int) -> Callable[[Flags, Flags], Array]:
    """Returns a function that counts the terms of each element of the result both of whose factors have a flag."""
    if isinstance(op, ConvOp):
        shapes = [_shape(operand) for operand in op.operands]

        def convolved(x: Flags, y: Flags) -> Array:
            factors = [
                np.broadcast_to(flags, shape).astype(np.float32) for flags, shape in zip((x, y), shapes, strict=True)
            ]
            return compact(op.evaluate(*factors))

        return convolved
    lb, rb, lc, rc = (int_list(op.properties, name) for name in DotGeneralOp.PROPERTIES)
    rows, columns = list(range(left)), list(range(left, left + right))
    for mine, other in zip((*lb, *lc), (*rb, *rc), strict=True):
        columns[other] = rows[mine]
    result = [rows[axis] for axis in (*lb, *free_axes(left, lb, lc))]
    result += [columns[axis] for axis in free_axes(right, rb, rc)]

    left_letters, right_letters, result_letters = (
        "".join(map(ascii_letters.__getitem__, labels)) for labels in (rows, columns, result)
    )
    subscripts = f"{left_letters},{right_letters}->{result_letters}"

    def contracted(x: Flags, y: Flags) -> Array:
        extents = dict(zip([*rows, *columns], [1] * (left + right), strict=True))
        for label, extent in zip([*rows, *columns], [*x.shape, *y.shape], strict=True):
            extents[label] = max(extents[label], extent)
        factors = [
            np.broadcast_to(flags, [extents[label] for label in labels]).astype(np.float32)
            for flags, labels in ((x, rows), (y, columns))
        ]
        return compact(np.einsum(subscripts, *factors))

    return contracted


def _moved(op: TensorOp, operands: Sequence[Elements]) -> Elements:
    if isinstance(op, ReshapeOp):
        source = _shape(op.operands[0])
        return operands[0].map(lambda array: _reshaped(array, source, op.shape))
    if isinstance(op, BroadcastOp):
        new = [axis for axis in range(len(op.shape)) if axis not in int_list(op.properties, "dims")]
        return operands[0].map(lambda array: np.expand_dims(array, new))
    columns = zip(*map(Elements.spread, operands, op.operands), strict=True)
    return Elements.of(op.evaluate(*arrays) for arrays in columns)


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


def _taken(op: TensorOp, operands: Sequence[Elements]) -> Elements:
    """Handles reads at computed indices, which are those of positions that aren't padded if they aren't known."""
    x, indices = operands
    if indices.known.all():
        positions = np.broadcast_to(indices.value, _shape(op.operands[1]))
        return Elements.of(op.evaluate(array, positions) for array in x.spread(op.operands[0]))
    axis = int_value(op.properties, "axis")
    read = x.reached.any(axis, keepdims=True)
    if isinstance(op, TakeOp):
        read = np.expand_dims(np.take(read, 0, axis), [*range(axis, axis + indices.value.ndim)])
    indices = _among_slices(indices, op, len(op.shape))
    return replace(_unknown(op.results[0]), padded=indices.padded, reached=read | indices.reached)


def _among_slices(indices: Elements, op: TensorOp, rank: int) -> Elements:
    """Returns the elements of indices with the axes of the slices at them."""
    if isinstance(op, TakeAlongAxisOp | ScatterAddAlongAxisOp):
        return indices
    first = int_value(op.properties, "axis")
    others = [*range(first), *range(first + indices.value.ndim, rank)]
    return indices.map(lambda array: np.expand_dims(array, others))


def _scattered(op: TensorOp, operands: Sequence[Elements]) -> Elements:
    """Handles sums of updates at computed indices: each may go anywhere."""
    updates, indices = operands
    indices = _among_slices(indices, op, updates.value.ndim)
    touched = updates.padded | updates.reached | indices.padded | indices.reached
    return _reached_if(bool((touched & ~updates.are(0)).any()), op)


def _mixed(op: TensorOp, operands: Sequence[Elements]) -> Elements:
    """Handles all other ops: each element may depend on each one of the operands."""
    return _reached_if(any(bool((operand.padded | operand.reached).any()) for operand in operands), op)


def _reached_if(reached: bool, op: TensorOp) -> Elements:
    result = _unknown(op.results[0])
    return replace(result, reached=np.full_like(result.reached, reached))


_RULES: Mapping[type[Operation], Callable[[TensorOp, Sequence[Elements]], Elements]] = {
    SelectOp: _selected,
    DotGeneralOp: _multiplied,
    ConvOp: _multiplied,
    TakeOp: _taken,
    TakeAlongAxisOp: _taken,
    ScatterAddOp: _scattered,
    ScatterAddAlongAxisOp: _scattered,
}


def _called(op: Operation, operands: Sequence[Elements]) -> list[Elements]:
    assert isinstance(op, CallOp)
    return _run(op.body.block, operands)


def _branched(op: Operation, operands: Sequence[Elements]) -> list[Elements]:
    """Handles a conditional, whose results are those of either branch."""
    assert isinstance(op, CondOp)
    predicate, *inputs = operands
    results: list[Elements] = []
    for yes, no in zip(*(_run(block, inputs) for block in op.branches), strict=True):
        chosen = _selected(op, (_like(predicate, yes), yes, no))
        results.append(_named(op, (predicate, yes, no), chosen))
    return results


def _like(scalar: Elements, other: Elements) -> Elements:
    """Returns a scalar's elements with another tensor's rank; as it has no position, all that is padded reaches it."""
    scalar = replace(
        scalar, padded=np.zeros_like(scalar.padded), reached=scalar.reached | (scalar.padded & ~scalar.known)
    )
    return scalar.map(lambda array: array.reshape((1,) * other.value.ndim))


def _scanned(op: Operation, operands: Sequence[Elements]) -> list[Elements]:
    """Handles a loop, iteration by iteration, of which one with the same operands as the one before isn't run again.

    Iterations over padded slices are padded, and so is what they stack. What they carry on isn't: unless the body
    masks it, it depends on padding from there on.
    """
    assert isinstance(op, ScanOp)
    consts, rest = operands[: len(op.consts)], operands[len(op.consts) :]
    carry, sequences = list(rest[: op.carries]), rest[op.carries :]
    positions = range(op.count - 1, -1, -1) if op.reverse is not None else range(op.count)
    stacks: list[list[Elements]] = [[] for _ in op.results[op.carries :]]
    before: list[Elements] | None = None
    returned: list[Elements] = []
    for position in positions:
        slices = [_slice(sequence, position) for sequence in sequences]
        is_padded = any(part.is_padding for part in slices)
        slices = [_named(op, (replace(part, padded=np.zeros_like(part.padded)),), part) for part in slices]
        arguments = [*consts, *carry, *slices]
        if before is None or not all(map(_same, before, arguments)):
            returned = _run(op.body.block, arguments)
        before, carry = arguments, returned[: op.carries]
        for stack, elements in zip(stacks, returned[op.carries :], strict=True):
            stack.append(replace(elements, padded=elements.padded | is_padded))
    results = zip(stacks, op.results[op.carries :], strict=True)
    return [*carry, *(_stacked(stack[:: positions.step]) if stack else _unknown(result) for stack, result in results)]


def _slice(sequence: Elements, position: int) -> Elements:
    def read(array: Array) -> Array:
        return array[position if array.shape[0] > 1 else 0]

    return Elements.of(map(read, sequence.arrays), sequence.origins)


def _same(first: Elements, second: Elements) -> bool:
    pairs = zip(first.arrays, second.arrays, strict=True)
    return first.origins == second.origins and all(np.array_equal(x, y) for x, y in pairs)


def _stacked(stack: Sequence[Elements]) -> Elements:
    columns = [np.broadcast_arrays(*arrays) for arrays in zip(*(elements.arrays for elements in stack), strict=True)]
    padded, reached, known, unequal, value = map(np.stack, columns)
    through = frozenset[Operation]().union(*(elements.origins for elements in stack))
    return Elements.of((padded, reached & ~padded, known, unequal, value), through)


_REGIONS: Mapping[type[Operation], Callable[[Operation, Sequence[Elements]], list[Elements]]] = {
    CallOp: _called,
    CondOp: _branched,
    ScanOp: _scanned,
}
