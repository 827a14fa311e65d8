"""Scalar operations of the kernels that are written by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects import math as math_ops
from xdsl.ir import Operation, SSAValue

from tensorgrad.passes.kernels.writing.emission import Code

FLAGS = {"fastmath": arith.FastMathFlagsAttr("none")}


def operation(code: Code, kind: type[Operation], x: SSAValue, y: SSAValue) -> SSAValue:
    """Returns an operation on two floats."""
    return code.add(kind.create(operands=[x, y], result_types=[x.type], properties=FLAGS))


def summed(code: Code, x: SSAValue, y: SSAValue) -> SSAValue:
    """Returns the sum."""
    return operation(code, arith.AddfOp, x, y)


def difference(code: Code, x: SSAValue, y: SSAValue) -> SSAValue:
    """Returns the difference."""
    return operation(code, arith.SubfOp, x, y)


def product(code: Code, x: SSAValue, y: SSAValue) -> SSAValue:
    """Returns the product."""
    return operation(code, arith.MulfOp, x, y)


def largest(code: Code, x: SSAValue, y: SSAValue) -> SSAValue:
    """Returns the larger number; a NaN is passed over, the sum that follows shows it."""
    return chosen(code, code.add(arith.CmpfOp(x, y, "olt")), y, x)


def chosen(code: Code, condition: SSAValue, x: SSAValue, y: SSAValue) -> SSAValue:
    """Returns one value where a condition holds, another elsewhere."""
    return code.add(arith.SelectOp(condition, x, y))


def both(code: Code, x: SSAValue | None, y: SSAValue) -> SSAValue:
    """Returns whether two conditions hold; `None` always does."""
    return y if x is None else code.add(arith.AndIOp(x, y))


def exponential(code: Code, x: SSAValue) -> SSAValue:
    """Returns the exponential."""
    return code.add(math_ops.ExpOp(x))


def folded(code: Code, values: Sequence[SSAValue], fold: Callable[[Code, SSAValue, SSAValue], SSAValue]) -> SSAValue:
    """Values folded from the left by an operation."""
    found = values[0]
    for value in values[1:]:
        found = fold(code, found, value)
    return found
