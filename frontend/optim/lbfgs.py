"""L-BFGS: minimizes a function of all data at once, where a few precise steps beat many cheap ones.

The function and its gradient are one compiled program. Directions and line searches are computed on the host, in f64
and for all parameters as one vector: a few dot products per step. Equations and algorithms are those of Nocedal &
Wright, Numerical Optimization, 2nd edition (2006).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tensorgrad as tg
from tensorgrad.dialects.tg.base import NumpyArray
from tensorgrad.errors import DivergenceError, OptionError
from tensorgrad.nn.module import Module
from tensorgrad.optim.schedules import checked
from tensorgrad.tracing import trees
from tensorgrad.tracing.checks import checked_integer
from tensorgrad.tracing.tensor import Array
from tensorgrad.tracing.tracer import as_array, check_function, function_name

DECREASE, CURVATURE = 1e-4, 0.9
"""The constants of the strong Wolfe conditions (3.7), as recommended there for quasi-Newton methods."""
MOST_TRIALS = 25
"""The most evaluations of a line search."""
LEAST_SHARE = 0.1
"""How close to an end of its bracket a line search may try, as a share of the bracket."""
CAUTION = 1e-10
"""The least curvature along a step, relative to the squared change of the gradient, for the step to be remembered."""


@dataclass(frozen=True)
class Minimum:
    """The result of `minimize`.

    Attributes:
        point: The best point found: a tree like the start.
        value: The function's value there.
        gradient_norm: The largest absolute element of the gradient there.
        steps: The number of steps.
        evaluations: The number of times that the function and its gradient were evaluated.
        converged: Whether a tolerance was reached.
        reason: Why it stopped.

    Example:
        >>> lowest = tg.optim.minimize(lambda x: tg.sum((x - 3.0) ** 2), np.zeros(2), device="numpy")
        >>> lowest.converged, lowest.point.tolist()
        (True, [3.0, 3.0])
    """

    point: Any
    value: float
    gradient_norm: float
    steps: int
    evaluations: int
    converged: bool
    reason: str


def minimize(
    function: Callable[..., Any],
    start: Any,
    *args: Any,
    max_steps: int = 100,
    history: int = 10,
    gradient_tolerance: float = 1e-5,
    value_tolerance: float = 1e-9,
    device: tg.DeviceName = "auto",
) -> Minimum:
    """Minimizes a function of all data by L-BFGS, with a line search for the strong Wolfe conditions.

    The function must be deterministic and smooth, so its data is the whole data set, passed as `args`. The value never
    increases. In f32 the last digits of a value are noise, at which the search ends, so f64 reaches smaller gradients.

    Args:
        function: Called as `function(point, *args)`; returns a float scalar.
        start: Where to start: a pytree of float arrays, or an initialized model, whose frozen parameters stay as they
            are.
        *args: Pytrees of arrays that the function takes besides.
        max_steps: The most steps.
        history: How many steps the approximation of the Hessian takes into account.
        gradient_tolerance: It has converged when no element of the gradient is larger than this.
        value_tolerance: It has converged when a step lowers the value by no more than this, relative to the value if
            that is larger than 1.
        device: Where the function runs, as for `tg.jit`.

    Returns:
        The minimum, and how it was found.

    Raises:
        OptionError: A setting is out of range, or there is nothing to change in the start.
        DivergenceError: The value or the gradient at the start is not finite.
        ParameterError: A model is declared, and has no values.
        ShapeError, DTypeError, TraceError: The function does not return a float scalar, or can't be traced.

    Example:
        >>> rosenbrock = lambda p: (1 - p["x"]) ** 2 + 100 * (p["y"] - p["x"] ** 2) ** 2
        >>> lowest = tg.optim.minimize(rosenbrock, {"x": -1.2, "y": 1.0}, device="numpy")
        >>> round(float(lowest.point["x"]), 2), lowest.converged
        (1.0, True)
    """
    check_function(function, "minimize")
    max_steps = checked_integer(max_steps, "minimize: max_steps", 1)
    history = checked_integer(history, "minimize: history", 1)
    gradient_tolerance = checked("minimize", "gradient_tolerance", gradient_tolerance)
    value_tolerance = checked("minimize", "value_tolerance", value_tolerance)
    problem = _Problem(function, start, args, device)
    current = problem.trial(problem.start)
    if not (math.isfinite(current.value) and np.all(np.isfinite(current.gradient))):
        raise DivergenceError(f"minimize: {function_name(function)}() or its gradient is not finite at the start")
    hessian = _InverseHessian(history)
    steps, reason = 0, ""
    while not reason:
        if current.gradient_norm <= gradient_tolerance:
            reason = "the gradient is below gradient_tolerance"
        elif steps == max_steps:
            return problem.minimum(current, steps, False, "max_steps were taken")
        else:
            following = _next(problem, hessian, current)
            if following is None:
                return problem.minimum(
                    current, steps, False, "no step lowers the value: this is as precise as it can be"
                )
            steps += 1
            if current.value - following.value <= value_tolerance * max(abs(current.value), abs(following.value), 1.0):
                reason = "the value changes by less than value_tolerance"
            current = following
    return problem.minimum(current, steps, True, reason)


@dataclass(frozen=True)
class _Trial:
    """The function at a point.

    Attributes:
        point: The parameters as one vector.
        value: The value.
        gradient: The gradient.
        length: The length of the step to it, in units of the direction.
        slope: The derivative of the value by that length.
    """

    point: NumpyArray
    value: float
    gradient: NumpyArray
    length: float = 0.0
    slope: float = 0.0

    @property
    def gradient_norm(self) -> float:
        """The largest absolute element of the gradient."""
        return float(np.max(np.abs(self.gradient)))


class _Problem:
    """A function of a tree as one of a vector.

    Args:
        function: The function.
        start: The tree.
        args: Its other arguments.
        device: Where it runs.

    Attributes:
        start: The first point.
        evaluations: How often it was evaluated.
    """

    def __init__(self, function: Callable[..., Any], start: Any, args: Sequence[Any], device: tg.DeviceName):
        self._tree, self._args = start, [_held(argument) for argument in args]
        leaves, self._rebuild = trees.flatten(start)
        self._arrays = [np.array(leaf) if isinstance(leaf, Array) else as_array(leaf) for leaf in leaves]
        self._free = [place for place, leaf in enumerate(leaves) if getattr(leaf, "trainable", True)]
        self._fixed = [Array(array) for place, array in enumerate(self._arrays) if place not in self._free]
        if not sum(self._arrays[place].size for place in self._free):
            raise OptionError("minimize: the start has no elements to change")

        def of_free(free: Sequence[Any], fixed: Sequence[Any], *args: Any) -> Any:
            return function(self._rebuild(self._filled(free, fixed)), *args)

        of_free.__name__ = function_name(function)
        self._both = tg.jit(tg.value_and_grad(of_free), device=device)
        self.evaluations = 0
        self.start = self._joined([self._arrays[place] for place in self._free])

    def trial(self, point: NumpyArray, length: float = 0.0, direction: NumpyArray | None = None) -> _Trial:
        """Evaluates the function at a point, rounded to the dtypes of the tree."""
        self.evaluations += 1
        free = self._split(point)
        value, gradients = self._both(free, self._fixed, *self._args)
        gradient = self._joined(gradients)
        slope = 0.0 if direction is None else float(gradient @ direction)
        return _Trial(self._joined(free), float(value), gradient, length, slope)

    def minimum(self, best: _Trial, steps: int, converged: bool, reason: str) -> Minimum:
        """Returns the result for a point."""
        leaves = self._filled(self._split(best.point), self._fixed)
        if isinstance(self._tree, Module):
            point = self._tree.initialized(values=dict(zip(self._tree.tree_names(), leaves, strict=True)))
        else:
            point = self._rebuild(leaves)
        return Minimum(point, best.value, best.gradient_norm, steps, self.evaluations, converged, reason)

    def _filled(self, free: Sequence[Any], fixed: Sequence[Any]) -> list[Any]:
        """Returns all leaves of the tree from those that change and those that don't."""
        changing, rest = iter(free), iter(fixed)
        return [next(changing) if place in self._free else next(rest) for place in range(len(self._arrays))]

    def _split(self, point: NumpyArray) -> list[Array]:
        arrays = [self._arrays[place] for place in self._free]
        ends = np.cumsum([array.size for array in arrays])[:-1]
        with np.errstate(over="ignore"):  # too long a step
            parts = zip(np.split(point, ends), arrays, strict=True)
            return [Array(part.reshape(array.shape).astype(array.dtype)) for part, array in parts]

    @staticmethod
    def _joined(arrays: Sequence[Any]) -> NumpyArray:
        return np.concatenate([np.asarray(array, np.float64).reshape(-1) for array in arrays])


