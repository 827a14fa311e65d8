"""The numbers of the figures of docs/learn, computed by the library when the site is built.

Each function returns the data of one figure, ready for JSON: arrays are lists of numbers in row-major order.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np

import tensorgrad as tg

Data: TypeAlias = dict[str, Any]

OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = {"add": tg.add, "mul": tg.multiply}

SHAPES: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "A column and a row": ((3, 1), (4,)),
    "A bias for a batch": ((3, 4), (4,)),
    "A scalar": ((2, 3), ()),
    "Three axes": ((2, 1, 3), (4, 1)),
    "Nothing to stretch": ((2, 3), (2, 3)),
    "Shapes that do not fit": ((3, 2), (4, 2)),
}
"""The pairs of shapes that the figure of broadcasting offers."""

REDUCTIONS: Mapping[str, Callable[..., Any]] = {"sum": tg.sum, "mean": tg.mean, "max": tg.max}

REDUCED: Mapping[str, Any] = {
    "A matrix": [[3, 1, 4, 2], [5, 9, 2, 6], [7, 3, 8, 0]],
    "Ties": [[3, 7, 7, 2], [5, 5, 2, 5], [7, 1, 0, 5]],
    "Three axes": [[[2, 7, 1], [8, 2, 8]], [[1, 8, 2], [8, 4, 5]]],
}
"""The inputs of the figure of reductions."""

PRODUCTS: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "Two matrices": ((2, 3), (3, 4)),
    "A batch of matrices": ((2, 2, 3), (2, 3, 2)),
    "A batch, and one matrix for all": ((2, 2, 3), (3, 2)),
}
"""The pairs of shapes that the figure of products offers."""

FORMULAS: Mapping[str, Mapping[str, float]] = {
    "x * y + sin(x)": {"x": 2, "y": 3},
    "(x + y) * (x - y)": {"x": 3, "y": 2},
    "exp(x * y) / (1 + exp(x * y))": {"x": 0.5, "y": 1},
    "(tanh(w * x + b) - y)^2": {"w": 0.5, "x": 2, "b": -0.5, "y": 1},
    "log(x^2 + y^2)": {"x": 1, "y": 2},
}
"""The formulas that the figure of graphs offers, and the values of their names."""

BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}

WINDOWS: Mapping[str, tuple[int, int, int, int, int]] = {
    "A window": (5, 3, 1, 0, 1),
    "Padding keeps the size": (5, 3, 1, 1, 1),
    "Stride 2": (6, 2, 2, 0, 1),
    "Stride 2 with padding": (6, 3, 2, 1, 1),
    "Dilation 2": (7, 3, 1, 0, 2),
}
"""The convolutions that a figure offers: extents of image and window, stride, padding, dilation."""

WORDS = ("the", "cat", "sat", "on", "it")


def numbers(array: Any) -> list[float | str]:
    """Returns the elements of an array in row-major order, with seven digits; infinities are text, as JSON has none."""
    elements = np.asarray(array).reshape(-1).tolist()
    return [float(f"{element:.7g}") if np.isfinite(element) else str(element) for element in elements]


def counted(shape: Sequence[int], step: float) -> np.ndarray:
    """Returns a float32 array of a shape with the elements `step, 2 * step, …` in row-major order."""
    count = int(np.prod(shape, dtype=int))
    return (np.arange(1, count + 1, dtype=np.float32) * np.float32(step)).reshape(shape)


def message(call: Callable[[], Any]) -> str:
    """Returns the message of the error that a call raises, without the location."""
    try:
        call()
    except tg.errors.ShapeError as error:
        return re.sub(r"^.*?:\d+: ", "", str(error))
    raise AssertionError("the library accepts what a figure shows as an error")


def broadcasting() -> Data:
    """Returns sums and products of arrays whose shapes broadcast, and the gradients of the sum of each result."""
    presets = []
    for name, (a, b) in SHAPES.items():
        preset: Data = {"name": name, "a": a, "b": b}
        x, y = counted(a, 1), counted(b, 10)
        for operation, function in OPERATIONS.items() if name != "Shapes that do not fit" else ():
            result, pullback = tg.vjp(function, x, y)
            gradients = pullback(np.ones(result.shape, np.float32))
            names = ("a", "b", "result", "da", "db")
            arrays = (x, y, result, *gradients)
            preset[operation] = {key: numbers(value) for key, value in zip(names, arrays, strict=True)}
            preset[operation]["shape"] = result.shape
        presets.append(preset)
    return {"presets": presets, "message": {name: _misfit(function) for name, function in OPERATIONS.items()}}


def _misfit(function: Callable[[Any, Any], Any]) -> str:
    """Returns the message about incompatible shapes, with {a} and {b} in their place."""
    said = message(lambda: function(np.ones((3, 2)), np.ones((4, 2))))
    return said.replace("(3, 2)", "{a}").replace("(4, 2)", "{b}")


def reductions() -> Data:
    """Returns sums, means and maxima of arrays over every set of axes, and the cotangent of each element."""
    return {"inputs": [{"name": name, **_reduced(np.array(x, np.float32))} for name, x in REDUCED.items()]}


def _reduced(x: np.ndarray) -> Data:
    cases = {}
    for kind, reduce in REDUCTIONS.items():
        for axes in (axes for count in range(1, x.ndim + 1) for axes in combinations(range(x.ndim), count)):
            result, pullback = tg.vjp(lambda x, reduce=reduce, axes=axes: reduce(x, axis=axes), x)
            cotangent = counted(result.shape, 1)
            (gradient,) = pullback(cotangent)
            cases[f"{kind} {','.join(map(str, axes))}"] = {
                "shape": result.shape,
                "kept": reduce(x, axis=axes, keepdims=True).shape,
                "result": numbers(result),
                "cotangent": numbers(cotangent),
                "gradient": numbers(gradient),
            }
    return {"shape": x.shape, "x": numbers(x), "cases": cases}


def matmul() -> Data:
    """Returns products of matrices and of batches of them, and the gradients by both operands for a cotangent."""
    presets = []
    for name, (a, b) in PRODUCTS.items():
        x, y = small(a, 3), small(b, 5)
        product, pullback = tg.vjp(tg.matmul, x, y)
        cotangent = small(product.shape, 7)
        arrays = {"A": x, "B": y, "C": product, "dC": cotangent}
        arrays |= dict(zip(("dA", "dB"), pullback(cotangent), strict=True))
        presets.append({"name": name, **{key: _array(value) for key, value in arrays.items()}})
    return {"presets": presets}


def small(shape: Sequence[int], seed: int) -> np.ndarray:
    """Returns whole numbers from -2 to 3 in float32, the same for a seed on every run."""
    return np.random.default_rng(seed).integers(-2, 4, shape).astype(np.float32)


def _array(array: Any) -> Data:
    return {"shape": array.shape, "values": numbers(array)}


def graph() -> Data:
    """Returns formulas, and for each node of their graphs its value and the derivative of the result by it."""
    return {
        "presets": [
            {"formula": formula, "inputs": inputs, "nodes": _nodes(formula, inputs)}
            for formula, inputs in FORMULAS.items()
        ]
    }


def _nodes(formula: str, inputs: Mapping[str, float]) -> list[Data]:
    """Evaluates the nodes of a formula in topological order, and differentiates its result with respect to each."""
    tree = ast.parse(formula.replace("^", "**"), mode="eval").body
    names: list[str] = []
    values: list[float] = []

    def evaluate(nudges: Any) -> Any:
        names.clear()
        values.clear()
        return _evaluated(tree, inputs, nudges, names, values, {})

    evaluate(np.zeros(len(list(ast.walk(tree))), np.float32))
    nudges = np.zeros(len(names), np.float32)
    results = [float(value) for value in values]
    gradients = numbers(tg.grad(evaluate)(nudges))
    described = zip(names, numbers(results), gradients, strict=True)
    return [{"name": name, "value": value, "gradient": gradient} for name, value, gradient in described]


def _evaluated(
    node: ast.expr, inputs: Mapping[str, float], nudges: Any, names: list[str], values: list[Any], seen: dict[str, Any]
) -> Any:
    """Returns the value of a formula's node, plus a nudge; all occurrences of a name are one node."""
    if isinstance(node, ast.Name) and node.id in seen:
        return seen[node.id]
    match node:
        case ast.Name(id=name):
            value = np.float32(inputs[name])
        case ast.Constant(value=float() | int() as value):
            name, value = str(value), np.float32(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            name, value = "neg", -_evaluated(operand, inputs, nudges, names, values, seen)
        case ast.BinOp(op=ast.Pow(), left=base, right=ast.Constant(value=int() as exponent)):
            name, value = f"^{exponent}", _evaluated(base, inputs, nudges, names, values, seen) ** exponent
        case ast.BinOp(op=op, left=left, right=right):
            name = SIGNS[type(op)]
            operands = [_evaluated(operand, inputs, nudges, names, values, seen) for operand in (left, right)]
            value = BINARY[name](*operands)
        case ast.Call(func=ast.Name(id=name), args=[operand]):
            value = getattr(tg, name)(_evaluated(operand, inputs, nudges, names, values, seen))
        case _:
            raise ValueError(f"{ast.dump(node)} is not supported in the formula of a figure")
    value = value + nudges[len(names)]
    names.append(name)
    values.append(value)
    if isinstance(node, ast.Name):
        seen[node.id] = value
    return value


def convolution() -> Data:
    """Returns convolutions of one image by one kernel, with the gradients of the sum of the result."""
    presets = []
    for name, (size, window, stride, padding, dilation) in WINDOWS.items():
        x = (np.arange(size * size) * 3 % 10).astype(np.float32).reshape(1, 1, size, size)
        w = (np.arange(window * window) * 2 % 5 - 2).astype(np.float32).reshape(1, 1, window, window)
        options = {"stride": stride, "padding": padding, "dilation": dilation}
        y, pullback = tg.vjp(lambda x, w, options=options: tg.conv2d(x, w, **options), x, w)
        dx, dw = pullback(np.ones(y.shape, np.float32))
        arrays = {"x": x, "w": w, "y": y, "dx": dx, "dw": dw}
        presets.append(
            {"name": name, "size": size, "window": window, **options}
            | {key: _array(np.asarray(value)[0, 0]) for key, value in arrays.items()}
        )
    said = message(lambda: tg.conv2d(np.ones((1, 1, 3, 3)), np.ones((1, 1, 5, 5))))
    for number, place in (
        ("of 5", "of {window}"),
        ("extent 3", "extent {size}"),
        ("0 and 0", "{padding} and {padding}"),
    ):
        said = said.replace(number, place)
    return {"presets": presets, "message": said}


def attention() -> Data:
    """Returns attention of a few words among each other, step by step, under different masks."""
    count, width = len(WORDS), 3
    generator = np.random.default_rng(4)
    q, k, v = (generator.normal(size=(count, width)).round(1).astype(np.float32) for _ in range(3))
    scores = tg.matmul(q, k.T) / np.sqrt(width)
    position = np.arange(count)
    masks = {
        "No mask": np.ones((count, count), bool),
        "Causal": np.asarray(tg.causal_mask(count)),
        "Causal, two words back": np.asarray(tg.causal_mask(count)) & (position[:, None] - position < 2),
        "The last word is padding": np.broadcast_to(position < count - 1, (count, count)),
    }
    cases = []
    for name, mask in masks.items():
        weights = tg.softmax(scores, axis=-1, where=mask)
        masked = tg.where(mask, scores, -np.inf)
        arrays = {"mask": mask.astype(int), "masked": masked, "weights": weights, "out": tg.matmul(weights, v)}
        cases.append({"name": name, **{key: numbers(value) for key, value in arrays.items()}})
    arrays = {"q": q, "k": k, "v": v, "scores": scores}
    return {"words": WORDS, "width": width, "cases": cases, **{key: numbers(value) for key, value in arrays.items()}}


FIGURES: Mapping[str, Callable[[], Data]] = {
    "broadcasting": broadcasting,
    "reductions": reductions,
    "matmul": matmul,
    "graph": graph,
    "convolution": convolution,
    "attention": attention,
}
"""The functions that compute the data of each figure, by its name in docs/learn."""
