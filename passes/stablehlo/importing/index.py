"""Gathers and scatters: reads and writes at one computed index into some of the axes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from xdsl.dialects.builtin import i1, i32
from xdsl.ir import SSAValue

from tensorgrad.dialects.stablehlo import regions as hlo
from tensorgrad.dialects.stablehlo.base import ints_of
from tensorgrad.dialects.tg.base import numpy_dtype, size_of, splat_value
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of, type_of
from tensorgrad.dialects.tg.elementwise import arithmetic
from tensorgrad.dialects.tg.index import identity_of
from tensorgrad.passes.stablehlo.correspondence import SCATTERS
from tensorgrad.passes.stablehlo.importing.elementwise import meaning
from tensorgrad.passes.stablehlo.importing.reader import Reader, Rule, Unsupported
from tensorgrad.passes.stablehlo.importing.reduce import applied
from tensorgrad.passes.stablehlo.importing.shape import limited


@dataclass(frozen=True)
class Boxes:
    """Where boxes of one size lie in a tensor, by vectors of indices.

    Attributes:
        shape: The tensor's shape.
        sizes: The size of a box along each axis.
        starts: For each component of a vector, the axis along which it is the box's start.
        batching: For each axis that boxes and indices share, the axis of the indices.
        dropped: The axes that boxes lack in what is read or written.
        vector: The axis of the indices whose elements are the components of a vector.
    """

    shape: tuple[int, ...]
    sizes: tuple[int, ...]
    starts: tuple[int, ...]
    batching: dict[int, int]
    dropped: frozenset[int]
    vector: int

    @property
    def indexed(self) -> list[int]:
        """The axes along which boxes don't cover the tensor, or may be anywhere; the others are read as a whole."""
        return [
            axis
            for axis, (size, extent) in enumerate(zip(self.sizes, self.shape, strict=True))
            if axis in self.batching or size != extent
        ]

    @property
    def rest(self) -> list[int]:
        """The axes that are read as a whole."""
        indexed = self.indexed
        return [axis for axis in range(len(self.shape)) if axis not in indexed]

    @property
    def kept(self) -> list[int]:
        """The axes of a box."""
        return [axis for axis in range(len(self.shape)) if axis not in self.dropped]

    @property
    def extents(self) -> list[int]:
        """The sizes of a box along the indexed axes that it keeps."""
        return [self.sizes[axis] for axis in self.indexed if axis not in self.dropped]

    def batch(self, indices: SSAValue) -> tuple[int, ...]:
        """Returns the extents of the axes of indices without that of the vectors."""
        shape = shape_of(indices)  # without an axis of the vectors, each has one component
        return (*shape[: self.vector], *shape[self.vector + 1 :])

    def rows(self, b: TensorBuilder, x: SSAValue) -> SSAValue:
        """Returns a tensor with its indexed axes as one, before the others."""
        moved = b.transpose(x, [*self.indexed, *self.rest])
        rest = [self.shape[axis] for axis in self.rest]
        return b.reshape(moved, [size_of([self.shape[axis] for axis in self.indexed]), *rest])

    def unrolled(self, b: TensorBuilder, rows: SSAValue) -> SSAValue:
        """Returns the tensor of which `rows` returned this."""
        order = [*self.indexed, *self.rest]
        split = b.reshape(rows, [self.shape[axis] for axis in order])
        return b.transpose(split, [order.index(axis) for axis in range(len(order))])

    def places(self, b: TensorBuilder, indices: SSAValue, moved_inside: bool) -> SSAValue:
        """Returns the row of each element of each box, of shape `[batch..., extents...]`, without dropped axes.

        Boxes that are not inside are moved there; otherwise all their rows are the number of rows, which is no row.
        """
        if self.vector == len(shape_of(indices)):
            indices = b.reshape(indices, [*shape_of(indices), 1])
        if element_of(indices) == i1 or getattr(element_of(indices), "bitwidth", 32) < 32:
            indices = b.cast(indices, i32)
        batch = self.batch(indices)
        shape = [*batch, *self.extents]
        element, stride, outside = element_of(indices), 1, b.zeros(batch, i1)
        kept = [axis for axis in self.indexed if axis not in self.dropped]
        parts: list[SSAValue] = []
        for axis in reversed(self.indexed):
            positions: list[SSAValue] = []
            if axis in self.batching:
                place = self.batching[axis]
                positions.append(b.iota(shape, place - (place > self.vector), element))
            elif self.sizes[axis] > 1:
                positions.append(b.iota(shape, len(batch) + kept.index(axis), element))
            if axis in self.starts:
                start, most = self._start(b, indices, axis), self.shape[axis] - self.sizes[axis]
                inside = limited(b, start, most)
                if not moved_inside:
                    outside = b.emit(arithmetic.OrOp, [outside, b.compare("ne", inside, start)])
                positions.append(b.broadcast(inside, shape, range(len(batch))))
            parts += [position if stride == 1 else b.scale(position, stride) for position in positions]
            stride *= self.shape[axis]
        result = reduce(b.add, parts) if parts else b.zeros(shape, element)
        if moved_inside:
            return result
        for axis in self.starts:
            if axis not in self.indexed:  # a box that covers the axis is inside at 0 alone
                start = self._start(b, indices, axis)
                outside = b.emit(arithmetic.OrOp, [outside, b.compare("ne", start, b.full_like(start, 0))])
        return b.select(b.broadcast(outside, shape, range(len(batch))), b.full_like(result, stride), result)

    def _start(self, b: TensorBuilder, indices: SSAValue, axis: int) -> SSAValue:
        """Returns the component of the vectors that is the start along an axis."""
        shape, component = shape_of(indices), self.starts.index(axis)
        start = [component if place == self.vector else 0 for place in range(len(shape))]
        stop = [component + 1 if place == self.vector else extent for place, extent in enumerate(shape)]
        return b.reshape(b.slice(indices, start, stop, [1] * len(shape)), self.batch(indices))


