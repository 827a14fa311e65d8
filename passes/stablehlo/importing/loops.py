"""What a `stablehlo.while` of a known number of iterations does: its counter, what it reads and writes by it.

JAX writes `lax.scan` as such a loop: a counter from 0 on, sequences that never change and of which the element at the
counter is read, and stacks whose element at the counter is written. With `reverse`, elements are counted from the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from tensorgrad.dialects.stablehlo.base import HloOp, ints_of
from tensorgrad.dialects.stablehlo.control import WhileOp
from tensorgrad.dialects.stablehlo.elementwise import CompareOp
from tensorgrad.dialects.stablehlo.shape import ConstantOp, DynamicSliceOp, DynamicUpdateSliceOp
from tensorgrad.passes.stablehlo.importing.reader import Unsupported, scalar_constant

ADD, SUBTRACT = "stablehlo.add", "stablehlo.subtract"

UNCOUNTED = (
    "its number of iterations is not known: it must compare a counter, which grows by a constant, with a constant"
)
SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "ne": "ne"}


@dataclass(frozen=True)
class Loop:
    """A loop of a known number of iterations.

    Attributes:
        op: The loop.
        counter: The place of the counter among the carried values.
        start: The counter's first value.
        step: What it grows by.
        length: The number of iterations.
        constants: The places of the values that never change.
        read: For each place of a sequence, the ops that read its element at the counter.
        written: For each place of a stack, the op that writes its element at the counter.
        reverse: Whether elements are counted from the end.
    """

    op: WhileOp
    counter: int
    start: int
    step: int
    length: int
    constants: Sequence[int]
    read: dict[int, list[DynamicSliceOp]] = field(default_factory=dict[int, list[DynamicSliceOp]])
    written: dict[int, DynamicUpdateSliceOp] = field(default_factory=dict[int, DynamicUpdateSliceOp])
    reverse: bool = False

    @property
    def carried(self) -> list[int]:
        """The places of the values that change from one iteration to the next."""
        known = {self.counter, *self.constants, *self.read, *self.written}
        return [place for place in range(len(self.op.operands)) if place not in known]


def loop_of(op: WhileOp) -> Loop:
    """Returns what a loop does.

    Raises:
        Unsupported: The number of its iterations is not known.
    """
    *others, last = op.cond.block.ops
    compare = last.operands[0].owner
    if not isinstance(compare, CompareOp) or any(not isinstance(other, ConstantOp | CompareOp) for other in others):
        raise Unsupported(UNCOUNTED)
    (lhs, rhs), direction = compare.operands, compare.direction
    if not isinstance(lhs, BlockArgument) and direction in SWAPPED:
        lhs, rhs, direction = rhs, lhs, SWAPPED[direction]
    limit = scalar_constant(rhs)
    if not isinstance(lhs, BlockArgument) or lhs.block is not op.cond.block or not isinstance(limit, int):
        raise Unsupported(UNCOUNTED)
    body, counter = op.body.block, lhs.index
    start, step = scalar_constant(op.operands[counter]), _step(body, counter)
    if not isinstance(start, int) or not step:
        raise Unsupported(UNCOUNTED)
    values = _counted(start, step, limit, direction)
    results = _results(body)
    constants = [place for place, value in enumerate(results) if value is body.args[place]]
    if step == 1 and start == 0:
        for reverse in (False, True):
            loop = _scanned(op, counter, len(values), constants, reverse)
            if loop.read or loop.written:
                return loop
    return Loop(op, counter, start, step, len(values), constants)


def _results(body: Block) -> Sequence[SSAValue]:
    last = body.last_op
    return () if last is None else last.operands


def _counted(start: int, step: int, limit: int, direction: str) -> range:
    """Returns the values that a counter has.

    Raises:
        Unsupported: It never ends.
    """
    if direction == "ne":
        direction = "lt" if step > 0 else "gt"
        if (limit - start) % step:
            raise Unsupported(UNCOUNTED)
    if (direction in ("lt", "le")) != (step > 0):
        raise Unsupported(UNCOUNTED)
    return range(start, limit + {"le": 1, "ge": -1}.get(direction, 0), step)


def _step(body: Block, place: int) -> int | None:
    """Returns the constant by which a carried value grows; `None` if it doesn't."""
    op = _results(body)[place].owner
    if not isinstance(op, Operation) or op.name not in (ADD, SUBTRACT):
        return None
    lhs, rhs = op.operands
    if lhs is not body.args[place]:
        lhs, rhs = (rhs, lhs) if op.name == ADD else (lhs, rhs)
    by = scalar_constant(rhs)
    if lhs is not body.args[place] or not isinstance(by, int):
        return None
    return by if op.name == ADD else -by


