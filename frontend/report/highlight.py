"""Source and IR as HTML, a line at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer, RegexLexer, bygroups
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text, Whitespace

MOST = 1_500_000
"""The longest text that is coloured, in characters: a longer one takes a browser too long."""


class MlirLexer(RegexLexer):
    """IR as xDSL and MLIR print it."""

    name = "MLIR"
    aliases: ClassVar[Sequence[str]] = ["mlir"]
    tokens: ClassVar[dict[str, list[Any]]] = {
        "root": [
            (r"\s+", Whitespace),
            (r"//[^\n]*", Comment.Single),
            (r'"(?:[^"\\\n]|\\.)*"', String),
            (r"%[\w$.-]+(?:#\d+)?", Name.Variable),
            (r"@[\w$.-]+", Name.Function),
            (r"\^[\w$.-]+", Name.Label),
            (r"[!#][A-Za-z_][\w$.]*", Keyword.Type),
            (r"\b(?:ui|si|i|f)\d+\b|\b(?:index|bf16|none)\b", Keyword.Type),
            (r"\b(?:tensor|memref|vector|affine_map|dense|array|loc)(?=<)", Keyword.Type),
            (r"(\b(?:\d+x)+)((?:ui|si|i|f)\d+|index|vector)?", bygroups(Number, Keyword.Type)),
            (r"\b[a-z_]\w*(?:\.[a-z_]\w*)+", Keyword),
            (r"-?\b\d+(?:\.\d*)?(?:[eE][+-]?\d+)?\b", Number),
            (r"[A-Za-z_]\w*", Name),
            (r"->|[=:+*/-]", Operator),
            (r"[{}()\[\]<>,;]", Punctuation),
            (r".", Text),
        ]
    }


class Highlighter:
    """Colours texts, by the classes of Pygments."""

    def __init__(self) -> None:
        self._formatter: HtmlFormatter[str] = HtmlFormatter(nowrap=True)
        self._lexers: dict[str, Lexer] = {"mlir": MlirLexer(stripnl=False, ensurenl=False)}

    def html(self, text: str, language: str) -> str:
        """Returns a text as HTML, of the same lines.

        Args:
            text: The text.
            language: "mlir", or a name that Pygments has: "python", "wgsl", "llvm", "diff".
        """
        if len(text) > MOST:
            return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        if language not in self._lexers:
            self._lexers[language] = get_lexer_by_name(language, stripnl=False, ensurenl=False)
        marked = str(highlight(text, self._lexers[language], self._formatter))
        return marked.replace('<span class="w">', "<span>").removesuffix("\n") if not text.endswith("\n") else marked

    def style(self) -> str:
        """Returns the colours as CSS, for light pages and, below `[data-theme=dark]`, for dark ones."""
        light = HtmlFormatter(style="default").get_style_defs(".code")
        dark = HtmlFormatter(style="github-dark").get_style_defs("[data-theme=dark] .code")
        return f"{light}\n{dark}"
