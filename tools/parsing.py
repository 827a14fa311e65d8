"""xDSL's parser, with undefined values reported where they are used and infinite constants, and files of IR."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, ModuleOp, TensorType
from xdsl.ir import AttributeInvT, Dialect, Operation, SSAValue
from xdsl.parser import UnresolvedOperand
from xdsl.universe import Universe
from xdsl.utils.exceptions import DiagnosticException, ParseError, VerifyException
from xdsl.utils.lexer import Span
from xdsl.utils.mlir_lexer import MLIRTokenKind

from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.parsing import UpstreamParser
from tensorgrad.errors import ProgramError
from tensorgrad.passes.analyses.structure import verify_structure
from tensorgrad.runtime.errors import MALFORMED
from tensorgrad.runtime.texts import read_text
from tensorgrad.tools.verifying import verifying

MOST_ELEMENTS = 1 << 24
"""The most elements of a constant: xDSL's parser repeats an element in hexadecimal as often as a type says."""

MOST_POSITIONS = (1 << 63) - 1
"""The most elements of a tensor: as many as an index of 64 bits counts."""

_STRING = re.compile(r'"(?:[^"\\\n\v\f]|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')
"""A string literal, matched in linear time; upstream's pattern takes exponential time without a closing quote."""

_SPLAT = re.compile(r"<\s*(?![\s\[\">])")
"""The beginning of a dense constant whose elements are written as one: no list, no text in hexadecimal, not empty."""

_SHAPE = r"(?:tensor|vector|memref)<((?:\s*\d+\s*x)+)"
_ALIAS = re.compile(r"(!\w+)\s*=\s*" + _SHAPE)
_DENSE = re.compile(r"dense<[^<>]*>\s*:\s*(?:(!\w+)|" + _SHAPE + ")")


def _extents(shape: str) -> list[int]:
    """Returns the extents of a shape's text, of which the first digits of very long ones suffice."""
    return [int(extent[:20]) for extent in re.findall(r"\d+", shape)]


def _large_constant(text: str) -> tuple[int, int] | None:
    """Returns the span of the first constant with too many elements; `None` if there is none."""
    shapes = {alias[1]: alias[2] for alias in _ALIAS.finditer(text)}
    for constant in _DENSE.finditer(text):
        if math.prod(_extents(constant[2] or shapes.get(constant[1], ""))) > MOST_ELEMENTS:
            return constant.span()
    return None


def _huge_shape(text: str) -> tuple[int, int] | None:
    """Returns the span of the first shape that no index can count, even if another extent is 0; `None` if none is."""
    for shape in re.finditer(_SHAPE, text):
        if math.prod(extent or 1 for extent in _extents(shape[1])) > MOST_POSITIONS:
            return shape.span()
    return None


def close_op(context: Context, name: str) -> str | None:
    """Returns the registered op whose name is closest to an unknown one; `None` if none is close."""
    dialect, _, rest = name.partition(".")
    dialects = list(context.registered_dialect_names)
    likely = get_close_matches(dialect, dialects, n=1) if dialect not in dialects else [dialect]
    for likely_name in likely:
        if likely_name not in {loaded.name for loaded in context.loaded_dialects}:
            context.load_registered_dialect(likely_name)
    names = [op.name for op in context.loaded_ops]
    close = get_close_matches(f"{likely[0]}.{rest}" if likely and rest else name, names, n=1)
    return close[0] if close else None


