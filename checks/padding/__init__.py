"""Finds how padded positions of inputs reach a result of a traced function, from the IR alone.

Batches of several lengths are padded. A loss that forgets that somewhere, in a mean over positions, or in attention to
padded ones, trains on padding, and nobody notices. Here a function is interpreted on what is known of each element,
whatever the data: is it there only because of padding, does it depend on it, and if it's a constant, which. So a mask
counts by what it does: padding that is multiplied by 0, added to -inf before a softmax, or not selected, has no effect.


What is said holds under assumptions. The elements of inputs that aren't padded differ from the padding. Indices that
are computed from data are those of positions that aren't padded, and an integer that positions are compared with
(`position < n`) is their number. No number is NaN, or infinite where it is multiplied by 0. Extents are those of the
function: a number that depends on one, otherwise than as what a sum is divided by, isn't noticed.
"""

from tensorgrad.checks.padding.facts import ElementFacts, padded_input
from tensorgrad.checks.padding.interpreting import interpreted

__all__ = ["ElementFacts", "interpreted", "padded_input"]
