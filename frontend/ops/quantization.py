"""Weights of few bits: integer codes packed in words, with a scale for each group of rows.

`int8` and `int4` are symmetric: a group's scale is its largest absolute value over 127, or over 7. `nf4` is the 4-bit
NormalFloat of T. Dettmers et al., QLoRA: Efficient Finetuning of Quantized LLMs, 2023 (arXiv 2305.14314): the scale is
the largest absolute value, and codes select one of 16 quantiles of a normal distribution, those of appendix E.

Words are `u32` on every device: WGSL has no narrower integers in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorgrad.errors import DTypeError, OptionError, ShapeError
from tensorgrad.ops.creation import arange
from tensorgrad.ops.elementwise.arithmetic import multiply, subtract
from tensorgrad.ops.elementwise.bits import bitwise_and, bitwise_right_shift
from tensorgrad.ops.promotion import as_tensor, cast
from tensorgrad.ops.shape import broadcast_to, reshape, take
from tensorgrad.tracing.checks import checked_extent, checked_integer
from tensorgrad.tracing.dtypes import NAMES, SHORT, is_float
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Tensor

WORD = 32
"""The bits of a word."""

NF4 = (
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
)
"""The values of the codes of NF4: QLoRA, appendix E."""


@dataclass(frozen=True)
class Scheme:
    """A format of codes.

    Attributes:
        bits: The bits of a code.
        table: The value of each code, before its scale; none for integers, whose code 0 is the least one.
    """

    bits: int
    table: tuple[float, ...] | None = None

    @property
    def codes_per_word(self) -> int:
        """The number of codes in a word."""
        return WORD // self.bits

    @property
    def middle(self) -> int:
        """The code of zero of integers."""
        return 1 << (self.bits - 1)

    def encoded(self, values: np.ndarray) -> np.ndarray:
        """Returns the codes of values, which are within 1 of zero: those nearest to them."""
        if self.table is None:
            return np.rint(values * (self.middle - 1)).astype(np.int32) + self.middle
        table = np.array(self.table, np.float32)
        return np.searchsorted((table[1:] + table[:-1]) / 2, values, side="left")

    def scale_of(self, largest: np.ndarray) -> np.ndarray:
        """Returns the scale of groups with these largest absolute values."""
        return largest if self.table is not None else largest / np.float32(self.middle - 1)


SCHEMES = {"int8": Scheme(8), "int4": Scheme(4), "nf4": Scheme(4, NF4)}
"""The formats by name."""

DEFAULTS = {8: "int8", 4: "nf4"}
"""The format by the number of bits, if none is named."""


def scheme_of(what: str, bits: object, scheme: object) -> str:
    """Returns the name of a format.

    Raises:
        OptionError: There is none of so many bits, or of this name.
    """
    bits = checked_integer(bits, f"{user_line()}: {what}: bits")
    if bits not in DEFAULTS:
        raise OptionError(f"{user_line()}: {what}: bits must be one of {', '.join(map(str, DEFAULTS))}, got {bits!r}")
    name = DEFAULTS[bits] if scheme is None else scheme
    fitting = [known for known, form in SCHEMES.items() if form.bits == bits]
    if name not in fitting:
        raise OptionError(
            f"{user_line()}: {what}: schemes of {bits} bits are {', '.join(fitting)}, but scheme is {scheme!r}"
        )
    return str(name)


def packed_codes(values: np.ndarray, scheme: Scheme, group: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns a matrix as words, `[ceil(rows / codes_per_word), columns]`, and scales, `[ceil(rows / group), columns]`.

    A word has the codes of neighbouring rows, the first in its lowest bits. The last group may have fewer rows.

    Args:
        values: A matrix `[rows, columns]`.
        scheme: The format.
        group: The number of rows that share a scale.
    """
    rows, columns = values.shape
    groups = -(-rows // group)
    grouped = np.zeros((groups * group, columns), np.float32)
    grouped[:rows] = values
    grouped = grouped.reshape(groups, group, columns)
    largest = np.abs(grouped).max(axis=1, keepdims=True)
    relative = grouped / np.where(largest > 0, largest, np.float32(1))
    codes = scheme.encoded(relative).reshape(-1, columns)[:rows]
    return words_of(codes, scheme.bits), scheme.scale_of(largest[:, 0])


def words_of(codes: np.ndarray, bits: int) -> np.ndarray:
    """Returns codes `[rows, columns]` as words, `[ceil(rows * bits / 32), columns]`; see `packed_codes`."""
    rows, columns = codes.shape
    each = WORD // bits
    words = -(-rows // each)
    padded = np.zeros((words * each, columns), np.uint32)
    padded[:rows] = codes
    shifts = np.arange(each, dtype=np.uint32)[:, None] * np.uint32(bits)
    return np.bitwise_or.reduce(padded.reshape(words, each, columns) << shifts, axis=1)


def dequantize(
    packed: TensorLike,
    scales: TensorLike,
    *,
    bits: int = 8,
    group: int = 64,
    scheme: str | None = None,
    rows: int | None = None,
    zeros: TensorLike | None = None,
) -> Tensor:
    """Returns the matrix that packed integers and their scales stand for, as `tg.nn.quantize` makes them.

    It consists of ordinary ops: a shift, a mask, a table or an offset, and a product. A matrix product that reads the
    result computes it where it reads the words, so the matrix is not stored.

    Args:
        packed: Words `[words, columns]` of u32, each with the codes of `32 / bits` neighbouring rows, the first in its
            lowest bits.
        scales: The scale of each group of rows, and column: `[ceil(rows / group), columns]`.
        bits: The bits of a code: 8 or 4.
        group: The number of rows that share a scale.
        scheme: `"int8"` or `"int4"`, where a code is the integer plus 128 or plus 8, or `"nf4"`, QLoRA's table; by
            default `"int8"` or `"nf4"`.
        rows: The number of rows, if the last word has fewer.
        zeros: The integers that stand for 0, of the shape and dtype of the scales; they are 0 by default.

    Returns:
        A matrix `[rows, columns]` of the dtype of the scales.

    Raises:
        OptionError: There is no such format, or there are zeros for a table.
        DTypeError: The words are not u32, the scales not floats, or the zeros of another dtype.
        ShapeError: The shapes don't fit each other.

    Example:
        >>> words = np.array([[0x7F818081]], np.uint32)
        >>> tg.dequantize(words, [[0.5]], bits=8, group=4)
        Array([[ 0.5],
         [ 0. ],
         [ 0.5],
         [-0.5]], dtype=f32)
    """
    form = SCHEMES[scheme_of("dequantize", bits, scheme)]
    words, factors = as_tensor(packed), as_tensor(scales)
    count = _checked_rows(words, factors, form, group, rows)
    offsets = None if zeros is None else _checked_zeros(as_tensor(zeros), factors, form)
    columns, most = words.shape[1], words.shape[0] * form.codes_per_word
    shifts = reshape(multiply(arange(form.codes_per_word, dtype="u32"), form.bits), (1, -1, 1))
    codes = bitwise_and(bitwise_right_shift(reshape(words, (-1, 1, columns)), shifts), (1 << form.bits) - 1)
    if form.table is None:
        values = cast(subtract(cast(codes, "i32"), form.middle), factors.dtype)
    else:
        values = take(np.array(form.table, factors.dtype), cast(codes, "i32"))

    def each(of_groups: Tensor) -> Tensor:
        repeated = broadcast_to(reshape(of_groups, (-1, 1, columns)), (factors.shape[0], group, columns))
        return reshape(repeated, (-1, columns))[:count]

    matrix = reshape(values, (most, columns))[:count]
    return multiply(matrix if offsets is None else subtract(matrix, each(offsets)), each(factors))


def _checked_zeros(zeros: Tensor, scales: Tensor, scheme: Scheme) -> Tensor:
    """Returns the integers that stand for 0.

    Raises:
        OptionError: The format has a table.
        DTypeError: They are of another dtype than the scales.
        ShapeError: They are of another shape than the scales.
    """
    if scheme.table is not None:
        raise OptionError(f"{user_line()}: dequantize: a table of codes has a code for 0, and takes no zeros")
    if zeros.dtype != scales.dtype:
        raise DTypeError(f"dequantize: zeros are {SHORT[zeros.dtype]}, scales {SHORT[scales.dtype]}: both are the same")
    if zeros.shape != scales.shape:
        raise ShapeError(f"dequantize: zeros are {zeros.shape}, and scales {scales.shape}: there is one for each")
    return zeros


def _checked_rows(words: Tensor, scales: Tensor, scheme: Scheme, group: int, rows: int | None) -> int:
    """Returns the number of rows.

    Raises:
        DTypeError: The words are not u32, or the scales not floats.
        ShapeError: The shapes don't fit each other.
    """
    if words.dtype != NAMES["u32"] or not is_float(scales.dtype):
        raise DTypeError(
            f"dequantize: words are u32 and scales are floats, got {SHORT[words.dtype]} and {SHORT[scales.dtype]}"
        )
    group = checked_extent(group, "dequantize: group", 1)
    if words.ndim != 2 or scales.ndim != 2 or words.shape[1] != scales.shape[1]:
        raise ShapeError(f"dequantize: the words are {words.shape}, the scales {scales.shape}: both are [.., columns]")
    count = words.shape[0] * scheme.codes_per_word if rows is None else checked_extent(rows, "dequantize: rows", 0)
    if -(-count // scheme.codes_per_word) != words.shape[0]:
        raise ShapeError(
            f"dequantize: {words.shape[0]} words have {scheme.codes_per_word} codes each, not {count!r} rows together"
        )
    if -(-count // group) != scales.shape[0]:
        raise ShapeError(f"dequantize: {count} rows in groups of {group} have not {scales.shape[0]} scales")
    return count
