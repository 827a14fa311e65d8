"""Cases of the ops that random numbers are computed by."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from case import SHAPES, Case, NumpyArray, f32, integers, u32, uniform
from xdsl.dialects.builtin import StringAttr

from tensorgrad.dialects.tg import random as ops
from tensorgrad.ops.promotion import cast
from tensorgrad.ops.random import erfinv
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.tracing.tracer import emit

ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)


def block(key: tuple[int, int], counter: tuple[int, int]) -> tuple[int, int]:
    """Returns Threefry-2x32 as specified by Random123, on Python integers."""
    keys = (*key, key[0] ^ key[1] ^ 0x1BD11BDA)
    x, y = ((counter[i] + keys[i]) % 2**32 for i in range(2))
    for number in range(20):
        rotation = ROTATIONS[number % 8]
        x = (x + y) % 2**32
        y = ((y << rotation) % 2**32 | y >> 32 - rotation) ^ x
        if number % 4 == 3:
            injection = number // 4 + 1
            x = (x + keys[injection % 3]) % 2**32
            y = (y + keys[(injection + 1) % 3] + injection) % 2**32
    return x, y


def expected(word: str, operands: tuple[NumpyArray, ...]) -> NumpyArray:
    """Returns one word of each block."""
    choose = {"first": lambda x, y: x, "second": lambda x, y: y, "both": lambda x, y: x ^ y}[word]
    rows = zip(*(operand.reshape(-1).tolist() for operand in operands), strict=True)
    values = [choose(*block((a, b), (c, d))) for a, b, c, d in rows]
    return np.array(values, np.uint32).reshape(operands[0].shape)


def threefry(word: str, *operands: Tensor) -> Tensor:
    """Emits the op."""
    return emit(ops.ThreefryOp, operands, word=StringAttr(word))


def threefry_cases() -> Iterator[Case]:
    """Returns cases with the published vectors, words of every shape, and the op in the middle of a graph."""
    published = (
        u32(0, 2**32 - 1, 0x13198A2E),
        u32(0, 2**32 - 1, 0x03707344),
        u32(0, 2**32 - 1, 0x243F6A88),
        u32(0, 2**32 - 1, 0x85A308D3),
    )
    results = {"first": u32(0x6B200159, 0x1CB996FC, 0xC4923A9C), "second": u32(0x99BA4EFE, 0xBB002BE7, 0x483DF7A0)}
    for word, result in results.items():
        yield Case(
            ops.ThreefryOp, f"published {word}", lambda *x, w=word: threefry(w, *x), published, lambda *_, r=result: r
        )
    for word in ops.WORDS:
        for seed, shape in enumerate(SHAPES):
            inputs = tuple(integers(0, 2**32, *shape, seed=4 * seed + i, dtype=np.uint32) for i in range(4))
            yield Case(
                ops.ThreefryOp,
                f"{word} {'x'.join(map(str, shape)) or 'scalar'}",
                lambda *x, w=word: threefry(w, *x),
                inputs,
                lambda *x, w=word: expected(w, x),
            )
    words = integers(0, 2**32, 6, seed=1, dtype=np.uint32)
    yield Case(
        ops.ThreefryOp,
        "same operand",
        lambda x: threefry("both", x, x, x, x),
        (words,),
        lambda x: expected("both", (x, x, x, x)),
    )
    yield Case(
        ops.ThreefryOp,
        "twice",
        lambda x: threefry("first", x, x, threefry("second", x, x, x, x), x),
        (words,),
        lambda x: expected("first", (x, x, expected("second", (x, x, x, x)), x)),
    )
    yield Case(
        ops.ThreefryOp,
        "to floats",
        lambda x: cast(threefry("both", x, x, x, x), "f32") * 0.5,
        (words,),
        lambda x: expected("both", (x, x, x, x)).astype(np.float32) * np.float32(0.5),
    )


def _inverse(x: float) -> float:
    """Returns the inverse error function by bisection, on erfc in the tails; near 0 the first term of its series."""
    if not abs(x) < 1:
        return math.copysign(math.inf, x) if abs(x) == 1 else math.nan
    if abs(x) < 1e-8:
        return x * math.sqrt(math.pi) / 2
    low, high = 0.0, 6.0
    for _ in range(100):
        middle = (low + high) / 2
        below = math.erf(middle) < abs(x) if abs(x) < 0.9 else math.erfc(middle) > 1 - abs(x)
        low, high = (middle, high) if below else (low, middle)
    return math.copysign(low, x)


def inverse(x: NumpyArray) -> NumpyArray:
    """Returns the inverse error function of every element."""
    return np.array([_inverse(float(value)) for value in x.reshape(-1)]).reshape(x.shape).astype(x.dtype)


def erfinv_cases() -> Iterator[Case]:
    """Returns cases of every shape, both tails to the last representable number, and the ends."""
    for seed, shape in enumerate(SHAPES):
        yield Case(
            ops.ErfinvOp,
            "x".join(map(str, shape)) or "scalar",
            erfinv,
            (uniform(-0.95, 0.95, *shape, seed=seed),),
            inverse,
            derivative=True,
        )
    tail = np.float32(1) - np.float32(2.0) ** np.arange(-24, -3, dtype=np.float32)
    yield Case(ops.ErfinvOp, "tails", erfinv, (np.concatenate([tail, -tail]),), inverse)
    yield Case(ops.ErfinvOp, "small", erfinv, (f32(0.0, -0.0, 1e-30, -1e-30, 1e-6, 3e-4),), inverse)
    yield Case(ops.ErfinvOp, "ends", erfinv, (f32(1, -1, 1.5, -2, np.inf, -np.inf, np.nan),), inverse)
    yield Case(ops.ErfinvOp, "line", erfinv, (np.linspace(-1, 1, 401, dtype=np.float32),), inverse)
    yield Case(ops.ErfinvOp, "f64", erfinv, (np.linspace(-0.999, 0.999, 101),), inverse, rtol=2e-15)
    yield Case(
        ops.ErfinvOp,
        "twice",
        lambda x: erfinv(x) * erfinv(x * 0.5),
        (uniform(-0.9, 0.9, 4, seed=3),),
        lambda x: (inverse(x.astype(np.float64)) * inverse(x.astype(np.float64) * 0.5)).astype(x.dtype),
        derivative=True,
    )


def random_cases() -> Iterator[Case]:
    """Returns all cases of the ops behind random numbers."""
    yield from threefry_cases()
    yield from erfinv_cases()
