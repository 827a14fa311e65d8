"""A process that compiles many programs does not grow: caches are bounded, and nothing else keeps what was compiled."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from layers import MODULES

from tensorgrad.runtime.cpu import stepping

BY_MODULES = "modules fill it while they are imported"
BY_CLASS = "one entry for each class of ops"
SINGLE = "without arguments, one entry"

FINITE = {
    **dict.fromkeys(
        (
            "driver.storage.program_key.environment",
            "importers.torch.exporting._decompositions",
            "lab.show._highlighter",
            "lab.show._style",
            "ops.native_drawing.native_drawing",
            "runtime.cpu.compiler.host_cpu",
            "runtime.cpu.device._device",
            "runtime.cpu.objects._compiler_digest",
            "runtime.cpu.stepping.native_runtime",
            "runtime.cpu.threads._core_of_thread",
            "runtime.schema.fields",
            "runtime.webgpu.encoding.native_library",
            "surface.counterparts.by_foreign_name",
            "surface.counterparts.counterparts",
            "tools.reference.homes",
            "tools.reference.public_names",
            "tools.reference.public_objects",
            "tools.tg_opt_server.cache(metadata.entry_points)",
        ),
        SINGLE,
    ),
    **dict.fromkeys(
        ("passes.codegen.common.weights.weight", "passes.scalars.plain", "passes.tensors.simplify._always_pure"),
        BY_CLASS,
    ),
    **dict.fromkeys(
        (
            "importers.torch.complex_pairs.PAIRS",
            "importers.torch.table.RULES",
            "importers.onnx.table.RULES",
            "exporters.onnx.table.PATTERNS",
            "exporters.onnx.table.RULES",
            "passes.buffers.lower_tg_to_buf.registry.MEMORY_OPERANDS",
            "passes.buffers.lower_tg_to_buf.registry.RULES",
            "passes.buffers.lower_tg_to_buf.registry.SEQUENCES",
            "passes.buffers.lower_tg_to_buf.registry.VIEWS",
            "passes.tensors.batch.RULES",
            "passes.tensors.distribute.rules.LINEAR",
            "passes.tensors.distribute.rules.RULES",
            "passes.tensors.grad.registry.NO_DERIVATIVE",
            "passes.tensors.grad.registry.RULES",
        ),
        BY_MODULES,
    ),
    "driver.compiling.peaks._KNOWN": "one entry for each device",
    "driver.device._fall_back": "one entry for each of two messages",
    "driver.handles.eager_devices._eager_devices": "one entry for each adapter",
    "runtime.cache._reported": "one entry for each cache folder",
    "runtime.errors._is_users": "one entry for each file of code",
    "runtime.group.membership._of_process": "at most one entry",
    "runtime.schema.schema_of": "one entry for each annotation of the dataclasses in files",
    "runtime.webgpu.mapping._unanswered": "reads that wait, and one of each lost device; the next read drops others",
    "runtime.webgpu.reporting._processes": "one entry for each fork",
}
"""The caches and tables of modules without a maximum size, and what bounds them."""

TABLES = {"dict", "set", "list", "defaultdict", "OrderedDict", "Counter", "WeakKeyDictionary"}
CHANGES = {"add", "append", "extend", "setdefault", "update"}


def name_of(node: ast.expr) -> str:
    """Returns the last part of a dotted name; "" for other expressions."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def is_unbounded_cache(node: ast.expr) -> bool:
    """Returns whether an expression is `cache`, or `lru_cache` with a maximum size of `None`."""
    if not isinstance(node, ast.Call):
        return name_of(node) == "cache"
    sizes = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "maxsize")]
    is_none = any(isinstance(size, ast.Constant) and size.value is None for size in sizes)
    return name_of(node.func) == "cache" or (name_of(node.func) == "lru_cache" and is_none)


def is_empty_table(node: ast.expr | None) -> bool:
    """Returns whether an expression creates an empty container that can grow."""
    if isinstance(node, ast.Dict | ast.List):
        return not ast.unparse(node).strip("{}[]")
    return isinstance(node, ast.Call) and name_of(node.func) in TABLES and not node.args


