"""Runs an exported graph node by node, using the table of ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

import tensorgrad as tg
from tensorgrad.errors import OptionError, ShapeError, TensorgradError
from tensorgrad.importers.torch.complex_pairs import Complex, as_complex, contains_pair, rule_of_pairs
from tensorgrad.importers.torch.nodes import Origin, is_python, op_name
from tensorgrad.importers.torch.rules import RULES
from tensorgrad.importers.torch.table import DTYPES, WITHOUT_MEANING, Call, Rule, array_of, has_known_shape
from tensorgrad.runtime.errors import MALFORMED
from tensorgrad.tracing.dtypes import NAMES
from tensorgrad.tracing.location import at_line, calling
from tensorgrad.tracing.tensor import Array, Tensor, Traced
from tensorgrad.tracing.tracer import suspended

FOLDED = 1 << 16
"""Known values of more elements are computed by the program, not stored in it."""

AXES = ("dim", "dim0", "dim1", "dims", "dimension")
"""The arguments that name axes of `self`."""


def constant(value: torch.Tensor) -> Tensor | Complex:
    """Returns a constant tensor; a pair of them for a complex one.

    Raises:
        DTypeError: A 64-bit integer doesn't fit 32 bits.
    """
    if value.is_complex():
        return Complex(*(Array(array_of(part)) for part in (value.real, value.imag)))
    return Array(array_of(value))


class Evaluation:
    """One call of a model.

    Args:
        path: The path of the imported module in the model.
        key: The random key, if the call has one.
    """

    def __init__(self, path: str, key: Any):
        self._path, self._key, self._draws = path, key, 0

    def run(self, graph: GraphModule, values: Sequence[Any]) -> Any:
        """Returns the outputs of a graph, in its structure.

        Args:
            graph: A graph of functional ops.
            values: A value for each placeholder, in order.

        Raises:
            TensorgradError: An op is unsupported or fails; the message names it, its module and the author's line.
        """
        environment: dict[Node, Any] = {}
        remaining = iter(values)
        for node in graph.graph.nodes:
            if node.op == "placeholder":
                environment[node] = next(remaining)
            elif node.op == "get_attr":
                environment[node] = _attribute(graph, node.target)
            elif node.op == "output":
                return map_arg(node.args[0], environment.__getitem__)
            elif node.users or not is_python(node):  # nothing may read a result's parts
                environment[node] = self._called(node, environment)
        raise AssertionError("a graph ends with its output")

    def _called(self, node: Node, environment: Mapping[Node, Any]) -> Any:
        args, kwargs = map_arg((node.args, node.kwargs), environment.__getitem__)
        if is_python(node):
            function: Any = node.target
            return function(*args, **kwargs)
        origin = Origin.of(node, self._path)
        name = op_name(node)
        try:
            return self._applied(node, name, origin, args, kwargs)
        except TensorgradError as error:
            if " in PyTorch's " in str(error):
                raise
            raise type(error)(f"{error} ({origin.described(name)})") from None
        except MALFORMED as error:
            raise ShapeError(f"{name}: {error} ({origin.described(name)})") from error

    def _applied(self, node: Node, name: str, origin: Origin, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        rule = rule_of_pairs(name) if contains_pair((args, kwargs)) else RULES.get(name)
        if rule is None:
            raise OptionError(f"there is no rule for {name} of complex tensors")
        outputs = node.meta.get("val")
        with ExitStack() as contexts:
            if origin.place is not None:
                contexts.enter_context(at_line(*origin.place))
            if origin.path:
                contexts.enter_context(calling(origin.path, 1))
            if not rule.is_random and _is_small(outputs) and _is_known((args, kwargs)):
                contexts.enter_context(suspended())
            call = Call(name, outputs, self._drawn_key, self.run)
            if not rule.moves:
                args, kwargs = pytree.tree_map_only(Tensor, _widened, (args, kwargs))
            args, kwargs = pytree.tree_map_only(torch.dtype, torch.dtype.to_real, (args, kwargs))
            arguments = _bound(rule, node.target, args, kwargs, call)
            if not _has_axes_of_scalar(arguments):
                return _checked(call, rule.function(**arguments), outputs)
            rows = {name: _row(value) for name, value in arguments.items()}
            return _checked(call, rule.function(**rows), outputs, is_of_rows=True)

    def _drawn_key(self) -> Tensor:
        if self._key is None:
            raise OptionError(
                "the model draws random numbers, such as those of dropout: call it with key=, a random key; or in the "
                "form of tg.nn.inference(model), which doesn't"
            )
        self._draws += 1
        return tg.random.fold_in(self._key, self._draws)


def _attribute(graph: GraphModule, path: Any) -> Any:
    value: Any = graph
    for name in str(path).split("."):
        value = getattr(value, name)
    return constant(value) if isinstance(value, torch.Tensor) else value


def _bound(rule: Rule, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], call: Call) -> dict[str, Any]:
    """Returns the arguments by name.

    Raises:
        OptionError: One that the rule doesn't support has another value than its default.
    """
    schema = getattr(target, "_schema", None)
    extra = {"call": call} if "call" in rule.parameters else {}
    if schema is None:
        return dict(zip(rule.parameters, args, strict=False)) | dict(kwargs) | extra
    bound = dict(zip((argument.name for argument in schema.arguments), args, strict=False)) | dict(kwargs)
    defaults = {argument.name: argument.default_value for argument in schema.arguments if argument.has_default_value()}
    for name in [name for name in bound if not rule.takes_all and name not in rule.parameters]:
        value = bound.pop(name)
        if name not in WITHOUT_MEANING and value != defaults.get(name):
            call.refuse(f"{name}={value!r} is unsupported")
    return {**bound, **extra}


def _has_axes_of_scalar(arguments: Mapping[str, Any]) -> bool:
    """Returns whether a call names an axis of a scalar, which PyTorch takes for a row of one element then."""
    tensor = arguments.get("self")
    is_scalar = isinstance(tensor, Tensor) and not tensor.ndim
    return is_scalar and any(arguments.get(axes) not in (None, [], ()) for axes in AXES)


def _widened(value: Tensor) -> Tensor:
    """Returns a tensor in which an op computes: as in PyTorch's kernels, bf16 in f32, of which results are rounded."""
    return tg.cast(value, NAMES["f32"]) if value.dtype == NAMES["bf16"] else value


