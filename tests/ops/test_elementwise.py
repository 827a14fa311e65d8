"""Elementwise functions in the API: dtypes, operators, edge cases, and activations at the extremes of f32."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tensorgrad as tg
from tensorgrad.tracing.dtypes import NAMES

INF, NAN = np.inf, np.nan
BIG = 3e38  # times selu's scale, it is still a f32
EXTREMES = np.array(
    [
        -INF,
        -BIG,
        -1e30,
        -1e5,
        -800,
        -104,
        -88,
        -30,
        -1,
        -1e-30,
        -1e-45,
        0,
        1e-45,
        1e-30,
        1,
        30,
        88,
        104,
        800,
        1e30,
        BIG,
        INF,
    ],
    np.float32,
)

ACTIVATIONS: dict[str, tuple[Callable[..., Any], float, float]] = {
    "relu": (tg.relu, 0, INF),
    "leaky_relu": (tg.leaky_relu, -INF, INF),
    "elu": (tg.elu, -1, INF),
    "selu": (tg.selu, -1.7580993175506592, INF),
    "gelu": (tg.gelu, 0, INF),
    "gelu tanh": (lambda x: tg.gelu(x, approximate="tanh"), 0, INF),
    "silu": (tg.silu, 0, INF),
    "mish": (tg.mish, 0, INF),
    "sigmoid": (tg.sigmoid, 0, 1),
    "log_sigmoid": (tg.log_sigmoid, -INF, 0),
    "softplus": (tg.softplus, 0, INF),
    "softplus sharp": (lambda x: tg.softplus(x, 3.0), 0, INF),
    "softplus blunt": (lambda x: tg.softplus(x, 0.5, 20.0), 0, INF),
    "hard_tanh": (tg.hard_tanh, -1, 1),
    "hard_sigmoid": (tg.hard_sigmoid, 0, 1),
}
"""Each with its limits."""


def first(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the elementwise derivative."""
    return tg.grad(lambda x: tg.sum(function(x)))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_and_their_derivatives_are_finite_at_the_extremes(name: str) -> None:
    function, low, high = ACTIVATIONS[name]
    value = np.asarray(function(EXTREMES))
    assert not np.isnan(value).any()
    assert np.isfinite(value[1:-1]).all()
    assert value[0] == np.float32(low)
    assert value[-1] == np.float32(high)
    slope, bend = np.asarray(first(function)(EXTREMES)), np.asarray(first(first(function))(EXTREMES))
    assert np.isfinite(slope).all()
    assert np.isfinite(bend).all()
    assert np.isnan(np.asarray(function(np.float32(NAN))))


@pytest.mark.parametrize(
    ("function", "at", "slope"),
    [
        (tg.softplus, 0.0, 0.5),
        (first(tg.softplus), 0.0, 0.25),
        (lambda x: tg.softplus(x, 4.0), 0.0, 0.5),
        (first(lambda x: tg.softplus(x, 4.0)), 0.0, 1.0),
        (lambda x: tg.softplus(x, 1.0, 2.0), 2.5, 1.0),
        (tg.log_sigmoid, 0.0, 0.5),
        (tg.leaky_relu, 0.0, 0.01),
        (tg.elu, 0.0, 1.0),
        (tg.gelu, 0.0, 0.5),
        (tg.silu, 0.0, 0.5),
        (tg.hard_tanh, 1.0, 0.0),
        (tg.hard_tanh, -1.0, 0.0),
        (tg.hard_sigmoid, 3.0, 0.0),
        (tg.hard_sigmoid, -3.0, 0.0),
        (tg.sign, 2.0, 0.0),
        (tg.floor, 2.5, 0.0),
        (lambda x: tg.clip(x, 0.0, 1.0), 0.0, 1.0),
        (lambda x: tg.clip(x, 0.0, 1.0), 2.0, 0.0),
        (lambda x: tg.atan2(x, 0.0), 0.0, 0.0),
        (lambda x: tg.atan2(x, x), 0.0, 0.0),
        (lambda x: tg.remainder(x, 3.0), 7.5, 1.0),
        (lambda x: tg.remainder(7.5, x), 3.0, -2.0),
        (tg.asinh, 1e30, 1e-30),
        (lambda x: tg.atan2(x, 1e30), 1e30, 5e-31),
        (tg.expm1, -60.0, 8.7565107e-27),
    ],
)
def test_derivatives_at_edges(function: Callable[..., Any], at: float, slope: float) -> None:
    assert float(first(function)(np.float32(at))) == pytest.approx(slope, rel=1e-5)


