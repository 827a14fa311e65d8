"""Values that several stages of a kernel compute for the same elements of a row: computed once, and kept.

Fusing repeats pointwise work in every stage that reads it, since a local of a kernel holds one value a point, no row.
Native code has memory for a row, which stays in the cache: what is dear to compute, as the exponentials of a softmax,
later stages load.
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
from tensorgrad.passes.kernels.weights import weight_of

LEAST_WEIGHT = 12.0
"""What takes as long as fewer additions is computed again: keeping it takes a store and a load for each stage."""


@dataclass
class Kept:
    """What the stages of a kernel keep for each other.

    Attributes:
        arrays: The dtype and the length of each array.
        stored: For a stage, the values of its body that it stores, and the array of each.
        loaded: For a stage, the values that it loads instead of computing them, and the array of each.
    """

    arrays: list[tuple[Attribute, int]] = field(default_factory=list[tuple[Attribute, int]])
    stored: dict[GenericOp, dict[SSAValue, int]] = field(default_factory=dict[GenericOp, dict[SSAValue, int]])
    loaded: dict[GenericOp, dict[SSAValue, int]] = field(default_factory=dict[GenericOp, dict[SSAValue, int]])


def kept_values(kernel: KernelOp) -> Kept:
    """Returns what the stages of a kernel keep: of their own loops, which have the same extents in all that share."""
    kept, numbers = Kept(), _Numbers()
    first: dict[int, tuple[GenericOp, SSAValue]] = {}
    arrays: dict[int, int] = {}
    for stage in kernel.stages:
        own = loop_extents(stage)[len(kernel.extents) :]
        if not own:
            numbers.write(stage)
            continue
        found = numbers.of(stage, own)
        known = {value for value, number in found.items() if number in first}
        for value in _dear(stage, known, len(kernel.extents), math.prod(own)):
            number = found[value]
            source, original = first[number]
            if number not in arrays:
                arrays[number] = len(kept.arrays)
                kept.arrays.append((value.type, math.prod(own)))
                kept.stored.setdefault(source, {})[original] = arrays[number]
            kept.loaded.setdefault(stage, {})[value] = arrays[number]
        for value, number in found.items():
            first.setdefault(number, (stage, value))
        numbers.write(stage)
    return kept


class _Numbers:
    """Numbers values of bodies: equal ones, at equal iterations, have the same, unless a stage wrote in between."""

    def __init__(self) -> None:
        self._known: dict[object, int] = {}
        self._writes = Counter[SSAValue]()

    def write(self, stage: GenericOp) -> None:
        """Says that a stage has written its outputs."""
        self._writes.update(stage.outputs)

    def _number(self, key: object) -> int:
        return self._known.setdefault(key, len(self._known))

    def of(self, stage: GenericOp, own: Sequence[int]) -> dict[SSAValue, int]:
        """Returns the numbers of a stage's operands, and of the values that are computed from them alone."""
        args, found = stage.body.block.args, dict[SSAValue, int]()
        for argument, buffer, m in zip(args, stage.inputs, maps_of(stage), strict=False):
            found[argument] = self._number((tuple(own), buffer, self._writes[buffer], m))
        for op in stage.body.block.ops:
            if op.regions or isinstance(op, YieldOp | memref.LoadOp) or any(x not in found for x in op.operands):
                continue
            places = tuple(own) if isinstance(op, IndexOp) else ()
            properties = (*op.properties.items(), *op.attributes.items())
            key = (type(op), properties, places, tuple(found[x] for x in op.operands))
            for position, result in enumerate(op.results):
                found[result] = self._number((*key, position, result.type))
        return found


def _dear(stage: GenericOp, known: set[SSAValue], rank: int, extent: int) -> Iterator[SSAValue]:
    """Yields the known values that a stage should load: no part of another one, different along the row, and dear."""
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
    """Returns about how many additions computing a value takes."""
    return weight_of({one.owner for one in needed_for([value]) if isinstance(one.owner, Operation)})
