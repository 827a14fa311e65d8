"""Inserts ops where others stand, with their locations."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter


def insert_before(op: Operation, anchor: Operation) -> SSAValue:
    """Inserts an op in front of another one, with its location; returns the first result."""
    op.location = anchor.location
    Rewriter.insert_op(op, InsertPoint.before(anchor))
    return op.results[0]


def index_before(number: int, anchor: Operation) -> SSAValue:
    """Inserts a constant index in front of an op; returns it."""
    return insert_before(arith.ConstantOp(IntegerAttr(number, IndexType())), anchor)
