"""Builds a `Program` from a lowered module."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
from xdsl.dialects import func, llvm, memref
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    VectorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects import wgsl
from tensorgrad.dialects.buf import (
    ArenaOp,
    DispatchOp,
    KernelOp,
    ViewOp,
    buffer_bytes,
    element_bytes,
    element_of,
    shape_of,
)
from tensorgrad.dialects.buf_control import RepeatOp, RowOp, view_of
from tensorgrad.dialects.collective import CollectiveOp
from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.signature import Role, Slot, read_slot
from tensorgrad.dialects.tg.base import dense_to_numpy
from tensorgrad.passes.analyses.blocks import rounded_up
from tensorgrad.passes.analyses.traffic import BYTES_MOVED, FLOPS
from tensorgrad.passes.analyses.trips import kernel_iterations
from tensorgrad.passes.codegen.llvm.convert_to_llvm import ACCESS, SCRATCH
from tensorgrad.passes.codegen.llvm.emit_llvm import emit_function
from tensorgrad.passes.codegen.wgsl.emit_wgsl import emit_kernel
from tensorgrad.passes.labels import label_of, working_folder
from tensorgrad.runtime.program import (
    DISPATCH_COSTS,
    LOOP_ITERATIONS,
    WIDENED,
    Binding,
    Buffer,
    Collective,
    Copy,
    Dispatch,
    Exchange,
    Kernel,
    Program,
    Repeat,
    Step,
    TensorSlot,
    Wait,
    requirements,
)
from tensorgrad.runtime.target import Target


def build_program(
    module: ModuleOp, target: Target, name: str | None = None, kernels: Mapping[str, Kernel] | None = None
) -> Program:
    """Returns the program for a function of a module, as plain data.

    Args:
        module: Kernels of `wgsl`, or of `llvm` for a native target, and a function of arenas, views, dispatches and
            copies.
        target: What the program is compiled for.
        name: The function's name; optional if there is only one.
        kernels: Kernels that have already been emitted, by name.

    Raises:
        DiagnosticException: The module is not at this level.
    """
    return _Builder(module, target, name, kernels or {}).build()


def native_kernel(function: llvm.FuncOp) -> Kernel:
    """Returns a native kernel as plain data."""
    scratch = cast("IntegerAttr[Any]", function.attributes[SCRATCH]).value.data
    return Kernel("llvm", function.sym_name.data, emit_function(function), (1, 1, 1), scratch)


class _Builder:
    """Accumulates the parts of a program."""

    def __init__(self, module: ModuleOp, target: Target, name: str | None, written: Mapping[str, Kernel]):
        self.written = written
        self.function: FuncOp = find_function(module, name)
        self.target = target
        self.kernel_ops = {op.sym_name.data: op for op in module.ops if isinstance(op, wgsl.KernelOp | llvm.FuncOp)}
        self.kernels: list[Kernel] = []
        self.kernel_index: dict[str, int] = {}
        self.buffers: list[Buffer] = []
        self.arena_index: dict[SSAValue, int] = {}
        self.tensors: list[TensorSlot] = []
        self.data: dict[int, bytearray] = {}
        self.bytes_moved = 0
        self.costs: list[list[int]] = []
        self.here = working_folder()
        self.iterations = 0
        self.requests: dict[SSAValue, int] = {}

    def build(self) -> Program:
        """Returns the program."""
        plan = self._steps(self.function.body.block, ())
        buffers = [
            Buffer(b.name, b.size, b.role, bytes(self.data[i]) if i in self.data else None)
            for i, b in enumerate(self.buffers)
        ]
        statistics = {
            key.removeprefix("buf."): cast("IntegerAttr[Any]", value).value.data
            for key, value in self.function.attributes.items()
            if isinstance(value, IntegerAttr)
        }
        program = Program(
            name=self.function.sym_name.data,
            kernels=tuple(self.kernels),
            buffers=tuple(buffers),
            tensors=tuple(self.tensors),
            plan=plan,
            statistics={
                **statistics,
                "bytes_moved": self.bytes_moved,
                LOOP_ITERATIONS: self.iterations,
                DISPATCH_COSTS: self.costs,
            },
        )
        program = replace(program, target=requirements(program, self.target))
        program.validate()
        return program

    def _steps(self, block: Block, loops: tuple[RepeatOp, ...]) -> tuple[Step, ...]:
        """Returns the steps of a block nested in `loops`."""
        steps: list[Step] = []
        for op in block.ops:
            if isinstance(op, ArenaOp):
                self._arena(op)
            elif isinstance(op, ViewOp):
                self._name(op)
            elif isinstance(op, DispatchOp):
                steps.append(self._dispatch(op, loops))
            elif isinstance(op, memref.CopyOp):
                steps.append(self._copy(op))
            elif isinstance(op, KernelOp) and op.collective is not None:
                steps.append(self._exchange(op, op.collective))
            elif isinstance(op, RepeatOp):
                steps.append(Repeat(op.times, self._steps(op.body.block, (*loops, op))))
            elif not isinstance(op, RowOp | func.ReturnOp):
                raise DiagnosticException(f"build_program expects dispatches and storage, got {op.name}")
        return tuple(steps)

    def _arena(self, op: ArenaOp) -> None:
        index = self.arena_index[op.result] = len(self.buffers)
        if op.role.data == Role.COUNTER:
            self.buffers.append(Buffer(op.label.data, op.size, Role.CONSTANT))
            self.data[index] = self._counter(op.size)
        else:
            self.buffers.append(Buffer(op.label.data, op.size, op.role.data))

    def _counter(self, size: int) -> bytearray:
        """Returns the integers from 0 up, each at an offset aligned for a binding."""
        words = self.target.min_storage_buffer_offset_alignment // 4
        numbers = np.zeros((size // 4 // words, words), np.uint32)
        numbers[:, 0] = np.arange(len(numbers))
        return bytearray(numbers.tobytes())

    def _name(self, op: ViewOp) -> None:
        if "tg.name" not in op.attributes:
            return
        slot = read_slot(op.attributes)
        index = self.arena_index[op.arena]
        if slot.role == Role.CONSTANT:
            size = self.buffers[index].size
            self._fill(self.data.setdefault(index, bytearray(size)), op, slot)
            return
        role = Role.OUTPUT if slot.role == Role.GRADIENT else slot.role
        element = element_of(op.result)
        dtype = slot.dtype or DTYPES.get(element)
        if dtype is None or (dtype == "f64" and not self.target.native):
            raise DiagnosticException(
                f"{slot.role} {slot.name!r} is {op.result.type}: devices have no such element type"
            )
        name = slot.name if slot.role != Role.GRADIENT else f"gradient/{slot.name}"
        stored = WIDENED.get(dtype) if element in (i32, f32) else None
        self.tensors.append(TensorSlot(name, role, shape_of(op.result), dtype, index, op.start, slot.formula, stored))

    def _fill(self, data: bytearray, op: ViewOp, slot: Slot) -> None:
        array = dense_to_numpy(cast("DenseIntOrFPElementsAttr[Any]", slot.value))
        raw = (array.astype("uint32") if array.dtype == bool else array).tobytes()
        data[op.start : op.start + len(raw)] = raw

    def _dispatch(self, op: DispatchOp, loops: tuple[RepeatOp, ...]) -> Dispatch:
        name = op.kernel.root_reference.data
        kernel = self.kernel_ops[name]
        if name not in self.kernel_index:
            self.kernel_index[name] = len(self.kernels)
            self.kernels.append(self._kernel(kernel))
        bindings = [
            self._binding(value, access, loops) for value, access in zip(op.bindings, _access(kernel), strict=True)
        ]
        moved, computed = (_count(op, name) for name in (BYTES_MOVED, FLOPS))
        self.bytes_moved += math.prod(loop.times for loop in loops) * moved
        self.costs.append([moved, computed])
        indirect = None
        if op.arguments is not None:
            view = cast(ViewOp, op.arguments.owner)
            indirect = (self.arena_index[view.arena], view.start)
        return Dispatch(self.kernel_index[name], tuple(bindings), op.groups, label_of(op.location, self.here), indirect)

    def _kernel(self, kernel: wgsl.KernelOp | llvm.FuncOp) -> Kernel:
        if isinstance(kernel, wgsl.KernelOp):
            return self._shader(kernel)
        return self.written.get(kernel.sym_name.data) or native_kernel(kernel)

    def _shader(self, kernel: wgsl.KernelOp) -> Kernel:
        x, y, z = kernel.workgroup_size.get_values()
        self.iterations = max(self.iterations, kernel_iterations(kernel))
        code = emit_kernel(kernel, self.target)
        return Kernel("wgsl", kernel.sym_name.data, code, (x, y, z), _workgroup_storage(kernel))

    def _binding(self, value: SSAValue, access: str, loops: tuple[RepeatOp, ...]) -> Binding:
        """Returns a binding; one to a row has a byte stride for each enclosing loop."""
        row = value.owner if isinstance(value.owner, RowOp) else None
        view = view_of(value)
        size = rounded_up(buffer_bytes(cast("MemRefType[Attribute]", value.type)), 4)
        if row is None:
            return Binding(self.arena_index[view.arena], view.start, size, access)
        width = element_bytes(element_of(value))
        zero = [0] * len(row.indices)
        start = view.start + width * row.start(zero)
        strides: list[int] = []
        for loop in loops:
            unit = [int(index is loop.iteration) for index in row.indices]
            strides.append(width * (row.start(unit) - row.start(zero)))
        return Binding(self.arena_index[view.arena], start, size, access, tuple(strides))

    def _exchange(self, kernel: KernelOp, op: CollectiveOp) -> Collective | Wait:
        """Returns the step that runs a collective, starts it, or waits for its completion."""
        if op.is_wait:
            self.costs.append([0, 0])
            return Wait(self.requests[kernel.inputs[-1]])
        request = None
        last = kernel
        if op.is_start:
            request = self.requests[kernel.outputs[0]] = len(self.requests)
            last = _wait_for(kernel)
        element = element_of(kernel.inputs[0])
        moved = 0
        parts: list[Exchange] = []
        for input_, output in zip(kernel.inputs, last.outputs, strict=True):
            source, result = self._whole(input_), self._whole(output)
            places = (self.arena_index[source.arena], source.start), (self.arena_index[result.arena], result.start)
            counts = math.prod(shape_of(input_)), math.prod(shape_of(output))
            parts.append(Exchange(*places[0], counts[0], *places[1], counts[1]))
            moved += source.size + result.size
        self.bytes_moved += moved
        self.costs.append([moved, 0])
        return Collective(
            op.kind.data,
            op.combiner,
            op.rank_of_root,
            op.size,
            f"u{8 * element_bytes(element)}" if op.is_unsigned else DTYPES[element],
            tuple(parts),
            label_of(kernel.location, self.here),
            request,
        )

    def _whole(self, value: SSAValue) -> ViewOp:
        """Returns the view that defines a collective's operand."""
        if not isinstance(value.owner, ViewOp):
            raise DiagnosticException(
                f"a collective takes a whole buffer, not a slice that depends on an induction variable: {value.type}"
            )
        return value.owner

    def _copy(self, op: memref.CopyOp) -> Copy:
        source, target = cast(ViewOp, op.source.owner), cast(ViewOp, op.destination.owner)
        size = rounded_up(source.size, 4)
        self.bytes_moved += 2 * size
        self.costs.append([2 * size, 0])
        return Copy(self.arena_index[source.arena], source.start, self.arena_index[target.arena], target.start, size)


