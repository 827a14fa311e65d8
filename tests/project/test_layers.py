"""Which module may import which: packages, their order, and no cycle of any kind."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Mapping

import pytest
from layers import MODULES, ROOT, imports

PLAIN_DATA = tuple(f"runtime.{name}" for name in ("program", "target", "formula", "errors", "files"))
"""What the compiler writes for the runtime, how it writes files, and what else it knows of it."""

REWRITING = ("passes.levels", "passes.functions", "passes.scalars", "passes.labels", "passes.rewriting")
BELOW_CODEGEN = ("dialects", *PLAIN_DATA, *REWRITING, "passes.analyses", "passes.tensors")
TRACING = ("errors", "surface", "tracing", "dialects", "interpreters", "runtime")
FUNCTIONS = (*TRACING, "ops", "transforms")
DRIVER_OPTIONS = ("driver.device", "driver.device_loss", "driver.precision")

MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "dialects": (),
    "runtime": (),
    "web": (),
    "interpreters": ("dialects", "runtime"),
    "passes.levels": ("dialects", *PLAIN_DATA),
    "passes.functions": ("dialects", *PLAIN_DATA),
    "passes.scalars": ("dialects",),
    "passes.rewriting": (),
    "passes.labels": ("dialects",),
    "passes.analyses": ("dialects", *PLAIN_DATA, *REWRITING),
    "passes.tensors": ("dialects", *PLAIN_DATA, *REWRITING, "passes.analyses"),
    "passes.stablehlo": ("dialects", *PLAIN_DATA, *REWRITING, "passes.tensors.batch"),
    "passes.codegen.common": BELOW_CODEGEN,
    "passes.codegen.transforms": (*BELOW_CODEGEN, "passes.codegen.common"),
    "passes.codegen.wgsl": (*BELOW_CODEGEN, "passes.codegen.common"),
    "passes.codegen.llvm": (*BELOW_CODEGEN, "passes.codegen.common", "passes.codegen.transforms"),
    "passes.codegen": BELOW_CODEGEN,
    "passes.buffers": (*BELOW_CODEGEN, "passes.codegen"),
    "passes": ("dialects", *PLAIN_DATA),
    "checks": ("errors", "surface", "dialects", "interpreters", "passes", "runtime", "driver.device"),
    "errors": ("runtime.errors",),
    "surface": ("errors", "runtime.errors", "runtime.tracebacks"),
    "tracing": TRACING,
    "transforms": (*TRACING, "passes.tensors", "passes.analyses"),
    "ops": FUNCTIONS,
    "eager": (*FUNCTIONS, "passes.tensors"),
    "nn": (*FUNCTIONS, "", "initializers"),
    "optim": (*FUNCTIONS, "", "nn", "passes"),
    "report": ("errors", "dialects", "runtime", "passes"),
    "array_api": FUNCTIONS,
    "driver.device": ("errors", "runtime"),
    "driver.storage": (*TRACING, "ops", "nn", "optim", "passes", "web"),
    "driver.compiling": (*TRACING, "passes", "checks", "report", "driver.device", "driver.storage"),
    "driver.stepping": (*FUNCTIONS, "nn", "optim", "passes", "checks", *DRIVER_OPTIONS, "driver.compiling"),
    "driver": (*FUNCTIONS, "eager", "nn", "optim", "passes", "checks", "report", "web"),
    "train": (*FUNCTIONS, "driver", "nn", "optim"),
    "importers": (*FUNCTIONS, "", "nn", "passes.stablehlo"),
    "models": (*FUNCTIONS, "", "nn"),
    "exporters": (*FUNCTIONS, "nn", "driver", "passes.functions"),
    "onnx": ("surface", "importers.onnx", "exporters.onnx"),
    "callbacks": ("surface", "train"),
    "data": ("surface", "train"),
    "distributed": ("errors", "surface", "tracing", "runtime"),
    "initializers": ("surface", "nn"),
    "fft": ("surface", "ops"),
    "linalg": ("surface", "ops"),
    "random": ("surface", "ops"),
    "logs": ("errors",),
    "testing": FUNCTIONS,
    "": ("surface", "logs", "runtime.tracebacks"),
    "tools": ("",),
    "lab": ("",),
}
"""For each room, the rooms of ours that it may import besides itself; "" is the public API, or all for tools and lab.

