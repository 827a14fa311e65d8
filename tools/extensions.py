"""Custom passes and dialects from a Python file."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from dataclasses import dataclass
from pathlib import Path

from xdsl.ir import Dialect
from xdsl.passes import ModulePass

from tensorgrad.runtime.errors import ProgramError


@dataclass(frozen=True)
class Extension:
    """The additions of a file to `tg-opt`.

    Attributes:
        passes: The passes that it defines.
        dialects: The dialects that it defines.
    """

    passes: tuple[type[ModulePass], ...]
    dialects: tuple[Dialect, ...]


def load_extension(path: str) -> Extension:
    """Runs a Python file and collects the passes and dialects that it defines.

    Args:
        path: The file. Its code runs like that of any module.

    Raises:
        ProgramError: It is not a Python file, fails when it runs, or defines neither a pass nor a dialect.
        OSError: It can't be read.
    """
    file = Path(path).resolve()
    file.stat()
    name = f"tensorgrad_extension_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ProgramError(f"--load takes Python files, got {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ProgramError(f"{path} failed as it was loaded: {type(error).__name__}: {error}") from error
    own = [value for value in vars(module).values() if inspect.isclass(value) and value.__module__ == name]
    passes = tuple(class_ for class_ in own if issubclass(class_, ModulePass) and hasattr(class_, "name"))
    dialects = tuple(value for value in vars(module).values() if isinstance(value, Dialect))
    if not passes and not dialects:
        raise ProgramError(f"{path} defines no pass (a subclass of xdsl.passes.ModulePass with a name) and no dialect")
    return Extension(passes, dialects)
