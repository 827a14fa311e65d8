"""The loops that archetypes of native code write: one iteration after another, or independent ones in vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import UnitAttr

from tensorgrad.dialects.cpu import MASKED, PARALLEL
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.scalars import Value
from tensorgrad.runtime.target import Target

AVX512_BYTES = 64
"""The size of the vectors of AVX-512."""


def sequential(
    code: Code, stop: Value, body: Callable[[Value], None], start: Value | None = None, step: int = 1
) -> None:
    """Writes a sequential loop without carried values."""

    def iteration(at: Value, _: Sequence[Value]) -> list[Value]:
        body(at)
        return []

    code.loop_to(stop, [], iteration, start, step)


def parallel(
    code: Code,
    stop: Value,
    start: Value | None,
    body: Callable[[Value], None],
    is_masked: bool = False,
) -> None:
    """Writes a loop whose iterations are independent, by vectors whose last one is masked if `is_masked`."""

    def iteration(at: Value, _: Sequence[Value]) -> list[Value]:
        body(at)
        return []

    code.loop_to(stop, [], iteration, start=start)
    mark(code, PARALLEL, *([MASKED] if is_masked else []))


def has_fast_masks(target: Target) -> bool:
    """Returns whether vectors are loaded and stored as fast with a mask as without one.

    Those of AVX-512 are. A Zen 3 stores by masks of AVX2 at a fraction of the speed.
    """
    return target.vector_bytes == AVX512_BYTES


def mark_parallel(code: Code) -> None:
    """Marks the last loop that was written: its iterations are independent."""
    mark(code, PARALLEL)


def mark(code: Code, *attributes: str) -> None:
    """Sets attributes of the loop that was written last."""
    loop = code.block.last_op
    assert loop is not None
    loop.attributes |= dict.fromkeys(attributes, UnitAttr())
