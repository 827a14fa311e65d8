"""Runs passes in sequence: errors name their pass, and a crash writes a file that reproduces it."""

from __future__ import annotations

import logging
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec
from xdsl.utils.exceptions import DiagnosticException, ShrinkException

from tensorgrad.runtime.errors import CompilerError, NumericsError, TensorgradError
from tensorgrad.runtime.target import Target

PACKAGE = "tensorgrad-xdsl"
"""The distribution package that contains the compiler."""

_log = logging.getLogger("tensorgrad.passes")


def apply_pass(
    passes: Sequence[ModulePass],
    number: int,
    context: Context,
    module: ModuleOp,
    source: Callable[[], ModuleOp] | None,
    flags: str = "",
) -> None:
    """Applies one pass of a sequence to a module, in place.

    Args:
        passes: The sequence.
        number: The index of the pass to apply.
        context: The xDSL context.
        module: The module after the passes before it.
        source: Returns the module before the first pass; only called after a crash. If `None`, no reproducer is
            written.
        flags: Further flags of the command that reproduces a crash.

    Raises:
        DiagnosticException: The pass refuses the module; the message names the pass.
        CompilerError: The pass crashed; the message names the pass, the line that failed, and the reproducer: a file
            for `tg-opt` with the module before the pass.
        TensorgradError: The pass raised it; it is passed on unchanged, as is xDSL's `ShrinkException`.
        MemoryError: There is not enough memory for the pass, which is no fault of its own.
    """
    pass_ = passes[number]
    logged = _log.isEnabledFor(logging.DEBUG)
    before = _ops(module) if logged else 0
    start = time.perf_counter()
    try:
        pass_.apply(context, module)
    except (TensorgradError, ShrinkException, MemoryError):
        raise
    except DiagnosticException as error:  # VerifyException is one
        raise DiagnosticException(with_pass_name(pass_, error)) from error
    except Exception as error:
        raise CompilerError(_crash_message(passes, number, source, error, flags)) from error
    if logged:
        milliseconds = 1e3 * (time.perf_counter() - start)
        _log.debug("%s: %d ops became %d in %.1f ms", _short(pass_), before, _ops(module), milliseconds)


def _short(pass_: ModulePass) -> ArgSpec:
    """Returns the specification of a pass with its target's name in place of the target's properties."""
    spec, target = pass_.spec(), getattr(pass_, "target", None)
    if "target" in spec.parameters and isinstance(target, Target):
        return ArgSpec(spec.name, {**spec.parameters, "target": (target.name,)})
    return spec


def _ops(module: ModuleOp) -> int:
    return sum(1 for _ in module.walk())


def with_pass_name(pass_: ModulePass, error: Exception) -> str:
    """Returns an error's message, prefixed with the pass's name unless it already is."""
    message = str(error)
    return message if message.startswith(pass_.name) else f"{pass_.name}: {message}"


def _crash_message(
    passes: Sequence[ModulePass], number: int, source: Callable[[], ModuleOp] | None, error: Exception, flags: str
) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}:{frame.lineno}, in {frame.name}"
    what = f"{type(error).__name__}: {error}".rstrip(": ")
    crash = f"{passes[number].name} crashed at {place}: {what}"
    return _with_reproducer(crash, passes, number, source, flags)


def _with_reproducer(
    message: str, passes: Sequence[ModulePass], number: int, source: Callable[[], ModuleOp] | None, flags: str
) -> str:
    """Writes a reproducer, if there is a `source`; returns the message with its path."""
    if source is None:
        return message
    try:
        path = write_reproducer(source(), passes, number, flags)
    except Exception as second:  # The message is what matters; a full disk must not hide it.
        return f"{message}; writing a reproducer failed: {second}"
    return f"{message}; the module before it is in {path}, whose first line says how to run it again"


def with_reproducer(
    error: NumericsError,
    passes: Sequence[ModulePass],
    number: int,
    source: Callable[[], ModuleOp] | None,
    flags: str = "",
) -> NumericsError:
    """Returns an error about a value that a pass changed, with the path of a reproducer in its message.

    Args:
        error: The error.
        passes: The sequence.
        number: The index of the pass that changed the value.
        source: Returns the module before the first pass; if `None`, no reproducer is written.
        flags: Further flags of the command that reproduces the error.
    """
    return NumericsError(_with_reproducer(str(error), passes, number, source, f"{flags} --verify-numerics-each"))


def write_reproducer(module: ModuleOp, passes: Sequence[ModulePass], number: int, flags: str = "") -> Path:
    """Writes the module on which a pass fails to a temporary file, with the command that reproduces the failure.

    Args:
        module: The module before the first pass; changed in place.
        passes: The sequence; the passes before `number` are run here.
        number: The index of the pass that fails.
        flags: Further flags of the command.

    Returns:
        The path of the file.
    """
    context = Context()
    for pass_ in passes[:number]:
        pass_.apply(context, module)
    failing = passes[number]
    quoted = "'" + pass_text(failing).replace("'", "'\\''") + "'"
    with tempfile.NamedTemporaryFile(
        "w", prefix=f"{failing.name}-", suffix=".mlir", delete=False, encoding="utf-8"
    ) as file:
        file.write(f"// tg-opt {Path(file.name).name} -p {quoted}{flags}\n")
        file.write(f"// tensorgrad {version(PACKAGE)}, xdsl {version('xdsl')}\n{module!s}\n")
    return Path(file.name)


def pass_text(pass_: ModulePass) -> str:
    """Returns a pass as text that a pipeline reads; quotes within options are escaped, as in a device's target."""
    spec = pass_.spec()
    escaped = {
        name: tuple(_escaped(value) if isinstance(value, str) else value for value in values)
        for name, values in spec.parameters.items()
    }
    return str(ArgSpec(spec.name, escaped))


def without_target(pass_: ModulePass) -> str:
    """Returns a pass as text without its target, which is long and the same for all passes of a program."""
    spec = pass_.spec()
    spec.parameters.pop("target", None)
    return str(spec)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
