"""Native code that samples random numbers: Threefry words, and normal numbers derived from them.

It uses IEEE addition, multiplication and division without fusing them, so every CPU gives the same bits. They equal
those of the ops in numpy: a test compares every possible normal number.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from tensorgrad.dialects.tg.random import ERFINV_F64, PARITY, ROTATIONS
from tensorgrad.runtime.cpu.code import NativeCode
from tensorgrad.runtime.errors import DeviceError

LANES = 32
"""SIMD lanes; the length of a filled array is a multiple of it."""

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


class NativeDrawing:
    """Functions that fill arrays of 32-bit elements whose length is a multiple of `LANES`.

    Raises:
        DeviceError: There is no code generator for this CPU.
    """

    def __init__(self) -> None:
        word = ctypes.c_uint32
        self._code = NativeCode(_text())
        self._functions = {
            name: self._code.function(name, ctypes.c_void_p, ctypes.c_int64, word, word, word) for name in _BODIES
        }

    def words(self, out: Array, first: int, second: int, start: int) -> None:
        """Fills an array with the words of a key's counters from `start` on."""
        self._fill("tg_words", out, first, second, start)

    def uniforms(self, words: Array, least: float, span: float) -> Array:
        """Returns the numbers from `least` on that `random.uniform` derives from words, in place."""
        self._fill("tg_uniforms", words, *(int(np.float32(bound).view(np.uint32)) for bound in (least, span)), 0)
        return words.view(np.float32)

    def normals(self, words: Array) -> Array:
        """Returns the normal numbers that `random.normal` derives from words, in place."""
        self._fill("tg_normals", words, 0, 0, 0)
        return words.view(np.float32)

    def _fill(self, name: str, array: Array, *key_and_start: int) -> None:
        assert array.flags.c_contiguous and array.itemsize == 4 and array.size % LANES == 0
        self._functions[name](array.ctypes.data, array.size, *key_and_start)


@cache
def native_drawing() -> NativeDrawing | None:
    """Returns this process's functions; None if there is no native code."""
    try:
        return NativeDrawing()
    except DeviceError:
        return None


