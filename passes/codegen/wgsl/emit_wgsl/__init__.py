"""Emission of WGSL text from `wgsl` kernels: a pure printer.

The text of a kernel depends on its structure only: identifiers are generated, so two kernels that differ only in name
hints and locations differ only in the entry point's name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, ClassVar, Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException
from xdsl.utils.target import Target as XdslTarget

from tensorgrad.dialects.wgsl import KernelOp
from tensorgrad.passes.codegen.wgsl.emit_wgsl.printer import ShaderTarget, kernel_text, line_origins
from tensorgrad.passes.codegen.wgsl.emit_wgsl.text import EmitError

__all__ = ["EmitError", "ShaderTarget", "WgslTarget", "emit_kernel", "emit_module", "line_origins"]


def emit_kernel(kernel: KernelOp, target: ShaderTarget | None = None) -> str:
    """Returns a complete WGSL module for one kernel, whose entry point has the kernel's name.

    Args:
        kernel: A kernel that verifies, with linear indices.
        target: Says whether f16, subgroups and i64 exist and how to enable them; by default all do, as in Naga.

    Returns:
        WGSL text: bindings `b0`, `b1`, ... in group 0, in the order of the block's arguments.

    Raises:
        EmitError: WGSL or the target can't express an op or a type; has its location.
    """
    return kernel_text(kernel, target)


def emit_module(module: ModuleOp, target: ShaderTarget | None = None) -> str:
    """Returns the text of every kernel in `module`, each below a comment with its name.

    Each kernel's part is a WGSL module of its own; the concatenation is only for reading, since each has a binding 0.

    Raises:
        EmitError: as `emit_kernel`.
    """
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    return "\n".join(f"// kernel: {kernel.sym_name.data}\n{emit_kernel(kernel, target)}" for kernel in kernels)


@dataclass(frozen=True)
class _Assumed:
    """A target that has every feature of a shader dialect."""

    shader_dialect: str
    int64: bool
    f16: bool = True
    subgroups: bool = True


@dataclass(frozen=True)
class WgslTarget(XdslTarget):
    """`tg-opt -t wgsl`: the text of every kernel; `-t 'wgsl{dialect=standard}'` for browsers and Dawn."""

    name: ClassVar[str] = "wgsl"

    dialect: Literal["naga", "standard"] = "naga"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        """Writes `emit_module` of `module` to `output`."""
        if not any(isinstance(op, KernelOp) for op in module.walk()):
            raise DiagnosticException("the target wgsl prints wgsl.kernel ops and the module has none: lower it first")
        print(emit_module(module, _Assumed(self.dialect, int64=self.dialect == "naga")), end="", file=output)
