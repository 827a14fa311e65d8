"""Simplifies `tg.scan` and `tg.cond`: drops unused values, and hoists loop invariants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import Rewriter

from tensorgrad.dialects.tg.base import TensorOp, constant_value
from tensorgrad.dialects.tg.build import TensorBuilder
from tensorgrad.dialects.tg.call import ReturnOp, returned
from tensorgrad.dialects.tg.control import CondOp, ScanOp
from tensorgrad.dialects.tg.leaves import ConstantOp
from tensorgrad.dialects.tg.traits import is_rearrangement
from tensorgrad.passes.tensors.moving import moved


def prune(op: Operation, is_needed: Callable[[SSAValue], bool]) -> None:
    """Drops unused results of a scan or cond, and everything that only they need; other ops are unchanged.

    The remaining results are the same values as before.
    """
    if isinstance(op, ScanOp):
        _prune_scan(op, is_needed)
    elif isinstance(op, CondOp):
        needed = [position for position, result in enumerate(op.results) if is_needed(result)]
        if len(needed) != len(op.results):
            op.keep_results(needed)
        for block in op.branches:
            erase_unused(block)
        _drop_inputs(op)


def erase_unneeded(block: Block, values: Sequence[SSAValue]) -> None:
    """Erases the ops of a block without a terminator that none of `values` needs."""
    needed: set[SSAValue] = set(values)
    for op in reversed(list(block.ops)):
        if any(result in needed for result in op.results):
            prune(op, lambda result: result in needed)
            needed.update(op.operands)
        else:
            Rewriter.erase_op(op)


def erase_unused(block: Block) -> None:
    """Erases everything that the block's return doesn't need, also inside scans and conds."""
    for op in reversed(list(block.ops)):
        if isinstance(op, ReturnOp):
            continue
        if any(result.uses for result in op.results):
            prune(op, lambda result: bool(result.uses))
        else:
            Rewriter.erase_op(op)


def _prune_scan(op: ScanOp, is_needed: Callable[[SSAValue], bool]) -> None:
    carries = op.arguments[1]
    live, _ = _live(op, is_needed)
    if len(live) != len(op.results):
        dropped = [position for position in range(len(carries)) if position not in live]
        consts, init, xs = list(op.consts), list(op.init), list(op.xs)
        op.keep_results(sorted(live))
        erase_unused(op.body.block)
        for position in dropped:
            op.body.block.erase_arg(carries[position])
        op.set_operands(consts, [value for position, value in enumerate(init) if position not in dropped], xs)
    else:
        erase_unused(op.body.block)
    _drop_arguments(op, lambda argument: not argument.uses)


def _live(op: ScanOp, is_needed: Callable[[SSAValue], bool]) -> tuple[set[int], set[SSAValue]]:
    """Returns the results of a scan that must be computed for the needed ones, and their backward slice in the body.

    A carried value is required if a later iteration needs a value that depends on it.
    """
    values, carries = returned(op.body.block), op.arguments[1]
    live = {position for position, result in enumerate(op.results) if is_needed(result)}
    while True:
        reached = _reached(op.body.block, [values[position] for position in live])
        added = {position for position, carry in enumerate(carries) if carry in reached} - live
        if not added:
            return live, reached
        live |= added


def _reached(block: Block, values: Iterable[SSAValue]) -> set[SSAValue]:
    """Returns the values of a block that are in the backward slice of some values, these included."""
    results = set(values)
    for op in reversed(list(block.ops)):
        if any(result in results for result in op.results):
            results.update(_needed_operands(op, results))
    return results


def _needed_operands(op: Operation, needed: set[SSAValue]) -> list[SSAValue]:
    """Returns the operands of an op that its needed results depend on."""
    if isinstance(op, ScanOp):
        live, reached = _live(op, lambda result: result in needed)
        first = len(op.consts)
        return [
            operand
            for position, (operand, argument) in enumerate(zip(op.operands, op.body.block.args, strict=True))
            if argument in reached or (position - first in live and first <= position < first + op.carries)
        ]
    if isinstance(op, CondOp):
        inside = set[SSAValue]()
        for block in op.branches:
            values = zip(returned(block), op.results, strict=True)
            inside |= _reached(block, [value for value, result in values if result in needed])
        pairs = zip(op.inputs, *(block.args for block in op.branches), strict=True)
        return [op.predicate, *(operand for operand, a, b in pairs if a in inside or b in inside)]
    return list(op.operands)


def _drop_arguments(op: ScanOp, dropped: Callable[[BlockArgument], bool]) -> None:
    """Drops constants and sequences, with the corresponding arguments of the body, which must be unused."""
    inside, _, slices = op.arguments
    consts = [(value, argument) for value, argument in zip(op.consts, inside, strict=True)]
    xs = [(value, argument) for value, argument in zip(op.xs, slices, strict=True)]
    gone = [argument for _, argument in (*consts, *xs) if dropped(argument)]
    if not gone:
        return
    init = list(op.init)
    op.set_operands([v for v, a in consts if a not in gone], init, [v for v, a in xs if a not in gone])
    for argument in gone:
        op.body.block.erase_arg(argument)


def _drop_inputs(op: CondOp) -> None:
    then, otherwise = op.branches
    unused = [
        position
        for position, (a, b) in enumerate(zip(then.args, otherwise.args, strict=True))
        if not a.uses and not b.uses
    ]
    if not unused:
        return
    op.operands = [op.predicate, *(value for position, value in enumerate(op.inputs) if position not in unused)]
    for block in (then, otherwise):
        for position in reversed(unused):
            block.erase_arg(block.args[position])


def enter(op: Operation) -> None:
    """Merges equal operands of a scan or cond, and copies constants into it, where they fold."""
    if isinstance(op, ScanOp):
        _sink_views(op)
        _share(op)
        _sink_constants(op.arguments[0], op.consts)
    elif isinstance(op, CondOp):
        for block in op.branches:
            _sink_constants(block.args, op.inputs)


def leave(op: Operation) -> list[Operation]:
    """Simplifies a scan or cond whose regions have been simplified.

    A carried value that never changes becomes a constant; loop-invariant ops are hoisted; a cond whose predicate is
    known is replaced with one of its branches; unused operands are dropped.

    Returns:
        New ops before `op`, or in its place.
    """
    if isinstance(op, ScanOp):
        _settle_carries(op)
        results = _hoist(op)
        _drop_arguments(op, lambda argument: not argument.uses)
        return results
    if isinstance(op, CondOp):
        if constant_value(op.predicate) is not None:
            return _decide(op)
        _drop_inputs(op)
    return []


def _settle_carries(op: ScanOp) -> None:
    """Turns carried values that the body returns unchanged into constants."""
    values, (_, carries, _) = returned(op.body.block), op.arguments
    fixed = [position for position, carry in enumerate(carries) if values[position] is carry]
    if not fixed:
        return
    block, init = op.body.block, list(op.init)
    for position in fixed:
        op.results[position].replace_all_uses_with(init[position])
        constant = block.insert_arg(carries[position].type, len(op.consts))
        carries[position].replace_all_uses_with(constant)
        op.set_operands([*op.consts, init[position]], init, list(op.xs))
    op.keep_results([position for position in range(len(op.results)) if position not in fixed])
    for position in fixed:
        block.erase_arg(carries[position])
    varying = [value for position, value in enumerate(init) if position not in fixed]
    op.set_operands(list(op.consts), varying, list(op.xs))


def _share(op: ScanOp) -> None:
    """Merges equal constants, equal sequences and equal stacks."""
    inside, _, slices = op.arguments
    for operands, arguments in ((op.consts, inside), (op.xs, slices)):
        first: dict[SSAValue, BlockArgument] = {}
        for value, argument in zip(operands, arguments, strict=True):
            argument.replace_all_uses_with(first.setdefault(value, argument))
    values, known = returned(op.body.block), dict[SSAValue, SSAValue]()
    for value, result in list(zip(values, op.results, strict=True))[op.carries :]:
        if value in known:
            result.replace_all_uses_with(known[value])
        known.setdefault(value, result)


def _sink_views(op: ScanOp) -> None:
    """Moves views of a loop's constants into its body, where they cost nothing."""
    block = op.body.block
    position = 0
    while position < len(op.consts):
        value, argument = op.consts[position], op.arguments[0][position]
        position += 1
        owner, first = value.owner, block.first_op
        if not is_rearrangement(owner) or not argument.uses or first is None:
            continue
        source = owner.operands[0]
        inside = block.insert_arg(source.type, len(op.consts), argument.location)
        op.set_operands([*op.consts, source], list(op.init), list(op.xs))
        clone = owner.clone({source: inside})
        block.insert_op_before(clone, first)
        argument.replace_all_uses_with(clone.results[0])


