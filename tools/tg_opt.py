"""`tg-opt`: reads IR, runs passes on it, and prints the result, as IR or in the form of a target."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import IO, TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException, ParseError, VerifyException
from xdsl.xdsl_opt_main import xDSLOptMain

from tensorgrad.passes.analyses.dominance import verify_dominance
from tensorgrad.passes.pipelines import Phase, read_passes, start_of
from tensorgrad.passes.running import PACKAGE, apply_pass, with_reproducer
from tensorgrad.runtime.errors import CompilerError, NumericsError, TensorgradError
from tensorgrad.runtime.printable import printable
from tensorgrad.tools.extensions import Extension, load_extension
from tensorgrad.tools.parsing import LocatingParser
from tensorgrad.tools.pass_help import described_passes, upstream_names
from tensorgrad.tools.universe import TENSORGRAD_UNIVERSE, llvm_target, wgsl_target

if TYPE_CHECKING:
    from tensorgrad.checks.numerics import NumericsVerifier

EXPECTED_ERRORS = (ArgSpecParseError, DiagnosticException, ParseError, TensorgradError, ValueError, OSError)
"""Errors that input can cause, reported as one message. Anything else is a bug, and keeps its traceback."""


class TgOpt(xDSLOptMain):
    """xDSL's driver with our dialects, passes, pipelines and targets.

    If the package is installed, ours come through the entry point; the rest is added here.

    Attributes:
        parser: The parser of the command line.
    """

    version_format = f"tg-opt {version(PACKAGE)} (xdsl {{xdsl_version}})"

    def __init__(self, args: Sequence[str] | None = None):
        """Parses the command line; exits with a usage message if it is malformed."""
        self._wants_help = not {"-h", "--help"}.isdisjoint(sys.argv[1:] if args is None else args)
        super().__init__("tensorgrad's modular optimizer driver: reads IR, runs passes, prints what they leave.", args)

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        """Registers upstream's arguments and ours; `--help` lists our passes first, with their options."""
        super().register_all_arguments(arg_parser)
        self.parser = arg_parser
        arg_parser.prog = "tg-opt"
        arg_parser.formatter_class = argparse.RawDescriptionHelpFormatter
        arg_parser.add_argument(
            "--load", action="append", default=[], metavar="FILE", help="a Python file with passes or dialects to add"
        )
        arg_parser.add_argument(
            "--verify-numerics-each",
            action="store_true",
            help="run the module after every pass, on drawn values, and compare what it gives with what it gave before",
        )
        help_of = {"passes": "comma-separated passes and pipelines, listed below", "target": self._target_help()}
        for action in arg_parser._actions:  # argparse has no public way to change an argument's help
            action.help = help_of.get(action.dest, action.help)
        if self._wants_help:
            arg_parser.epilog = f"{described_passes()}\n\n{upstream_names(self.available_passes)}"

    def _target_help(self) -> str:
        others = sorted(self.available_targets.keys() - {"mlir", "wgsl", "llvm", "asm"})
        return f"what to print: mlir (the default), wgsl, llvm, asm, or one of xDSL's own: {', '.join(others)}"

    def register_all_frontends(self) -> None:
        """Registers the MLIR parser, with undefined values reported where they are used."""
        super().register_all_frontends()

        def parse_mlir(stream: IO[bytes]) -> ModuleOp:
            parser = LocatingParser(self.ctx, stream.read(), self.get_input_name())
            return parser.parse_module(not self.args.no_implicit_module)

        self.available_frontends["mlir"] = parse_mlir

    def register_all_dialects(self) -> None:
        """Registers upstream's dialects and ours."""
        super().register_all_dialects()
        for name in TENSORGRAD_UNIVERSE.all_dialects.keys() - set(self.ctx.registered_dialect_names):
            self.ctx.register_dialect(name, TENSORGRAD_UNIVERSE.all_dialects[name])

    def register_all_passes(self) -> None:
        """Registers upstream's passes and ours."""
        super().register_all_passes()
        self.available_passes.update(TENSORGRAD_UNIVERSE.all_passes)

    def register_all_targets(self) -> None:
        """Registers upstream's targets and ours; `wgsl` and `llvm` are ours."""
        super().register_all_targets()
        self.available_targets.update(TENSORGRAD_UNIVERSE.all_targets)
        self.available_targets["wgsl"] = wgsl_target
        self.available_targets["llvm"] = llvm_target

    def setup_pipeline(self) -> None:
        """Creates the pipeline, with named pipelines expanded, so that printing and timing see each pass."""
        for path in self.args.load:
            self._add(load_extension(path))
        written, self.args.passes = self.args.passes, ""
        super().setup_pipeline()
        self.args.passes = written
        upstream = self.pipeline.callback
        numerics = _Numerics() if self.args.verify_numerics_each else None

        def between(before: ModulePass | None, module: ModuleOp, after: ModulePass | None) -> None:
            try:
                if not self.args.disable_verify:
                    verify_dominance(module)
                if upstream is not None:
                    upstream(before, module, after)
                if numerics is not None:
                    numerics(before, module)
            except (DiagnosticException, VerifyException) as error:
                if before is None:
                    raise
                raise _with_notes(CompilerError(f"{before.name} left invalid IR: {error}"), error) from error

        loaded = "".join(f" --load {shlex.quote(str(Path(path).resolve()))}" for path in self.args.load)
        finish = None if numerics is None else numerics.finish
        self.pipeline = NamedPipeline(read_passes(written, self.available_passes), between, loaded, finish)

    def _add(self, extension: Extension) -> None:
        """Adds the passes and dialects of a file."""
        for pass_ in extension.passes:
            self.available_passes[pass_.name] = lambda one=pass_: one
        for dialect in extension.dialects:
            self.ctx.register_dialect(dialect.name, lambda dialect=dialect: dialect)


