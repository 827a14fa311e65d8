"""Passes for tests: one that renames functions, one that crashes, one that leaves invalid IR."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from tensorgrad.dialects.tg.elementwise.arithmetic import NegOp


@dataclass(frozen=True)
class RenameFunctionsPass(ModulePass):
    """Renames every function."""

    name = "rename-functions"

    prefix: str = "renamed_"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, FuncOp):
                function.sym_name = StringAttr(self.prefix + function.sym_name.data)


@dataclass(frozen=True)
class CrashPass(ModulePass):
    """Crashes."""

    name = "crash"

    depth: int = 0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise IndexError(f"depth {self.depth}")


@dataclass(frozen=True)
class SwapDifferencesPass(ModulePass):
    """Swaps the operands of subtractions."""

    name = "swap-differences"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            if inner.name == "tg.sub":
                inner.operands = list(inner.operands)[::-1]


@dataclass(frozen=True)
class ReturnFirstPass(ModulePass):
    """Moves every `tg.neg` after the terminator of its block."""

    name = "return-first"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in list(op.walk()):
            if isinstance(inner, NegOp) and (block := inner.parent) is not None:
                inner.detach()
                block.add_op(inner)
