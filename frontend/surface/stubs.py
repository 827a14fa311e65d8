"""Public names are listed in stubs, `.pyi` files, which type checkers read; the same lists drive lazy loading."""

from __future__ import annotations

import ast
import pkgutil


def listed(stub: str) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the names that a stub of this package exports.

    Args:
        stub: The file's path in the package, such as `__init__.pyi`.

    Returns:
        The module of each name that is exported by `import x as x`, or by an import inside a class; and by each further
        name, assigned as `y = x`, the one that it stands for.
    """
    source = pkgutil.get_data("tensorgrad", stub)
    assert source is not None, stub  # a package without its data is not installed
    tree = ast.parse(source)
    modules: dict[str, str] = {}
    others: dict[str, str] = {}
    for scope in (tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))):
        for node in scope.body:
            if isinstance(node, ast.ImportFrom) and node.module:
                modules |= {alias.name: node.module for alias in node.names if alias.asname or scope is not tree}
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
                others |= {target.id: node.value.id for target in node.targets if isinstance(target, ast.Name)}
    return modules, others
