"""Lowers to native code one kernel at a time, so that each is compiled while the next is being lowered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.context import Context
from xdsl.dialects import llvm
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from tensorgrad.driver.compiling.running import Phases, run_pass
from tensorgrad.driver.storage.kernel_cache import KernelCache
from tensorgrad.passes.codegen.build_program import native_kernel
from tensorgrad.passes.codegen.common.lowering import KernelContext, KernelIdentity, WrittenKernel
from tensorgrad.passes.pipelines import Phase, start_of
from tensorgrad.runtime.program import Kernel


def write_by_kernel(
    module: ModuleOp,
    passes: Sequence[ModulePass],
    phases: Phases,
    compile_kernel: Callable[[Kernel, int], None],
    source: Callable[[], ModuleOp] | None = None,
) -> dict[str, Kernel]:
    """Runs the passes from `lower-buf-to-cpu` on; those after it run per kernel, as each is written.

    Kernels that an earlier compilation has written are read from disk instead.

    Args:
        module: The module after the passes before that one. Modified in place, to what `run_passes` would produce, but
            for kernels from disk, which are declared.
        passes: All passes in order; those after the lowering are local to a kernel.
        phases: Receives the time of each.
        compile_kernel: Called with each kernel and its number of bindings.
        source: Returns the original module, for the crash reproducer; without it none is written.

    Returns:
        The kernels, by name.

    Raises:
        ProgramError: A pass rejects the program; says which and why.
        CompilerError: A pass crashed; says which, and where the module before it was written.
    """
    lowering = start_of(Phase.DEVICE, passes)
    context = _ByKernel(passes, lowering, phases, compile_kernel, source)
    run_pass(module, passes, lowering, phases, context, source)
    return context.kernels


class _ByKernel(KernelContext):
    """Lowers each kernel as soon as it is written, and starts to compile it.

    Attributes:
        kernels: The kernels so far, by name.
    """

    def __init__(
        self,
        passes: Sequence[ModulePass],
        lowering: int,
        phases: Phases,
        compile_kernel: Callable[[Kernel, int], None],
        source: Callable[[], ModuleOp] | None,
    ):
        super().__init__()
        self.kernels: dict[str, Kernel] = {}
        self._passes = passes
        self._lowering = lowering
        self._phases = phases
        self._compile = compile_kernel
        self._source = source
        self._declared: set[str] = set()
        self._cache = KernelCache.from_environment(passes[lowering:])

    def written(self, kernel: WrittenKernel, identity: KernelIdentity | None) -> None:
        following = kernel.next_op
        assert following is not None  # the function
        kernel.detach()
        alone = ModuleOp([kernel])
        for number in range(self._lowering + 1, len(self._passes)):
            run_pass(alone, self._passes, number, self._phases, Context(), self._source)
        for op in list(alone.ops):
            op.detach()
            if isinstance(op, llvm.FuncOp):
                if op.body.blocks:
                    self._built(op, [mode.data for mode in cast("ArrayAttr[StringAttr]", kernel.access)], identity)
                elif op.sym_name.data in self._declared:  # a C library function that an earlier kernel calls too
                    continue
                self._declared.add(op.sym_name.data)
            Rewriter.insert_op(op, InsertPoint.before(following))

    def _built(self, function: llvm.FuncOp, access: Sequence[str], identity: KernelIdentity | None) -> None:
        with self._phases.measure("build"):
            kernel = self.kernels[function.sym_name.data] = native_kernel(function)
        self._compile(kernel, len(access))
        if self._cache is not None and identity is not None:
            with self._phases.measure("cache"):
                self._cache.write(identity, kernel, access)

    def recalled(self, identity: KernelIdentity) -> Callable[[str], Operation] | None:
        if self._cache is None:
            return None
        with self._phases.measure("cache"):
            cached = self._cache.read(identity)
        if cached is None:
            return None

        def named(name: str) -> Operation:
            kernel = self.kernels[name] = cached.kernel(name)
            self._compile(kernel, len(cached.access))
            return cached.declaration(name)

        return named
