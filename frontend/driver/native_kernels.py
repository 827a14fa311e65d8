"""Lowers to native code one kernel at a time, so that each is compiled while the next is being lowered."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.context import Context
from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from tensorgrad.driver.running import Phases, run_pass, run_passes
from tensorgrad.passes.kernels.build_program import native_kernel
from tensorgrad.passes.kernels.writing.lowering import KernelContext, WrittenKernel
from tensorgrad.passes.pipelines import lowering_in
from tensorgrad.runtime.program import Kernel


def run_passes_by_kernel(
    module: ModuleOp,
    passes: Sequence[ModulePass],
    phases: Phases,
    compile_kernel: Callable[[Kernel, int], None],
    source: Callable[[], ModuleOp] | None = None,
) -> dict[str, Kernel]:
    """Runs the passes down to native code; those after `lower-buf-to-cpu` run per kernel, as each is written.

    Args:
        module: Modified in place, to what `run_passes` would produce.
        passes: In order; those after the lowering are local to a kernel.
        phases: Receives the time of each.
        compile_kernel: Called with each kernel and its number of bindings.
        source: Returns the original module, for the crash reproducer; without it none is written.

    Returns:
        The kernels, by name.

    Raises:
        ProgramError: A pass rejects the program; says which and why.
        CompilerError: A pass crashed; says which, and where the module before it was written.
    """
    lowering = lowering_in(passes)
    kernels: dict[str, Kernel] = {}
    declared: set[str] = set()

    def written(kernel: WrittenKernel) -> None:
        following = kernel.next_op
        assert following is not None  # the function
        kernel.detach()
        alone = ModuleOp([kernel])
        for number in range(lowering + 1, len(passes)):
            run_pass(alone, passes, number, phases, Context(), source)
        for op in list(alone.ops):
            op.detach()
            if isinstance(op, llvm.FuncOp):
                name = op.sym_name.data
                if op.body.blocks:
                    with phases.measure("build"):
                        kernels[name] = native_kernel(op)
                    compile_kernel(kernels[name], len(kernel.access))
                elif name in declared:  # a C library function that an earlier kernel calls too
                    continue
                declared.add(name)
            Rewriter.insert_op(op, InsertPoint.before(following))

    run_passes(module, passes[:lowering], phases, verify=False, source=source)
    run_pass(module, passes, lowering, phases, KernelContext(written), source)
    return kernels
