"""`tg.capture`: names for intermediate values, which `Training.capture` looks at."""

from __future__ import annotations

from typing import Any, TypeVar

from tensorgrad.errors import TraceError
from tensorgrad.location import user_line
from tensorgrad.tensor import Traced
from tensorgrad.tracer import Trace, current_trace

T = TypeVar("T")


def capture(name: str, x: T) -> T:
    """Gives an intermediate value a name, for `Training.capture`; changes and costs nothing otherwise.

    Args:
        name: The name; a name that was there before gets a number behind it, as in `h_1`.
        x: A tensor.

    Returns:
        `x`.

    Raises:
        TraceError: The name is no text.
    """
    if not isinstance(name, str) or not name:
        raise TraceError(f"{user_line()}: capture: the name must be a text, got {name!r}")
    trace = current_trace()
    if trace is not None and isinstance(x, Traced):
        captures = _outermost(trace).captures
        unique, number = name, 0
        while unique in captures:
            number += 1
            unique = f"{name}_{number}"
        captures[unique] = (x, user_line())
    return x


def captured() -> dict[str, Any]:
    """What the outermost trace has captured so far, by name.

    Raises:
        TraceError: A value exists only inside the body of a loop, a branch or a function with its own derivative.
    """
    trace = current_trace()
    assert trace is not None
    root = _outermost(trace)
    found: dict[str, Any] = {}
    for name, (x, line) in root.captures.items():
        owner = x.value.owner
        block = owner if isinstance(owner, type(root.block)) else owner.parent
        if block is not root.block:
            raise TraceError(
                f"{line}: capture: {name!r} exists only inside another function's body; return it from there, and "
                "capture it outside"
            )
        found[name] = Traced(root, x.value)
    return found


def _outermost(trace: Trace) -> Trace:
    return trace if trace.parent is None else _outermost(trace.parent)
