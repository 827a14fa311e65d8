"""Assertions for tests: derivatives compared with central differences, and values compared within a tolerance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from tensorgrad.errors import DTypeError, OptionError
from tensorgrad.runtime.conversion import kind_of
from tensorgrad.surface.calls import publish
from tensorgrad.tracing import trees
from tensorgrad.tracing.checks import checked_integer
from tensorgrad.tracing.dtypes import NAMES, SHORT, is_float
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Array, Tensor
from tensorgrad.tracing.tracer import as_array
from tensorgrad.transforms.jacobian import jvp, vjp

__all__ = ["assert_close", "check_grads"]

NumpyArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Flat: TypeAlias = Callable[..., tuple[Tensor, ...]]
"""A function from float tensors to float tensors."""

MODES = ("rev", "fwd")
STEPS = (2e-3, 1e-3, 5e-4)
"""The steps of central differences, which are extrapolated to sixth order."""

TOLERANCES: dict[str, tuple[float, float]] = {
    "f16": (1e-3, 1e-5),
    "f32": (1.3e-6, 1e-5),
    "f64": (1e-7, 1e-7),
}
"""The relative and absolute tolerances, which are PyTorch's; other dtypes have to be equal."""


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[str] = MODES,
    rtol: float = 1e-6,
    atol: float = 1e-6,
) -> None:
    """Compares the derivatives of a function with central differences, in f64 on the reference.

    Derivatives are taken along a random direction of each float tensor, the same on every run, so that an error in a
    single element is detected. A derivative of higher order is compared with differences of the next lower one, in each
    combination of modes. A function that computes in f32 internally needs larger tolerances; near a kink, central
    differences are wrong, and no tolerance helps.

    Args:
        f: A function from pytrees of tensors to a pytree of tensors, of which at least one is a float.
        args: Its arguments. Floats are converted to f64; others are passed unchanged.
        order: The highest order of derivatives to check, at least 1.
        modes: The modes to check: "rev" for `tg.vjp`, "fwd" for `tg.jvp`, or both.
        rtol: The tolerance relative to the differences.
        atol: The absolute tolerance, which is added.

    Raises:
        AssertionError: A derivative differs, or is not finite; names the order, the modes and the argument.
        OptionError: `order` is not a positive integer, or a mode is unknown.
        DTypeError: No argument or no result is a float.

    Example:
        >>> tg.testing.check_grads(lambda x: tg.sin(x) * x, (tg.array([0.5, -1.0]),))
    """
    order = checked_integer(order, "check_grads: order", 1)
    if isinstance(modes, str) or not modes or any(mode not in MODES for mode in modes):
        raise OptionError(f"check_grads: modes are some of {', '.join(MODES)}, not {modes!r}")
    leaves, rebuild = trees.flatten(tuple(args))
    moving = [place for place, leaf in enumerate(leaves) if _holds_floats(leaf)]
    if not moving:
        raise DTypeError("check_grads: no argument holds floats")

    def flat(*floats: Tensor) -> tuple[Tensor, ...]:
        values = list(leaves)
        for place, value in zip(moving, floats, strict=True):
            values[place] = value
        return _floats(f(*rebuild(values)))

    points = [np.asarray(as_array(leaves[place]), np.float64) for place in moving]
    if not flat(*map(Array, points)):
        raise DTypeError("check_grads: no result is a float")
    paths = trees.paths(tuple(args))
    titles = [_title(*paths[place].partition(".")) for place in moving]
    _Check(titles, tuple(modes), rtol, atol).run(flat, points, (), order)


def _holds_floats(leaf: Any) -> bool:
    is_array = isinstance(leaf, Tensor | np.ndarray | np.generic)
    return isinstance(leaf, float) or (is_array and is_float(leaf.dtype))


def _title(argument: str, dot: str, rest: str) -> str:
    return f"args[{argument}]{dot}{rest}"


def _floats(tree: Any) -> tuple[Tensor, ...]:
    tensors = [leaf if isinstance(leaf, Tensor) else Array(as_array(leaf)) for leaf in trees.flatten(tree)[0]]
    return tuple(leaf for leaf in tensors if is_float(leaf.dtype))


