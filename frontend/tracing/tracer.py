"""The tracer: runs a Python function on tracers, and records its operations as a `tg` function."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from tensorgrad.dialects.signature import Role, Slot, slots_attribute
from tensorgrad.dialects.tg.base import (
    ELEMENT_TYPES,
    ElementException,
    NumpyArray,
    TensorOp,
    numpy_dtype,
    prepared,
    stored_bytes,
    tensor,
)
from tensorgrad.dialects.tg.base import Tensor as TensorType
from tensorgrad.errors import DTypeError, GradientError, InputError, OptionError, ShapeError, TraceError
from tensorgrad.runtime.conversion import converted, kind_of, to_numpy
from tensorgrad.tracing import trees
from tensorgrad.tracing.declared import Declared
from tensorgrad.tracing.dtypes import SHORT, DType, Spec, spec
from tensorgrad.tracing.grad_mode import is_grad_enabled
from tensorgrad.tracing.index_ranges import IndexRanges
from tensorgrad.tracing.location import user_location
from tensorgrad.tracing.tensor import Array, Tensor, Traced
from tensorgrad.tracing.tensor_device import TensorDevice
from tensorgrad.tracing.trace import Lifting, Trace


class _Current(threading.local):
    trace: Trace | None = None
    refusal: str | None = None


_current = _Current()


def new_argument(trace: Trace, kind: TensorType) -> Traced:
    """Returns a new argument of a trace's block."""
    return Traced(trace, trace.block.insert_arg(kind, len(trace.block.args)))


def current_trace() -> Trace | None:
    """Returns the innermost trace in progress on this thread."""
    return _current.trace


@contextmanager
def tracing(name: str) -> Iterator[Trace]:
    """Opens a trace inside the current one, and closes it."""
    trace = Trace(name, _current.trace)
    _current.trace = trace
    try:
        yield trace
    finally:
        _current.trace = trace.parent
        trace.open = False
        if trace.parent is not None:
            trace.parent.notes += trace.notes


@contextmanager
def suspended() -> Iterator[None]:
    """Suspends the current trace: ops on concrete tensors inside the context compute immediately, with any operands."""
    before, _current.trace = _current.trace, None
    try:
        yield
    finally:
        _current.trace = before


@contextmanager
def refusing_derivatives(reason: str) -> Iterator[None]:
    """Makes `note_derivative` raise with a reason inside the context."""
    before, _current.refusal = _current.refusal, reason
    try:
        yield
    finally:
        _current.refusal = before


def note_derivative() -> None:
    """Reports that a reverse-mode derivative is about to be taken inside the current trace.

    Raises:
        OptionError: Derivatives are not allowed; says why.
    """
    if _current.trace is not None and _current.refusal is not None:
        raise OptionError(_current.refusal)


def refuse_inside_trace(what: str) -> None:
    """Raises `TraceError` when a trace is in progress."""
    if _current.trace is not None:
        raise TraceError(f"{what} inside a trace (of {_current.trace.name}); call it outside")


def as_array(value: object, dtype: DType | None = None) -> NumpyArray:
    """Returns a numpy array of a supported dtype from any numeric value.

    Without `dtype`, 64-bit numbers are converted to 32 bits, since NumPy creates 64-bit numbers by default; a value
    that doesn't fit is an error.

    Raises:
        DTypeError: Values that don't fit: a finite float that overflows, an integer out of range, or non-numeric
            values.
        ParameterError: A declared parameter, which has no values.
        GradientError: A tensor that requires a gradient, alone or in a list: it would become a constant.
    """
    if isinstance(value, Declared):
        value.refuse()
    if is_grad_enabled() and _requires_gradient(value):
        raise GradientError(
            "a tensor that requires a gradient would be a constant here: tg.stack makes one tensor of "
            "a list, and detach() a constant"
        )
    if isinstance(value, Array) and dtype is None:
        return np.asarray(value)
    what = type(value).__name__
    try:
        array = to_numpy(value, what)
        target = dtype
        if target is None:
            target = array.dtype if array.dtype in ELEMENT_TYPES and array.dtype.itemsize < 8 else None
            target = target or _DEFAULTS.get(array.dtype.kind)
        if isinstance(value, int) and array.dtype.kind == "O":  # beyond 64 bits
            if target is None or kind_of(target) != "f" or value.bit_length() > LARGEST_BITS:
                raise InputError(f"{value} is outside of {'every dtype' if target is None else SHORT[target]}")
            array = np.array(float(value))
        if target is None or kind_of(array.dtype) not in "fiub":
            raise DTypeError(f"cannot use {what} of dtype {array.dtype} as a tensor{odd_part(value)}")
        result = converted(array, target, SHORT[target], what)
    except InputError as error:
        kind = np.asarray(value).dtype.kind if isinstance(value, (int, np.integer, np.ndarray)) else ""
        if isinstance(value, list | tuple) and (odd := odd_part(value)):
            raise DTypeError(f"cannot use {what} as a tensor{odd}") from None
        hint = f"; tg.array(x, '{kind}64') keeps 64 bits" if dtype is None and kind in ("i", "u") else ""
        raise DTypeError(f"{error}{hint}") from None
    # Copied so that later changes to the caller's array have no effect here.
    return result.copy() if result is array else result


