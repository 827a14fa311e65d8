"""`import tensorgrad`: its names, and what it does not import."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import inspect
import pickle
import pydoc
import subprocess
import sys
from pathlib import Path
from typing import Any

import tensorgrad as tg
from tensorgrad.surface.stubs import listed as listed_in_package

FOLDER = Path(tg.__file__).parent
ANY_IN_SIGNATURES = 32


def listed(stub: str) -> list[tuple[str, str]]:
    """Returns the names that a stub exports, by `import x as x` or inside a class, with their modules."""
    tree = ast.parse((FOLDER / stub).read_text(encoding="utf-8"))
    scopes = [tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))]
    imports = [(scope, node) for scope in scopes for node in scope.body if isinstance(node, ast.ImportFrom)]
    assert all(alias.asname in (None, alias.name) for _, node in imports for alias in node.names)
    return [
        (alias.name, str(node.module))
        for scope, node in imports
        for alias in node.names
        if alias.asname or scope is not tree
    ]


def test_the_stub_lists_what_there_is() -> None:
    names = listed("__init__.pyi")
    assert len(dict(names)) == len(names), "each name has one home"
    for name, home in names:
        value = getattr(tg, name)
        found = getattr(importlib.import_module(home), name)
        assert value is found or inspect.unwrap(value) is inspect.unwrap(found)
    others = listed_in_package("__init__.pyi")[1]  # see test_foreign_names.py
    assert dir(tg) == sorted([*dict(names), *others, "__version__"])
    assert vars(tg)["__all__"] == sorted([*dict(names), *others])


def test_modules_list_what_they_export() -> None:
    modules = (
        tg.nn,
        tg.optim,
        tg.optim.schedules,
        tg.random,
        tg.callbacks,
        tg.data,
        tg.distributed,
        tg.fft,
        tg.initializers,
        tg.linalg,
        tg.models,
        tg.onnx,
        tg.testing,
    )
    for module in modules:
        names = dir(module)
        values = {name: vars(module)[name] for name in names}
        assert values and not any(name.startswith("_") for name in values) and "publish" not in values
        assert [name for name, value in values.items() if inspect.ismodule(value)] in ([], ["schedules"])


def test_every_listed_method_is_one() -> None:
    names = listed("surface/methods.pyi")
    assert len(dict(names)) == len(names)
    x = tg.array([[2.0, 1.0]])
    for name, home in names:
        assert inspect.unwrap(getattr(tg.Tensor, name)) is inspect.unwrap(getattr(importlib.import_module(home), name))
        assert getattr(x, name).__self__ is x and name in dir(x) and name in dir(tg.Tensor)
        assert name.isidentifier() and getattr(tg, name) is getattr(tg.Tensor, name), "a method is a function too"


def test_help_shows_signature_and_documentation() -> None:
    for function in (tg.sum, tg.Tensor.sum, tg.ones(2).sum):
        text = pydoc.plain(pydoc.render_doc(function))
        assert "keepdims" in text and "Returns the sum along `axis`" in text
    assert "softmax(" in pydoc.plain(pydoc.render_doc(tg.Tensor))


def test_public_functions_are_pickled_by_their_public_names() -> None:
    for function in (
        tg.relu,
        tg.Tensor.sum,
        tg.nn.from_torch,
        tg.optim.schedules.cosine,
        tg.random.normal,
        tg.linalg.inv,
    ):
        assert pickle.loads(pickle.dumps(function)) is function


def test_the_version_is_the_package_s() -> None:
    assert tg.__version__ == importlib.metadata.version("tensorgrad-xdsl")
    assert "__version__" in dir(tg)


def test_everything_can_be_imported_at_once() -> None:
    names: dict[str, Any] = {}
    exec("from tensorgrad import *", names)
    assert names["softmax"].__name__ == "softmax" and callable(names["Tensor"].softmax)


def test_modules_do_not_hide_functions():
    """Importing a submodule sets an attribute of the package, so no function may have its name."""
    submodules = {path.stem for path in FOLDER.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert submodules & set(dir(tg)) == {
        "array_api",
        "callbacks",
        "data",
        "distributed",
        "errors",
        "fft",
        "initializers",
        "linalg",
        "models",
        "nn",
        "onnx",
        "optim",
        "random",
        "testing",
    }


def test_importing_is_light():
    code = (
        "import sys, tensorgrad as tg; tg.f32, tg.errors, tg.load; dir(tg);"
        "print(sorted({'xdsl', 'wgpu', 'torch', 'safetensors', 'rich', 'onnx'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_any_is_rare_in_public_signatures() -> None:
    """Counts the arguments and results of type Any; lower the number when there are fewer."""
    modules = (
        tg,
        *(getattr(tg, name) for name in ("nn", "optim", "random", "data", "initializers", "linalg", "fft", "testing")),
    )
    public = (getattr(module, name) for module in modules for name in dir(module))
    functions = {inspect.unwrap(value) for value in public if inspect.isroutine(value)}
    signatures = [inspect.signature(function) for function in functions]
    annotations = [
        annotation
        for signature in signatures
        for annotation in (*(one.annotation for one in signature.parameters.values()), signature.return_annotation)
    ]
    count = annotations.count("Any")
    assert count <= ANY_IN_SIGNATURES, f"{count}: say what an argument may be, such as `tracing.likes.TensorLike`"
