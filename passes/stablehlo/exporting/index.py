"""Gathers, scatters and sorts."""

from __future__ import annotations

from xdsl.dialects.builtin import BoolAttr, IntegerAttr, i64
from xdsl.ir import Block, Operation, Region, SSAValue

from tensorgrad.dialects.stablehlo.attributes import ComparisonType, GatherAttr, ScatterAttr
from tensorgrad.dialects.stablehlo.base import int_array
from tensorgrad.dialects.tg import index, sort
from tensorgrad.dialects.tg.base import is_float, tensor
from tensorgrad.dialects.tg.build import element_of, shape_of
from tensorgrad.passes.stablehlo.exporting.writer import Rule, Writer


def _inside(writer: Writer, indices: SSAValue, extent: int) -> tuple[SSAValue, SSAValue]:
    """Returns where indices are inside of an axis, and the indices, 0 where they are not."""
    inside = writer.binary("and", writer.compare("ge", indices, 0), writer.compare("lt", indices, extent))
    return inside, writer.select(inside, indices, writer.full_like(indices, 0))


def _or_filling(writer: Writer, inside: SSAValue, values: SSAValue) -> SSAValue:
    """Returns values where indices are inside; NaN, or 0 of integers, elsewhere."""
    filling = float("nan") if is_float(element_of(values)) else 0
    return writer.select(inside, values, writer.full_like(values, filling))


def _take(writer: Writer, op: index.TakeOp) -> SSAValue:
    x, indices = writer.operands(op)
    axis, extent = op.axis.value.data, shape_of(op.operand)[op.axis.value.data]
    if not extent:
        return writer.full(op.type, float("nan") if is_float(element_of(x)) else 0)
    inside, places = _inside(writer, indices, extent)
    dims = range(axis, axis + len(shape_of(indices)))
    return _or_filling(writer, writer.broadcast(inside, op.shape, dims), writer.read(x, places, axis))


def _take_along_axis(writer: Writer, op: index.TakeAlongAxisOp) -> SSAValue:
    x, indices = writer.operands(op)
    axis, shape = op.axis.value.data, shape_of(op.operand)
    if not shape[axis]:
        return writer.full(op.type, float("nan") if is_float(element_of(x)) else 0)
    inside, places = _inside(writer, indices, shape[axis])
    others = [place for place in range(len(shape)) if place != axis]
    numbers = GatherAttr.of(
        collapsed_slice_dims=[axis],
        operand_batching_dims=others,
        start_indices_batching_dims=others,
        start_index_map=[axis],
        index_vector_dim=len(shape),
    )
    sizes = int_array([1] * len(shape))
    read = writer.one("stablehlo.gather", [x, places], op.type, dimension_numbers=numbers, slice_sizes=sizes)
    return _or_filling(writer, inside, read)


def _scatter(writer: Writer, op: index.ScatterOp) -> SSAValue:
    updates, indices = writer.operands(op)
    axis, extent = op.axis.value.data, op.extent.value.data
    return writer.reduced(updates, indices, axis, extent, op.combines)


def _scatter_along_axis(writer: Writer, op: index.ScatterAlongAxisOp) -> SSAValue:
    updates, indices = writer.operands(op)
    axis, rank = op.axis.value.data, len(op.shape)
    others = [place for place in range(rank) if place != axis]
    numbers = ScatterAttr.of(
        inserted_window_dims=[axis],
        input_batching_dims=others,
        scatter_indices_batching_dims=others,
        scatter_dims_to_operand_dims=[axis],
        index_vector_dim=rank,
    )
    return writer.scattered(updates, indices, op.type, numbers, op.combines)


def _argsort(writer: Writer, op: sort.ArgsortOp) -> SSAValue:
    x, axis = writer[op.operand], len(op.shape) - 1
    falling, element = bool(op.descending.value.data), element_of(x)
    positions = writer.iota(op.shape, axis, op.type.get_element_type())
    scalars = [tensor([], element)] * 2 + [tensor([], op.type.get_element_type())] * 2
    block = Block(arg_types=scalars)
    inner = writer.inside(block)
    lhs, rhs = (_ordered(inner, value) for value in block.args[:2])
    order = ComparisonType.TOTALORDER if is_float(element) else None
    before = inner.compare("gt" if falling else "lt", lhs, rhs, order)
    inner.finish([before])
    results = writer.emit(
        "stablehlo.sort",
        [x, positions],
        [x.type, op.type],
        [Region(block)],
        dimension=IntegerAttr(axis, i64),
        is_stable=BoolAttr.from_bool(True),
    )
    return results[1]


def _ordered(writer: Writer, x: SSAValue) -> SSAValue:
    """Returns an element that the total order places where `tg.argsort` does: one zero, and one NaN above all else."""
    if not is_float(element_of(x)):
        return x
    number = writer.select(writer.compare("eq", x, 0), writer.full_like(x, 0), x)
    return writer.select(writer.compare("ne", x, x), writer.full_like(x, float("nan")), number)


RULES: dict[type[Operation], Rule] = {
    index.TakeOp: _take,
    index.TakeAlongAxisOp: _take_along_axis,
    index.ScatterAddOp: _scatter,
    index.ScatterReduceOp: _scatter,
    index.ScatterAddAlongAxisOp: _scatter_along_axis,
    index.ScatterReduceAlongAxisOp: _scatter_along_axis,
    sort.ArgsortOp: _argsort,
}
