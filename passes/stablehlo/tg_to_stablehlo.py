"""The pass `tg-to-stablehlo`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region
from xdsl.printer import Printer
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import DiagnosticException
from xdsl.utils.target import Target

from tensorgrad.dialects.tg.base import Tensor
from tensorgrad.passes.functions import return_of
from tensorgrad.passes.levels import TENSORS, Level, LevelPass, level_of
from tensorgrad.passes.stablehlo.exporting.rules import RULES
from tensorgrad.passes.stablehlo.exporting.writer import Writer


@dataclass(frozen=True)
class TgToStablehloPass(LevelPass):
    """Converts functions on `tg` to functions on StableHLO, which XLA and IREE compile.

    Expects functions on `tg`, differentiated if they should be. Guarantees functions on StableHLO, and on `chlo` where
    `tg` has an elementary function that StableHLO lacks, with the same arguments and results, which keep the attributes
    that say their names and roles. A function that is the only one is called `main`, as XLA wants. Calls are inlined:
    custom derivatives end here; `tg.stop_gradient` and `tg.relu`, whose derivatives StableHLO can't tell, become
    composites that we read as what they were. Random bits, sorts and floor divisions are the same as on every device
    of ours.

    Ops that pass data between processes are refused: all are listed, with their lines.
    """

    name = "tg-to-stablehlo"
    levels = TENSORS

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        functions = [function for function in op.ops if isinstance(function, FuncOp)]
        faults: list[str] = []
        decompositions: dict[tuple[str, Tensor], FuncOp] = {}
        converted = [_converted(function, faults, decompositions) for function in functions]
        if faults:
            listed = "".join(f"\n  {fault}" for fault in dict.fromkeys(faults))
            raise DiagnosticException(f"{self.name}: this has no counterpart:{listed}")
        if len(converted) == 1:
            converted[0].properties["sym_name"] = StringAttr("main")
        for old, new in zip(functions, converted, strict=True):
            op.body.block.insert_op_before(new, old)
            Rewriter.erase_op(old)
        op.body.block.add_ops(decompositions.values())


@dataclass(frozen=True)
class StablehloTarget(Target):
    """Prints functions on `tg` as StableHLO: `tg-opt -t stablehlo`; functions that are on it already, as they are."""

    name = "stablehlo"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        """Writes the module.

        Raises:
            DiagnosticException: It is at a level below, or has ops without a counterpart.
        """
        if level_of(module) is not Level.STABLEHLO:
            TgToStablehloPass().apply(ctx, module)
        Printer(output).print_op(module)
        output.write("\n")


def _converted(function: FuncOp, faults: list[str], decompositions: dict[tuple[str, Tensor], FuncOp]) -> FuncOp:
    end, source = return_of(function), function.body.block
    block = Block(arg_types=[argument.type for argument in source.args])
    for new, old in zip(block.args, source.args, strict=True):
        new.name_hint, new.location = old.name_hint, old.location
    results = Writer(block, RULES, faults, decompositions).block(source, block.args)
    last = ReturnOp(*results)
    last.location = end.location
    block.add_op(last)
    name, kind, visibility = function.sym_name.data, function.function_type, function.sym_visibility
    new = FuncOp(name, kind, Region(block), visibility, arg_attrs=function.arg_attrs, res_attrs=function.res_attrs)
    new.location = function.location
    return new
