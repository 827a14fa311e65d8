"""The public names are listed in stubs, `.pyi` files, which type checkers read; they are loaded by the same lists."""

from __future__ import annotations

import ast
import pkgutil


def listed(stub: str) -> dict[str, str]:
    """What a stub of this package imports: the module of each name.

    Args:
        stub: The file's path in the package, such as `__init__.pyi`.
    """
    source = pkgutil.get_data("tensorgrad", stub)
    assert source is not None, stub  # a package without its data is not installed
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom) and node.module]
    return {alias.name: str(node.module) for node in imports for alias in node.names}
