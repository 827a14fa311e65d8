"""How kernels of a device access their buffers."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import memref, vector
from xdsl.ir import BlockArgument
from xdsl.utils.exceptions import VerifyException

READ, READ_WRITE = "read", "read_write"

WRITES = (memref.StoreOp, memref.CopyOp, vector.StoreOp)
"""The ops that write to memory, all to their second operand."""


def verify_access(buffers: Sequence[BlockArgument], modes: Sequence[str]) -> None:
    """Checks how a kernel accesses each of its buffers.

    Raises:
        VerifyException: A mode is unknown, or a buffer is written that is declared to be only read.
    """
    for number, (buffer, mode) in enumerate(zip(buffers, modes, strict=True)):
        if mode not in (READ, READ_WRITE):
            raise VerifyException(f'access must be "{READ}" or "{READ_WRITE}", got "{mode}"')
        if mode == READ and any(isinstance(use.operation, WRITES) and use.index == 1 for use in buffer.uses):
            raise VerifyException(f'buffer {number} is written, but its access is "{READ}"')
