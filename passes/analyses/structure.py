"""Verification of what no op can check by itself, and xDSL's verifier doesn't."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from tensorgrad.dialects.signature import verify_signatures
from tensorgrad.passes.analyses.dominance import verify_dominance


def verify_structure(module: ModuleOp) -> None:
    """Checks that definitions dominate their uses, and the signatures of functions.

    Raises:
        VerifyException: A use is not dominated, or a signature is invalid.
    """
    verify_dominance(module)
    verify_signatures(module)
