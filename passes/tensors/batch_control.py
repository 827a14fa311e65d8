"""Batching rules of loops and branches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import Rewriter

from tensorgrad.dialects.tg.base import tensor
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.dialects.tg.call import returned
from tensorgrad.dialects.tg.control import CondOp, ScanOp, set_returned
from tensorgrad.passes.tensors.moving import copied

Batch: TypeAlias = Callable[[Block, dict[SSAValue, SSAValue], int, TensorBuilder], None]
"""`batch._batch`: batches the ops of a block that depend on known values, and adds their results to these."""


def everywhere(builder: TensorBuilder, value: SSAValue, count: int) -> SSAValue:
    """Returns a value broadcast along a new leading axis."""
    old = shape_of(value)
    return builder.broadcast(value, (count, *old), range(1, len(old) + 1))


def batch_scan(op: ScanOp, known: dict[SSAValue, SSAValue], count: int, builder: TensorBuilder, batch: Batch) -> None:
    """Batches a scan: in sequences and stacks the batch axis comes after the axis of positions.

    A carried value has the batch axis if it has it initially, or if it depends on a value that has it.
    """
    first, carries = len(op.consts), op.carries
    has = [operand in known for operand in op.operands]
    while True:
        body = copied(op.body)
        inside, values = _batched(body, has, count, batch)
        grown = [i for i in range(carries) if values[i] in inside and not has[first + i]]
        if not grown:
            break
        for i in grown:
            has[first + i] = True
    tail = TensorBuilder(body, before=body.last_op, location=op.location)
    results: list[SSAValue] = []
    moved: list[bool] = []
    for i, value in enumerate(values):
        moved.append(value in inside or (i < carries and has[first + i]))
        new = inside.get(value, value)
        results.append(everywhere(tail, value, count) if moved[-1] and value not in inside else new)
    set_returned(body, results)
    _erase_replaced(body, inside)
    operands = [_operand(builder, op, known, position, is_batched, count) for position, is_batched in enumerate(has)]
    new_op = ScanOp.of(*op.split(operands), op.count, op.reverse is not None, body)
    new_op.location = op.location
    builder.insert(new_op)
    for i, (old, new) in enumerate(zip(op.results, new_op.results, strict=True)):
        value = new if i < carries or not moved[i] else _swapped(builder, new)
        known[old] = value if moved[i] else everywhere(builder, value, count)


def _operand(
    builder: TensorBuilder, op: ScanOp, known: dict[SSAValue, SSAValue], position: int, has: bool, count: int
) -> SSAValue:
    operand = op.operands[position]
    if not has:
        return operand
    value = known[operand] if operand in known else everywhere(builder, operand, count)
    return _swapped(builder, value) if position >= len(op.consts) + op.carries else value


def _swapped(builder: TensorBuilder, value: SSAValue) -> SSAValue:
    """Returns a value with its two leading axes swapped."""
    return builder.transpose(value, [1, 0, *range(2, len(shape_of(value)))])


def _batched(
    body: Block, has: Sequence[bool], count: int, batch: Batch
) -> tuple[dict[SSAValue, SSAValue], Sequence[SSAValue]]:
    """Batches a region's block in place for arguments with the batch axis; returns the batched values and the results.

    The original arguments and ops remain, without relevant uses, until `_erase_replaced`.
    """
    known: dict[SSAValue, SSAValue] = {}
    for argument, is_batched in zip(list(body.args), has, strict=True):
        if is_batched:
            kind = tensor((count, *shape_of(argument)), element_of(argument))
            known[argument] = body.insert_arg(kind, len(body.args))
    values = returned(body)
    last = body.last_op
    assert last is not None
    batch(body, known, count, TensorBuilder(body, before=last, location=last.location))
    return known, values


def _erase_replaced(body: Block, known: dict[SSAValue, SSAValue]) -> None:
    """Erases the ops and arguments that were replaced with batched ones; the arguments keep their order."""
    for op in reversed(list(body.ops)):
        if op.results and any(result in known for result in op.results):
            Rewriter.erase_op(op)
    old = list(body.args)
    remaining = [argument for argument in old if argument not in known.values()]
    for argument in remaining:
        source = known.get(argument, argument)
        new = body.insert_arg(source.type, len(body.args), argument.location)
        source.replace_all_uses_with(new)
    for argument in old:
        body.erase_arg(argument)


def batch_cond(op: CondOp, known: dict[SSAValue, SSAValue], count: int, builder: TensorBuilder, batch: Batch) -> None:
    """Batches a cond: if the predicate has the batch axis, both branches run and a select chooses per position."""
    if op.predicate in known:
        _select(op, known, count, builder, batch)
        return
    has = [operand in known for operand in op.inputs]
    blocks: list[Block] = []
    for region in (op.then, op.otherwise):
        body = copied(region)
        inside, values = _batched(body, has, count, batch)
        tail = TensorBuilder(body, before=body.last_op, location=op.location)
        set_returned(body, [inside[v] if v in inside else everywhere(tail, v, count) for v in values])
        _erase_replaced(body, inside)
        blocks.append(body)
    batched = CondOp.of(op.predicate, [known.get(operand, operand) for operand in op.inputs], *blocks)
    batched.location = op.location
    builder.insert(batched)
    known.update(zip(op.results, batched.results, strict=True))


def _select(op: CondOp, known: dict[SSAValue, SSAValue], count: int, builder: TensorBuilder, batch: Batch) -> None:
    condition = known[op.predicate]
    sides = [_branch(region, op, known, count, builder, batch) for region in (op.then, op.otherwise)]
    for result, on_true, on_false in zip(op.results, *sides, strict=True):
        chosen = builder.broadcast(condition, shape_of(on_true), [0])
        known[result] = builder.select(chosen, on_true, on_false)


def _branch(
    region: Region, op: CondOp, known: dict[SSAValue, SSAValue], count: int, builder: TensorBuilder, batch: Batch
) -> list[SSAValue]:
    """Returns a branch's results with the batch axis, computed at the builder's insertion point."""
    block = copied(region)
    values = list(returned(block))
    inside: dict[SSAValue, SSAValue] = {}
    for argument, operand in zip(block.args, op.inputs, strict=True):
        if operand in known:
            inside[argument] = known[operand]
            continue
        argument.replace_all_uses_with(operand)
        values = [operand if value is argument else value for value in values]
    hoist_independent(block, inside, builder)
    batch(block, inside, count, builder)
    results = [inside[value] if value in inside else everywhere(builder, value, count) for value in values]
    erase_ops(block)
    return results


def hoist_independent(block: Block, known: Collection[SSAValue], builder: TensorBuilder) -> None:
    """Moves the ops of a block that depend on none of some values to the builder's insertion point."""
    dependent = set(known)
    for op in [op for op in block.ops if op.results]:
        if any(operand in dependent for operand in op.operands):
            dependent.update(op.results)
        else:
            op.detach()
            builder.insert(op)


def erase_ops(block: Block) -> None:
    """Erases all ops of a block, whose results have no other uses."""
    for op in reversed(list(block.ops)):
        block.erase_op(op)
