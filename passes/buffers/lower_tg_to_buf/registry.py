"""The registry of lowering rules by op class; the modules of `rules` register theirs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar, cast

from xdsl.ir import Operation
from xdsl.ir.affine import AffineMap

from tensorgrad.dialects.tg.base import NumpyArray, TensorOp
from tensorgrad.dialects.tg.build import element_of
from tensorgrad.passes.buffers.lower_tg_to_buf.kernels import KernelSpec
from tensorgrad.passes.buffers.lower_tg_to_buf.scalars import Body, storage
from tensorgrad.passes.buffers.lower_tg_to_buf.views import Lowered, View
from tensorgrad.runtime.target import Target

OpT = TypeVar("OpT", bound=TensorOp)
Rule: TypeAlias = Callable[[OpT, Sequence[Lowered]], KernelSpec]
"""Builds the kernel of an op from its lowered operands. The result has at least one element."""


@dataclass(frozen=True)
class Emit:
    """Emits an op's kernels, in order.

    Attributes:
        append: Appends a kernel; returns a view of its result.
        add: Appends an allocation, or a kernel of another kind.
        constant: Returns a view of a buffer that holds an array, the same one for equal arrays.
        shared: What ops of the function have emitted that others may read, by what it was made from.
        target: The target.
        loops: The number of loops around the function.
    """

    append: Callable[[KernelSpec], View]
    add: Callable[[Operation], None]
    constant: Callable[[NumpyArray], View]
    shared: dict[Hashable, tuple[View, View]]
    target: Target
    loops: int

    @property
    def bindings(self) -> int:
        """The most bindings of a kernel: the target's limit, less one for each loop around the kernel."""
        return self.target.max_storage_buffers_per_shader_stage - self.loops

    def __call__(self, spec: KernelSpec) -> View:
        """Appends a kernel; returns a view of its result."""
        return self.append(spec)


Sequencer: TypeAlias = Callable[[OpT, Sequence[Lowered], Emit], Lowered]
"""Emits an op's kernels in order, and returns its result, which has at least one element."""


RULES: dict[type[TensorOp], Rule[TensorOp]] = {}
SEQUENCES: dict[type[TensorOp], Sequencer[TensorOp]] = {}

MEMORY_OPERANDS: dict[type[TensorOp], tuple[int, ...]] = {}
"""The positions of the operands that a kernel loads from at computed indices, which must be in memory."""

VIEWS: dict[type[TensorOp], Callable[[TensorOp], AffineMap]] = {}
"""For each op that only moves elements: the map from the result's index to the operand's."""


def rule(kind: type[OpT], in_memory: tuple[int, ...] = ()) -> Callable[[Rule[OpT]], Rule[OpT]]:
    """Registers the kernel of an op.

    Args:
        kind: The op.
        in_memory: The positions of operands that the kernel loads from at computed indices, which must be in memory.
    """

    def register(function: Rule[OpT]) -> Rule[OpT]:
        RULES[kind] = cast("Rule[TensorOp]", function)
        MEMORY_OPERANDS[kind] = in_memory
        return function

    return register


def sequence(*kinds: type[OpT], in_memory: tuple[int, ...] = ()) -> Callable[[Sequencer[OpT]], Sequencer[OpT]]:
    """Registers the kernels of ops.

    Args:
        *kinds: The ops.
        in_memory: The positions of operands that they load from at computed indices, which must be in memory.
    """

    def register(function: Sequencer[OpT]) -> Sequencer[OpT]:
        for kind in kinds:
            SEQUENCES[kind] = cast("Sequencer[TensorOp]", function)
            MEMORY_OPERANDS[kind] = in_memory
        return function

    return register


def view(kind: type[OpT]) -> Callable[[Callable[[OpT], AffineMap]], Callable[[OpT], AffineMap]]:
    """Registers an op that only moves elements, by the map from its result's index to its operand's."""

    def register(function: Callable[[OpT], AffineMap]) -> Callable[[OpT], AffineMap]:
        VIEWS[kind] = cast("Callable[[TensorOp], AffineMap]", function)
        return function

    return register


def pointwise(bodies: Mapping[type[TensorOp], Body]) -> None:
    """Registers elementwise ops, each with the function that computes one element."""

    def kernel(op: TensorOp, operands: Sequence[Lowered]) -> KernelSpec:
        body = bodies[type(op)]
        return KernelSpec(
            grid=op.shape,
            reads=operands,
            result=storage(element_of(op.results[0])),
            compute=lambda b, args: body(b, op, args),
            location=op.location,
        )

    RULES.update(dict.fromkeys(bodies, kernel))
