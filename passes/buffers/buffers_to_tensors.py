"""The pass `buffers-to-tensors`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects import arith, memref, tensor
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FunctionType, MemRefType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import Buffer
from tensorgrad.dialects.functions import defined_functions
from tensorgrad.passes.buffers.lower_tg_to_buf.kernels import set_location
from tensorgrad.passes.functions import block_of, return_of
from tensorgrad.passes.levels import KERNELS, LevelPass

BUFFERIZATION = (
    "--one-shot-bufferize=bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map",
    "--buffer-results-to-out-params",
)
"""The options with which `mlir-opt` 19 gives the pass's result buffers again, the function's results as arguments."""


ON_BUFFERS = (memref.AllocOp, memref.DeallocOp, memref.GetGlobalOp, memref.CopyOp, GenericOp)
"""The ops of a function that are replaced by ops on tensors."""


@dataclass(frozen=True)
class BuffersToTensorsPass(LevelPass):
    """Rewrites loops over buffers to `linalg` on tensors, from which upstream's pipelines start.

    Expects functions that `buf-to-upstream` wrote from kernels without a memory plan, whose buffers have one writer
    each. Guarantees functions of tensors with the same values, without side effects. The arguments that were written
    are results, in order; the others are tensors, with those of no elements, which nothing writes. A stage returns the
    tensors that it wrote into memory, a global is a constant, and a load in a stage's body extracts an element.

    Raises:
        DiagnosticException: Buffers are ranges of others, as after `plan-memory` or where updates are packed.
    """

    name = "buffers-to-tensors"
    levels = KERNELS

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            _check(inner)
        constants = {inner.sym_name.data: inner for inner in op.ops if isinstance(inner, memref.GlobalOp)}
        for inner in defined_functions(op):
            _Function(inner, constants).run()
        for constant in constants.values():
            Rewriter.erase_op(constant)


def _check(op: Operation) -> None:
    """Raises for an op that has no counterpart on tensors, before anything has been changed."""
    if isinstance(op, memref.ViewOp):
        raise DiagnosticException(
            f"buffers-to-tensors: {op.name} is a range of another buffer, and tensors have none: leave plan-memory and "
            "pack-updates out"
        )
    if op.name.startswith("buf."):
        raise DiagnosticException(f"buffers-to-tensors: {op.name} is a kernel; run buf-to-upstream first")


class _Function:
    """Rewrites one function in place."""

    def __init__(self, function: FuncOp, constants: dict[str, memref.GlobalOp]):
        self.function, self.constants = function, constants
        self.block = block_of(function)
        self.tensors: dict[SSAValue, SSAValue] = {}
        """The tensor that each buffer holds at this point of the function."""

    def run(self) -> None:
        """Rewrites the function."""
        written = {target for op in self.block.ops for target in _targets(op)}
        results = [argument for argument in self.block.args if argument in written]
        for argument in self.block.args:
            if argument not in written and isinstance(argument.type, MemRefType):
                new = Rewriter.replace_value_with_new_type(argument, _tensor_type(argument))
                self.tensors[new] = new
        last = return_of(self.function)
        replaced = [op for op in self.block.ops if isinstance(op, ON_BUFFERS)]
        for op in replaced:
            self._rewrite(op)
        values = [self._held(argument, last) for argument in results]
        self._insert(ReturnOp(*values), last)
        for op in reversed([*replaced, last]):
            Rewriter.erase_op(op)
        for argument in results:
            self.block.erase_arg(argument)
        types = [value.type for value in values]
        self.function.properties["function_type"] = FunctionType.from_lists(self.block.arg_types, types)

    def _rewrite(self, op: Operation) -> None:
        """Inserts what an op does to tensors in front of it."""
        if isinstance(op, memref.GetGlobalOp):
            dense = self.constants[op.name_.root_reference.data].properties["initial_value"]
            constant = arith.ConstantOp(cast("DenseIntOrFPElementsAttr[Any]", dense))
            self._insert(constant, op)
            self.tensors[op.memref] = constant.result
        elif isinstance(op, memref.CopyOp):
            self.tensors[op.destination] = self._held(op.source, op)
        elif isinstance(op, GenericOp):
            self._stage(op)

    def _stage(self, stage: GenericOp) -> None:
        targets = list(stage.outputs)
        body = stage.detach_region(stage.body)
        for load in [op for op in body.walk() if isinstance(op, memref.LoadOp)]:
            source = self._held(load.memref, stage)
            element = tensor.ExtractOp(source, list(load.indices), load.res.type)
            set_location(element, load.location)
            Rewriter.replace_op(load, element)
        new = GenericOp.create(
            operands=[self._held(operand, stage) for operand in stage.operands],
            result_types=[_tensor_type(target) for target in targets],
            properties=stage.properties,
            regions=[body],
        )
        self._insert(new, stage)
        self.tensors.update(zip(targets, new.results, strict=True))

    def _held(self, buffer: SSAValue, before: Operation) -> SSAValue:
        """Returns the tensor that a buffer holds."""
        if buffer not in self.tensors and isinstance(buffer.type, MemRefType):
            empty = tensor.EmptyOp([], _tensor_type(buffer))
            self._insert(empty, before)
            self.tensors[buffer] = empty.tensor
        return self.tensors.get(buffer, buffer)

    def _insert(self, op: Operation, before: Operation) -> None:
        set_location(op, before.location)
        self.block.insert_op_before(op, before)


def _targets(op: Operation) -> tuple[SSAValue, ...]:
    """Returns the buffers that an op writes."""
    if isinstance(op, GenericOp):
        return tuple(op.outputs)
    return (op.destination,) if isinstance(op, memref.CopyOp) else ()


def _tensor_type(buffer: SSAValue) -> TensorType[Attribute]:
    kind = cast(Buffer, buffer.type)
    return TensorType(kind.get_element_type(), kind.get_shape())
