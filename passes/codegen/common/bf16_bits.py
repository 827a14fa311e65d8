"""bf16 as the upper half of the bits of the equal f32: the rule for all devices.

WGSL has no bf16. LLVM's conversion is a call on most CPUs, and takes subnormal numbers for zero on others.
"""

from __future__ import annotations

from typing import TypeGuard

from xdsl.dialects import arith
from xdsl.dialects.builtin import VectorType, bf16, i16, i32
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter

from tensorgrad.passes.scalars import Formula, Value

UPPER = 0xFFFF0000
"""The bits of an f32 that make a bf16."""


def converts_bf16(op: Operation) -> TypeGuard[arith.ExtFOp | arith.TruncFOp]:
    """Returns whether an op rounds to bf16 or extends it, also whole vectors."""
    if not isinstance(op, arith.TruncFOp | arith.ExtFOp):
        return False
    narrow = op.result.type if isinstance(op, arith.TruncFOp) else op.input.type
    return bf16 in (narrow, getattr(narrow, "element_type", None))


def extends_vector(op: Operation) -> bool:
    """Returns whether an op extends a vector, which `convert-to-llvm` does: `arith.extui` takes none in xDSL."""
    return isinstance(op, arith.ExtFOp) and isinstance(op.input.type, VectorType)


def rounded_bits(f: Formula, x: Value) -> Value:
    """Returns the bits of an f32, of which the upper half is those of the nearest bf16, ties to even; NaN stays one."""
    bits = x.bits()
    rounded = bits + (0x7FFF + (bits >> 16 & 1))
    return f.select(x.compare("uno", x), bits | 0x400000, rounded)


def expand_bf16(op: arith.ExtFOp | arith.TruncFOp) -> None:
    """Replaces a conversion by its bits. What is rounded and extended at once, as by shaders, never has 16 bits."""
    f = Formula(op.location)
    x, narrow = f.value(op.operands[0]), op.operands[0].owner
    if isinstance(op, arith.TruncFOp):
        if not op.result.uses:
            Rewriter.erase_op(op)
            return
        high = rounded_bits(f, x) >> 16
        result = high.cast(arith.TruncIOp, i16).cast(arith.BitcastOp, bf16)
    elif isinstance(narrow, arith.TruncFOp):
        result = (rounded_bits(f, f.value(narrow.input)) & UPPER).as_real()
    else:
        result = (x.cast(arith.BitcastOp, i16).cast(arith.ExtUIOp, i32) << 16).as_real()
    Rewriter.insert_op(f.ops, InsertPoint.before(op))
    Rewriter.replace_op(op, [], [result.ssa])
