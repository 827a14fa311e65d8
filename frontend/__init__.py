"""A compiler for training: Python models become GPU programs, through levels of IR that can be read and edited.

The public names are listed in `__init__.pyi`. Each is imported on first use, so that importing the package is cheap and
a saved program runs without the compiler.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from tensorgrad.surface.collector import without_collector
from tensorgrad.surface.stubs import listed

_HOMES, _OTHERS = listed("__init__.pyi")
"""The module of each public name; and the one that each name of another library stands for."""

# Type checkers read the stub instead, as they can't evaluate a computed list.
globals()["__all__"] = sorted({*_HOMES, *_OTHERS})


if os.environ.get("TG_LOG"):
    import_module("tensorgrad.logs").log_to_stderr(os.environ["TG_LOG"])


def __getattr__(name: str) -> Any:
    try:
        with without_collector():
            return _loaded(name)
    except BaseException as error:
        import_module("tensorgrad.runtime.tracebacks").trim(error)
        raise


def _loaded(name: str) -> Any:
    if name == "__version__":
        value = import_module("importlib.metadata").version("tensorgrad-xdsl")
    elif name in _OTHERS:
        value = getattr(import_module(__name__), _OTHERS[name])
    elif name not in _HOMES:
        raise import_module("tensorgrad.surface.foreign").unknown_name(__name__, name, _HOMES)
    elif _HOMES[name] == __name__:
        return import_module(f"{__name__}.{name}")
    else:
        value = import_module("tensorgrad.surface.calls").public(getattr(import_module(_HOMES[name]), name), __name__)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals()["__all__"], "__version__"]
