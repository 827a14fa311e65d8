"""Calls, loops and branches. Regions of StableHLO use the values around them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i32
from xdsl.ir import Block, Operation, Region, SSAValue

from tensorgrad.dialects.stablehlo.base import int_array
from tensorgrad.dialects.tg.base import tensor
from tensorgrad.dialects.tg.build import element_of, shape_of, type_of
from tensorgrad.dialects.tg.call import CallOp
from tensorgrad.dialects.tg.control import CondOp, ScanOp
from tensorgrad.passes.stablehlo.exporting.writer import Rule, Writer


def _call(writer: Writer, op: CallOp) -> Sequence[SSAValue]:
    return writer.block(op.body.block, writer.operands(op))


def _cond(writer: Writer, op: CondOp) -> Sequence[SSAValue]:
    predicate, *inputs = writer.operands(op)
    regions: list[Region] = []
    for branch in op.branches:
        block = Block()
        inner = writer.inside(block)
        inner.finish(inner.block(branch, inputs))
        regions.append(Region(block))
    return writer.emit("stablehlo.if", [predicate], list(op.result_types), regions)


def _scan(writer: Writer, op: ScanOp) -> Sequence[SSAValue]:
    consts, xs = ([writer[value] for value in group] for group in (op.consts, op.xs))
    stacks = [writer.full(type_of(result), 0) for result in op.results[op.carries :]]
    carried = [writer.full(tensor([], i32), 0), *(writer[value] for value in op.init), *stacks]
    kinds = [value.type for value in carried]
    condition, body = Block(arg_types=kinds), Block(arg_types=kinds)
    test = writer.inside(condition)
    test.finish([test.compare("lt", condition.args[0], op.count)])
    inner = writer.inside(body)
    counter, *rest = body.args
    place = counter if op.reverse is None else inner.binary("subtract", inner.full_like(counter, op.count - 1), counter)
    elements = [_element(inner, x, place) for x in xs]
    results = inner.block(op.body.block, [*consts, *rest[: op.carries], *elements])
    written = [
        _written(inner, stack, value, place)
        for stack, value in zip(rest[op.carries :], results[op.carries :], strict=True)
    ]
    inner.finish([inner.binary("add", counter, 1), *results[: op.carries], *written])
    return writer.emit("stablehlo.while", carried, kinds, [Region(condition), Region(body)])[1:]


def _starts(writer: Writer, x: SSAValue, place: SSAValue) -> list[SSAValue]:
    zero = writer.full_like(place, 0)
    return [place, *(zero for _ in shape_of(x)[1:])]


def _element(writer: Writer, x: SSAValue, place: SSAValue) -> SSAValue:
    """Returns the element of a sequence at a place."""
    sizes = (1, *shape_of(x)[1:])
    box = writer.one(
        "stablehlo.dynamic_slice",
        [x, *_starts(writer, x, place)],
        tensor(sizes, element_of(x)),
        slice_sizes=int_array(sizes),
    )
    return writer.reshape(box, sizes[1:])


def _written(writer: Writer, stack: SSAValue, value: SSAValue, place: SSAValue) -> SSAValue:
    """Returns a stack with a value at a place."""
    update = writer.reshape(value, [1, *shape_of(value)])
    return writer.one("stablehlo.dynamic_update_slice", [stack, update, *_starts(writer, stack, place)])


RULES: dict[type[Operation], Rule] = {CallOp: _call, CondOp: _cond, ScanOp: _scan}
