"""The ops for random numbers: a cipher on counters, and the inverse error function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from tensorgrad.dialects.tg.base import Evaluate, NumpyArray, Properties, Tensor, TensorOp, require, ui32
from tensorgrad.dialects.tg.elementwise.arithmetic import UnaryOp, fold_splats
from tensorgrad.dialects.tg.traits import Elementwise

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
"""The rotations of each round of Threefry-2x32; groups of four rounds alternate between the two rows."""

PARITY = 0x1BD11BDA
"""The constant whose exclusive or with the two words of the key is the third word."""

WORDS = ("first", "second", "both")
"""The words of the block that `tg.threefry` can return; "both" is their exclusive or."""


@irdl_op_definition
class ThreefryOp(TensorOp):
    """Encrypts a counter with a key, elementwise, by 20 rounds of Threefry-2x32, and returns a word of the result.

    The operands are the two words of the key and the two of the counter, high and low, all u32. `word` says which word
    of the encrypted pair is the result: "first", "second", or "both", which is their exclusive or. The bits are those
    of Random123 on every backend. It has no derivative.

    Example:
        %4 = tg.threefry %0, %1, %2, %3 word = "both" : tensor<4xui32>, tensor<4xui32>, tensor<4xui32>, tensor<4xui32>
    """

    name = "tg.threefry"
    key_first = operand_def()
    key_second = operand_def()
    high = operand_def()
    low = operand_def()
    word = prop_def(StringAttr)
    result = result_def()
    traits = traits_def(Pure(), Elementwise())
    PROPERTIES: ClassVar = ("word",)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        kind = operands[0]
        require(kind.get_element_type() == ui32, lambda: f"takes ui32, not {kind.get_element_type()}")
        require(
            all(operand == kind for operand in operands),
            lambda: f"operands have different types: {', '.join(map(str, operands))}",
        )
        word = cast(StringAttr, properties["word"]).data
        require(word in WORDS, f'word "{word}" is not one of {", ".join(WORDS)}')
        return kind

    def prepare(self) -> Evaluate:
        word = self.word.data

        def encrypt(*operands: NumpyArray) -> NumpyArray:
            first, second = threefry(*operands)
            return {"first": first, "second": second, "both": first ^ second}[word]

        return encrypt

    def fold_splat(self, values: Sequence[NumpyArray]) -> Attribute | None:
        return fold_splats(self, values)


def threefry(
    key_first: NumpyArray, key_second: NumpyArray, high: NumpyArray, low: NumpyArray
) -> tuple[NumpyArray, NumpyArray]:
    """Encrypts pairs of words, all u32, by 20 rounds of Threefry-2x32."""
    keys = (key_first, key_second, key_first ^ key_second ^ np.uint32(PARITY))
    with np.errstate(over="ignore"):
        x, y = high + keys[0], low + keys[1]
        for group in range(5):
            for rotation in ROTATIONS[group % 2]:
                x = x + y
                y = (y << np.uint32(rotation)) | (y >> np.uint32(32 - rotation))
                y = y ^ x
            x = x + keys[(group + 1) % 3]
            y = y + keys[(group + 2) % 3] + np.uint32(group + 1)
    return np.asarray(x), np.asarray(y)


# The inverse error function of Giles ("Approximating the erfinv function", 2010): x times a polynomial in the shifted
# w = -log(1 - x²), or in its square root in the tails. Each piece lists the bound of w, the shift and the coefficients.

ERFINV_F32: tuple[tuple[float, float, tuple[float, ...]], ...] = (
    (
        5.0,
        2.5,
        (
            2.81022636e-08,
            3.43273939e-07,
            -3.5233877e-06,
            -4.39150654e-06,
            0.00021858087,
            -0.00125372503,
            -0.00417768164,
            0.246640727,
            1.50140941,
        ),
    ),
    (
        np.inf,
        3.0,
        (
            -0.000200214257,
            0.000100950558,
            0.00134934322,
            -0.00367342844,
            0.00573950773,
            -0.0076224613,
            0.00943887047,
            1.00167406,
            2.83297682,
        ),
    ),
)

ERFINV_F64: tuple[tuple[float, float, tuple[float, ...]], ...] = (
    (
        6.25,
        3.125,
        (
            -3.6444120640178196996e-21,
            -1.685059138182016589e-19,
            1.2858480715256400167e-18,
            1.115787767802518096e-17,
            -1.333171662854620906e-16,
            2.0972767875968561637e-17,
            6.6376381343583238325e-15,
            -4.0545662729752068639e-14,
            -8.1519341976054721522e-14,
            2.6335093153082322977e-12,
            -1.2975133253453532498e-11,
            -5.4154120542946279317e-11,
            1.051212273321532285e-09,
            -4.1126339803469836976e-09,
            -2.9070369957882005086e-08,
            4.2347877827932403518e-07,
            -1.3654692000834678645e-06,
            -1.3882523362786468719e-05,
            0.0001867342080340571352,
            -0.00074070253416626697512,
            -0.0060336708714301490533,
            0.24015818242558961693,
            1.6536545626831027356,
        ),
    ),
    (
        16.0,
        3.25,
        (
            2.2137376921775787049e-09,
            9.0756561938885390979e-08,
            -2.7517406297064545428e-07,
            1.8239629214389227755e-08,
            1.5027403968909827627e-06,
            -4.013867526981545969e-06,
            2.9234449089955446044e-06,
            1.2475304481671778723e-05,
            -4.7318229009055733981e-05,
            6.8284851459573175448e-05,
            2.4031110387097893999e-05,
            -0.0003550375203628474796,
            0.00095328937973738049703,
            -0.0016882755560235047313,
            0.0024914420961078508066,
            -0.0037512085075692412107,
            0.005370914553590063617,
            1.0052589676941592334,
            3.0838856104922207635,
        ),
    ),
    (
        np.inf,
        5.0,
        (
            -2.7109920616438573243e-11,
            -2.5556418169965252055e-10,
            1.5076572693500548083e-09,
            -3.7894654401267369937e-09,
            7.6157012080783393804e-09,
            -1.4960026627149240478e-08,
            2.9147953450901080826e-08,
            -6.7711997758452339498e-08,
            2.2900482228026654717e-07,
            -9.9298272942317002539e-07,
            4.5260625972231537039e-06,
            -1.9681778105531670567e-05,
            7.5995277030017761139e-05,
            -0.00021503011930044477347,
            -0.00013871931833623122026,
            1.0103004648645343977,
            4.8499064014085844221,
        ),
    ),
)


@irdl_op_definition
class ErfinvOp(UnaryOp):
    """The inverse of the error function: `erf(erfinv(x)) = x`; infinite at 1 and -1, NaN beyond.

    Within 4 ulp in f32, and relatively within 1e-15 in f64, by polynomials in the logarithm of `1 - x²`.

    Example:
        %1 = tg.erfinv %0 : tensor<4xf32>
    """

    name = "tg.erfinv"

    @staticmethod
    def function(x: NumpyArray) -> NumpyArray:
        wide = np.array(x, np.float64).reshape(-1)
        w = -np.log((1 - wide) * (1 + wide))
        (bound, shift, coefficients), *tails = ERFINV_F64
        result = _polynomial(w - shift, coefficients)
        # About one number in a thousand is in the tails.
        far = np.flatnonzero(~(w < bound))
        outer, root = w[far], np.sqrt(w[far])
        values = np.full(outer.shape, np.nan)
        for bound, shift, coefficients in reversed(tails):
            values = np.where(outer < bound, _polynomial(root - shift, coefficients), values)
        result[far] = np.where(np.abs(wide[far]) == 1, np.inf, values)
        result *= wide
        return result.astype(x.dtype).reshape(x.shape)


def _polynomial(x: NumpyArray, coefficients: Sequence[float]) -> NumpyArray:
    """Evaluates a polynomial by Horner's rule; the highest power's coefficient comes first."""
    result = x * 0
    result += coefficients[0]
    for coefficient in coefficients[1:]:
        result *= x
        result += coefficient
    return result


OPS = (ThreefryOp, ErfinvOp)
