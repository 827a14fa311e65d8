"""The pass `lower-buf-to-cpu`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IndexType, ModuleOp, f32
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects import cpu
from tensorgrad.dialects.buf import KernelOp, element_bytes
from tensorgrad.dialects.dispatched import Extents
from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.native_schedules import (
    CountingSortSchedule,
    LoopsSchedule,
    NativeAttentionSchedule,
    PackedSchedule,
    RecipeSchedule,
    ScanSchedule,
)
from tensorgrad.passes.codegen.common.blocked_sums import MOST_TERMS_IN_LANES, block_sums
from tensorgrad.passes.codegen.common.control import Moves
from tensorgrad.passes.codegen.common.frame import Frame
from tensorgrad.passes.codegen.common.hoisting import hoist_invariants
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.common.lowering import FunctionLowering, WrittenOnce, flat
from tensorgrad.passes.codegen.llvm.attention import write_attention
from tensorgrad.passes.codegen.llvm.counting_sort import write_counting_sort
from tensorgrad.passes.codegen.llvm.cut_remainders import cut_remainders
from tensorgrad.passes.codegen.llvm.delinearize_loops import delinearize_loops
from tensorgrad.passes.codegen.llvm.interchange_folds import interchange_folds
from tensorgrad.passes.codegen.llvm.loops import write_loops
from tensorgrad.passes.codegen.llvm.packed.tasks import write_packed
from tensorgrad.passes.codegen.llvm.packed.tiles import VECTOR_UNITS
from tensorgrad.passes.codegen.llvm.recipe import write_recipe
from tensorgrad.passes.codegen.llvm.scan import write_scan
from tensorgrad.passes.codegen.llvm.split_loops import split_loops
from tensorgrad.passes.codegen.llvm.unswitch import unswitch_loops
from tensorgrad.passes.levels import PLANNED, LevelPass
from tensorgrad.passes.tensors.simplify import simplify_block
from tensorgrad.runtime.target import CPU, Target


@dataclass(frozen=True)
class LowerBufToCpuPass(LevelPass):
    """Lowers each scheduled kernel to a `cpu.kernel`, and the function to a sequence of dispatches.

    Expects functions after `plan-memory`, with a native `schedule` on every kernel. Guarantees one `cpu.kernel` for
    each distinct kernel (equal ones are shared), linear indices only, and a `buf.dispatch` in place of each
    `buf.kernel`, whose workgroups are the kernel's tasks. Loops whose iterations are independent are marked parallel;
    those that sum many floats are cut into blocks (`blocked_sums`).

    Attributes:
        target: The target CPU.
    """

    name = "lower-buf-to-cpu"
    levels = PLANNED

    target: Target = CPU

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        _Lowering.run_all(ctx, op, self.target)


class _Lowering(FunctionLowering):
    """Lowers one function to native kernels."""

    name = LowerBufToCpuPass.name

    def check(self, kernels: Sequence[KernelOp], operands: Sequence[SSAValue], views: Sequence[SSAValue]) -> None:
        if len(kernels) > 1:
            raise DiagnosticException(
                f"the kernel made at {line_of(kernels[0].location)} shares a dispatch with others, which native code "
                "does not support: leave out `share-dispatches`"
            )

    def types(self, teams: Sequence[WrittenOnce], views: Sequence[SSAValue]) -> list[Attribute]:
        return [flat(view) for view in views]

    def groups(self, teams: Sequence[WrittenOnce]) -> Extents:
        return teams[0].schedule.groups

    def write(self, teams: Sequence[WrittenOnce], access: Sequence[str], types: Sequence[Attribute]) -> cpu.KernelOp:
        team = teams[0]
        block = Block(arg_types=[*types, IndexType(), IndexType()])
        code = team.bound(Code(block, {}, Frame(team.schedule.groups)), Moves(block), None)
        first, last = code.values(block.args[-2:])
        unit = VECTOR_UNITS[self.target.vector_bytes]
        match team.schedule:
            case LoopsSchedule():
                write_loops(team.kernel, team.schedule, code, first, last, unit.has_masks)
            case PackedSchedule():
                write_packed(team.kernel, team.schedule, code, first, last)
            case NativeAttentionSchedule():
                write_attention(team.kernel, team.schedule, code, first, last)
            case CountingSortSchedule():
                write_counting_sort(team.kernel, team.schedule, code, first, last)
            case ScanSchedule():
                write_scan(team.kernel, team.schedule, code, first, last)
            case RecipeSchedule():
                write_recipe(team.kernel, team.schedule, code, first, last, self.target.vector_bytes)
            case schedule:
                raise DiagnosticException(
                    f"the kernel made at {line_of(team.kernel.location)} is scheduled for shaders "
                    f"({schedule.archetype}): run `schedule` with a target whose language is llvm"
                )
        buffers = zip(block.args, access, strict=False)
        unwritten = {buffer for buffer, kind in buffers if kind == "read"}
        if not isinstance(team.schedule, RecipeSchedule):  # a recipe says what loops there are
            delinearize_loops(block)
        hoist_invariants(block, unwritten)
        unswitch_loops(block, unwritten)
        if split_loops(block):
            hoist_invariants(block, unwritten)
        if not unit.has_masks:
            cut_remainders(block, self.target.vector_bytes // element_bytes(f32))
        if not isinstance(team.schedule, RecipeSchedule):  # a recipe says the order of loops, and of sums
            interchange_folds(block)
            block_sums(block, MOST_TERMS_IN_LANES)
        simplify_block(block)
        return cpu.KernelOp(self.written.name(team.schedule.archetype), access, block)

    def choice(self, block: Block, access: Sequence[str]) -> cpu.KernelOp:
        for _ in range(2):
            block.insert_arg(IndexType(), len(block.args))
        return cpu.KernelOp(self.written.name("choice"), access, block)