def _scanned(op: WhileOp, counter: int, length: int, constants: Sequence[int], reverse: bool) -> Loop:
    """Returns the loop with what it reads and writes at the counter, from the start on or, with `reverse`, the end."""
    body = op.body.block
    read: dict[int, list[DynamicSliceOp]] = {}
    for place in constants:
        uses = [use.operation for use in body.args[place].uses if use.operation is not body.last_op]
        slices = [user for user in uses if isinstance(user, DynamicSliceOp) and user.operands[0] is body.args[place]]
        at_counter = (
            _is_element(user, ints_of(user.slice_sizes), body.args[counter], length, reverse) for user in slices
        )
        if slices and len(slices) == len(uses) and all(at_counter):
            read[place] = slices
    written: dict[int, DynamicUpdateSliceOp] = {}
    for place, value in enumerate(_results(body)):
        update = value.owner
        if isinstance(update, DynamicUpdateSliceOp) and update.operands[0] is body.args[place]:
            once = body.args[place].has_one_use() and value.has_one_use()
            sizes = _shape(update.operands[1])
            if once and _is_element(update, sizes, body.args[counter], length, reverse):
                written[place] = update
    kept = [place for place in constants if place not in read]
    return Loop(op, counter, 0, 1, length, kept, read, written, reverse)


def _shape(value: SSAValue) -> tuple[int, ...]:
    return cast("TensorType[Attribute]", value.type).get_shape()


def _is_element(op: HloOp, sizes: Sequence[int], counter: SSAValue, length: int, reverse: bool) -> bool:
    """Returns whether a box is the element along axis 0 at the counter, of a tensor with one for each iteration."""
    starts = op.operands[-len(sizes) :]
    shape = _shape(op.operands[0])
    if not sizes or sizes[0] != 1 or shape[0] != length or tuple(sizes[1:]) != shape[1:]:
        return False
    return _is_from_end(starts[0], counter, length) if reverse else starts[0] is counter


def _is_from_end(value: SSAValue, counter: SSAValue, length: int) -> bool:
    """Returns whether a value is `length - 1 - counter`, in any order of subtractions."""
    total, sign = 0, 1
    while isinstance(op := value.owner, Operation) and op.name == SUBTRACT:
        lhs, rhs = op.operands
        left, right = scalar_constant(lhs), scalar_constant(rhs)
        if isinstance(right, int):
            total, value = total - sign * right, lhs
        elif isinstance(left, int):
            total, value, sign = total + sign * left, rhs, -sign
        else:
            return False
    return value is counter and sign == -1 and total == length - 1


def captured(op: Operation) -> list[SSAValue]:
    """Returns the values from outside that an op's regions use, but constants, which every region has its own of."""
    outside: dict[SSAValue, None] = {}
    for inner in op.walk():
        for operand in inner.operands if inner is not op else ():
            owner = operand.owner
            within = owner.parent_op() if isinstance(owner, Block) else owner
            while within is not None and within is not op:
                within = within.parent_op()
            local = within is op and owner is not op
            if not local and not isinstance(owner, ConstantOp):
                outside[operand] = None
    return list(outside)
