"""How an unrolled loop is divided: whole steps, and what is left over."""

from __future__ import annotations

from dataclasses import dataclass

from tensorgrad.passes.analyses.machine import VECTOR


@dataclass(frozen=True)
class UnrolledLoop:
    """A loop from `start` to `extent`; one iteration covers `steps` contiguous indices for each of `lanes`."""

    extent: int
    steps: int
    start: int = 0
    lanes: int = 1


def unrolled(extent: int, steps: int, lanes: int = 0) -> list[UnrolledLoop]:
    """Returns a main loop and a remainder, which is in vectors or scalar.

    If indices don't contain a lane, the main loop has at least two iterations, so that no index is constant.

    Args:
        extent: The number of iterations of the loop.
        steps: The unroll factor.
        lanes: The number of lanes that share the loop; 0 if it is not shared.
    """
    if steps == 1:
        return [UnrolledLoop(extent, 1)]
    each = steps * max(lanes, 1)
    vectors = steps % VECTOR == 0 and extent % VECTOR == 0
    small = VECTOR if vectors and (lanes or extent > VECTOR) else 1
    if extent < (each if lanes else 2 * each):
        return [UnrolledLoop(extent // small, small)]
    whole = extent // each
    rest = [UnrolledLoop(extent // small, small, whole * each // small)] if extent % each else []
    return [UnrolledLoop(whole, steps, lanes=max(lanes, 1)), *rest]