Layers, optimizers, models and the importers are written as a user would write them: they are clients of the public API.
"""

LAZY = ("", "surface", "tools", "passes.registry", "passes.pipelines", "driver.compiling", "report")
"""Where modules load when they are first used: the edges of the package, the passes, and what draws pages.

The device "numpy" needs none of the passes below tensors, which take longer to load than a small model to compile.
"""

OPTIONAL = (
    "wgpu",
    "llvmlite",
    "runtime.webgpu",
    "onnx",
    "matplotlib",
    "rich",
    "tensorboard",
    "tokenizers",
    "gguf",
    "torch",
    "safetensors",
    "jax",
    "mpi4py",
    "vl_convert",
)
"""What may be missing where it is not used; the driver of wgpu imports it."""


def ours(module: str) -> str | None:
    """Returns a module's name within the package, or `None` if it is not part of it."""
    if module != "tensorgrad" and not module.startswith("tensorgrad."):
        return None
    return module.removeprefix("tensorgrad").removeprefix(".")


def is_below(name: str, room: str) -> bool:
    """Returns whether a name is a package or lies in it; only the top-level package lies in ""."""
    return name == room or (room != "" and name.startswith(room + "."))


def room_of(name: str) -> str:
    """Returns the innermost listed package of a module."""
    return max((room for room in MAY_IMPORT if is_below(name, room)), key=len)


def is_violation(importer: str, imported: str) -> bool:
    """Returns whether the table forbids one module to import another."""
    home, found = ours(importer), ours(imported)
    assert home is not None
    if imported.partition(".")[0] == "wgpu":
        return not is_below(home, "runtime.webgpu")
    if imported.partition(".")[0] == "xdsl":
        return is_below(home, "runtime")
    if found is None:
        return False
    room = room_of(home)
    if room in ("tools", "lab"):
        return False
    allowed = (room, *MAY_IMPORT[room])
    if room == "passes":  # the pipelines are above all rooms of passes
        allowed = (*allowed, *(name for name in MAY_IMPORT if name.startswith("passes.")))
    return not any(is_below(found, one) for one in allowed)


def test_rooms() -> None:
    violations = [
        f"{path.relative_to(ROOT)}:{found.line}: {name} must not import {found.name}"
        for name, (_, path) in MODULES.items()
        for found in imports(name, path)
        if is_violation(name, found.name)
    ]
    assert not violations, "\n".join(violations)


@pytest.mark.parametrize(
    ("importer", "imported", "expected"),
    [
        ("tensorgrad.dialects", "tensorgrad.passes.tensors.grad", True),
        ("tensorgrad.dialects", "tensorgrad.runtime.errors", True),
        ("tensorgrad.dialects", "tensorgrad.dialects.tg", False),
        ("tensorgrad.dialects", "numpy", False),
        ("tensorgrad.passes.pipelines", "tensorgrad.runtime.program", False),
        ("tensorgrad.passes.pipelines", "tensorgrad.passes.buffers.fuse", False),
        ("tensorgrad.passes.tensors", "tensorgrad.passes.pipelines", True),
        ("tensorgrad.passes.stablehlo.tg_to_stablehlo", "tensorgrad.passes.tensors.grad", True),
        ("tensorgrad.importers.stablehlo.reading", "tensorgrad.passes.stablehlo.stablehlo_to_tg", False),
        ("tensorgrad.passes.tensors", "tensorgrad.passes.buffers.fuse", True),
        ("tensorgrad.passes.codegen.choose", "tensorgrad.passes.buffers.schedule", True),
        ("tensorgrad.passes.codegen.choose", "tensorgrad.passes.codegen.wgsl.thread_schedule", False),
        ("tensorgrad.passes.codegen.common.kernel_code", "tensorgrad.passes.codegen.wgsl.stages", True),
        ("tensorgrad.passes.codegen.wgsl.stages", "tensorgrad.passes.codegen.common.kernel_code", False),
        ("tensorgrad.passes.codegen.wgsl.contraction", "tensorgrad.passes.codegen.llvm.packed", True),
        ("tensorgrad.passes.pipelines", "tensorgrad.runtime.webgpu", True),
        ("tensorgrad.passes.pipelines", "tensorgrad", True),
        ("tensorgrad.passes.pipelines", "wgpu.backends", True),
        ("tensorgrad.runtime", "tensorgrad.dialects", True),
        ("tensorgrad.runtime", "xdsl.ir", True),
        ("tensorgrad.interpreters.compiled", "tensorgrad.runtime.errors", False),
        ("tensorgrad.tracing.tracer", "tensorgrad.nn.module", True),
        ("tensorgrad.tracing.tracer", "tensorgrad.ops.shape", True),
        ("tensorgrad.nn.module", "tensorgrad.driver.compile", True),
        ("tensorgrad.driver.compiling.lowering", "tensorgrad.passes.tensors.grad", False),
        ("tensorgrad.driver.compiling.lowering", "tensorgrad.train.fit", True),
        ("tensorgrad.driver.compiling.lowering", "tensorgrad.tools.tg", True),
        ("tensorgrad.interpreters.buffers", "tensorgrad.checks.certify", True),
        ("tensorgrad.driver.compiling.lowering", "tensorgrad.driver.storage.program_cache", False),
        ("tensorgrad.driver.storage.program_cache", "tensorgrad.driver.compiling.lowering", True),
        ("tensorgrad.driver.stepping.step_programs", "tensorgrad.driver.handles.training", True),
        ("tensorgrad.checks.numerics", "tensorgrad.driver.device", False),
        ("tensorgrad.checks.numerics", "tensorgrad.driver.compiling.lowering", True),
        ("tensorgrad.checks.reduction.search", "tensorgrad.tools.parsing", True),
        ("tensorgrad.tools.tg", "tensorgrad.passes", False),
    ],
)
def test_the_rule_itself(importer: str, imported: str, expected: bool) -> None:
    assert is_violation(importer, imported) is expected


