"""Checks a module after each pass: of passes that a user has edited its IR, with `verify` its values too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException, VerifyException

from tensorgrad.driver.compiling.recipe import Recipe
from tensorgrad.driver.compiling.running import Phases
from tensorgrad.errors import CompilerError, NumericsError
from tensorgrad.passes.analyses.structure import verify_structure
from tensorgrad.passes.pipelines import Phase, start_of
from tensorgrad.passes.running import with_reproducer

if TYPE_CHECKING:
    from tensorgrad.checks.numerics import NumericsVerifier


@dataclass(frozen=True)
class PassChecks:
    """The checks of one run of the passes.

    Attributes:
        is_edited: Whether a user has edited the passes, so that each must leave valid IR.
        verifier: Compares values, if the recipe asks for it.
    """

    is_edited: bool
    verifier: NumericsVerifier | None

    @classmethod
    def of(cls, recipe: Recipe, module: ModuleOp, phases: Phases) -> PassChecks:
        """Returns the checks that a recipe asks for, of a module before its first pass."""
        is_edited = recipe.edit_passes is not None
        if not recipe.verify:
            return cls(is_edited, None)
        from tensorgrad.checks.numerics import NumericsVerifier

        with phases.measure("verify"):
            return cls(is_edited, NumericsVerifier(module, recipe.name))

    def after(self, applied: ModulePass, module: ModuleOp) -> None:
        """Checks the module after a pass.

        Raises:
            CompilerError: It is invalid.
            NumericsError: Its values have changed.
        """
        if self.is_edited:
            try:
                module.verify()
                verify_structure(module)
            except (DiagnosticException, VerifyException) as error:
                raise CompilerError(f"{applied.name} left invalid IR: {error}") from error
        if self.verifier is not None:
            self.verifier.check(applied, module)

    def kernels(
        self, module: ModuleOp, passes: Sequence[ModulePass], source: Callable[[], ModuleOp], phases: Phases
    ) -> None:
        """Compares each kernel of a device with `buf`, and proves what holds of it for all data.

        Args:
            module: The module after all passes.
            passes: The passes from `tg` down.
            source: Returns the module before them, for the reproducer.
            phases: Receives the time.

        Raises:
            NumericsError: A kernel's result differs, or a proof finds a fault.
        """
        if self.verifier is None:
            return
        with phases.measure("verify"):
            try:
                self.verifier.check_kernels(module)
                self.verifier.prove_kernels()
            except NumericsError as error:
                raise with_reproducer(error, passes, start_of(Phase.DEVICE, passes), source) from error
