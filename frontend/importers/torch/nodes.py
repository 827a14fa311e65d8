"""What the nodes of an exported graph call, and where they come from: the author's line and module."""

from __future__ import annotations

import operator
import os
import re
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.fx import Node

from tensorgrad.runtime.errors import is_library

_FRAME = re.compile(r'File "(?P<file>.+)", line (?P<line>\d+), in ')
_PYTHON = frozenset(
    getattr(operator, name)
    for name in (
        "getitem",
        "add",
        "sub",
        "mul",
        "floordiv",
        "mod",
        "neg",
        "truediv",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
    )
)


def is_python(node: Node) -> bool:
    """Returns whether a node calls a function of Python, on numbers or on results of ops."""
    return node.target in _PYTHON


def op_name(node: Node) -> str:
    """Returns the name of the op that a node calls, without its overload, such as `aten.add`."""
    target: Any = node.target
    if isinstance(target, torch._ops.OpOverload):
        return str(target.overloadpacket)
    return f"{getattr(target, 'namespace', 'python')}.{getattr(target, '__name__', target)}"


def authors_line(error: BaseException) -> str | None:
    """Returns the innermost line outside PyTorch and this package that an error passed through, as `file:line`."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        file = frame.f_code.co_filename
        if package not in ("torch", "tensorgrad") and not file.startswith("<") and not is_library(file):
            return f"{os.path.relpath(file)}:{line}"
    return None


_TORCH = str(Path(torch.__file__).parent)


@dataclass(frozen=True)
class Origin:
    """Where a node comes from.

    Attributes:
        path: The path of the module in the model; empty for the model itself.
        kind: The class of the module.
        place: The file and the line in it, if they are known.
    """

    path: str
    kind: str
    place: tuple[str, int] | None

    @classmethod
    def of(cls, node: Node, root: str) -> Origin:
        """Returns the origin of a node.

        Args:
            node: A node of `torch.fx`.
            root: The path of the imported module.
        """
        modules = list((node.meta.get("nn_module_stack") or {}).values())
        path, kind = modules[-1] if modules else ("", "")
        frames = list(_FRAME.finditer(node.meta.get("stack_trace") or ""))
        frames = [frame for frame in frames if not frame["file"].startswith(_TORCH)] or frames
        name = kind if isinstance(kind, str) else kind.__name__
        place = (frames[-1]["file"], int(frames[-1]["line"])) if frames else None
        return cls(".".join(part for part in (root, path) if part), name.rpartition(".")[2], place)

    def described(self, op: str) -> str:
        """Returns the text for errors, such as "in PyTorch's aten.add of `blocks.0` (Block), model.py:12"."""
        where = "" if self.place is None else f", {os.path.relpath(self.place[0])}:{self.place[1]}"
        return f"in PyTorch's {op} of `{self.path}` ({self.kind}){where}" if self.path else f"in PyTorch's {op}{where}"
