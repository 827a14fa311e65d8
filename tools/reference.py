"""The reference of the public API: the extension of mkdocstrings that shapes it, and a hook of mkdocs.

The pages about the compiler (dialects, passes, runtime) list everything without a leading underscore, the others what
users can reach by a public name, and the classes of what they get from it. Entries say what other libraries call the
same; the page of names from elsewhere has them in tables.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from functools import cache
from importlib import import_module
from typing import Any

from griffe import Extension, Function, Module, Object

from tensorgrad.surface.counterparts import LIBRARIES, Counterparts, counterparts
from tensorgrad.surface.stubs import listed

NAMESPACES = (
    *(f"tensorgrad.{name}" for name in ("callbacks", "data", "distributed", "errors", "fft", "initializers", "linalg")),
    *(f"tensorgrad.{name}" for name in ("models", "nn", "onnx", "optim", "optim.schedules", "random", "testing")),
    "tensorgrad.importers.torch",
)
"""The modules whose names are public, besides `tensorgrad` itself."""

RESULTS = {
    "tensorgrad.driver.device": {"Device"},
    "tensorgrad.driver.handles.compiled": {"Specialization"},
    "tensorgrad.driver.handles.training_state": {"Replaced"},
    "tensorgrad.driver.storage.checkpoints": {"Loaded"},
    "tensorgrad.nn.adapters": {"AdaptedLinear", "LowRank"},
    "tensorgrad.nn.pytorch": {"Converted"},
    "tensorgrad.nn.state": {"State"},
    "tensorgrad.nn.weight_files": {"WeightFiles"},
    "tensorgrad.nn.weights": {"Initialized", "Weight", "Held"},
    "tensorgrad.ops.linalg.decompositions": {"Eigh", "Qr", "Svd"},
    "tensorgrad.ops.linalg.systems": {"Slogdet"},
    "tensorgrad.optim.scalars": {"Hyper"},
    "tensorgrad.optim.settings": {"Setting"},
    "tensorgrad.optim.transforms": {"ChainStage"},
    "tensorgrad.tracing.dtypes": {"Spec"},
    "tensorgrad.tracing.eager": {"HookHandle"},
    "tensorgrad.train.log": {"Log"},
    "tensorgrad.train.run": {"Run"},
    "tensorgrad.transforms.custom_vjp": {"CustomVjp"},
}
"""Classes that have no public name, but whose objects users are given."""

COMPILER = ("dialects", "passes", "interpreters", "checks", "runtime", "tools")
"""The packages of the compiler, whose pages list everything."""

SHOWN_RUNTIME = ("tensorgrad.runtime.loaded", "tensorgrad.runtime.group.group")
"""Modules of the runtime that are on the pages of the public API."""


@cache
def public_names() -> frozenset[tuple[str, str]]:
    """Returns the public functions, classes and constants, each as its module and its name there."""
    homes, _ = listed("__init__.pyi")
    names = {(home, name) for name, home in homes.items()}
    names |= {(home, name) for home, classes in RESULTS.items() for name in classes}
    for namespace in ("tensorgrad", *NAMESPACES):
        module = import_module(namespace)
        for name in getattr(module, "__all__", None) or dir(module):
            value: Any = getattr(module, name)
            home: Any = inspect.unwrap(value) if callable(value) else namespace
            bases = home.__mro__ if inspect.isclass(home) else (home,)
            names |= {(str(base.__module__), base.__name__) for base in bases if not _is_private(base)}
            names.add((namespace, name))
    return frozenset(names)


def _is_private(value: Any) -> bool:
    """Returns whether a value has no name, or one that begins with an underscore."""
    return getattr(value, "__name__", "_").startswith("_")


@cache
def public_objects() -> dict[str, Any]:
    """Returns what has a public name that is no module, by the name under which users reach it."""
    objects: dict[str, Any] = {}
    for namespace in ("tensorgrad", *NAMESPACES):
        module = import_module(namespace)
        values = {name: getattr(module, name) for name in getattr(module, "__all__", None) or dir(module)}
        objects |= {f"{namespace}.{name}": value for name, value in values.items() if not inspect.ismodule(value)}
    return objects


def restricted(module: str) -> bool:
    """Returns whether only public names of a module are listed."""
    package = module.removeprefix("tensorgrad.").split(".")[0]
    return module in SHOWN_RUNTIME or package not in COMPILER


@cache
def homes() -> dict[tuple[str, str], str]:
    """Returns the public name without `tg.`, by the module and the name there, of what has counterparts elsewhere."""
    found: dict[tuple[str, str], str] = {}
    for path, value in public_objects().items():
        name = path.removeprefix("tensorgrad.")
        if name in counterparts() and hasattr(value, "__module__"):
            home: Any = inspect.unwrap(value)
            found[str(home.__module__), getattr(home, "__name__", path.rpartition(".")[2])] = name
    return found


def names_elsewhere(row: Counterparts) -> str:
    """Returns a line of an entry, such as "NumPy `np.einsum` · PyTorch `torch.einsum` · JAX `jnp.einsum`"."""
    columns = zip(LIBRARIES, row, strict=True)
    return " · ".join(f"{library} " + ", ".join(f"`{name}`" for name in names) for library, names in columns if names)


def tables_elsewhere() -> str:
    """Returns the page's tables, one for each namespace; names link to their entries."""
    places = {name: ".".join(home) for home, name in homes().items()}
    sections: dict[str, list[str]] = {}
    for name, row in counterparts().items():
        entry = f"`tg.{name}`"
        if name in places:
            entry = f'<autoref optional identifier="{places[name]}"><code>tg.{name}</code></autoref>'
        cells = (", ".join(f"`{theirs}`" for theirs in names) for names in row)
        namespace = name.rpartition(".")[0]
        sections.setdefault(namespace, []).append(f"| {entry} | {' | '.join(cells)} |")
    head = f"| here | {' | '.join(LIBRARIES)} |\n|---|---|---|---|\n"
    tables = (f"## `tg{space and '.'}{space}`\n\n{head}" + "\n".join(rows) for space, rows in sections.items())
    return "\n\n".join(tables)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Inserts the tables into the page that has a place for them."""
    return markdown.replace("<!-- names elsewhere -->", tables_elsewhere()) if "<!-- names" in markdown else markdown


EXAMPLE = re.compile(r"^Example:\n((?:(?: +.*)?(?:\n|\Z))+)", re.MULTILINE)


def with_code(docstring: str) -> str:
    """Returns a docstring whose examples are code: griffe takes `Example:` for a remark, and `>>>` in it for quotes."""
    return EXAMPLE.sub(_as_code, docstring)


def _as_code(example: re.Match[str]) -> str:
    lines = textwrap.dedent(example[1]).strip("\n")
    language = "pycon" if lines.startswith(">>>") else "text"
    rest = "\n" * (len(example[1]) - len(example[1].rstrip("\n")))
    return "Examples:\n" + textwrap.indent(f"```{language}\n{lines}\n```", "    ") + rest


class PublicNames(Extension):
    """Marks what the reference lists as public, and the rest as private; adds the names that others have for it."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Decides about an object, when it has been read."""
        parent = obj.parent
        if isinstance(obj, Module) or parent is None:
            return
        shown = obj.name == "__call__" or not obj.name.startswith("_")
        if isinstance(parent, Module) and restricted(parent.path):
            shown = (parent.path, obj.name) in public_names()
        elif isinstance(obj, Function) and "overload" in obj.labels:
            return
        obj.public = shown
        if obj.docstring:
            obj.docstring.value = with_code(obj.docstring.value)
        public = homes().get((parent.path, obj.name))
        if public and obj.docstring:
            summary, gap, rest = obj.docstring.value.partition("\n\n")
            obj.docstring.value = f"{summary}\n\n{names_elsewhere(counterparts()[public])}{gap}{rest}"
