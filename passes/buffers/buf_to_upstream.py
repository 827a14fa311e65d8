"""The pass `buf-to-upstream`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    UnitAttr,
    UnregisteredOp,
    i1,
    i8,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import (
    ArenaOp,
    Buffer,
    KernelOp,
    PackOp,
    ViewOp,
    buffer_bytes,
    buffer_type,
    element_bytes,
    element_of,
    shape_of,
)
from tensorgrad.dialects.buf_control import BranchOp, ChooseOp, RepeatOp, RunOp
from tensorgrad.dialects.functions import defined_functions
from tensorgrad.dialects.signature import Role, arguments_of, read_slot
from tensorgrad.dialects.stages import IDENTITIES, generic, reductions_of
from tensorgrad.dialects.wgsl import RemFOp
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.storage import PACKED
from tensorgrad.passes.buffers.lower_tg_to_buf.kernels import set_location
from tensorgrad.passes.functions import block_of, return_of
from tensorgrad.passes.levels import PLANNED_OR_NOT, LevelPass
from tensorgrad.passes.scalars import ScalarBuilder

LLVM_PIPELINE = (
    "--convert-linalg-to-loops",
    "--lower-affine",
    "--convert-scf-to-cf",
    "--convert-arith-to-llvm",
    "--convert-math-to-llvm",
    "--convert-math-to-libm",
    "--expand-strided-metadata",
    "--lower-affine",
    "--convert-arith-to-llvm",
    "--finalize-memref-to-llvm",
    "--convert-func-to-llvm",
    "--convert-cf-to-llvm",
    "--reconcile-unrealized-casts",
)
"""The options with which `mlir-opt` 19 lowers the pass's result to its `llvm` dialect."""

OWN_ROLES = (Role.WORKSPACE, Role.CONSTANT)
"""The roles of arenas that are private to the function."""

DIALECTS = ("arith", "affine", "builtin", "func", "linalg", "math", "memref", "scf")
"""The dialects of the pass's result."""

_REMAINDER = UnregisteredOp.with_name("arith.remf")
"""An upstream op that xDSL lacks."""


@dataclass(frozen=True)
class BufToUpstreamPass(LevelPass):
    """Rewrites a module of kernels to upstream MLIR dialects only.

    Expects functions of `buf` at any point from `lower-tg-to-buf` to `schedule`. Guarantees a module of upstream
    dialects with the same results: `mlir-opt` verifies it, and `LLVM_PIPELINE` lowers it.

    - A kernel becomes the sequence of its stages. Its locals are allocated before them and freed after them, and a
      shape-only operand becomes a buffer that is never read.
    - A reduction starts from its neutral element, which a separate stage stores first. Where the plan makes the result
      overlap an operand, the stage reduces into a temporary buffer, which is then copied.
    - Function arguments, host scalars included, stay as they are, except constants, which become `memref.global`s.
      After `plan-memory`, the arguments are the function's arenas, in order, as arrays of bytes, except the workspace
      and constants, which the function allocates; a `buf.view` becomes a `memref.view`.
    - `wgsl.remf` becomes `arith.remf`. Names, roles and schedules are dropped.

    Raises:
        DiagnosticException: The module holds tensors, loops or branches of kernels, dispatches or WGSL kernels.
    """

    name = "buf-to-upstream"
    levels = PLANNED_OR_NOT

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            _check(inner)
        for inner in defined_functions(op):
            _Function(op, inner).run()


def _check(op: Operation) -> None:
    """Raises for an op of another level, before anything has been changed."""
    values = (*op.operands, *op.results, *(argument for region in op.regions for argument in _arguments(region)))
    if op.name.startswith("tg.") or any(isinstance(value.type, TensorType) for value in values):
        raise DiagnosticException(f"buf-to-upstream: {op.name} is on tensors; run lower-tg-to-buf first")
    if isinstance(op, PackOp) and not all(isinstance(part.owner, memref.AllocOp) for part in op.parts):
        raise DiagnosticException("buf-to-upstream: arguments of a function are packed; run plan-memory first")
    if isinstance(op, RunOp | ChooseOp | RepeatOp | BranchOp):
        raise DiagnosticException(
            f"buf-to-upstream: {op.name} cannot be translated: loops and branches exist only at buf"
        )
    if op.name.split(".")[0] not in DIALECTS and not isinstance(op, KernelOp | ArenaOp | ViewOp | PackOp | RemFOp):
        raise DiagnosticException(
            f"buf-to-upstream: {op.name} is not a loop over buffers; run this before lower-buf-to-wgsl"
        )


