"""The pass `drop-unread-arguments`: dead argument elimination."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from tensorgrad.dialects.signature import Role, arguments_of, results_of, role_of
from tensorgrad.passes.functions import set_signature
from tensorgrad.passes.levels import TENSORS, LevelPass


@dataclass(frozen=True)
class DropUnreadArgumentsPass(LevelPass):
    """Drops arguments that nothing reads, as LLVM's `deadargelim` does, and JAX's `jit` unless told `keep_unused`.

    Exporters run it, for runtimes that hold the values of all arguments: of a model, a function may read one layer.

    Expects functions on `tg` that nothing in the module calls, after `simplify`, which erases what has no effect.
    Guarantees that of the arguments with one of the roles each is read, is returned, or has its name among the updates
    and gradients that are returned; that the others keep their names and order; and the same results.

    Attributes:
        roles: The roles whose unread arguments are dropped. Inputs aren't by default, as callers pass them.
    """

    name = "drop-unread-arguments"
    levels = TENSORS

    roles: tuple[str, ...] = (Role.PARAMETER.value, Role.STATE.value, Role.SCALAR.value)

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        """Drops the arguments.

        Raises:
            VerifyException: There is no such role; the module is unchanged then.
        """
        roles = {role_of(role) for role in self.roles}
        for function in op.ops:
            if isinstance(function, FuncOp):
                _drop(function, roles)


def _drop(function: FuncOp, roles: Collection[Role]) -> None:
    block, slots, results = function.body.block, arguments_of(function), results_of(function)
    replaced = {slot.name for slot in results if slot.role in (Role.UPDATE, Role.GRADIENT)}
    kept = [
        slot.role not in roles or slot.name in replaced or bool(argument.uses)
        for argument, slot in zip(block.args, slots, strict=True)
    ]
    if all(kept):
        return
    for argument in [argument for argument, keep in zip(block.args, kept, strict=True) if not keep]:
        block.erase_arg(argument)
    set_signature(function, [slot for slot, keep in zip(slots, kept, strict=True) if keep], results)
