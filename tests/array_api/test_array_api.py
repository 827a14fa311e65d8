"""The Array API namespace: names and signatures, and every function compared with NumPy's of that name."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from array_api_samples import (
    CUBE,
    DTYPES,
    FLOATS,
    INTEGERS,
    MATRICES,
    PAIRS,
    POSITIVE,
    REPEATED,
    ROW,
    SPECIAL,
    SQUARE,
    TRUTHS,
)

import tensorgrad as tg
from tensorgrad import array_api as xp
from tensorgrad.errors import TraceError

UNARY = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bitwise_invert",
    "ceil",
    "conj",
    "cos",
    "cosh",
    "exp",
    "expm1",
    "floor",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log10",
    "log1p",
    "log2",
    "logical_not",
    "negative",
    "positive",
    "real",
    "reciprocal",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
]

BINARY = [
    "add",
    "atan2",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "copysign",
    "divide",
    "equal",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "less",
    "less_equal",
    "logaddexp",
    "logical_and",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "nextafter",
    "not_equal",
    "pow",
    "remainder",
    "subtract",
]

SIGNATURES = {
    **dict.fromkeys(UNARY, "x, /"),
    **dict.fromkeys(BINARY, "x1, x2, /"),
    "__array_namespace_info__": "",
    "all": "x, /, *, axis=None, keepdims=False",
    "any": "x, /, *, axis=None, keepdims=False",
    "arange": "start, /, stop=None, step=1, *, dtype=None, device=None",
    "argmax": "x, /, *, axis=None, keepdims=False",
    "argmin": "x, /, *, axis=None, keepdims=False",
    "argsort": "x, /, *, axis=-1, descending=False, stable=True",
    "asarray": "obj, /, *, dtype=None, device=None, copy=None",
    "astype": "x, dtype, /, *, copy=True, device=None",
    "broadcast_arrays": "*arrays",
    "broadcast_shapes": "*shapes",
    "broadcast_to": "x, /, shape",
    "can_cast": "from_, to, /",
    "clip": "x, /, min=None, max=None",
    "concat": "arrays, /, *, axis=0",
    "count_nonzero": "x, /, *, axis=None, keepdims=False",
    "cumulative_prod": "x, /, *, axis=None, dtype=None, include_initial=False",
    "cumulative_sum": "x, /, *, axis=None, dtype=None, include_initial=False",
    "diff": "x, /, *, axis=-1, n=1, prepend=None, append=None",
    "empty": "shape, *, dtype=None, device=None",
    "empty_like": "x, /, *, dtype=None, device=None",
    "expand_dims": "x, /, axis=0",
    "eye": "n_rows, n_cols=None, /, *, k=0, dtype=None, device=None",
    "finfo": "type, /",
    "flip": "x, /, *, axis=None",
    "from_dlpack": "x, /, *, device=None, copy=None",
    "full": "shape, fill_value, *, dtype=None, device=None",
    "full_like": "x, /, fill_value, *, dtype=None, device=None",
    "iinfo": "type, /",
    "isdtype": "dtype, kind",
    "isin": "x1, x2, /, *, invert=False",
    "linspace": "start, stop, /, num, *, dtype=None, device=None, endpoint=True",
    "matmul": "x1, x2, /",
    "matrix_transpose": "x, /",
    "max": "x, /, *, axis=None, keepdims=False",
    "mean": "x, /, *, axis=None, keepdims=False",
    "meshgrid": "*arrays, indexing='xy'",
    "min": "x, /, *, axis=None, keepdims=False",
    "moveaxis": "x, source, destination, /",
    "nonzero": "x, /",
    "ones": "shape, *, dtype=None, device=None",
    "ones_like": "x, /, *, dtype=None, device=None",
    "permute_dims": "x, /, axes",
    "prod": "x, /, *, axis=None, dtype=None, keepdims=False",
    "repeat": "x, repeats, /, *, axis=None",
    "reshape": "x, /, shape, *, copy=None",
    "result_type": "*arrays_and_dtypes",
    "roll": "x, /, shift, *, axis=None",
    "searchsorted": "x1, x2, /, *, side='left', sorter=None",
    "sort": "x, /, *, axis=-1, descending=False, stable=True",
    "squeeze": "x, /, axis",
    "stack": "arrays, /, *, axis=0",
    "std": "x, /, *, axis=None, correction=0.0, keepdims=False",
    "sum": "x, /, *, axis=None, dtype=None, keepdims=False",
    "take": "x, indices, /, *, axis=None",
    "take_along_axis": "x, indices, /, *, axis=-1",
    "tensordot": "x1, x2, /, *, axes=2",
    "tile": "x, repetitions, /",
    "tril": "x, /, *, k=0",
    "triu": "x, /, *, k=0",
    "unique_all": "x, /",
    "unique_counts": "x, /",
    "unique_inverse": "x, /",
    "unique_values": "x, /",
    "unstack": "x, /, *, axis=0",
    "var": "x, /, *, axis=None, correction=0.0, keepdims=False",
    "vecdot": "x1, x2, /, *, axis=-1",
    "where": "condition, x1, x2, /",
    "zeros": "shape, *, dtype=None, device=None",
    "zeros_like": "x, /, *, dtype=None, device=None",
}
"""The functions of the standard's version 2025.12, and what each takes."""

