"""The transformation `synchronize`: barriers, from what lanes write and read."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects import gpu
from xdsl.ir import Block, Operation, SSAValue

from tensorgrad.dialects.buf_tiles import ForallOp, Space, TiledOp, root_of, sources_of, space_of, targets_of
from tensorgrad.dialects.recipe import Processor, Synchronize
from tensorgrad.passes.codegen.transforms.building import TileBuilder
from tensorgrad.passes.codegen.transforms.failure import DoesNotFit


def synchronize(kernel: TiledOp, step: Synchronize) -> None:
    """Places barriers in front of what reads or overwrites the memory of a workgroup since the last barrier.

    All of a workgroup's code outside loops over lanes is taken as one lane's, so a barrier is needed between it and
    them too. Loops are gone through twice, since their ends meet their starts.
    """
    workgroups = [op for op in kernel.walk() if isinstance(op, ForallOp) and _is_innermost_workgroup(op)]
    if not workgroups:
        raise DoesNotFit("no loop runs over workgroups, so no lanes share memory")
    for op in workgroups:
        _Barriers().place(op.body.block)


def _is_innermost_workgroup(op: ForallOp) -> bool:
    inside = (inner for inner in op.body.walk() if isinstance(inner, ForallOp))
    return _is_workgroup(op) and not any(map(_is_workgroup, inside))


def _is_workgroup(op: ForallOp) -> bool:
    return any(processor.is_workgroup for processor in op.mapping)


@dataclass
class _Barriers:
    """What the memory of a workgroup has been used for since the last barrier."""

    written: set[SSAValue] = field(default_factory=set[SSAValue])
    read: set[SSAValue] = field(default_factory=set[SSAValue])

    def place(self, block: Block) -> None:
        """Places barriers in a block."""
        for op in [*block.ops]:
            if isinstance(op, gpu.BarrierOp):
                self.written, self.read = set(), set()
            elif _holds_lanes(op):
                for _ in range(2):
                    for region in op.regions:
                        self.place(region.block)
            else:
                self._step(op)

    def _step(self, op: Operation) -> None:
        """Places a barrier in front of an op if it needs one."""
        inner = [*op.walk()]
        reads = {root_of(buffer) for each in inner for buffer in sources_of(each)}
        writes = {root_of(buffer) for each in inner for buffer in targets_of(each)}
        reads, writes = _shared(reads), _shared(writes)
        if reads & self.written or writes & (self.written | self.read):
            TileBuilder.before(op).insert(gpu.BarrierOp())
            self.written, self.read = set(), set()
        self.written |= writes
        self.read |= reads


def _holds_lanes(op: Operation) -> bool:
    """Returns whether loops over lanes lie in an op, which isn't one itself."""
    if isinstance(op, ForallOp) and Processor.LANE in op.mapping:
        return False
    return any(isinstance(inner, ForallOp) and Processor.LANE in inner.mapping for inner in op.walk())


def _shared(buffers: set[SSAValue]) -> set[SSAValue]:
    return {buffer for buffer in buffers if space_of(buffer) is Space.WORKGROUP}
