"""Attention as one op: its parameters, which `tg.call` and `buf` share, and the stage of a `buf.kernel`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    BoolAttr,
    DictionaryAttr,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StringAttr,
    f32,
    f64,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from tensorgrad.dialects.short_floats import SHORT_FLOATS

FORWARD, QUERIES, KEYS, BACKWARD = "forward", "queries", "keys", "backward"
RESULTS = {FORWARD: 2, QUERIES: 1, KEYS: 2, BACKWARD: 3}
"""The number of results of each part: the result and a logarithm; the queries' cotangent; the cotangents of keys and
values; all three cotangents."""


@dataclass(frozen=True)
class Attention:
    """The parameters of `softmax(select(allowed, scale * q @ k.T + biases, fill)) @ v`, batched over `groups`.

    The operands are queries `[groups, queries, features]`, keys `[groups, keys, features]`, values
    `[groups, keys, values]`, biases (floats) and masks (booleans) `[groups, queries, keys]`. A score is allowed if all
    masks and the causal mask allow it.

    Attributes:
        groups: The number of independent attentions: the batch times the heads of keys.
        queries: The rows of scores in a group; heads that share their keys are concatenated.
        keys: The columns of scores.
        features: The features of queries and keys.
        values: The features of values.
        scale: The factor of the products.
        fill: The score where attention is not allowed.
        zeros: Whether scores that are not allowed have weight 0, and a query whose scores are all disallowed or `-inf`
            gives zeros; otherwise the softmax is that of the filled scores, NaN for a query whose scores are all
            `-inf`. Either way such a query contributes nothing to derivatives.
        causal: Query `m` attends to keys up to `m mod period + causal`; `None` means no causal mask.
        period: The number of queries of one head.
        biases: The number of biases.
        masks: The number of masks.
    """

    groups: int
    queries: int
    keys: int
    features: int
    values: int
    scale: float = 1.0
    fill: float = float("-inf")
    zeros: bool = False
    causal: int | None = None
    period: int = 1
    biases: int = 0
    masks: int = 0

    @property
    def is_masked(self) -> bool:
        """Whether some scores may be disallowed."""
        return self.causal is not None or self.masks > 0

    @property
    def hidden(self) -> float:
        """The score, as the softmax takes it, where attention is not allowed."""
        return -math.inf if self.zeros else self.fill

    @property
    def may_be_empty(self) -> bool:
        """Whether biases or masks can make all scores of a query `-inf`, so that its result is NaN."""
        masked = self.fill == -math.inf and (self.masks > 0 or (self.causal is not None and self.causal < 0))
        return not self.zeros and (self.biases > 0 or masked)

    @property
    def skips(self) -> bool:
        """Whether keys that the causal mask excludes may be skipped: they don't affect the result, not even by NaN."""
        return self.causal is not None and self.fill == -math.inf and (self.zeros or self.causal >= 0)

    @property
    def operands(self) -> int:
        """The number of operands: queries, keys, values, biases, masks."""
        return 3 + self.biases + self.masks

    def attribute(self) -> DictionaryAttr:
        """Returns the parameters as an attribute."""
        data: dict[str, Attribute] = {
            name: IntegerAttr(cast(int, getattr(self, name)), i64)
            for name in _COUNTS
            if getattr(self, name) is not None
        }
        data |= {name: FloatAttr(cast(float, getattr(self, name)), f64) for name in _NUMBERS}
        data["zeros"] = BoolAttr.from_bool(self.zeros)
        return DictionaryAttr(data)

    @staticmethod
    def read(attribute: DictionaryAttr) -> Attention:
        """Returns the parameters that an attribute holds.

        Raises:
            VerifyException: One is missing, unknown, of another kind or out of range.
        """
        data = attribute.data
        known = {*_COUNTS, *_NUMBERS, "zeros"}
        if not known - {"causal"} <= set(data) <= known:
            raise VerifyException(f"attention has the parameters {', '.join(sorted(known))}, not {', '.join(data)}")
        for name, value in data.items():
            kind, what = (FloatAttr, "a float") if name in _NUMBERS else (IntegerAttr, "an integer")
            if not isinstance(value, kind):
                raise VerifyException(f"an attention's {name} must be {what}, got {value}")

        def count(name: str) -> int:
            return cast("IntegerAttr[IntegerType]", data[name]).value.data

        def number(name: str) -> float:
            return cast("FloatAttr[Float64Type]", data[name]).value.data

        attention = Attention(
            groups=count("groups"),
            queries=count("queries"),
            keys=count("keys"),
            features=count("features"),
            values=count("values"),
            scale=number("scale"),
            fill=number("fill"),
            zeros=bool(count("zeros")),
            causal=count("causal") if "causal" in data else None,
            period=count("period"),
            biases=count("biases"),
            masks=count("masks"),
        )
        sizes = (
            attention.groups,
            attention.queries,
            attention.keys,
            attention.features,
            attention.values,
            attention.period,
        )
        if min(sizes) < 1 or attention.queries % attention.period or min(attention.biases, attention.masks) < 0:
            raise VerifyException(
                f"the extents of an attention must be positive and its period must divide its queries, got {attention}"
            )
        return attention

    def shapes(self, part: str) -> list[tuple[int, ...]]:
        """Returns the shapes of a part's operands and results."""
        rows, scores = (self.groups, self.queries), (self.groups, self.queries, self.keys)
        q, k, v = (*rows, self.features), (self.groups, self.keys, self.features), (self.groups, self.keys, self.values)
        inputs = [q, k, v, *[scores] * (self.biases + self.masks)]
        if part == FORWARD:
            return [*inputs, (*rows, self.values), rows]
        widths = {QUERIES: [q], KEYS: [k, v], BACKWARD: [q, k, v]}[part]
        return [*inputs, (*rows, self.values), rows, rows, *widths]

    def spaces(self, part: str) -> list[tuple[int, ...]]:
        """Returns, for each operand and result of a part, the loop (group, query, key, feature) of each axis."""
        q, k, rows, scores = (0, 1, 3), (0, 2, 3), (0, 1), (0, 1, 2)
        inputs = [q, k, k, *[scores] * (self.biases + self.masks)]
        if part == FORWARD:
            return [*inputs, q, rows]
        return [*inputs, q, rows, rows, *{QUERIES: [q], KEYS: [k, k], BACKWARD: [q, k, k]}[part]]