LINALG = {
    "cholesky": "x, /, *, upper=False",
    "det": "x, /",
    "inv": "x, /",
    "slogdet": "x, /",
    "solve": "x1, x2, /",
    "cross": "x1, x2, /, *, axis=-1",
    "diagonal": "x, /, *, offset=0",
    "eigh": "x, /",
    "eigvalsh": "x, /",
    "matmul": "x1, x2, /",
    "matrix_norm": "x, /, *, keepdims=False, ord='fro'",
    "matrix_power": "x, n, /",
    "matrix_rank": "x, /, *, rtol=None",
    "matrix_transpose": "x, /",
    "outer": "x1, x2, /",
    "pinv": "x, /, *, rtol=None",
    "qr": "x, /, *, mode='reduced'",
    "svd": "x, /, *, full_matrices=True",
    "svdvals": "x, /",
    "tensordot": "x1, x2, /, *, axes=2",
    "trace": "x, /, *, offset=0, dtype=None",
    "vecdot": "x1, x2, /, *, axis=-1",
    "vector_norm": "x, /, *, axis=None, keepdims=False, ord=2",
}

BESIDE_LINALG = ("lu_factor", "solve_triangular")
"""The functions that the standard lacks."""

CONSTANTS = {"e": math.e, "inf": math.inf, "nan": math.nan, "newaxis": None, "pi": math.pi}


def shown(function: Callable[..., Any]) -> str:
    parameters = [
        parameter.replace(annotation=parameter.empty) for parameter in inspect.signature(function).parameters.values()
    ]
    return str(inspect.Signature(parameters))[1:-1]


def agree(actual: Any, expected: Any, what: str, rtol: float = 1e-6) -> None:
    """Checks shape, values and kind of dtype; widths of integers and floats are those of tensorgrad."""
    if isinstance(expected, (tuple, list)):
        assert len(actual) == len(expected), what
        for result, correct in zip(actual, expected, strict=True):
            agree(result, correct, what, rtol)
        return
    assert isinstance(actual, tg.Array), what
    assert actual.shape == np.shape(expected), what
    assert actual.dtype.kind == np.asarray(expected).dtype.kind, what
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=rtol, atol=rtol / 10, err_msg=what)


def test_names_and_signatures() -> None:
    assert {name: shown(getattr(xp, name)) for name in SIGNATURES} == SIGNATURES
    assert {name: shown(getattr(xp.linalg, name)) for name in LINALG} == LINALG
    assert {*dir(xp.linalg)} == {*LINALG, *BESIDE_LINALG}
    dtypes = {*xp.__array_namespace_info__().dtypes(), "float16"}
    assert {*dir(xp)} == {*SIGNATURES, *CONSTANTS, *dtypes, "linalg", "__array_api_version__"}
    for name, value in CONSTANTS.items():
        np.testing.assert_equal(getattr(xp, name), value)
    for name in SIGNATURES:
        assert getattr(xp, name).__doc__ and getattr(xp, name).__name__ == name


