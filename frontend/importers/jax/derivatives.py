"""What JAX says of derivatives and StableHLO can't: where they stop, and which functions have rules of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tensorgrad.passes.stablehlo.correspondence import STOP_GRADIENT

RULES = ("custom_jvp_call", "custom_vjp_call")


def with_stops(jax: Any, closed: Any) -> Any:
    """Returns a closed jaxpr whose stopped gradients are composites, which its export keeps."""

    def marked(equation: Any) -> Any:
        equation = equation.replace(params={name: inside(value) for name, value in equation.params.items()})
        if equation.primitive.name != "stop_gradient":
            return equation
        stop = jax.lax.composite(lambda x: x, name=STOP_GRADIENT)
        (composite,) = jax.make_jaxpr(stop)(equation.outvars[0].aval).jaxpr.eqns
        return composite.replace(
            invars=equation.invars, outvars=equation.outvars, source_info=equation.source_info, ctx=equation.ctx
        )

    def inside(value: Any) -> Any:
        return _mapped(value, marked)

    return inside(closed)


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Returns a parameter of an equation with changed equations, if it is a jaxpr or has some."""
    if isinstance(value, tuple | list):
        return type(value)(_mapped(part, change) for part in value) if any(map(_is_jaxpr, value)) else value
    if not _is_jaxpr(value):
        return value
    if hasattr(value, "consts"):
        return value.replace(jaxpr=_mapped(value.jaxpr, change))
    return value.replace(eqns=[change(equation) for equation in value.eqns])


def _is_jaxpr(value: Any) -> bool:
    return hasattr(value, "eqns") and hasattr(value, "replace")


def functions_with_rules(jax: Any, closed: Any) -> list[str]:
    """Returns the functions with derivatives of their authors', each with its line; those of JAX's own are left out.

    Rules of JAX's own functions differ from the derivatives of what these compute by rounding.
    """
    package = str(Path(jax.__file__).parent / "_")[:-1]  # with the separator: other packages' names begin alike
    rules = (
        str(equation.params["call_jaxpr"].jaxpr.debug_info.func_src_info)
        for equation in _equations(closed)
        if equation.primitive.name in RULES
    )
    return list(dict.fromkeys(rule for rule in rules if package not in rule))


def _equations(value: Any) -> Iterator[Any]:
    """Yields all equations of a parameter of an equation, at any depth."""
    if isinstance(value, tuple | list):
        for part in value:
            yield from _equations(part)
    elif _is_jaxpr(value):
        for equation in value.eqns:
            yield equation
            yield from _equations(list(equation.params.values()))
