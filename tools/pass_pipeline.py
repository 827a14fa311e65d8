"""Pipelines as text, nested as `mlir-opt` nests them: `builtin.module(func.func(cse),fuse)`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.passes.pipelines import Available, find_pass, read_passes
from tensorgrad.passes.running import pass_text

MODULE_ANCHORS = ("builtin.module", "any")
"""The anchors around passes on the module; as a module has no other around it, `any` is one too."""

FUNCTION_ANCHOR = "func.func"

_NESTED = re.compile(r"\s*([\w.]+)\((.*)\)\s*", re.DOTALL)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|.', re.DOTALL)


@dataclass(frozen=True)
class FunctionPass(ModulePass):
    """Runs a pass on each function alone, in a module that holds nothing else.

    Attributes:
        inner: The pass.
    """

    name = FUNCTION_ANCHOR

    inner: ModulePass

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Runs the pass on all functions, in order.

        Raises:
            DiagnosticException: The pass refuses a function, or changes attributes of the module.
        """
        block = op.body.block
        for function in [candidate for candidate in block.ops if isinstance(candidate, FuncOp)]:
            following = function.next_op
            function.detach()
            alone = ModuleOp([function], dict(op.attributes))
            self.inner.apply(ctx, alone)
            remaining: list[Operation] = list(alone.body.block.ops)
            for inner_op in remaining:
                inner_op.detach()
            if following is None:
                block.add_ops(remaining)
            else:
                block.insert_ops_before(remaining, following)
            if alone.attributes != op.attributes:
                raise DiagnosticException(f"{self.inner.name} changes the module: write it outside of {self.name}(...)")

    def spec(self, *, include_default: bool = False) -> ArgSpec:
        """Returns the specification, from which a pipeline reads the same passes."""
        return ArgSpec(f"{self.name}({pass_text(self.inner)})", {})


def read_pipeline(text: str, available: Available) -> tuple[ModulePass, ...]:
    """Returns the passes of a comma-separated list, with named pipelines expanded.

    Args:
        text: Passes and pipelines with their options in braces, and lists of them in `builtin.module(...)`,
            `any(...)` or `func.func(...)`.
        available: The passes by name.

    Raises:
        ValueError: A name or an option is unknown, an option is missing or has the wrong type, or an anchor doesn't
            fit.
        ArgSpecParseError: The text is malformed.
    """
    passes: list[ModulePass] = []
    for element in _elements(text):
        nested = _NESTED.fullmatch(element)
        if nested is None:
            passes += read_passes(element, available)
            continue
        inner = read_pipeline(nested[2], available)
        if nested[1] == FUNCTION_ANCHOR:
            if any(isinstance(pass_, FunctionPass) for pass_ in inner):
                raise ValueError(f"{FUNCTION_ANCHOR}(...) is nested in itself")
            inner = tuple(map(FunctionPass, inner))
        elif nested[1] not in MODULE_ANCHORS:
            raise ValueError(f"passes run on builtin.module(...) or {FUNCTION_ANCHOR}(...), not on {nested[1]}(...)")
        passes += inner
    return tuple(passes)


def named_passes(lists: Iterable[str] | None, available: Available) -> frozenset[str]:
    """Returns the names in comma-separated lists.

    Raises:
        ValueError: There is no such pass.
    """
    names = [name for listed in lists or () for name in listed.split(",")]
    for name in names:
        find_pass(name, available)
    return frozenset(names)


def pipeline_text(passes: Iterable[ModulePass]) -> str:
    """Returns passes as a text that `read_pipeline` reads."""
    return f"builtin.module({','.join(pass_text(pass_) for pass_ in passes)})"


def _elements(text: str) -> Iterator[str]:
    """Yields the parts of a list between commas that are outside of strings, braces and parentheses.

    Raises:
        ValueError: A part is empty, or a parenthesis has no partner.
    """
    if not text.strip():
        return
    parts, depth, braces = [""], 0, 0
    for token in _TOKEN.findall(text):
        braces += (token == "{") - (token == "}")
        if braces <= 0:
            depth += (token == "(") - (token == ")")
        if depth < 0:
            break
        if token == "," and depth == 0 and braces <= 0:
            parts.append("")
        else:
            parts[-1] += token
    if depth:
        raise ValueError(f"a parenthesis has no partner in the pipeline {text!r}")
    if not all(part.strip() for part in parts):
        raise ValueError(f"a pass is missing beside a comma in the pipeline {text!r}")
    yield from parts
