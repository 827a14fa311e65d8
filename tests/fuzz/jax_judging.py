"""Judges functions of JAX's arrays: their results and gradients by JAX, beside those of the same function imported.

As in `judging`: JAX runs a program some more times with what each op computes rounded otherwise, and ours has to agree
as these runs do. Its ops are those of the program's jaxpr, with the derivative, in one function that XLA compiles once.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from judging import DRAWS, GRADIENT, ROUNDINGS, Verdict, compared, reach_of

import tensorgrad as tg

# `make nightly` installs it; the types of the tests are checked without.
jax, jnp, core = (importlib.import_module(name) for name in ("jax", "jax.numpy", "jax.extend.core"))

EPSILON = float(np.finfo(np.float32).eps)

TIES = 2.0**-10
"""What a value is moved by beside its rounding, in units of epsilon: programs that depend on ties are discarded."""

MOVES = """
    neg abs sign floor ceil round reshape transpose broadcast_in_dim slice dynamic_slice dynamic_update_slice
    concatenate pad rev squeeze expand_dims gather select_n convert_element_type copy iota max min sort stop_gradient
    reduce_max reduce_min cummax cummin clamp top_k split scatter reduce_precision
"""
"""The primitives that aren't rounded otherwise: they move numbers, or choose among them."""


@dataclass(frozen=True)
class JaxProgram:
    """A program.

    Attributes:
        function: A function of arrays, to an array or a tuple of them.
        inputs: The shape and dtype of each input.
        text: Its source code, to be read where it differs.
    """

    function: Callable[..., Any]
    inputs: Sequence[tuple[tuple[int, ...], str]]
    text: str


def sample(shape: tuple[int, ...], dtype: str, draw: np.random.Generator, is_positive: bool = False) -> np.ndarray:
    """Returns a random input: small integers; floats of either sign, or between 0 and 1."""
    if dtype.startswith("int"):
        return draw.integers(-3, 4, shape, dtype=dtype)
    values = np.asarray(draw.normal(size=shape))
    return (1 / (1 + np.exp(-values)) if is_positive else values).astype(dtype)