def _held(argument: Any) -> Any:
    """Returns a tree of arrays that stay on the device from call to call."""
    leaves, rebuild = trees.flatten(argument)
    return rebuild([leaf if isinstance(leaf, Array) else Array(as_array(leaf)) for leaf in leaves])


class _InverseHessian:
    """An approximation of the inverse Hessian by the last steps and the changes of the gradient along them.

    Args:
        history: The number of steps.
    """

    def __init__(self, history: int):
        self._pairs: deque[tuple[NumpyArray, NumpyArray, float]] = deque(maxlen=history)

    def add(self, step: NumpyArray, change: NumpyArray) -> None:
        """Adds a step, unless the function is not convex along it."""
        curvature = float(step @ change)
        if curvature > CAUTION * float(change @ change):
            self._pairs.append((step, change, 1 / curvature))

    def clear(self) -> bool:
        """Forgets all steps; returns whether there were any."""
        known = bool(self._pairs)
        self._pairs.clear()
        return known

    def times(self, gradient: NumpyArray) -> NumpyArray:
        """Returns the product with a vector: the two-loop recursion (algorithm 7.4)."""
        result, factors = gradient.copy(), list[float]()
        for step, change, inverse in reversed(self._pairs):
            factors.append(inverse * float(step @ result))
            result -= factors[-1] * change
        if self._pairs:
            step, change, _ = self._pairs[-1]
            result *= float(step @ change) / float(change @ change)  # (7.20)
        else:
            result *= min(1.0, 1.0 / float(np.sum(np.abs(gradient))))  # a first step of length 1 at most
        for (step, change, inverse), factor in zip(self._pairs, reversed(factors), strict=True):
            result += (factor - inverse * float(change @ result)) * step
        return result