DTYPES: dict[Attribute, str] = {
    bf16: "bf16",
    f32: "f32",
    f16: "f16",
    f64: "f64",
    i8: "i8",
    i16: "i16",
    i32: "i32",
    i64: "i64",
    i1: "bool",
}


def _wait_for(start: KernelOp) -> KernelOp:
    """Returns the kernel that waits for an exchange to complete."""
    users = (use.operation for use in start.outputs[0].uses if use.operation is not start)
    result = next((user for user in users if isinstance(user, KernelOp)), None)
    if result is None:
        raise DiagnosticException(f"the exchange that starts at {line_of(start.location)} is never waited for")
    return result


def _count(op: DispatchOp, name: str) -> int:
    attribute = op.attributes.get(name)
    return cast("IntegerAttr[Any]", attribute).value.data if isinstance(attribute, IntegerAttr) else 0


def _access(kernel: wgsl.KernelOp | llvm.FuncOp) -> list[str]:
    """Returns the access mode of each of a kernel's bindings."""
    modes = kernel.access if isinstance(kernel, wgsl.KernelOp) else kernel.attributes[ACCESS]
    return [mode.data for mode in cast("ArrayAttr[StringAttr]", modes)]


def _workgroup_storage(kernel: wgsl.KernelOp) -> int:
    """Returns the size in bytes of a kernel's workgroup memory."""
    shared = (op.memref.type for op in kernel.walk() if isinstance(op, wgsl.WorkgroupAllocOp))
    return sum(_shared_bytes(kind) for kind in shared)


def _shared_bytes(kind: MemRefType[Attribute]) -> int:
    element = kind.element_type
    if isinstance(element, VectorType):
        vector = cast("VectorType[Attribute]", element)
        return kind.element_count() * vector.element_count() * element_bytes(vector.element_type)
    return buffer_bytes(kind)
