"""`tg-opt`: reads IR, runs passes on it, and prints the result, as IR or in the form of a target."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from io import BytesIO, StringIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, NoReturn

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass, PassPipeline
from xdsl.printer import Printer
from xdsl.utils.exceptions import (
    ArgSpecParseError,
    DiagnosticException,
    ParseError,
    ShrinkException,
    VerifyException,
)
from xdsl.xdsl_opt_main import xDSLOptMain

from tensorgrad.passes.analyses.structure import verify_structure
from tensorgrad.passes.pipelines import PIPELINES, Phase, start_of
from tensorgrad.passes.running import PACKAGE, apply_pass, with_reproducer
from tensorgrad.runtime.errors import CompilerError, NumericsError, ProgramError, TensorgradError
from tensorgrad.runtime.printable import printable
from tensorgrad.tools.diagnostics import TrackingParser, check_diagnostics, expectations, line_of
from tensorgrad.tools.extensions import Extension, load_extension
from tensorgrad.tools.instruments import Dumps, Proofs, Timing
from tensorgrad.tools.pass_help import described_passes, upstream_names
from tensorgrad.tools.pass_pipeline import named_passes, pipeline_text, read_pipeline
from tensorgrad.tools.tg_opt_flags import HELP, add_arguments, loaded_files, take_passes, unrecognized, with_two_dashes
from tensorgrad.tools.universe import TENSORGRAD_UNIVERSE, llvm_target, wgsl_target
from tensorgrad.tools.verifying import verifying

if TYPE_CHECKING:
    from tensorgrad.checks.numerics import NumericsVerifier

PART_ERRORS = (DiagnosticException, ParseError, TensorgradError, ValueError, OSError)
"""The errors of one part of a file, after which the next is processed."""

PLACE = "at "
"""How the note with an error's place begins."""

