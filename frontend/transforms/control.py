"""Control flow in the IR: `scan`, a loop with state, and `cond`, a choice between two computations.

`while_loop` and `fori_loop` are composed of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import i1
from xdsl.ir import Block, SSAValue

from tensorgrad.dialects.tg.base import Tensor as TensorType
from tensorgrad.dialects.tg.base import tensor
from tensorgrad.dialects.tg.build import type_of
from tensorgrad.dialects.tg.call import ReturnOp
from tensorgrad.dialects.tg.control import CondOp, ScanOp
from tensorgrad.errors import DTypeError, OptionError, ShapeError, TraceError
from tensorgrad.tracing import trees
from tensorgrad.tracing.checks import checked_integer
from tensorgrad.tracing.dtypes import SHORT
from tensorgrad.tracing.likes import Result, TensorLike
from tensorgrad.tracing.location import user_line, user_location
from tensorgrad.tracing.tensor import Tensor, Traced
from tensorgrad.tracing.trace import Trace
from tensorgrad.tracing.tracer import (
    as_argument,
    as_result,
    check_function,
    current_trace,
    new_argument,
    tracing,
    value_in,
)
from tensorgrad.transforms.grad import computed, kind_of


def scan(
    body: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Runs a function once for each position, with state: a loop that remains a loop in the compiled program.

    The body is traced once, so neither compile time nor the number of kernels grows with the length. It can be
    differentiated to any order, with respect to the arguments and to captured tensors. For reverse mode, the loop keeps
    the values of each iteration that the derivative reads.

    Args:
        body: Takes `(carry, x)`, returns `(carry, y)`. The carry is a pytree like `init`, with the same shapes and
            dtypes; x has the slices of `xs` at one position along axis 0; y is any pytree of tensors, or None.
        init: The carry of the first iteration: a pytree of tensors, arrays and numbers (a number is f32 or i32).
        xs: A pytree of tensors of equal extent along axis 0, or None.
        length: The trip count; required if `xs` is None.
        reverse: Whether to go from the last position to the first, in `xs` and in the result.

    Returns:
        `(carry, ys)`: the carry of the last iteration (`init` if the length is 0), and a pytree like y with each tensor
        stacked along a new axis 0.

    Raises:
        ShapeError: The extents differ from each other or from `length`, or the carry changes its structure or shape.
        DTypeError: The carry changes its dtype.
        TraceError: The body doesn't return a pair, or returns something other than tensors.
        OptionError: There is neither `xs` nor `length`, or it is negative.

    Example:
        >>> import numpy as np
        >>> total, sums = tg.scan(lambda c, x: (c + x, c + x), 0.0, np.array([1.0, 2.0, 3.0]))
        >>> float(total), np.asarray(sums).tolist()
        (6.0, [1.0, 3.0, 6.0])
    """
    check_function(body, "scan")
    carry, rows = _Leaves(init), _Leaves(xs)
    count = _length(rows, length)
    if current_trace() is not None:
        return _Scan(body, carry, rows, count, reverse).emit()
    split = len(carry.tensors)

    def program(*flat: Tensor) -> Any:
        return _Scan(body, carry.filled(flat[:split]), rows.filled(flat[split:]), count, reverse).emit()

    return computed(f"scan_{_name(body)}", program, [*carry.tensors, *rows.tensors])


def cond(
    predicate: TensorLike, true_function: Callable[..., Result], false_function: Callable[..., Result], *operands: Any
) -> Result:
    """Applies one of two functions; only the chosen one runs (`tg.where` computes both sides and selects).

    Args:
        predicate: A bool scalar, which may be known only at run time.
        true_function: Takes the operands, and runs if the predicate is true.
        false_function: Takes the operands, and runs otherwise. Its result has the same structure, shapes and dtypes as
            that of `true_function`.
        *operands: Pytrees of tensors. Both functions may also capture tensors.

    Returns:
        The result of the chosen function.

    Raises:
        DTypeError: The predicate is not a bool, or the results differ in dtype.
        ShapeError: The predicate is not a scalar, or the results differ in structure or shape.
        TraceError: A function returns something other than tensors.

    Example:
        >>> float(tg.cond(True, lambda x: x + 1.0, lambda x: x * 10.0, 2.0))
        3.0
    """
    for function in (true_function, false_function):
        check_function(function, "cond")
    condition = _predicate("cond", "the predicate", predicate)
    arguments = _Leaves(operands)
    if current_trace() is not None:
        return _cond(condition, true_function, false_function, arguments)

    def program(first: Tensor, *flat: Tensor) -> Any:
        return _cond(first, true_function, false_function, arguments.filled(flat))

    return computed(f"cond_{_name(true_function)}", program, [condition, *arguments.tensors])