def odd_part(value: object) -> str:
    """Returns why a container is no array of numbers, as the end of a message, or nothing."""
    if isinstance(value, dict):
        return "; tg.tree_map maps a function over the tensors in a dict"
    if not isinstance(value, list | tuple):
        return ""
    for place, part in enumerate(value):
        if part is None or isinstance(part, str | dict):
            return f"; its element {place} is {part!r:.40}"
    lengths = [len(part) if isinstance(part, list | tuple) else None for part in value]
    if odd := next((place for place, length in enumerate(lengths) if length != lengths[0]), 0):
        first, other = ("a number" if n is None else f"of length {n}" for n in (lengths[0], lengths[odd]))
        return f"; its element 0 is {first}, and {odd} is {other}: pad them to one length"
    return next(filter(None, map(odd_part, value)), "")


def _requires_gradient(value: object) -> bool:
    """Returns whether an array, or any array in nested lists, requires a gradient."""
    if isinstance(value, list | tuple):
        return any(_requires_gradient(part) for part in value if isinstance(part, list | tuple | Array))
    return isinstance(value, Array) and value.requires_grad


LARGEST_BITS = 1023
"""Integers of at most that many bits are finite floats of 64 bits."""

_DEFAULTS: dict[str, DType] = {"f": np.dtype(np.float32), "i": np.dtype(np.int32), "u": np.dtype(np.uint32)}
"""The dtype of numbers of each kind, unless they have a supported dtype already."""


def check_usable(x: Traced) -> None:
    """Raises `TraceError` unless a traced tensor belongs to a trace in progress here."""
    current = _current.trace
    if current is None or not current.sees(x.trace) or not x.trace.open:
        raise TraceError(
            f"a tensor of shape {x.shape}, traced in {x.trace.name}, is used after that trace ended; "
            "return it from the traced function instead of storing it"
        )


def emit(kind: type[TensorOp], operands: Sequence[Tensor], **properties: Attribute) -> Tensor:
    """Applies an op: records it in the current trace, or computes it if every operand is concrete.

    Raises:
        ShapeError: The operands are invalid for the op.
        DTypeError: It takes no such elements.
    """
    trace = _current.trace
    for operand in operands:
        if isinstance(operand, Traced):
            check_usable(operand)
    concrete = all(isinstance(operand, Array) for operand in operands)
    try:
        if trace is None or (concrete and operands):
            arrays = cast("Sequence[Array]", operands)
            device = device_of(arrays)
            return _evaluate(kind, arrays, properties) if device is None else device.apply(kind, arrays, properties)
        trace.builder.location = user_location()
        values = [value_in(trace, operand) for operand in operands]
        return Traced(trace, trace.builder.emit(kind, values, **properties))
    except ElementException as error:
        dtype = SHORT[numpy_dtype(error.element)]
        raise DTypeError(f"{kind.name.removeprefix('tg.')}: takes {error.taken}, not {dtype}; cast first") from None
    except VerifyException as error:
        raise ShapeError(f"{kind.name.removeprefix('tg.')}: {error}") from None


def device_of(operands: Sequence[Tensor]) -> TensorDevice | None:
    """Returns the device that ops on these tensors run on: that of the first operand that lives on one."""
    for operand in operands:
        if isinstance(operand, Array) and operand.live is not None:
            return operand.live.device
    return None


def value_in(trace: Trace, x: Tensor) -> SSAValue:
    """Returns the value of a tensor in a trace; a concrete one becomes a constant, broadcast if its elements repeat.

    An eager tensor becomes an argument if the trace lifts such tensors, so that derivatives propagate through it; so
    may a large array.

    Raises:
        TraceError: It requires a gradient, which would be lost.
    """
    if isinstance(x, Traced):
        return x.value
    if isinstance(x, Array):
        if x.live is None:
            values = np.asarray(x)
            if values.itemsize < stored_bytes(values) < values.nbytes:
                axes = [axis for axis in range(x.ndim) if x.shape[axis] > 1 and values.strides[axis]]
                elements = Array(values[tuple(slice(None) if axis in axes else 0 for axis in range(x.ndim))])
                return trace.builder.broadcast(value_in(trace, elements), x.shape, axes)
        lifted = trace.lifted(x)
        if lifted is not None:
            return lifted
        if x.requires_grad:
            raise TraceError(
                f"a tensor of shape {x.shape} that requires a gradient is used in {trace.name}, where "
                "it would be a constant: make it an argument, or use its detach()"
            )
    return trace.builder.constant(np.asarray(x))


