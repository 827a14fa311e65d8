"""How a group of processes holds a tensor of the whole program, and conversions between such layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from tensorgrad.dialects.tg.base import Tensor, is_float, splat_value, tensor
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of, type_of
from tensorgrad.dialects.tg.shape import BroadcastOp


@dataclass(frozen=True)
class Placement:
    """How the processes hold a tensor: replicated (by default), sharded along an axis, or as a partial sum.

    Attributes:
        axis: The sharded axis, of which each process holds one of equal parts, by its rank.
        partial: Whether the tensor is the sum of the values that the processes hold.
        blocks: The number of equal blocks of the axis, of each of which a process holds its part. It is more than one
            where a reshape merged axes and an inner one was sharded, such as the batch in lengths times batch.
    """

    axis: int | None = None
    partial: bool = False
    blocks: int = 1

    def along(self, axis: int) -> Placement:
        """Returns the same layout with another axis as the sharded one."""
        return replace(self, axis=axis)


WHOLE, PARTIAL = Placement(), Placement(partial=True)


@dataclass(frozen=True)
class Placed:
    """A tensor of the whole program as this process holds it."""

    value: SSAValue
    layout: Placement = WHOLE

    @property
    def axis(self) -> int | None:
        """The sharded axis, or `None`."""
        return self.layout.axis

    @property
    def is_partial(self) -> bool:
        """Whether the tensor is the sum of the values that the processes hold."""
        return self.layout.partial

    @property
    def is_whole(self) -> bool:
        """Whether the tensor is replicated: every process holds all of it."""
        return self.layout == WHOLE


@dataclass
class Distribution:
    """The group of processes, an insertion point, and conversions between layouts, for rules to build with.

    Attributes:
        builder: The insertion point.
        size: The number of processes.
        rank: The rank of this process.
        shard_axes: For values of the whole program, the axis along which to shard them if they are partial sums.
    """

    builder: TensorBuilder
    size: int
    rank: int
    shard_axes: Mapping[SSAValue, int]

    def at(self, builder: TensorBuilder) -> Distribution:
        """Returns the same group with another insertion point."""
        return replace(self, builder=builder)

    def can_cut(self, shape: Sequence[int], layout: Placement) -> bool:
        """Returns whether a shape of the whole program can be sharded into equal parts by a layout with an axis."""
        assert layout.axis is not None
        extent = shape[layout.axis]
        return extent > 0 and extent % (layout.blocks * self.size) == 0

    def local(self, kind: Tensor, layout: Placement) -> Tensor:
        """Returns the type of what one process holds of a tensor of the whole program."""
        shape = list(kind.get_shape())
        if layout.axis is not None:
            shape[layout.axis] //= self.size
        return tensor(shape, kind.get_element_type())

    def shape(self, placed: Placed) -> tuple[int, ...]:
        """Returns the shape of a tensor in the whole program."""
        shape = list(shape_of(placed.value))
        if placed.axis is not None:
            shape[placed.axis] *= self.size
        return tuple(shape)

    def whole(self, placed: Placed) -> Placed:
        """Replicates a tensor: all-reduces a partial sum, gathers shards."""
        if placed.is_partial:
            return Placed(self.builder.all_reduce(placed.value, self.size))
        if placed.axis is None:
            return placed
        blocks, axis = self._in_blocks(placed.value, placed.layout)
        return Placed(self.builder.reshape(self.builder.all_gather(blocks, axis, self.size), self.shape(placed)))

    def cut(self, placed: Placed, layout: Placement) -> Placed:
        """Shards a tensor by a layout, which must give equal parts."""
        if placed.layout == layout:
            return placed
        if not placed.is_partial:
            return Placed(self._part(self.whole(placed).value, layout), layout)
        kind = self.local(type_of(placed.value), layout)
        blocks, axis = self._in_blocks(placed.value, layout)
        scattered = self.builder.reduce_scatter(blocks, axis, self.size)
        return Placed(self.builder.reshape(scattered, kind.get_shape()), layout)

    def _in_blocks(self, value: SSAValue, layout: Placement) -> tuple[SSAValue, int]:
        """Returns a value with an axis of blocks in front of the sharded axis, and the new index of the latter."""
        assert layout.axis is not None
        if layout.blocks == 1:
            return value, layout.axis
        shape = shape_of(value)
        extents = (*shape[: layout.axis], layout.blocks, shape[layout.axis] // layout.blocks)
        return self.builder.reshape(value, (*extents, *shape[layout.axis + 1 :])), layout.axis + 1

    def _part(self, value: SSAValue, layout: Placement) -> SSAValue:
        """Returns this process's shard of a replicated value; constants and broadcasts are emitted at its shape."""
        kind, axis = self.local(type_of(value), layout), layout.axis
        number = splat_value(value)
        if number is not None:
            return self.builder.full(kind, number)
        if isinstance(value.owner, BroadcastOp):
            dims = value.owner.dims.get_values()
            operand = value.owner.operand
            if axis in dims:
                operand = self._part(operand, layout.along(dims.index(axis)))
            return self.builder.broadcast(operand, kind.get_shape(), dims)
        blocks, axis = self._in_blocks(value, layout)
        stop = list(shape_of(blocks))
        start, part = [0] * len(stop), stop[axis] // self.size
        start[axis], stop[axis] = self.rank * part, (self.rank + 1) * part
        return self.builder.reshape(self.builder.slice(blocks, start, stop, [1] * len(stop)), kind.get_shape())

    def summand(self, placed: Placed) -> Placed:
        """Returns a tensor as a partial sum of equal summands, so that all ranks compute the same.

        Integers can't be divided: there the first process contributes the whole tensor, and the others zeros.
        """
        if placed.is_partial:
            return placed
        value = self.whole(placed).value
        if splat_value(value) == 0:
            return Placed(value, PARTIAL)
        if is_float(element_of(value)):
            # If other ranks contributed zeros, a collective that computes it would be dead there and be erased.
            return Placed(self.builder.scale(value, 1 / self.size), PARTIAL)
        return Placed(value if self.rank == 0 else self.builder.full_like(value, 0), PARTIAL)

    def as_layout(self, placed: Placed, layout: Placement) -> Placed:
        """Converts a tensor to a layout."""
        if layout.partial:
            return self.summand(placed)
        return self.whole(placed) if layout.axis is None else self.cut(placed, layout)

    def resolved(self, placed: Placed, original: SSAValue) -> Placed:
        """Reduces a tensor if it is a partial sum: to shards along the wanted axis, or replicated.

        Args:
            placed: The tensor.
            original: The same value in the whole program.
        """
        if not placed.is_partial:
            return placed
        axis = self.shard_axes.get(original)
        return self.whole(placed) if axis is None else self.cut(placed, Placement(axis))
