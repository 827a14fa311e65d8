"""Sorting. Sorted values, the largest few, and segments are gathered at the positions that this op returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from tensorgrad.dialects.tg.base import (
    INTEGER,
    Evaluate,
    NumpyArray,
    Properties,
    Tensor,
    TensorOp,
    int_value,
    require,
    require_elements,
    tensor,
)


@irdl_op_definition
class ArgsortOp(TensorOp):
    """The positions that sort the elements along the last axis in increasing order, or decreasing if `descending` is 1.

    The sort is stable: equal elements keep their order in both directions. NaN counts as larger than every number, and
    -0 as equal to 0. On buffers, a row of n elements takes ceil(log2 n) kernels, each of which merges pairs of sorted
    runs: every position finds its element by a binary search, with at most 4 log2 n reads. Rows that one kernel can't
    bind are sorted in k segments, and each element's rank takes k binary searches. Native code sorts by the digits of
    the elements' bits, of 8 or 11 bits each, in time proportional to n.

    Example:
        %1 = tg.argsort %0 descending = 0 : tensor<4x10xf32>   // tensor<4x10xi32>
    """

    name = "tg.argsort"
    operand = operand_def()
    descending = prop_def(INTEGER)
    result = result_def()
    traits = traits_def(Pure())
    PROPERTIES: ClassVar = ("descending",)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        shape, element = operands[0].get_shape(), operands[0].get_element_type()
        require(bool(shape), "a scalar has no axis to sort")
        require_elements(element, "number")
        require(int_value(properties, "descending") in (0, 1), "descending must be 0 or 1")
        require(shape[-1] <= 1 << 31, lambda: f"positions on an axis of {shape[-1]} elements don't fit i32")
        return tensor(shape, i32)

    def prepare(self) -> Evaluate:
        return _falling if self.descending.value.data else _rising


def _rising(x: NumpyArray) -> NumpyArray:
    return np.argsort(x, -1, kind="stable").astype(np.int32)


def _falling(x: NumpyArray) -> NumpyArray:
    # Sorting the reversed row and reversing the result keeps the order of equal elements.
    backwards = np.argsort(x[..., ::-1], -1, kind="stable")[..., ::-1]
    return (x.shape[-1] - 1 - backwards).astype(np.int32)


OPS = (ArgsortOp,)
