"""The loops that archetypes of native code write: one iteration after another, or independent ones in vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import UnitAttr

from tensorgrad.dialects.cpu import MASKED, PARALLEL
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.scalars import Value


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


def mark_parallel(code: Code) -> None:
    """Marks the last loop that was written: its iterations are independent."""
    mark(code, PARALLEL)


def mark(code: Code, *attributes: str) -> None:
    """Sets attributes of the loop that was written last."""
    loop = code.block.last_op
    assert loop is not None
    loop.attributes |= dict.fromkeys(attributes, UnitAttr())
