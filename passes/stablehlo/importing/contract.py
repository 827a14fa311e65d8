"""Contractions and convolutions."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tensorgrad.dialects.stablehlo import contract as hlo
from tensorgrad.dialects.stablehlo.attributes import Labels
from tensorgrad.dialects.stablehlo.base import int_of, ints_of
from tensorgrad.dialects.tg.build import TensorBuilder, shape_of
from tensorgrad.passes.stablehlo.importing.reader import Reader, Rule, Unsupported


def _dot_general(reader: Reader, op: hlo.DotGeneralOp) -> SSAValue:
    element = reader.kind(op.kind).get_element_type()
    lhs, rhs = (reader.builder.cast(operand, element) for operand in reader.operands(op))
    numbers = op.dot_dimension_numbers
    batch, contracting = (
        (numbers.axes(f"lhs_{kind}_dimensions"), numbers.axes(f"rhs_{kind}_dimensions"))
        for kind in ("batching", "contracting")
    )
    return reader.builder.dot_general(lhs, rhs, batch, contracting)


def arranged(labels: Labels, first: str, second: str) -> list[int]:
    """Returns the axes of a layout in the order of `tg.conv`: those of two labels, then the spatial ones in order."""
    return [labels.index(label) for label in (first, second, *sorted((n for n in labels if n.isdigit()), key=int))]


def _convolution(reader: Reader, op: hlo.ConvolutionOp) -> SSAValue:
    b, element = reader.builder, reader.kind(op.kind).get_element_type()
    lhs, rhs = (b.cast(operand, element) for operand in reader.operands(op))
    lhs_labels, rhs_labels, result_labels = op.dimension_numbers.data
    lhs = b.transpose(lhs, arranged(lhs_labels, "b", "f"))
    rhs = b.transpose(rhs, arranged(rhs_labels, "o", "i"))
    rank = len(lhs_labels) - 2
    reversal = ints_of(op.window_reversal, [0] * rank)
    rhs = b.reverse(rhs, [axis + 2 for axis, flag in enumerate(reversal) if flag])
    groups, batches = int_of(op.feature_group_count, 1), int_of(op.batch_group_count, 1)
    if batches > 1:
        if groups > 1:
            raise Unsupported("it has groups of batches and of features")
        lhs, groups = _batches_as_features(b, lhs, batches), batches
    padding = hlo.pairs_of(op.padding, rank)
    result = b.conv(
        lhs,
        rhs,
        ints_of(op.window_strides, hlo.ones(rank)),
        [low for low, _ in padding],
        [high for _, high in padding],
        (ints_of(op.lhs_dilation, hlo.ones(rank)), ints_of(op.rhs_dilation, hlo.ones(rank))),
        groups,
    )
    order = arranged(result_labels, "b", "f")
    return b.transpose(result, [order.index(axis) for axis in range(len(order))])


def _batches_as_features(b: TensorBuilder, lhs: SSAValue, groups: int) -> SSAValue:
    """Returns the left operand with each group of its batch beside the others, as further features."""
    batch, features, *spatial = shape_of(lhs)
    split = b.reshape(lhs, [groups, batch // groups, features, *spatial])
    moved = b.transpose(split, [1, 0, *range(2, 3 + len(spatial))])
    return b.reshape(moved, [batch // groups, groups * features, *spatial])


RULES: dict[str, Rule] = {"stablehlo.dot_general": _dot_general, "stablehlo.convolution": _convolution}
