"""The pass `lower-tg-to-buf`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func, memref
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, LocationAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects import buf
from tensorgrad.dialects.buf import buffer_type, element_bytes, pack_of
from tensorgrad.dialects.buf import element_of as buffer_element
from tensorgrad.dialects.buf import shape_of as buffer_shape
from tensorgrad.dialects.functions import defined_functions
from tensorgrad.dialects.signature import Role, Slot, arguments_of, results_of
from tensorgrad.dialects.tg.base import Tensor, TensorOp, dense, ints, numpy_dtype, size_of, splat_value
from tensorgrad.dialects.tg.build import element_of, shape_of
from tensorgrad.dialects.tg.call import CallOp
from tensorgrad.dialects.tg.elementwise.arithmetic import CastOp
from tensorgrad.dialects.tg.leaves import ConstantOp
from tensorgrad.dialects.tg.shape import PACK_ALIGNMENT, ConcatOp, PackOp, PadOp, ReshapeOp, SliceOp
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.buffers.lower_tg_to_buf.kernels import (
    KernelSpec,
    accumulates_half,
    alloc,
    in_full,
    make_kernel,
    rounded,
)
from tensorgrad.passes.buffers.lower_tg_to_buf.outline import Outlining, has_control, loops_of
from tensorgrad.passes.buffers.lower_tg_to_buf.registry import Emit
from tensorgrad.passes.buffers.lower_tg_to_buf.rules import MEMORY_OPERANDS, RULES, SEQUENCES, VIEWS
from tensorgrad.passes.buffers.lower_tg_to_buf.rules.attention import lower_attention, read_narrow
from tensorgrad.passes.buffers.lower_tg_to_buf.scalars import storage, typed
from tensorgrad.passes.buffers.lower_tg_to_buf.views import Lowered, Splat, View, through
from tensorgrad.passes.functions import block_of, return_of, set_returned, set_signature
from tensorgrad.passes.levels import TENSORS, LevelPass
from tensorgrad.runtime.target import WEBGPU_DEFAULT, Target


@dataclass(frozen=True)
class LowerTgToBufPass(LevelPass):
    """Lowers every `tg` function to kernels over memrefs, one kernel per op.

    Expects functions of one block of `tg` ops that ends in `func.return`; the only calls are composite. Guarantees that
    every buffer has exactly one writer.

    - Arguments become memrefs. Results become further memref arguments, which the function writes (roles `output`,
      `gradient`, `update`). Constants become arguments with role `constant`, except splats, which kernels contain.
    - Reshapes, transposes, broadcasts, slices and reversals become index maps and dispatch nothing, nor does an op
      without elements.
    - Packed tensors become a `buf.pack`, as do updates that are slices of one pack.
    - A composite attention becomes one kernel, its derivative two; a collective becomes one. Attention reads operands
      that were extended from 16 bits as they were, and native code stores its result as what it is rounded to.
    - A function with loops or branches calls private functions by `buf.run` and `buf.choose`: one for each sequence of
      ops between them, and one for each region. A loop's initial values get their own buffers.
    - Sorts, and scatters that sort, become kernels that `cut-grids` can divide if one kernel can't bind their buffers.

    Attributes:
        target: The target, whose limits on bindings decide whether sorts are divided.
    """

    name = "lower-tg-to-buf"
    levels = TENSORS

    target: Target = WEBGPU_DEFAULT

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            block_of(function)
            if has_control(function):
                Outlining(op, function, lambda part: _Lowering(part, self.target).run()).run()
            else:
                _Lowering(function, self.target).run()


def _is_whole(value: SSAValue, view: View) -> bool:
    """Returns whether a tensor is a whole buffer, in the same order."""
    return affine.is_identity(view.map) and shape_of(value) == buffer_shape(view.buffer)


def _is_stored_in(lowered: Lowered, element: Attribute) -> bool:
    """Returns whether a tensor is stored with these elements, as an attention stores what is then rounded to them."""
    return isinstance(lowered, View) and buffer_element(lowered.buffer) == element


def _part(value: SSAValue) -> tuple[SSAValue, int] | None:
    """Returns the one-dimensional tensor that a tensor is a slice of, and the slice's start; else `None`."""
    owner = value.owner.operand.owner if isinstance(value.owner, ReshapeOp) else value.owner
    if not isinstance(owner, SliceOp) or len(shape_of(owner.operand)) != 1:
        return None
    return (owner.operand, owner.start.get_values()[0]) if owner.properties["step"] == ints([1]) else None


def _are_parts(parts: Sequence[tuple[int, int]], sizes: Sequence[int], pack: SSAValue) -> bool:
    """Returns whether the parts of a pack are disjoint and start at offsets that any device can bind."""
    end, bytes_each = 0, element_bytes(buffer_element(pack))
    for number, offset in sorted(parts, key=lambda part: part[1]):
        if offset < end or offset * bytes_each % PACK_ALIGNMENT:
            return False
        end = offset + sizes[number]
    return True