class _Numerics:
    """Compares the results of a module after each pass with those before."""

    def __init__(self) -> None:
        self._verifier: NumericsVerifier | None = None

    def __call__(self, before: ModulePass | None, module: ModuleOp) -> None:
        """Checks the module after a pass, or before the first one.

        Raises:
            NumericsError: The pass has changed a value.
        """
        if before is None or self._verifier is None:
            from tensorgrad.checks.numerics import NumericsVerifier

            self._verifier = NumericsVerifier(module)
        else:
            self._verifier.check(before, module)

    def finish(self, module: ModuleOp) -> None:
        """Compares each kernel's results on the device with those on `buf`, if passes have lowered one to the other.

        Raises:
            NumericsError: A kernel's result differs.
        """
        if self._verifier is not None:
            self._verifier.check_kernels(module)


@dataclass(frozen=True)
class NamedPipeline(PassPipeline):
    """A pipeline whose errors name the pass, and whose crashes leave a reproducer.

    Attributes:
        flags: Further options of the command in a reproducer.
        finish: A function that checks the kernels after all passes, if there is one.
    """

    flags: str = ""
    finish: Callable[[ModuleOp], None] | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Runs all passes on a module."""
        original = op.clone() if self.passes else op
        before: ModulePass | None = None
        for number, one in enumerate((*self.passes, None)):
            if self.callback is not None:
                try:
                    self.callback(before, op, one)
                except NumericsError as error:
                    raise with_reproducer(error, self.passes, number - 1, original.clone, self.flags) from error
            if one is not None:
                apply_pass(self.passes, number, ctx, op, original.clone, self.flags)
            before = one
        if self.finish is not None:
            try:
                self.finish(op)
            except NumericsError as error:
                number = start_of(Phase.DEVICE, self.passes)
                raise with_reproducer(error, self.passes, number, original.clone, self.flags) from error


def _with_notes(error: CompilerError, cause: BaseException) -> CompilerError:
    """Returns an error with the notes of its cause: the op that the verifier marked."""
    for note in getattr(cause, "__notes__", ()):
        error.add_note(note)
    return error


def main(args: Sequence[str] | None = None) -> int:
    """Runs `tg-opt`.

    Args:
        args: The command line without the program's name; by default that of the process.

    Returns:
        The exit status: 0, or 1 after an error caused by the input, which goes to stderr.
    """
    try:
        TgOpt(args).run()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe; Python's own flush at exit must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except EXPECTED_ERRORS as error:
        print(f"tg-opt: error: {printable(_described(error), lines=True)}", file=sys.stderr)
        return 1
    return 0


def _described(error: BaseException) -> str:
    """Returns an error's message; of the module that the verifier appends to it, only the line of the invalid op."""
    lines = [line for note in getattr(error, "__notes__", ()) for line in str(note).splitlines()]
    marked = [number for number, line in enumerate(lines) if line.lstrip().startswith("^^^") and number]
    return "\n".join([str(error), *(lines[number - 1].strip() for number in marked)])


if __name__ == "__main__":
    sys.exit(main())