class _Check:
    """A comparison of derivatives with central differences.

    Attributes:
        titles: The arguments' names in error messages.
        modes: The modes to check.
        rtol: The relative tolerance.
        atol: The absolute tolerance.
    """

    def __init__(self, titles: Sequence[str], modes: tuple[str, ...], rtol: float, atol: float):
        self.titles, self.modes, self.rtol, self.atol = titles, modes, rtol, atol
        self._random = np.random.default_rng(0)

    def run(self, function: Flat, points: Sequence[NumpyArray], below: tuple[str, ...], order: int) -> None:
        """Checks the first derivative of a function, then recursively the derivatives of that, in each mode.

        Args:
            function: The function: the user's, differentiated in the modes `below`.
            points: The point to differentiate at.
            below: The modes of the derivatives taken so far, innermost first.
            order: The number of derivatives still to take.
        """
        results = [np.asarray(result) for result in function(*map(Array, points))]
        weights = [Array(self._direction(result.shape)) for result in results]
        pullback = self._pullback(function, weights)
        gradients = [np.asarray(gradient) for gradient in pullback(*map(Array, points))] if "rev" in self.modes else []
        for place, title in enumerate(self.titles):
            direction = self._direction(points[place].shape)
            expected = self._differences(function, points, place, direction)
            projected = sum(float(np.sum(np.asarray(w) * e)) for w, e in zip(weights, expected, strict=True))
            for mode in self.modes:
                if mode == "rev":
                    self._compare([gradients[place] * direction], [projected], (*below, mode), title)
                else:
                    moved = [np.zeros_like(point) for point in points]
                    moved[place] = direction
                    tangents = self._pushed(function, [Array(point) for point in moved])(*map(Array, points))
                    measured = [np.asarray(tangent) for tangent in tangents]
                    self._compare(measured, expected, (*below, mode), title)
        if order > 1:
            directions = [Array(self._direction(point.shape)) for point in points]
            derivatives = {"rev": pullback, "fwd": self._pushed(function, directions)}
            for mode in self.modes:
                self.run(derivatives[mode], points, (*below, mode), order - 1)

    def _direction(self, shape: tuple[int, ...]) -> NumpyArray:
        return np.asarray(self._random.normal(size=shape))

    def _pullback(self, function: Flat, weights: Sequence[Tensor]) -> Flat:
        """Returns the gradient of a weighted sum of a function's results."""
        return lambda *at: tuple(vjp(function, *at)[1](tuple(weights)))

    def _pushed(self, function: Flat, directions: Sequence[Tensor]) -> Flat:
        """Returns the directional derivative of a function along directions of its arguments."""
        return lambda *at: jvp(function, at, directions)[1]

    def _differences(
        self, function: Flat, points: Sequence[NumpyArray], place: int, direction: NumpyArray
    ) -> list[NumpyArray]:
        """Returns the derivative of each result along a direction of one argument, by central differences."""

        def at(by: float) -> list[NumpyArray]:
            moved = [np.asarray(x + by * direction) if i == place else x for i, x in enumerate(points)]
            return [np.asarray(result) for result in function(*map(Array, moved))]

        first, second, third = (
            [(above - beneath) / (2 * step) for above, beneath in zip(at(step), at(-step), strict=True)]
            for step in STEPS
        )
        return [(64 * c - 20 * b + a) / 45 for a, b, c in zip(first, second, third, strict=True)]

    def _compare(self, actual: Sequence[Any], expected: Sequence[Any], modes: tuple[str, ...], title: str) -> None:
        if modes[-1] == "rev":
            actual = [np.sum(actual[0])]
        for number, (derivative, other) in enumerate(zip(actual, expected, strict=True)):
            allowed = self.atol + self.rtol * np.abs(other)
            wrong = ~(np.abs(derivative - other) <= allowed)
            if not np.any(wrong):
                continue
            where = np.unravel_index(int(np.argmax(wrong)), np.shape(derivative))
            element = f" of element {tuple(map(int, where))} of result {number}" if modes[-1] == "fwd" else ""
            raise AssertionError(
                f"{user_line()}: check_grads: derivative {len(modes)} ({' of '.join(reversed(modes))}){element} by "
                f"{title}, along a random direction, is {np.asarray(derivative)[where]:.9g}; central differences are "
                f"{np.asarray(other)[where]:.9g}, and {np.asarray(allowed)[where]:.2g} is allowed between them"
            )


