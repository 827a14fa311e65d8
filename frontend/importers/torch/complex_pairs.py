"""Complex numbers as pairs of real tensors, as rotary positions, signals and Fourier transforms use them.

An op that only moves or adds elements is that op on both parts; the others have rules of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorgrad as tg
from tensorgrad.errors import OptionError
from tensorgrad.importers.torch.table import RULES, Call, Rule, rule
from tensorgrad.tracing.tensor import Tensor

Complex = tg.fft.Complex

BY_PARTS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(
        (
            *("neg", "sum", "mean", "clone", "alias", "view", "reshape", "_unsafe_view", "expand", "squeeze"),
            *("unsqueeze", "permute", "transpose", "slice", "select", "split", "split_with_sizes", "unbind", "index"),
            *("index_select", "roll", "flip", "repeat", "diagonal", "cumsum"),
        ),
        (),
    ),
    "where": ("self", "other"),
    "cat": ("tensors",),
    "stack": ("tensors",),
    "pad": ("value",),
    "constant_pad_nd": ("value",),
    "fill": ("value",),
    "masked_fill": ("value",),
    "index_put": ("self", "values"),
    "slice_scatter": ("self", "src"),
    "select_scatter": ("self", "src"),
    "copy": ("self", "src"),
}
"""The ops that apply to both parts alike, and which of their arguments may be real: their imaginary part is 0."""

BY_REAL_PART = ("ones_like", "new_ones", "zeros_like", "new_zeros", "_assert_tensor_metadata")
"""The ops that read no values, only shapes."""

PAIRS: dict[str, Rule] = {}
"""The rules of the other ops of complex tensors, by the op's name without its overload."""


