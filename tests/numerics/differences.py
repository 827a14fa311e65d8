"""Central differences of the reference, and the graphs whose derivatives they check."""

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
    """The derivative of a function at 0: central differences by three steps, extrapolated (error h^6)."""
    first, second, third = ((at(step) - at(-step)) / (2 * step) for step in STEPS)
    return (64 * third - 20 * second + first) / 45


def directions(shape: tuple[int, ...]) -> NumpyArray:
    """Directions to move an argument in, stacked: every element alone, or eight random ones where there are many."""
    size = math.prod(shape)
    if size <= 12:
        return np.eye(size).reshape(size, *shape)
    return np.random.default_rng([5, *shape]).normal(size=(8, *shape))


def central(function: Callable[..., float], inputs: Sequence[NumpyArray], wrt: int) -> NumpyArray:
    """The slopes of a scalar function in the `directions` of one argument."""

    def slope(direction: NumpyArray) -> float:
        return extrapolated(lambda by: function(*inputs[:wrt], inputs[wrt] + by * direction, *inputs[wrt + 1 :]))

    return np.array([slope(direction) for direction in directions(inputs[wrt].shape)])


def in_f64(inputs: Sequence[NumpyArray]) -> list[NumpyArray]:
    """Floats as f64, everything else as it is."""
    return [np.array(x, np.float64) if x.dtype.kind == "f" else x for x in inputs]


def float_positions(inputs: Sequence[NumpyArray]) -> list[int]:
    """The positions of the floats."""
    return [position for position, x in enumerate(inputs) if x.dtype.kind == "f"]


def mid_graph(function: Function) -> Function:
    """`sum(sin(scale * function(...) + other))`: the function in the middle of a graph, its cotangent no constant."""

    def loss(scale: Tensor, other: Tensor, *inputs: Tensor) -> Tensor:
        return total(sin(scale * function(*inputs) + other))

    return loss


def directional(function: Function, wrt: Sequence[int]) -> Function:
    """`sum(direction * gradient)` over the arguments in `wrt`: its gradient is the second derivative on a direction."""

    def loss(*arguments: Tensor) -> Tensor:
        directions, inputs = arguments[: len(wrt)], arguments[len(wrt) :]
        gradient = grad(function, argnums=tuple(wrt))(*inputs)
        result = total(directions[0] * gradient[0])
        for direction, part in zip(directions[1:], gradient[1:], strict=True):
            result = result + total(direction * part)
        return result

    return loss


def mid_graph_inputs(case: Case) -> list[NumpyArray]:
    """A scale and another term of the result's shape, and the case's inputs, in f64."""
    random = np.random.default_rng(7)
    shape = case.value().shape
    scale = np.asarray(random.uniform(0.5, 1.5, shape) * random.choice([-1.0, 1.0], shape))
    return [scale, np.asarray(random.normal(size=shape)), *in_f64(case.inputs)]
