"""Which of a contraction's axes the values of its body depend on."""

from __future__ import annotations

from collections.abc import Collection

from xdsl.dialects.linalg.ops import GenericOp, IndexOp
from xdsl.ir import SSAValue

from tensorgrad.dialects.affine import used_dims
from tensorgrad.dialects.buf import maps_of

Axes = frozenset[str]
"""`row`, `column`, both or none."""


def axes_of_values(stage: GenericOp, row: Collection[int], column: Collection[int]) -> dict[SSAValue, Axes]:
    """For each value of a stage's body: whether it depends on loops of the rows, and on loops of the columns.

    Args:
        stage: A contraction.
        row: The loops that make the rows.
        column: The loops that make the columns.
    """
    axes: dict[SSAValue, Axes] = {}

    def of_loops(loops: Collection[int]) -> Axes:
        sides = {"row": row, "column": column}
        return frozenset(name for name, side in sides.items() if any(loop in side for loop in loops))

    for argument, m in zip(stage.body.block.args, maps_of(stage), strict=True):
        axes[argument] = of_loops(used_dims(m))
    for op in stage.body.block.ops:
        needs: Axes = frozenset()
        for inner in op.walk():
            if isinstance(inner, IndexOp):
                needs |= of_loops({inner.dim.value.data})
            for operand in inner.operands:
                needs |= axes.get(operand, frozenset())
        for result in op.results:
            axes[result] = needs
    return axes
