"""The table of all rules, by the class of the op of `tg`."""

from __future__ import annotations

from xdsl.ir import Operation

from tensorgrad.passes.stablehlo.exporting import contract, control, elementwise, gamma, index, shape
from tensorgrad.passes.stablehlo.exporting.writer import Rule

FAMILIES = (elementwise, gamma, shape, contract, index, control)

RULES: dict[type[Operation], Rule] = {kind: rule for family in FAMILIES for kind, rule in family.RULES.items()}
"""The rule of each op; those without one, which pass data between processes, have no counterpart."""
