"""Complex numbers as pairs of real tensors, as rotary positions and signals use them.

An op on pairs that only moves or adds elements is that op on both parts; the others have rules of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorgrad as tg
from tensorgrad.importers.torch.table import RULES, Rule, rule
from tensorgrad.tracing.tensor import Tensor


@dataclass(frozen=True)
class Pair:
    """A complex tensor."""

    real: Tensor
    imaginary: Tensor


LINEAR = frozenset(
    (
        *("aten.add", "aten.sub", "aten.neg", "aten.sum", "aten.mean", "aten.where", "aten.clone", "aten.alias"),
        *("aten.view", "aten.reshape", "aten._unsafe_view", "aten.expand", "aten.squeeze", "aten.unsqueeze"),
        *("aten.permute", "aten.transpose", "aten.slice", "aten.select", "aten.split", "aten.split_with_sizes"),
        *("aten.unbind", "aten.cat", "aten.stack", "aten.index", "aten.index_select", "aten.roll", "aten.flip"),
        *("aten.repeat",),
    )
)
"""The ops that apply to both parts alike."""


def contains_pair(value: Any) -> bool:
    """Returns whether there are complex tensors among arguments."""
    if isinstance(value, Mapping):
        return any(map(contains_pair, value.values()))
    if isinstance(value, (tuple, list)):
        return any(map(contains_pair, value))
    return isinstance(value, Pair)


def rule_of_pairs(name: str) -> Rule | None:
    """Returns the rule by which an op computes with pairs; None if there is none."""
    if name in LINEAR:
        return Rule(_by_parts(RULES[name]), parameters_of=RULES[name].function)
    return _PAIRS.get(name)


def _by_parts(known: Rule) -> Callable[..., Any]:
    def apply(**arguments: Any) -> Any:
        parts = [known.function(**_part(arguments, name)) for name in ("real", "imaginary")]
        if isinstance(parts[0], (tuple, list)):
            return [Pair(*part) for part in zip(*parts, strict=True)]
        return Pair(*parts)

    return apply


def _part(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return {key: _part(inner, name) for key, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return [_part(inner, name) for inner in value]
    return getattr(value, name) if isinstance(value, Pair) else value


def _as_pair(x: Any) -> Pair:
    if isinstance(x, Pair):
        return x
    real = x if isinstance(x, Tensor) else tg.full((), x)
    return Pair(real, tg.zeros_like(real))


def _mul(self: Any, other: Any) -> Pair:
    if not (isinstance(self, Pair) and isinstance(other, Pair)):
        pair, factor = (self, other) if isinstance(self, Pair) else (other, self)
        return Pair(pair.real * factor, pair.imaginary * factor)
    return Pair(
        self.real * other.real - self.imaginary * other.imaginary,
        self.real * other.imaginary + self.imaginary * other.real,
    )


def _div(self: Any, other: Any) -> Pair:
    if not isinstance(other, Pair):
        return Pair(self.real / other, self.imaginary / other)
    size = other.real * other.real + other.imaginary * other.imaginary
    return _mul(_as_pair(self), Pair(other.real / size, -other.imaginary / size))


def _abs(self: Pair) -> Tensor:
    return tg.hypot(self.real, self.imaginary)


def _conj(self: Pair) -> Pair:
    return Pair(self.real, -self.imaginary)


def _exp(self: Pair) -> Pair:
    size = tg.exp(self.real)
    return Pair(size * tg.cos(self.imaginary), size * tg.sin(self.imaginary))


def _view_as_real(self: Pair) -> Tensor:
    return tg.stack([self.real, self.imaginary], -1)


def _real(self: Pair) -> Tensor:
    return self.real


def _imag(self: Pair) -> Tensor:
    return self.imaginary


def _angle(self: Pair) -> Tensor:
    return tg.atan2(self.imaginary, self.real)


def _same(self: Pair) -> Pair:
    return self


_FUNCTIONS: Sequence[tuple[str, Callable[..., Any]]] = (
    ("mul", _mul),
    ("div", _div),
    ("abs", _abs),
    ("angle", _angle),
    ("exp", _exp),
    ("real", _real),
    ("imag", _imag),
    ("_conj _conj_physical conj conj_physical", _conj),
    ("view_as_real view_as_real_copy", _view_as_real),
    ("resolve_conj resolve_neg detach contiguous _to_copy to", _same),
)
_PAIRS = {f"aten.{name}": Rule(function) for names, function in _FUNCTIONS for name in names.split()}


@rule("view_as_complex view_as_complex_copy")
def _view_as_complex(self: Tensor) -> Pair:
    return Pair(self[..., 0], self[..., 1])


@rule("polar")
def _polar(abs: Tensor, angle: Tensor) -> Pair:
    return Pair(abs * tg.cos(angle), abs * tg.sin(angle))


@rule("complex")
def _complex(real: Tensor, imag: Tensor) -> Pair:
    return Pair(real, imag)
