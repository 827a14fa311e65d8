"""`tg-opt`: reads IR, runs passes on it, and prints it or what a target makes of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException, ParseError
from xdsl.xdsl_opt_main import xDSLOptMain

from tensorgrad.dialects.dominance import verify_dominance
from tensorgrad.passes.pipelines import PIPELINES, read_passes
from tensorgrad.runtime.errors import TensorgradError
from tensorgrad.tools.universe import TENSORGRAD_UNIVERSE, wgsl_target

EXPECTED_ERRORS = (ArgSpecParseError, DiagnosticException, ParseError, TensorgradError, ValueError, OSError)
"""What a user's input can cause: reported in one message. Anything else is a bug, and keeps its traceback."""


class TgOpt(xDSLOptMain):
    """xDSL's driver with our dialects, passes, pipelines and targets.

    Ours come by the entry point where the package is installed; what that leaves out is added here.
    """

    def __init__(self, args: Sequence[str] | None = None):
        """Parses the command line; exits with a usage message where it is malformed."""
        pipelines = ", ".join(PIPELINES)
        super().__init__(f"tensorgrad's modular optimizer driver; -p takes passes and pipelines ({pipelines})", args)

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
        """Registers upstream's targets and ours; `wgsl` is ours."""
        super().register_all_targets()
        self.available_targets.update(TENSORGRAD_UNIVERSE.all_targets)
        self.available_targets["wgsl"] = wgsl_target

    def setup_pipeline(self) -> None:
        """Makes the pipeline, with named pipelines expanded, so that printing and timing see each pass."""
        written, self.args.passes = self.args.passes, ""
        super().setup_pipeline()
        self.args.passes = written
        upstream = self.pipeline.callback

        def between(before: ModulePass | None, module: ModuleOp, after: ModulePass | None) -> None:
            if not self.args.disable_verify:
                verify_dominance(module)
            if upstream is not None:
                upstream(before, module, after)

        self.pipeline = PassPipeline(read_passes(written, self.available_passes), between)


def main(args: Sequence[str] | None = None) -> int:
    """Runs `tg-opt`.

    Args:
        args: The command line without the program's name; by default the process's own.

    Returns:
        The exit status: 0, or 1 after an error that the input caused, which goes to stderr.
    """
    try:
        TgOpt(args).run()
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever reads has seen enough; Python's own flush at exit must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except EXPECTED_ERRORS as error:
        print(f"tg-opt: error: {_described(error)}", file=sys.stderr)
        return 1
    return 0


def _described(error: BaseException) -> str:
    """The error's message and, of the module that the verifier adds to it, the line of the op that is wrong."""
    lines = [line for note in getattr(error, "__notes__", ()) for line in str(note).splitlines()]
    marked = [number for number, line in enumerate(lines) if line.lstrip().startswith("^^^") and number]
    return "\n".join([str(error), *(lines[number - 1].strip() for number in marked)])


if __name__ == "__main__":
    sys.exit(main())
