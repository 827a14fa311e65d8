"""xDSL's parser, with undefined values reported where they are used."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import AttributeInvT, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Span


class LocatingParser(Parser):
    """A parser that remembers where a value that has no definition yet was used first.

    Upstream's reports such values at the end of the file.
    """

    def __init__(self, context: Context, text: str | bytes, name: str = "<unknown>"):
        super().__init__(context, text, name)
        self._first_use: dict[str, Span[str]] = {}

    def resolve_operand(self, operand: UnresolvedOperand, type: AttributeInvT) -> SSAValue[AttributeInvT]:
        """Returns the value that an operand names, or a placeholder until it is defined."""
        found = super().resolve_operand(operand, type)
        name = operand.operand_name
        if name in self.forward_ssa_references:
            self._first_use.setdefault(name, operand.span)
        return found

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        """Parses the input as a module.

        Raises:
            ParseError: It is malformed, or uses a value that nothing defines.
        """
        try:
            return super().parse_module(allow_implicit_module)
        except ParseError as error:
            missing = [name for name in self.forward_ssa_references if name in self._first_use]
            # An error before the end of the input leaves references open that later lines may define.
            if not missing or error.span.start < len(self.lexer.input.content.rstrip()):
                raise
            raise ParseError(self._first_use[missing[0]], f"use of undeclared SSA value %{missing[0]}") from None
