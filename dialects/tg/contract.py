"""Contractions: sums of products over shared axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

import numpy as np
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from tensorgrad.dialects.tg.base import (
    INT_LIST,
    BinaryEvaluate,
    Properties,
    Tensor,
    TensorOp,
    UnaryEvaluate,
    check_axes,
    int_list,
    int_lists,
    require,
    require_elements,
    rounding_once,
    size_of,
    tensor,
)
from tensorgrad.dialects.tg.summation import MOST_INNER, multiplied
from tensorgrad.dialects.tg.traits import KeepsNan


def free_axes(rank: int, *bound: Sequence[int]) -> list[int]:
    """Returns the axes of a tensor of rank `rank` that none of `bound` contains, in order."""
    return [axis for axis in range(rank) if not any(axis in axes for axes in bound)]


@irdl_op_definition
class DotGeneralOp(TensorOp):
    """Sums products over the contracting axes, separately for each index of the batch axes.

    The result's axes are the batch axes, then the left operand's free axes, then the right one's. Matrix products,
    batched or transposed, inner and outer products and tensor contractions are all this op. Products of f16 are summed
    in f32 and rounded once.

    Example:
        %2 = tg.dot_general %0, %1 lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0]
            : tensor<4x3xf32>, tensor<3x5xf32>
    """

    name = "tg.dot_general"
    lhs = operand_def()
    rhs = operand_def()
    lhs_batch = prop_def(INT_LIST)
    rhs_batch = prop_def(INT_LIST)
    lhs_contracting = prop_def(INT_LIST)
    rhs_contracting = prop_def(INT_LIST)
    result = result_def()
    traits = traits_def(Pure(), KeepsNan())
    PROPERTIES: ClassVar = ("lhs_batch", "rhs_batch", "lhs_contracting", "rhs_contracting")

    @property
    def dimension_numbers(self) -> tuple[tuple[int, ...], ...]:
        """The batch axes of both operands, then the contracting axes of both."""
        return int_lists(self.lhs_batch, self.rhs_batch, self.lhs_contracting, self.rhs_contracting)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        lhs, rhs = operands
        lb, rb, lc, rc = (int_list(properties, name) for name in cls.PROPERTIES)
        ls, rs = lhs.get_shape(), rhs.get_shape()
        element = lhs.get_element_type()
        require(element == rhs.get_element_type(), lambda: f"element types differ: {lhs} and {rhs}")
        require_elements(element, "number")
        check_axes([*lb, *lc], len(ls), "left axes")
        check_axes([*rb, *rc], len(rs), "right axes")
        require(len(lb) == len(rb) and len(lc) == len(rc), "both sides must name the same number of axes")
        for a, b in zip([*lb, *lc], [*rb, *rc], strict=True):
            require(
                ls[a] == rs[b],
                f"axis {a} of {list(ls)} (extent {ls[a]}) does not match axis {b} of {list(rs)} (extent {rs[b]})",
            )
        shape = [ls[axis] for axis in lb]
        shape += [ls[axis] for axis in free_axes(len(ls), lb, lc)]
        shape += [rs[axis] for axis in free_axes(len(rs), rb, rc)]
        return tensor(shape, element)

    @rounding_once
    def prepare(self) -> BinaryEvaluate:
        ls, rs = (cast(Tensor, operand.type).get_shape() for operand in self.operands)
        lb, rb, lc, rc = self.dimension_numbers
        lf, rf = free_axes(len(ls), lb, lc), free_axes(len(rs), rb, rc)
        batch = [ls[axis] for axis in lb]
        inner = size_of([ls[axis] for axis in lc])
        rows, columns = size_of([ls[axis] for axis in lf]), size_of([rs[axis] for axis in rf])
        left = _arranged(ls, [*lb, *lf, *lc], [*batch, rows, inner])
        right = _arranged(rs, [*rb, *rc, *rf], [*batch, inner, columns])
        shape = self.shape
        multiply = np.matmul if inner <= MOST_INNER else multiplied
        if shape == (*batch, rows, columns):
            if left is None and right is None:
                return multiply
            return lambda lhs, rhs: multiply(left(lhs) if left else lhs, right(rhs) if right else rhs)
        return lambda lhs, rhs: multiply(left(lhs) if left else lhs, right(rhs) if right else rhs).reshape(shape)


def _arranged(shape: Sequence[int], order: Sequence[int], target: Sequence[int]) -> UnaryEvaluate | None:
    """Returns a function that transposes and reshapes an operand, or `None` if it has that layout already."""
    moved = list(order) != list(range(len(shape)))
    if [shape[axis] for axis in order] == list(target):
        return (lambda x: x.transpose(order)) if moved else None
    return (lambda x: x.transpose(order).reshape(target)) if moved else (lambda x: x.reshape(target))


OPS = (DotGeneralOp,)