def of_pairs(names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function of complex tensors for an op, or several, with spaces between; `aten.` is left out."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        PAIRS.update({f"aten.{name}": Rule(function) for name in names.split()})
        return function

    return enter


def contains_pair(value: Any) -> bool:
    """Returns whether there are complex tensors or numbers among arguments."""
    if isinstance(value, Mapping):
        return any(map(contains_pair, value.values()))
    if isinstance(value, (tuple, list)):
        return any(map(contains_pair, value))
    return isinstance(value, (Complex, complex))


def rule_of_pairs(name: str) -> Rule | None:
    """Returns the rule by which an op computes with pairs; None if there is none."""
    short, known = name.removeprefix("aten."), RULES.get(name)
    if known is not None and short in BY_PARTS:
        return Rule(_by_parts(known, BY_PARTS[short]), parameters_of=known.function)
    if known is not None and short in BY_REAL_PART:
        return Rule(lambda **arguments: known.function(**_part(arguments, "real")), parameters_of=known.function)
    return PAIRS.get(name)


def _by_parts(known: Rule, numbers: Sequence[str]) -> Callable[..., Any]:
    def apply(**arguments: Any) -> Any:
        arguments |= {name: _as_complex(arguments[name]) for name in numbers if arguments.get(name) is not None}
        parts = [known.function(**_part(arguments, name)) for name in ("real", "imag")]
        if isinstance(parts[0], (tuple, list)):
            return [Complex(*part) for part in zip(*parts, strict=True)]
        return Complex(*parts)

    return apply


def _part(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return {key: _part(inner, name) for key, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return [_part(inner, name) for inner in value]
    return getattr(value, name) if isinstance(value, (Complex, complex)) else value


def _as_complex(x: Any) -> Any:
    """Returns a tensor, several, or a number as complex ones."""
    if isinstance(x, (tuple, list)):
        return [_as_complex(inner) for inner in x]
    return as_complex(x) if isinstance(x, (Tensor, Complex)) else complex(x)


def as_complex(x: Tensor | Complex) -> Complex:
    """Returns a real tensor as a complex one."""
    return x if isinstance(x, Complex) else Complex(x, tg.zeros_like(x))


@of_pairs("mul")
def _mul(self: Any, other: Any) -> Complex:
    return as_complex(self) * other


@of_pairs("div")
def _div(self: Any, other: Any) -> Complex:
    return as_complex(self) / other


@of_pairs("add")
def _add(self: Any, other: Any, alpha: Any = 1) -> Complex:
    return as_complex(self) + (other if alpha == 1 else other * alpha)


@of_pairs("sub")
def _sub(self: Any, other: Any, alpha: Any = 1) -> Complex:
    return as_complex(self) - (other if alpha == 1 else other * alpha)


@of_pairs("rsub")
def _rsub(self: Any, other: Any, alpha: Any = 1) -> Complex:
    return -_sub(self if alpha == 1 else self * alpha, other)


@of_pairs("reciprocal")
def _reciprocal(self: Complex) -> Complex:
    return 1 / self


@of_pairs("pow")
def _pow(self: Complex, exponent: Any) -> Complex:
    """Returns powers of whole exponents, by multiplication."""
    if not isinstance(exponent, int):
        raise OptionError("powers of complex numbers have whole exponents here")
    power = math.prod([self] * abs(exponent), start=as_complex(tg.ones_like(self.real)))
    return 1 / power if exponent < 0 else power


@of_pairs("abs")
def _abs(self: Complex) -> Tensor:
    return abs(self)


@of_pairs("angle")
def _angle(self: Complex) -> Tensor:
    return self.angle()


@of_pairs("log")
def _log(self: Complex) -> Complex:
    return Complex(tg.log(abs(self)), self.angle())


@of_pairs("sgn")
def _sgn(self: Complex) -> Complex:
    size = abs(self)
    return self / tg.where(size == 0, 1.0, size)


@of_pairs("linalg_vector_norm norm")
def _norm(call: Call, self: Complex, **arguments: Any) -> Tensor:
    return RULES["aten.linalg_vector_norm"].function(call=call, self=abs(self), **arguments)


@of_pairs("_conj _conj_physical conj conj_physical")
def _conj(self: Complex) -> Complex:
    return self.conj()


@of_pairs("exp")
def _exp(self: Complex) -> Complex:
    size = tg.exp(self.real)
    return Complex(size * tg.cos(self.imag), size * tg.sin(self.imag))


@of_pairs("view_as_real view_as_real_copy")
def _view_as_real(self: Complex) -> Tensor:
    return tg.stack([self.real, self.imag], -1)


@of_pairs("real")
def _real(self: Complex) -> Tensor:
    return self.real


@of_pairs("imag")
def _imag(self: Complex) -> Tensor:
    return self.imag


@of_pairs("resolve_conj resolve_neg detach contiguous lift_fresh_copy")
def _same(self: Complex) -> Complex:
    return self


@of_pairs("_to_copy to")
def _to(self: Complex, dtype: Any = None) -> Complex:
    return self  # results are cast to the dtype that PyTorch gives them


def _product(function: Callable[[Tensor, Tensor], Tensor], x: Tensor | Complex, y: Tensor | Complex) -> Complex:
    """Returns what is linear in two complex tensors."""
    x, y = as_complex(x), as_complex(y)
    return Complex(
        function(x.real, y.real) - function(x.imag, y.imag), function(x.real, y.imag) + function(x.imag, y.real)
    )


@of_pairs("mm bmm")
def _matmul(self: Any, mat2: Any) -> Complex:
    return _product(tg.matmul, self, mat2)


@of_pairs("matmul")
def _matmul_of_any_rank(self: Any, other: Any) -> Complex:
    return _product(tg.matmul, self, other)


@of_pairs("einsum")
def _einsum(equation: str, tensors: Sequence[Any]) -> Complex:
    if len(tensors) != 2:
        raise OptionError("products of complex tensors have two operands here")
    return _product(lambda x, y: tg.einsum(equation, x, y), *tensors)


@rule("view_as_complex view_as_complex_copy")
def _view_as_complex(self: Tensor) -> Complex:
    return Complex(self[..., 0], self[..., 1])


@rule("polar")
def _polar(abs: Tensor, angle: Tensor) -> Complex:
    return Complex(abs * tg.cos(angle), abs * tg.sin(angle))


@rule("complex")
def _complex(real: Tensor, imag: Tensor) -> Complex:
    return Complex(real, imag)
