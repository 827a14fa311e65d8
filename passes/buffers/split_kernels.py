"""The pass `split-kernels`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType, ModuleOp, UnknownLoc, i8
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.ops import YieldOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.rewriter import Rewriter

from tensorgrad.dialects.buf import Buffer, KernelOp, ViewOp, buffer_bytes, buffer_type, element_of, pack_of, shape_of
from tensorgrad.dialects.functions import defined_functions
from tensorgrad.dialects.tg.base import is_float
from tensorgrad.passes.analyses.boxes import Boxes
from tensorgrad.passes.analyses.cuts import fits
from tensorgrad.passes.analyses.graph import KernelGraph, has_calls
from tensorgrad.passes.analyses.liveness import allocated
from tensorgrad.passes.analyses.stages import Parts, Stage, erase_stages, erase_unused, put_together, take_apart
from tensorgrad.passes.analyses.storage import Bindings, accesses_of
from tensorgrad.passes.levels import KERNELS, LevelPass
from tensorgrad.runtime.target import WEBGPU_DEFAULT, Target


@dataclass(frozen=True)
class SplitKernelsPass(LevelPass):
    """Splits kernels that need more bindings than the device allows.

    Expects functions of `buf` between `fuse` and `schedule`. Guarantees the same results. A kernel of several stages is
    split between two of them, and the locals that both parts use become buffers. A kernel of one stage that chooses its
    operand by conditions, as `concat` does, is split among the branches: a first kernel reads some of the operands, and
    a second one reads its result in their place. It stays whole if its buffers are larger than a binding and
    `cut-grids` can divide it into parts that each need few bindings. A kernel that still needs too many bindings stays
    as it is; `lower-buf-to-wgsl` rejects it unless `plan-memory` places its buffers in one arena.

    Attributes:
        target: The device: how many bindings a kernel may have, and how large they may be.
    """

    name = "split-kernels"
    levels = KERNELS

    target: Target = WEBGPU_DEFAULT

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            if not has_calls(function):
                _Splitting(function, self.target).run()


class _Splitting:
    """Splits the kernels of one function."""

    def __init__(self, function: FuncOp, target: Target):
        self.block = function.body.block
        workspace = sum(allocated(function).values())
        self.bindings = Bindings(function, target, KernelGraph.of(function).places, workspace, arguments=True)

    def run(self) -> None:
        """Splits the kernels in place."""
        for kernel in [op for op in self.block.ops if isinstance(op, KernelOp)]:
            if kernel.single is not None or kernel.schedule is not None or self._fits(kernel):
                continue
            if self._is_divided(kernel):
                continue
            for piece in self._pieces(take_apart(kernel)):
                self.block.insert_op_before(put_together(piece), kernel)
            Rewriter.erase_op(kernel)

    def _pieces(self, parts: Parts) -> list[Parts]:
        """Returns kernels that together compute what `parts` does, each within the limit if possible."""
        if self._parts_fit(parts):
            return [parts]
        halves = self._between_stages(parts) if len(parts.stages) > 1 else self._among_branches(parts)
        return [parts] if halves is None else [piece for half in halves for piece in self._pieces(half)]

    def _fits(self, kernel: KernelOp) -> bool:
        return fits(self.bindings, kernel.extents, lambda: accesses_of(kernel), kernel.operands)

    def _is_divided(self, kernel: KernelOp) -> bool:
        """Returns whether `cut-grids` can divide a kernel of one stage into boxes: if no two of its buffers overlap."""
        target, values = self.bindings.target, list(kernel.operands)
        sizes = [buffer_bytes(cast(Buffer, value.type)) for value in values]
        if len(kernel.stages) > 1 or max(sizes) <= target.max_storage_buffer_binding_size:
            return False
        moved = self.bindings.limit < target.max_storage_buffers_per_shader_stage  # by loops
        if moved or any(value in self.bindings.in_place or pack_of(value) is not None for value in values):
            return False
        arenas = Block(arg_types=[buffer_type([size], i8) for size in sizes])
        copy = kernel.clone()
        for number, (arena, value) in enumerate(zip(arenas.args, values, strict=True)):
            copy.operands[number] = ViewOp.of(arena, 0, cast(Buffer, value.type)).result
        whole = take_apart(copy)
        copy.erase()
        divided = Boxes(whole, target, self.bindings.limit).divided()
        erase_stages(whole)
        return divided is not None

    def _parts_fit(self, parts: Parts) -> bool:
        buffers = [*parts.inputs, *parts.outputs]
        return fits(self.bindings, parts.grid, lambda: [stage.accesses() for stage in parts.stages], buffers)

    def _stored(self, shape: Sequence[int], element: Attribute, parts: Parts) -> memref.AllocOp:
        """Allocates a buffer for a value that one kernel passes to the next."""
        alloc = memref.AllocOp.get(element, shape=list(shape))
        alloc.location = parts.location or UnknownLoc()
        assert self.block.first_op is not None
        self.block.insert_op_before(alloc, self.block.first_op)
        return alloc

    # Between stages

    def _between_stages(self, parts: Parts) -> tuple[Parts, Parts]:
        """Splits a kernel after as many stages as fit the limit, or after the first."""
        count = len(parts.stages) - 1
        while count > 1 and not self.bindings.fit(_touched(parts, parts.stages[:count])):
            count -= 1
        first, second = parts.stages[:count], parts.stages[count:]
        handed = [value for value in parts.locals if _touches(first, value) and _touches(second, value)]
        stored = {value: self._stored(shape_of(value), element_of(value), parts).memref for value in handed}
        for stage in parts.stages:
            stage.reads = [(stored.get(buffer, buffer), m) for buffer, m in stage.reads]
            stage.writes = [(stored.get(buffer, buffer), m) for buffer, m in stage.writes]
        for old, new in stored.items():
            old.replace_all_uses_with(new)
        halves: list[Parts] = []
        for stages in (first, second):
            written = [buffer for stage in stages for buffer, _ in stage.writes]
            outputs = [value for value in (*stored.values(), *parts.outputs) if value in written]
            local = [value for value in parts.locals if value not in stored and _touches(stages, value)]
            halves.append(Parts(parts.grid, stages, outputs, local, parts.location))
        return halves[0], halves[1]

    # Among the branches of a condition

    def _among_branches(self, parts: Parts) -> tuple[Parts, Parts] | None:
        """Splits a kernel among the branches of a condition; returns `None` if no condition allows it."""
        stage = parts.stages[0]
        if stage.own:
            return None
        for position, op in enumerate(stage.body.ops):
            if isinstance(op, scf.IfOp) and len(op.results) == 1:
                stored = self._stored(parts.grid, op.results[0].type, parts)
                halves = self._with_branches(parts, stage, position, stored.memref)
                if halves is not None:
                    return halves
                self.block.erase_op(stored)
        return None

    def _with_branches(self, parts: Parts, stage: Stage, position: int, stored: SSAValue) -> tuple[Parts, Parts] | None:
        """Moves as many branches of one op as fit to a first kernel, so that the second reads fewer buffers."""
        at = AffineMap.identity(len(parts.grid))
        for count in reversed(range(2, len(_branches(stage, position)))):
            first, second = stage.copy(), stage.copy()
            for number, branch in enumerate(_branches(first, position)):
                if number >= count:
                    _yield(branch, _zero)
            _only_result(first, position, stored, at)
            argument = second.body.insert_arg(element_of(stored), len(second.reads))
            second.reads.append((stored, at))
            for branch in _branches(second, position)[:count]:
                _yield(branch, lambda _block, _kind, value=argument: value)
            for half in (first, second):
                erase_unused(half)
            halves = [
                Parts(parts.grid, [half], [buffer for buffer, _ in half.writes], [], parts.location)
                for half in (first, second)
            ]
            if self._parts_fit(halves[0]) and len(halves[1].inputs) < len(parts.inputs):
                return halves[0], halves[1]
        return None


def _touched(parts: Parts, stages: Sequence[Stage]) -> list[SSAValue]:
    """Returns the buffers that `stages` would bind: the kernel's operands, and locals that other stages access."""
    rest = [stage for stage in parts.stages if stage not in stages]
    touched = dict.fromkeys(b for stage in stages for b in (*stage.buffers(), *(w for w, _ in stage.writes)))
    return [value for value in touched if value not in parts.locals or _touches(rest, value)]