def _next(problem: _Problem, hessian: _InverseHessian, current: _Trial) -> _Trial | None:
    """Returns the point after a step; `None` if none lowers the value, also without what was known of the Hessian."""
    is_known = True
    while is_known:
        direction = -hessian.times(current.gradient)
        slope = float(current.gradient @ direction)
        following = None if not slope < 0 else _searched(problem, current, direction, slope)
        if following is not None and following.value < current.value:
            hessian.add(following.point - current.point, following.gradient - current.gradient)
            return following
        is_known = hessian.clear()
    return None


def _searched(problem: _Problem, current: _Trial, direction: NumpyArray, slope: float) -> _Trial:
    """Returns a point along a direction that satisfies the strong Wolfe conditions (algorithms 3.5 and 3.6).

    If there is none within `MOST_TRIALS`, it is the lowest that satisfies the first of them, or the start.
    """
    low, high = _Trial(current.point, current.value, current.gradient, 0.0, slope), None

    def is_low(trial: _Trial) -> bool:
        return trial.value <= current.value + DECREASE * trial.length * slope and trial.value < low.value

    length = 1.0
    for _ in range(MOST_TRIALS):
        trial = problem.trial(current.point + length * direction, length, direction)
        if np.array_equal(trial.point, low.point):  # no number is between them
            break
        if not is_low(trial):  # also if it is not a number
            high = trial
        elif abs(trial.slope) <= -CURVATURE * slope:
            return trial
        else:
            ahead = 1.0 if high is None else high.length - low.length
            if trial.slope * ahead >= 0:  # the value rises ahead, so the minimum is behind
                high = low
            low = trial
        length = 2 * length if high is None else _between(low, high)
    return low


def _between(low: _Trial, high: _Trial) -> float:
    """Returns the minimum of the cubic through two points (3.59), kept away from both; their middle if it has none."""
    width = high.length - low.length
    with np.errstate(all="ignore"):
        first = low.slope + high.slope - 3 * (low.value - high.value) / -width
        root = np.sqrt(np.float64(first) ** 2 - low.slope * high.slope) * np.sign(width)
        length = high.length - width * (high.slope + root - first) / (high.slope - low.slope + 2 * root)
    if not np.isfinite(length):
        return low.length + width / 2
    share = (float(length) - low.length) / width
    return low.length + width * min(max(share, LEAST_SHARE), 1 - LEAST_SHARE)
