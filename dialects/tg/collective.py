"""Collectives: ops across a group of processes, each of which runs the same program on its own values.

A collective is a function of the values of all processes, in the order of their ranks. Sums are taken in that order, so
that groups of the same size get the same bits on every rank and over any transport.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import ClassVar, cast

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from tensorgrad.dialects.tg.base import (
    INTEGER,
    Evaluate,
    Moves,
    NumpyArray,
    Properties,
    Tensor,
    TensorOp,
    int_value,
    require,
    require_elements,
    tensor,
)
from tensorgrad.dialects.tg.traits import NeverOverflows

COMBINERS: Mapping[str, Callable[[NumpyArray, NumpyArray], NumpyArray]] = {
    "sum": np.add,
    "max": np.maximum,
    "min": np.minimum,
}
"""The reductions of `tg.all_reduce`."""


class CollectiveOp(TensorOp):
    """An op whose result depends on the operand's values in all processes of a group of `size`.

    All processes must run the same collectives in the same order.
    """

    operand = operand_def()
    group = prop_def(INTEGER, prop_name="size")
    result = result_def()
    traits = traits_def(Pure())

    @property
    def size(self) -> int:
        """The number of processes."""
        return self.group.value.data

    @abstractmethod
    def exchange(self, values: Sequence[NumpyArray]) -> list[NumpyArray]:
        """Returns the result of each process, given the operand of each process, both in the order of ranks."""

    def prepare(self) -> Evaluate:
        """Returns the op's semantics in a group of one process. For larger groups, the caller must know the group."""
        require(self.size == 1, lambda: f"{self.name} needs the values of a group of {self.size} processes")

        def alone(x: NumpyArray) -> NumpyArray:
            return self.exchange([x])[0]

        return alone

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        return None  # a process can't know whether the others have the same constant


def _require_size(properties: Properties) -> int:
    size = int_value(properties, "size")
    require(size >= 1, f"a group must have at least one process, got {size}")
    return size


def _split(properties: Properties, shape: Sequence[int]) -> tuple[int, int]:
    """Returns the axis along which an op splits or concatenates, and the size of the group."""
    size, axis = _require_size(properties), int_value(properties, "axis")
    require(0 <= axis < len(shape), f"axis {axis} is out of range for rank {len(shape)}")
    return axis, size


def combined(values: Sequence[NumpyArray], reduction: str) -> NumpyArray:
    """Returns the reduction of the values of all ranks, in the order of ranks; sums of f16 in f32, rounded once."""
    first = values[0]
    if first.dtype != np.float16:
        return np.asarray(reduce(COMBINERS[reduction], values), first.dtype)
    with np.errstate(over="ignore"):
        return np.asarray(reduce(COMBINERS[reduction], [value.astype(np.float32) for value in values])).astype(
            np.float16
        )


@irdl_op_definition
class AllReduceOp(CollectiveOp):
    """Reduces the values of all processes elementwise by "sum", "max" or "min"; every process gets the same result.

    Sums of f16 are taken in f32 and rounded once; integers wrap; a NaN makes a maximum or minimum NaN. The cotangent of
    a sum is the sum of all cotangents. That of a maximum or minimum goes to the elements that attain it, in equal
    shares at ties.

    Example:
        %1 = tg.all_reduce %0 reduction = "sum" size = 4 : tensor<8xf32>
    """

    name = "tg.all_reduce"
    reduction = prop_def(StringAttr)
    PROPERTIES: ClassVar = ("reduction", "size")

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        _require_size(properties)
        reduction, element = cast(StringAttr, properties["reduction"]).data, operands[0].get_element_type()
        require(reduction in COMBINERS, f'reduction "{reduction}" is not one of {", ".join(COMBINERS)}')
        require_elements(element, "number")
        return operands[0]

    def exchange(self, values: Sequence[NumpyArray]) -> list[NumpyArray]:
        return [combined(values, self.reduction.data)] * len(values)


@irdl_op_definition
class ReduceScatterOp(CollectiveOp):
    """The sum over all processes, of which each process gets one of `size` equal parts along `axis`, by its rank.

    Its cotangent is a `tg.all_gather`.

    Example:
        %1 = tg.reduce_scatter %0 axis = 0 size = 4 : tensor<8x3xf32>   // tensor<2x3xf32>
    """

    name = "tg.reduce_scatter"
    axis = prop_def(INTEGER)
    PROPERTIES: ClassVar = ("axis", "size")

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        shape, element = list(operands[0].get_shape()), operands[0].get_element_type()
        axis, size = _split(properties, shape)
        require_elements(element, "number")
        require(shape[axis] % size == 0, f"axis {axis} of {shape} is not divisible by {size}")
        shape[axis] //= size
        return tensor(shape, element)

    def exchange(self, values: Sequence[NumpyArray]) -> list[NumpyArray]:
        return np.split(combined(values, "sum"), self.size, self.axis.value.data)


@irdl_op_definition
class AllGatherOp(CollectiveOp):
    """Concatenates the values of all processes along `axis`, in the order of ranks; all processes get the same result.

    Its cotangent is a `tg.reduce_scatter`.

    Example:
        %1 = tg.all_gather %0 axis = 0 size = 4 : tensor<2x3xf32>   // tensor<8x3xf32>
    """

    name = "tg.all_gather"
    traits = traits_def(Pure(), NeverOverflows(), Moves())
    axis = prop_def(INTEGER)
    PROPERTIES: ClassVar = ("axis", "size")

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        shape = list(operands[0].get_shape())
        axis, size = _split(properties, shape)
        shape[axis] *= size
        return tensor(shape, operands[0].get_element_type())

    def exchange(self, values: Sequence[NumpyArray]) -> list[NumpyArray]:
        return [np.concatenate(values, self.axis.value.data)] * len(values)


@irdl_op_definition
class CollectiveBroadcastOp(CollectiveOp):
    """Gives every process the value of rank `root`. The cotangent of the root's value is the sum of all cotangents.

    Example:
        %1 = tg.collective_broadcast %0 root = 0 size = 4 : tensor<8xf32>
    """

    name = "tg.collective_broadcast"
    traits = traits_def(Pure(), NeverOverflows(), Moves())
    root = prop_def(INTEGER)
    PROPERTIES: ClassVar = ("root", "size")

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        size, root = _require_size(properties), int_value(properties, "root")
        require(0 <= root < size, f"root {root} is out of range for a group of {size} processes")
        return operands[0]

    def exchange(self, values: Sequence[NumpyArray]) -> list[NumpyArray]:
        return [values[self.root.value.data]] * len(values)


OPS = (AllReduceOp, ReduceScatterOp, AllGatherOp, CollectiveBroadcastOp)