class LocatingParser(UpstreamParser):
    """xDSL's parser, with further faults of it mended.

    An unknown op is reported with the closest known one, and an undefined value at its first use instead of at the end
    of the file. A text without ops is an empty module.
    """

    def __init__(self, context: Context, text: str | bytes, name: str = "<unknown>"):
        super().__init__(context, text, name)
        lexer: Any = self.lexer
        lexer._unescaped_characters_regex = _STRING
        self._first_use: dict[str, Span[str]] = {}

    def parse_dense_int_or_fp_elements_attr(self, type: Any) -> DenseIntOrFPElementsAttr[Any]:
        """Parses a dense constant; one element for all is stored once; xDSL repeats it, and prints NaN as a list."""
        elements = self._current_token.span
        try:
            return self._parse_elements(type)
        except (ValueError, OverflowError) as error:
            self.raise_error(str(error), elements)

    def _parse_elements(self, type: Any) -> DenseIntOrFPElementsAttr[Any]:
        if not _SPLAT.match(self.lexer.input.content, self._current_token.span.start):
            return super().parse_dense_int_or_fp_elements_attr(type)
        with self.in_angle_brackets():
            (literal,), _ = self._parse_tensor_literal()
        if type is None:
            self.parse_punctuation(":", " in dense attribute")
            type = self._parse_dense_literal_type()
        values = [literal.to_type(self, type.element_type)]
        stored: Any = DenseIntOrFPElementsAttr.from_list(TensorType(type.element_type, [1]), cast(Any, values))
        return DenseIntOrFPElementsAttr(type, BytesAttr(b"") if 0 in type.get_shape() else stored.data)

    def resolve_operand(self, operand: UnresolvedOperand, type: AttributeInvT) -> SSAValue[AttributeInvT]:
        """Returns the value that an operand names, or a forward reference, whose first use is recorded."""
        result = super().resolve_operand(operand, type)
        name = operand.operand_name
        if name in self.forward_ssa_references:
            self._first_use.setdefault(name, operand.span)
        return result

    def _get_op_by_name(self, name: str) -> type[Operation]:
        op = self.ctx.get_optional_op(name, dialect_stack=self._parser_state.dialect_stack)
        if op is None:
            text, close = self.lexer.input, close_op(self.ctx, name)
            start = text.content.rindex(name, 0, self._current_token.span.start)
            hint = f"; did you mean {close}?" if close else ""
            self.raise_error(f"Operation {name} is not registered{hint}", Span(start, start + len(name), text))
        return op

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        """Parses the input as a module.

        Raises:
            ParseError: It is malformed, or uses a value that nothing defines.
        """
        text = self.lexer.input
        if allow_implicit_module and self._current_token.kind is MLIRTokenKind.EOF:
            return ModuleOp([])
        if (span := _huge_shape(text.content)) is not None:
            raise ParseError(Span(*span, text), f"a shape of more than {MOST_POSITIONS} elements")
        if (span := _large_constant(text.content)) is not None:
            raise ParseError(Span(*span, text), f"a constant of more than {MOST_ELEMENTS} elements")
        try:
            return super().parse_module(allow_implicit_module)
        except (RecursionError, MemoryError) as error:
            raise ParseError(self._current_token.span, f"this is nested too deeply, or too large ({error})") from None
        except (AssertionError, NotImplementedError, *MALFORMED) as error:  # xDSL's parsers assert what they expect
            if isinstance(error, DiagnosticException | VerifyException):
                raise
            raise ParseError(self._current_token.span, f"this is malformed: {error!r}") from error
        except ParseError as error:
            missing = [name for name in self.forward_ssa_references if name in self._first_use]
            # After an error before the end of the input, later lines may still define the forward references.
            if not missing or error.span.start < len(self.lexer.input.content.rstrip()):
                raise
            raise ParseError(self._first_use[missing[0]], f"use of undeclared SSA value %{missing[0]}") from None


def only_function(module: ModuleOp) -> str:
    """Returns the name of a module's only public function.

    Raises:
        ProgramError: There is none, or more than one.
    """
    try:
        return find_function(module, None).sym_name.data
    except DiagnosticException as error:
        raise ProgramError(str(error)) from error


def parse_module(text: str, name: str, dialects: Iterable[Dialect] = (), unregistered: bool = False) -> ModuleOp:
    """Returns the module of a text, which is not verified.

    Args:
        text: IR of any level.
        name: The name of the text in messages.
        dialects: Further dialects, by which upstream's and ours can be replaced.
        unregistered: Whether ops of unregistered dialects are accepted.

    Raises:
        ParseError: It is malformed, or uses a value that nothing defines.
    """
    from tensorgrad.tools.universe import TENSORGRAD_UNIVERSE

    context = Context(allow_unregistered=unregistered)
    known = {**Universe.get_multiverse().all_dialects, **TENSORGRAD_UNIVERSE.all_dialects}
    for dialect, load in {**known, **{added.name: lambda added=added: added for added in dialects}}.items():
        context.register_dialect(dialect, load)
    return LocatingParser(context, text, name).parse_module()


def parsed_file(path: str) -> ModuleOp:
    """Returns the module in a file, or on standard input if the path is `-`.

    Raises:
        ProgramError: It is not valid IR.
        OSError: It can't be read.
    """
    text = sys.stdin.read() if path == "-" else read_text(path, ProgramError)
    name = "<stdin>" if path == "-" else path
    if not text.strip():
        raise ProgramError(f"{name} is empty")
    try:
        module = parse_module(text, name)
        with verifying():
            module.verify()
            verify_structure(module)
    except (ParseError, VerifyException, DiagnosticException, *MALFORMED) as error:
        message = str(error)
        raise ProgramError(message if message.startswith(f"{name}:") else f"{name}: {message}") from error
    return module


def parsed_tensors(path: str) -> ModuleOp:
    """Returns the module in a file, or on standard input if the path is `-`.

    Raises:
        ProgramError: It is not IR at the level `tg`.
        OSError: It can't be read.
    """
    module = parsed_file(path)
    below = next((op.name for op in module.walk() if op.name.startswith(("buf.", "wgsl."))), None)
    if below is not None:
        raise ProgramError(f"{path}: has {below}; only functions at level tg are compiled")
    return module
