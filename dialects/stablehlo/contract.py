"""Contractions and convolutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self, cast

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DenseIntElementsAttr, TensorType, i1, i64
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from tensorgrad.dialects.stablehlo.attributes import ConvAttr, DotAttr, Precision, PrecisionAttr
from tensorgrad.dialects.stablehlo.base import HloOp, int_array, ints_of, ints_text, parse_ints


@irdl_op_definition
class DotGeneralOp(HloOp):
    """Sums of products: `dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1] : …`."""

    name = "stablehlo.dot_general"
    dot_dimension_numbers = prop_def(DotAttr)
    precision_config = opt_prop_def(ArrayAttr)
    algorithm = opt_prop_def()
    traits = traits_def(Pure())

    AXES: ClassVar[Mapping[str, str]] = {"batching_dims": "batching", "contracting_dims": "contracting"}

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        numbers = self.dot_dimension_numbers
        for keyword, kind in self.AXES.items():
            lhs, rhs = (numbers.axes(f"{side}_{kind}_dimensions") for side in ("lhs", "rhs"))
            if lhs or kind == "contracting":
                printer.print_string(f", {keyword} = {list(lhs)} x {list(rhs)}")
        if self.precision_config is not None:
            names = (attribute.data.value for attribute in cast("ArrayAttr[PrecisionAttr]", self.precision_config))
            printer.print_string(f", precision = [{', '.join(names)}]")
        self.print_rest(printer, {"dot_dimension_numbers", "precision_config"})

    @classmethod
    def parse_clause(cls, parser: Parser, properties: dict[str, Attribute]) -> bool:
        """Parses the axes of both operands, or the precision."""
        keyword = parser.parse_optional_keyword_in((*cls.AXES, "precision", "algorithm"))
        if keyword is None:
            return False
        parser.parse_punctuation("=")
        if keyword == "precision":
            names = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parser.parse_str_enum(Precision))
            properties["precision_config"] = ArrayAttr([PrecisionAttr(name) for name in names])
        elif keyword == "algorithm":
            properties["algorithm"] = parser.parse_attribute()
        else:
            lhs = ints_of(parse_ints(parser))
            parser.parse_characters("x")
            kind = cls.AXES[keyword]
            axes = {f"lhs_{kind}_dimensions": lhs, f"rhs_{kind}_dimensions": ints_of(parse_ints(parser))}
            present = cast("DotAttr | None", properties.get("dot_dimension_numbers"))
            properties["dot_dimension_numbers"] = DotAttr.of(**({} if present is None else present.fields), **axes)
        return True


WINDOW = {"stride": "window_strides", "pad": "padding", "lhs_dilate": "lhs_dilation", "rhs_dilate": "rhs_dilation"}
"""The words of a convolution's window, with the properties that they are."""


@irdl_op_definition
class ConvolutionOp(HloOp):
    """A convolution: `convolution(%a, %b) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {pad = [[1, 1]]}`."""

    name = "stablehlo.convolution"
    dimension_numbers = prop_def(ConvAttr)
    window_strides = opt_prop_def()
    padding = opt_prop_def()
    lhs_dilation = opt_prop_def()
    rhs_dilation = opt_prop_def()
    window_reversal = opt_prop_def()
    batch_group_count = prop_def()
    feature_group_count = prop_def()
    precision_config = opt_prop_def(ArrayAttr)
    traits = traits_def(Pure())

    def print(self, printer: Printer) -> None:
        with printer.in_parens():
            printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_string(f" dim_numbers = {self.dimension_numbers.text}, window = {{")
        parts: list[str] = []
        for word, prop in WINDOW.items():
            value = self.properties.get(prop)
            if value is not None:
                text = str([list(pair) for pair in pairs_of(value, 0)]) if word == "pad" else ints_text(value)
                parts.append(f"{word} = {text}")
        if self.window_reversal is not None:
            flags = ", ".join("true" if flag else "false" for flag in ints_of(self.window_reversal))
            parts.append(f"reverse = [{flags}]")
        printer.print_string(", ".join(parts) + "}")
        self.print_rest(printer, {"dimension_numbers", "window_reversal", *WINDOW.values()})

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        parser.parse_keyword("dim_numbers")
        parser.parse_punctuation("=")
        properties: dict[str, Attribute] = {"dimension_numbers": ConvAttr(ConvAttr.parse_labels(parser))}
        parser.parse_punctuation(",")
        parser.parse_keyword("window")
        parser.parse_punctuation("=")

        def entry() -> None:
            word = parser.parse_identifier()
            parser.parse_punctuation("=")
            if word == "pad":
                rows = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: ints_of(parse_ints(parser)))
                properties["padding"] = pairs_attribute(rows)
            elif word == "reverse":
                flags = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_boolean)
                properties["window_reversal"] = DenseArrayBase.from_list(i1, [int(flag) for flag in flags])
            elif word in WINDOW:
                properties[WINDOW[word]] = parse_ints(parser)
            else:
                parser.raise_error(f"{word} is none of {', '.join((*WINDOW, 'reverse'))}")

        parser.parse_comma_separated_list(parser.Delimiter.BRACES, entry)
        return cls.finish(parser, operands, properties)


def pairs_attribute(rows: Sequence[Sequence[int]]) -> DenseIntElementsAttr:
    """Returns pairs of integers, a row each, as StableHLO's properties hold padding."""
    flat = [int(number) for row in rows for number in row]
    return DenseIntElementsAttr.from_list(TensorType(i64, [len(rows), 2]), flat)


def pairs_of(attribute: Attribute | None, rank: int) -> list[tuple[int, int]]:
    """Returns the pairs of a padding, or `rank` pairs of zeros if it is absent."""
    if attribute is None:
        return [(0, 0)] * rank
    dense = cast(DenseIntElementsAttr, attribute)
    shape = cast("TensorType[Attribute]", dense.type).get_shape()
    values = np.broadcast_to(np.array([int(value) for value in dense.get_values()]), (shape[0] * 2,)).reshape(-1, 2)
    return [(int(low), int(high)) for low, high in values]


def ones(rank: int) -> tuple[int, ...]:
    """Returns the default of strides and dilations."""
    return (1,) * rank


def spatial(values: Sequence[int]) -> Attribute | None:
    """Returns strides or dilations as a property, which is absent if all are 1."""
    return None if all(value == 1 for value in values) else int_array(values)


OPS: tuple[type[HloOp], ...] = (DotGeneralOp, ConvolutionOp)
