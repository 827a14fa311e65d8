"""Finds a module's functions."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import DiagnosticException


def find_function(module: ModuleOp, name: str | None) -> FuncOp:
    """Returns the function named `name`, or the only public function if `name` is `None`.

    Raises:
        DiagnosticException: There is no such function, or more than one to choose from.
    """
    functions = defined_functions(module)
    names = [function.sym_name.data for function in functions]
    public = [function for function in functions if not is_private(function)]
    if name is None and len(public) == 1:
        return public[0]
    if name is None or name not in names:
        expected = "exactly one function" if name is None else f"a function @{name}"
        raise DiagnosticException(f"expected {expected}, the module has {', '.join(names) or 'none'}")
    return functions[names.index(name)]


def defined_functions(module: ModuleOp) -> list[FuncOp]:
    """Returns the functions of a module that have a body, in order."""
    return [op for op in module.ops if isinstance(op, FuncOp) and not op.is_declaration]


def is_private(function: FuncOp) -> bool:
    """Returns whether a function is private: only other functions of the module run it."""
    return function.sym_visibility is not None and function.sym_visibility.data == "private"
