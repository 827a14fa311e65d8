"""The ops that mean the same in `tg` and in StableHLO: one table for both directions."""

from __future__ import annotations

from tensorgrad.dialects.tg.base import TensorOp
from tensorgrad.dialects.tg.elementwise import arithmetic, functions, gamma
from tensorgrad.dialects.tg.random import ErfinvOp
from tensorgrad.dialects.tg.reduce import MaxOp, MinOp, ProdOp, ReduceOp, SumOp

ELEMENTWISE: dict[str, type[TensorOp]] = {
    "stablehlo.abs": arithmetic.AbsOp,
    "stablehlo.ceil": functions.CeilOp,
    "stablehlo.cosine": functions.CosOp,
    "stablehlo.exponential": functions.ExpOp,
    "stablehlo.exponential_minus_one": functions.Expm1Op,
    "stablehlo.floor": functions.FloorOp,
    "stablehlo.is_finite": functions.IsFiniteOp,
    "stablehlo.log": functions.LogOp,
    "stablehlo.log_plus_one": functions.Log1pOp,
    "stablehlo.logistic": functions.SigmoidOp,
    "stablehlo.negate": arithmetic.NegOp,
    "stablehlo.not": arithmetic.NotOp,
    "stablehlo.round_nearest_even": functions.RoundOp,
    "stablehlo.sine": functions.SinOp,
    "stablehlo.sqrt": functions.SqrtOp,
    "stablehlo.tan": functions.TanOp,
    "stablehlo.tanh": functions.TanhOp,
    "stablehlo.add": arithmetic.AddOp,
    "stablehlo.and": arithmetic.AndOp,
    "stablehlo.atan2": functions.Atan2Op,
    "stablehlo.divide": arithmetic.DivOp,
    "stablehlo.maximum": arithmetic.MaximumOp,
    "stablehlo.minimum": arithmetic.MinimumOp,
    "stablehlo.multiply": arithmetic.MulOp,
    "stablehlo.or": arithmetic.OrOp,
    "stablehlo.power": arithmetic.PowOp,
    "stablehlo.shift_left": arithmetic.ShiftLeftOp,
    "stablehlo.subtract": arithmetic.SubOp,
    "stablehlo.xor": arithmetic.XorOp,
    "chlo.acos": functions.AcosOp,
    "chlo.acosh": functions.AcoshOp,
    "chlo.asin": functions.AsinOp,
    "chlo.asinh": functions.AsinhOp,
    "chlo.atan": functions.AtanOp,
    "chlo.atanh": functions.AtanhOp,
    "chlo.cosh": functions.CoshOp,
    "chlo.erf": functions.ErfOp,
    "chlo.erf_inv": ErfinvOp,
    "chlo.erfc": functions.ErfcOp,
    "chlo.lgamma": gamma.LgammaOp,
    "chlo.sinh": functions.SinhOp,
}
"""For each elementwise op of StableHLO, the op of `tg` that means the same, on numbers."""

STOP_GRADIENT = "tensorgrad.stop_gradient"
"""The name of a composite that is the identity, and that derivatives stop at."""

RELU = "tensorgrad.relu"
"""The name of a composite that is the maximum of its operand and 0, whose derivative at 0 is 0."""

RULE = "tensorgrad.rule."
"""How the names of composites begin that become calls: their derivatives are known to who wrote them."""

COMPOSITES = frozenset({*ELEMENTWISE, RELU, STOP_GRADIENT, "chlo.digamma"})
"""The composites that are ops: they are not decomposed."""

REDUCTIONS: dict[str, type[ReduceOp]] = {
    "stablehlo.add": SumOp,
    "stablehlo.maximum": MaxOp,
    "stablehlo.minimum": MinOp,
    "stablehlo.multiply": ProdOp,
}
"""For each op that a reduction of numbers applies, the reduction."""

ON_BOOLEANS: dict[str, type[TensorOp]] = {
    "stablehlo.add": arithmetic.OrOp,
    "stablehlo.maximum": arithmetic.OrOp,
    "stablehlo.minimum": arithmetic.AndOp,
    "stablehlo.multiply": arithmetic.AndOp,
}
"""What ops on numbers mean on booleans."""

SCATTERS = {
    "stablehlo.add": "sum",
    "stablehlo.multiply": "prod",
    "stablehlo.maximum": "max",
    "stablehlo.minimum": "min",
}
"""For each op that combines updates in a scatter of StableHLO, the reduction of the scatter of `tg`."""
