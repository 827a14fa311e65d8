"""The pass `lower-precision`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp, f16
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import KernelOp
from tensorgrad.passes.buffers.lower_precision.choose import chosen
from tensorgrad.passes.buffers.lower_precision.rewrite import retyped, rewrite
from tensorgrad.passes.levels import KERNELS, LevelPass

ELEMENTS = {"f16": f16}
"""The element types that values may be stored with."""


@dataclass(frozen=True)
class LowerPrecisionPass(LevelPass):
    """Stores what a network computes between its kernels with fewer bits. Arithmetic stays as it is.

    Expects functions of `buf` in f32 behind `fuse`, before `plan-memory`; other element types stay. Guarantees that
    only temporary buffers change, from f32 to `element`: where a kernel reads one, it extends what it loads, and where
    it writes one, it rounds what it computed in f32, sums included. Values that stay inside of a kernel are not
    rounded. A value beyond what f16 holds (65504) is stored as an infinity, which stays visible.

    These values change: those that results of role `output` depend on, behind a product or convolution or attention
    (activations, saved for the derivative or not), and of them

    - results of products, convolutions and attentions;
    - what is computed element by element, unless it ends in an exponential, logarithm or power;
    - maxima and minima of pooling windows.

    These stay: arguments of every role (parameters, optimizer state, inputs, outputs, gradients that are returned);
    what stands before the first product; sums, means, variances and other statistics of rows, the logarithms of an
    attention's sums; losses; what loops carry; packed buffers; and all with fewer than `smallest` elements. What no
    output depends on (cotangents, gradients, updates) stays too, unless `scale` is given.

    Attributes:
        element: What to store: f16.
        smallest: The fewest elements of a buffer that are worth it.
        scale: If positive, cotangents are stored with fewer bits too, each multiplied by this power of two, which
            loads take back; but for those as large as a parameter, such as its gradient, those of an attention, and
            what optimizers compute: all behind state, scalars, and products of gradients of parameters.
    """

    name = "lower-precision"
    levels = KERNELS

    element: str = "f16"
    smallest: int = 1024
    scale: float = 0.0

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        if self.element not in ELEMENTS:
            raise DiagnosticException(f"lower-precision stores {', '.join(ELEMENTS)}, not {self.element!r}")
        if self.scale and (not 0 < self.scale < math.inf or math.frexp(self.scale)[0] != 0.5):
            raise DiagnosticException(f"lower-precision multiplies by a power of two, not {self.scale}")
        element = ELEMENTS[self.element]
        scales: dict[SSAValue, float] = {}
        for value, scale in chosen(op, self.smallest, self.scale).items():
            for name in value.names:
                scales[retyped(name, element)] = scale
        if not scales:
            return
        for function in op.ops:
            if isinstance(function, FuncOp) and function.body.blocks:
                _follow(function)
                for kernel in function.body.block.ops:
                    if isinstance(kernel, KernelOp) and kernel.single is None:  # which extends and rounds by itself
                        arguments: list[SSAValue] = [one for one in kernel.body.block.args if one in scales]
                        rewrite(kernel, {one: scales[one] for one in arguments}, element)


def _follow(function: FuncOp) -> None:
    """Lets a function's type follow its arguments."""
    arguments: list[BlockArgument] = list(function.body.block.args)
    outputs = list(function.function_type.outputs)
    function.properties["function_type"] = FunctionType.from_lists([one.type for one in arguments], outputs)