WHOLE = [
    "abs",
    "ceil",
    "conj",
    "floor",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "negative",
    "positive",
    "real",
    "round",
    "sign",
    "signbit",
    "square",
    "trunc",
]
OF_FLOATS = ("atan2", "copysign", "divide", "hypot", "logaddexp", "nextafter")


def is_defined(name: str, dtype: str) -> bool:
    """Returns whether the standard defines an elementwise function for a dtype."""
    if name.startswith("logical_"):
        return dtype == "bool"
    if name.startswith("bitwise_"):
        return "int" in dtype or (dtype == "bool" and "shift" not in name)
    if dtype == "bool":
        return name in ("equal", "not_equal")
    return "float" in dtype or name in WHOLE or (name in BINARY and name not in OF_FLOATS)


def defined(names: Sequence[str]) -> list[tuple[str, str]]:
    return [pair for pair in itertools.product(names, DTYPES) if is_defined(*pair)]


def same_zeros(actual: Any, expected: Any, what: str) -> None:
    zeros = np.asarray(expected) == 0
    assert np.array_equal(np.signbit(np.asarray(actual)[zeros]), np.signbit(expected[zeros])), what


@pytest.mark.parametrize(("name", "dtype"), defined(UNARY))
def test_unary(name: str, dtype: str) -> None:
    source = SPECIAL if dtype.startswith("float") else TRUTHS if dtype == "bool" else INTEGERS
    values = source.astype(dtype)
    with np.errstate(all="ignore"):
        expected = values < 0 if name == "signbit" and "int" in dtype else getattr(np, name)(values)
    actual = getattr(xp, name)(tg.array(values, dtype))
    agree(actual, expected, name, {"float16": 2e-3, "float64": 1e-14}.get(dtype, 2e-6))
    if dtype.startswith("float"):
        same_zeros(actual, expected.astype(dtype), name)
    assert actual.dtype == expected.dtype


@pytest.mark.parametrize(("name", "dtype"), defined(BINARY))
def test_binary(name: str, dtype: str) -> None:
    kind = "bool" if dtype == "bool" else "int" if "int" in dtype else "float"
    left, right = (part.astype(dtype) for part in PAIRS[kind])
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(left, right)
    actual = getattr(xp, name)(tg.array(left, dtype), tg.array(right, dtype))
    rtol = {"float16": 2e-3, "float64": 1e-14}.get(dtype, 2e-6)
    exact = name in ("nextafter", "copysign", "equal", "add", "subtract", "multiply", "maximum", "minimum")
    agree(actual, expected, name, 0 if exact else rtol)
    if dtype.startswith("float") and (name, dtype) != ("nextafter", "float16"):  # NumPy's differs from its f32 there
        same_zeros(actual, expected.astype(dtype), name)
    assert actual.dtype == expected.dtype


Case = Callable[[Any, Callable[[Any], Any]], Any]
"""A call of a namespace's functions, NumPy's or ours, on arrays that a function makes."""

