"""`stablehlo` and `chlo`: what `jax.export` writes and XLA and IREE read, with the text that upstream prints."""

from __future__ import annotations

from xdsl.ir import Dialect

from tensorgrad.dialects.stablehlo import contract, control, elementwise, regions, shape
from tensorgrad.dialects.stablehlo.attributes import ATTRIBUTES
from tensorgrad.dialects.stablehlo.base import HloOp

OPS: tuple[type[HloOp], ...] = (*elementwise.OPS, *shape.OPS, *contract.OPS, *regions.OPS, *control.OPS)
"""The ops of the dialect `stablehlo`."""

Stablehlo = Dialect("stablehlo", [*OPS], [*ATTRIBUTES])
"""The dialect object that a context registers."""

Chlo = Dialect("chlo", [*elementwise.CHLO_OPS], [])
"""The dialect of the functions that JAX leaves to a client of StableHLO."""
