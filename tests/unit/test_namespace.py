"""`import tensorgrad`: what it has, and what it does not load."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import tensorgrad as tg


def test_every_public_name_loads():
    for name in tg.__all__:
        assert getattr(tg, name) is not None
        assert name in dir(tg)


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(tg.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {alias.name for node in ast.walk(block) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert imported == set(tg.__all__)


def test_modules_do_not_hide_functions():
    """Importing a submodule sets an attribute of the package: no function may share its name."""
    folder = Path(tg.__file__).parent
    submodules = {path.stem for path in folder.glob("*.py")} | {"nn", "onnx", "dialects", "passes", "runtime", "tools"}
    assert submodules & set(tg.__all__) == {
        "callbacks",
        "data",
        "errors",
        "initializers",
        "nn",
        "onnx",
        "optim",
        "random",
    }


def test_importing_is_light():
    code = (
        "import sys, tensorgrad as tg; tg.nn.Linear(2, 2); tg.optim.adam(1e-3); tg.f32;"
        "print(sorted({'xdsl', 'wgpu', 'torch', 'safetensors', 'rich', 'onnx'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