SHARED: dict[str, list[Case]] = {
    "all": [lambda m, a: m.all(a(TRUTHS)), lambda m, a: m.all(a(TRUTHS), axis=0, keepdims=True)],
    "any": [lambda m, a: m.any(a(TRUTHS), axis=(0, 1)), lambda m, a: m.any(a(TRUTHS), axis=-1)],
    "argmax": [lambda m, a: m.argmax(a(FLOATS)), lambda m, a: m.argmax(a(FLOATS), axis=0, keepdims=True)],
    "argmin": [lambda m, a: m.argmin(a(FLOATS)), lambda m, a: m.argmin(a(FLOATS), axis=1)],
    "argsort": [lambda m, a: m.argsort(a(REPEATED), axis=0), lambda m, a: m.argsort(a(REPEATED), stable=True)],
    "astype": [lambda m, a: m.astype(a(FLOATS), m.int32), lambda m, a: m.astype(a(TRUTHS), m.float64)],
    "broadcast_arrays": [lambda m, a: m.broadcast_arrays(a(FLOATS), a(ROW))],
    "broadcast_to": [lambda m, a: m.broadcast_to(a(ROW), (2, 1, 3))],
    "clip": [
        lambda m, a: m.clip(a(FLOATS), -0.5, a(ROW)),
        lambda m, a: m.clip(a(INTEGERS), 2, 5),
        lambda m, a: m.clip(a(FLOATS), max=0.0),
        lambda m, a: m.clip(a(FLOATS)),
    ],
    "concat": [
        lambda m, a: m.concat([a(FLOATS), a(SQUARE[0])], axis=1),
        lambda m, a: m.concat([a(FLOATS), a(ROW)], axis=None),
    ],
    "count_nonzero": [
        lambda m, a: m.count_nonzero(a(INTEGERS)),
        lambda m, a: m.count_nonzero(a(CUBE), axis=(0, 2), keepdims=True),
    ],
    "cumulative_prod": [
        lambda m, a: m.cumulative_prod(a(FLOATS), axis=1),
        lambda m, a: m.cumulative_prod(a(ROW), include_initial=True),
    ],
    "cumulative_sum": [
        lambda m, a: m.cumulative_sum(a(CUBE), axis=-2, include_initial=True),
        lambda m, a: m.cumulative_sum(a(TRUTHS), axis=0),
    ],
    "diff": [
        lambda m, a: m.diff(a(CUBE), axis=1, n=2),
        lambda m, a: m.diff(a(FLOATS), prepend=a(FLOATS), append=a(FLOATS)),
        lambda m, a: m.diff(a(TRUTHS), axis=0),
    ],
    "empty_like": [lambda m, a: m.multiply(m.empty_like(a(INTEGERS)), 0)],
    "expand_dims": [lambda m, a: m.expand_dims(a(ROW), axis=-1), lambda m, a: m.expand_dims(a(ROW), axis=(0, 2))],
    "flip": [lambda m, a: m.flip(a(CUBE)), lambda m, a: m.flip(a(CUBE), axis=(0, -1))],
    "full_like": [lambda m, a: m.full_like(a(INTEGERS), 4), lambda m, a: m.full_like(a(ROW), 2, dtype=m.int32)],
    "isin": [
        lambda m, a: m.isin(a(REPEATED), a(np.array([1, 3, 8]))),
        lambda m, a: m.isin(a(SPECIAL), a(SPECIAL[::2]), invert=True),
        lambda m, a: m.isin(a(REPEATED), a(np.array([], np.int32))),
    ],
    "matmul": [lambda m, a: m.matmul(a(SQUARE), a(FLOATS)), lambda m, a: m.matmul(a(INTEGERS), a(INTEGERS[0]))],
    "matrix_transpose": [lambda m, a: m.matrix_transpose(a(CUBE))],
    "max": [lambda m, a: m.max(a(CUBE), axis=(0, 1)), lambda m, a: m.max(a(INTEGERS), keepdims=True)],
    "mean": [lambda m, a: m.mean(a(CUBE), axis=1), lambda m, a: m.mean(a(FLOATS), keepdims=True)],
    "meshgrid": [lambda m, a: m.meshgrid(a(ROW), a(FLOATS[0]), indexing="ij"), lambda m, a: m.meshgrid(a(ROW), a(ROW))],
    "min": [lambda m, a: m.min(a(SPECIAL)), lambda m, a: m.min(a(CUBE), axis=2)],
    "moveaxis": [lambda m, a: m.moveaxis(a(CUBE), 0, -1), lambda m, a: m.moveaxis(a(CUBE), (0, 1), (2, 0))],
    "ones_like": [lambda m, a: m.ones_like(a(INTEGERS)), lambda m, a: m.ones_like(a(ROW), dtype=m.bool)],
    "permute_dims": [lambda m, a: m.permute_dims(a(CUBE), (2, 0, 1))],
    "prod": [lambda m, a: m.prod(a(FLOATS), axis=0), lambda m, a: m.prod(a(FLOATS), dtype=m.float64)],
    "repeat": [
        lambda m, a: m.repeat(a(FLOATS), 2, axis=0),
        lambda m, a: m.repeat(a(ROW), np.array([0, 2, 1])),
    ],
    "reshape": [lambda m, a: m.reshape(a(CUBE), (4, -1)), lambda m, a: m.reshape(a(CUBE), (24,), copy=True)],
    "roll": [lambda m, a: m.roll(a(CUBE), 2), lambda m, a: m.roll(a(CUBE), (1, -1), axis=(0, 2))],
    "searchsorted": [
        lambda m, a: m.searchsorted(a(np.array([1.0, 2.0, 2.0, 5.0])), a(np.array([[0.0, 2.0, 9.0]])), side="right"),
        lambda m, a: m.searchsorted(a(np.array([1.0, 2.0, np.nan])), a(SPECIAL)),
        lambda m, a: m.searchsorted(a(np.array([1.0, 2.0, np.nan])), a(SPECIAL), side="right"),
        lambda m, a: m.searchsorted(a(ROW), a(FLOATS), sorter=a(np.array([1, 2, 0]))),
        lambda m, a: m.searchsorted(a(np.array([], np.int32)), a(INTEGERS)),
    ],
    "sort": [lambda m, a: m.sort(a(REPEATED), axis=0), lambda m, a: m.sort(a(SPECIAL))],
    "squeeze": [lambda m, a: m.squeeze(a(ROW[None, :, None]), axis=(0, -1))],
    "stack": [lambda m, a: m.stack([a(ROW), a(ROW)], axis=-1)],
    "std": [lambda m, a: m.std(a(CUBE), axis=(0, 2)), lambda m, a: m.std(a(FLOATS), correction=1)],
    "sum": [
        lambda m, a: m.sum(a(CUBE), axis=(0, 2), keepdims=True),
        lambda m, a: m.sum(a(TRUTHS)),
        lambda m, a: m.sum(a(INTEGERS), dtype=m.float32),
    ],
    "take": [
        lambda m, a: m.take(a(CUBE), a(np.array([1, 0, -1])), axis=2),
        lambda m, a: m.take(a(ROW), a(np.array([2]))),
    ],
    "take_along_axis": [lambda m, a: m.take_along_axis(a(FLOATS), a(np.array([[1], [2]])))],
    "tensordot": [
        lambda m, a: m.tensordot(a(CUBE), a(CUBE), axes=((0, 1), (0, 1))),
        lambda m, a: m.tensordot(a(ROW), a(ROW), axes=0),
    ],
    "tile": [lambda m, a: m.tile(a(FLOATS), (2, 1, 2))],
    "tril": [
        lambda m, a: m.tril(a(CUBE), k=1),
        lambda m, a: m.tril(a(CUBE), k=-(2**40)),
        lambda m, a: m.tril(a(FLOATS)),
    ],
    "triu": [lambda m, a: m.triu(a(CUBE), k=-1), lambda m, a: m.triu(a(FLOATS))],
    "unstack": [lambda m, a: m.unstack(a(CUBE), axis=1)],
    "var": [lambda m, a: m.var(a(CUBE), axis=0), lambda m, a: m.var(a(FLOATS), correction=0.5, keepdims=True)],
    "vecdot": [lambda m, a: m.vecdot(a(FLOATS), a(ROW)), lambda m, a: m.vecdot(a(CUBE), a(CUBE), axis=-2)],
    "where": [lambda m, a: m.where(a(TRUTHS), a(FLOATS), 0.0), lambda m, a: m.where(a(TRUTHS), a(INTEGERS), 1)],
    "zeros_like": [lambda m, a: m.zeros_like(a(TRUTHS)), lambda m, a: m.zeros_like(a(FLOATS))],
    "linalg.cholesky": [
        lambda m, a: m.linalg.cholesky(a(POSITIVE)),
        lambda m, a: m.linalg.cholesky(a(POSITIVE[0]), upper=True),
        lambda m, a: m.linalg.cholesky(a(np.ones((0, 3, 3)))),
    ],
    "linalg.det": [lambda m, a: m.linalg.det(a(MATRICES)), lambda m, a: m.linalg.det(a(np.ones((2, 0, 0))))],
    "linalg.inv": [lambda m, a: m.linalg.inv(a(MATRICES)), lambda m, a: m.linalg.inv(a(np.ones((0, 0))))],
    "linalg.slogdet": [
        lambda m, a: m.linalg.slogdet(a(MATRICES)),
        lambda m, a: m.linalg.slogdet(a(np.array([[1.0, 2.0], [2.0, 4.0]]))),
    ],
    "linalg.solve": [
        lambda m, a: m.linalg.solve(a(MATRICES), a(MATRICES[0, :, 0])),
        lambda m, a: m.linalg.solve(a(MATRICES[0]), a(MATRICES)),
        lambda m, a: m.linalg.solve(a(MATRICES), a(MATRICES[0, :, :2])),
    ],
    "linalg.cross": [
        lambda m, a: m.linalg.cross(a(FLOATS), a(FLOATS[::-1])),
        lambda m, a: m.linalg.cross(a(CUBE), a(CUBE * CUBE), axis=1),
    ],
    "linalg.diagonal": [lambda m, a: m.linalg.diagonal(a(CUBE), offset=1), lambda m, a: m.linalg.diagonal(a(FLOATS))],
    "linalg.eigh": [
        lambda m, a: m.linalg.eigh(a(POSITIVE)).eigenvalues,
        lambda m, a: m.linalg.eigh(a(np.ones((2, 0, 0)))),
    ],
    "linalg.eigvalsh": [
        lambda m, a: m.linalg.eigvalsh(a(POSITIVE)),
        lambda m, a: m.linalg.eigvalsh(a(np.ones((0, 3, 3)))),
    ],
    "linalg.matmul": [lambda m, a: m.linalg.matmul(a(SQUARE), a(SQUARE))],
    "linalg.matrix_norm": [
        lambda m, a: m.linalg.matrix_norm(a(CUBE)),
        *(lambda m, a, o=ord: m.linalg.matrix_norm(a(CUBE), ord=o, keepdims=True) for ord in (1, -1, np.inf, -np.inf)),
    ],
    "linalg.matrix_power": [
        lambda m, a: m.linalg.matrix_power(a(SQUARE), 5),
        lambda m, a: m.linalg.matrix_power(a(SQUARE), 0),
    ],
    "linalg.matrix_rank": [lambda m, a: m.linalg.matrix_rank(a(MATRICES)), lambda m, a: m.linalg.matrix_rank(a(CUBE))],
    "linalg.matrix_transpose": [lambda m, a: m.linalg.matrix_transpose(a(FLOATS))],
    "linalg.outer": [lambda m, a: m.linalg.outer(a(ROW), a(FLOATS[0]))],
    "linalg.pinv": [lambda m, a: m.linalg.pinv(a(FLOATS)), lambda m, a: m.linalg.pinv(a(np.ones((2, 0, 3))))],
    "linalg.qr": [
        lambda m, a: m.matmul(*m.linalg.qr(a(CUBE))),
        lambda m, a: m.abs(m.linalg.qr(a(FLOATS), mode="complete").R),
    ],
    "linalg.svd": [
        lambda m, a: m.linalg.svd(a(FLOATS)).S,
        lambda m, a: m.linalg.svd(a(np.ones((0, 2, 3)))),
    ],
    "linalg.svdvals": [lambda m, a: m.linalg.svdvals(a(FLOATS))],
    "linalg.tensordot": [lambda m, a: m.linalg.tensordot(a(SQUARE), a(FLOATS), axes=1)],
    "linalg.trace": [lambda m, a: m.linalg.trace(a(CUBE), offset=-1), lambda m, a: m.linalg.trace(a(INTEGERS))],
    "linalg.vecdot": [lambda m, a: m.linalg.vecdot(a(FLOATS), a(ROW), axis=-1)],
    "linalg.vector_norm": [
        lambda m, a: m.linalg.vector_norm(a(CUBE)),
        *(lambda m, a, o=ord: m.linalg.vector_norm(a(CUBE), axis=(0, 2), ord=o) for ord in (0, 1, 3, np.inf, -np.inf)),
        lambda m, a: m.linalg.vector_norm(a(FLOATS), axis=1, keepdims=True),
    ],
}
"""Calls of functions whose results have a shape that is known before the values are."""

