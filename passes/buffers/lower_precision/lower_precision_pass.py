"""The pass `lower-precision`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.functions import defined_functions
from tensorgrad.dialects.short_floats import SHORT_FLOATS, UNIT_ROUNDOFF
from tensorgrad.passes.buffers.lower_precision.choose import chosen
from tensorgrad.passes.buffers.lower_precision.rewrite import retyped, rewrite
from tensorgrad.passes.levels import KERNELS, Effect, LevelPass


@dataclass(frozen=True)
class LowerPrecisionPass(LevelPass):
    """Stores temporary values of a network with fewer bits. Arithmetic stays in f32.

    Expects functions of `buf` in f32 after `fuse` and before `plan-memory`; other element types are left alone.
    Guarantees that only temporary buffers change, from f32 to `element`. A kernel extends what it loads from them, and
    rounds results that it computed in f32, sums included, when it stores them. Values that stay inside a kernel are not
    rounded. A value beyond the range of f16 (65504) is stored as an infinity, so that the overflow stays visible; bf16
    has the range of f32.

    Candidates are the values that depend on a product, convolution or attention and on which a result of role `output`
    depends: the activations, whether saved for the backward pass or not. Of these, the pass changes

    - results of products, convolutions and attentions;
    - results of elementwise ops, unless the last one is an exponential, logarithm or power;
    - maxima and minima of pooling windows.

    It doesn't change arguments of any role (parameters, optimizer state, inputs, outputs, returned gradients); values
    before the first product; sums, means, variances and other statistics of rows; the logarithms of an attention's
    sums; losses; values that loops carry; packed buffers; and values of fewer than `smallest` elements. Values that no
    output depends on (cotangents, gradients, updates) change only if `scale` is given.

    Attributes:
        element: The element type to store: f16, or bf16, which has the range of f32.
        smallest: The fewest elements of a buffer that is worth changing.
        scale: If positive, cotangents are stored with fewer bits too. Stores multiply them by this power of two, and
            loads divide by it. Exceptions are cotangents as large as a parameter, such as its gradient, those of an
            attention, and what optimizers compute: all values that depend on state, scalars, or products of
            parameters' gradients.
    """

    name = "lower-precision"
    levels = KERNELS

    element: str = "f16"
    smallest: int = 1024
    scale: float = 0.0

    @property
    def effect(self) -> Effect:
        return Effect(rounds=UNIT_ROUNDOFF.get(self.element, 0.0))

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        if self.element not in SHORT_FLOATS:
            raise DiagnosticException(
                f"lower-precision: element must be one of {', '.join(SHORT_FLOATS)}, got {self.element!r}"
            )
        if self.scale and (not 0 < self.scale < math.inf or math.frexp(self.scale)[0] != 0.5):
            raise DiagnosticException(f"lower-precision: scale must be a power of two, got {self.scale}")
        element = SHORT_FLOATS[self.element]
        scales: dict[SSAValue, float] = {}
        for value, scale in chosen(op, self.smallest, self.scale).items():
            for name in value.names:
                scales[retyped(name, element)] = scale
        if not scales:
            return
        for function in defined_functions(op):
            _follow(function)
            for kernel in function.body.block.ops:
                if isinstance(kernel, KernelOp) and kernel.single is None:  # the op itself extends and rounds
                    arguments: list[SSAValue] = [argument for argument in kernel.body.block.args if argument in scales]
                    rewrite(kernel, {argument: scales[argument] for argument in arguments}, element)


def _follow(function: FuncOp) -> None:
    """Updates a function's type to that of its arguments."""
    arguments: list[BlockArgument] = list(function.body.block.args)
    outputs = list(function.function_type.outputs)
    function.properties["function_type"] = FunctionType.from_lists([argument.type for argument in arguments], outputs)