class _Lowering:
    """Rebuilds one function's block."""

    def __init__(self, function: FuncOp, target: Target):
        self.function = function
        self.target = target
        self.block: Block = block_of(function)
        self.arguments = arguments_of(function)
        self.results = results_of(function)
        self.lowered: dict[SSAValue, Lowered] = {}
        self.constants: dict[Attribute, SSAValue] = {}
        """The buffer of each constant."""
        self.shared: dict[Hashable, tuple[View, View]] = {}
        """The views that several ops of the function read, by what they were made from."""
        self.new_ops: dict[Operation, Operation] = {}
        """The ops of the new block in order of creation, each mapped to itself or to its replacement."""
        self.views_of: dict[SSAValue, list[SSAValue]] = {}
        """The tensors that are views of each buffer, collected once all ops have been lowered."""

    def run(self) -> None:
        """Lowers the function in place."""
        read_narrow(self.block)
        old, originals = list(self.block.ops), list(self.block.args)
        self.originals = originals
        returned = return_of(self.function)
        values = list(returned.operands)
        self.arguments = [typed(slot, a.type) for slot, a in zip(self.arguments, originals, strict=True)]
        results = [typed(slot, value.type) for slot, value in zip(self.results, values, strict=True)]
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
            elif isinstance(op, CallOp) and op.composite is not None:
                views = [self._in_memory(operand, self.lowered[operand], op) for operand in op.operands]
                self.lowered.update(lower_attention(op, views, self._add, self.target.native))
            elif op is not returned:
                raise DiagnosticException(f"lower-tg-to-buf expects tg ops, got {op.name}")
        for value, lowered in self.lowered.items():
            if isinstance(lowered, View):
                self.views_of.setdefault(lowered.buffer, []).append(value)
        packs = self._packs(values, results)
        written = {number for parts in packs.values() for number, _ in parts}
        result_arguments = [self._result_argument(value, returned) for value in values]
        for number, value in enumerate(values):
            if number not in written:
                self._write_result(value, result_arguments[number])
        for pack, parts in packs.items():
            self._write_pack(pack, [(result_arguments[number], offset) for number, offset in parts])
        set_returned(self.function, [])
        for op in reversed(old):
            if op is not returned:
                Rewriter.erase_op(op)
        for argument in reversed(originals):
            self.block.erase_arg(argument)
        new_return = return_of(self.function)
        self.block.insert_ops_before(list(self.new_ops.values()), new_return)
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
            return through(operands[0], VIEWS[type(op)](op), op.shape)
        if isinstance(op, PackOp):
            return self._packed(op, operands)
        if isinstance(op, CastOp) and element_of(op.operand) != element and _is_stored_in(operands[0], element):
            return operands[0]
        if not isinstance(op, ConcatOp) and any(0 in shape_of(operand) for operand in op.operands):
            return self._without_elements(op, operands)
        for position in MEMORY_OPERANDS.get(type(op), ()):
            operands[position] = self._in_memory(op.operands[position], operands[position], op)
        several = SEQUENCES.get(type(op))
        if several is not None:
            return several(op, operands, self._emitting(op))
        rule = RULES.get(type(op))
        if rule is None:
            raise DiagnosticException(f"{op.name} has no lowering to buf")
        return self._emit(rule(op, operands), op)

    def _without_elements(self, op: TensorOp, operands: list[Lowered]) -> Lowered:
        """Lowers an op whose operands have no elements to a splat: the padding, or the value of the op's semantics."""
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
        return self._constant_buffer(cast("DenseIntOrFPElementsAttr[Any]", op.value), op.location)

    def _constant_buffer(self, value: DenseIntOrFPElementsAttr[Any], location: LocationAttr) -> View:
        """Returns a whole buffer that holds a constant: an argument, which equal constants share."""
        kind = cast(Tensor, value.type)
        buffer = self.constants.get(value)
        if buffer is None:
            buffer = self.block.insert_arg(
                buffer_type(kind.get_shape(), storage(kind.element_type)), len(self.block.args)
            )
            buffer.location = location
            index = sum(1 for slot in self.arguments if slot.role == Role.CONSTANT)
            slot = Slot(f"constant{index}", Role.CONSTANT, value=value)
            self.arguments.append(typed(slot, kind))
            self.constants[value] = buffer
        return View(buffer, affine.identity(len(kind.get_shape())))

    def _emit(self, spec: KernelSpec, op: TensorOp | CallOp) -> View:
        """Appends a kernel. A sum or product of f16 is accumulated in f32, and a second kernel rounds it."""
        if accumulates_half(spec):
            return self._append(rounded(self._append(in_full(spec), op), spec), op)
        return self._append(spec, op)

    def _emitting(self, op: TensorOp) -> Emit:
        return Emit(
            lambda spec: self._emit(spec, op),
            self._add,
            lambda array: self._constant_buffer(dense(array), op.location),
            self.shared,
            self.target,
            loops_of(self.function),
        )

    def _add(self, op: Operation) -> None:
        self.new_ops[op] = op

    def _append(self, spec: KernelSpec, op: TensorOp | CallOp) -> View:
        buffer = alloc(spec.written, spec.result, op.location)
        buffer.memref.name_hint = op.results[0].name_hint
        self._add(buffer)
        self._add(make_kernel(spec, buffer.memref))
        return View(buffer.memref, affine.identity(len(spec.written)))

    def _in_memory(self, value: SSAValue, lowered: Lowered, op: TensorOp | CallOp) -> View:
        """Returns a view of the operand in memory; a splat is materialized."""
        return lowered if isinstance(lowered, View) else self._emit(self._copy(value, lowered), op)

    def _copy(self, value: SSAValue, lowered: Lowered) -> KernelSpec:
        return KernelSpec(
            grid=shape_of(value),
            reads=[lowered],
            result=storage(element_of(value)),
            compute=lambda b, args: args[0],
            location=self.function.location,
        )

    def _packed(self, op: PackOp, operands: Sequence[Lowered]) -> View:
        """Packs the buffers of the operands into a pack; an operand that is not a buffer of its own is copied."""
        parts: list[SSAValue] = []
        offsets: list[int] = []
        for value, lowered, offset in zip(op.parts, operands, op.offsets.get_values(), strict=True):
            if 0 in shape_of(value):
                continue
            buffer = lowered.buffer if isinstance(lowered, View) and _is_whole(value, lowered) else None
            if buffer is None or not self._can_be_packed(buffer) or pack_of(buffer) or buffer in parts:
                buffer = self._emit(self._copy(value, lowered), op).buffer
            parts.append(buffer)
            offsets.append(offset)
        return View(self._pack(parts, offsets, op.shape[0], op), affine.identity(1))

    def _can_be_packed(self, buffer: SSAValue) -> bool:
        """Returns whether a buffer may be placed in a pack: inputs, outputs and constants may not."""
        if not isinstance(buffer, BlockArgument):
            return isinstance(buffer.owner, memref.AllocOp)
        return self.arguments[buffer.index - len(self.originals)].role in (Role.PARAMETER, Role.STATE)

    def _pack(self, parts: Sequence[SSAValue], offsets: Sequence[int], size: int, op: Operation) -> SSAValue:
        pack = buf.PackOp.of(parts, offsets, size)
        pack.location = op.location
        self._add(pack)
        return pack.result

    def _packs(self, values: Sequence[SSAValue], results: Sequence[Slot]) -> dict[SSAValue, list[tuple[int, int]]]:
        """Returns the buffers that are packs of updates, each with the numbers of the results and their offsets."""
        packs: dict[SSAValue, list[tuple[int, int]]] = {}
        for number, (value, slot) in enumerate(zip(values, results, strict=True)):
            place = _part(value) if slot.role == Role.UPDATE and 0 not in shape_of(value) else None
            if place is None:
                continue
            pack, offset = self.lowered[place[0]], place[1]
            if isinstance(pack, View) and _is_whole(place[0], pack) and isinstance(pack.buffer.owner, memref.AllocOp):
                packs.setdefault(pack.buffer, []).append((number, offset))
        return {
            pack: parts
            for pack, parts in packs.items()
            if pack_of(pack) is None and _are_parts(parts, [size_of(shape_of(value)) for value in values], pack)
        }

    def _write_pack(self, pack: SSAValue, parts: Sequence[tuple[SSAValue, int]]) -> None:
        """Redirects the producer of a pack to the output arguments that are its parts."""
        owner = cast(memref.AllocOp, pack.owner)
        ordered = sorted(parts, key=lambda part: part[1])
        new = buf.PackOp.of([value for value, _ in ordered], [offset for _, offset in ordered], buffer_shape(pack)[0])
        new.location = owner.location
        self.new_ops[owner] = new
        pack.replace_all_uses_with(new.result)
        owner.erase()

    def _result_argument(self, value: SSAValue, returned: func.ReturnOp) -> SSAValue:
        """Appends the output argument for a result."""
        kind = buffer_type(shape_of(value), storage(element_of(value)))
        argument = self.block.insert_arg(kind, len(self.block.args))
        argument.location, argument.name_hint = returned.location, value.name_hint
        return argument

    def _write_result(self, value: SSAValue, argument: SSAValue) -> None:
        """Redirects a result's producer to its output argument, or copies the result there."""
        lowered = self.lowered[value]
        if 0 in shape_of(value):
            return
        owner = lowered.buffer.owner if isinstance(lowered, View) and _is_whole(value, lowered) else None
        if isinstance(lowered, View) and isinstance(owner, memref.AllocOp) and pack_of(lowered.buffer) is None:
            lowered.buffer.replace_all_uses_with(argument)
            del self.new_ops[owner]
            for other in self.views_of.pop(lowered.buffer):
                self.lowered[other] = View(argument, cast(View, self.lowered[other]).map)
            owner.erase()
        else:
            self._add(make_kernel(self._copy(value, lowered), argument))

    def _erase_unused_constants(self) -> None:
        slots = arguments_of(self.function)
        unused = [
            argument
            for argument, slot in zip(self.block.args, slots, strict=True)
            if slot.role == Role.CONSTANT and not argument.uses
        ]
        keep = [slot for argument, slot in zip(self.block.args, slots, strict=True) if argument not in unused]
        for argument in reversed(unused):
            self.block.erase_arg(argument)
        if unused:
            set_signature(self.function, keep, [])
