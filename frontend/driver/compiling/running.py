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
    """The time of each phase of a compilation in seconds, excluding nested phases."""

    seconds: dict[str, float] = field(default_factory=dict)
    _inner: float = 0.0

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Adds the time of the `with` block to a phase."""
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
        ProgramError: The pass rejects the program; says which and why.
        CompilerError: The pass crashed; says which, and where the module before it was written.
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
    after: Callable[[ModulePass, ModuleOp], None] | None = None,
    first: int = 0,
) -> None:
    """Runs passes on a module.

    Args:
        module: Modified in place.
        passes: In order.
        phases: Receives the time of each.
        verify: Whether to verify the module after them.
        source: Returns the original module, for the crash reproducer; without it none is written.
        after: Called with each pass and the module after it.
        first: The number of the first one that runs; those before it have run.

    Raises:
        ProgramError: A pass rejects the program; says which and why.
        CompilerError: A pass crashed or left invalid IR; says which, and where the module before it was written.
        NumericsError: `after` found that a pass changed a value.
    """
    context = Context()
    for number, pass_ in enumerate(passes[first:], first):
        run_pass(module, passes, number, phases, context, source)
        if after is not None:
            with phases.measure("verify"):
                try:
                    after(pass_, module)
                except NumericsError as error:
                    raise with_reproducer(error, passes, number, source) from error
    if verify:
        with phases.measure("verify"):
            try:
                module.verify()
            except (DiagnosticException, VerifyException) as error:
                names = ", ".join(stage.name for stage in passes)
                raise CompilerError(f"the passes {names} left invalid IR: {error}") from error
