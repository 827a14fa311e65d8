"""Where a tensor of the whole program is in a group of processes, and how it gets elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from tensorgrad.dialects.tg.base import Tensor, int_list, is_float, splat_value, tensor
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of, type_of
from tensorgrad.dialects.tg.shape import BroadcastOp


@dataclass(frozen=True)
class Layout:
    """How the processes hold a tensor; by default, each has all of it.

    Attributes:
        axis: The axis along which each process has one of as many equal parts, by its rank.
        partial: Whether the tensor is the sum of what the processes have.
        blocks: How many equal blocks the axis consists of, of each of which a process has its part: more than one where
            axes were merged of which an inner one is cut, such as lengths and a batch.
    """

    axis: int | None = None
    partial: bool = False
    blocks: int = 1

    def along(self, axis: int) -> Layout:
        """Returns the same for a tensor whose axis that is cut is another one."""
        return replace(self, axis=axis)


WHOLE, PARTIAL = Layout(), Layout(partial=True)


@dataclass(frozen=True)
class Placed:
    """A tensor of the whole program as this process has it."""

    value: SSAValue
    layout: Layout = WHOLE

    @property
    def axis(self) -> int | None:
        """The axis that it is cut along, if it is."""
        return self.layout.axis

    @property
    def is_partial(self) -> bool:
        """Whether the tensor is the sum of what the processes have."""
        return self.layout.partial

    @property
    def is_whole(self) -> bool:
        """Whether every process has all of it."""
        return self.layout == WHOLE


@dataclass
class Distribution:
    """What rules build with: the group, and conversions between layouts.

    Attributes:
        builder: Where ops go.
        size: The number of processes.
        rank: This one.
        wanted: The axis along which a partial sum is to be cut, for values of the whole program.
    """

    builder: TensorBuilder
    size: int
    rank: int
    wanted: Mapping[SSAValue, int]

    def at(self, builder: TensorBuilder) -> Distribution:
        """Returns the same with ops going elsewhere."""
        return replace(self, builder=builder)

    def can_cut(self, shape: Sequence[int], layout: Layout) -> bool:
        """Returns whether a tensor of the whole program has equal parts along the axis of a layout."""
        assert layout.axis is not None
        extent = shape[layout.axis]
        return extent > 0 and extent % (layout.blocks * self.size) == 0

    def local(self, kind: Tensor, layout: Layout) -> Tensor:
        """Returns the type that a process has of a tensor."""
        shape = list(kind.get_shape())
        if layout.axis is not None:
            shape[layout.axis] //= self.size
        return tensor(shape, kind.get_element_type())

    def shape(self, one: Placed) -> tuple[int, ...]:
        """Returns the shape that a tensor has in the whole program."""
        shape = list(shape_of(one.value))
        if one.axis is not None:
            shape[one.axis] *= self.size
        return tuple(shape)

    def whole(self, one: Placed) -> Placed:
        """Returns a tensor with all of it in every process."""
        if one.is_partial:
            return Placed(self.builder.all_reduce(one.value, self.size))
        if one.axis is None:
            return one
        blocks, axis = self._in_blocks(one.value, one.layout)
        return Placed(self.builder.reshape(self.builder.all_gather(blocks, axis, self.size), self.shape(one)))

    def cut(self, one: Placed, layout: Layout) -> Placed:
        """Returns a tensor cut as a layout says, which gives equal parts."""
        if one.layout == layout:
            return one
        if not one.is_partial:
            return Placed(self._part(self.whole(one).value, layout), layout)
        kind = self.local(type_of(one.value), layout)
        blocks, axis = self._in_blocks(one.value, layout)
        scattered = self.builder.reduce_scatter(blocks, axis, self.size)
        return Placed(self.builder.reshape(scattered, kind.get_shape()), layout)

    def _in_blocks(self, value: SSAValue, layout: Layout) -> tuple[SSAValue, int]:
        """Returns a value with an axis of blocks in front of the axis that is cut, and the place of the latter."""
        assert layout.axis is not None
        if layout.blocks == 1:
            return value, layout.axis
        shape = shape_of(value)
        extents = (*shape[: layout.axis], layout.blocks, shape[layout.axis] // layout.blocks)
        return self.builder.reshape(value, (*extents, *shape[layout.axis + 1 :])), layout.axis + 1

    def _part(self, value: SSAValue, layout: Layout) -> SSAValue:
        """Returns this process's part of a value; what is repeated along the axis is repeated less often."""
        kind, axis = self.local(type_of(value), layout), layout.axis
        number = splat_value(value)
        if number is not None:
            return self.builder.full(kind, number)
        if isinstance(value.owner, BroadcastOp):
            dims = int_list(value.owner.properties, "dims")
            operand = value.owner.operand
            if axis in dims:
                operand = self._part(operand, layout.along(dims.index(axis)))
            return self.builder.broadcast(operand, kind.get_shape(), dims)
        blocks, axis = self._in_blocks(value, layout)
        stop = list(shape_of(blocks))
        start, part = [0] * len(stop), stop[axis] // self.size
        start[axis], stop[axis] = self.rank * part, (self.rank + 1) * part
        return self.builder.reshape(self.builder.slice(blocks, start, stop, [1] * len(stop)), kind.get_shape())

    def summand(self, one: Placed) -> Placed:
        """Returns a tensor as a sum over the processes, of equal parts: all ranks compute the same.

        Integers have none: there the first process adds all of it.
        """
        if one.is_partial:
            return one
        value = self.whole(one).value
        if splat_value(value) == 0:
            return Placed(value, PARTIAL)
        if is_float(element_of(value)):
            # Where a rank made zeros of it, an exchange before it would be of no use to that rank, and left out.
            return Placed(self.builder.scale(value, 1 / self.size), PARTIAL)
        return Placed(value if self.rank == 0 else self.builder.full_like(value, 0), PARTIAL)

    def as_layout(self, one: Placed, layout: Layout) -> Placed:
        """Returns a tensor in a layout."""
        if layout.partial:
            return self.summand(one)
        return self.whole(one) if layout.axis is None else self.cut(one, layout)

    def resolved(self, one: Placed, original: SSAValue) -> Placed:
        """Returns a tensor that is no partial sum: cut as it is wanted, or whole.

        Args:
            one: The tensor.
            original: What it is in the whole program.
        """
        if not one.is_partial:
            return one
        axis = self.wanted.get(original)
        return self.whole(one) if axis is None else self.cut(one, Layout(axis))
