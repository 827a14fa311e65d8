"""Makes xDSL verify an op's declaration once per signature, as tests verify millions of ops, most of them alike.

What an op's declaration checks (IRDL constraints on types and attributes, and their number) depends only on the op's
signature, so if it holds once, it holds for every op of the same signature. Everything else is verified every time:
traits, handwritten verifiers, and the structure around the op. Failures are not cached.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable

from verified_quickly import verifiers_of
from xdsl.ir import Operation
from xdsl.irdl import OpDef
from xdsl.traits import OpTrait


def signature(op: Operation) -> Hashable:
    """Returns everything about an op that its declaration constrains."""
    return (
        tuple([value._type for value in op._operands]),
        tuple([value._type for value in op.results]),
        tuple(op.properties.items()),
        tuple(op.attributes.items()),
        tuple([(len(region.blocks), region.first_block and region.first_block.arg_types) for region in op.regions]),
        len(op._successors),
    )


class Known:
    """What is known of an op's declaration.

    Attributes:
        definition: The declaration.
        accepted: The signatures that hold.
        traits: The traits when `verifiers` were found.
        verifiers: The verifiers of the traits that check something.
    """

    def __init__(self, definition: OpDef):
        self.definition = definition
        self.accepted: set[Hashable] = set()
        self.traits: frozenset[OpTrait] = frozenset()
        self.verifiers: tuple[Callable[[Operation], None], ...] = ()

    def verify_traits(self, op: Operation) -> None:
        """Has the traits verify an op."""
        traits = self.definition.traits.traits
        if traits is not self.traits:
            self.traits, self.verifiers = traits, verifiers_of(traits)
        for verify in self.verifiers:
            verify(op)


def remembering(verify: Callable[[OpDef, Operation], None]) -> Callable[[OpDef, Operation], None]:
    """Returns xDSL's check of an op's declaration, with a cache of valid signatures."""
    # By identity: a definition has no hash, and is kept, so that no other takes its place.
    definitions: dict[int, Known] = {}

    @functools.wraps(verify)
    def remembered(definition: OpDef, op: Operation) -> None:
        known = definitions.get(id(definition))
        if known is None:
            known = definitions[id(definition)] = Known(definition)
        found = signature(op)
        # An op is verified after many passes. Equal parts of its last signature are the same objects: none is hashed.
        last = vars(op).get("_accepted")
        if last is not None and last[0] is known and last[1] == found:
            known.verify_traits(op)
            return
        if found not in known.accepted:
            verify(definition, op)
            known.accepted.add(found)
        else:
            known.verify_traits(op)
        vars(op)["_accepted"] = (known, found)

    return remembered