DATA_DEPENDENT: dict[str, list[Case]] = {
    "nonzero": [lambda m, a: m.nonzero(a(CUBE)), lambda m, a: m.nonzero(a(np.zeros((0, 2))))],
    "unique_all": [lambda m, a: m.unique_all(a(REPEATED)), lambda m, a: m.unique_all(a(np.zeros((0,))))],
    "unique_counts": [lambda m, a: m.unique_counts(a(np.array([np.nan, 1.0, np.nan])))],
    "unique_inverse": [lambda m, a: m.unique_inverse(a(REPEATED))],
    "unique_values": [lambda m, a: m.unique_values(a(TRUTHS))],
}

MADE: dict[str, list[Case]] = {
    "arange": [
        lambda m, a: m.arange(5),
        lambda m, a: m.arange(1.0, 3.0, 0.25),
        lambda m, a: m.arange(5, -3, -2, dtype=m.float64),
    ],
    "asarray": [
        lambda m, a: m.asarray([[1.5, 2], [3, 4]]),
        lambda m, a: m.asarray(True),
        lambda m, a: m.asarray(a(ROW)),
    ],
    "broadcast_shapes": [],
    "empty": [lambda m, a: m.multiply(m.empty((2, 3)), 0.0)],
    "eye": [lambda m, a: m.eye(3), lambda m, a: m.eye(3, k=10**12), lambda m, a: m.eye(2, 4, k=1, dtype=m.int32)],
    "from_dlpack": [lambda m, a: m.from_dlpack(ROW.copy()), lambda m, a: m.from_dlpack(FLOATS.copy())],
    "full": [
        lambda m, a: m.full((2, 3), 7),
        lambda m, a: m.full(3, True),
        lambda m, a: m.full((), 2.5, dtype=m.float64),
    ],
    "linspace": [lambda m, a: m.linspace(0.0, 1.0, 5), lambda m, a: m.linspace(1, -2, 4, endpoint=False)],
    "ones": [lambda m, a: m.ones((2, 0)), lambda m, a: m.ones(3, dtype=m.bool)],
    "zeros": [lambda m, a: m.zeros((2, 3)), lambda m, a: m.zeros(3, dtype=m.uint32)],
}
ASKED = ("__array_namespace_info__", "can_cast", "finfo", "iinfo", "isdtype", "result_type")
"""Functions that return no arrays, which have separate tests."""


