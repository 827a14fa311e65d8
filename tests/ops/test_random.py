"""Random numbers compared with published vectors and JAX (0.10.2, `jax_threefry_partitionable=True`)."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.dialects.tg.random import threefry
from tensorgrad.errors import DTypeError, InputError, OptionError, ShapeError
from tensorgrad.ops import random

untyped: Any = tg
"""The package as code without types calls it."""

KEY = random.key(2024)
KEYS = random.split(KEY, 3)
MATRIX = np.arange(600, dtype=np.int32).reshape(20, 30)


def words(*values: int) -> np.ndarray:
    return np.array(values, np.uint32)


def checksum(x: Any) -> int:
    """Returns the checksum of an array's bytes; JAX's numbers are stored as checksums."""
    return zlib.crc32(np.ascontiguousarray(np.asarray(x)).tobytes())


def listed(x: Any) -> Any:
    return np.asarray(x).tolist()


@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_gives_the_published_vectors(key, counter, expected):
    numbers = threefry(words(key[0]), words(key[1]), words(counter[0]), words(counter[1]))
    assert [int(word[0]) for word in numbers] == list(expected)


def test_keys_are_those_of_jax():
    assert listed(random.key(42)) == [0, 42]
    assert listed(random.split(random.key(0))) == [[1797259609, 2579123966], [928981903, 3453687069]]
    assert checksum(random.split(KEY, 500)) == 2020578250
    assert listed(random.fold_in(random.key(42), 7)) == [2547012911, 1371500959]
    assert listed(random.fold_in(random.key(42), 2**32 - 1)) == [2398536845, 3890976714]


def test_numbers_are_those_of_jax_bit_for_bit():
    assert checksum(random.bits(KEY, (100, 37))) == 176305848
    assert checksum(random.uniform(KEY, (100, 37))) == 2817309496
    assert checksum(random.bernoulli(KEY, 0.3, (100, 37))) == 3211982363
    assert checksum(random.bernoulli(KEY, 0.9, (100, 37))) == 2069858266
    chances = np.linspace(0, 1, 37, dtype=np.float32)
    assert checksum(random.bernoulli(KEY, chances, (100, 37))) == 2735017768
    assert listed(random.bernoulli(KEY, chances)) == listed(random.uniform(KEY, 37) < chances)


def test_integers_are_those_of_jax_bit_for_bit():
    assert checksum(random.randint(KEY, (100, 37), 0, 10)) == 3382641500
    assert checksum(random.randint(KEY, (100, 37), -5, 1000)) == 3359098798
    assert checksum(random.randint(KEY, 1000, -(2**31), 2**31 - 1)) == 1589085860
    assert checksum(random.randint(KEY, 1000, 0, 2**32 - 1, "u32")) == 4064948510
    assert listed(random.randint(KEYS, 4, 0, 7)) == [[3, 0, 5, 2], [2, 6, 5, 3], [2, 1, 0, 4]]
    bounds = np.array([0, 100]), tg.array([10, 200])
    assert listed(random.randint(KEY, (3, 2), *bounds)) == [[1, 114], [5, 149], [0, 184]]
    assert listed(random.randint(KEY, 3, tg.array(3), tg.array(3))) == [3, 3, 3]


@pytest.mark.parametrize(
    ("dtype", "low", "high", "expected", "first"),
    [
        ("u8", 0, 256, 2143777265, [129, 18, 109]),
        ("u8", 3, 100, 313876802, [66, 25, 65]),
        ("i8", -128, 128, 3880168827, [1, -110, -19]),
        ("i8", -5, 7, 1143551157, [4, 5, -4]),
        ("u16", 0, 60000, 3612656306, [12321, 47314, 51565]),
        ("i16", -3000, 30000, 3099473316, [15321, 23314, 3565]),
        ("i64", -(10**17), 10**18, 1506220457, [765690357765012658, 598436199686669040, 538116284069144912]),
        ("i64", -(2**63), 2**63 - 1, 3287912501, [7042318320910236850, -3024935837168106768, -3085255752785630896]),
        ("u64", 5, 2**63 - 1, 1179683028, [7042318320910236861, 6198436199686669045, 6138116284069144917]),
    ],
)
def test_integers_of_other_widths_are_those_of_jax(
    dtype: str, low: int, high: int, expected: int, first: list[int]
) -> None:
    drawn = random.randint(KEY, 1000, low, high, dtype)
    assert drawn.dtype == np.dtype({"u": "uint", "i": "int"}[dtype[0]] + dtype[1:])
    assert (listed(drawn)[:3], checksum(drawn)) == (first, expected)
    least, most = np.array(low, np.int64), np.array(high - 1, np.int64)
    again = random.randint(KEY, 1000, least, most, dtype)
    assert checksum(again) == checksum(random.randint(KEY, 1000, low, high - 1, dtype))


def test_integers_of_the_whole_range():
    drawn = np.asarray(random.randint(KEY, 1000, 0, 2**32, "u32"))
    assert np.array_equal(drawn, np.asarray(random.bits(random.split(KEY)[1], 1000)))
    signed = np.asarray(random.randint(KEY, 1000, -(2**31), 2**31))
    assert np.array_equal(signed, (drawn ^ np.uint32(1 << 31)).view(np.int32))
    longest = np.asarray(random.randint(KEY, 1000, 0, 2**64, "u64"))
    assert np.array_equal((longest >> np.uint64(32)).astype(np.uint32) ^ longest.astype(np.uint32), drawn)


@pytest.mark.parametrize(
    ("bounds", "dtype", "message"),
    [
        ((3, 3), "i32", "in order"),
        ((0, 2**31 + 1), "i32", "integers of i32"),
        ((-1, 3), "u32", "integers of u32"),
        ((0, 257), "u8", "integers of u8"),
        ((0, 2**63 + 1), "i64", "integers of i64"),
        ((0.5, 3), "i32", "low must be an integer"),
        ((0, 1.5), "i32", "high must be an integer"),
    ],
)
def test_bounds_of_integers_are_checked(bounds, dtype, message):
    with pytest.raises(OptionError, match=message):
        low, high = bounds
        random.randint(KEY, 3, low, high, dtype)


def test_integers_have_a_dtype_of_integers():
    with pytest.raises(DTypeError, match="randint: the dtype must be one of integers, got f32"):
        random.randint(KEY, 3, 0, 2, "f32")
    with pytest.raises(OptionError, match="a bound must be an integer, got f32"):
        random.randint(KEY, 3, tg.array(0.5), 2)


def test_normal_numbers_are_those_of_jax():
    drawn = np.asarray(random.normal(KEY, (100, 37)), np.float64)
    first = [-1.4759539365768433, -1.196785807609558, 1.0295886993408203, -0.9443373680114746]
    np.testing.assert_allclose(drawn[0, :4], first, rtol=1e-6)
    summary = [drawn.sum(), (drawn**2).sum(), drawn.min(), drawn.max()]
    # JAX's own rounding shows in the tails, where it takes the logarithm of a rounded 1 - x².
    expected = [22.652712196679204, 3698.128721215233, -3.6616055965423584, 4.047903060913086]
    np.testing.assert_allclose(summary, expected, rtol=3e-6)
    assert float(random.normal(random.key(0))) == pytest.approx(1.6226422, rel=1e-6)


def test_categorical_numbers_are_those_of_jax():
    logits = np.sin(np.arange(60, dtype=np.float32)).reshape(3, 20)
    assert listed(random.categorical(KEY, logits, shape=(4, 3))) == [[2, 19, 12], [1, 13, 0], [7, 1, 10], [14, 1, 12]]
    columns = [1, 1, 0, 2, 0, 2, 2, 1, 0, 0, 2, 0, 2, 1, 1, 0, 2, 0, 2, 1]
    assert listed(random.categorical(KEY, logits, axis=0)) == columns
    assert listed(random.categorical(KEY, np.array([-np.inf, 0, -np.inf], np.float32), shape=4)) == [1] * 4


def test_permutations_are_those_of_jax():
    expected = [7, 4, 16, 19, 2, 5, 3, 6, 18, 10, 11, 15, 8, 9, 13, 14, 17, 0, 1, 12]
    assert listed(random.permutation(random.key(42), 20)) == expected
    assert checksum(random.permutation(KEY, 3000)) == 1010491494
    assert checksum(random.permutation(KEY, MATRIX)) == 2640277557
    assert checksum(random.permutation(KEY, MATRIX, axis=1, independent=True)) == 2836850586
    columns = [[2, 3, 0, 1], [6, 7, 4, 5], [10, 11, 8, 9]]
    assert listed(random.permutation(random.key(42), np.arange(12).reshape(3, 4), axis=-1)) == columns
    assert listed(random.permutation(KEY, 1)) == [0]
    assert random.permutation(KEY, 0).shape == (0,)


def test_keys_with_leading_axes_are_those_of_jax_under_vmap():
    assert listed(random.bits(KEYS, 2)) == [[2835921137, 3692662785], [2561616769, 1396327954], [58057699, 1343412572]]
    folded = [[2948084149, 1939972532], [1429141565, 1039886672], [2549172180, 3576548925]]
    assert listed(random.fold_in(KEYS, tg.array([1, 2, 3]))) == folded
    assert listed(random.permutation(KEYS, 5)) == [[3, 0, 4, 1, 2], [0, 3, 4, 1, 2], [0, 1, 4, 3, 2]]


@pytest.mark.parametrize(
    "draw",
    [
        lambda key: random.split(key, 2),
        lambda key: random.split(key, (2, 3)),
        lambda key: random.fold_in(key, 5),
        lambda key: random.uniform(key, (2, 3), -1, 4),
        lambda key: random.normal(key),
        lambda key: random.bernoulli(key, 0.3, (4,)),
        lambda key: random.bernoulli(key, tg.array([[0.1, 0.9, 0.5]]), (2, 3)),
        lambda key: random.categorical(key, MATRIX[:2, :5].astype(np.float32) * 0.1),
        lambda key: random.categorical(key, MATRIX[:2, :5].astype(np.float32) * 0.1, axis=0, shape=(3, 5)),
        lambda key: random.permutation(key, 7),
        lambda key: random.permutation(key, MATRIX[:3, :4]),
        lambda key: random.permutation(key, MATRIX[:3, :4], axis=1),
        lambda key: random.permutation(key, MATRIX[:3, :4], axis=1, independent=True),
    ],
)
def test_leading_axes_of_keys_draw_side_by_side(draw):
    together = np.asarray(draw(tg.reshape(KEYS, (3, 1, 2))))
    one_by_one = np.stack([np.asarray(draw(KEYS[i]))[None] for i in range(3)])
    np.testing.assert_array_equal(together, one_by_one)


def test_a_shape_does_not_change_the_numbers_in_front():
    assert np.array_equal(np.asarray(random.bits(KEY, (2, 3))).reshape(-1), np.asarray(random.bits(KEY, 6)))
    assert np.array_equal(np.asarray(random.bits(KEY, 6))[:4], np.asarray(random.bits(KEY, (4,))))
    assert random.uniform(KEY, (0, 3)).shape == (0, 3)
    assert random.bits(KEY).shape == ()


def test_keys_differ_by_seed_and_by_what_is_folded_in():
    keys = [random.key(0), random.key(1), random.key(1 << 32), random.key(-1)]
    keys += [random.fold_in(random.key(0), number) for number in (0, 1, 2)]
    assert len({tuple(listed(key)) for key in keys}) == len(keys)


def test_seeds_and_numbers_may_be_tensors():
    for number in (0, 3, -1, 2**31 - 1):
        assert listed(random.key(tg.array(number))) == listed(random.key(number))
        assert listed(random.fold_in(KEY, tg.array(number))) == listed(random.fold_in(KEY, number))
    assert listed(random.key(tg.array(np.uint32(2**32 - 1)))) == [0, 2**32 - 1]
    assert random.fold_in(KEY, tg.arange(5)).shape == (5, 2)
    assert listed(random.fold_in(KEY, tg.arange(5))[3]) == listed(random.fold_in(KEY, 3))


def test_distributions():
    drawn = np.asarray(random.uniform(random.key(1), (200, 500), -2.0, 3.0))
    assert drawn.dtype == np.float32
    assert drawn.min() >= -2 and drawn.max() < 3
    assert drawn.mean() == pytest.approx(0.5, abs=0.01)
    normal = np.asarray(random.normal(random.key(2), (200, 500)))
    assert normal.dtype == np.float32 and np.isfinite(normal).all()
    assert [normal.mean(), normal.std()] == pytest.approx([0, 1], abs=0.01)
    assert np.mean(normal > 1.959964) == pytest.approx(0.025, abs=0.002)
    gumbel = np.asarray(random.gumbel(random.key(3), (200, 500)))
    assert np.isfinite(gumbel).all() and gumbel.mean() == pytest.approx(0.5772, abs=0.01)
    exponential = np.asarray(random.exponential(random.key(4), (200, 500)))
    assert exponential.min() >= 0 and np.isfinite(exponential).all()
    assert [exponential.mean(), exponential.var()] == pytest.approx([1, 1], abs=0.03)
    assert np.mean(exponential > np.log(20)) == pytest.approx(0.05, abs=0.003)
    laplace = np.asarray(random.laplace(random.key(5), (200, 500)))
    assert np.isfinite(laplace).all()
    assert [laplace.mean(), laplace.var()] == pytest.approx([0, 2], abs=0.05)
    assert np.mean(laplace > np.log(10)) == pytest.approx(0.05, abs=0.003)


def test_uniform_takes_tensors_as_bounds():
    low, high = tg.array([0.0, -1.0, 5.0]), tg.array([1.0, 1.0, 5.0])
    drawn = np.asarray(random.uniform(KEY, (1000, 3), low, high))
    plain = np.asarray(random.uniform(KEY, (1000, 3)))
    np.testing.assert_array_equal(drawn[:, 0], plain[:, 0])
    np.testing.assert_array_equal(drawn[:, 1], plain[:, 1] * 2 - 1)
    assert (drawn[:, 2] == 5).all()


def test_dropout_keeps_the_mean_and_has_the_masks_derivative():
    x = np.linspace(1, 2, 20_000, dtype=np.float32)
    dropped = np.asarray(random.dropout(KEY, x, 0.25))
    is_kept = dropped != 0
    assert is_kept.mean() == pytest.approx(0.75, abs=0.02)
    np.testing.assert_allclose(dropped[is_kept], x[is_kept] / 0.75, rtol=1e-6)
    gradient = np.asarray(tg.grad(lambda v: tg.sum(random.dropout(KEY, v, 0.25)))(x))
    np.testing.assert_array_equal(gradient, np.where(is_kept, np.float32(1 / 0.75), np.float32(0)))
    np.testing.assert_array_equal(np.asarray(random.dropout(KEY, x, 0)), x)
    assert not np.asarray(random.dropout(KEY, np.array([1, np.nan, np.inf], np.float32), 1)).any()


def test_a_concrete_key_stays_concrete_in_a_trace():
    seen = []

    def function(x):
        key = random.fold_in(random.key(3), 4)
        seen.append(listed(random.split(key, 3)[1]))
        return x + random.uniform(key, x.shape)

    gradient = np.asarray(tg.grad(lambda x: tg.sum(function(x)))(np.zeros(3, np.float32)))
    assert gradient.tolist() == [1, 1, 1]
    assert seen[0] == listed(random.split(random.fold_in(random.key(3), 4), 3)[1])


def test_erfinv_of_f16_in_native_code():
    x = np.linspace(-0.99, 0.99, 101).astype(np.float16)
    result, expected = np.asarray(tg.jit(tg.erfinv, device="cpu")(x)), np.asarray(tg.erfinv(x.astype(np.float32)))
    assert result.dtype == np.float16
    assert np.abs(result - expected).max() <= 2**-10


def test_erfinv():
    assert listed(tg.erfinv(np.array([0, 1, -1, 2, np.nan], np.float32)))[:3] == [0, np.inf, -np.inf]
    assert float(tg.erfinv(0.5)) == pytest.approx(0.4769362762044699, rel=1e-6)
    assert listed(tg.erfinv(tg.array([0, 1]))) == [0, np.inf]


class Line(tg.nn.Module):
    """One layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = tg.nn.Linear(4, 1)

    def __call__(self, x: Any) -> Any:
        return self.layer(x)


