"""The pass `trace-optimizer`; optimizers on the command line are written as in Python."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad import optim
from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.signature import Role, arguments_of
from tensorgrad.dialects.tg.base import numpy_dtype
from tensorgrad.dialects.tg.build import shape_of
from tensorgrad.errors import UserError
from tensorgrad.optim.tracing import add_updates
from tensorgrad.passes.levels import TENSORS, LevelPass
from tensorgrad.passes.tensors.updates import updates_of
from tensorgrad.tracing.dtypes import Spec

NOT_WRITTEN = ("clip_gradients", "minimize", "optimizer", "transformation", "zeros_of")
"""Functions that take functions, so they can't be written here."""
WRITTEN: dict[str, Callable[..., Any]] = {
    name: getattr(optim, name)
    for name in optim.__all__
    if name == "Schedule" or (name.islower() and name not in (*NOT_WRITTEN, "schedules"))
}


@dataclass(frozen=True)
class TraceOptimizerPass(LevelPass):
    """Adds the update functions of an optimizer to a module, for `append-updates` to apply.

    Expects a function with arguments of role `parameter`. Guarantees: private functions with the attribute
    `tg.updates`, one for each way in which parameters are updated; nothing else changes. The host provides every
    setting at each step, as with `tg.compile`.

    Attributes:
        optimizer: The optimizer, written like the Python expression after `tg.optim.`: `adam(1e-3, eps=1e-7)`, or a
            name.
        function: The function; may be omitted if there is only one.
        parameters: The parameters to update, if other optimizers update the rest; all by default.
        host: The prefix of the names by which the host gives settings.
    """

    name = "trace-optimizer"
    levels = TENSORS

    optimizer: str
    function: str | None = None
    parameters: tuple[str, ...] | None = None
    host: str = ""

    def __post_init__(self) -> None:
        read_optimizer(self.optimizer)

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        """Adds the update functions."""
        function = find_function(op, self.function)
        arguments = zip(arguments_of(function), function.body.block.args, strict=True)
        specs = {
            slot.name: Spec(shape_of(value), numpy_dtype(value.type))
            for slot, value in arguments
            if slot.role == Role.PARAMETER
        }
        where = f"{self.name}: @{function.sym_name.data}"
        missing = {*(self.parameters or ())} - {*specs}
        if missing:
            raise DiagnosticException(f"{where} has no parameter {min(missing)!r}")
        chosen = {name: spec for name, spec in specs.items() if self.parameters is None or name in self.parameters}
        number = len({update.optimizer for update in updates_of(op)})
        try:
            add_updates(op, read_optimizer(self.optimizer), chosen, number, self.host)
        except UserError as error:
            raise DiagnosticException(error.message) from None


def read_optimizer(text: str) -> optim.Optimizer:
    """Returns the optimizer of an expression of functions of `tg.optim`, numbers, text, tuples, lists and dicts.

    A name on its own is called with its defaults; the host provides the learning rate anyway.

    Raises:
        ValueError: It is not such an expression, there is no such function, or the arguments don't fit.
    """
    try:
        result = _read(ast.parse(text.strip(), mode="eval").body, text)
    except SyntaxError as error:
        raise ValueError(f"optimizer {text!r} is not a call as in Python: {error.msg}") from None
    except UserError as error:  # it would name a line of Python, but there is none
        raise ValueError(error.message) from None
    if not isinstance(result, optim.Optimizer):
        raise ValueError(f"optimizer {text!r} is a link or a schedule; chain(..., sgd(0.1)) is an optimizer")
    return result


def _read(node: ast.expr, text: str) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return tuple(_read(item, text) for item in items)
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            return {_read(key, text): _read(value, text) for key, value in pairs if key is not None}
        case ast.Name(id=name):
            function = _function(name)
            rate = inspect.signature(function).parameters.get("learning_rate")
            return function() if rate is None or rate.default is not rate.empty else function(1e-3)
        case ast.Call(func=function, args=args, keywords=keywords):
            named = {keyword.arg: _read(keyword.value, text) for keyword in keywords if keyword.arg is not None}
            return _called(function, text)(*(_read(arg, text) for arg in args), **named)
    raise ValueError(f"optimizer {text!r}: {ast.unparse(node)!r} is not a call, name, number, string or list")


def _called(node: ast.expr, text: str) -> Callable[..., Any]:
    match node:
        case ast.Name(id=name):
            return _function(name)
        case ast.Attribute(value=ast.Name(id="schedules"), attr=name) if not name.startswith("_"):
            attr = getattr(optim.schedules, name)
            if callable(attr):
                return attr
    raise ValueError(f"optimizer {text!r}: {ast.unparse(node)!r} is not a function of tg.optim")


def _function(name: str) -> Callable[..., Any]:
    if name not in WRITTEN:
        raise ValueError(f"there is no optimizer {name!r}; the optimizers are {', '.join(WRITTEN)}")
    return WRITTEN[name]
