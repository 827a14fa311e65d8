"""The levels of a program, and what a pass declares: the levels of the modules that it takes, and its effect on values.

A pass that finds nothing to rewrite leaves a module unchanged, which at the wrong level would look like success. So
each pass names the levels that it expects, and the level of a module is checked before anything changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar, Self

from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.dialects.llvm import FuncOp as LlvmFuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import ArenaOp
from tensorgrad.dialects.buf_tiles import TiledOp
from tensorgrad.dialects.cpu import KernelOp as CpuKernelOp
from tensorgrad.dialects.wgsl import KernelOp as WgslKernelOp
from tensorgrad.runtime.target import Target


class Level(Enum):
    """The levels from the top down; each value is the level's name in messages."""

    STABLEHLO = "stablehlo"
    TG = "tg"
    BUF = "buf"
    PLANNED = "buf with a memory plan"
    TILES = "buf with tiles"
    WGSL = "wgsl"
    CPU = "cpu"
    LLVM = "llvm"


LEVELS_OF_DIALECTS = {"stablehlo": Level.STABLEHLO, "chlo": Level.STABLEHLO, "tg": Level.TG, "buf": Level.BUF}

LOWERED_BY = {
    Level.TG: "stablehlo-to-tg",
    Level.BUF: "lower-tg-to-buf",
    Level.PLANNED: "plan-memory",
    Level.TILES: "tile",
    Level.WGSL: "lower-buf-to-wgsl",
    Level.CPU: "lower-buf-to-cpu",
    Level.LLVM: "convert-to-llvm",
}
"""The pass that lowers to each level from the one above it."""

TENSORS = (Level.TG,)
KERNELS = (Level.BUF,)
PLANNED = (Level.PLANNED,)
NATIVE_KERNELS = (Level.PLANNED, Level.CPU)
PLANNED_OR_NOT = (Level.BUF, Level.PLANNED)
TILES_AND_ABOVE = (Level.BUF, Level.PLANNED, Level.TILES)


class TargetedPass(ModulePass, ABC):
    """A pass that may have an option `target`.

    The field is a `Target`; in a pipeline's text, the option is the name of a profile, a file or JSON.
    """

    @classmethod
    def from_spec(cls, spec: ArgSpec) -> Self:
        """Returns the pass that a specification describes.

        Raises:
            ValueError: An option is unknown or malformed.
            TargetError: There is no such target.
        """
        options = dict(spec.normalize_parameter_names().parameters)
        target = options.pop("target", None)
        pass_ = super().from_spec(ArgSpec(spec.name, options))
        return pass_ if target is None else replace(pass_, target=target_of(cls.name, target))

    def spec(self, *, include_default: bool = False) -> ArgSpec:
        """Returns the specification of the pass, which `from_spec` reads."""
        result = super().spec(include_default=include_default)
        target = getattr(self, "target", None)
        if "target" in result.parameters and isinstance(target, Target):
            result.parameters["target"] = (str(target),)
        return result


@dataclass(frozen=True)
class Effect:
    """How a pass changes the values of a function's results: by default it keeps them, whatever results it adds.

    Attributes:
        differentiated: The index of the result whose gradients it adds, if any.
        changes_gradients: Whether gradients become other values, such as means.
        adds_updates: Whether it adds updates, which replace gradients.
        rounds: The unit roundoff of the element type that it rounds values to; 0 if it rounds none.
        distributes: Whether it turns a step on a whole batch into the step of one process.
    """

    differentiated: int | None = None
    changes_gradients: bool = False
    adds_updates: bool = False
    rounds: float = 0.0
    distributes: bool = False


class LevelPass(TargetedPass):
    """A pass that expects modules at some levels and refuses all others.

    Attributes:
        levels: The levels that the pass expects.
    """

    levels: ClassVar[tuple[Level, ...]]

    @property
    def effect(self) -> Effect:
        """How the pass changes the values of results."""
        return Effect()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Runs the pass on a module of one of its levels.

        Raises:
            DiagnosticException: The module is at another level, or at the level tg with a function of other values
                than tensors; it has not been changed.
        """
        level = level_of(op)
        if level is not None and level not in self.levels:
            raise DiagnosticException(f"{self.name} {_wrong_level(level, self.levels)}")
        if level is Level.TG:
            _check_tensors(op)
        self.rewrite(ctx, op)

    @abstractmethod
    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrites a module of one of the pass's levels in place."""


def _check_tensors(module: ModuleOp) -> None:
    for function in module.ops:
        if isinstance(function, FuncOp):
            types = function.function_type
            others = [kind for kind in (*types.inputs, *types.outputs) if not isinstance(kind, TensorType)]
            if others:
                raise DiagnosticException(
                    f"functions at level {Level.TG.value} take and return tensors, @{function.sym_name.data} has "
                    f"{others[0]}"
                )


def effect_of(pass_: ModulePass) -> Effect:
    """Returns how a pass changes the values of results; a pass that does not declare it keeps them."""
    return pass_.effect if isinstance(pass_, LevelPass) else Effect()


def target_of(name: str, option: Sequence[object]) -> Target:
    """Returns the target that an option of a pass or a pipeline denotes.

    Raises:
        ValueError: The option is not a single string.
        TargetError: There is no such target.
    """
    if len(option) != 1 or not isinstance(option[0], str):
        raise ValueError(f"{name}: target must be given once, as a string, got {list(option)}")
    return Target.from_spec(option[0])


def _wrong_level(actual: Level, levels: tuple[Level, ...]) -> str:
    order = list(Level)
    if order.index(actual) < order.index(levels[0]):
        remedy = f"run `{LOWERED_BY[levels[0]]}` first"
    else:
        below = next(level for level in order[order.index(levels[-1]) + 1 :] if level is not Level.TILES)
        remedy = f"run it before `{LOWERED_BY[actual if actual is Level.TILES else below]}`"
    expected = " or ".join(level.value for level in levels)
    return f"expects a module at level {expected}, this one is at level {actual.value}: {remedy}"


def level_of(module: ModuleOp) -> Level | None:
    """Returns the level of a module, or `None` if no op in it belongs to a level, as in an empty module."""
    result: Level | None = None
    for op in module.ops:
        if isinstance(op, WgslKernelOp):
            return Level.WGSL
        if isinstance(op, CpuKernelOp):
            return Level.CPU
        if isinstance(op, LlvmFuncOp):
            return Level.LLVM
        if isinstance(op, FuncOp):
            if _is_stablehlo(op):
                return Level.STABLEHLO
            result = _level_of_function(op) if result is None else result
    return result


def _is_stablehlo(function: FuncOp) -> bool:
    """Returns whether the first op of a function, but calls of others, is of StableHLO."""
    ops = function.body.blocks[0].ops if function.body.blocks else ()
    first = next((op for op in ops if not op.name.startswith("func.")), None)
    return first is not None and _level_of_op(first) is Level.STABLEHLO


def _level_of_function(function: FuncOp) -> Level | None:
    ops = list(function.body.blocks[0].ops) if function.body.blocks else []
    kinds = set(map(type, ops))
    if TiledOp in kinds:
        return Level.TILES
    if ArenaOp in kinds:
        return Level.PLANNED
    signature = function.function_type
    for type_ in (*signature.inputs.data, *signature.outputs.data):
        if isinstance(type_, TensorType):
            return Level.TG
        if isinstance(type_, MemRefType):
            return Level.BUF
    return next((level for op in function.body.walk() if (level := _level_of_op(op)) is not None), None)


def _level_of_op(op: Operation) -> Level | None:
    dialect = op.name.split(".", 1)[0]
    return LEVELS_OF_DIALECTS.get(dialect)
