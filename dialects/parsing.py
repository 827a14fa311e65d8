"""xDSL's parser, with what upstream MLIR prints: locations named before they are defined, and bits of floats."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    FileLineColLoc,
    IntAttr,
    LocationAttr,
    StringAttr,
    UnknownLoc,
    UnregisteredOp,
)
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.parser.attribute_parser import AttrParser
from xdsl.utils.mlir_lexer import MLIRTokenKind

_LOCATION = re.compile(r"^(#loc\w*) = (loc\(.*\))$", re.MULTILINE)
"""The definition of a location's alias: upstream prints those that the module uses after it."""

LOCATED = ("stablehlo", "chlo")
"""The dialects whose ops get the line of the text as their location, if the text has no other.

Their errors are about the text that another program wrote.
"""


class UpstreamParser(Parser):
    """xDSL's parser, with what upstream MLIR prints and xDSL does not read.

    Locations may be named before they are defined, and be ranges, of which the start counts. The bits of a float, as
    infinities and NaN are printed, are understood in dense constants too.
    """

    Element = AttrParser._TensorLiteralElement

    class _ElementOrBits(Element):
        """An element of a dense literal, which may be the bits of a float in hexadecimal digits."""

        def to_type(self, parser: AttrParser, type: Any) -> Any:
            """Returns the element as a number of a type, where upstream's takes the bits of a float for its value."""
            if not isinstance(type, AnyFloat) or not self.span.text.lower().startswith("0x"):
                return super().to_type(parser, type)
            size = type.compile_time_size
            if len(self.span.text) != 2 + 2 * size:
                parser.raise_error(f"Expected {2 * size} hexadecimal digits, the bits of {type}", at_position=self.span)
            return type.unpack(cast(int, self.value).to_bytes(size, "little"), 1)[0]

    def __init__(self, context: Context, text: str | bytes, name: str = "<unknown>"):
        super().__init__(context, text, name)
        self._locations: dict[str, str] = dict(_LOCATION.findall(self.lexer.input.content))
        self._line_starts: list[int] | None = None

    def _parse_tensor_literal_element(self) -> AttrParser._TensorLiteralElement:
        element = super()._parse_tensor_literal_element()
        return self._ElementOrBits(element.is_negative, element.value, element.span)

    def _parse_alias_def(self) -> None:
        if self._is_location():
            self.attribute_aliases.pop(self._current_token.text, None)
        super()._parse_alias_def()

    def _is_location(self) -> bool:
        return self._current_token.kind is MLIRTokenKind.HASH_IDENT and self._current_token.text in self._locations

    def _parse_location(self) -> LocationAttr:
        if self._is_location():
            self._define_location(self._current_token.text)
        location = super()._parse_location()
        if isinstance(location, FileLineColLoc) and self.parse_optional_keyword("to"):
            self.parse_optional_integer(allow_boolean=False, allow_negative=False)
            self.parse_punctuation(":")
            self.parse_integer(allow_boolean=False, allow_negative=False)
        return location

    def _define_location(self, alias: str) -> None:
        """Defines an alias of a location, and those in it, from the text that follows."""
        if alias in self.attribute_aliases:
            return
        parser = UpstreamParser(self.ctx, self._locations[alias])
        parser._locations, parser.attribute_aliases = self._locations, self.attribute_aliases
        location = parser.parse_optional_location()
        assert location is not None
        self.attribute_aliases[alias] = location

    def _get_op_by_name(self, name: str) -> type[Operation]:
        op = super()._get_op_by_name(name)
        if issubclass(op, UnregisteredOp) and name.partition(".")[0] in LOCATED:
            self.raise_error(f"Operation {name} is not registered")
        return op

    def parse_operation(self) -> Operation:
        """Parses an op; one of another program's dialects has at least its own line as location."""
        start = self._current_token.span.start
        op = super().parse_operation()
        if isinstance(op.location, UnknownLoc) and op.name.partition(".")[0] in LOCATED:
            op.location = self._line_at(start)
        return op

    def _line_at(self, position: int) -> FileLineColLoc:
        text = self.lexer.input
        if self._line_starts is None:
            self._line_starts = list(accumulate((len(line) for line in text.content.splitlines(True)), initial=0))
        line = bisect_right(self._line_starts, position)
        column = position - self._line_starts[line - 1]
        return FileLineColLoc(StringAttr(text.name), IntAttr(line), IntAttr(column))
