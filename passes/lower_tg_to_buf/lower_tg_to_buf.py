"""The pass `lower-tg-to-buf`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func, memref
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects import affine
from tensorgrad.dialects.buf import buffer_type
from tensorgrad.dialects.buf import shape_of as buffer_shape
from tensorgrad.dialects.signature import Slot, arguments_of, results_of
from tensorgrad.dialects.tg.base import Tensor, TensorOp, numpy_dtype, splat_value, ui32
from tensorgrad.dialects.tg.build import element_of, shape_of
from tensorgrad.dialects.tg.leaves import ConstantOp
from tensorgrad.dialects.tg.shape import ConcatOp, PadOp
from tensorgrad.passes.functions import block_of, return_of, set_returned, set_signature
from tensorgrad.passes.lower_tg_to_buf.kernels import KernelSpec, accumulates_half, alloc, in_full, make_kernel, rounded
from tensorgrad.passes.lower_tg_to_buf.outline import Outlining, has_control
from tensorgrad.passes.lower_tg_to_buf.rules import MEMORY_OPERANDS, RULES
from tensorgrad.passes.lower_tg_to_buf.rules_sort import SEQUENCES
from tensorgrad.passes.lower_tg_to_buf.scalars import storage
from tensorgrad.passes.lower_tg_to_buf.views import VIEWS, Lowered, Splat, View, viewed


@dataclass(frozen=True)
class LowerTgToBufPass(ModulePass):
    """Lowers every `tg` function to kernels over memrefs, one kernel an op.

    Expects functions of one block of `tg` ops that end in `func.return`. Guarantees: arguments become memrefs; results
    become further memref arguments, which the function writes (roles `output`, `gradient`, `update`); constants that
    are not the same number everywhere become arguments with role `constant`; nothing is returned. Every buffer has
    exactly one writer. Reshapes, transposes, broadcasts, slices and reversals are index maps and dispatch nothing, nor
    does an op without elements.

    A function with loops or branches becomes one that calls private functions, by `buf.run` and `buf.choose`: the ops
    between them, and the regions. What a loop begins with lies in a buffer of its own.
    """

    name = "lower-tg-to-buf"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in list(op.ops):
            if not isinstance(function, FuncOp) or not function.body.blocks:
                continue
            block_of(function)
            if has_control(function):
                Outlining(op, function, lambda part: _Lowering(part).run()).run()
            else:
                _Lowering(function).run()


def _with_dtype(slot: Slot, value: SSAValue) -> Slot:
    """Says of unsigned tensors that they are: buffers are signless."""
    return replace(slot, dtype="u32") if element_of(value) == ui32 else slot


class _Lowering:
    """Rebuilds one function's block."""

    def __init__(self, function: FuncOp):
        self.function = function
        self.block: Block = block_of(function)
        self.arguments = arguments_of(function)
        self.results = results_of(function)
        self.lowered: dict[SSAValue, Lowered] = {}
        self.made: list[Operation] = []

    def run(self) -> None:
        """Lowers the function in place."""
        old, originals = list(self.block.ops), list(self.block.args)
        returned = return_of(self.function)
        values = list(returned.operands)
        self.arguments = [_with_dtype(slot, a) for slot, a in zip(self.arguments, originals, strict=True)]
        results = [_with_dtype(slot, value) for slot, value in zip(self.results, values, strict=True)]
        for argument in originals:
            kind = cast(Tensor, argument.type)
            buffer = self.block.insert_arg(
                buffer_type(kind.get_shape(), storage(element_of(argument))), len(self.block.args)
            )
            buffer.location, buffer.name_hint = argument.location, argument.name_hint
            self.lowered[argument] = View(buffer, affine.identity(len(kind.get_shape())))
        for op in old:
            if isinstance(op, TensorOp):
                self.lowered[op.results[0]] = self._lower(op)
            elif op is not returned:
                raise DiagnosticException(f"lower-tg-to-buf expects tg ops, not {op.name}")
        for value in values:
            self._write_result(value, returned)
        set_returned(self.function, [])
        for op in reversed(old):
            if op is not returned:
                op.detach()
                op.erase()
        for argument in originals:
            self.block.erase_arg(argument)
        new_return = return_of(self.function)
        for op in self.made:
            self.block.insert_op_before(op, new_return)
        set_signature(self.function, [*self.arguments, *results], [])
        self._erase_unused_constants()

    def _lower(self, op: TensorOp) -> Lowered:
        element = storage(element_of(op.results[0]))
        if isinstance(op, ConstantOp):
            return self._constant(op)
        if 0 in op.shape:
            return Splat(0, element)
        operands = [self.lowered[operand] for operand in op.operands]
        if type(op) in VIEWS:
            return viewed(op, operands[0])
        if not isinstance(op, ConcatOp) and any(0 in shape_of(operand) for operand in op.operands):
            return self._without_elements(op, operands)
        for position in MEMORY_OPERANDS.get(type(op), ()):
            operands[position] = self._in_memory(op.operands[position], operands[position], op)
        several = SEQUENCES.get(type(op))
        if several is not None:
            return several(op, operands, lambda spec: self._emit(spec, op))
        rule = RULES.get(type(op))
        if rule is None:
            raise DiagnosticException(f"{op.name} has no lowering to buf")
        return self._emit(rule(op, operands), op)

    def _without_elements(self, op: TensorOp, operands: list[Lowered]) -> Lowered:
        """An op over no elements gives one value everywhere: the padding, or what the reference gives."""
        if isinstance(op, PadOp):
            value = operands[1]
            return value.through(AffineMap(len(op.shape), 0, ()), op.shape) if isinstance(value, View) else value
        arrays = [np.zeros(shape_of(operand), numpy_dtype(operand.type)) for operand in op.operands]
        return Splat(op.evaluate(*arrays).reshape(-1)[0].item(), storage(element_of(op.results[0])))

    def _constant(self, op: ConstantOp) -> Lowered:
        element = storage(element_of(op.results[0]))
        number = splat_value(op.results[0])
        if number is not None or 0 in op.shape:
            return Splat(0 if number is None else number, element)
        buffer = self.block.insert_arg(buffer_type(op.shape, element), len(self.block.args))
        buffer.location = op.location
        value = cast("DenseIntOrFPElementsAttr[Any]", op.value)
        index = sum(1 for slot in self.arguments if slot.role == "constant")
        self.arguments.append(_with_dtype(Slot(f"constant{index}", "constant", value=value), op.results[0]))
        return View(buffer, affine.identity(len(op.shape)))

    def _emit(self, spec: KernelSpec, op: TensorOp) -> View:
        """Appends a kernel; one that accumulates f16 does so in f32, and another rounds."""
        if accumulates_half(spec):
            return self._append(rounded(self._append(in_full(spec), op), spec), op)
        return self._append(spec, op)

    def _append(self, spec: KernelSpec, op: TensorOp) -> View:
        buffer = alloc(spec.grid, spec.result, op.location)
        buffer.memref.name_hint = op.results[0].name_hint
        self.made += [buffer, make_kernel(spec, buffer.memref)]
        return View(buffer.memref, affine.identity(len(spec.grid)))

    def _in_memory(self, value: SSAValue, lowered: Lowered, op: TensorOp) -> View:
        """A view as it is; a number everywhere is written out, for a kernel to load from."""
        return lowered if isinstance(lowered, View) else self._emit(self._copy(value, lowered), op)

    def _copy(self, value: SSAValue, lowered: Lowered) -> KernelSpec:
        return KernelSpec(
            grid=shape_of(value),
            reads=[lowered],
            result=storage(element_of(value)),
            compute=lambda b, args: args[0],
            location=self.function.location,
        )

    def _write_result(self, value: SSAValue, returned: func.ReturnOp) -> None:
        """Makes a result an argument, and whoever computes it write that."""
        lowered = self.lowered[value]
        shape = shape_of(value)
        argument = self.block.insert_arg(buffer_type(shape, storage(element_of(value))), len(self.block.args))
        argument.location, argument.name_hint = returned.location, value.name_hint
        if 0 in shape:
            return
        whole = isinstance(lowered, View) and affine.is_identity(lowered.map) and shape == buffer_shape(lowered.buffer)
        owner = lowered.buffer.owner if isinstance(lowered, View) else None
        if isinstance(lowered, View) and isinstance(owner, memref.AllocOp) and whole:
            lowered.buffer.replace_all_uses_with(argument)
            self.made.remove(owner)
            self._forget(lowered.buffer, argument)
            owner.erase()
        else:
            self.made.append(make_kernel(self._copy(value, lowered), argument))

    def _forget(self, old: SSAValue, new: SSAValue) -> None:
        for key, lowered in self.lowered.items():
            if isinstance(lowered, View) and lowered.buffer is old:
                self.lowered[key] = View(new, lowered.map)

    def _erase_unused_constants(self) -> None:
        slots = arguments_of(self.function)
        unused = [
            argument
            for argument, slot in zip(self.block.args, slots, strict=True)
            if slot.role == "constant" and not argument.uses
        ]
        keep = [slot for argument, slot in zip(self.block.args, slots, strict=True) if argument not in unused]
        for argument in unused:
            self.block.erase_arg(argument)
        if unused:
            set_signature(self.function, keep, [])
