"""Reads StableHLO as a function on `tg`."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func, FuncOp
from xdsl.utils.exceptions import DiagnosticException, ParseError, VerifyException

from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.parsing import UpstreamParser
from tensorgrad.dialects.stablehlo import Chlo, Stablehlo
from tensorgrad.errors import OptionError
from tensorgrad.passes.stablehlo.stablehlo_to_tg import StablehloToTgPass
from tensorgrad.tracing.location import user_line


def read(text: str, name: str, what: str) -> FuncOp:
    """Returns the only public function of a text, on `tg`; integers of 64 bits become those of 32.

    Args:
        text: StableHLO.
        name: The text's name in the lines of ops that have no other.
        what: The function that reads it, for messages.

    Raises:
        OptionError: The text is malformed, or uses what has no counterpart here; lists these ops with their lines.
    """
    context = Context(allow_unregistered=True)
    for dialect in (Builtin, Func, Stablehlo, Chlo):
        context.load_dialect(dialect)
    try:
        module: ModuleOp = UpstreamParser(context, text, name).parse_module()
        module.verify()
        StablehloToTgPass(narrow=True).rewrite(context, module)
        return find_function(module, None)
    except (DiagnosticException, ParseError, VerifyException) as error:
        raise OptionError(f"{user_line()}: {what}: {error}") from error
