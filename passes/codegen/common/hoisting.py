"""Hoists loop invariants, and strength-reduces addresses."""

from __future__ import annotations

from collections.abc import Collection

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from tensorgrad.passes.rewriting import index_before, insert_before
from tensorgrad.passes.scalars import constant_integer
from tensorgrad.passes.tensors.simplify import is_pure


def hoist_invariants(block: Block, unwritten: Collection[SSAValue] = ()) -> None:
    """Hoists ops out of the loops of a block and its nested blocks, as far as their operands permit.

    Pure ops have the same value wherever they run, and none traps: for a loop that never runs, they are merely wasted.
    So have loads from memory that isn't written, if the element exists also where the loop never runs: its index is a
    constant, or the loop has a first iteration. LLVM leaves these where they are, since a store of the loop might be to
    the same memory, or moves them into a branch, where a vector gathers them; so it does with all that is computed from
    them. Its vectorizer takes exponential time for what is the same in each iteration (up to LLVM 22,
    `isUniformAcrossVFsAndUFs`).

    Args:
        block: The block.
        unwritten: Memory that no op in the block writes. A result that is stored in its place is no obstacle: then each
            element is read at one point only, which writes it afterwards.
    """
    for op in list(block.ops):
        for region in op.regions:
            for inner in region.blocks:
                hoist_invariants(inner, unwritten)
        if op.regions and isinstance(op, scf.ForOp):
            _hoist(op, unwritten)


def _hoist(loop: scf.ForOp, unwritten: Collection[SSAValue]) -> None:
    """Moves ops of a loop's body before it. Operands precede their users, so one walk finds all."""
    around, body = loop.parent, loop.body.block
    assert around is not None
    inside = {*body.args, *(result for op in body.ops for result in op.results)}
    runs = _runs(loop)
    for op in list(body.ops):
        if op.regions or not op.results or any(o in inside for o in op.operands):
            continue
        if not is_pure(op) and not _reads_unwritten(op, unwritten, runs):
            continue
        op.detach()
        around.insert_op_before(op, loop)
        inside.difference_update(op.results)


def _runs(loop: scf.ForOp) -> bool:
    """Returns whether a loop is known to have a first iteration."""
    start, stop = constant_integer(loop.lb), constant_integer(loop.ub)
    return start is not None and stop is not None and start < stop


def _reads_unwritten(op: Operation, unwritten: Collection[SSAValue], runs: bool) -> bool:
    """Returns whether an op loads an element that no op writes, and that exists even if the loop never `runs`."""
    return isinstance(op, memref.LoadOp) and op.memref in unwritten and (runs or all(map(_is_constant, op.indices)))


def _is_constant(value: SSAValue) -> bool:
    op = value.owner
    return constant_integer(op.input if isinstance(op, arith.IndexCastOp) else value) is not None


def carry_addresses(block: Block) -> None:
    """Makes innermost loops carry the addresses that they load from, incremented in each iteration.

    A CPU's driver splits an address into a per-lane base and the counter, lane by lane, outside of the loop, and runs
    out of registers. Expects invariants to be hoisted.
    """
    for op in list(block.ops):
        for region in op.regions:
            for inner in region.blocks:
                carry_addresses(inner)
        if op.regions and isinstance(op, scf.ForOp) and not _holds_loop(op):
            _carry(op)


def _holds_loop(loop: scf.ForOp) -> bool:
    return any(op.regions and isinstance(op, scf.ForOp) for op in loop.body.block.ops)


def _carry(loop: scf.ForOp) -> None:
    body, step = loop.body.block, constant_integer(loop.step)
    around, last = loop.parent, body.last_op
    assert around is not None and isinstance(last, scf.YieldOp)
    if step is None:
        return
    carried: list[tuple[Operation, SSAValue, int]] = []
    for op in body.ops:
        if isinstance(op, arith.AddiOp) and any(isinstance(use.operation, memref.LoadOp) for use in op.result.uses):
            grown = _growth(op, body)
            if grown is not None:
                carried.append((op, *grown))
    if not carried:
        return
    starts: list[SSAValue] = []
    for op, base, factor in carried:
        starts.append(_start(base, loop, factor))
        argument = body.insert_arg(IndexType(), len(body.args))
        after = arith.AddiOp(argument, index_before(step * factor, last))
        after.location = op.location
        body.insert_op_before(after, last)
        last.operands = [*last.operands, after.result]
        op.results[0].replace_all_uses_with(argument)
        parts = [value.owner for value in op.operands]
        for user in (op, *parts):
            if isinstance(user, Operation) and user.parent is body and not user.results[0].first_use:
                Rewriter.erase_op(user)
    region = loop.detach_region(loop.body)
    new = scf.ForOp(loop.lb, loop.ub, loop.step, [*loop.iter_args, *starts], region)
    new.attributes |= loop.attributes
    new.location = loop.location
    around.insert_op_before(new, loop)
    for old, result in zip(loop.results, new.results, strict=False):
        old.replace_all_uses_with(result)
    Rewriter.erase_op(loop)


def _growth(op: arith.AddiOp, body: Block) -> tuple[SSAValue, int] | None:
    """Returns the invariant part of a sum and the factor, if the rest is the induction variable times a constant."""
    for base, moving in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        if stands_in(base, body) or constant_integer(base) is not None:
            continue
        if moving is body.args[0]:
            return base, 1
        owner = moving.owner
        if isinstance(owner, arith.MuliOp) and owner.lhs is body.args[0]:
            factor = constant_integer(owner.rhs)
            return None if factor is None else (base, factor)
    return None


def stands_in(value: SSAValue, body: Block) -> bool:
    """Returns whether a value is defined in a block, or is its argument."""
    return value in body.args or (isinstance(value.owner, Operation) and value.owner.parent is body)


def _start(base: SSAValue, loop: scf.ForOp, factor: int) -> SSAValue:
    """Returns the address in the first iteration."""
    low = constant_integer(loop.lb)
    if low == 0:
        return base
    if low is not None:
        return insert_before(arith.AddiOp(base, index_before(low * factor, loop)), loop)
    start = insert_before(arith.MuliOp(loop.lb, index_before(factor, loop)), loop)
    return insert_before(arith.AddiOp(base, start), loop)