def assert_close(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None, equal_nan: bool = False
) -> None:
    """Compares tensors, or trees of them: structure, shapes, and `|actual - expected| <= atol + rtol * |expected|`.

    Args:
        actual: A tensor, or a pytree of tensors. A list is a tensor if the other argument is one, else a pytree.
        expected: The expected values; dtypes may differ.
        rtol: The relative tolerance. If neither tolerance is given, it depends on the coarser dtype of two floats: 1e-3
            for f16, 1.3e-6 for f32 and 1e-7 for f64; 0 unless both are floats. If only `atol` is given, it is 0.
        atol: The absolute tolerance. If neither is given, 1e-5 for f16 and f32, 1e-7 for f64, and 0 unless both are
            floats. If only `rtol` is given, it is 0.
        equal_nan: Whether NaN equals NaN.

    Raises:
        AssertionError: They differ; names the leaf, the number of such elements, and the largest difference with its
            index.

    Example:
        >>> tg.testing.assert_close({"x": tg.sin(0.5)}, {"x": 0.4794255})
    """
    if _is_tensor(actual) and isinstance(expected, list):
        expected = np.asarray(expected)
    if _is_tensor(expected) and isinstance(actual, list):
        actual = np.asarray(actual)
    if trees.structure(actual) != trees.structure(expected):
        raise AssertionError(
            f"{user_line()}: assert_close: the trees differ: leaves {_listed(actual)}, expected {_listed(expected)}"
        )
    parts = trees.flatten(actual)[0], trees.flatten(expected)[0]
    problems = [
        f"{f'{path!r}: ' if path else ''}{problem}"
        for path, value, other in zip(trees.paths(actual), *parts, strict=True)
        for problem in _problems(np.asarray(value), np.asarray(other), rtol, atol, equal_nan)
    ]
    if problems:
        raise AssertionError(f"{user_line()}: assert_close: {'; '.join(problems)}")


def _is_tensor(x: Any) -> bool:
    return isinstance(x, Tensor | np.ndarray)


def _listed(tree: Any) -> str:
    return ", ".join(path or "the tensor itself" for path in trees.paths(tree)) or "none"


def _problems(
    actual: NumpyArray, expected: NumpyArray, rtol: float | None, atol: float | None, equal_nan: bool
) -> Iterator[str]:
    """Yields the error messages about one tensor: at most one."""
    if actual.shape != expected.shape:
        yield f"shape {actual.shape}, expected {expected.shape}"
        return
    relative, absolute = _tolerances(actual, expected, rtol, atol)
    with np.errstate(all="ignore"):
        computed, other = actual.astype(np.float64), expected.astype(np.float64)
        error = np.where(computed == other, 0.0, np.abs(computed - other))
        wrong = ~(error <= absolute + relative * np.abs(other)) | (np.isinf(other) & (computed != other))
        wrong &= ~(np.isnan(computed) & np.isnan(other)) if equal_nan else True
        if not wrong.any():
            return
        count = int(wrong.sum())
        yield (
            f"{count} of {wrong.size} elements differ ({100 * count / wrong.size:.3g}%); the greatest difference is "
            f"{_greatest(error, wrong, actual, expected)}, relative "
            f"{_greatest(error / np.abs(other), wrong, actual, expected)}; "
            f"allowed are rtol={relative:g}, atol={absolute:g}"
        )


def _greatest(size: NumpyArray, wrong: NumpyArray, actual: NumpyArray, expected: NumpyArray) -> str:
    """Returns the largest error among the wrong elements as text, with its index and values; NaN counts as largest."""
    place = np.unravel_index(
        int(np.argmax(np.where(wrong, np.nan_to_num(size, nan=np.inf, posinf=np.inf), -1.0))), size.shape
    )
    where = f" at {tuple(map(int, place))}" if place else ""
    return f"{size[place]:.3g}{where}: {actual[place]!s}, expected {expected[place]!s}"


def _tolerances(
    actual: NumpyArray, expected: NumpyArray, rtol: float | None, atol: float | None
) -> tuple[float, float]:
    if rtol is not None or atol is not None:
        return rtol or 0.0, atol or 0.0
    if kind_of(actual.dtype) != "f" or kind_of(expected.dtype) != "f":
        return 0.0, 0.0
    coarser = min(actual.dtype, expected.dtype, key=lambda dtype: dtype.itemsize)
    return TOLERANCES[SHORT.get(coarser, SHORT[NAMES["f64"]])]


publish(globals())