def _sink_constants(arguments: Sequence[BlockArgument], operands: Sequence[SSAValue]) -> None:
    """Copies constants into the body, where they fold with their users."""
    for argument, value in zip(arguments, operands, strict=True):
        if isinstance(value.owner, ConstantOp) and argument.uses:
            block, clone = argument.block, value.owner.clone()
            first = block.first_op
            assert first is not None
            block.insert_op_before(clone, first)
            argument.replace_all_uses_with(clone.results[0])


def _hoist(op: ScanOp) -> list[Operation]:
    """Hoists ops of a loop's body that depend only on constants; returns the new ops.

    Views of constants are not hoisted: in the body they cost nothing, but outside they would be stored.
    """
    parent = op.parent
    assert parent is not None
    outside: dict[SSAValue, SSAValue] = dict(zip(op.arguments[0], op.consts, strict=True))
    movable: dict[SSAValue, TensorOp] = {}
    for inner in op.body.block.ops:
        if not isinstance(inner, TensorOp) or not inner.operands:
            continue
        if all(operand in outside or operand in movable or _is_constant(operand) for operand in inner.operands):
            movable[inner.results[0]] = inner
    hoisted = [inner for inner in movable.values() if not is_rearrangement(inner)]
    needed: set[Operation] = set(hoisted)
    for inner in reversed(list(movable.values())):
        if inner in needed:
            needed.update(movable[operand] for operand in inner.operands if operand in movable)
    ops: list[Operation] = []
    for result, inner in movable.items():
        if inner not in needed:
            continue
        for operand in inner.operands:
            if operand not in outside:
                outside[operand] = _copied_before(operand, op, ops)
        clone = inner.clone(dict(outside))
        parent.insert_op_before(clone, op)
        ops.append(clone)
        outside[result] = clone.results[0]
    for inner in hoisted:
        result = inner.results[0]
        if any(use.operation not in hoisted for use in result.uses):
            argument = op.body.block.insert_arg(result.type, len(op.consts), inner.location)
            op.set_operands([*op.consts, outside[result]], list(op.init), list(op.xs))
            result.replace_uses_with_if(argument, lambda use: use.operation not in hoisted)
    for inner in reversed(hoisted):
        Rewriter.erase_op(inner)
    return ops


def _is_constant(value: SSAValue) -> bool:
    return isinstance(value.owner, TensorOp) and not value.owner.operands


def _copied_before(value: SSAValue, op: Operation, copies: list[Operation]) -> SSAValue:
    source = value.owner
    assert isinstance(source, TensorOp) and op.parent is not None
    clone = source.clone()
    op.parent.insert_op_before(clone, op)
    copies.append(clone)
    return clone.results[0]


def _decide(op: CondOp) -> list[Operation]:
    """Replaces a cond whose predicate is a constant with the chosen branch."""
    value, parent = constant_value(op.predicate), op.parent
    assert value is not None and parent is not None
    block = op.branches[0 if bool(value) else 1]
    inners = [inner for inner in block.ops if not isinstance(inner, ReturnOp)]
    results = moved(block, list(op.inputs), returned(block), TensorBuilder(parent, before=op))
    for old, new in zip(op.results, results, strict=True):
        old.replace_all_uses_with(new)
    Rewriter.erase_op(op)
    return inners
