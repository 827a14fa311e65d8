"""Collectives on buffers: a stage of a `buf.kernel` that a group of processes executes together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import IntegerAttr, MemRefType, StringAttr, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST = "all_reduce", "reduce_scatter", "all_gather", "broadcast"
KINDS = (ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST)
REDUCTIONS = ("sum", "max", "min", "maxui", "minui")
"""The reductions of an all-reduce. The last two treat integers as unsigned, since buffers are signless."""
START, WAIT = PHASES = ("start", "wait")
REQUEST = MemRefType(i32, [])
"""The type of the request that a start passes to its wait."""


@irdl_op_definition
class CollectiveOp(IRDLOperation):
    """A stage of a `buf.kernel` that exchanges values with the other processes of a group of `size`, in one message.

    Buffers are whole, in row-major order, and treated as flat; each has a result. `all_reduce` combines the inputs of
    all processes by `reduction`, in the order of their ranks; `reduce_scatter` gives each process one of `size` equal
    parts of that; `all_gather` concatenates the inputs; `broadcast` gives every process the input of rank `root`. The
    runtime executes the exchange between dispatches.

    It may be split into two phases, between which other kernels run: "start" reads the inputs and creates a request;
    "wait", whose inputs are the same followed by the request, writes the results. From the start to the wait, the
    inputs must not change, and the results belong to the runtime.

    Example:
        buf.collective "all_reduce" ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {reduction = "sum", root = 0 : i64,
          size = 4 : i64}
    """

    name = "buf.collective"
    kind = prop_def(StringAttr)
    reduction = prop_def(StringAttr)
    root = prop_def(IntegerAttr)
    group = prop_def(IntegerAttr, prop_name="size")
    phase = opt_prop_def(StringAttr)
    inputs = var_operand_def(MemRefType)
    outputs = var_operand_def(MemRefType)
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$kind `ins` `(` $inputs `:` type($inputs) `)` `outs` `(` $outputs `:` type($outputs) `)` attr-dict"
    )

    @classmethod
    def of(
        cls,
        kind: str,
        size: int,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        reduction: str = "sum",
        root: int = 0,
    ) -> CollectiveOp:
        """Returns a collective of one phase."""
        return cls.build(
            operands=[list(inputs), list(outputs)],
            properties={
                "kind": StringAttr(kind),
                "reduction": StringAttr(reduction),
                "root": IntegerAttr(root, i64),
                "size": IntegerAttr(size, i64),
            },
        )

    def like(self, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue], phase: str | None = None) -> CollectiveOp:
        """Returns a stage of the same kind on other buffers."""
        result = CollectiveOp.of(self.kind.data, self.size, inputs, outputs, self.reduction.data, self.rank_of_root)
        if phase is not None:
            result.properties["phase"] = StringAttr(phase)
        return result

    @property
    def size(self) -> int:
        """The number of processes."""
        return cast("IntegerAttr[Any]", self.group).value.data

    @property
    def is_unsigned(self) -> bool:
        """Whether integers are combined as unsigned."""
        return self.reduction.data.endswith("ui")

    @property
    def combiner(self) -> str:
        """The reduction without its signedness: "sum", "max" or "min"."""
        return self.reduction.data.removesuffix("ui")

    @property
    def rank_of_root(self) -> int:
        """The rank that broadcasts its value."""
        return cast("IntegerAttr[Any]", self.root).value.data

    @property
    def alike(self) -> object:
        """A key that is equal for collectives that can be combined in one message."""
        element = cast("MemRefType[Attribute]", self.inputs[0].type).element_type
        return self.kind, self.reduction, self.root, self.group, element

    @property
    def is_start(self) -> bool:
        """Whether it is the first phase of an exchange."""
        return self.phase is not None and self.phase.data == START

    @property
    def is_wait(self) -> bool:
        """Whether it is the second phase of an exchange."""
        return self.phase is not None and self.phase.data == WAIT

    @property
    def sources(self) -> Sequence[SSAValue]:
        """The buffers whose values are exchanged."""
        return self.inputs[:-1] if self.is_wait else self.inputs

    @property
    def grid(self) -> tuple[int, ...]:
        """The grid of the kernel around it: a single point."""
        return ()

    def verify_(self) -> None:
        if self.kind.data not in KINDS:
            raise VerifyException(f"{self.kind.data!r} is not one of {', '.join(KINDS)}")
        if self.reduction.data not in REDUCTIONS:
            raise VerifyException(f"{self.reduction.data!r} is not one of {', '.join(REDUCTIONS)}")
        if self.size < 1 or not 0 <= self.rank_of_root < self.size:
            raise VerifyException(f"rank {self.rank_of_root} is out of range for a group of {self.size} processes")
        if self.phase is not None and self.phase.data not in PHASES:
            raise VerifyException(f"{self.phase.data!r} is not one of {', '.join(PHASES)}")
        requests = self.outputs if self.is_start else self.inputs[len(self.sources) :]
        if (self.is_start or self.is_wait) and [request.type for request in requests] != [REQUEST]:
            raise VerifyException(
                f"a start must return one request of {REQUEST}, which its wait must take after its inputs"
            )
        if not self.sources:
            raise VerifyException("needs an input to exchange")
        if not self.is_start:
            self._verify_results()

    def _verify_results(self) -> None:
        if len(self.sources) != len(self.outputs):
            raise VerifyException(f"{len(self.sources)} inputs need as many results, got {len(self.outputs)}")
        for source, result in zip(self.sources, self.outputs, strict=True):
            operand_type, result_type = (cast("MemRefType[Attribute]", value.type) for value in (source, result))
            counts = [math.prod(type_.get_shape()) for type_ in (operand_type, result_type)]
            counts[0] *= self.size if self.kind.data == ALL_GATHER else 1
            counts[1] *= self.size if self.kind.data == REDUCE_SCATTER else 1
            if operand_type.element_type != result_type.element_type or counts[0] != counts[1]:
                raise VerifyException(
                    f"{self.kind.data} over a group of {self.size} processes cannot return {result_type} for "
                    f"{operand_type}"
                )
