"""What is checked of a shader before a driver sees it: that its length and nesting are bounded.

Shader compilers recurse as deep as a text nests; one that nests deeper than their stack ends the process. What this
package emits stays far below these bounds.
"""

from __future__ import annotations

import re

from tensorgrad.runtime.errors import ProgramError

MOST_CHARACTERS = 1 << 22
"""How long a shader may be."""
MOST_NESTED = 100
"""How many brackets may be open at a time."""
MOST_OPERATORS = 1000
"""How many brackets and operators a statement may have, and how many branches a shader's chains of conditions."""
MOST_DECLARATIONS = 1000
"""How many functions, structures and aliases a shader may have: each may be in terms of the one before."""

_COMMENT = re.compile("//[^\n\v\f\r\x85\u2028\u2029]*")
_BRANCH, _DECLARATION = re.compile(r"\belse\s+if\b"), re.compile(r"\b(?:fn|struct|alias)\b")
_TOKEN = re.compile(r"[][(){};]|[-+*/%&|^~!<>=.@]")


def check_shader(code: object, where: str) -> None:
    """Checks that a shader's text is bounded.

    Args:
        code: The text, untrusted.
        where: What messages begin with.

    Raises:
        ProgramError: It is not; says how much it may have of what.
    """
    if not isinstance(code, str):
        raise ProgramError(f"{where}: its code must be a text, got {type(code).__name__}")
    found = _excess(code)
    if found:
        raise ProgramError(f"{where}: its code has {found}: no shader compiler is trusted with that")


def _excess(code: str) -> str:
    """Returns why a text is refused, or nothing."""
    if len(code) > MOST_CHARACTERS:
        return f"{len(code)} characters, at most {MOST_CHARACTERS} are allowed"
    code = _COMMENT.sub(" ", code)
    if "/*" in code:
        return "block comments, which are not allowed"
    for pattern, most, what in (
        (_BRANCH, MOST_OPERATORS, "conditions after `else`"),
        (_DECLARATION, MOST_DECLARATIONS, "declarations"),
    ):
        if len(pattern.findall(code)) > most:
            return f"more than {most} {what}"
    depth = operators = 0
    for match in _TOKEN.finditer(code):
        token = match[0]
        depth += (token in "([{") - (token in ")]}")
        operators = 0 if token in ";{}" else operators + 1
        if depth > MOST_NESTED:
            return f"more than {MOST_NESTED} open brackets"
        if operators > MOST_OPERATORS:
            return f"a statement of more than {MOST_OPERATORS} operators"
    return ""
