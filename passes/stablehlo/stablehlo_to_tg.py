"""The pass `stablehlo-to-tg`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, NameLoc
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.signature import ROLE, Role, Slot, arguments_of, results_of
from tensorgrad.dialects.tg.build import TensorBuilder, type_of
from tensorgrad.passes.functions import return_of, set_signature
from tensorgrad.passes.levels import Level, LevelPass
from tensorgrad.passes.stablehlo.importing.calls import inline_calls
from tensorgrad.passes.stablehlo.importing.reader import Reader, Unsupported
from tensorgrad.passes.stablehlo.importing.rules import RULES


@dataclass(frozen=True)
class StablehloToTgPass(LevelPass):
    """Converts functions on StableHLO, such as `jax.export` writes, to functions on `tg`.

    Expects functions of one block on StableHLO, of static shapes. Guarantees functions on `tg` that compute the same:
    public ones, with private ones inlined into them. A loop over a known number of iterations becomes `tg.scan`, with
    what it reads and writes at its counter as slices and stacks, so that it has a derivative. Arguments are inputs,
    named as their locations are, unless attributes say names and roles.

    What has no counterpart is refused: all such ops are listed, with their lines.

    Attributes:
        narrow: Whether integers of 64 bits become those of 32, which all devices have. Constants must fit.
    """

    name = "stablehlo-to-tg"
    levels = (Level.STABLEHLO,)

    narrow: bool = False

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        source = op.clone()
        inline_calls(source)
        faults: list[str] = []
        public = [function for function in source.ops if isinstance(function, FuncOp) and _is_public(function)]
        converted = [_converted(function, self.narrow, faults) for function in public]
        if faults:
            listed = "".join(f"\n  {fault}" for fault in dict.fromkeys(faults))
            raise DiagnosticException(f"{self.name}: this has no counterpart:{listed}")
        for function in list(op.body.block.ops):
            Rewriter.erase_op(function)
        op.body.block.add_ops(converted)
        for name in [name for name in op.attributes if name.startswith(("jax.", "mhlo."))]:
            del op.attributes[name]


def _is_public(function: FuncOp) -> bool:
    return function.sym_visibility is None or function.sym_visibility.data == "public"


def _converted(function: FuncOp, narrow: bool, faults: list[str]) -> FuncOp:
    """Returns a function on `tg`; what can't be converted is added to `faults`."""
    end = return_of(function)
    block = Block()
    reader = Reader(TensorBuilder(block), RULES, narrow, faults)
    for argument in function.body.block.args:
        try:
            kind = reader.kind(argument.type)
        except Unsupported as error:
            raise DiagnosticException(f"argument {argument.index} of @{function.sym_name.data}: {error}") from None
        new = block.insert_arg(kind, len(block.args))
        new.location, new.name_hint = argument.location, argument.name_hint
        reader.values[argument] = new
    values = reader.block(function.body.block)
    last = ReturnOp(*values)
    last.location = end.location
    block.add_op(last)
    types = [type_of(argument) for argument in block.args], [type_of(value) for value in values]
    new = FuncOp(function.sym_name.data, types, Region(block))
    new.location = function.location
    results = results_of(function) if _is_ours(function.res_attrs) else []
    set_signature(new, _slots(function), results)
    return new


def _is_ours(attributes: ArrayAttr[DictionaryAttr] | None) -> bool:
    """Returns whether the attributes of arguments or results say names and roles, as `tg-to-stablehlo` writes them."""
    return attributes is not None and all(ROLE in entry.data for entry in attributes)


def _slots(function: FuncOp) -> list[Slot]:
    """Returns the slots of arguments: those that they have, or inputs with the names of their locations."""
    if _is_ours(function.arg_attrs):
        return arguments_of(function)
    arguments = function.body.block.args
    names = [
        argument.location.desc.data if isinstance(argument.location, NameLoc) else f"arg{argument.index}"
        for argument in arguments
    ]
    if len(set(names)) < len(names):
        names = [f"arg{argument.index}" for argument in arguments]
    return [Slot(name, Role.INPUT) for name in names]
