"""The pass `simplify`: folding, common subexpressions and dead code in one walk."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias, cast

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.ops import IndexOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.traits import IsolatedFromAbove, MemoryEffect, NoMemoryEffect, is_side_effect_free

from tensorgrad.dialects import tg
from tensorgrad.dialects.tg.base import TensorOp, compact
from tensorgrad.dialects.tg.call import CallOp
from tensorgrad.dialects.tg.leaves import ConstantOp
from tensorgrad.passes.tensors.control import enter, leave, prune

Key: TypeAlias = tuple[object, ...]


@dataclass(frozen=True)
class SimplifyPass(ModulePass):
    """Folds constants and identities of `tg`, merges equal pure ops, and erases dead ones.

    Expects any module. Guarantees the same results, bit for bit, and a location on every new op (upstream's
    `canonicalize` loses those of folded constants). One walk forwards and one backwards: linear in the number of ops.
    Ops with regions are walked into and never merged, except composite calls with equal bodies. Ops of a scan that
    depend only on constants are hoisted, carried values that never change become constants, and results without uses
    are erased.
    """

    name = "simplify"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.walk():
            if isinstance(function, FuncOp):
                for block in function.body.blocks:
                    simplify_block(block)


def simplify_block(block: Block, known: dict[Key, SSAValue] | None = None) -> None:
    """Simplifies a block, given the values `known` from around it."""
    seen: dict[Key, SSAValue] = {} if known is None else dict(known)
    calls: dict[Key, list[CallOp]] = {}
    for op in list(block.ops):
        _simplify(op, seen, calls)
    erase_dead(block)


def _simplify(op: Operation, seen: dict[Key, SSAValue], calls: dict[Key, list[CallOp]]) -> None:
    if op.regions:
        _simplify_inside(op, seen, calls)
    if op.parent is None:
        return
    if type(op) is CallOp and op.composite is not None:
        _merge_composite(op, calls)
        return
    simplified = _folded(op) if isinstance(op, TensorOp) else op
    if simplified is not None and not simplified.regions and simplified.results and is_pure(simplified):
        _merge(simplified, seen)


def _simplify_inside(op: Operation, seen: dict[Key, SSAValue], calls: dict[Key, list[CallOp]]) -> None:
    enter(op)
    for region in op.regions:
        for inner in region.blocks:
            simplify_block(inner, None if op.has_trait(IsolatedFromAbove) else seen)
    for new_op in leave(op):
        _simplify(new_op, seen, calls)


def _folded(op: TensorOp) -> Operation | None:
    """Replaces an op that folds; returns the op in its place, if it is new or unchanged."""
    if isinstance(op, ConstantOp):
        op.properties["value"] = compact(cast("DenseIntOrFPElementsAttr[Any]", op.value))
        return op
    folded = op.fold()
    if folded is None:
        return op
    replacement = folded[0]
    if isinstance(replacement, SSAValue):
        _replace(op, replacement)
        return None
    result = tg.constant(cast("DenseIntOrFPElementsAttr[Any]", replacement))
    result.location = op.location
    cast(Block, op.parent).insert_op_before(result, op)
    _replace(op, result.results[0])
    return result


def _replace(op: Operation, value: SSAValue) -> None:
    op.results[0].replace_all_uses_with(value)
    Rewriter.erase_op(op)


def _merge(op: Operation, seen: dict[Key, SSAValue]) -> None:
    if len(op.results) != 1:
        return
    properties = frozenset(op.properties.items()) if op.properties else None
    attributes = frozenset(op.attributes.items()) if op.attributes else None
    result = op.results[0]
    first = seen.setdefault((type(op), tuple(op.operands), properties, attributes, result.type), result)
    if first is not result:
        _replace(op, first)


def _merge_composite(op: CallOp, seen: dict[Key, list[CallOp]]) -> None:
    """Merges a composite call with an equal one, such as one of the forward pass that a derivative repeats."""
    equals = seen.setdefault((op.callee, tuple(op.operands), op.composite), [])
    for other in equals:
        if len(op.regions) == len(other.regions) and all(
            mine.is_structurally_equivalent(theirs) for mine, theirs in zip(op.regions, other.regions, strict=True)
        ):
            for old, new in zip(op.results, other.results, strict=True):
                old.replace_all_uses_with(new)
            Rewriter.erase_op(op)
            return
    equals.append(op)


def is_pure(op: Operation) -> bool:
    """Returns whether an op is pure; upstream does not mark `linalg.index` and the integer remainders so."""
    return _always_pure(type(op)) or is_side_effect_free(op)


@cache
def _always_pure(kind: type[Operation]) -> bool:
    """Returns whether all ops of a kind only compute."""
    effects = kind.get_traits_of_type(MemoryEffect)
    return issubclass(kind, IndexOp | arith.RemUIOp | arith.RemSIOp) or (
        bool(effects) and all(isinstance(effect, NoMemoryEffect) for effect in effects)
    )


def erase_dead(block: Block) -> None:
    """Erases the pure ops of a block without uses, last to first."""
    for op in reversed(list(block.ops)):
        if op.results and not any(result.uses for result in op.results) and is_pure(op):
            Rewriter.erase_op(op)
        elif op.regions:
            prune(op, lambda result: bool(result.uses))