def test_reference_and_conventions() -> None:
    x = np.array([-2.5, -0.5, 0.5, 1.5, 2.5], np.float32)
    assert np.asarray(tg.round(x)).tolist() == [-2, -0, 0, 2, 2]
    assert np.asarray(tg.sign([-3.0, -0.0, 0.0, 5.0])).tolist() == [-1, 0, 0, 1]
    assert np.asarray(tg.clip([1.0, 5.0, NAN], 2.0, 3.0)).tolist()[:2] == [2, 3]
    assert np.asarray(tg.lerp(1e30, 3.0, 1.0)) == 3.0
    assert np.asarray(tg.isfinite([1.0, INF, NAN])).tolist() == [True, False, False]
    assert np.asarray(tg.isinf([1.0, INF, NAN])).tolist() == [False, True, False]
    assert np.asarray(tg.isnan(np.array([1, 2]))).tolist() == [False, False]


OPERATORS = [
    operator.floordiv,
    operator.mod,
    operator.and_,
    operator.or_,
    operator.xor,
    operator.lshift,
    operator.rshift,
]


@pytest.mark.parametrize("function", OPERATORS)
def test_operators_on_integers(function: Callable[[Any, Any], Any]) -> None:
    x = tg.array(np.array([7, -7], np.int32))
    assert np.asarray(function(x, 2)).tolist() == [function(7, 2), function(-7, 2)]
    assert np.asarray(function(100, tg.abs(x))).tolist() == [function(100, 7)] * 2


def test_operators_on_booleans_and_rest() -> None:
    x = tg.array([True, False])
    assert np.asarray(~x).tolist() == [False, True]
    assert np.asarray(x ^ True).tolist() == [False, True]
    assert np.asarray(tg.logical_xor([0, 2, NAN], [1.0, 3.0, 0.0])).tolist() == [True, False, True]
    assert np.asarray(tg.logical_and([0, 2], [1, 1])).tolist() == [False, True]
    assert np.asarray(tg.logical_not([0.0, 2.0])).tolist() == [True, False]
    quotient, rest = divmod(tg.array([7.5, -7.5]), 2.0)
    assert np.asarray(quotient).tolist() == [3, -4]
    assert np.asarray(rest).tolist() == [1.5, 0.5]
    assert (+rest) is rest
    np.testing.assert_allclose(np.asarray(rest.exp2().log2()), [1.5, 0.5], rtol=1e-6)  # functions are methods


