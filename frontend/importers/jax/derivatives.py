"""What `jax.export` leaves out: which ops functions are, where derivatives stop, and derivatives of one's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tensorgrad.importers.jax.linear_algebra import is_computed_here
from tensorgrad.passes.stablehlo.correspondence import COMPOSITES, RELU, RULE, STOP_GRADIENT

RULES = ("custom_jvp_call", "custom_vjp_call")
"""The primitives of functions whose authors have written their derivatives."""

EXPANDED = ("bessel_i0e", "bessel_i1e", "custom_linear_solve")
"""The primitives that are no ops here, and for which an export writes what has other derivatives: series, solvers."""

NAMES = {"logistic": "stablehlo.logistic", "stop_gradient": STOP_GRADIENT}
"""The composites of primitives that are named otherwise there; the others are named alike."""

OF_JAX = {"relu": RELU, "_softmax": "jax.softmax"}
"""The functions of JAX's with rules that need none here, and their composites: softmax, by which attention is
recognized, is none, as its rule equals our derivative."""


def with_composites(jax: Any, closed: Any) -> tuple[Any, dict[str, Any]]:
    """Returns a closed jaxpr in which what an export would lose is composites, which it keeps.

    Otherwise it would write polynomials for special functions, and nothing for derivatives.

    Returns:
        The jaxpr, and by its name each equation that has a derivative of its own or is computed by a function here.
    """
    rules: dict[str, Any] = {}

    def marked(equation: Any) -> Any:
        inner = equation.replace(params={name: inside(value) for name, value in equation.params.items()})
        name = _name(jax, equation)
        if name is None:
            name = f"{RULE}{len(rules)}"
            rules[name] = equation
        return _composite(jax, name, inner) if name in COMPOSITES or name in rules else inner

    def inside(value: Any) -> Any:
        return _mapped(value, marked)

    return inside(closed), rules


def _name(jax: Any, equation: Any) -> str | None:
    """Returns the name of the composite that an equation may be; `None` if it needs one of its own."""
    primitive = equation.primitive.name
    if primitive in EXPANDED or is_computed_here(equation):
        return None
    if primitive not in RULES:
        return NAMES.get(primitive, f"chlo.{primitive}")
    function, _, place = _author(equation)
    package = str(Path(jax.__file__).parent / "_")[:-1]  # with the separator: other packages' names begin alike
    return OF_JAX.get(function) if place.startswith(package) else None


def _author(equation: Any) -> tuple[str, str, str]:
    """Returns the name and the place in a file of a function with a rule, around a separator."""
    return str(equation.params["call_jaxpr"].jaxpr.debug_info.func_src_info).partition(" at ")


def identity(equation: Any) -> tuple[str, str]:
    """Returns the name of an equation with a rule, and what tells it from those in whose derivatives it is."""
    if equation.primitive.name not in RULES:
        return equation.primitive.name, str(equation.params.get("jaxprs", ""))
    name, _, place = _author(equation)
    return name, f"{place} {equation.params['call_jaxpr']}"


def computed_by(equation: Any) -> Callable[..., Any]:
    """Returns the function of JAX's arrays that an equation is."""

    def computed(*operands: Any) -> Any:
        return equation.primitive.bind(*operands, **equation.primitive.get_bind_params(equation.params))

    return computed


def _stand_in(jax: Any, equation: Any) -> Callable[..., Any]:
    """Returns a function of an equation's types, in place of a call of LAPACK: what it returns is never read."""
    return lambda *_: [jax.numpy.zeros(atom.aval.shape, atom.aval.dtype) for atom in equation.outvars]


def pulled_back(jax: Any, equation: Any) -> Callable[..., Any]:
    """Returns a function of an equation's operands and of cotangents of its float results, to those of its floats."""
    floats = [place for place, atom in enumerate(equation.invars) if is_of_floats(jax, atom)]
    count = len(equation.invars)

    def pulled(*leaves: Any) -> Any:
        operands = list(leaves[:count])

        def of_floats(*values: Any) -> list[Any]:
            for place, value in zip(floats, values, strict=True):
                operands[place] = value
            results = computed_by(equation)(*operands)
            listed = results if equation.primitive.multiple_results else [results]
            return [x for x, atom in zip(listed, equation.outvars, strict=True) if is_of_floats(jax, atom)]

        _, pull = jax.vjp(of_floats, *(operands[place] for place in floats))
        return pull(list(leaves[count:]))

    return pulled


def is_of_floats(jax: Any, atom: Any) -> bool:
    """Returns whether an operand or result of an equation is of floats."""
    return bool(jax.numpy.issubdtype(atom.aval.dtype, jax.numpy.floating))


def _composite(jax: Any, name: str, equation: Any) -> Any:
    """Returns an equation as a composite of this name that consists of it."""
    operands = (atom.aval for atom in equation.invars)
    body = _stand_in(jax, equation) if is_computed_here(equation) else computed_by(equation)
    (composite,) = jax.make_jaxpr(jax.lax.composite(body, name=name))(*operands).jaxpr.eqns
    return composite.replace(
        invars=equation.invars, outvars=equation.outvars, source_info=equation.source_info, ctx=equation.ctx
    )


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Returns a parameter of an equation with changed equations, if it is a jaxpr or has some."""
    if isinstance(value, tuple | list):
        if not any(map(_is_jaxpr, value)):
            return value
        rebuilt: Callable[[list[Any]], Any] = getattr(value, "_make", type(value))  # named tuples take no sequence
        return rebuilt([_mapped(part, change) for part in value])
    if not _is_jaxpr(value):
        return value
    if hasattr(value, "consts"):
        return value.replace(jaxpr=_mapped(value.jaxpr, change))
    return value.replace(eqns=[change(equation) for equation in value.eqns])


def _is_jaxpr(value: Any) -> bool:
    return hasattr(value, "eqns") and hasattr(value, "replace")
