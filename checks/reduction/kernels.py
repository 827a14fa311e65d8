"""Edits of modules at the level `buf`, whose ops write buffers instead of returning results."""

from __future__ import annotations

from functools import partial

from xdsl.dialects import memref
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, DenseArrayBase, ModuleOp, i32
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.ops import GenericOp

from tensorgrad.checks.reduction.edits import Change, add_argument, erase, erase_unused, is_present
from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.signature import Role


def expose_allocations(module: ModuleOp) -> list[Change]:
    """Turns allocations into outputs of their function, so that they need no reader."""

    def expose(op: memref.AllocOp) -> None:
        function = op.parent_op()
        if isinstance(function, FuncOp):
            op.memref.replace_all_uses_with(add_argument(function, op.memref.type, Role.OUTPUT))
            erase(op)

    return [partial(expose, op) for op in module.walk() if isinstance(op, memref.AllocOp)]


def write_through(module: ModuleOp) -> list[Change]:
    """Drops a kernel or a stage; its input is written to its output instead."""

    def drop(op: KernelOp | GenericOp) -> None:
        if not is_present(op) or len(op.outputs) != 1:
            return
        (output,) = op.outputs
        for value in op.inputs:
            if value.type == output.type and isinstance(value.owner, memref.AllocOp | memref.AllocaOp):
                value.replace_all_uses_with(output)
                erase(op)
                return

    return [partial(drop, op) for op in module.walk() if isinstance(op, KernelOp | GenericOp)]


def drop_inputs(module: ModuleOp) -> list[Change]:
    """Drops unused inputs of kernels and stages, last to first."""

    def drop(op: KernelOp | GenericOp, place: int) -> None:
        block = op.body.block
        if block.args[place].first_use is not None:
            return
        block.erase_arg(block.args[place])
        value = op.operands[place]
        counts = [len(op.inputs) - 1, len(op.outputs)]
        op.operands = [operand for n, operand in enumerate(op.operands) if n != place]
        op.properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, counts)
        if isinstance(op, GenericOp):
            maps: list[AffineMapAttr] = [indexing_map for n, indexing_map in enumerate(op.indexing_maps) if n != place]
            op.properties["indexing_maps"] = ArrayAttr(maps)
        erase_unused([value])

    ops = [op for op in module.walk() if isinstance(op, KernelOp | GenericOp)]
    return [partial(drop, op, place) for op in reversed(ops) for place in reversed(range(len(op.inputs)))]
