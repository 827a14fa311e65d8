"""Interprets a traced function on what is known of its elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tensorgrad.checks.padding.facts import Array, ElementFacts, unknown
from tensorgrad.checks.padding.rules import REAL, selected, settled, single
from tensorgrad.dialects.tg.call import CallOp
from tensorgrad.dialects.tg.control import CondOp, ScanOp


def interpreted(function: FuncOp, inputs: Mapping[int, ElementFacts], real: Mapping[int, int]) -> list[ElementFacts]:
    """Returns what is known of the elements of a function's results.

    Args:
        function: A traced function.
        inputs: What is known of padded inputs, by the position of the argument.
        real: The number of positions that aren't padded, by the number of positions.
    """
    block = function.body.block
    token = REAL.set(real)
    try:
        return _run(block, [inputs.get(place) or unknown(value) for place, value in enumerate(block.args)])
    finally:
        REAL.reset(token)


def _run(block: Block, arguments: Sequence[ElementFacts]) -> list[ElementFacts]:
    """Interprets a block, and returns what it returns."""
    values: dict[SSAValue, ElementFacts] = dict(zip(block.args, arguments, strict=True))
    last = {operand: op for op in block.ops for operand in op.operands}
    for op in block.ops:
        operands = [values[operand] for operand in op.operands]
        if op is block.last_op:
            return operands
        with np.errstate(all="ignore"):
            results = _REGIONS[type(op)](op, operands) if type(op) in _REGIONS else [single(op, operands)]
        values.update(zip(op.results, results, strict=True))
        for operand in {*op.operands}:
            if last[operand] is op:
                del values[operand]
    return []


def _called(op: Operation, operands: Sequence[ElementFacts]) -> list[ElementFacts]:
    assert isinstance(op, CallOp)
    return _run(op.body.block, operands)


def _branched(op: Operation, operands: Sequence[ElementFacts]) -> list[ElementFacts]:
    """Handles a conditional, whose results are those of either branch."""
    assert isinstance(op, CondOp)
    predicate, *inputs = operands
    results: list[ElementFacts] = []
    for yes, no in zip(*(_run(block, inputs) for block in op.branches), strict=True):
        chosen = selected(op, (_like(predicate, yes), yes, no))
        results.append(settled(op, (predicate, yes, no), chosen))
    return results


def _like(scalar: ElementFacts, other: ElementFacts) -> ElementFacts:
    """Returns a scalar's elements with another tensor's rank; as it has no position, all that is padded reaches it."""
    scalar = replace(
        scalar, padded=np.zeros_like(scalar.padded), reached=scalar.reached | (scalar.padded & ~scalar.known)
    )
    return scalar.map(lambda array: array.reshape((1,) * other.value.ndim))


def _scanned(op: Operation, operands: Sequence[ElementFacts]) -> list[ElementFacts]:
    """Handles a loop, iteration by iteration, of which one with the same operands as the one before isn't run again.

    Iterations over padded slices are padded, and so is what they stack. What they carry on isn't: unless the body
    masks it, it depends on padding from there on.
    """
    assert isinstance(op, ScanOp)
    consts, init, sequences = op.split(operands)
    carry = list(init)
    positions = range(op.count - 1, -1, -1) if op.reverse is not None else range(op.count)
    stacks: list[list[ElementFacts]] = [[] for _ in op.results[op.carries :]]
    before: list[ElementFacts] | None = None
    returned: list[ElementFacts] = []
    for position in positions:
        slices = [_slice(sequence, position) for sequence in sequences]
        is_padded = any(part.is_padding for part in slices)
        slices = [settled(op, (replace(part, padded=np.zeros_like(part.padded)),), part) for part in slices]
        arguments = [*consts, *carry, *slices]
        if before is None or not all(map(_same, before, arguments)):
            returned = _run(op.body.block, arguments)
        before, carry = arguments, returned[: op.carries]
        for stack, elements in zip(stacks, returned[op.carries :], strict=True):
            stack.append(replace(elements, padded=elements.padded | is_padded))
    results = zip(stacks, op.results[op.carries :], strict=True)
    return [*carry, *(_stacked(stack[:: positions.step]) if stack else unknown(result) for stack, result in results)]


def _slice(sequence: ElementFacts, position: int) -> ElementFacts:
    def read(array: Array) -> Array:
        return array[position if array.shape[0] > 1 else 0]

    return ElementFacts.of(map(read, sequence.arrays), sequence.origins)


def _same(first: ElementFacts, second: ElementFacts) -> bool:
    pairs = zip(first.arrays, second.arrays, strict=True)
    return first.origins == second.origins and all(np.array_equal(x, y) for x, y in pairs)


def _stacked(stack: Sequence[ElementFacts]) -> ElementFacts:
    columns = [np.broadcast_arrays(*arrays) for arrays in zip(*(elements.arrays for elements in stack), strict=True)]
    padded, reached, known, unequal, value = map(np.stack, columns)
    through = frozenset[Operation]().union(*(elements.origins for elements in stack))
    return ElementFacts.of((padded, reached & ~padded, known, unequal, value), through)


_REGIONS: Mapping[type[Operation], Callable[[Operation, Sequence[ElementFacts]], list[ElementFacts]]] = {
    CallOp: _called,
    CondOp: _branched,
    ScanOp: _scanned,
}
