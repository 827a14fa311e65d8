"""Runs passes, timed by phase."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException, VerifyException

from tensorgrad.errors import CompilerError, NumericsError, ProgramError
from tensorgrad.passes.running import apply_pass, with_reproducer


@dataclass
class Phases:
    """How long each phase of a compilation took, in seconds, without the phases inside of it."""

    seconds: dict[str, float] = field(default_factory=dict)
    _inner: float = 0.0

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Adds the time of the block to a phase."""
        outer, self._inner = self._inner, 0.0
        start = time.perf_counter()
        try:
            yield
        finally:
            elapsed = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + elapsed - self._inner
            self._inner = outer + elapsed


def run_pass(
    module: ModuleOp,
    passes: Sequence[ModulePass],
    number: int,
    phases: Phases,
    context: Context,
    source: Callable[[], ModuleOp] | None = None,
) -> None:
    """Runs one pass of a sequence on a module; see `run_passes`.

    Raises:
        ProgramError: The pass refuses the program; says which and why.
        CompilerError: The pass crashed; says which, and where the module before it is.
    """
    with phases.measure(passes[number].name):
        try:
            apply_pass(passes, number, context, module, source)
        except DiagnosticException as error:
            raise ProgramError(str(error)) from error


def run_passes(
    module: ModuleOp,
    passes: Sequence[ModulePass],
    phases: Phases,
    verify: bool = True,
    source: Callable[[], ModuleOp] | None = None,
    before: Callable[[ModulePass, ModuleOp], None] | None = None,
    after: Callable[[ModulePass, ModuleOp], None] | None = None,
) -> None:
    """Runs passes on a module.

    Args:
        module: Is changed in place.
        passes: In order.
        phases: Takes the time of each.
        verify: Whether to verify what they leave.
        source: Returns the module as it was, for the file that a crash leaves; without it there is none.
        before: Is called with each pass and the module before it.
        after: Is called with each pass and the module that it has left.

    Raises:
        ProgramError: A pass refuses the program; says which and why.
        CompilerError: A pass crashed, or they left invalid IR; says which, and where the module before it is.
        NumericsError: `after` found that a pass has changed a value.
    """
    context = Context()
    for number, one in enumerate(passes):
        if before is not None:
            before(one, module)
        run_pass(module, passes, number, phases, context, source)
        if after is not None:
            with phases.measure("verify"):
                try:
                    after(one, module)
                except NumericsError as error:
                    raise with_reproducer(error, passes, number, source) from error
    if verify:
        with phases.measure("verify"):
            try:
                module.verify()
            except (DiagnosticException, VerifyException) as error:
                names = ", ".join(one.name for one in passes)
                raise CompilerError(f"the passes {names} left invalid IR: {error}") from error
