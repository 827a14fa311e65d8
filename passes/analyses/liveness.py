"""Live ranges of temporary buffers in a given order of kernels."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from xdsl.dialects import memref
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from tensorgrad.dialects.buf import KernelOp, buffer_bytes
from tensorgrad.passes.analyses.graph import users
from tensorgrad.passes.analyses.storage import is_temporary


def allocated(function: FuncOp) -> dict[SSAValue, int]:
    """Returns the temporary buffers of a function that share the workspace, and their sizes in bytes."""
    allocated = [op.memref for op in function.body.block.ops if isinstance(op, memref.AllocOp)]
    return {value: buffer_bytes(value.type) for value in allocated if is_temporary(value)}


def readers_of(buffers: Collection[SSAValue]) -> dict[SSAValue, set[KernelOp]]:
    """Returns the kernels that read each buffer."""
    return {value: set(users(value)) for value in buffers}


def most_bytes(
    order: Sequence[KernelOp], sizes: Mapping[SSAValue, int], readers: Mapping[SSAValue, set[KernelOp]]
) -> int:
    """Returns the peak of live bytes when kernels run in the given order."""
    remaining = {value: len(kernels) for value, kernels in readers.items()}
    now = most = 0
    for kernel in order:
        now += sum(sizes.get(value, 0) for value in kernel.outputs)
        most = max(most, now)
        for value in (*dict.fromkeys(kernel.inputs), *kernel.outputs):
            if value in sizes:
                remaining[value] -= value in kernel.inputs
                now -= sizes[value] if not remaining[value] else 0
    return most
