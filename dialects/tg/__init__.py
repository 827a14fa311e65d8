"""`tg`: pure ops on tensors of static shape with explicit broadcasting, to which users' programs are traced."""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialect_interfaces.constant_materialization import ConstantMaterializationInterface
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Attribute, Dialect, Operation

from tensorgrad.dialects.tg import collective, contract, convolution, index, leaves, random, reduce, shape, sort
from tensorgrad.dialects.tg.base import Tensor, TensorOp
from tensorgrad.dialects.tg.control import REGION_OPS
from tensorgrad.dialects.tg.elementwise import arithmetic, functions, gamma
from tensorgrad.dialects.tg.leaves import ConstantOp

OPS: tuple[type[TensorOp], ...] = (
    *leaves.OPS,
    *arithmetic.OPS,
    *functions.OPS,
    *gamma.OPS,
    *shape.OPS,
    *reduce.OPS,
    *contract.OPS,
    *convolution.OPS,
    *index.OPS,
    *sort.OPS,
    *random.OPS,
    *collective.OPS,
)
"""Every op of the dialect except those with regions."""


def constant(value: DenseIntOrFPElementsAttr[Any]) -> ConstantOp:
    """Returns a `tg.constant` of a dense attribute."""
    return ConstantOp.create(result_types=[cast(Tensor, value.type)], properties={"value": value})


class MaterializeConstant(ConstantMaterializationInterface):
    """Materializes folded attributes as `tg.constant`."""

    def materialize_constant(self, value: Attribute, type: Attribute) -> Operation | None:
        """Returns the constant op for a folded attribute."""
        if not isinstance(value, DenseIntOrFPElementsAttr):
            return None
        return constant(cast("DenseIntOrFPElementsAttr[Any]", value))


Tg = Dialect("tg", [*OPS, *REGION_OPS], [], [MaterializeConstant()])
"""The dialect object that a context registers."""