def _arguments(region: Region) -> tuple[SSAValue, ...]:
    return tuple(argument for block in region.blocks for argument in block.args)


class _Function:
    """Rewrites one function in place."""

    def __init__(self, module: ModuleOp, function: FuncOp):
        self.module, self.function = module, function
        self.block = block_of(function)
        self.last = return_of(function)
        self.globals = 0

    def run(self) -> None:
        """Rewrites the function."""
        for row in [op for op in self.block.ops if isinstance(op, PackOp)]:
            self._row(row)
        for op in self.block.ops:
            if isinstance(op, memref.AllocOp):
                self._insert(memref.DeallocOp.get(op.memref), self.last)
        self._constant_arguments()
        for kernel in [op for op in self.block.ops if isinstance(op, KernelOp)]:
            self._kernel(kernel)
        for view in [op for op in self.block.ops if isinstance(op, ViewOp)]:
            self._view(view)
        for arena in [op for op in self.block.ops if isinstance(op, ArenaOp)]:
            self._arena(arena)
        for op in list(self.function.walk()):
            if isinstance(op, RemFOp):
                _replace(op, _REMAINDER.create(operands=op.operands, result_types=[op.results[0].type]))
        for op in self.function.walk():
            if not isinstance(op, UnregisteredOp):
                op.attributes.clear()
        self.function.properties["function_type"] = FunctionType.from_lists(self.block.arg_types, [])
        self.function.properties.pop("arg_attrs", None)

    def _insert(self, op: Operation, before: Operation) -> SSAValue:
        """Inserts an op in front of `before`; returns its result, or its first operand if it has none."""
        set_location(op, before.location)
        self.block.insert_op_before(op, before)
        return op.results[0] if op.results else op.operands[0]

    def _allocated(self, value: SSAValue, before: Operation) -> SSAValue:
        """Allocates a buffer of the shape and element type of `value`."""
        return self._insert(memref.AllocOp.get(element_of(value), 64, shape_of(value)), before)

    def _constant(self, kind: Buffer, value: Attribute, before: Operation) -> SSAValue:
        """Returns a buffer that holds a constant, which is stored in the module."""
        data = cast("DenseIntOrFPElementsAttr[Any]", value).data
        if kind.get_element_type() != i1:
            return self._global(kind, data, before)
        # Upstream parses the hex text of dense i1 attributes as bits, whereas xDSL prints bytes.
        words = BytesAttr(bytes(byte != 0 for byte in data.data))
        held = self._global(buffer_type(kind.get_shape(), i8), words, before)
        result = self._insert(memref.AllocOp.get(i1, 64, kind.get_shape()), before)
        self._insert(memref.DeallocOp.get(result), self.last)
        self._insert(_truths(held, result), before)
        return result

    def _global(self, kind: Buffer, data: BytesAttr, before: Operation) -> SSAValue:
        name = f"{self.function.sym_name.data}_constant{self.globals}"
        self.globals += 1
        dense = DenseIntOrFPElementsAttr(TensorType(cast(Any, kind.get_element_type()), kind.get_shape()), data)
        constant = memref.GlobalOp.get(StringAttr(name), kind, dense, constant=UnitAttr())
        constant.location = self.function.location
        self.module.body.block.insert_op_before(constant, self.function)
        return self._insert(memref.GetGlobalOp(name, kind), before)

    def _constant_arguments(self) -> None:
        first = self.block.first_op
        assert first is not None
        for argument, slot in zip(list(self.block.args), arguments_of(self.function), strict=True):
            if slot.role == Role.CONSTANT and slot.value is not None:
                argument.replace_all_uses_with(self._constant(cast(Buffer, argument.type), slot.value, first))
                self.block.erase_arg(argument)

    def _view(self, view: ViewOp) -> None:
        start = self._insert(arith.ConstantOp(IntegerAttr(view.start, IndexType())), view)
        range_of = self._insert(memref.ViewOp(view.arena, start, [], view.result.type), view)
        value = read_slot(view.attributes).value
        if value is not None:
            self._insert(memref.CopyOp(self._constant(view.result.type, value, view), range_of), view)
        view.result.replace_all_uses_with(range_of)
        _erase(view)

    def _row(self, row: PackOp) -> None:
        """Gives packed allocations an arena, as `plan-memory` does."""
        first, width = self.block.first_op, element_bytes(element_of(row.result))
        assert first is not None
        arena = self._insert(ArenaOp.of(PACKED, Role.WORKSPACE, buffer_bytes(row.result.type)), first)
        owners = [part.owner for part in row.parts if isinstance(part.owner, memref.AllocOp)]
        places = zip((*row.parts, row.result), (*row.starts, 0), strict=True)
        for part, start in list(places):
            view = self._insert(ViewOp.of(arena, start * width, cast(Buffer, part.type)), first)
            part.replace_all_uses_with(view)
        for part in owners:
            _erase(part)
        _erase(row)

    def _arena(self, arena: ArenaOp) -> None:
        if arena.role.data in OWN_ROLES:
            storage = self._allocated(arena.result, arena)
            if arena.label.data.startswith(PACKED):
                self._insert(_filled(storage, 0), arena)
            self._insert(memref.DeallocOp.get(storage), self.last)
        else:
            storage = self.block.insert_arg(arena.result.type, len(self.block.args), arena.location)
        arena.result.replace_all_uses_with(storage)
        _erase(arena)

    def _kernel(self, kernel: KernelOp) -> None:
        for argument, operand in zip(list(kernel.body.block.args), kernel.operands, strict=True):
            argument.replace_all_uses_with(operand)
        locals_: list[SSAValue] = []
        for op in list(kernel.body.block.ops):
            if isinstance(op, memref.AllocaOp):
                locals_.append(self._allocated(op.memref, kernel))
                op.memref.replace_all_uses_with(locals_[-1])
                _erase(op)
            elif isinstance(op, GenericOp):
                op.detach()
                self._stage(op, kernel)
        for value in locals_:
            self._insert(memref.DeallocOp.get(value), kernel)
        _erase(kernel)

    def _stage(self, stage: GenericOp, kernel: KernelOp) -> None:
        """Moves a stage in front of its kernel, preceded by the initialization of its accumulators."""
        count = len(stage.inputs)
        beside: list[tuple[SSAValue, SSAValue]] = []
        if any(argument.uses for argument in stage.body.block.args[count:]):
            for position, reduction in enumerate(reductions_of(stage)):
                target = stage.outputs[position]
                if any(_share_bytes(target, source) for source in (*stage.inputs, *kernel.inputs)):
                    beside.append((self._allocated(target, kernel), target))
                    stage.operands[count + position] = beside[-1][0]
                number = IDENTITIES[type(reduction.combine)](reduction.element)
                self._insert(_filled(stage.outputs[position], number), kernel)
        self.block.insert_op_before(stage, kernel)
        for source, target in beside:
            self._insert(memref.CopyOp(source, target), kernel)
            self._insert(memref.DeallocOp.get(source), kernel)


