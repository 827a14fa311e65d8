"""Central differences of the reference, and graphs whose derivatives they check."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from case import Case
from harness import Function, NumpyArray

from tensorgrad.ops.elementwise.functions import sin
from tensorgrad.ops.reduce import sum as total
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.transforms.grad import grad

STEPS = (2e-3, 1e-3, 5e-4)


def extrapolated(at: Callable[[float], float]) -> float:
    """Returns the derivative of a function at 0: central differences with three steps, extrapolated (error h^6)."""
    first, second, third = ((at(step) - at(-step)) / (2 * step) for step in STEPS)
    return (64 * third - 20 * second + first) / 45


def directions(shape: tuple[int, ...]) -> NumpyArray:
    """Returns directions to perturb an argument in, stacked: unit vectors, or eight random ones for large arguments."""
    size = math.prod(shape)
    if size <= 12:
        return np.eye(size).reshape(size, *shape)
    return np.random.default_rng([5, *shape]).normal(size=(8, *shape))


def central(function: Callable[..., float], inputs: Sequence[NumpyArray], wrt: int) -> NumpyArray:
    """Returns the slopes of a scalar function along the `directions` of one argument."""

    def slope(direction: NumpyArray) -> float:
        return extrapolated(lambda by: function(*inputs[:wrt], inputs[wrt] + by * direction, *inputs[wrt + 1 :]))

    return np.array([slope(direction) for direction in directions(inputs[wrt].shape)])


def in_f64(inputs: Sequence[NumpyArray]) -> list[NumpyArray]:
    """Converts floats to f64; other arrays are unchanged."""
    return [np.array(x, np.float64) if x.dtype.kind == "f" else x for x in inputs]


def float_positions(inputs: Sequence[NumpyArray]) -> list[int]:
    """Returns the indices of the float arguments."""
    return [position for position, x in enumerate(inputs) if x.dtype.kind == "f"]


def mid_graph(function: Function) -> Function:
    """Returns `sum(sin(scale * function(...) + other))`: the function mid-graph, with a nonconstant cotangent."""

    def loss(scale: Tensor, other: Tensor, *inputs: Tensor) -> Tensor:
        return total(sin(scale * function(*inputs) + other))

    return loss


def directional(function: Function, wrt: Sequence[int]) -> Function:
    """Returns `sum(direction * gradient)` over the arguments in `wrt`, whose gradient is a second derivative."""

    def loss(*arguments: Tensor) -> Tensor:
        directions, inputs = arguments[: len(wrt)], arguments[len(wrt) :]
        gradient = grad(function, argnums=tuple(wrt))(*inputs)
        result = total(directions[0] * gradient[0])
        for direction, part in zip(directions[1:], gradient[1:], strict=True):
            result = result + total(direction * part)
        return result

    return loss


def mid_graph_inputs(case: Case) -> list[NumpyArray]:
    """Returns a scale and an addend of the result's shape, and the case's inputs, in f64."""
    random = np.random.default_rng(7)
    shape = case.value().shape
    scale = np.asarray(random.uniform(0.5, 1.5, shape) * random.choice([-1.0, 1.0], shape))
    return [scale, np.asarray(random.normal(size=shape)), *in_f64(case.inputs)]
