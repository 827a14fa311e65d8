"""Collectives on buffers: the stage of a `buf.kernel` that a group of processes runs together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import IntegerAttr, MemRefType, StringAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    prop_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST = "all_reduce", "reduce_scatter", "all_gather", "broadcast"
KINDS = (ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST)
REDUCTIONS = ("sum", "max", "min")


@irdl_op_definition
class CollectiveOp(IRDLOperation):
    """A stage of a `buf.kernel` that exchanges values with the other processes of a group of `size`.

    Buffers are whole, in row-major order, and count as flat. `all_reduce` combines the inputs of all processes by
    `reduction`, in the order of their ranks; `reduce_scatter` gives each process one of `size` equal parts of that;
    `all_gather` puts the inputs behind each other; `broadcast` gives every process the input of the one of rank `root`.
    No kernel computes it: the runtime does it between dispatches.

    Example:
        buf.collective "all_reduce" ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {reduction = "sum", size = 4 : i64}
    """

    name = "buf.collective"
    kind = prop_def(StringAttr)
    reduction = prop_def(StringAttr)
    root = prop_def(IntegerAttr)
    group = prop_def(IntegerAttr, prop_name="size")
    source = operand_def(MemRefType)
    destination = operand_def(MemRefType)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$kind `ins` `(` $source `:` type($source) `)` `outs` `(` $destination `:` type($destination) `)` attr-dict"
    )

    @classmethod
    def of(
        cls, kind: str, size: int, source: SSAValue, destination: SSAValue, reduction: str = "sum", root: int = 0
    ) -> CollectiveOp:
        """Returns a stage."""
        return cls.build(
            operands=[source, destination],
            properties={
                "kind": StringAttr(kind),
                "reduction": StringAttr(reduction),
                "root": IntegerAttr(root, i64),
                "size": IntegerAttr(size, i64),
            },
        )

    @property
    def size(self) -> int:
        """The number of processes."""
        return cast("IntegerAttr[Any]", self.group).value.data

    @property
    def rank_of_root(self) -> int:
        """The rank whose value a broadcast gives."""
        return cast("IntegerAttr[Any]", self.root).value.data

    @property
    def alike(self) -> object:
        """What collectives have in common that one message can carry."""
        element = cast("MemRefType[Attribute]", self.source.type).element_type
        return self.kind, self.reduction, self.root, self.group, element

    @property
    def inputs(self) -> Sequence[SSAValue]:
        """What is read."""
        return (self.source,)

    @property
    def outputs(self) -> Sequence[SSAValue]:
        """What is written."""
        return (self.destination,)

    @property
    def grid(self) -> tuple[int, ...]:
        """The points of the kernel around it: one."""
        return ()

    def verify_(self) -> None:
        kind, size = self.kind.data, self.size
        if kind not in KINDS:
            raise VerifyException(f"{kind!r} is not one of {', '.join(KINDS)}")
        if self.reduction.data not in REDUCTIONS:
            raise VerifyException(f"{self.reduction.data!r} is not one of {', '.join(REDUCTIONS)}")
        if size < 1 or not 0 <= self.rank_of_root < size:
            raise VerifyException(f"rank {self.rank_of_root} is not one of a group of {size}")
        given, made = (cast("MemRefType[Attribute]", one.type) for one in (self.source, self.destination))
        counts = [math.prod(one.get_shape()) for one in (given, made)]
        counts[0] *= size if kind == ALL_GATHER else 1
        counts[1] *= size if kind == REDUCE_SCATTER else 1
        if given.element_type != made.element_type or counts[0] != counts[1]:
            raise VerifyException(f"{kind} of a group of {size} makes no {made} of {given}")
