"""Proves kernels in a process of its own: one that has opened an adapter must not load z3, as Mesa has another one."""

from __future__ import annotations

import os
import subprocess
import sys
from io import StringIO

from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer

from tensorgrad.errors import CompilerError, NumericsError

_ERROR = "tg-opt: error: "


def prove_apart(module: ModuleOp) -> str:
    """Proves what holds of a module's kernels; returns the table of `tg-opt --prove`.

    Args:
        module: A module of `wgsl` or `cpu` kernels and the functions that dispatch them.

    Raises:
        NumericsError: A property doesn't hold; names the kernel, the user's line and an example.
        CompilerError: The tool failed.
    """
    if not sys.executable or getattr(sys, "frozen", False):  # the executable is not Python
        return "kernels are not proved: a frozen application has no Python to prove them with"
    command = [sys.executable, "-P", "-X", "utf8", "-m", "tensorgrad.tools.tg_opt", "--prove", "-o", os.devnull, "-"]
    text = StringIO()
    Printer(text, print_debuginfo=True).print_op(module)
    done = subprocess.run(command, input=text.getvalue(), capture_output=True, encoding="utf-8", check=False)
    if done.returncode == 0:
        return done.stderr.rstrip()
    table, _, reason = done.stderr.partition(_ERROR)
    if not table or not reason:
        raise CompilerError(f"kernels could not be proved: {done.stderr.strip()}")
    raise NumericsError(reason.strip())