def while_loop(
    condition: Callable[[Any], Any], body: Callable[[Any], Any], state: Any, at_most: int | None = None
) -> Any:
    """Runs a function on a state while a condition holds, as `jax.lax.while_loop`.

    Outside a trace the functions run at once, as in Python's `while`, and gradients go back through eager tensors.
    Inside a trace (in compiled code, in `tg.grad` and its like) `at_most` bounds the loop: it is a `scan` of that
    length, whose steps after the end only evaluate the condition, and it has derivatives of any mode and order. Reverse
    mode keeps what it needs of each step, up to the bound. Where `vmap` batches the condition, the body also runs on
    states that have ended, and what it makes of them is discarded.

    Args:
        condition: Takes the state, returns a bool scalar.
        body: Takes the state, returns the next one, of the same structure, shapes and dtypes.
        state: The first state: a pytree of tensors, arrays and numbers (a number is f32 or i32). Both functions may
            also capture tensors.
        at_most: The largest number of times that the body runs, required inside a trace. The loop ends there even if
            the condition still holds, which `condition` of the result tells.

    Returns:
        The first state for which the condition doesn't hold, or the last one within the bound.

    Raises:
        TraceError: There is no bound inside a trace, or a function returns something other than tensors.
        ShapeError: The condition is not a scalar, or the body changes the state's structure or shapes.
        DTypeError: The condition is not a bool, or the body changes a dtype.
        OptionError: The bound is not an integer from 0.

    Example:
        >>> def root(a):
        ...     return tg.while_loop(lambda x: tg.abs(x * x - a) > 1e-5, lambda x: (x + a / x) / 2, a, at_most=20)
        >>> round(float(root(2.0)), 4), round(float(tg.grad(root)(2.0)), 4)
        (1.4142, 0.3536)
    """
    for function in (condition, body):
        check_function(function, "while_loop")
    bound = None if at_most is None else checked_integer(at_most, "while_loop: at_most", 0)
    start = _Leaves(state)
    step = _checked("while_loop", body)

    def holds(carry: Any) -> Tensor:
        return _predicate("while_loop", "the condition", condition(carry))

    if current_trace() is not None:
        if bound is None:
            raise TraceError(
                "while_loop: in compiled code and in derivatives, the loop needs a bound: at_most= says how often the "
                "body may run"
            )

        def bounded(carry: Any, _: Any) -> tuple[Any, None]:
            return cond(holds(carry), step, lambda same: same, carry), None

        return scan(bounded, state, length=bound)[0]
    current, count = start.rebuild(start.tensors), 0
    while count != bound and holds(current):
        current, count = step(current), count + 1
    return current


def fori_loop(
    lower: TensorLike, upper: TensorLike, body: Callable[[Any, Any], Any], state: Any, at_most: int | None = None
) -> Any:
    """Runs a function on a state for each integer from `lower` to below `upper`, as `jax.lax.fori_loop`.

    With bounds that are known it is a `scan`, with all its derivatives; with bounds that are traced a `while_loop`.

    Args:
        lower: The first integer, an i32.
        upper: The integer after the last one.
        body: Takes `(integer, state)`, returns the next state, of the same structure, shapes and dtypes.
        state: The first state; see `while_loop`.
        at_most: The largest number of times that the body runs, required if a bound is traced.

    Returns:
        The last state, which is the first if there are no integers between the bounds.

    Raises:
        TraceError: A bound is traced, and there is no `at_most`; or the body returns something other than tensors.
        ShapeError: The body changes the state's structure or shapes.
        DTypeError: The body changes a dtype, or a bound is not an integer.
        OptionError: `at_most` is not an integer from 0.

    Example:
        >>> float(tg.fori_loop(0, 4, lambda i, x: x + i * i, 0.0))
        14.0
    """
    check_function(body, "fori_loop")
    step = _checked("fori_loop", body)
    bounds = [as_argument(bound) for bound in (lower, upper)]
    for bound in bounds:
        if bound.shape or bound.dtype.kind not in "iu":
            raise DTypeError(
                f"fori_loop: a bound must be an integer, it is {SHORT[bound.dtype]} of shape {bound.shape}"
            )

    def following(carry: Any) -> Any:
        return carry[0] + 1, step(*carry)

    if not any(isinstance(bound, Traced) for bound in bounds):
        first, end = map(int, bounds)
        length = max(0, end - first)
        length = length if at_most is None else min(length, checked_integer(at_most, "fori_loop: at_most", 0))
        return scan(lambda carry, _: (following(carry), None), (first, state), length=length)[0][1]
    if at_most is None:
        raise TraceError("fori_loop: a bound is traced, so at_most= must say how often the body may run")
    return while_loop(lambda carry: carry[0] < bounds[1], following, (bounds[0], state), at_most)[1]


