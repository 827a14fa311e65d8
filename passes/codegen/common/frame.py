"""A kernel's share of the workgroups that run it, and the memory of its workgroup."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Block, SSAValue

from tensorgrad.dialects import wgsl


class Frame:
    """The frame of a kernel: its share of the dispatch's workgroups, and the workgroup's memory.

    Attributes:
        groups: The kernel's own workgroups.
        number: The linear index of this workgroup among them; `None` if the kernel has the dispatch to itself.
        software: Whether the GPU is emulated on a CPU.
        subgroup: The number of lanes of every subgroup, 1 if it is unknown or there are none.
    """

    def __init__(
        self,
        groups: tuple[int, int, int],
        number: SSAValue | None = None,
        arrays: Arrays | None = None,
        software: bool = False,
        subgroup: int = 1,
    ):
        self.groups = groups
        self.software = software
        self.subgroup = subgroup
        self.number = number
        self.arrays = Arrays() if arrays is None else arrays
        self.used: dict[MemRefType[Attribute], int] = {}

    def array(self, block: Block, kind: MemRefType[Attribute]) -> SSAValue:
        """Returns an array in workgroup memory, which kernels that share a dispatch reuse.

        Args:
            block: Where to allocate it, unless all arrays are allocated at the start of a certain block.
            kind: Its type.
        """
        position = self.used[kind] = self.used.get(kind, -1) + 1
        arrays_of_kind = self.arrays.by_type.setdefault(kind, [])
        if position == len(arrays_of_kind):
            op = wgsl.WorkgroupAllocOp(kind)
            top = block if self.arrays.block is None else self.arrays.block
            if self.arrays.block is None or top.first_op is None:
                top.add_op(op)
            else:
                top.insert_op_before(op, top.first_op)
            arrays_of_kind.append(op.results[0])
        return arrays_of_kind[position]


@dataclass
class Arrays:
    """Arrays in a workgroup's memory, by type; allocated at the start of `block`, or at their first use."""

    block: Block | None = None
    by_type: dict[MemRefType[Attribute], list[SSAValue]] = field(
        default_factory=dict["MemRefType[Attribute]", "list[SSAValue]"]
    )
