"""What `jax.export` leaves out: which ops functions are, where derivatives stop, and derivatives of one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tensorgrad.passes.stablehlo.correspondence import COMPOSITES, STOP_GRADIENT

RULES = ("custom_jvp_call", "custom_vjp_call")


NAMES = {"logistic": "stablehlo.logistic", "stop_gradient": STOP_GRADIENT}
"""The composites of primitives that are named otherwise there; the others are named alike."""


def with_composites(jax: Any, closed: Any) -> Any:
    """Returns a closed jaxpr in which primitives that are ops here are composites, which its export keeps.

    Otherwise it would write polynomials for special functions, and nothing for stopped gradients.
    """

    def marked(equation: Any) -> Any:
        equation = equation.replace(params={name: inside(value) for name, value in equation.params.items()})
        name = NAMES.get(equation.primitive.name, f"chlo.{equation.primitive.name}")
        return _composite(jax, name, equation) if name in COMPOSITES else equation

    def inside(value: Any) -> Any:
        return _mapped(value, marked)

    return inside(closed)


def _composite(jax: Any, name: str, equation: Any) -> Any:
    """Returns an equation as a composite of this name that consists of it."""

    def computed(*operands: Any) -> Any:
        return equation.primitive.bind(*operands, **equation.primitive.get_bind_params(equation.params))

    operands = (atom.aval for atom in equation.invars)
    (composite,) = jax.make_jaxpr(jax.lax.composite(computed, name=name))(*operands).jaxpr.eqns
    return composite.replace(
        invars=equation.invars, outvars=equation.outvars, source_info=equation.source_info, ctx=equation.ctx
    )


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
