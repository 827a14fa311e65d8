"""The assembly of native kernels: `tg-opt -t asm`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

from tensorgrad.passes.codegen.llvm.emit_llvm import emit_function, functions_of
from tensorgrad.runtime.cpu.code import assembly


@dataclass(frozen=True)
class AssemblyTarget(Target):
    """Prints the assembly of each kernel function of a module, for this machine's CPU."""

    name = "asm"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        """Writes the functions, in order.

        Raises:
            DiagnosticException: The module has no kernel functions.
            DeviceError: LLVM rejects a function, or can't generate code for this CPU.
        """
        for function in functions_of(module, self.name):
            output.write(assembly(emit_function(function)))
