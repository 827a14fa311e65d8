"""Scratch memory of native kernels."""

from __future__ import annotations

from xdsl.dialects import memref
from xdsl.ir import Attribute, Block, SSAValue


def new_array(top: Block, element: Attribute, extent: int) -> SSAValue:
    """Returns a new array in the scratch memory of a kernel's block."""
    op = memref.AllocaOp.get(element, shape=[extent])
    if top.first_op is None:
        top.add_op(op)
    else:
        top.insert_op_before(op, top.first_op)
    return op.memref
