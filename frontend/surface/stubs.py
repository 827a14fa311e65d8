"""Public names are listed in stubs, `.pyi` files, which type checkers read; the same lists drive lazy loading."""

from __future__ import annotations

import ast
import pkgutil


def listed(stub: str) -> dict[str, str]:
    """Returns the module of each name that a stub of this package exports: by `import x as x`, or inside a class.

    Args:
        stub: The file's path in the package, such as `__init__.pyi`.
    """
    source = pkgutil.get_data("tensorgrad", stub)
    assert source is not None, stub  # a package without its data is not installed
    tree = ast.parse(source)
    results: dict[str, str] = {}
    for scope in (tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))):
        for node in scope.body:
            if isinstance(node, ast.ImportFrom) and node.module:
                results |= {alias.name: node.module for alias in node.names if alias.asname or scope is not tree}
    return results
