"""`expand-math`: expands elementary functions to polynomials and bits, where WGSL's builtins guarantee too little."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, f64
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException

from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.wgsl import RemFOp
from tensorgrad.passes.analyses.walking import operations
from tensorgrad.passes.codegen.common.bf16_bits import converts_bf16, expand_bf16, extends_vector
from tensorgrad.passes.codegen.common.elementary.exponentials import cosh, erf, exp, exp2, expm1, sinh, tanh
from tensorgrad.passes.codegen.common.elementary.inverse import acos, acosh, asin, asinh, atan, atan2, atanh
from tensorgrad.passes.codegen.common.elementary.logarithms import log, log1p, log2, powf
from tensorgrad.passes.codegen.common.elementary.trigonometric import cos, sin, tan
from tensorgrad.passes.codegen.common.exact_remainder import remainder
from tensorgrad.passes.levels import Level, LevelPass
from tensorgrad.passes.scalars import Formula, Value
from tensorgrad.runtime.target import WEBGPU_DEFAULT, Target

EXPANSIONS: dict[type[Operation], Callable[..., Value]] = {
    math.ExpOp: exp,
    math.Exp2Op: exp2,
    math.ExpM1Op: expm1,
    math.LogOp: log,
    math.Log2Op: log2,
    math.Log1pOp: log1p,
    math.PowFOp: powf,
    math.SinOp: sin,
    math.CosOp: cos,
    math.TanOp: tan,
    math.TanhOp: tanh,
    math.SinhOp: sinh,
    math.CoshOp: cosh,
    math.ErfOp: erf,
    math.AsinOp: asin,
    math.AcosOp: acos,
    math.AtanOp: atan,
    math.AsinhOp: asinh,
    math.AcoshOp: acosh,
    math.AtanhOp: atanh,
    math.Atan2Op: atan2,
}
"""The expansion of each op: a function from a formula and the operands to the result."""

NATIVE_EXPANSIONS: dict[type[Operation], Callable[..., Value]] = {**EXPANSIONS, RemFOp: remainder}
"""The expansions for CPUs, which have f64."""


def expand(op: Operation, native: bool = False) -> None:
    """Expands an op on f32 or, through f32, on f16; `native` selects the expansion for CPUs."""
    type_ = op.results[0].type
    formula = Formula(op.location, native)
    operands = [formula.value(operand) for operand in op.operands]
    if type_ != f32:
        operands = [operand.cast(arith.ExtFOp, f32) for operand in operands]
    result = (NATIVE_EXPANSIONS if native else EXPANSIONS)[type(op)](formula, *operands)
    if type_ == f16:
        result = result.cast(arith.TruncFOp, f16)
    Rewriter.insert_op(formula.ops, InsertPoint.before(op))
    Rewriter.replace_op(op, [], [result.ssa])


@dataclass(frozen=True)
class ExpandMathPass(LevelPass):
    """Expands the `math` ops whose WGSL builtin is less accurate than guaranteed here to `arith`, and bf16 to its bits.

    Expects scalar f32 and f16 ops, anywhere in the module. Guarantees that none of `EXPANSIONS` (in native code, of
    `NATIVE_EXPANSIONS`) is left, nor a conversion to or from bf16, that each result is within the bound stated in its
    function's docstring where the device keeps subnormals, that NaN, infinities and signed zeros are as in C, and that
    the new ops have the location of the old one. Left to the builtins: sqrt, rsqrt, floor and the like. In native code,
    f64 is left to the C library.

    Attributes:
        target: A device or a CPU.
    """

    name = "expand-math"
    levels = (Level.PLANNED, Level.WGSL, Level.CPU)

    target: Target = WEBGPU_DEFAULT

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        """Expands every op in `op` that has an expansion.

        Raises:
            PassFailedException: one has a type other than f32 and f16, or bf16 is converted from or to another type
                than f32; the module is unchanged then.
        """
        ops = list(operations(op.body.block))
        expansions = NATIVE_EXPANSIONS if self.target.native else EXPANSIONS
        expandable = [inner for inner in ops if type(inner) in expansions]
        if self.target.native:
            expandable = [inner for inner in expandable if inner.results[0].type != f64]
        for inner in expandable:
            type_ = inner.results[0].type
            if type_ not in (f32, f16):
                problem = f"expand-math supports f32 and f16, got {type_}"
                raise PassFailedException(f"{inner.name} at {line_of(inner.location)}: {problem}")
        conversions = [inner for inner in ops if converts_bf16(inner) and not extends_vector(inner)]
        for inner in conversions:
            types = {inner.operands[0].type, inner.results[0].type}
            if types != {bf16, f32}:
                problem = f"expand-math converts scalars between f32 and bf16, got {', '.join(sorted(map(str, types)))}"
                raise PassFailedException(f"{inner.name} at {line_of(inner.location)}: {problem}")
        for inner in expandable:
            expand(inner, self.target.native)
        for inner in reversed(conversions):  # extensions before what they extend
            expand_bf16(inner)