def tables_that_grow(node: ast.AST, in_function: bool = False) -> Iterator[str]:
    """Yields the names of the tables that functions add to."""
    if in_function:
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            yield name_of(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
            yield name_of(node.func.value)
    for child in ast.iter_child_nodes(node):
        yield from tables_that_grow(child, in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def unbounded(source: str) -> Iterator[str]:
    """Yields the names of a module's caches without a maximum size, and of its tables that functions add to."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(map(is_unbounded_cache, node.decorator_list)):
            yield node.name
        elif isinstance(node, ast.Call) and is_unbounded_cache(node.func):  # cache(function)
            yield ast.unparse(node)
    tables: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and is_empty_table(statement.value):
            tables.update(map(name_of, statement.targets if isinstance(statement, ast.Assign) else [statement.target]))
    if tables:
        yield from tables.intersection(tables_that_grow(tree))


@pytest.mark.parametrize(
    "source",
    [
        "@cache\ndef f(x): pass",
        "@functools.lru_cache(maxsize=None)\ndef f(x): pass",
        "@lru_cache(None)\ndef f(x): pass",
        "f: dict[int, int] = {}\ndef g(x):\n    f[x] = x",
        "f = set()\ndef g(x):\n    f.add(x)",
    ],
)
def test_unbounded_caches_are_recognized(source: str) -> None:
    assert list(unbounded(source)) == ["f"]


@pytest.mark.parametrize("source", ["@lru_cache\ndef f(x): pass", "@lru_cache(8)\ndef f(x): pass", "f = {}"])
def test_bounded_caches_are_recognized(source: str) -> None:
    assert not list(unbounded(source))


def test_every_cache_is_bounded() -> None:
    names = {
        f"{module.removeprefix('tensorgrad.')}.{name}"
        for module, (_, path) in MODULES.items()
        for name in unbounded(path.read_text(encoding="utf-8"))
    }
    assert names == set(FINITE)


COMPILATIONS = """
import functools
import gc
import itertools
import statistics
import sys

import numpy as np
from models import MLP, squared_error

import tensorgrad as tg

what, device = sys.argv[1], sys.argv[2]


def compiled(size):
    x = np.ones((size, size + 1), np.float32)
    if what == "function":
        return tg.jit(lambda x: tg.sum(tg.tanh(x @ x.T), 0), device=device)(x).numpy()
    inputs = {"x": x, "y": np.ones((size, 2), np.float32)}
    shapes = {name: value.shape for name, value in inputs.items()}
    model, optimizer = MLP(size + 1, size + 2, 2), tg.optim.adam(1e-2)
    return tg.compile(model, loss=squared_error, optimizer=optimizer, inputs=shapes, device=device).step(**inputs)


def live_objects():
    for one in gc.get_objects():
        if isinstance(one, functools._lru_cache_wrapper) and one.__module__.startswith("tensorgrad."):
            if one.cache_info().maxsize is not None:
                one.cache_clear()
    gc.collect()
    return len(gc.get_objects())


counts = []
for size in range(40, 40 + int(sys.argv[3])):
    compiled(size)
    counts.append(live_objects())
print(statistics.median_high(b - a for a, b in itertools.pairwise(counts)))
"""


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("what", "device", "count"),
    [("step", "numpy", 16), ("function", "numpy", 30), ("step", "cpu", 8), ("function", "cpu", 16)],
)
def test_dropped_programs_leave_nothing(what: str, device: str, count: int) -> None:
    """Most programs, each for another shape, keep no object alive, except in bounded caches.

    A few load modules, or are the first of their kind.
    """
    assert run(COMPILATIONS, what, device, str(count)) <= 0


NATIVE_CODE = """
import resource
import sys
from pathlib import Path

from tensorgrad.runtime.cpu.compiler import object_of


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


text = sys.stdin.read()
for _ in range(10):
    object_of(text)
before = resident()
for _ in range(30):
    object_of(text)
print(resident() - before)
"""


@pytest.mark.nightly
def test_llvm_frees_what_it_compiled() -> None:
    """The passes of each module, 100 KB, are freed with it."""
    assert run(NATIVE_CODE, text=stepping._runtime_text()) < 1 << 20


def run(script: str, *arguments: str, text: str = "") -> int:
    """Runs a script in a process of its own, and returns the number that it prints."""
    found = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        input=text,
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[1] / "helpers",
    )
    return int(found.stdout)