class _Lanes:
    """A SIMD vector in code that is being built: each operator adds an instruction.

    A plain number is broadcast to all lanes.
    """

    def __init__(self, builder: Any, value: Any):
        self.builder = builder
        self.value = value

    def _operand(self, other: _Lanes | float) -> Any:
        kind = self.value.type
        return other.value if isinstance(other, _Lanes) else kind([other] * kind.count)

    def _by(self, instruction: str, other: _Lanes | float) -> _Lanes:
        return _Lanes(self.builder, getattr(self.builder, instruction)(self.value, self._operand(other)))

    def _number(self, instruction: str, other: _Lanes | float) -> _Lanes:
        whole = str(self.value.type.element).startswith("i")
        return self._by(instruction if whole else f"f{instruction}", other)

    def __add__(self, other: _Lanes | float) -> _Lanes:
        return self._number("add", other)

    def __sub__(self, other: _Lanes | float) -> _Lanes:
        return self._number("sub", other)

    def __mul__(self, other: _Lanes | float) -> _Lanes:
        return self._number("mul", other)

    def __truediv__(self, other: _Lanes) -> _Lanes:
        return self._by("fdiv", other)

    def __xor__(self, other: _Lanes | int) -> _Lanes:
        return self._by("xor", other)

    def __and__(self, other: int) -> _Lanes:
        return self._by("and_", other)

    def shifted(self, by: int) -> _Lanes:
        """Returns words without their lowest `by` bits."""
        return self._by("lshr", by)

    def rotated(self, by: int) -> _Lanes:
        """Returns words rotated to the left."""
        return self._by("shl", by)._by("or_", self.shifted(32 - by))

    def converted(self, instruction: str, element: Any) -> _Lanes:
        """Returns the numbers after a conversion, such as `bitcast`, to other elements."""
        from llvmlite import ir

        return _Lanes(self.builder, getattr(self.builder, instruction)(self.value, ir.VectorType(element, LANES)))

    def is_below(self, bound: _Lanes | float) -> Any:
        """Returns a mask; NaN is not below."""
        return self.builder.fcmp_ordered("<", self.value, self._operand(bound))

    def where(self, mask: Any, other: _Lanes) -> _Lanes:
        """Returns these numbers where a mask is true, and others elsewhere."""
        return _Lanes(self.builder, self.builder.select(mask, self.value, other.value))

    def root(self) -> _Lanes:
        """Returns square roots."""
        from llvmlite import ir

        kind = self.value.type
        sqrt = ir.Function(self.builder.module, ir.FunctionType(kind, [kind]), f"llvm.sqrt.v{LANES}f64")
        return _Lanes(self.builder, self.builder.call(sqrt, [self.value]))

    def polynomial(self, coefficients: Sequence[float], chains: int = 4) -> _Lanes:
        """Returns a polynomial, given its coefficients from the highest power down.

        Horner's rule is a single dependency chain, so the powers are divided among several chains.
        """
        if chains == 1:
            result = self * coefficients[0] + coefficients[1]
            for coefficient in coefficients[2:]:
                result = result * self + coefficient
            return result
        odd, even = coefficients[-2::-2][::-1], coefficients[::-2][::-1]
        square = self * self
        return square.polynomial(odd, chains // 2) * self + square.polynomial(even, chains // 2)


def _text() -> str:
    """Returns LLVM IR of the functions, which take an array, its size, a key's two words, and the first counter."""
    from llvmlite import ir

    module = ir.Module("tg_drawing")
    word = ir.IntType(32)
    signature = ir.FunctionType(ir.VoidType(), [ir.PointerType(), ir.IntType(64), word, word, word])
    for name, body in _BODIES.items():
        function = ir.Function(module, signature, name)
        entry, loop, end = (function.append_basic_block(label) for label in ("entry", "loop", "end"))
        builder = ir.IRBuilder(entry)
        array, size, *key, start = function.args
        builder.cbranch(builder.icmp_unsigned("==", size, size.type(0)), end, loop)
        builder.position_at_end(loop)
        place = builder.phi(size.type)
        place.add_incoming(size.type(0), entry)
        pointer = builder.gep(array, [place], source_etype=word)
        counter = builder.add(start, builder.trunc(place, word))
        builder.store(body(builder, pointer, *key, counter), pointer, align=4)
        following = builder.add(place, place.type(LANES))
        place.add_incoming(following, builder.block)
        builder.cbranch(builder.icmp_unsigned("<", following, size), loop, end)
        builder.position_at_end(end)
        builder.ret_void()
    return str(module)


def _splat(builder: Any, word: Any) -> _Lanes:
    from llvmlite import ir

    kind = ir.VectorType(word.type, LANES)
    vector = builder.insert_element(kind(ir.Undefined), word, ir.IntType(32)(0))
    return _Lanes(builder, builder.shuffle_vector(vector, vector, ir.VectorType(ir.IntType(32), LANES)([0] * LANES)))


def _words(builder: Any, pointer: Any, *key_and_counter: Any) -> Any:
    """Returns the words of the counters from a given one on: the exclusive or of both words of each encrypted pair."""
    first, second, counter = (_splat(builder, word) for word in key_and_counter)
    kind = counter.value.type
    x, y = first, counter + _Lanes(builder, kind(list(range(LANES)))) + second
    keys = first, second, first ^ second ^ PARITY
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            x = x + y
            y = y.rotated(rotation) ^ x
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + (group + 1)
    return (x ^ y).value


def _units(builder: Any, pointer: Any) -> _Lanes:
    """Returns the multiples of 2⁻²³ in [0, 1) given by the upper bits of the words at a pointer."""
    from llvmlite import ir

    words = _Lanes(builder, builder.load(pointer, align=4, typ=ir.VectorType(ir.IntType(32), LANES)))
    return (words & 0xFFFFFE00).converted("uitofp", ir.FloatType()) * 2.0**-32


def _uniforms(builder: Any, pointer: Any, least: Any, span: Any, _: Any) -> Any:
    """Returns uniform numbers from the words there, as `random.uniform`; the bounds are given as bits of f32."""
    from llvmlite import ir

    low, extent = (_splat(builder, word).converted("bitcast", ir.FloatType()) for word in (least, span))
    numbers = _units(builder, pointer) * extent + low
    return low.where(numbers.is_below(low), numbers).value


def _normals(builder: Any, pointer: Any, *_: Any) -> Any:
    """Returns √2 erfinv(u) for u uniform in (-1, 1), from the words there, as `random.normal` and `tg.erfinv`."""
    from llvmlite import ir

    least = np.nextafter(np.float32(-1), np.float32(0))
    unit = _units(builder, pointer)
    x = (unit * float(np.float32(1) - least) + float(least)).converted("fpext", ir.DoubleType())
    numbers = _erfinv_over_x(_minus_log((x * -1.0 + 1.0) * (x + 1.0))) * x
    return (numbers.converted("fptrunc", ir.FloatType()) * float(np.float32(math.sqrt(2)))).value


def _erfinv_over_x(w: _Lanes) -> _Lanes:
    """Returns erfinv(x) / x from w = -log(1 - x²); tails that no lane falls into are not computed."""
    from llvmlite import ir

    (bound, shift, coefficients), *tails = ERFINV_F64
    builder, near = w.builder, (w - shift).polynomial(coefficients)
    is_near = w.is_below(bound)
    before = builder.block
    every = ir.IntType(LANES)((1 << LANES) - 1)
    with builder.if_then(builder.icmp_unsigned("!=", builder.bitcast(is_near, every.type), every), likely=False):
        root = w.root()
        bounds = [bound for bound, _, _ in tails]
        far = [(root - shift).polynomial(coefficients) for _, shift, coefficients in tails]
        value = far[-1]
        for bound, inner in reversed(list(zip(bounds[:-1], far[:-1], strict=True))):
            value = inner.where(w.is_below(bound), value)
        mended = near.where(is_near, value).value
        after = builder.block
    result = builder.phi(near.value.type)
    result.add_incoming(near.value, before)
    result.add_incoming(mended, after)
    return _Lanes(builder, result)


_HALF_ROOT = 0x3FE6A09E00000000
"""The bits of about √½: fractions lie between it and √2."""

_LN_2_HIGH, _LN_2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10

_LOG = (
    0.1479819860511658591,
    0.1531383769920937332,
    0.1818357216161805012,
    0.2222219843214978396,
    0.2857142874366239149,
    0.3999999999940941908,
    0.6666666666666735130,
    0.0,
)


def _minus_log(x: _Lanes) -> _Lanes:
    """Returns -log(x) within 1 ulp for positive normal x, as in FreeBSD's `e_log.c`, originally from fdlibm.

    x is 2ᵏ(1 + d) and s = d / (2 + d); then log(1 + d) = d - (d²/2 - s (d²/2 + r(s²))).
    """
    from llvmlite import ir

    bits = x.converted("bitcast", ir.IntType(64)) - _HALF_ROOT
    k = bits._by("ashr", 52).converted("sitofp", ir.DoubleType())
    d = ((bits & (1 << 52) - 1) + _HALF_ROOT).converted("bitcast", ir.DoubleType()) - 1.0
    half, s = d * d * 0.5, d / (d + 2.0)
    inner = s * (half + (s * s).polynomial(_LOG)) + k * _LN_2_LOW
    return (half - inner - d) - k * _LN_2_HIGH


_BODIES: dict[str, Callable[..., Any]] = {"tg_words": _words, "tg_uniforms": _uniforms, "tg_normals": _normals}
"""By function name, what builds the numbers of a vector from its pointer, two words, and its first counter."""