def _evaluate(kind: type[TensorOp], operands: Sequence[Array], properties: dict[str, Attribute]) -> Array:
    arrays = [np.asarray(operand) for operand in operands]
    block = Block(arg_types=[tensor(array.shape, ELEMENT_TYPES[array.dtype]) for array in arrays])
    result = kind.infer([cast(TensorType, argument.type) for argument in block.args], properties)
    op = kind.create(operands=block.args, result_types=[result], properties=properties)
    with np.errstate(all="ignore"):
        return Array(np.asarray(prepared(op)(*arrays)).reshape(result.get_shape()))


def leaf_type(leaf: object) -> TensorType:
    """Returns the tensor type of a specification or of a concrete value."""
    if isinstance(leaf, Spec):
        return tensor(leaf.shape, ELEMENT_TYPES[leaf.dtype])
    if isinstance(leaf, Tensor):
        return tensor(leaf.shape, ELEMENT_TYPES[leaf.dtype])
    array = as_array(leaf)
    return tensor(array.shape, ELEMENT_TYPES[array.dtype])


def as_argument(value: Any, dtype: DType | None = None) -> Tensor:
    """Returns an argument of a transform as a tensor; other values than tensors take the dtype, if one is given.

    Raises:
        TraceError: Its trace has ended.
    """
    if isinstance(value, Traced):
        check_usable(value)
    return value if isinstance(value, Tensor) else Array(as_array(value, dtype))


def as_result(value: object, name: str) -> Tensor:
    """Returns a traced function's result as a tensor.

    Raises:
        TraceError: It is not a tensor, or its trace has ended.
    """
    if isinstance(value, Traced):
        check_usable(value)
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (int, float, bool, np.ndarray, np.generic)):
        return Array(as_array(value))
    raise TraceError(f"{name} returned {type(value).__name__}; a traced function returns tensors")


def trace_call(
    name: str,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    slots: Sequence[Slot],
    keep: Callable[[IndexRanges], None] = lambda ranges: None,
    lifting: Lifting | None = None,
) -> tuple[FuncOp, Any]:
    """Traces `function` on trees whose leaves are specifications.

    Args:
        name: The name of the function in the IR.
        function: What to trace.
        arguments: Positional arguments: trees of `Spec`s.
        slots: A name and role for each leaf, in order.
        keep: Called with the ranges that the function requires of its inputs as indices.
        lifting: Collects captured tensors that become additional arguments, of role `input`; with `None` they become
            constants.

    Returns:
        The `tg` function, and the tree of its results, with positions for leaves.

    Raises:
        TraceError: A result is not a tensor.
        ShapeError: An index that depends on no argument is out of range.
    """
    with tracing(name) as trace:
        flat = [trees.flatten(argument) for argument in arguments]
        traced = [rebuild([new_argument(trace, leaf_type(leaf)) for leaf in leaves]) for leaves, rebuild in flat]
        trace.lifting = lifting
        result = function(*traced)
        leaves, rebuild = trees.flatten(result)
        tensors = [as_result(leaf, name) for leaf in leaves]
        trace.builder.location = user_location()
        values = [value_in(trace, leaf) for leaf in tensors]
    if lifting is not None:
        slots = [*slots, *(Slot(f"lifted{i}", Role.INPUT) for i in range(len(lifting.tensors)))]
    keep(IndexRanges(trace.notes, trace.block, slots))
    returned = func.ReturnOp(*values)
    returned.location = user_location()
    trace.block.add_op(returned)
    kinds = FunctionType.from_lists([a.type for a in trace.block.args], [value.type for value in values])
    func_op = FuncOp(name, kinds, Region(trace.block))
    func_op.location = user_location()
    func_op.properties["arg_attrs"] = slots_attribute(slots)
    return func_op, rebuild(list(range(len(values))))