def test_imports_stand_at_the_top() -> None:
    """Except imports of optional packages, and those at the package's listed lazy edges."""
    found = [
        f"{path.relative_to(ROOT)}:{one.line}: {one.name}"
        for name, (_, path) in MODULES.items()
        for one in imports(name, path)
        if one.in_function
        and not any(is_below(ours(name) or "", room) for room in LAZY)
        and not any(is_below(ours(one.name) or one.name, optional) for optional in OPTIONAL)
        and one.name.partition(".")[0] not in sys.stdlib_module_names
    ]
    assert not found, "\n".join(found)


def test_modules_are_named_by_string_at_the_edges_only() -> None:
    """`import_module` hides an import from readers and from these tests."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for name, (_, path) in MODULES.items()
        if not any(is_below(ours(name) or "", room) for room in LAZY)
        and "import_module" in path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and "import_module" in ast.unparse(node.func)
        and ast.unparse(node.args[0]).strip("'\"").startswith("tensorgrad.")
    ]
    assert not found, "\n".join(found)


def test_there_is_no_cycle() -> None:
    """Including imports for types and inside functions, but not those of the public API, which loads everything."""
    graph = {
        name: {one.name for one in imports(name, path) if one.name in MODULES and one.name not in ("tensorgrad", name)}
        for name, (_, path) in MODULES.items()
    }
    assert not cycle_of(graph)


def cycle_of(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Returns the names along a cycle, or none."""
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for other in graph.get(name, ()):
            if found := visit(other, [*path, name]):
                return found
        done.add(name)
        return []

    return next((found for name in graph if (found := visit(name, []))), [])


def test_cycles_are_found() -> None:
    assert cycle_of({"a": ["b"], "b": ["c"], "c": ["b"]}) == ["b", "c", "b"]
    assert cycle_of({"a": ["b", "c"], "b": ["c"], "c": []}) == []


RUNTIME = sorted(name for name in MODULES if name.startswith("tensorgrad.runtime"))


@pytest.mark.parametrize("barred", ["xdsl", "wgpu"])
def test_the_runtime_needs_no_compiler(barred: str) -> None:
    """Nor is a GPU's library needed by what is not about it."""
    modules = [name for name in RUNTIME if barred == "xdsl" or not name.startswith("tensorgrad.runtime.webgpu")]
    assert_imports(f"import sys; sys.modules[{barred!r}] = None; import {', '.join(modules)}")


@pytest.mark.nightly
@pytest.mark.parametrize("module", RUNTIME)
def test_a_module_of_the_runtime_can_be_imported_first(module: str) -> None:
    assert_imports(f"import {module}")


def assert_imports(bar: str) -> None:
    result = subprocess.run([sys.executable, "-W", "error", "-c", bar], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
