"""`tg.capture`: names for intermediate values, which `Training.capture` returns."""

from __future__ import annotations

from typing import TypeVar

from xdsl.ir import Block

from tensorgrad.errors import TraceError
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Traced
from tensorgrad.tracing.tracer import current_trace

T = TypeVar("T")


def capture(name: str, x: T) -> T:
    """Names an intermediate value for `Training.capture`; otherwise it has no effect and no cost.

    Args:
        name: The name; a name that is already taken gets a numeric suffix, as in `h_1`.
        x: A tensor.

    Returns:
        `x`.

    Raises:
        TraceError: The name is not a string.

    Example:
        >>> tg.jit(lambda x: tg.sum(tg.capture("squares", x * x)), device="numpy")(np.float32([1.0, 2.0]))
        Array(5., dtype=f32, device='numpy')
    """
    if not isinstance(name, str) or not name:
        raise TraceError(f"capture: the name must be a string, got {name!r}")
    trace = current_trace()
    if trace is not None and isinstance(x, Traced):
        captures = trace.outermost.captures
        unique, number = name, 0
        while unique in captures:
            number += 1
            unique = f"{name}_{number}"
        captures[unique] = (x.value, user_line())
    return x


def captured_names() -> list[str]:
    """Returns the names that the outermost trace has captured so far."""
    trace = current_trace()
    assert trace is not None
    return list(trace.outermost.captures)


def captured(name: str) -> Traced:
    """Returns a captured value.

    Raises:
        TraceError: It exists only inside the body of a loop, a branch or another function.
    """
    trace = current_trace()
    assert trace is not None
    root = trace.outermost
    value, line = root.captures[name]
    owner = value.owner
    if (owner if isinstance(owner, Block) else owner.parent) is not root.block:
        raise TraceError(
            f"{line}: capture: {name!r} exists only inside another function's body; return it from there, and "
            "capture it outside"
        )
    return Traced(root, value)