EXPECTED_ERRORS = (ArgSpecParseError, *PART_ERRORS)
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
        self._starts: Mapping[Operation, int] = {}
        self._lines_before = 0
        self._timing: Timing | None = None
        super().__init__("tensorgrad's modular optimizer driver: reads IR, runs passes, prints what they leave.", args)

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        """Registers upstream's arguments, those of `mlir-opt`, and ours."""
        super().register_all_arguments(arg_parser)
        self.parser = arg_parser
        arg_parser.prog = "tg-opt"
        arg_parser.formatter_class = argparse.RawDescriptionHelpFormatter
        add_arguments(arg_parser)
        help_of = {**HELP, "target": self._target_help()}
        for action in arg_parser._actions:  # argparse has no public way to change an argument's help
            action.help = help_of.get(action.dest, action.help)
        vars(arg_parser)["parse_args"] = self._parse_args  # which upstream calls next

    def _parse_args(self, args: Sequence[str] | None = None) -> argparse.Namespace:
        """Returns the arguments, whose `passes` are all passes, however they are written."""
        words = list(sys.argv[1:] if args is None else args)
        for path in loaded_files(words):
            self._add(load_extension(path))
        passes = {*self.available_passes, *PIPELINES}
        names = {*passes, *(name.lstrip("-") for name in self.parser._option_string_actions if name.startswith("--"))}
        words, flags = take_passes(with_two_dashes(words, names), passes)
        if not {"-h", "--help"}.isdisjoint(words):
            self.parser.epilog = self._passes_text()
        known, unknown = self.parser.parse_known_args(words)
        if unknown:
            self.parser.error(unrecognized(unknown, names))
        if known.show_dialects:
            self._print_and_exit(f"Available Dialects: {','.join(sorted(self.ctx.registered_dialect_names))}")
        if known.list_passes:
            self._print_and_exit(self._passes_text())
        ways = list(filter(None, (known.passes, known.pass_pipeline, ",".join(flags))))
        if len(ways) > 1:
            self.parser.error("passes are flags, or in --passes, or in --pass-pipeline: only one of these")
        known.passes = "".join(ways)
        return known

    def _print_and_exit(self, text: str) -> NoReturn:
        print(text, flush=True)
        self.parser.exit()

    def _passes_text(self) -> str:
        flags = "Each pass and pipeline is a flag too, with its options after =, as in --fuse='only=inline'."
        return f"{flags}\n\n{described_passes()}\n\n{upstream_names(self.available_passes)}"

    def _target_help(self) -> str:
        return "what to print: mlir (the default), stablehlo, wgsl, llvm, asm"

    def register_all_frontends(self) -> None:
        """Registers the MLIR parser, with undefined values reported where they are used."""
        super().register_all_frontends()

        def parse_mlir(stream: IO[bytes]) -> ModuleOp:
            content = stream.read()
            try:
                content.decode()
            except UnicodeDecodeError as error:
                raise ProgramError(f"{self.get_input_name()} is no text: {error}") from error
            parser = TrackingParser(self.ctx, content, self.get_input_name(), self._lines_before)
            self._starts = parser.starts
            return parser.parse_module(not self.args.no_implicit_module)

        self.available_frontends["mlir"] = parse_mlir

    def get_input_stream(self) -> tuple[IO[bytes], str]:
        """Returns the input, which is IR whatever the file is called; `-` is standard input."""
        path = self.args.input_file
        return (sys.stdin.buffer if path in (None, "-") else open(path, "rb")), "mlir"

    def get_input_name(self) -> str:
        """Returns the input's name in messages."""
        return self.args.input_file if self.args.input_file not in (None, "-") else "<stdin>"

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
        """Registers upstream's printer of IR, and our targets: its others print what our dialects don't become."""
        super().register_all_targets()
        ours = {name: target for name, target in TENSORGRAD_UNIVERSE.all_targets.items() if name != "tg-wgsl"}
        mlir = self.available_targets["mlir"]
        self.available_targets = {"mlir": mlir, **ours, "wgsl": wgsl_target, "llvm": llvm_target}

    def setup_pipeline(self) -> None:
        """Creates the pipeline, with named pipelines expanded, so that printing and timing see each pass."""
        written, self.args.passes = self.args.passes, ""
        super().setup_pipeline()
        self.args.passes = written
        upstream = self.pipeline.callback
        numerics = _Numerics() if self.args.verify_numerics_each else None
        dumps, timing = self._dumps(), Timing()
        proofs = Proofs(apart=self.args.verify_numerics_each) if self.args.prove else None
        self._timing = timing if self.args.mlir_timing else None

        def between(before: ModulePass | None, module: ModuleOp, after: ModulePass | None) -> None:
            timing.stop(before)
            try:
                with verifying():
                    if not self.args.disable_verify:
                        verify_structure(module)
                    if upstream is not None:
                        upstream(before, module, after)
                if numerics is not None:
                    numerics(before, module)
                if proofs is not None:
                    proofs(module, after)
            except (DiagnosticException, VerifyException) as error:
                if before is None:
                    raise
                dumps.fail(before, module)
                raise _with_notes(CompilerError(f"{before.name} left invalid IR: {error}"), error) from error
            dumps(before, module, after)
            timing.start()

        loaded = "".join(f" --load {shlex.quote(str(Path(path).resolve()))}" for path in self.args.load)
        finish = None if numerics is None else numerics.finish
        passes = read_pipeline(written, self.available_passes)
        if self.args.dump_pass_pipeline:
            print(pipeline_text(passes), file=sys.stderr)
        self.pipeline = NamedPipeline(passes, between, loaded, finish, dumps.fail)

    def _dumps(self) -> Dumps:
        """Returns what prints the module between passes.

        Raises:
            ValueError: A pass whose module is to be printed doesn't exist.
        """
        args = self.args
        before, after = (
            named_passes(names, self.available_passes) for names in (args.print_ir_before, args.print_ir_after)
        )
        only_changes = args.print_ir_after_change and not after
        return Dumps(
            self._module_text,
            None if args.print_ir_before_all else before,
            None if args.print_ir_after_all or only_changes else after,
            args.print_ir_after_change,
            args.print_ir_after_failure,
        )

    def _module_text(self, module: ModuleOp) -> str:
        stream = StringIO()
        generic, locations = self.args.print_op_generic, self.args.print_debuginfo
        Printer(stream, print_generic_format=generic, print_debuginfo=locations).print_op(module)
        return stream.getvalue()

    def _add(self, extension: Extension) -> None:
        """Adds the passes and dialects of a file."""
        for pass_ in extension.passes:
            if pass_.name in TENSORGRAD_UNIVERSE.all_passes:
                raise ProgramError(f"--load: {pass_.__name__} is called {pass_.name!r}, as a pass of tensorgrad")
            self.available_passes[pass_.name] = lambda loaded=pass_: loaded
        for dialect in extension.dialects:
            self.ctx.register_dialect(dialect.name, lambda dialect=dialect: dialect)

    def run(self) -> None:
        """Processes the parts of the input, and writes the output; a file, and its folder, only if there was no error.

        Raises:
            ExceptionGroup: Several parts have errors. A single one is raised as it is.
        """
        path = None if self.args.output_file in (None, "-") else Path(self.args.output_file)
        chunks, extension = self.prepare_input()
        output: IO[str] = sys.stdout if path is None else StringIO()
        errors: list[Exception] = []
        for number, (chunk, offset) in enumerate(chunks):
            with chunk:
                try:
                    if number > 0:
                        output.write("// -----\n")
                    output.write(self._processed(chunk, extension, offset))
                    output.flush()
                except ShrinkException:
                    if self.args.shrink:
                        self._print_and_exit("Success, can shrink")
                    raise
                except BrokenPipeError:
                    raise
                except PART_ERRORS as error:
                    errors.append(error)
        if self.args.shrink:
            print("Failure, can't shrink")
            self.parser.exit(1)
        if self._timing is not None:
            self._timing.report()
        if errors:
            raise errors[0] if len(errors) == 1 else ExceptionGroup("several parts have errors", errors)
        if path is not None and isinstance(output, StringIO):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(output.getvalue(), encoding="utf-8")

    def _processed(self, chunk: IO[bytes], extension: str, offset: int) -> str:
        """Returns the output for a part of the input, or none for an error that is expected or printed."""
        content = chunk.read()
        self._lines_before = offset
        module: ModuleOp | None = None
        error: Exception | None = None
        text = ""
        try:
            module = self.parse_chunk(BytesIO(content), extension, offset)
            if module is not None:
                self.apply_passes(module)
                text = self.output_resulting_program(module)
        except PART_ERRORS as caught:
            error = caught
        except MemoryError as caught:
            error = ProgramError(f"there is not enough memory for this: {caught}")
        if isinstance(error, ParseError):
            error.span = replace(error.span, line_offset=offset)
        source = content.decode("utf-8", "replace")
        line = None if error is None else line_of(error, module, self._starts, source)
        if self.args.verify_diagnostics and not isinstance(error, CompilerError | OSError):
            expected = expectations(source, offset + 1)
            check_diagnostics(self.get_input_name(), expected, error, None if line is None else line + offset)
        elif error is not None:
            if line is not None and not isinstance(error, ParseError):
                error.add_note(f"{PLACE}{self.get_input_name()}:{line + offset}")
            kind = ParseError if self.args.parsing_diagnostics else ()
            printed = (kind, DiagnosticException if self.args.print_diagnostics else ())
            if not isinstance(error, printed):
                raise error
            print(error, *getattr(error, "__notes__", ()), sep="\n")
        return text


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
        failed: A function that is told of a pass that fails, if there is one.
    """

    flags: str = ""
    finish: Callable[[ModuleOp], None] | None = None
    failed: Callable[[ModulePass, ModuleOp], None] | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Runs all passes on a module."""
        original = op.clone() if self.passes else op
        before: ModulePass | None = None
        for number, pass_ in enumerate((*self.passes, None)):
            if self.callback is not None:
                try:
                    self.callback(before, op, pass_)
                except NumericsError as error:
                    raise with_reproducer(error, self.passes, number - 1, original.clone, self.flags) from error
            if pass_ is not None:
                try:
                    apply_pass(self.passes, number, ctx, op, original.clone, self.flags)
                except (DiagnosticException, TensorgradError):
                    if self.failed is not None:
                        self.failed(pass_, op)
                    raise
            before = pass_
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
        The exit status: 0; 1 after an error caused by the input, or 2 by the command line. Errors go to stderr.
    """
    status = 2
    try:
        tool = TgOpt(args)
        status = 1
        tool.run()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe; Python's own flush at exit must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except ExceptionGroup as group:
        for error in group.exceptions:
            _print_error(error)
        return status
    except EXPECTED_ERRORS as error:
        _print_error(error)
        return status
    return 0


def _print_error(error: BaseException) -> None:
    print(f"tg-opt: error: {printable(_described(error), lines=True)}", file=sys.stderr)


def _described(error: BaseException) -> str:
    """Returns an error's message; of the module that the verifier appends to it, only the line of the invalid op."""
    lines = [line for note in getattr(error, "__notes__", ()) for line in str(note).splitlines()]
    marked = [number for number, line in enumerate(lines) if line.lstrip().startswith("^^^") and number]
    places = [line for line in lines if line.startswith(PLACE)]
    return "\n".join([str(error), *(lines[number - 1].strip() for number in marked), *places])


if __name__ == "__main__":
    sys.exit(main())
