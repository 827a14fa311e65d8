"""The counting sort on buffers: a stage of a `buf.kernel` that a task computes row by row, in order."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import I64, AffineMapAttr, IntegerAttr, IntegerType, MemRefType, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from tensorgrad.dialects.ranges import is_index, stays_within


@irdl_op_definition
class CountingSortOp(IRDLOperation):
    """A stage of a `buf.kernel` that sorts the positions of each row by a small number, its bucket, stably.

    With b buckets, a number that isn't in [0, b) when read as unsigned belongs to a further bucket, the last one. For
    each of r rows of n numbers, `order` (r x n) receives the positions in the row, those of bucket 0 first, each
    bucket's in increasing order; and `starts` (r x (b + 2)), if given, how many positions lie in the buckets before
    each one, the last element being n. The map goes from a row and a position to the element of `numbers`. The grid of
    the kernel is the rows.

    A row takes O(n + b) steps, each after the other: counts are kept in memory, and places depend on them, which
    `linalg.generic` can't express. So only native code is made of it, one task for each row.

    H. Seward: Information Sorting in the Application of Electronic Digital Computers to Business Operations (1954).

    Example:
        buf.counting_sort ins(%numbers : memref<8xi32>) outs(%order : memref<1x8xi32>) starts(%starts : memref<1x7xi32>)
          {buckets = 5 : i64, map = affine_map<(d0, d1) -> (d1)>}
    """

    name = "buf.counting_sort"
    numbers = operand_def(MemRefType)
    order = operand_def(MemRefType)
    starts = opt_operand_def(MemRefType)
    bucket_count = prop_def(IntegerAttr[I64], prop_name="buckets")
    map = prop_def(AffineMapAttr)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "`ins` `(` $numbers `:` type($numbers) `)` `outs` `(` $order `:` type($order) `)` "
        "(`starts` `(` $starts^ `:` type($starts) `)`)? attr-dict"
    )

    @classmethod
    def of(
        cls, numbers: SSAValue, order: SSAValue, starts: SSAValue | None, buckets: int, place: AffineMap
    ) -> CountingSortOp:
        """Returns a stage; `place` maps a row and a position to an element of `numbers`."""
        return cls.build(
            operands=[numbers, order, starts],
            properties={"buckets": IntegerAttr(buckets, i64), "map": AffineMapAttr(place)},
        )

    @property
    def inputs(self) -> tuple[SSAValue, ...]:
        """The buffer that is read."""
        return (self.numbers,)

    @property
    def outputs(self) -> tuple[SSAValue, ...]:
        """The buffers that are written."""
        return (self.order,) if self.starts is None else (self.order, self.starts)

    @property
    def extents(self) -> tuple[int, int]:
        """The rows, and the positions of each."""
        rows, positions = cast("MemRefType[Attribute]", self.order.type).get_shape()
        return rows, positions

    @property
    def grid(self) -> tuple[int]:
        """The grid of the kernel."""
        return (self.extents[0],)

    @property
    def buckets(self) -> int:
        """The number of buckets, not counting the one of all other numbers."""
        return self.bucket_count.value.data

    def verify_(self) -> None:
        numbers, order = (cast("MemRefType[Attribute]", value.type) for value in (self.numbers, self.order))
        element = numbers.element_type
        if not isinstance(element, IntegerType) or element.bitwidth not in (32, 64):
            raise VerifyException(f"buckets are integers of 32 or 64 bits, not {element}")
        if self.buckets < 0:
            raise VerifyException(f"a number of buckets is not negative, got {self.buckets}")
        if order.element_type != i32 or len(order.get_shape()) != 2:
            raise VerifyException(f"an order is a matrix of i32, not {order}")
        expected = MemRefType(i32, [order.get_shape()[0], self.buckets + 2])
        if self.starts is not None and self.starts.type != expected:
            raise VerifyException(f"the starts of {self.buckets} buckets are {expected}, not {self.starts.type}")
        place, loops = self.map.data, tuple((0, extent - 1) for extent in order.get_shape())
        if place.num_dims != 2 or place.num_symbols or len(place.results) != len(numbers.get_shape()):
            raise VerifyException(f"{self.map} is not a map from (row, position) to an element of {numbers}")
        for index, extent in zip(place.results, numbers.get_shape(), strict=True):
            if not is_index(index) or (0 not in order.get_shape() and not stays_within(index, loops, extent)):
                raise VerifyException(
                    f"index {index} of {order.get_shape()[0]} rows leaves an axis of extent {extent} of {numbers}"
                )