def noisy(model: Any, x: Any, key: Any) -> Any:
    """A loss that is random only through its key."""
    return tg.sum(model(x)) * 0 + tg.sum(random.uniform(key, 3))


@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
def test_a_loss_with_a_key_gets_one_folded_with_the_step(device):
    x = np.ones((2, 4), np.float32)
    training = tg.compile(Line(), loss=noisy, optimizer=tg.optim.sgd(0.1), inputs={"x": (2, 4)}, device=device, seed=5)
    for step in (1, 2, 3):
        key = random.fold_in(random.key(5), step)
        expected = float(np.asarray(random.uniform(key, 3)).astype(np.float64).sum())
        assert float(training.step(x=x)) == pytest.approx(expected, rel=1e-6)
    with pytest.raises(InputError, match="makes the input 'key' itself"):
        training.step(x=x, key=np.asarray(KEY))
    assert training.step_count == 3


def test_a_key_among_the_inputs_is_given_by_the_caller():
    inputs = {"x": (2, 4), "key": tg.spec(2, "u32")}
    training = tg.compile(Line(), loss=noisy, optimizer=tg.optim.sgd(0.1), inputs=inputs, device="numpy")
    x = np.ones((2, 4), np.float32)
    losses = {float(training.step(x=x, key=np.asarray(KEY))) for _ in range(2)}
    assert list(losses) == [pytest.approx(float(np.asarray(random.uniform(KEY, 3)).sum()), rel=1e-6)]


