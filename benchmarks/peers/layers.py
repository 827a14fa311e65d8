"""Layers that look up parameters by name, for all libraries whose arrays have operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Parameters = Mapping[str, Any]


def linear(p: Parameters, name: str, x: Any) -> Any:
    """Applies a linear layer with a bias."""
    return x @ p[f"{name}.weight"] + p[f"{name}.bias"]


def layers(
    p: Parameters,
    prefix: str,
    x: Any,
    activation: Callable[[Any], Any],
    apply: Callable[[Parameters, str, Any], Any] = linear,
) -> Any:
    """Applies all linear layers whose names begin with a prefix, with an activation between them."""
    count = sum(name.startswith(prefix) and name.endswith(".weight") for name in p)
    for number in range(count - 1):
        x = activation(apply(p, f"{prefix}{number}", x))
    return apply(p, f"{prefix}{count - 1}", x)