def ours(values: Any) -> Any:
    array = np.asarray(values)
    narrow = {"f": np.float32, "i": np.int32}.get(array.dtype.kind)
    return tg.array(array if narrow is None else array.astype(narrow))


def test_every_function_is_compared() -> None:
    compared = {*UNARY, *BINARY, *ASKED, *SHARED, *DATA_DEPENDENT, *MADE}
    assert compared == {*SIGNATURES, *(f"linalg.{name}" for name in LINALG)}


@pytest.mark.parametrize("name", [*SHARED, *DATA_DEPENDENT, *MADE])
def test_as_numpy(name: str) -> None:
    for case in {**SHARED, **DATA_DEPENDENT, **MADE}[name]:
        agree(case(xp, ours), case(np, np.asarray), name, 2e-6)


@pytest.mark.in_turns(4)
@pytest.mark.parametrize("name", SHARED)
def test_in_a_trace(name: str) -> None:
    """The same values, and a derivative if floats become floats."""
    for case in SHARED[name]:
        arrays: list[Any] = []
        expected = case(xp, lambda values, recorded=arrays: (recorded.append(ours(values)), recorded[-1])[1])

        def function(parts: list[Any], case: Case = case) -> Any:
            remaining = iter(parts)
            return case(xp, lambda _: next(remaining))

        actual = tg.jit(function, device="numpy")(arrays)
        for result, correct in zip(
            *((x if isinstance(x, (tuple, list)) else [x]) for x in (actual, expected)), strict=True
        ):
            assert result.dtype == correct.dtype and result.shape == correct.shape
            np.testing.assert_allclose(np.asarray(result), np.asarray(correct), rtol=1e-6)


@pytest.mark.parametrize("name", DATA_DEPENDENT)
def test_shapes_that_depend_on_data_are_refused_in_a_trace(name: str) -> None:
    message = f"{name}: how many elements the result has is known only when the program runs; choose values by where"
    with pytest.raises(TraceError, match=message):
        tg.trace(lambda x: getattr(xp, name)(x), (3,))