_COUNTS = ("groups", "queries", "keys", "features", "values", "period", "biases", "masks", "causal")
_NUMBERS = ("scale", "fill")


@irdl_op_definition
class AttentionOp(IRDLOperation):
    """A stage of a `buf.kernel` that computes an attention, or part of its derivative, without storing the scores.

    Attention needs two contractions around an online softmax, which `linalg.generic` can't express. The maps go from
    the loops (group, query, key, feature) to the operands' elements.

    `forward` takes the operands of `Attention`; it writes the result and, to an optional second output, the logarithm
    of each row's sum of exponentials. `queries`, `keys` and `backward` take those operands, the result's cotangent,
    that logarithm, and each row's sum of result times cotangent. They write the cotangent of the queries, those of keys
    and values, or all three. The kernel's grid is the groups and the queries; for `keys`, the groups and the keys; for
    `backward`, the groups. Operands of 16 bits are extended to f32 when loaded and rounded when stored; all arithmetic
    is in f32 then.

    Example:
        buf.attention "forward" ins(%q, %k, %v : memref<2x8x4xf32>, memref<2x8x4xf32>, memref<2x8x4xf32>)
            outs(%o : memref<2x8x4xf32>) {parameters = {...}, maps = [...]}
    """

    name = "buf.attention"
    part = prop_def(StringAttr)
    inputs = var_operand_def(MemRefType)
    outputs = var_operand_def(MemRefType)
    parameters = prop_def(DictionaryAttr)
    maps = prop_def(ArrayAttr[AffineMapAttr])
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$part `ins` `(` $inputs `:` type($inputs) `)` `outs` `(` $outputs `:` type($outputs) `)` attr-dict"
    )

    @classmethod
    def of(
        cls,
        part: str,
        attention: Attention,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        maps: Sequence[AffineMap],
    ) -> AttentionOp:
        """Returns a stage; `maps` lists those of the inputs, then those of the outputs."""
        return cls.build(
            operands=[list(inputs), list(outputs)],
            properties={
                "part": StringAttr(part),
                "parameters": attention.attribute(),
                "maps": ArrayAttr([AffineMapAttr(map_) for map_ in maps]),
            },
        )

    @property
    def attention(self) -> Attention:
        """The parameters."""
        return Attention.read(self.parameters)

    @property
    def grid(self) -> tuple[int, int]:
        """The grid of the kernel: the groups, and the queries or keys; for `backward`, one row per group."""
        a = self.attention
        return (a.groups, {KEYS: a.keys, BACKWARD: 1}.get(self.part.data, a.queries))

    def verify_(self) -> None:
        if self.part.data not in RESULTS:
            raise VerifyException(f"part {self.part.data!r} is not one of {', '.join(RESULTS)}")
        attention, part = self.attention, self.part.data
        results = RESULTS[part]
        # A derivative also takes the cotangent of the result and two statistics of each row.
        count = attention.operands + (0 if part == FORWARD else 3)
        least = 1 if part == FORWARD else results
        if len(self.inputs) != count or not least <= len(self.outputs) <= results:
            raise VerifyException(f"{part} takes {count} inputs and {results} outputs")
        if len(self.maps) != len(self.operands):
            raise VerifyException(
                f"expected one map for each of the {len(self.operands)} operands, got {len(self.maps)}"
            )
        for operand, map_ in zip(self.operands, self.maps, strict=True):
            rank = len(cast("MemRefType[Attribute]", operand.type).get_shape())
            if map_.data.num_dims != 4 or map_.data.num_symbols or len(map_.data.results) != rank:
                raise VerifyException(
                    f"{map_} is not a map from (group, query, key, feature) to an element of {operand.type}"
                )

    @property
    def computed_in(self) -> Attribute:
        """The float type of all arithmetic."""
        element = cast("MemRefType[Attribute]", self.inputs[0].type).element_type
        return f32 if element in SHORT_FLOATS.values() else element

    def affine_maps(self) -> tuple[AffineMap, ...]:
        """Returns the maps, inputs first."""
        return tuple(map_.data for map_ in self.maps)
