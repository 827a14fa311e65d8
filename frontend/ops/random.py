"""Random numbers from keys: Threefry-2x32 in the layout of JAX's partitionable generator.

A key is a tensor of two u32, traced or concrete. There is no hidden state: the same key gives the same numbers on every
backend, and `fold_in` and `split` make new keys. Keys may have leading axes, which samples then have too. Numbers
agree with `jax.random` under `jax_threefry_partitionable=True`: bits, `uniform`, `randint`, `bernoulli` and
`permutation` exactly, `normal` and `categorical` to rounding.

With a concrete key outside a trace, numbers are sampled immediately. Inside a trace they are sampled whenever the
program runs, and are the same each time unless the key is one of the program's inputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import StringAttr

from tensorgrad.dialects.tg import random as ops
from tensorgrad.dialects.tg.elementwise import arithmetic
from tensorgrad.errors import DTypeError, OptionError
from tensorgrad.ops import drawing
from tensorgrad.ops.creation import arange
from tensorgrad.ops.elementwise.arithmetic import abs as absolute
from tensorgrad.ops.elementwise.arithmetic import (
    add,
    equal,
    less,
    maximum,
    multiply,
    negative,
    remainder,
    sign,
    subtract,
    where,
)
from tensorgrad.ops.elementwise.bits import bitwise_left_shift, bitwise_or
from tensorgrad.ops.elementwise.functions import log, log1p
from tensorgrad.ops.promotion import as_tensor, bitcast, broadcast_shapes, broadcast_to, cast, common
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.ops.reduce import argmax
from tensorgrad.ops.shape import elements_at, expand_dims, normalized_axis, reshape, take, transpose
from tensorgrad.ops.sort import argsort
from tensorgrad.tracing.checks import checked_integer
from tensorgrad.tracing.dtypes import NAMES, SHORT, DType, as_dtype, is_float, spec
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Array, Tensor
from tensorgrad.tracing.tracer import current_trace, emit

Key: TypeAlias = Tensor | np.ndarray[Any, np.dtype[Any]]
Shape: TypeAlias = int | Sequence[int]

WORD = 0xFFFFFFFF
TOP_23_BITS = 0xFFFFFE00


def key(seed: TensorLike) -> Tensor:
    """Returns the key of a seed.

    Args:
        seed: Any integer, of which the low 64 bits are used. Or a tensor of integers, traced or not: a key for each.

    Raises:
        OptionError: It is not an integer, or it is a key (u32 with a last axis of 2).

    Example:
        >>> first, second = tg.random.split(tg.random.key(0))
        >>> bool(tg.all(tg.random.key(0) == tg.random.key(0)))
        True
    """
    if isinstance(seed, Tensor) and seed.dtype == np.uint32 and seed.shape[-1:] == (2,):
        raise OptionError(f"seed must be an integer, got {seed!r}; a key is not one")
    if isinstance(seed, Tensor):
        number = _integers("seed", seed)
        sign = where(less(seed, 0), _word(WORD), _word(0)) if seed.dtype.kind == "i" else _word(0)
        return _paired(broadcast_to(sign, seed.shape), number)
    seed_number = checked_integer(seed, "seed")
    return Array(np.array([seed_number >> 32 & WORD, seed_number & WORD], np.uint32))


def fold_in(key: Key, data: TensorLike) -> Tensor:
    """Returns a new key from a key and a number, of which the low 32 bits are used.

    Args:
        key: A key.
        data: An integer, or a tensor of integers; its axes broadcast against the key's leading ones.

    Raises:
        OptionError: `key` is not a key, or `data` is not an integer.

    Example:
        >>> tg.random.fold_in(tg.random.key(0), 7).shape
        (2,)
    """
    own = checked(key)
    if isinstance(data, Tensor):
        return _pairs(own, _integers("data", data))
    return _pairs(own, Array(np.array(checked_integer(data, "data") & WORD, np.uint32)))


def split(key: Key, count: Shape = 2) -> Tensor:
    """Returns independent new keys from one, along new axes of extents `count` before the last.

    Raises:
        OptionError: `key` is not a key.

    Example:
        >>> first, second = tg.random.split(tg.random.key(0))
        >>> bool(tg.all(first == second))
        False
    """
    own, extents = checked(key), spec(count).shape
    size = math.prod(extents)
    numbers = Array(np.arange(size, dtype=np.uint32)) if isinstance(own, Array) else arange(size, dtype="u32")
    return reshape(_pairs(expand_dims(own, -2), numbers), (*own.shape[:-1], *extents, 2))


@recorded_whole
def bits(key: Key, shape: Shape = ()) -> Tensor:
    """Uniformly random u32 words.

    Raises:
        OptionError: `key` is not a key.

    Example:
        >>> tg.random.bits(tg.random.key(0), (2, 3)).dtype
        dtype('uint32')
    """
    own, extents = checked(key), spec(shape).shape
    if _is_drawn_at_once(own, extents):
        return Array(drawing.bits(np.asarray(own), extents))
    counters = arange(math.prod(extents), dtype="u32")
    return reshape(_words(expand_dims(own, -2), counters, "both"), (*own.shape[:-1], *extents))


@recorded_whole
def uniform(key: Key, shape: Shape = (), low: TensorLike = 0.0, high: TensorLike = 1.0) -> Tensor:
    """Uniformly random f32 in `[low, high)`: multiples of 2⁻²³, scaled and shifted.

    Between 0 and 1 the numbers are bit-identical on every backend, and to JAX's; scaled ones may differ in the last
    bit, because some backends round `unit * span + low` once and some twice. Rounding can reach `high` if the bounds
    are close relative to their magnitude.

    Args:
        key: A key.
        shape: The shape of the result, after the key's leading axes.
        low: The lower bound, a number or a tensor.
        high: The upper bound, a number or a tensor.

    Raises:
        OptionError: `key` is not a key, or the bounds are not finite, not in order, or too far apart for f32.

    Example:
        >>> tg.random.uniform(tg.random.key(0), 3, 1.0, 2.0) >= 1.0
        Array([ True,  True,  True], dtype=bool)
    """
    own, extents = checked(key), spec(shape).shape
    if _is_drawn_at_once(own, extents) and isinstance(low, Real) and isinstance(high, Real):
        return Array(drawing.uniform(np.asarray(own), extents, *_bounds(float(low), float(high))))
    words = bits(key, shape)
    high_bits = emit(arithmetic.AndOp, common("uniform", words, TOP_23_BITS))
    # The words' top 23 bits as a fraction: exact, and without manipulating the bits of a float.
    unit = multiply(cast(high_bits, "f32"), 2.0**-32)
    if not (isinstance(low, Real) and isinstance(high, Real)):
        least, most = cast(low, "f32"), cast(high, "f32")
        return maximum(least, add(multiply(unit, subtract(most, least)), least))
    least, span = _bounds(float(low), float(high))
    if least == 0:
        return unit if span == 1 else multiply(unit, span)
    return maximum(least, add(multiply(unit, span), least))


def randint(key: Key, shape: Shape, low: TensorLike, high: TensorLike, dtype: object = "i32") -> Tensor:
    """Random integers in `[low, high)`, equally likely to within a part in 2³², or in 2⁶⁴ for 64-bit dtypes.

    Each is computed from twice as many random bits as its dtype has, and from at least 64, with the same results as
    JAX: the words of two keys form one number, whose remainder modulo `high - low` is added to `low`.

    Args:
        key: A key.
        shape: The shape of the result, after the key's leading axes.
        low: The smallest integer, a number or a tensor of integers.
        high: One more than the largest, a number or a tensor of integers. If a tensor element is not larger than `low`,
            the result is `low`.
        dtype: A dtype of integers.

    Raises:
        OptionError: `key` is not a key, a bound is not an integer, or numbers are out of order or of the dtype's range.
        DTypeError: The dtype is not an integer dtype.

    Example:
        >>> tg.random.randint(tg.random.key(0), 3, 0, 10).shape
        (3,)
    """
    first, second = (split(key)[..., place, :] for place in range(2))
    kind = as_dtype(dtype)
    if kind.kind not in "iu":
        raise DTypeError(f"randint: the dtype must be one of integers, got {SHORT[kind]}")
    words = NAMES["u64" if kind.itemsize == 8 else "u32"]
    least, span = _integer_bounds(low, high, kind, words)
    upper, lower = (bits(word, shape) if words == NAMES["u32"] else _bits_64(word, shape) for word in (first, second))
    if span is not None:
        half = remainder(_word(1 << 4 * words.itemsize, words), span)
        upper = multiply(remainder(upper, span), remainder(multiply(half, half), span))
        lower = remainder(add(upper, remainder(lower, span)), span)
    drawn = add(least, lower)
    return bitcast(drawn, kind) if kind.itemsize == words.itemsize else cast(drawn, kind)


def _bits_64(key: Tensor, shape: Shape) -> Tensor:
    """Uniformly random u64, whose halves are the two words of one encryption."""
    extents = spec(shape).shape
    counters = arange(math.prod(extents), dtype="u32")
    upper, lower = (cast(_words(expand_dims(key, -2), counters, word), "u64") for word in ("first", "second"))
    both = bitwise_or(bitwise_left_shift(upper, _word(32, NAMES["u64"])), lower)
    return reshape(both, (*key.shape[:-1], *extents))


def _integer_bounds(low: Any, high: Any, kind: DType, words: DType) -> tuple[Tensor, Tensor | None]:
    """Returns the lower bound and the number of integers, as words; `None` if that is all words."""
    if isinstance(low, Tensor | np.ndarray) or isinstance(high, Tensor | np.ndarray):
        least, most = (as_tensor(bound, kind) for bound in (low, high))
        start = _integers("randint: a bound", least, words)
        span = subtract(_integers("randint: a bound", most, words), start)
        return start, where(less(least, most), span, 1)
    first, last = checked_integer(low, "randint: low"), checked_integer(high, "randint: high")
    limits, all_words = np.iinfo(kind), 1 << 8 * words.itemsize
    if not limits.min <= first < last <= limits.max + 1:
        raise OptionError(f"randint: bounds must be in order, and integers of {SHORT[kind]}, got {low} and {high}")
    return _word(first % all_words, words), None if last - first == all_words else _word(last - first, words)


def _bounds(low: float, high: float) -> tuple[float, float]:
    """Returns the lower bound and the extent, as rounded to f32."""
    with np.errstate(over="ignore", invalid="ignore"):
        least, most = np.float32(low), np.float32(high)
        span = most - least
    if not (np.isfinite(least) and np.isfinite(span) and least <= most):
        raise OptionError(f"uniform: bounds must be finite and in order, got {low} and {high}")
    return float(least), float(span)


def erfinv(x: TensorLike) -> Tensor:
    """Returns the inverse of the error function: infinite at 1 and -1, NaN beyond; within 4 ulp in f32.

    Example:
        >>> tg.erfinv([0.0, 0.5])
        Array([0.        , 0.47693628], dtype=f32)
    """
    tensor = as_tensor(x)
    return emit(ops.ErfinvOp, [tensor if is_float(tensor.dtype) else cast(tensor, "f32")])


@recorded_whole
def normal(key: Key, shape: Shape = ()) -> Tensor:
    """Normally distributed f32 of mean 0 and standard deviation 1.

    Raises:
        OptionError: `key` is not a key.

    Example:
        >>> tg.random.normal(tg.random.key(0), (2, 3)).shape
        (2, 3)
    """
    own, extents = checked(key), spec(shape).shape
    if _is_drawn_at_once(own, extents):
        return Array(drawing.normal(np.asarray(own), extents))
    above_minus_one = float(np.nextafter(np.float32(-1), np.float32(0)))
    return multiply(erfinv(uniform(key, shape, above_minus_one, 1.0)), math.sqrt(2))


@recorded_whole
def gumbel(key: Key, shape: Shape = ()) -> Tensor:
    """F32 of the standard Gumbel distribution, `-log(-log(u))` of a uniform `u`.

    Raises:
        OptionError: `key` is not a key.

    Example:
        >>> tg.random.gumbel(tg.random.key(0), (2, 3)).shape
        (2, 3)
    """
    tiny = float(np.finfo(np.float32).tiny)
    return negative(log(negative(log(uniform(key, shape, tiny, 1.0)))))


@recorded_whole
def exponential(key: Key, shape: Shape = ()) -> Tensor:
    """F32 of the exponential distribution with mean 1, `-log(1 - u)` of a uniform `u`; divide by another rate.

    Raises:
        OptionError: `key` is not a key.

    Example:
        >>> bool(tg.all(tg.random.exponential(tg.random.key(0), 100) >= 0))
        True
    """
    return negative(log1p(negative(uniform(key, shape))))


@recorded_whole
def laplace(key: Key, shape: Shape = ()) -> Tensor:
    """F32 of the Laplace distribution around 0 with scale 1: an exponential distribution to either side.

    Raises:
        OptionError: `key` is not a key.

    Example:
        >>> tg.random.laplace(tg.random.key(0), (2, 3)).shape
        (2, 3)
    """
    side = uniform(key, shape, -1 + float(np.finfo(np.float32).eps), 1.0)
    return multiply(sign(side), log1p(negative(absolute(side))))


@recorded_whole
def bernoulli(key: Key, p: TensorLike = 0.5, shape: Shape | None = None) -> Tensor:
    """Booleans that are true with probability `p`.

    Args:
        key: A key.
        p: The probability, a number or a tensor that broadcasts to the result.
        shape: The shape of the result, after the key's leading axes; that of `p` by default.

    Raises:
        OptionError: `key` is not a key, or `p` is a number outside `[0, 1]`.

    Example:
        >>> tg.random.bernoulli(tg.random.key(0), 0.5, (4,)).dtype
        dtype('bool')
    """
    if isinstance(p, Real) and not 0 <= float(p) <= 1:
        raise OptionError(f"bernoulli: p must be between 0 and 1, got {p!r}")
    chance = cast(p, "f32")
    return less(uniform(key, chance.shape if shape is None else shape), chance)


@recorded_whole
def categorical(key: Key, logits: TensorLike, axis: int = -1, shape: Shape | None = None) -> Tensor:
    """Samples positions along `axis`, as i32, with probabilities `softmax(logits, axis)`: by Gumbel noise and argmax.

    Args:
        key: A key.
        logits: Logarithms of probabilities, up to a constant along `axis`.
        axis: The axis of the alternatives.
        shape: The shape of the result, after the key's leading axes: that of `logits` without `axis`, possibly after
            further axes.

    Raises:
        OptionError: `key` is not a key, or `shape` doesn't end with that of `logits` without `axis`.
        ShapeError: `axis` is out of range.

    Example:
        >>> tg.random.categorical(tg.random.key(0), tg.log([[0.0, 1.0], [1.0, 0.0]]))
        Array([1, 0], dtype=i32)
    """
    weights = as_tensor(logits)
    place = normalized_axis(axis, weights.ndim, "categorical")
    own = (*weights.shape[:place], *weights.shape[place + 1 :])
    result_shape = own if shape is None else spec(shape).shape
    prefix = result_shape[: len(result_shape) - len(own)]
    if (*prefix, *own) != result_shape:
        raise OptionError(f"categorical: shape {result_shape} must end in {own}")
    noise = gumbel(key, (*prefix, *weights.shape))
    return argmax(add(noise, weights), axis=place - weights.ndim)


def permutation(key: Key, x: TensorLike, axis: int = 0, independent: bool = False) -> Tensor:
    """Returns a random permutation: of the integers below `x`, or of the elements of `x` along `axis`.

    Sorts by random words, repeatedly until these have three times as many bits as the length, as in JAX: all orders are
    equally likely, except for collisions too rare to observe.

    Args:
        key: A key.
        x: An integer, or a tensor.
        axis: The axis to permute.
        independent: Whether each line along `axis` is permuted independently; otherwise whole slices are permuted.

    Returns:
        i32 numbers, or the elements of `x`, after the key's leading axes.

    Raises:
        OptionError: `key` is not a key, or `x` is a negative integer.
        ShapeError: `axis` is out of range.

    Example:
        >>> sorted(tg.random.permutation(tg.random.key(0), 5).tolist())
        [0, 1, 2, 3, 4]
    """
    own = checked(key)
    batch = own.shape[:-1]
    length: Any = x
    if not isinstance(x, Tensor) and np.ndim(length) == 0:
        count = checked_integer(length, "x")
        if count < 0:
            raise OptionError(f"permutation: the length must not be negative, got {count}")
        normalized_axis(axis, 1, "permutation")
        return _shuffled(own, broadcast_to(arange(count), (*batch, count)), -1, 1)
    values = as_tensor(x)
    place = normalized_axis(axis, values.ndim, "permutation") - values.ndim
    if independent or values.ndim == 1:
        return _shuffled(own, broadcast_to(values, (*batch, *values.shape)), place, values.ndim)
    count = values.shape[place]
    order = _shuffled(own, broadcast_to(arange(count), (*batch, count)), -1, 1)
    moved = take(values, order, place)
    # The key's axes are at the position of `axis`: move them to the front.
    first = values.ndim + place
    front = list(range(first, first + len(batch)))
    return transpose(moved, [*front, *(i for i in range(moved.ndim) if i not in front)])


def _shuffled(key: Tensor, x: Tensor, axis: int, rank: int) -> Tensor:
    """Sorts the last `rank` axes of `x` by random words along `axis`, as many times as JAX does."""
    extents = x.shape[x.ndim - rank :]
    rounds = math.ceil(3 * math.log(max(1, math.prod(extents))) / math.log(WORD))
    for _ in range(rounds):
        both = split(key)
        key, own = both[..., 0, :], both[..., 1, :]
        x = elements_at(x, argsort(bits(own, extents), axis), axis)
    return x


@recorded_whole
def dropout(key: Key, x: TensorLike, rate: float) -> Tensor:
    """`x` with elements set to 0 with probability `rate`, and the others divided by `1 - rate`.

    Args:
        key: A key, without leading axes.
        x: A tensor of floats.
        rate: A number in `[0, 1]`.

    Raises:
        OptionError: `key` is not a key, or `rate` is out of range.
        DTypeError: `x` is not a float tensor.

    Example:
        >>> dropped = tg.random.dropout(tg.random.key(0), tg.ones(100), 0.5)
        >>> sorted(set(dropped.tolist()))
        [0.0, 2.0]
    """
    if not isinstance(rate, Real) or not 0 <= rate <= 1:
        raise OptionError(f"dropout: rate must be a number between 0 and 1, got {rate!r}")
    values, own = as_tensor(x), checked(key)
    if own.ndim > 1:
        raise OptionError(f"dropout: takes one key, got keys of shape {own.shape}")
    if not is_float(values.dtype):
        raise DTypeError(f"dropout: takes floats, not {SHORT[values.dtype]}")
    if rate == 0:
        return values
    zero = Array(np.zeros((), values.dtype))
    if rate == 1:
        return broadcast_to(zero, values.shape)
    mask = bernoulli(own, 1 - rate, values.shape)
    return where(mask, multiply(values, 1 / (1 - rate)), zero)


def _is_drawn_at_once(key: Tensor, shape: tuple[int, ...]) -> bool:
    """Returns whether numbers are sampled without ops: outside a trace, from one host key, within the counter range."""
    return (
        isinstance(key, Array)
        and key.live is None
        and key.ndim == 1
        and current_trace() is None
        and math.prod(shape) <= WORD
    )


def _words(key: Tensor, counters: Tensor, word: str) -> Tensor:
    """Encrypts counters with keys whose leading axes broadcast against them."""
    extents = broadcast_shapes(key.shape[:-1], counters.shape, what="random keys")
    operands = [key[..., 0], key[..., 1], _word(0), counters]
    return emit(ops.ThreefryOp, [broadcast_to(x, extents) for x in operands], word=StringAttr(word))


def _pairs(key: Tensor, counters: Tensor) -> Tensor:
    """Returns keys from keys, whose leading axes broadcast against the counters; of host arrays without any ops."""
    if all(isinstance(x, Array) and x.live is None for x in (key, counters)):
        words, numbers = np.asarray(key), np.asarray(counters)
        if words.ndim == 1 and not numbers.ndim:  # a training step makes a key this way
            first, second = ops.threefry(words[:1], words[1:], np.zeros(1, np.uint32), numbers.reshape(1))
            return Array(np.concatenate((first, second)))
        extents = np.broadcast_shapes(words.shape[:-1], numbers.shape)
        parts = (words[..., 0], words[..., 1], np.zeros((), np.uint32), numbers)
        return Array(
            np.stack(ops.threefry(*(np.broadcast_to(part, extents or 1) for part in parts)), -1).reshape(*extents, 2)
        )
    return _paired(_words(key, counters, "first"), _words(key, counters, "second"))


def _paired(first: Tensor, second: Tensor) -> Tensor:
    """Returns the words of keys stacked in pairs; concrete words make concrete keys, even in a trace."""
    concrete = isinstance(first, Array) and isinstance(second, Array)
    numbers = Array(np.arange(2, dtype=np.int32)) if concrete else arange(2)
    return where(equal(numbers, 0), expand_dims(first, -1), expand_dims(second, -1))


def _word(number: int, words: DType = NAMES["u32"]) -> Array:
    return Array(np.array(number, words))


def _integers(what: str, value: Tensor, words: DType = NAMES["u32"]) -> Tensor:
    """Returns integers as words, keeping the low bits of wider ones."""
    if value.dtype.kind not in "iu":
        raise OptionError(f"{what} must be an integer, got {SHORT[value.dtype]}")
    return cast(value, words)


def checked(key: Any) -> Tensor:
    """Returns a key as a tensor.

    Raises:
        OptionError: It is not a key.
    """
    if isinstance(key, (Tensor, np.ndarray)) and key.dtype == NAMES["u32"] and key.shape[-1:] == (2,):
        return as_tensor(key)
    raise OptionError(f"a key is two u32, such as tg.random.key(0) gives; got {key!r}")


__all__ = [
    "Key",
    "bernoulli",
    "bits",
    "categorical",
    "dropout",
    "erfinv",
    "exponential",
    "fold_in",
    "gumbel",
    "key",
    "laplace",
    "normal",
    "permutation",
    "randint",
    "split",
    "uniform",
]