@pytest.mark.parametrize(
    "call",
    [
        lambda: random.key(1.5),
        lambda: random.key(True),
        lambda: random.key(tg.array(1.5)),
        lambda: random.fold_in(KEY, 0.5),
        lambda: random.fold_in(KEY, tg.array(0.5)),
        lambda: random.bits(np.zeros(2), 3),
        lambda: random.bits(words(1, 2, 3), 3),
        lambda: random.bits(words(1), 3),
        lambda: untyped.random.bits((0, 1), 3),
        lambda: random.uniform(KEY, 3, 1.0, 0.0),
        lambda: random.uniform(KEY, 3, 0.0, float("nan")),
        lambda: random.uniform(KEY, 3, -3e38, 3e38),
        lambda: random.bernoulli(KEY, 1.5),
        lambda: random.bernoulli(KEY, float("nan")),
        lambda: random.categorical(KEY, np.zeros((3, 4), np.float32), shape=(4,)),
        lambda: random.permutation(KEY, -1),
        lambda: random.permutation(KEY, 1.5),
        lambda: random.dropout(KEY, np.zeros(3, np.float32), 1.5),
        lambda: random.dropout(KEY, np.zeros(3, np.float32), float("nan")),
        lambda: random.dropout(KEYS, np.zeros(3, np.float32), 0.5),
    ],
)
def test_bad_arguments(call):
    with pytest.raises(OptionError):
        call()


def test_bad_shapes_and_dtypes():
    with pytest.raises(ShapeError):
        random.bits(KEY, (-1,))
    with pytest.raises(ShapeError):
        random.permutation(KEY, MATRIX, axis=2)
    with pytest.raises(ShapeError):
        random.categorical(KEY, np.zeros(3, np.float32), axis=1)
    with pytest.raises(DTypeError):
        random.dropout(KEY, MATRIX, 0.5)
