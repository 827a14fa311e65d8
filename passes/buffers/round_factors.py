"""The pass `round-factors`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, ModuleOp, bf16, f32
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import KernelOp, loop_extents
from tensorgrad.dialects.short_floats import UNIT_ROUNDOFF
from tensorgrad.passes.analyses.axes import loops_of_operands
from tensorgrad.passes.analyses.factors import LEAST_REUSE, summed_product, unrounded
from tensorgrad.passes.analyses.kinds import contracts, is_contraction
from tensorgrad.passes.levels import KERNELS, Effect, LevelPass

ELEMENTS: dict[str, BFloat16Type] = {"bf16": bf16}
"""The element types that factors may be rounded to."""


@dataclass(frozen=True)
class RoundFactorsPass(LevelPass):
    """Rounds the factors of products to fewer bits; their sums stay in f32, and so does everything else.

    Expects kernels of `buf` after `fuse`. Guarantees that each matrix product and convolution of f32, those of
    derivatives included, of at least `LEAST_REUSE` rows and columns (for a convolution channels and positions)
    multiplies factors that were rounded to `element`, to nearest and ties to even. Where they are stored doesn't
    change. Other products, which take as long as their operands take to load, and attentions keep their factors.

    A CPU with dot products of pairs (`bf16_dot` of the target) multiplies rounded factors at twice the rate of f32.

    Attributes:
        element: The element type to round to: bf16.
    """

    name = "round-factors"
    levels = KERNELS

    element: str = "bf16"

    @property
    def effect(self) -> Effect:
        return Effect(rounds=UNIT_ROUNDOFF.get(self.element, 0.0))

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        element = ELEMENTS.get(self.element)
        if element is None:
            raise DiagnosticException(
                f"round-factors: element must be one of {', '.join(ELEMENTS)}, got {self.element!r}"
            )
        for kernel in op.walk():
            if isinstance(kernel, KernelOp):
                for stage in kernel.stages:
                    for factor, product in factors_to_round(stage, len(kernel.extents)):
                        _round(factor, product, element)


def factors_to_round(stage: GenericOp, rank: int) -> list[tuple[int, arith.MulfOp]]:
    """Returns the operands of a stage's product that aren't rounded yet, by position, each with the product.

    Args:
        stage: A stage of a kernel.
        rank: The number of the kernel's loops.
    """
    product = summed_product(stage) if is_contraction(stage, rank) else None
    if product is None or product.result.type != f32:
        return []
    loops = loops_of_operands(stage)
    grid, used = loop_extents(stage)[:rank], [loops.get(operand, frozenset[int]()) for operand in product.operands]
    reuse = [math.prod(extent for loop, extent in enumerate(grid) if loop not in each) for each in used]
    if not contracts(used, rank) or min(reuse) < LEAST_REUSE:
        return []
    return [(place, product) for place, operand in enumerate(product.operands) if unrounded(operand) is None]


def _round(place: int, product: arith.MulfOp, element: BFloat16Type) -> None:
    """Rounds an operand of a product, and extends it to f32 again."""
    value: SSAValue = product.operands[place]
    narrow = arith.TruncFOp(value, element)
    wide = arith.ExtFOp(narrow.result, f32)
    for op in (narrow, wide):
        op.location = product.location
    Rewriter.insert_op([narrow, wide], InsertPoint.before(product))
    product.operands[place] = wide.result
