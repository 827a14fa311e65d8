"""What `tg-opt` prints beside its output: the module between passes, and the time of each pass."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from tensorgrad.runtime.errors import CompilerError, NumericsError
from tensorgrad.tools.pass_pipeline import FunctionPass


def names_of(pass_: ModulePass) -> tuple[str, str]:
    """Returns the names of a pass: that of its class, and its own; those of the pass inside for a nested one."""
    inner = pass_.inner if isinstance(pass_, FunctionPass) else pass_
    return type(inner).__name__, inner.name


@dataclass
class Dumps:
    """Prints the module before and after passes, to standard error, as `mlir-opt` does.

    Attributes:
        text: Returns a module as text.
        before: The names of the passes before which to print; `None` stands for all.
        after: The same for after.
        changed: Whether to print after a pass only what differs from the module before it.
        failed: Whether to print the module that a failed pass leaves.
    """

    text: Callable[[ModuleOp], str]
    before: frozenset[str] | None = frozenset()
    after: frozenset[str] | None = frozenset()
    changed: bool = False
    failed: bool = False
    _last: str | None = None

    def __call__(self, before: ModulePass | None, module: ModuleOp, after: ModulePass | None) -> None:
        """Prints what was asked for between two passes."""
        if before is not None and _among(self.after, before):
            text = self.text(module)
            if not self.changed or text != self._last:
                _print_dump("After", before, text)
        if self.changed:
            self._last = self.text(module)
        if after is not None and _among(self.before, after):
            _print_dump("Before", after, self.text(module))

    def fail(self, pass_: ModulePass, module: ModuleOp) -> None:
        """Prints the module after a pass that failed."""
        if self.failed:
            _print_dump("After", pass_, self.text(module), " Failed")


@dataclass
class Proofs:
    """Proves what holds of kernels as they are emitted, and of memory plans, and prints it to standard error.

    Attributes:
        apart: Whether to do so in a process of its own, as this one opens adapters.
    """

    apart: bool
    _any: bool = False

    def __call__(self, module: ModuleOp, after: ModulePass | None) -> None:
        """Proves what holds of a memory plan before its kernels are lowered, and of kernels once they are.

        Raises:
            CompilerError: A property doesn't hold; names the kernel, the access and an example. Or there is nothing to
                prove after the last pass, and was nothing before.
        """
        following = None if after is None else names_of(after)[1]
        if following is None or following.startswith("lower-buf-to-"):
            self._check_plan(module)
        if following in (None, "convert-to-llvm"):
            self._prove_kernels(module)
        if following is None and not self._any:
            raise CompilerError(
                "there is nothing to prove: memory plans are proved after plan-memory, and kernels after "
                "lower-buf-to-wgsl or lower-buf-to-cpu"
            )

    def _check_plan(self, module: ModuleOp) -> None:
        for function in module.ops:
            if isinstance(function, FuncOp) and _has(function, "buf.arena") and _has(function, "buf.kernel"):
                from tensorgrad.checks.certify import check_plan

                try:
                    check_plan(module, function.sym_name.data)
                except NumericsError as error:
                    raise CompilerError(f"memory plan of @{function.sym_name.data}: {error}") from error
                print(f"memory plan of @{function.sym_name.data} proved", file=sys.stderr)
                self._any = True

    def _prove_kernels(self, module: ModuleOp) -> None:
        if not _has(module, "wgsl.kernel", "cpu.kernel"):
            return
        self._any = True
        if self.apart:
            from tensorgrad.checks.proving.apart import prove_apart

            print(prove_apart(module), file=sys.stderr)
            return
        from tensorgrad.checks.proving.kernels import prove_module
        from tensorgrad.checks.proving.report import report

        proofs = prove_module(module)
        print(report(proofs), file=sys.stderr)
        for proof in proofs:
            for verdict in proof.refuted:
                raise CompilerError(f"kernel {proof.kernel}: {verdict.property.value}: {verdict.reason}")


def _has(op: Operation, *names: str) -> bool:
    """Returns whether an op holds ops of certain names."""
    return any(inner.name in names for inner in op.walk())


def _among(names: frozenset[str] | None, pass_: ModulePass) -> bool:
    return names is None or names_of(pass_)[1] in names


def _print_dump(when: str, pass_: ModulePass, text: str, suffix: str = "") -> None:
    kind, name = names_of(pass_)
    print(f"// -----// IR Dump {when} {kind}{suffix} ({name}) //----- //\n{text}\n", file=sys.stderr)


@dataclass
class Timing:
    """Measures passes, and prints a table of their times to standard error."""

    _start: float = 0.0
    _seconds: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])

    def start(self) -> None:
        """Starts the measurement of a pass."""
        self._start = time.perf_counter()

    def stop(self, pass_: ModulePass | None) -> None:
        """Ends the measurement of a pass, if one has run."""
        if pass_ is not None:
            self._seconds.append((names_of(pass_)[1], time.perf_counter() - self._start))

    def report(self) -> None:
        """Prints the table."""
        total = sum(seconds for _, seconds in self._seconds)
        print(f"  Total Execution Time: {total:.4f} seconds\n\n  ----Wall Time----  ----Name----", file=sys.stderr)
        for name, seconds in (*self._seconds, ("Total", total)):
            print(f"  {seconds:8.4f} ({seconds / total if total else 0:6.1%})  {name}", file=sys.stderr)
