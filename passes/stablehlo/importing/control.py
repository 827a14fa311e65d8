"""Loops and branches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.traits import SymbolTable

from tensorgrad.dialects.stablehlo import control as hlo
from tensorgrad.dialects.tg.base import Tensor, numpy_dtype, tensor
from tensorgrad.dialects.tg.build import TensorBuilder, type_of
from tensorgrad.dialects.tg.call import CallOp, ReturnOp
from tensorgrad.dialects.tg.control import CondOp, ScanOp
from tensorgrad.passes.stablehlo.importing.loops import Loop, captured, loop_of
from tensorgrad.passes.stablehlo.importing.reader import Reader, Rule, Unsupported


def _while(reader: Reader, op: hlo.WhileOp) -> Sequence[SSAValue]:
    loop = loop_of(op)
    outside = captured(op)
    carried, read = loop.carried, list(loop.read)
    consts = [reader[value] for value in (*outside, *(op.operands[place] for place in loop.constants))]
    init = [reader[op.operands[place]] for place in carried]
    counter = type_of(reader[op.operands[loop.counter]])
    positions = np.arange(loop.length) * loop.step + loop.start
    counts = reader.builder.constant((positions[::-1] if loop.reverse else positions).astype(numpy_dtype(counter)))
    sequences = [reader[op.operands[place]] for place in read]
    body = _body(reader, loop, outside, [type_of(value) for value in (*consts, *init)], sequences, counter)
    if body.args[-1].uses.get_length():
        sequences.append(counts)
    else:
        body.erase_arg(body.args[-1])
    scan = ScanOp.of(consts, init, sequences, loop.length, loop.reverse, body)
    scan.location = reader.builder.location
    reader.builder.insert(scan)
    results: dict[int, SSAValue] = dict(zip((*carried, *loop.written), scan.results, strict=True))
    last = loop.start + loop.length * loop.step
    results[loop.counter] = reader.builder.full(counter, last)
    return [results[place] if place in results else reader[op.operands[place]] for place in range(len(op.operands))]


def _body(
    reader: Reader,
    loop: Loop,
    outside: Sequence[SSAValue],
    kinds: Sequence[Tensor],
    sequences: Sequence[SSAValue],
    counter: Tensor,
) -> Block:
    """Returns the body of the scan that a loop is."""
    elements = [tensor(type_of(x).get_shape()[1:], type_of(x).get_element_type()) for x in sequences]
    block, source = Block(arg_types=[*kinds, *elements, counter]), loop.op.body.block
    inner = reader.inside(block)
    places = (*loop.constants, *loop.carried)
    inner.values.update(zip((*outside, *(source.args[place] for place in places)), block.args, strict=False))
    inner.values[source.args[loop.counter]] = block.args[-1]
    for place, element in zip(loop.read, block.args[len(kinds) : -1], strict=True):
        whole = inner.builder.reshape(element, [1, *type_of(element).get_shape()])
        inner.values.update({op.results[0]: whole for op in loop.read[place]})
    skipped = {*(op for ops in loop.read.values() for op in ops), *loop.written.values()}
    for op in source.ops:
        if op is not source.last_op and op not in skipped:
            inner.convert(op)
    last = source.last_op
    assert last is not None
    results = [inner[last.operands[place]] for place in loop.carried]
    for op in loop.written.values():
        update = inner[op.operands[1]]
        results.append(inner.builder.reshape(update, type_of(update).get_shape()[1:]))
    _end(inner.builder, results)
    return block


def call(reader: Reader, op: hlo.CompositeOp) -> Sequence[SSAValue]:
    """Returns the results of a composite as a call of its name; its body is the decomposition."""
    function = SymbolTable.lookup_symbol(op, op.decomposition)
    assert isinstance(function, FuncOp)
    operands = reader.operands(op)
    block = Block(arg_types=[type_of(operand) for operand in operands])
    inner = reader.inside(block)
    inner.values.update(zip(function.body.block.args, block.args, strict=True))
    _end(inner.builder, inner.block(function.body.block))
    call = CallOp.of(op.callee.data, operands, block)
    call.location = reader.builder.location
    reader.builder.insert(call)
    return call.results


def _end(b: TensorBuilder, values: Sequence[SSAValue]) -> None:
    end = ReturnOp(values)
    end.location = b.location
    b.insert(end)


def _case(reader: Reader, op: hlo.CaseOp) -> Sequence[SSAValue]:
    index, regions = reader[op.operands[0]], list(op.branches)
    outside = captured(op)
    values = [index, *(reader[value] for value in outside)]
    return _chosen(reader, outside, values, regions, 0)


def _chosen(
    reader: Reader, outside: Sequence[SSAValue], values: Sequence[SSAValue], regions: Sequence[Region], number: int
) -> Sequence[SSAValue]:
    """Returns the results of the region of a number, or of the last; the first of `values` is the number."""
    if len(regions) == 1:
        inner = _known(reader, outside, values[1:])
        return inner.block(regions[0].block)
    b = reader.builder
    then, otherwise = (Block(arg_types=[value.type for value in values]) for _ in range(2))
    first = _known(reader.inside(then), outside, then.args[1:])
    _end(first.builder, first.block(regions[0].block))
    rest = reader.inside(otherwise)
    _end(rest.builder, _chosen(rest, outside, list(otherwise.args), regions[1:], number + 1))
    chosen = b.compare("eq", values[0], b.full_like(values[0], number))
    return _branched(b, CondOp.of(chosen, values, then, otherwise))


def _known(reader: Reader, outside: Sequence[SSAValue], values: Sequence[SSAValue]) -> Reader:
    """Returns a reader that knows the values from outside."""
    reader.values.update(zip(outside, values, strict=True))
    return reader


def _branched(b: TensorBuilder, cond: CondOp) -> Sequence[SSAValue]:
    cond.location = b.location
    b.insert(cond)
    return list(cond.results)


def _if(reader: Reader, op: hlo.IfOp) -> Sequence[SSAValue]:
    outside = captured(op)
    values = [reader[value] for value in outside]
    blocks = [Block(arg_types=[value.type for value in values]) for _ in range(2)]
    for block, region in zip(blocks, (op.true_branch, op.false_branch), strict=True):
        inner = _known(reader.inside(block), outside, block.args)
        _end(inner.builder, inner.block(region.block))
    return _branched(reader.builder, CondOp.of(reader[op.operands[0]], values, *blocks))


def _custom_call(reader: Reader, op: hlo.CustomCallOp) -> Sequence[SSAValue]:
    """The calls that only say how values are divided among devices are their operands."""
    if op.call_target_name.data not in ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"):
        raise Unsupported("it is a function of another program's runtime")
    return reader.operands(op)


RULES: dict[str, Rule] = {
    "stablehlo.while": _while,
    "stablehlo.case": _case,
    "stablehlo.if": _if,
    "stablehlo.custom_call": _custom_call,
}
