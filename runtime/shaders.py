"""Validates shader text before it reaches a driver: bounds its length and nesting.

Shader compilers recurse on nested text, and nesting that overflows their stack kills the process. Shaders emitted by
this package stay far below these bounds.
"""

from __future__ import annotations

import re
from itertools import accumulate

from tensorgrad.runtime.errors import ProgramError

MOST_CHARACTERS = 1 << 22
"""The maximum length of a shader."""
MOST_NESTED = 100
"""The maximum bracket nesting depth."""
MOST_OPERATORS = 1000
"""The maximum number of brackets and operators in a statement, and of branches in an if-else chain."""
MOST_DECLARATIONS = 1000
"""The maximum number of functions, structures and aliases in a shader, as each may be defined by the previous one."""

_COMMENT = re.compile("//[^\n\v\f\r\x85\u2028\u2029]*")
_BRANCHES, _DECLARATIONS = ("else",), ("fn", "struct", "alias")
_BRANCH, _DECLARATION = re.compile(r"\belse\s+if\b"), re.compile(r"\b(?:fn|struct|alias)\b")
_STATEMENT_END = re.compile("[;{}]")
_OPERATOR = re.compile(r"[][()]|[-+*/%&|^~!<>=.@]")
_DEPTHS = {**dict.fromkeys(b"([{", 1), **dict.fromkeys(b")]}", -1)}
_NO_BRACKETS = bytes(set(range(256)) - set(_DEPTHS))


def check_shader(code: object, where: str) -> None:
    """Checks that a shader's text is bounded.

    Args:
        code: The untrusted text.
        where: The prefix of error messages.

    Raises:
        ProgramError: It exceeds a bound; says which.
    """
    if not isinstance(code, str):
        raise ProgramError(f"{where}: its code must be a string, got {type(code).__name__}")
    excess = _excess(code)
    if excess:
        raise ProgramError(f"{where}: its code has {excess}: no shader compiler is trusted with that")


def _excess(code: str) -> str:
    """Returns why a text is rejected, or an empty string."""
    if len(code) > MOST_CHARACTERS:
        return f"{len(code)} characters, at most {MOST_CHARACTERS} are allowed"
    code = _COMMENT.sub(" ", code)
    if "/*" in code:
        return "block comments, which are not allowed"
    for words, pattern, most, what in (
        (_BRANCHES, _BRANCH, MOST_OPERATORS, "conditions after `else`"),
        (_DECLARATIONS, _DECLARATION, MOST_DECLARATIONS, "declarations"),
    ):
        if sum(map(code.count, words)) > most and len(pattern.findall(code)) > most:
            return f"more than {most} {what}"
    brackets = code.encode(errors="replace").translate(None, _NO_BRACKETS)
    if max(accumulate(map(_DEPTHS.__getitem__, brackets)), default=0) > MOST_NESTED:
        return f"more than {MOST_NESTED} open brackets"
    statements = (text for text in _STATEMENT_END.split(code) if len(text) > MOST_OPERATORS)  # others have fewer
    if any(len(_OPERATOR.findall(text)) > MOST_OPERATORS for text in statements):
        return f"a statement of more than {MOST_OPERATORS} operators"
    return ""