def judged(subject: JaxProgram, seed: int, device: Any) -> Verdict:
    """Returns what becomes of a program on a device, from inputs that are drawn by a seed."""
    step = _Step(subject)
    run = step.rounded()
    draw = np.random.default_rng(seed)
    for attempt in range(DRAWS):
        inputs = [sample(*spec, draw, attempt >= DRAWS // 2) for spec in subject.inputs]
        expected, is_moderate = run(0.0, 0.0, inputs)
        if is_moderate:
            break
    else:
        return Verdict("discarded", "not finite")
    reach = reach_of((run(EPSILON, float(number + 1), inputs)[0] for number in range(ROUNDINGS)), expected)
    return compared(lambda: step.own(inputs, device), expected, reach, EPSILON)


class _Step:
    """A program and the derivative of a sum of its results, by JAX and by us."""

    def __init__(self, subject: JaxProgram):
        self._subject = subject
        self._specs = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in subject.inputs]
        results = jax.eval_shape(self._results, *self._specs)
        draw = np.random.default_rng(0)
        self._factors = {
            name: draw.normal(size=result.shape).astype(np.float32)
            for name, result in results.items()
            if result.dtype == np.float32
        }
        self._is_float = [dtype == "float32" for _, dtype in subject.inputs]

    def _results(self, *inputs: Any) -> dict[str, Any]:
        return _named(self._subject.function(*inputs))

    def _differentiated(self, library: Any, function: Any, total: Any, inputs: Sequence[Any]) -> dict[str, Any]:
        """Returns the results, and the gradients of a sum of them by each float input."""
        places = [place for place, is_float in enumerate(self._is_float) if is_float]

        def loss(floats: Any) -> Any:
            values = list(inputs)
            for place, value in zip(places, floats, strict=True):
                values[place] = value
            results = _named(function(*values))
            terms = (total(results[name] * factor) for name, factor in self._factors.items())
            return sum(terms, start=0 * total(floats[0])), results

        (_, results), gradients = library.value_and_grad(loss, has_aux=True)([inputs[place] for place in places])
        return results | {f"{GRADIENT}x{place}": gradient for place, gradient in zip(places, gradients, strict=True)}

    def rounded(self) -> Callable[[float, float, Sequence[np.ndarray]], tuple[dict[str, np.ndarray], bool]]:
        """Returns a function of an amplitude, a phase and inputs: to JAX's results and whether numbers are moderate."""

        def by_jax(*inputs: Any) -> dict[str, Any]:
            return self._differentiated(jax, self._subject.function, jnp.sum, inputs)

        closed, shapes = jax.make_jaxpr(by_jax, return_shape=True)(*self._specs)

        def run(amplitude: Any, phase: Any, inputs: Any) -> Any:
            rounding = _Rounding(amplitude, phase)
            values = rounding.evaluated(closed.jaxpr, closed.consts, inputs)
            are_finite = jnp.stack([jnp.isfinite(value).all() for value in values]).all()
            return dict(zip(sorted(shapes), values, strict=True)), rounding.is_moderate & are_finite

        compiled = jax.jit(run)

        def called(*arguments: Any) -> tuple[dict[str, np.ndarray], bool]:
            results, is_moderate = compiled(*arguments)
            return {name: np.asarray(value) for name, value in results.items()}, bool(is_moderate)

        return called

    def own(self, inputs: Sequence[np.ndarray], device: Any) -> dict[str, np.ndarray]:
        """Returns what the imported function and our derivative compute."""
        module = tg.from_jax(self._subject.function, *self._specs)
        compiled = tg.jit(lambda arrays: self._differentiated(tg, module, tg.sum, arrays), device=device)
        return {name: np.asarray(value) for name, value in compiled(list(inputs)).items()}


def _named(results: Any) -> dict[str, Any]:
    return {f"result{i}": value for i, value in enumerate(results if isinstance(results, tuple) else (results,))}


class _Rounding:
    """Evaluates the equations of a jaxpr, and rounds what each computes otherwise (see `judging`).

    Attributes:
        is_moderate: Whether no number is infinite, NaN or beyond the range of 32-bit integers.
    """

    def __init__(self, amplitude: Any, phase: Any):
        self._amplitude, self._phase = amplitude, phase
        self._equations = 0
        self.is_moderate: Any = True

    def evaluated(self, jaxpr: Any, consts: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        """Returns a jaxpr's results."""
        values: dict[Any, Any] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *inputs], strict=True))

        def read(atom: Any) -> Any:
            return atom.val if isinstance(atom, core.Literal) else values[atom]

        for equation in jaxpr.eqns:
            operands = [read(atom) for atom in equation.invars]
            values.update(zip(equation.outvars, self._computed(equation, operands), strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _computed(self, equation: Any, operands: Sequence[Any]) -> Sequence[Any]:
        inner = equation.params.get("jaxpr")
        if equation.primitive.name in ("jit", "pjit"):
            return self.evaluated(inner.jaxpr, inner.consts, operands)
        results = equation.primitive.bind(*operands, **equation.primitive.get_bind_params(equation.params))
        is_exact = equation.primitive.name in MOVES.split()
        return [
            self._moved(result, is_exact) for result in (results if equation.primitive.multiple_results else [results])
        ]

    def _moved(self, value: Any, is_exact: bool) -> Any:
        self._equations += 1
        if is_exact or value.dtype != np.float32 or not value.size:
            return value  # constants may be infinite, as what extremes start from
        self.is_moderate &= (abs(value) < 2.0**31).all()
        places = jnp.arange(value.size, dtype=np.float32).reshape(value.shape)
        angle = places * (12.9898 + self._equations) + self._phase * 78.233 * self._equations
        return value * (1 + self._amplitude * jnp.cos(angle)) + self._amplitude * TIES * jnp.sin(angle)
