"""Constants, positions, and ops that only move elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self, cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerType, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, prop_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from tensorgrad.dialects.stablehlo.base import HloOp, int_array, int_clause, ints_clause, ints_of


@irdl_op_definition
class ConstantOp(HloOp):
    """A constant: `constant dense<0.0> : type`."""

    name = "stablehlo.constant"
    value = prop_def(DenseIntOrFPElementsAttr)
    traits = traits_def(Pure(), ConstantLike())

    def print(self, printer: Printer) -> None:
        if self.attributes:
            printer.print_string(" ")
            printer.print_attr_dict(self.attributes)
        printer.print_string(" ")
        printer.print_attribute(self.value)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        attributes = parser.parse_optional_attr_dict()
        start = parser.pos
        value = parser.parse_attribute()
        if not isinstance(value, DenseIntOrFPElementsAttr):
            parser.raise_error("a constant needs a dense value", start, parser.pos)
        kind = cast(Attribute, cast("DenseIntOrFPElementsAttr[Any]", value).type)
        return cls.create(result_types=[kind], properties={"value": cast(Attribute, value)}, attributes=attributes)


@irdl_op_definition
class IotaOp(HloOp):
    """Positions along an axis: `iota dim = 0 : type`."""

    name = "stablehlo.iota"
    iota_dimension = prop_def()
    traits = traits_def(Pure())
    CLAUSES: ClassVar = (int_clause("dim", "iota_dimension"),)
    SHORT_TYPES: ClassVar = True


@irdl_op_definition
class BroadcastInDimOp(HloOp):
    """Axis `i` of the operand becomes axis `dims[i]` of the result; axes of extent 1, and the others, repeat."""

    name = "stablehlo.broadcast_in_dim"
    broadcast_dimensions = prop_def()
    traits = traits_def(Pure())
    CLAUSES: ClassVar = (ints_clause("dims", "broadcast_dimensions"),)


@irdl_op_definition
class ReshapeOp(HloOp):
    """The same elements in another shape."""

    name = "stablehlo.reshape"
    traits = traits_def(Pure())


@irdl_op_definition
class TransposeOp(HloOp):
    """Axis `i` of the result is axis `dims[i]` of the operand."""

    name = "stablehlo.transpose"
    permutation = prop_def()
    traits = traits_def(Pure())
    CLAUSES: ClassVar = (ints_clause("dims", "permutation"),)


@irdl_op_definition
class ReverseOp(HloOp):
    """Reverses the order along axes."""

    name = "stablehlo.reverse"
    dimensions = prop_def()
    traits = traits_def(Pure())
    CLAUSES: ClassVar = (ints_clause("dims", "dimensions"),)
    SHORT_TYPES: ClassVar = True


@irdl_op_definition
class ConcatenateOp(HloOp):
    """Joins tensors along an axis."""

    name = "stablehlo.concatenate"
    dimension = prop_def()
    traits = traits_def(Pure())
    CLAUSES: ClassVar = (int_clause("dim", "dimension"),)


@irdl_op_definition
class PadOp(HloOp):
    """Pads with the second operand, or crops where a number is negative."""

    name = "stablehlo.pad"
    edge_padding_low = prop_def()
    edge_padding_high = prop_def()
    interior_padding = prop_def()
    traits = traits_def(Pure())
    CLAUSES: ClassVar = (
        ints_clause("low", "edge_padding_low"),
        ints_clause("high", "edge_padding_high"),
        ints_clause("interior", "interior_padding"),
    )


@irdl_op_definition
class SliceOp(HloOp):
    """Every `stride`-th element between bounds: `slice %a [0:4, 1:8:2] : (type) -> type`."""

    name = "stablehlo.slice"
    start_indices = prop_def()
    limit_indices = prop_def()
    strides = prop_def()
    traits = traits_def(Pure())

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.operands[0])
        bounds = zip(*map(ints_of, (self.start_indices, self.limit_indices, self.strides)), strict=True)
        ranges = (f"{start}:{stop}" + (f":{step}" if step != 1 else "") for start, stop, step in bounds)
        printer.print_string(f" [{', '.join(ranges)}]")
        self.print_rest(printer, {"start_indices", "limit_indices", "strides"})

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operand = parser.parse_unresolved_operand()

        def bounds() -> tuple[int, int, int]:
            start = parser.parse_integer()
            parser.parse_punctuation(":")
            stop = parser.parse_integer()
            return start, stop, parser.parse_integer() if parser.parse_optional_punctuation(":") else 1

        ranges = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, bounds)
        names = ("start_indices", "limit_indices", "strides")
        properties: dict[str, Attribute] = {
            name: int_array([bound[place] for bound in ranges]) for place, name in enumerate(names)
        }
        return cls.finish(parser, [operand], properties)


@irdl_op_definition
class DynamicSliceOp(HloOp):
    """A box of a fixed size that begins at the scalars after the first operand, moved inside where it is not."""

    name = "stablehlo.dynamic_slice"
    slice_sizes = prop_def()
    traits = traits_def(Pure())
    CLAUSES: ClassVar = (ints_clause("sizes", "slice_sizes"),)

    def verify_(self) -> None:
        super().verify_()
        if not self.operands:
            raise VerifyException("must have an operand")
        _verify_box(self.operands[0], ints_of(self.slice_sizes), self.operands[1:])


@irdl_op_definition
class DynamicUpdateSliceOp(HloOp):
    """The first operand, with the second in the box that begins at the scalars after it, moved inside if need be."""

    name = "stablehlo.dynamic_update_slice"
    traits = traits_def(Pure())

    def verify_(self) -> None:
        super().verify_()
        if len(self.operands) < 2:
            raise VerifyException("must have an operand and an update")
        _verify_box(self.operands[0], _shape_of(self.operands[1]), self.operands[2:])


def _verify_box(operand: SSAValue, sizes: Sequence[int], starts: Sequence[SSAValue]) -> None:
    """Raises if a box of these sizes, which begins at these scalars, is not one of the operand's."""
    shape = _shape_of(operand)
    if len(sizes) != len(shape) or any(not 0 <= size <= extent for size, extent in zip(sizes, shape, strict=True)):
        raise VerifyException(f"a box of {list(sizes)} elements does not fit into {list(shape)}")
    if len(starts) != len(shape):
        raise VerifyException(f"a box in {list(shape)} begins at {len(shape)} scalars, got {len(starts)}")
    for start in starts:
        if _shape_of(start) or not isinstance(cast("TensorType[Attribute]", start.type).element_type, IntegerType):
            raise VerifyException(f"a box begins at integer scalars, got {start.type}")


def _shape_of(value: SSAValue) -> tuple[int, ...]:
    return cast("TensorType[Attribute]", value.type).get_shape()


OPS: tuple[type[HloOp], ...] = (
    ConstantOp,
    IotaOp,
    BroadcastInDimOp,
    ReshapeOp,
    TransposeOp,
    ReverseOp,
    ConcatenateOp,
    PadOp,
    SliceOp,
    DynamicSliceOp,
    DynamicUpdateSliceOp,
)
