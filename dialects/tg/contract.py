"""Contractions: sums of products over shared axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from tensorgrad.dialects.tg.base import (
    NumpyArray,
    Properties,
    Tensor,
    TensorOp,
    check_axes,
    int_list,
    is_float,
    is_integer,
    require,
    rounding_once,
    tensor,
)


def free_axes(rank: int, *taken: Sequence[int]) -> list[int]:
    """The axes of a tensor of `rank` that are in none of `taken`, in order."""
    return [axis for axis in range(rank) if not any(axis in axes for axes in taken)]


@irdl_op_definition
class DotGeneralOp(TensorOp):
    """Sums products over the contracting axes, side by side along the batch axes.

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
    lhs_batch = prop_def()
    rhs_batch = prop_def()
    lhs_contracting = prop_def()
    rhs_contracting = prop_def()
    result = result_def()
    traits = traits_def(Pure())
    PROPERTIES: ClassVar = ("lhs_batch", "rhs_batch", "lhs_contracting", "rhs_contracting")

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        lhs, rhs = operands
        lb, rb, lc, rc = (int_list(properties, name) for name in cls.PROPERTIES)
        ls, rs = lhs.get_shape(), rhs.get_shape()
        element = lhs.get_element_type()
        require(element == rhs.get_element_type(), lambda: f"elements differ: {lhs} and {rhs}")
        require(is_float(element) or is_integer(element), f"contracts numbers, not {element}")
        check_axes([*lb, *lc], len(ls), "left axes")
        check_axes([*rb, *rc], len(rs), "right axes")
        require(len(lb) == len(rb) and len(lc) == len(rc), "both sides must name as many axes")
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
    def evaluate(self, *operands: NumpyArray) -> NumpyArray:
        lhs, rhs = operands
        lb, rb, lc, rc = (int_list(self.properties, name) for name in self.PROPERTIES)
        lf, rf = free_axes(lhs.ndim, lb, lc), free_axes(rhs.ndim, rb, rc)
        batch = [lhs.shape[axis] for axis in lb]
        inner = int(np.prod([lhs.shape[axis] for axis in lc], dtype=np.int64))
        rows = int(np.prod([lhs.shape[axis] for axis in lf], dtype=np.int64))
        columns = int(np.prod([rhs.shape[axis] for axis in rf], dtype=np.int64))
        left = lhs.transpose([*lb, *lf, *lc]).reshape([*batch, rows, inner])
        right = rhs.transpose([*rb, *rc, *rf]).reshape([*batch, inner, columns])
        return np.matmul(left, right).reshape(self.shape)


OPS = (DotGeneralOp,)
