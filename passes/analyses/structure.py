"""Verification of what no op can check by itself, and xDSL's verifier doesn't."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from tensorgrad.dialects.functions import defined_functions
from tensorgrad.dialects.signature import Role, arguments_of, verify_signatures
from tensorgrad.passes.analyses.dominance import verify_dominance
from tensorgrad.runtime.errors import FormulaError
from tensorgrad.runtime.formula import Formula


def verify_structure(module: ModuleOp) -> None:
    """Checks that definitions dominate their uses, the signatures of functions, and the formulas of scalars.

    Raises:
        VerifyException: A use is not dominated, or a signature or a formula is invalid.
    """
    verify_dominance(module)
    verify_signatures(module)
    _verify_formulas(module)


def _verify_formulas(module: ModuleOp) -> None:
    for function in defined_functions(module):
        for number, slot in enumerate(arguments_of(function)):
            if slot.formula is None:
                continue
            where = f"@{function.sym_name.data}: argument {number}"
            if slot.role is not Role.SCALAR:
                raise VerifyException(f"{where}: only scalars have a formula, not {slot.role!r}")
            try:
                Formula(slot.formula)
            except FormulaError as error:
                raise VerifyException(f"{where}: {error}") from error
