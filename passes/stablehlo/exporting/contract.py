"""Contractions, convolutions, windows and reductions."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Operation, SSAValue

from tensorgrad.dialects.stablehlo.attributes import ConvAttr, DotAttr
from tensorgrad.dialects.stablehlo.base import int_array
from tensorgrad.dialects.stablehlo.contract import pairs_attribute, spatial
from tensorgrad.dialects.tg import contract, convolution, reduce
from tensorgrad.dialects.tg.build import shape_of, type_of
from tensorgrad.passes.stablehlo.correspondence import REDUCTIONS
from tensorgrad.passes.stablehlo.exporting.writer import Rule, Writer
from tensorgrad.passes.stablehlo.importing.reduce import neutral

COMBINERS = {kind: name for name, kind in REDUCTIONS.items()}


def _dot_general(writer: Writer, op: contract.DotGeneralOp) -> SSAValue:
    lb, rb, lc, rc = op.dimension_numbers
    numbers = DotAttr.of(
        lhs_batching_dimensions=lb,
        rhs_batching_dimensions=rb,
        lhs_contracting_dimensions=lc,
        rhs_contracting_dimensions=rc,
    )
    return writer.one("stablehlo.dot_general", writer.operands(op), op.type, dot_dimension_numbers=numbers)


def _conv(writer: Writer, op: convolution.ConvOp) -> SSAValue:
    if 0 in shape_of(op.operands[1])[2:]:  # StableHLO has no window without elements
        return writer.full(op.type, 0)
    stride, low, high, lhs_dilation, rhs_dilation = op.window
    places = tuple(map(str, range(len(stride))))
    return writer.one(
        "stablehlo.convolution",
        writer.operands(op),
        op.type,
        dimension_numbers=ConvAttr((("b", "f", *places), ("o", "i", *places), ("b", "f", *places))),
        window_strides=spatial(stride),
        padding=pairs_attribute([*zip(low, high, strict=True)]) if places else None,
        lhs_dilation=spatial(lhs_dilation),
        rhs_dilation=spatial(rhs_dilation),
        batch_group_count=IntegerAttr(1, i64),
        feature_group_count=IntegerAttr(op.groups.value.data, i64),
    )


def _starts(counts: int, size: int, stride: int, dilation: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    """Returns the position of each element of each window along an axis."""
    return (np.arange(counts)[:, None] * stride + np.arange(size) * dilation).astype(np.int32)


def _windows(writer: Writer, op: convolution.WindowsOp) -> SSAValue:
    x, rank = writer[op.operand], len(shape_of(op.operand))
    axes, size, stride, dilation = op.window
    for axis, n, s, d in zip(axes, size, stride, dilation, strict=True):
        positions = writer.constant(_starts(op.shape[axis], n, s, d))
        x = writer.read(x, positions, axis)
        last = len(shape_of(x)) - 1
        x = writer.transpose(x, [*(place for place in range(last + 1) if place != axis + 1), axis + 1])
    assert len(shape_of(x)) == rank + len(axes)
    return x


def _fold(writer: Writer, op: convolution.FoldOp) -> SSAValue:
    x, rank = writer[op.operand], len(op.shape)
    (axes, stride, dilation), extents = op.window, op.extents.get_values()
    for number in reversed(range(len(axes))):
        axis, inner = axes[number], rank + number
        counts, size = shape_of(x)[axis], shape_of(x)[inner]
        order = [place for place in range(len(shape_of(x))) if place != inner]
        order.insert(axis + 1, inner)
        positions = writer.constant(_starts(counts, size, stride[number], dilation[number]))
        x = writer.reduced(writer.transpose(x, order), positions, axis, extents[number])
    return x


def _reduce(writer: Writer, op: reduce.ReduceOp) -> SSAValue:
    x, name = writer[op.operand], COMBINERS[type(op)]
    init = writer.constant(neutral(type(op), type_of(x)))
    (result,) = writer.emit(
        "stablehlo.reduce",
        [x, init],
        [op.type],
        [writer.applying(name, op.type.get_element_type())],
        dimensions=int_array(op.axes.get_values()),
    )
    return result


RULES: dict[type[Operation], Rule] = {
    contract.DotGeneralOp: _dot_general,
    convolution.ConvOp: _conv,
    convolution.WindowsOp: _windows,
    convolution.FoldOp: _fold,
    **dict.fromkeys(COMBINERS, _reduce),
}
