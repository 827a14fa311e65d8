"""Validation of a plan's asynchronous collectives, which start at one step and are waited for at a later one."""

from __future__ import annotations

from collections.abc import Sequence

from tensorgrad.runtime.errors import ProgramError
from tensorgrad.runtime.plan import Collective, Dispatch, Repeat, Step, Touched, Wait, touched


def check_requests(plan: Sequence[Step], is_native: bool) -> None:
    """Checks that each asynchronous collective is waited for once, and that nothing disturbs its memory until then.

    The plan does not say whether a dispatch writes what it binds; devices track that per buffer. So dispatches are only
    checked for touching results.

    Args:
        plan: The program's plan.
        is_native: Whether dispatches bind exactly the ranges that they touch.

    Raises:
        ProgramError: A collective violates this.
    """
    _check(plan, is_native, set())


def _check(steps: Sequence[Step], is_native: bool, known: set[int]) -> None:
    under_way: dict[int, Collective] = {}
    for step in steps:
        if isinstance(step, Wait):
            if step.request not in under_way:
                raise ProgramError(f"a wait for request {step.request}, which is not in flight")
            del under_way[step.request]
            continue
        if isinstance(step, Repeat):
            if under_way:
                raise ProgramError("a loop runs while values are exchanged")
            _check(step.steps, is_native, known)
            continue
        ranges = touched(step, ())
        if isinstance(step, Dispatch):
            ranges = [(buffer, start, size, False) for buffer, start, size, _ in ranges] if is_native else []
        for request, other in under_way.items():
            if _disturbs(ranges, other):
                raise ProgramError(f"a step touches what request {request} ({other.label!r}) exchanges")
        if isinstance(step, Collective) and step.request is not None:
            if step.request in known:
                raise ProgramError(f"request {step.request} is that of another start")
            known.add(step.request)
            under_way[step.request] = step
    if under_way:
        raise ProgramError(f"nothing waits for request {next(iter(under_way))}")


def _disturbs(ranges: Touched, other: Collective) -> bool:
    """Returns whether the ranges overlap what a collective writes, or write what it reads."""
    return any(
        buffer == touched_buffer and start < begin + count and begin < start + size and (is_written or is_result)
        for buffer, start, size, is_written in ranges
        for touched_buffer, begin, count, is_result in touched(other, ())
    )
