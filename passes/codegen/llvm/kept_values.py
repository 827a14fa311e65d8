"""Keeps values that several stages of a kernel compute for the same elements of a row, instead of recomputing them.

Fusion repeats pointwise ops in every stage that reads them, since a local of a kernel holds one value per point, not a
row. Native code has memory for a row, which stays in cache: later stages load what is expensive to compute, such as the
exponentials of a softmax.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import memref
from xdsl.dialects.linalg.ops import GenericOp, IndexOp, YieldOp
from xdsl.ir import Attribute, Operation, SSAValue

from tensorgrad.dialects.buf import KernelOp, element_bytes, loop_extents, maps_of
from tensorgrad.dialects.tg.base import is_float
from tensorgrad.passes.analyses.axes import loops_of_operands, needed_for
from tensorgrad.passes.analyses.machine import NATIVE
from tensorgrad.passes.codegen.common.weights import weight_of

LEAST_WEIGHT = 12.0
"""Values that cost fewer additions are recomputed: keeping one takes a store, and a load in each stage."""


@dataclass
class Kept:
    """The values that the stages of a kernel keep for each other.

    Attributes:
        arrays: The dtype and length of each array.
        stored: For each stage, the values of its body that it stores, and the array of each.
        loaded: For each stage, the values that it loads instead of computing them, and the array of each.
    """

    arrays: list[tuple[Attribute, int]] = field(default_factory=list[tuple[Attribute, int]])
    stored: dict[GenericOp, dict[SSAValue, int]] = field(default_factory=dict[GenericOp, dict[SSAValue, int]])
    loaded: dict[GenericOp, dict[SSAValue, int]] = field(default_factory=dict[GenericOp, dict[SSAValue, int]])


def kept_values(kernel: KernelOp) -> Kept:
    """Returns what the stages of a kernel keep, over own loops that have the same extents in all that share."""
    kept, numbers = Kept(), _Numbers()
    first: dict[int, tuple[GenericOp, SSAValue]] = {}
    arrays: dict[int, int] = {}
    for stage in kernel.stages:
        own = loop_extents(stage)[len(kernel.extents) :]
        if not own:
            numbers.write(stage)
            continue
        value_numbers = numbers.of(stage, own)
        known = {value for value, number in value_numbers.items() if number in first}
        for value in _dear(stage, known, len(kernel.extents), math.prod(own)):
            number = value_numbers[value]
            source, original = first[number]
            if number not in arrays:
                arrays[number] = len(kept.arrays)
                kept.arrays.append((value.type, math.prod(own)))
                kept.stored.setdefault(source, {})[original] = arrays[number]
            kept.loaded.setdefault(stage, {})[value] = arrays[number]
        for value, number in value_numbers.items():
            first.setdefault(number, (stage, value))
        numbers.write(stage)
    return kept


class _Numbers:
    """Value numbering over bodies: values that are equal at equal iterations share a number, up to a write."""

    def __init__(self) -> None:
        self._known: dict[object, int] = {}
        self._writes = Counter[SSAValue]()

    def write(self, stage: GenericOp) -> None:
        """Records that a stage has written its outputs."""
        self._writes.update(stage.outputs)

    def _number(self, key: object) -> int:
        return self._known.setdefault(key, len(self._known))

    def of(self, stage: GenericOp, own: Sequence[int]) -> dict[SSAValue, int]:
        """Returns the numbers of a stage's operands, and of the values computed only from them."""
        args, results = stage.body.block.args, dict[SSAValue, int]()
        for argument, buffer, m in zip(args, stage.inputs, maps_of(stage), strict=False):
            results[argument] = self._number((tuple(own), buffer, self._writes[buffer], m))
        for op in stage.body.block.ops:
            if op.regions or isinstance(op, YieldOp | memref.LoadOp) or any(x not in results for x in op.operands):
                continue
            places = tuple(own) if isinstance(op, IndexOp) else ()
            properties = (*op.properties.items(), *op.attributes.items())
            key = (type(op), properties, places, tuple(results[x] for x in op.operands))
            for position, result in enumerate(op.results):
                results[result] = self._number((*key, position, result.type))
        return results


def _dear(stage: GenericOp, known: set[SSAValue], rank: int, extent: int) -> Iterator[SSAValue]:
    """Yields the known values that a stage should load: maximal, varying along the row, and expensive."""
    last, loops = stage.body.block.last_op, loops_of_operands(stage)
    assert last is not None
    waiting, seen = list(last.operands), set[SSAValue]()
    while waiting:
        value = waiting.pop()
        if value in seen or not isinstance(value.owner, Operation):
            continue
        seen.add(value)
        is_row = value in known and max(loops[value], default=0) >= rank and is_float(value.type)
        if is_row and extent * element_bytes(value.type) <= NATIVE.near_bytes and _weight(value) >= LEAST_WEIGHT:
            yield value
        else:
            waiting += [operand for op in value.owner.walk() for operand in op.operands]


def _weight(value: SSAValue) -> float:
    """Returns the approximate cost of computing a value, in additions."""
    return weight_of({other.owner for other in needed_for([value]) if isinstance(other.owner, Operation)})