def test_integers_without_a_quotient() -> None:
    x = tg.array(np.array([5, -5, 0, -(2**31)], np.int32))
    assert np.asarray(x // 0).tolist() == [0, 0, 0, 0]
    assert np.asarray(x % 0).tolist() == [0, 0, 0, 0]
    assert np.asarray(x // -1).tolist() == [-5, 5, 0, -(2**31)]
    assert np.asarray(x << 32).tolist() == [0, 0, 0, 0]
    assert np.asarray(x >> 40).tolist() == [0, -1, 0, -1]
    assert np.asarray(tg.bitwise_right_shift(np.array([2**31], np.uint32), np.array([32], np.uint32))).tolist() == [0]


@pytest.mark.parametrize(
    "name",
    ["less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "maximum", "minimum"],
)
def test_booleans_are_ordered(name: str) -> None:
    x, y = np.array([[True, False]]), np.array([[True], [False]])
    for other in (y, y.astype(np.float32), y.astype(np.int32)):
        expected = getattr(np, name)(x, other)
        for actual in (getattr(tg, name)(x, other), tg.jit(getattr(tg, name))(x, other)):
            assert np.array_equal(actual, expected) and actual.dtype == expected.dtype


def test_booleans_count_beside_numbers() -> None:
    flags, numbers = tg.array([True, False]), np.array([1.5, 2.0], np.float32)
    assert (flags + 1.0).numpy().tolist() == [2, 1] and (flags + 1.0).dtype == tg.f32
    assert (flags * 2).numpy().tolist() == [2, 0] and (flags * 2).dtype == tg.i32
    assert float(tg.add(True, 1.0)) == 2
    assert tg.subtract(np.array([4, 4], np.uint32), flags).dtype == tg.u32
    assert tg.where(flags, flags, numbers).numpy().tolist() == [1, 2]
    assert tg.concat([flags, numbers]).numpy().tolist() == [1, 0, 1.5, 2]
    assert float(flags @ numbers) == 1.5
    assert np.array_equal(tg.grad(lambda x: tg.sum(x * flags))(numbers), [1, 0])
    with pytest.raises(tg.errors.DTypeError, match="add: takes numbers, not bool; cast first"):
        tg.add(flags, flags)


@pytest.mark.parametrize(
    ("numbers", "dtype", "values"),
    [
        ((5e-324, -5e-324), "f32", [0.0, -0.0]),
        ((1, 2), "i32", [1, 2]),
        ((1, 2.5), "f32", [1.0, 2.5]),
        ((True, False), "bool", [True, False]),
        ((True, 3), "i32", [1, 3]),
    ],
)
def test_a_choice_of_two_numbers_has_the_dtype_that_they_have_by_themselves(numbers, dtype, values):
    """As in PyTorch, except that integers are i32."""
    chosen = tg.where(np.array([True, False]), *numbers)
    assert (chosen.dtype, chosen.numpy().tolist()) == (tg.array(0, dtype).dtype, values)
    expected = torch.where(torch.tensor([True, False]), *numbers)
    assert expected.dtype in {"f32": [torch.float32], "i32": [torch.int64], "bool": [torch.bool]}[dtype]
    double = tg.where(np.array([True, False]), tg.array(5e-324, "f64"), -5e-324)
    assert double.numpy().tolist() == [5e-324, -5e-324]


@pytest.mark.usefixtures("compiled_blocks")
@pytest.mark.parametrize("place", ["numpy", "cpu", "wgpu"])
def test_the_largest_of_booleans_is_one(place):
    flags = tg.tensor([[True, False], [False, False]], device=place)
    for extreme, expected in (
        (tg.max(flags, 1), [True, False]),
        (tg.min(flags, 1), [False, False]),
        (flags.max(), True),
        (flags.min(), False),
        (tg.max(flags, 1, keepdims=True), [[True], [False]]),
    ):
        assert (str(extreme.dtype), extreme.tolist()) == ("bool", expected)
    assert tg.argmax(flags, 1).tolist() == [0, 0]


@pytest.mark.parametrize("first", [dtype for name, dtype in NAMES.items() if name != "bool"], ids=str)
def test_bits_of_another_dtype_as_numpy_views_them(first: np.dtype[Any]) -> None:
    bits = np.random.default_rng(first.num).integers(0, 256, (3, 16), np.uint8)
    with np.errstate(invalid="ignore"):
        bits = np.nan_to_num(bits.view(first), nan=1.5).view(np.uint8)
    for second in (dtype for name, dtype in NAMES.items() if name != "bool"):
        viewed = np.asarray(tg.bitcast(tg.array(bits.view(first), first), second))
        assert viewed.dtype == second and viewed.tobytes() == bits.tobytes() and viewed.shape == bits.view(second).shape


def test_bits_that_are_not_there() -> None:
    for x, dtype in (([True], "u32"), ([1], "bool")):
        with pytest.raises(
            tg.errors.DTypeError, match=r"test_elementwise\.py:\d+: bitcast: bool has no defined bit width"
        ):
            tg.bitcast(x, dtype)
    message = r"bitcast: the last axis of \(3,\), of f16, does not hold whole elements of f32"
    with pytest.raises(tg.errors.ShapeError, match=message):
        tg.bitcast(tg.zeros(3, "f16"), "f32")
    with pytest.raises(tg.errors.ShapeError, match=r"the last axis of \(\), of f32"):
        tg.bitcast(1.0, "u8")


def test_signs_are_copied_in_every_width() -> None:
    for dtype in (np.float16, np.float64):
        x, y = np.array([1, -2, 3], dtype), np.array([-0.0, 0.0, np.finfo(dtype).smallest_subnormal * -1], dtype)
        signed = tg.copysign(tg.array(x, dtype), tg.array(y, dtype))
        assert np.array_equal(signed, np.copysign(x, y)) and signed.dtype == dtype
    assert np.array_equal(tg.grad(lambda x: tg.sum(tg.copysign(x, -1.0)))(np.array([2.0, -2.0, 0.0])), [-1, 1, 0])


def test_powers_of_integers() -> None:
    x = tg.array(np.array([3, -2], np.int32))
    assert np.asarray(x**3).tolist() == [27, -8]
    assert np.asarray(x**31).tolist() == [(3**31 + 2**31) % 2**32 - 2**31, -(2**31)]
    assert (x**2.0).dtype == tg.f32
    assert np.asarray(tg.array([4, 9]) ** 0.5).tolist() == [2, 3]
    assert np.asarray(tg.array([2, 0]) ** INF).tolist() == [INF, 0]
    with pytest.raises(tg.errors.DTypeError, match="power: integers take a constant exponent"):
        tg.power(x, -1)
    bases, exponents = (part.ravel() for part in np.meshgrid([-3, -2, -1, 0, 1, 2, 7], [0, 1, 2, 5, 31, 2**31 - 1]))
    expected = [(pow(int(b), int(e), 2**32) + 2**31) % 2**32 - 2**31 for b, e in zip(bases, exponents, strict=True)]
    for power in (tg.power, tg.jit(tg.power, device="numpy")):
        powers = power(bases.astype(np.int32), exponents.astype(np.int32))
        assert powers.dtype == tg.i32 and np.asarray(powers).tolist() == expected
    assert np.asarray(tg.array([1, -1, -1, 2, 0]) ** tg.array([-3, -3, -2, -1, -1])).tolist() == [1, -1, 1, 0, 0]
    assert float(0.1 ** tg.array(1.0, "f64")) == 0.1, "a scalar has the other operand's dtype"
    assert int((3 * 10**9) ** tg.array(1, "u32")) == 3 * 10**9
    unsigned = tg.cast([3, 2], "u32") ** tg.array([2**31 + 1, 31], "u32")
    assert np.asarray(unsigned).tolist() == [pow(3, 2**31 + 1, 2**32), 2**31]


@pytest.mark.parametrize(("dtype", "number"), [("f32", 2**70), ("f32", -(2**100)), ("f64", 2**1000)])
def test_integers_beyond_64_bits_are_floats(dtype: str, number: int) -> None:
    assert float((tg.array([0.0], dtype) + number)[0]) == float(number)
    for more in (2**128, 2**2000):
        with pytest.raises(tg.errors.DTypeError, match=r"too large for f32|outside of f32"):
            operator.add(tg.array([0.0]), more)


@pytest.mark.parametrize("dtype", ["i32", "u32"])
@pytest.mark.parametrize("number", [2**32, -(2**31) - 1, 2**40])
def test_a_number_out_of_range_is_an_error(dtype: str, number: int) -> None:
    x = tg.cast([1, 2], dtype)
    for function in (operator.add, operator.mul, operator.floordiv, operator.and_, operator.lt, tg.maximum):
        with pytest.raises(tg.errors.DTypeError, match="outside of"):
            function(x, number)


def test_dtypes() -> None:
    i, u, f, b = (tg.cast([1, 2], name) for name in ("i32", "u32", "f32", "bool"))
    assert tg.exp2(i).dtype == tg.f32
    assert tg.floor(i).dtype == tg.i32
    assert tg.floor_divide(i, f).dtype == tg.f32
    assert (i % 2).dtype == tg.i32
    assert (u >> 1).dtype == tg.u32
    assert tg.isfinite(u).dtype == tg.bool_
    assert tg.asinh(tg.cast(f, "f16")).dtype == tg.f16
    assert tg.gelu(tg.cast(f, "f64")).dtype == tg.f64
    assert tg.gelu(b).dtype == tg.f32


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tg.bitwise_and([1.0], [2.0]), "bitwise_and: takes integers or bool, not f32"),
        (lambda: tg.bitwise_left_shift([True], [True]), "bitwise_left_shift: takes integers, not bool"),
        (lambda: tg.bitwise_invert([1.0]), "bitwise_invert: takes integers or bool, not f32"),
        (lambda: tg.floor_divide([True], [True]), "floor_divide: takes numbers, not bool"),
        (lambda: tg.sign([True]), "sign: takes numbers, not bool"),
        (lambda: tg.bitwise_or(tg.array([1]), tg.array([1], "u64")), "i32 and u64 have no common type"),
        (lambda: tg.array([1.0]) * 1e39, "too large for f32"),
        (lambda: tg.array(np.array([1], np.uint32)) - (-1), "outside of u32"),
        (lambda: tg.softmax(np.zeros(3), where=np.ones(3)), "where must be bool, not f32"),
    ],
)
def test_wrong_dtypes(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(tg.errors.DTypeError, match=message):
        call()


@pytest.mark.parametrize(("beta", "threshold"), [(1.0, 20.0), (2.0, 20.0), (-0.5, 20.0), (0.7, 1.0), (3, -1)])
def test_softplus_as_pytorch(beta: float, threshold: float) -> None:
    x = np.linspace(-40, 40, 161) + 0.01
    tensor = torch.tensor(x, requires_grad=True)
    expected = torch.nn.Softplus(beta, threshold)(tensor)
    expected.sum().backward()
    assert tensor.grad is not None
    layer = tg.nn.Softplus(beta, threshold)
    np.testing.assert_allclose(np.asarray(layer(tg.array(x, "f64"))), expected.detach().numpy(), rtol=1e-12)
    slope = tg.grad(lambda v: tg.sum(layer(v)))(tg.array(x, "f64"))
    np.testing.assert_allclose(np.asarray(slope), tensor.grad.numpy(), rtol=1e-12)


def test_other_mistakes() -> None:
    with pytest.raises(tg.errors.OptionError, match='"none" or "tanh", not \'erf\''):
        tg.gelu([1.0], approximate="erf")
    with pytest.raises(tg.errors.OptionError, match=r"test_elementwise.py:\d+: softplus: beta is 0$"):
        tg.softplus([1.0], beta=0)
    with pytest.raises(tg.errors.ShapeError, match="atan2: shapes"):
        tg.atan2(np.zeros(3), np.zeros(4))
    with pytest.raises(tg.errors.ShapeError):
        tg.softmax(np.zeros(3), where=np.ones((2, 3), bool))


MASK = np.tril(np.ones((4, 4), bool))


def masked_softmax(x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    powers = np.where(mask, np.exp(np.where(mask, x, -INF) - np.max(np.where(mask, x, -1e30), -1, keepdims=True)), 0)
    total = powers.sum(-1, keepdims=True)
    return powers / np.where(total == 0, 1, total)


def test_masked_softmax_ignores_what_is_masked() -> None:
    assert np.array_equal(np.asarray(tg.causal_mask(4)), MASK)
    assert np.asarray(tg.causal_mask(1, 3)).tolist() == [[True, True, True]]
    clean = np.random.default_rng(0).normal(size=(2, 4, 4)).astype(np.float32)
    x = np.where(MASK, clean, np.float32(NAN))
    mask = MASK & (np.arange(4) != 2)[:, None]  # nothing is left of one row
    expected = masked_softmax(clean, mask)
    np.testing.assert_allclose(np.asarray(tg.softmax(x, where=mask)), expected, rtol=1e-6)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(np.asarray(tg.log_softmax(x, where=mask)), np.log(expected), rtol=1e-5, atol=1e-6)
        sums = np.log(np.where(mask, np.exp(clean), 0).sum(-1))
    np.testing.assert_allclose(np.asarray(tg.logsumexp(x, -1, where=mask)), sums, rtol=1e-5, atol=1e-6)


def test_masked_derivatives_are_those_of_the_rest() -> None:
    random = np.random.default_rng(1)
    clean, weight = (random.normal(size=(4, 4)).astype(np.float32) for _ in range(2))
    x = np.where(MASK, clean, np.float32(INF))
    gradient = np.asarray(first(lambda v: tg.softmax(v, where=tg.causal_mask(4)) * weight)(x))
    for row in range(4):
        part, scale = clean[row, : row + 1], weight[row, : row + 1]
        alone = np.asarray(first(lambda v, scale=scale: tg.softmax(v) * scale)(part))
        np.testing.assert_allclose(gradient[row, : row + 1], alone, rtol=1e-5, atol=1e-7)
    assert (gradient[~MASK] == 0).all()
    nothing = np.zeros((4, 4), bool)
    for function in (
        lambda v: tg.softmax(v, where=nothing),
        lambda v: tg.where(nothing, tg.log_softmax(v, where=nothing), 0.0),
        lambda v: tg.where(tg.array([False] * 4), tg.logsumexp(v, -1, where=nothing), 0.0),
    ):
        assert (np.asarray(first(function)(x)) == 0).all()


def test_softmax_over_several_axes() -> None:
    x = np.random.default_rng(2).normal(size=(2, 3, 4)).astype(np.float32)
    flat = np.asarray(tg.softmax(x.reshape(2, 12))).reshape(2, 3, 4)
    np.testing.assert_allclose(np.asarray(tg.softmax(x, axis=(1, 2))), flat, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(tg.log_softmax(x, axis=(1, -1))), np.log(flat), rtol=1e-5)
