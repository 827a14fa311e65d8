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
    """

    axis: int | None = None
    partial: bool = False


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

    def can_cut(self, shape: Sequence[int], axis: int) -> bool:
        """Returns whether a tensor of the whole program has equal parts along an axis."""
        return shape[axis] % self.size == 0 and shape[axis] > 0

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
        if one.axis is not None:
            return Placed(self.builder.all_gather(one.value, one.axis, self.size))
        return one

    def cut(self, one: Placed, axis: int) -> Placed:
        """Returns a tensor cut along an axis, which has equal parts."""
        if one.axis == axis:
            return one
        if one.is_partial:
            return Placed(self.builder.reduce_scatter(one.value, axis, self.size), Layout(axis))
        return Placed(self._part(self.whole(one).value, axis), Layout(axis))

    def _part(self, value: SSAValue, axis: int) -> SSAValue:
        """Returns this process's part of a value; what is repeated along the axis is repeated less often."""
        shape = list(shape_of(value))
        part = shape[axis] // self.size
        number = splat_value(value)
        if number is not None:
            return self.builder.full(self.local(type_of(value), Layout(axis)), number)
        if isinstance(value.owner, BroadcastOp):
            dims = int_list(value.owner.properties, "dims")
            operand = self._part(value.owner.operand, dims.index(axis)) if axis in dims else value.owner.operand
            shape[axis] = part
            return self.builder.broadcast(operand, shape, dims)
        start, stop = [0] * len(shape), shape
        start[axis], stop[axis] = self.rank * part, (self.rank + 1) * part
        return self.builder.slice(value, start, stop, [1] * len(shape))

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
        return self.whole(one) if layout.axis is None else self.cut(one, layout.axis)

    def resolved(self, one: Placed, original: SSAValue) -> Placed:
        """Returns a tensor that is no partial sum: cut as it is wanted, or whole.

        Args:
            one: The tensor.
            original: What it is in the whole program.
        """
        if not one.is_partial:
            return one
        axis = self.wanted.get(original)
        return self.whole(one) if axis is None else self.cut(one, axis)