def _filled(target: SSAValue, number: float) -> GenericOp:
    """Returns a stage that fills a buffer with one number."""
    rank, element = len(shape_of(target)), element_of(target)
    body = Block(arg_types=[element])
    body.add_op(YieldOp(ScalarBuilder(body).constant(number, element).ssa))
    return generic([], [target], [affine.identity(rank)], rank, 0, body)


def _truths(words: SSAValue, target: SSAValue) -> GenericOp:
    """Returns a stage that converts words to `i1`: true where a word is not 0."""
    rank = len(shape_of(target))
    body = Block(arg_types=[i8, i1])
    word = ScalarBuilder(body).value(body.args[0])
    body.add_op(YieldOp(word.differs(0).ssa))
    return generic([words], [target], [affine.identity(rank)] * 2, rank, 0, body)


def _share_bytes(x: SSAValue, y: SSAValue) -> bool:
    """Returns whether two buffers overlap in the memory plan; separate allocations never do."""
    if not isinstance(x.owner, ViewOp) or not isinstance(y.owner, ViewOp):
        return x is y
    return x.owner.overlaps(y.owner)


def _replace(old: Operation, new: Operation) -> None:
    """Replaces an op of one result with another."""
    block = old.parent
    assert block is not None
    new.location = old.location
    block.insert_op_before(new, old)
    old.results[0].replace_all_uses_with(new.results[0])
    _erase(old)


def _erase(op: Operation) -> None:
    Rewriter.erase_op(op)