def _row(value: Any) -> Any:
    return tg.reshape(value, (1,)) if isinstance(value, Tensor) and not value.ndim else value


def _is_known(value: Any) -> bool:
    """Returns whether all tensors are constants of the graph or computed from them."""
    if isinstance(value, (tuple, list)):
        return all(map(_is_known, value))
    if isinstance(value, Mapping):
        return all(map(_is_known, value.values()))
    if isinstance(value, Complex):
        return _is_known((value.real, value.imag))
    return not isinstance(value, (Traced, GraphModule)) and not getattr(value, "requires_grad", False)


def _is_small(outputs: Any) -> bool:
    if isinstance(outputs, (tuple, list)):
        return all(map(_is_small, outputs))
    return not isinstance(outputs, torch.Tensor) or (has_known_shape(outputs) and outputs.numel() <= FOLDED)


def _checked(call: Call, result: Any, expected: Any, is_of_rows: bool = False) -> Any:
    """Returns a result in PyTorch's dtype; what rows in place of scalars gave, in its shape too.

    Raises:
        OptionError: It is complex, PyTorch's is not.
        ShapeError: It has another shape than PyTorch's.
    """
    if isinstance(expected, (tuple, list)) and isinstance(result, (tuple, list)):
        return [_checked(call, part, other, is_of_rows) for part, other in zip(result, expected, strict=False)]
    if not isinstance(expected, torch.Tensor) or not isinstance(result, (Tensor, Complex)):
        return result
    if expected.is_complex():
        parts = as_complex(result)
        return Complex(*(_checked(call, part, expected.real, is_of_rows) for part in (parts.real, parts.imag)))
    if isinstance(result, Complex):
        call.refuse("complex numbers don't become real ones")
    if is_of_rows and result.size == 1:
        result = tg.reshape(result, tuple(expected.shape))
    if has_known_shape(expected) and result.shape != tuple(expected.shape):
        raise ShapeError(f"{call.name}: the result has shape {result.shape}, PyTorch's {tuple(expected.shape)}")
    return tg.cast(result, DTYPES[expected.dtype]) if expected.dtype in DTYPES else result
