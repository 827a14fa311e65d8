"""The attributes of StableHLO's ops: dimension numbers, and named choices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import auto
from typing import ClassVar, Self, TypeAlias

from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Data, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.str_enum import StrEnum

Fields: TypeAlias = tuple[tuple[str, int | tuple[int, ...]], ...]


class FieldsAttr(Data[Fields]):
    """Named numbers and lists of numbers; those at their defaults, 0 and `[]`, are not printed."""

    NAMES: ClassVar[tuple[str, ...]]
    """The names in the order of the text."""

    @classmethod
    def of(cls, **fields: int | Sequence[int]) -> Self:
        """Returns the attribute with these fields; the others are at their defaults."""
        values = {name: value if isinstance(value, int) else tuple(value) for name, value in fields.items()}
        return cls(tuple((name, values[name]) for name in cls.NAMES if values.get(name)))

    @property
    def fields(self) -> Mapping[str, int | tuple[int, ...]]:
        """The fields that are not at their defaults."""
        return dict(self.data)

    def axes(self, name: str) -> tuple[int, ...]:
        """Returns a list of numbers."""
        value = self.fields.get(name, ())
        return (value,) if isinstance(value, int) else value

    def number(self, name: str) -> int:
        """Returns a number."""
        value = self.fields.get(name, 0)
        return value if isinstance(value, int) else 0

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Fields:
        fields: dict[str, int | tuple[int, ...]] = {}

        def field() -> None:
            name = parser.parse_identifier()
            if name not in cls.NAMES:
                parser.raise_error(f"{name} is none of {', '.join(cls.NAMES)}")
            parser.parse_punctuation("=")
            listed = parser.parse_optional_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
            fields[name] = parser.parse_integer() if listed is None else tuple(listed)

        parser.parse_comma_separated_list(parser.Delimiter.ANGLE, field)
        return cls.of(**fields).data

    def print_parameter(self, printer: Printer) -> None:
        parts = (f"{name} = {value if isinstance(value, int) else list(value)}" for name, value in self.data)
        printer.print_string(f"<{', '.join(parts)}>")


@irdl_attr_definition
class DotAttr(FieldsAttr):
    """The axes of a contraction."""

    name = "stablehlo.dot"
    NAMES: ClassVar = (
        "lhs_batching_dimensions",
        "rhs_batching_dimensions",
        "lhs_contracting_dimensions",
        "rhs_contracting_dimensions",
    )


@irdl_attr_definition
class GatherAttr(FieldsAttr):
    """What the axes of a gather's operands and result mean."""

    name = "stablehlo.gather"
    NAMES: ClassVar = (
        "offset_dims",
        "collapsed_slice_dims",
        "operand_batching_dims",
        "start_indices_batching_dims",
        "start_index_map",
        "index_vector_dim",
    )


@irdl_attr_definition
class ScatterAttr(FieldsAttr):
    """What the axes of a scatter's operands and updates mean."""

    name = "stablehlo.scatter"
    NAMES: ClassVar = (
        "update_window_dims",
        "inserted_window_dims",
        "input_batching_dims",
        "scatter_indices_batching_dims",
        "scatter_dims_to_operand_dims",
        "index_vector_dim",
    )


@irdl_attr_definition
class OutputOperandAliasAttr(FieldsAttr):
    """Which result of a custom call may reuse an operand's memory."""

    name = "stablehlo.output_operand_alias"
    NAMES: ClassVar = ("output_tuple_indices", "operand_index", "operand_tuple_indices")


Labels: TypeAlias = tuple[str, ...]


@irdl_attr_definition
class ConvAttr(Data[tuple[Labels, Labels, Labels]]):
    """The layouts of a convolution's operands and result: a label for each axis, which is a number if it is spatial."""

    name = "stablehlo.conv"

    @staticmethod
    def parse_labels(parser: AttrParser) -> tuple[Labels, Labels, Labels]:
        """Parses `[b, 0, f]x[0, i, o]->[b, 0, f]`."""

        def label() -> str:
            number = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
            return parser.parse_identifier() if number is None else str(number)

        def labels() -> Labels:
            return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, label))

        lhs = labels()
        parser.parse_characters("x")
        rhs = labels()
        parser.parse_punctuation("->")
        return lhs, rhs, labels()

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Labels, Labels, Labels]:
        with parser.in_angle_brackets():
            return cls.parse_labels(parser)

    @property
    def text(self) -> str:
        """The layouts as they are printed."""
        lhs, rhs, result = (f"[{', '.join(labels)}]" for labels in self.data)
        return f"{lhs}x{rhs}->{result}"

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.text}>")


class _Named(StrEnum):
    """Choices whose text is their name."""

    @staticmethod
    def _generate_next_value_(name: str, start: int, count: int, last_values: list[str]) -> str:
        return name


class ComparisonDirection(_Named):
    """How two elements compare."""

    EQ = auto()
    NE = auto()
    GE = auto()
    GT = auto()
    LE = auto()
    LT = auto()


class ComparisonType(_Named):
    """As what two elements are compared."""

    NOTYPE = auto()
    FLOAT = auto()
    TOTALORDER = auto()
    SIGNED = auto()
    UNSIGNED = auto()


class Precision(_Named):
    """How precise the products of a contraction are at least."""

    DEFAULT = auto()
    HIGH = auto()
    HIGHEST = auto()


@irdl_attr_definition
class ComparisonDirectionAttr(EnumAttribute[ComparisonDirection], SpacedOpaqueSyntaxAttribute):
    """How two elements compare."""

    name = "stablehlo.comparison_direction"


@irdl_attr_definition
class ComparisonTypeAttr(EnumAttribute[ComparisonType], SpacedOpaqueSyntaxAttribute):
    """As what two elements are compared."""

    name = "stablehlo.comparison_type"


@irdl_attr_definition
class PrecisionAttr(EnumAttribute[Precision], SpacedOpaqueSyntaxAttribute):
    """How precise the products of a contraction are at least."""

    name = "stablehlo.precision"


ATTRIBUTES = (
    DotAttr,
    GatherAttr,
    ScatterAttr,
    OutputOperandAliasAttr,
    ConvAttr,
    ComparisonDirectionAttr,
    ComparisonTypeAttr,
    PrecisionAttr,
)
