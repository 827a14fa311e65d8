"""Makes xDSL verify an op's declaration once per signature, as tests verify millions of ops, most of them alike.

What an op's declaration checks (IRDL constraints on types and attributes, and their number) depends only on the op's
signature, so if it holds once, it holds for every op of the same signature. Everything else is verified every time:
traits, handwritten verifiers, and the structure around the op. Failures are not cached.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from xdsl.ir import Operation
from xdsl.irdl import OpDef


def signature(op: Operation) -> Hashable:
    """Returns everything about an op that its declaration constrains."""
    return (
        op.operand_types,
        op.result_types,
        tuple(op.properties.items()),
        tuple(op.attributes.items()),
        tuple((len(region.blocks), region.first_block and region.first_block.arg_types) for region in op.regions),
        len(op.successors),
    )


def remembering(verify: Callable[[OpDef, Operation], None]) -> Callable[[OpDef, Operation], None]:
    """Returns xDSL's check of an op's declaration, with a cache of valid signatures."""
    # By identity: a definition has no hash, and is kept, so that no other takes its place.
    accepted: dict[int, tuple[OpDef, set[Hashable]]] = {}

    def remembered(definition: OpDef, op: Operation) -> None:
        _, known = accepted.setdefault(id(definition), (definition, set()))
        found = signature(op)
        if found not in known:
            verify(definition, op)
            known.add(found)
            return
        for trait in definition.traits:  # they look at the ops around this one
            trait.verify(op)

    return remembered