def _touches(stages: Sequence[Stage], value: SSAValue) -> bool:
    """Returns whether any of the stages reads or writes a buffer."""
    return any(value in (*stage.buffers(), *(buffer for buffer, _ in stage.writes)) for stage in stages)


def _branches(stage: Stage, position: int) -> list[Block]:
    """Returns the blocks that a conditional op of a stage's body chooses among, nested conditions included."""
    return _leaves(list(stage.body.ops)[position])


def _leaves(op: Operation) -> list[Block]:
    results: list[Block] = []
    for region in op.regions:
        block, last = region.block, region.block.last_op
        assert last is not None
        inner = last.operands[0].owner
        results += _leaves(inner) if isinstance(inner, scf.IfOp) and inner.parent is block else [block]
    return results


def _yield(branch: Block, value: Callable[[Block, Attribute], SSAValue]) -> None:
    """Makes a branch yield another value."""
    last = branch.last_op
    assert last is not None
    last.operands[0] = value(branch, last.operands[0].type)


def _zero(branch: Block, kind: Attribute) -> SSAValue:
    """Returns a zero, inserted at the end of a branch."""
    zero = FloatAttr(0.0, cast(AnyFloat, kind)) if is_float(kind) else IntegerAttr(0, cast(IntegerType, kind))
    op = arith.ConstantOp(zero)
    last = branch.last_op
    assert last is not None
    op.location = last.location
    branch.insert_op_before(op, last)
    return op.result


def _only_result(stage: Stage, position: int, stored: SSAValue, at: AffineMap) -> None:
    """Makes the result of one op of a stage's body the stage's only output."""
    op, last = list(stage.body.ops)[position], stage.body.last_op
    assert last is not None
    yield_op = YieldOp(op.results[0])
    yield_op.location = last.location
    stage.body.insert_op_before(yield_op, last)
    Rewriter.erase_op(last)
    for argument in list(stage.body.args)[len(stage.reads) :]:
        stage.body.erase_arg(argument)
    stage.body.insert_arg(element_of(stored), len(stage.reads))
    stage.writes = [(stored, at)]