def trace(function: Callable[..., Any], *specs: Any) -> ModuleOp:
    """Traces a function on specifications, to a module with one `tg` function of the same name.

    Arguments have the names of the function's parameters; in trees, the path to the leaf follows. The parameters of a
    `tg.nn.Module` become arguments of role `parameter`.

    Args:
        function: A function from tensors (or pytrees of them) to tensors (or a pytree).
        *specs: One for each argument: `tg.spec(shape, dtype)`, a shape (f32), an array, a module, or a pytree of these.

    Returns:
        A verified module; print it, or run passes on it.

    Raises:
        TraceError, ShapeError, DTypeError: The function does something invalid.

    Example:
        >>> print(tg.trace(lambda x: x + x, (2,)))
        builtin.module {
          func.func @lambda_line_1(%0: tensor<2xf32> {tg.name = "x", tg.role = "input"}) -> tensor<2xf32> {
            %1 = tg.add %0, %0 : tensor<2xf32>, tensor<2xf32>
            func.return %1 : tensor<2xf32>
          }
        }
    """
    refuse_inside_trace("tg.trace")
    check_function(function, "tg.trace")
    arguments = [as_specs(argument) for argument in specs]
    slots: list[Slot] = []
    for name, kind, argument in zip(argument_names(function, len(specs)), specs, arguments, strict=True):
        role = _role_of(type(kind))
        for path in trees.paths(argument):
            joined = ".".join(part for part in (name if role == Role.INPUT else "", path) if part)
            slots.append(Slot(joined, role))
    traced, _ = trace_call(function_name(function), function, arguments, unique(slots))
    return checked_module(traced)


def _role_of(kind: type[object]) -> Role:
    """Returns the role of the leaves of a class.

    Raises:
        TraceError: The class names one that there is not.
    """
    text = getattr(kind, "leaf_role", Role.INPUT)
    if text not in tuple(Role):
        raise TraceError(f"{kind.__name__}.leaf_role must be one of {', '.join(Role)}, got {text!r}")
    return Role(text)


def checked_module(function: FuncOp) -> ModuleOp:
    """Returns a module with one function.

    Raises:
        VerifyException: It is malformed, which is not a user's mistake.
    """
    module = ModuleOp([function])
    module.location = function.location
    module.verify()
    return module


def argument_names(function: Callable[..., Any], count: int) -> list[str]:
    """Returns a function's names for its first `count` positional arguments; `arg0`, `arg1`, … if unknown."""
    try:
        bound = inspect.signature(function).bind(*range(count)).arguments
    except (TypeError, ValueError):
        return [f"arg{i}" for i in range(count)]
    names: list[str] = []
    for name, value in bound.items():
        names += [f"{name}{i}" for i in range(len(value))] if isinstance(value, tuple) else [name]
    return names


def unique(slots: Sequence[Slot]) -> list[Slot]:
    """Returns the slots, with a numeric suffix on duplicate names."""
    names: set[str] = set()
    result: list[Slot] = []
    for slot in slots:
        name, number = slot.name, 0
        while name in names:
            number += 1
            name = f"{slot.name}_{number}"
        names.add(name)
        result.append(Slot(name, slot.role))
    return result


def as_specs(argument: Any) -> Any:
    """Converts shapes, arrays and declared parameters in a tree to specifications."""
    if isinstance(argument, Spec):
        return argument
    if isinstance(argument, Array):
        return Spec(argument.shape, argument.dtype)
    if isinstance(argument, Declared) and argument.kind == "parameter":
        return Spec(argument.shape, argument.dtype)
    if isinstance(argument, (tuple, list)) and all(isinstance(x, (int, np.integer)) for x in argument):
        return spec(argument)
    if isinstance(argument, (int, np.integer)) and not isinstance(argument, bool):
        return spec(int(argument))
    unpacked = trees.children(argument)
    if unpacked is None:
        array = as_array(argument)
        return Spec(array.shape, array.dtype)
    parts, rebuild = unpacked
    return rebuild([as_specs(part) for part in parts])


def check_function(function: object, what: str) -> None:
    """Checks that an object is callable.

    Raises:
        TraceError: It is not.
    """
    if not callable(function):
        raise TraceError(f"{what} takes a function, got {function!r}")


LAMBDA = "lambda_line_"
"""The symbol name of a lambda, without its line."""


def function_name(function: Callable[..., Any]) -> str:
    """Returns a function's name as a symbol name; a lambda is named after its line."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", type(function).__name__)
    if name == "<lambda>":
        code = getattr(inspect.unwrap(function), "__code__", None)
        return "lambda" if code is None else f"{LAMBDA}{code.co_firstlineno}"
    return sanitized(name)


def sanitized(name: str) -> str:
    """Returns a name as a symbol name."""
    return "".join(c if c.isalnum() or c == "_" else "_" for c in name).strip("_") or "main"