def _gather(reader: Reader, op: hlo.GatherOp) -> SSAValue:
    x, indices = reader.operands(op)
    b, numbers = reader.builder, op.dimension_numbers
    batching = dict(
        zip(numbers.axes("operand_batching_dims"), numbers.axes("start_indices_batching_dims"), strict=True)
    )
    boxes = Boxes(
        shape_of(x),
        ints_of(op.slice_sizes),
        numbers.axes("start_index_map"),
        batching,
        frozenset((*numbers.axes("collapsed_slice_dims"), *batching)),
        numbers.number("index_vector_dim"),
    )
    places = boxes.places(b, indices, moved_inside=True)
    read = b.take(boxes.rows(b, x), places, 0)
    # What is read has the axes of the batch, the indexed ones, the rest; a box keeps its own in their order.
    order, batch = [*boxes.indexed, *boxes.rest], len(boxes.batch(indices))
    whole = len(shape_of(places))
    extent_one = [whole + boxes.rest.index(axis) for axis in boxes.dropped if axis in boxes.rest]
    read = b.reshape(read, [extent for axis, extent in enumerate(shape_of(read)) if axis not in extent_one])
    kept = [axis for axis in order if axis not in boxes.dropped]
    offsets, box = numbers.axes("offset_dims"), [batch + kept.index(axis) for axis in boxes.kept]
    outer, inner = iter(range(batch)), iter(box)
    rank = batch + len(box)
    return b.transpose(read, [next(inner) if axis in offsets else next(outer) for axis in range(rank)])


def _scatter(reader: Reader, op: hlo.ScatterOp) -> SSAValue:
    if len(op.operands) != 3:
        raise Unsupported("several tensors are scattered together")
    x, indices, updates = reader.operands(op)
    b, numbers = reader.builder, op.scatter_dimension_numbers
    window = numbers.axes("update_window_dims")
    batching = dict(
        zip(numbers.axes("input_batching_dims"), numbers.axes("scatter_indices_batching_dims"), strict=True)
    )
    dropped = frozenset((*numbers.axes("inserted_window_dims"), *batching))
    extents = iter([shape_of(updates)[axis] for axis in window])
    sizes = tuple(1 if axis in dropped else next(extents) for axis in range(len(shape_of(x))))
    starts = numbers.axes("scatter_dims_to_operand_dims")
    boxes = Boxes(shape_of(x), sizes, starts, batching, dropped, numbers.number("index_vector_dim"))
    places = boxes.places(b, indices, moved_inside=False)
    outer = [axis for axis in range(len(shape_of(updates))) if axis not in window]
    order = [*boxes.indexed, *boxes.rest]
    moved = b.transpose(updates, [*outer, *(window[boxes.kept.index(axis)] for axis in order if axis in boxes.kept)])
    rest = [boxes.shape[axis] for axis in boxes.rest]
    count = size_of(shape_of(places))
    flat, rows = b.reshape(moved, [count, *rest]), b.reshape(places, [count])
    before, name = boxes.rows(b, x), applied(op.update_computation)
    if element_of(x) != i1:
        return boxes.unrolled(b, _combined(b, op, name, before, rows, flat))
    name = None if name is None else ON_NUMBERS.get(name, name)
    numbers = _combined(b, op, name, b.cast(before, i32), rows, b.cast(flat, i32))
    return boxes.unrolled(b, b.compare("ne", numbers, b.full_like(numbers, 0)))


ON_NUMBERS = {"stablehlo.or": "stablehlo.maximum", "stablehlo.and": "stablehlo.minimum"}
"""What combines booleans, on the numbers 0 and 1."""


def _combined(
    b: TensorBuilder, op: hlo.ScatterOp, name: str | None, x: SSAValue, rows: SSAValue, updates: SSAValue
) -> SSAValue:
    """Returns the rows of `x`, with updates combined by an op of this name into those that they are for."""
    extent, body = shape_of(x)[0], op.update_computation
    if list(hlo.returned(body)) == [body.block.args[1]]:
        last = b.scatter(b.iota(shape_of(rows), 0, i32), rows, 0, extent, "max")
        hit = b.broadcast(b.compare("ge", last, b.full_like(last, 0)), shape_of(x), [0])
        return b.select(hit, b.take(updates, last, 0), x)
    if name not in SCATTERS:
        raise Unsupported("updates are combined by add, multiply, maximum, minimum, or replace what is there")
    reduced = b.scatter(updates, rows, 0, extent, SCATTERS[name])
    if splat_value(x) == identity_of(SCATTERS[name], numpy_dtype(type_of(x))):
        return reduced
    return b.emit(meaning(name, [x]), [x, reduced])


RULES: dict[str, Rule] = {"stablehlo.gather": _gather, "stablehlo.scatter": _scatter}