def _checked(what: str, body: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a loop's body, whose last argument is the state, with checks that it returns another like it."""

    def step(*arguments: Any) -> Any:
        state = _tensors(body(*arguments), f"{what}: {_name(body)}")
        _compared(what, "the state that the body gives", state, arguments[-1])
        return state

    return step


def _predicate(what: str, name: str, value: Any) -> Tensor:
    """Returns a predicate as a tensor: a scalar bool."""
    tensor = as_argument(value)
    if tensor.shape != ():
        raise ShapeError(f"{what}: {name} must be a scalar, it has shape {tensor.shape}")
    if SHORT[tensor.dtype] != "bool":
        raise DTypeError(f"{what}: {name} must be a bool, it is {SHORT[tensor.dtype]}")
    return tensor


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", "function")


class _Leaves:
    """A pytree of tensors.

    Attributes:
        tensors: Its leaves.
        paths: The path of each.
        rebuild: Rebuilds the tree with other leaves.
    """

    def __init__(self, tree: Any):
        leaves, self.rebuild = trees.flatten(tree)
        self.tensors = [as_argument(leaf) for leaf in leaves]
        self.paths = trees.paths(tree)

    def filled(self, tensors: Sequence[Tensor]) -> _Leaves:
        """Returns the tree with other tensors."""
        return _Leaves(self.rebuild(tensors))


def _length(rows: _Leaves, length: int | None) -> int:
    if length is not None:
        length = checked_integer(length, "scan: length", 0)
    elif not rows.tensors:
        raise OptionError("scan: without xs, length says how often the body runs")
    for path, x in zip(rows.paths, rows.tensors, strict=True):
        where = f"{user_line()}: scan: xs{path and '.'}{path}"
        if not x.shape:
            raise ShapeError(f"{where} is a scalar; scan goes over axis 0")
        if length is None:
            length = x.shape[0]
        elif x.shape[0] != length:
            raise ShapeError(f"{where} has shape {x.shape}, axis 0 should have the extent {length}")
    assert length is not None
    return length


class _Region:
    """A function traced into a region, which may capture tensors.

    Attributes:
        tree: The function's result.
        values: Its tensors in the region.
        outside: The captured values.
    """

    def __init__(
        self, name: str, kinds: Sequence[TensorType], function: Callable[[list[Traced]], Any], what: str
    ) -> None:
        with tracing(name) as inner:
            self.tree = function([new_argument(inner, kind) for kind in kinds])
            self.results = [as_result(leaf, what) for leaf in trees.flatten(self.tree)[0]]
            inner.builder.location = user_location()
            self.values = [value_in(inner, leaf) for leaf in self.results]
        self.block = inner.block
        own = {*self.block.args, *(result for op in self.block.ops for result in op.results)}
        used = [*(operand for op in self.block.ops for operand in op.operands), *self.values]
        self.outside = list(dict.fromkeys(value for value in used if value not in own))

    def close(self, outside: Sequence[SSAValue], place: int) -> Block:
        """Turns captured values into arguments, starting at a position, and terminates the region."""
        inside = {value: self.block.insert_arg(value.type, place + i) for i, value in enumerate(outside)}
        for argument in self.block.args:
            argument.location = user_location()
        for op in self.block.ops:
            op.operands = [inside.get(operand, operand) for operand in op.operands]
        end = ReturnOp([inside.get(value, value) for value in self.values])
        end.location = user_location()
        self.block.add_op(end)
        return self.block


def _compared(what: str, name: str, actual: Any, expected: Any) -> None:
    """Checks that two pytrees of tensors have the same structure, shapes and dtypes."""
    actual_paths, expected_paths = trees.paths(actual), trees.paths(expected)
    if actual_paths != expected_paths:
        listed = [
            ", ".join(path or "one tensor" for path in paths) or "nothing" for paths in (actual_paths, expected_paths)
        ]
        raise ShapeError(f"{what}: {name} has {listed[0]}, expected {listed[1]}")
    for path, leaf, like in zip(actual_paths, trees.flatten(actual)[0], trees.flatten(expected)[0], strict=True):
        where = f"{user_line()}: {what}: {name}{path and '.'}{path}"
        if leaf.shape != like.shape:
            raise ShapeError(f"{where} has shape {leaf.shape}, expected {like.shape}")
        if leaf.dtype != like.dtype:
            raise DTypeError(f"{where} is {SHORT[leaf.dtype]}, expected {SHORT[like.dtype]}")


def _tensors(tree: Any, what: str) -> Any:
    return trees.tree_map(lambda leaf: as_result(leaf, what), tree)


class _Scan:
    """One scan in a trace."""

    def __init__(
        self, body: Callable[[Any, Any], tuple[Any, Any]], carry: _Leaves, rows: _Leaves, length: int, reverse: bool
    ):
        trace = current_trace()
        assert trace is not None
        self.trace: Trace = trace
        self.body, self.carry, self.rows, self.length, self.reverse = body, carry, rows, length, reverse

    def emit(self) -> tuple[Any, Any]:
        """Adds the scan to the trace; returns the carry and the stacks."""
        self.trace.builder.location = user_location()
        init = [value_in(self.trace, leaf) for leaf in self.carry.tensors]
        xs = [value_in(self.trace, leaf) for leaf in self.rows.tensors]
        slices = [tensor(type_of(x).get_shape()[1:], type_of(x).get_element_type()) for x in xs]
        kinds = [*map(type_of, init), *slices]
        region = _Region(f"scan({_name(self.body)})", kinds, self._run, f"scan: {_name(self.body)}")
        consts = region.outside
        op = ScanOp.of(consts, init, xs, self.length, self.reverse, region.close(consts, 0))
        op.location = user_location()
        self.trace.builder.insert(op)
        results = [Traced(self.trace, result) for result in op.results]
        carries = len(init)
        return self.carry.rebuild(results[:carries]), trees.flatten(region.tree[1])[1](results[carries:])

    def _run(self, arguments: list[Traced]) -> tuple[Any, Any]:
        count = len(self.carry.tensors)
        carry = self.carry.rebuild(arguments[:count])
        pair = self.body(carry, self.rows.rebuild(arguments[count:]))
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TraceError(f"scan: {_name(self.body)} must return (carry, y), got {kind_of(pair)}")
        tensors = _tensors(pair[0], f"scan: {_name(self.body)}")
        _compared("scan", "the carry that the body gives", tensors, carry)
        return tensors, pair[1]


def _cond(predicate: Tensor, then: Callable[..., Any], otherwise: Callable[..., Any], arguments: _Leaves) -> Any:
    trace = current_trace()
    assert trace is not None
    trace.builder.location = user_location()
    condition = value_in(trace, predicate)
    assert type_of(condition) == tensor((), i1)
    operands = [value_in(trace, leaf) for leaf in arguments.tensors]
    regions = [
        _Region(
            f"cond({_name(function)})",
            [type_of(value) for value in operands],
            lambda leaves, function=function: _tensors(
                function(*arguments.rebuild(leaves)), f"cond: {_name(function)}"
            ),
            f"cond: {_name(function)}",
        )
        for function in (then, otherwise)
    ]
    _compared("cond", "what the second function gives", regions[1].tree, regions[0].tree)
    outside = list(dict.fromkeys(value for region in regions for value in region.outside))
    blocks = [region.close(outside, len(operands)) for region in regions]
    op = CondOp.of(condition, [*operands, *outside], *blocks)
    op.location = user_location()
    trace.builder.insert(op)
    rebuild = trees.flatten(regions[0].tree)[1]
    return rebuild([Traced(trace, result) for result in op.results])
