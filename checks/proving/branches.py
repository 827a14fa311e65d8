"""Stores that both branches of a condition do alike, as one that doesn't depend on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorgrad.checks.proving.accesses import Access
from tensorgrad.checks.proving.facts import Renaming
from tensorgrad.checks.proving.symbols import Symbols
from tensorgrad.checks.proving.terms import Linear, Variable, negation, of_atom


def without_choices(symbols: Symbols, stores: Sequence[Access]) -> list[Access]:
    """Returns stores with one for each two that are alike in the branches of a condition, without that condition.

    A gather chooses between two loops so, by whether its index is in bounds: either stores the line.

    Args:
        symbols: What the kernel's integers are.
        stores: The stores to one memory, in program order.
    """
    merged: list[Access] = []
    for store in stores:
        while True:
            pairs = ((other, _joined(symbols, other, store)) for other in merged)
            other, joined = next(((other, joined) for other, joined in pairs if joined is not None), (None, None))
            if other is None or joined is None:
                break
            merged.remove(other)
            store = joined
        merged.append(store)
    return merged


def _joined(symbols: Symbols, first: Access, second: Access) -> Access | None:
    """Returns two stores in the branches of one condition as one; `None` if they are not alike."""
    if first.width != second.width:
        return None
    pairs = zip(first.conditions, second.conditions, strict=False)
    at = next((at for at, (one, other) in enumerate(pairs) if one != other), None)
    if at is None or len(first.conditions) != len(second.conditions):
        return None
    if first.conditions[at] != negation(second.conditions[at]):
        return None
    same: dict[Variable, Linear] = {}
    own = [
        [loop for loop in access.loops if loop not in other.loops]
        for access, other in ((first, second), (second, first))
    ]
    if len(own[0]) != len(own[1]):
        return None
    for here, there in zip(*own, strict=True):
        turn, replaced = symbols.turn(here), symbols.turn(there)
        if turn is not None and replaced is not None and turn.range == replaced.range:
            same[replaced] = of_atom(turn)
    renaming = Renaming(same, keeps=True)
    behind = tuple(map(renaming.condition, second.conditions[at + 1 :]))
    if renaming.number(second.address) != first.address or behind != first.conditions[at + 1 :]:
        return None
    return replace(first, conditions=(*first.conditions[:at], *behind))
