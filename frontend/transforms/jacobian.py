"""`jvp`, `vjp`, `jacobian` and `hessian`: derivatives of functions with non-scalar results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias, overload

from xdsl.ir import Block, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.tg.base import ints
from tensorgrad.dialects.tg.build import TensorBuilder, type_of
from tensorgrad.dialects.tg.shape import ReshapeOp
from tensorgrad.errors import ArgumentError, DTypeError, OptionError, ShapeError, TraceError
from tensorgrad.passes.tensors.batch import basis, repeated
from tensorgrad.passes.tensors.grad import cotangents, tangents
from tensorgrad.runtime.tracebacks import boundary
from tensorgrad.tracing import trees
from tensorgrad.tracing.dtypes import SHORT, is_float
from tensorgrad.tracing.likes import Positional
from tensorgrad.tracing.location import user_location
from tensorgrad.tracing.tensor import Tensor, Traced
from tensorgrad.tracing.trace import Trace
from tensorgrad.tracing.tracer import as_argument, as_result, check_usable, current_trace, note_derivative, value_in
from tensorgrad.transforms.grad import apart, computed, grad, primal

Pullback: TypeAlias = Callable[[Any], tuple[Any, ...]]
"""Maps a cotangent of a function's value to one of each of its arguments."""


@overload
def jvp(
    function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: Literal[False] = False
) -> tuple[Any, Any]: ...


@overload
def jvp(
    function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: Literal[True]
) -> tuple[Any, Any, Any]: ...


def jvp(
    function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> tuple[Any, ...]:
    """Returns the value of a function and its derivative along a direction, by forward mode.

    Args:
        function: A function of pytrees of float tensors that returns a pytree of tensors.
        primals: Its arguments.
        tangents: The direction: for each argument, a pytree of the same structure and shapes.
        has_aux: Whether the function returns `(value, aux)`; see `tg.value_and_grad`.

    Returns:
        `(value, tangent)`, or `(value, tangent, aux)`. The tangent is a pytree like the value, with `None` for leaves
        that aren't floats.

    Raises:
        TraceError: A custom derivative is not linear in its cotangent, or `has_aux` and the function returns no pair.
        ShapeError, DTypeError: A direction doesn't fit its argument, or an argument is not a float.
        ArgumentError: The primals or tangents are no tuple or list.

    Example:
        >>> value, tangent = tg.jvp(lambda x: x**2, (3.0,), (1.0,))
        >>> float(value), float(tangent)
        (9.0, 6.0)
    """
    for what, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, (tuple, list)):
            raise ArgumentError(f"jvp: {what} are a tuple, with an entry for each argument: tg.jvp(f, (x,), (v,))")
    if len(primals) != len(tangents):
        raise ShapeError(f"jvp: {len(primals)} primals, {len(tangents)} tangents")
    arguments = [_Tree("jvp", argument) for argument in primals]
    directions = [
        leaf for i, argument in enumerate(arguments) for leaf in argument.fit("jvp", f"tangents[{i}]", tangents[i])
    ]
    points = [leaf for argument in arguments for leaf in argument.leaves]
    if current_trace() is not None:
        return _jvp(function, arguments, points, directions, has_aux)
    count = len(points)
    return computed(
        _name("jvp", function),
        lambda *flat: _jvp(function, arguments, flat[:count], flat[count:], has_aux),
        [*points, *directions],
    )


@overload
def vjp(function: Callable[..., Any], *primals: Any, has_aux: Literal[False] = False) -> tuple[Any, Pullback]: ...


@overload
def vjp(function: Callable[..., Any], *primals: Any, has_aux: Literal[True]) -> tuple[Any, Pullback, Any]: ...


def vjp(function: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Returns the value of a function and its pullback, which maps a cotangent of it to those of the arguments.

    Outside a trace, each call of the pullback recomputes what it needs of the function.

    Args:
        function: A function of pytrees of float tensors that returns a pytree of tensors.
        *primals: Its arguments.
        has_aux: Whether the function returns `(value, aux)`; see `tg.value_and_grad`.

    Returns:
        `(value, pullback)`, or `(value, pullback, aux)`. The pullback takes a pytree like the value, with `None` for
        leaves that aren't floats, and returns a tuple with one pytree of cotangents for each argument.

    Raises:
        DTypeError: An argument is not a float.
        TraceError: `has_aux`, and the function doesn't return a pair.

    Example:
        >>> value, pullback = tg.vjp(lambda x, y: x * y, 3.0, 4.0)
        >>> [float(cotangent) for cotangent in pullback(1.0)]
        [4.0, 3.0]
    """
    arguments = [_Tree("vjp", argument) for argument in primals]
    points = [leaf for argument in arguments for leaf in argument.leaves]
    if current_trace() is not None:
        return _vjp(function, arguments, points, has_aux)

    def program(*flat: Tensor) -> tuple[Any, ...]:
        done = _Application("vjp", function, arguments, flat, has_aux)
        return done.value, *done.aux

    value, *aux = computed(_name("vjp", function), program, points)

    @boundary
    def pullback(cotangent: Any) -> tuple[Any, ...]:
        if current_trace() is not None:
            return _vjp(function, arguments, points, has_aux)[1](cotangent)
        expected = _expected(value)
        count = len(points)
        return computed(
            _name("vjp", function),
            lambda *flat: _vjp(function, arguments, flat[:count], has_aux)[1](expected.rebuild(flat[count:])),
            [*points, *expected.fit("vjp", "the cotangent", cotangent)],
        )

    return value, pullback, *aux


@overload
def jacobian(
    function: Positional[Any, Any],
    argnums: int | Sequence[int] = 0,
    mode: Literal["reverse", "forward"] = "reverse",
    has_aux: bool = False,
) -> Callable[..., Any]: ...


@overload
def jacobian(
    function: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    mode: Literal["reverse", "forward"] = "reverse",
    has_aux: bool = False,
) -> Callable[..., Any]: ...


def jacobian(
    function: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    mode: Literal["reverse", "forward"] = "reverse",
    has_aux: bool = False,
) -> Callable[..., Any]:
    """Returns a function that computes every derivative of every element of `function`'s result.

    The derivative is traced once and batched over all elements along a new axis: a reverse Jacobian needs the memory of
    one pullback times the elements of the result, a forward one that of one tangent times those of the arguments.

    Args:
        function: Returns a pytree of float tensors.
        argnums: The positions of the arguments to differentiate with respect to; each may be a pytree of tensors.
        mode: "reverse", best if the result is smaller than the arguments, or "forward".
        has_aux: Whether `function` returns `(value, aux)`; see `tg.value_and_grad`.

    Returns:
        A function of the same arguments. It returns a pytree like the result; each leaf is a pytree like the argument,
        or a tuple with one for each of `argnums`, of tensors whose shape is that of the result followed by that of the
        argument. If `has_aux`, a pair of that pytree and `aux`.

    Raises:
        OptionError: The mode is unknown.
        TraceError: At the call: `has_aux`, and `function` doesn't return a pair.

    Example:
        >>> tg.jacobian(lambda x: x**2)(tg.array([1.0, 2.0]))
        Array([[2., 0.],
         [0., 4.]], dtype=f32)
    """
    if mode not in ("reverse", "forward"):
        raise OptionError(f"jacobian: mode must be reverse or forward, not {mode!r}")
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    @boundary
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        chosen = []
        for number in numbers:
            if not -len(args) <= number < len(args):
                raise TraceError(f"jacobian: there is no argument {number}, {len(args)} are positional")
            chosen.append(number % len(args))
        arguments = [_Tree("jacobian", args[number]) for number in chosen]
        points = [leaf for argument in arguments for leaf in argument.leaves]

        def chosen_only(*trees_in: Any) -> Any:
            new = dict(zip(chosen, trees_in, strict=True))
            return function(*[new.get(number, arg) for number, arg in enumerate(args)], **kwargs)

        def program(*flat: Tensor) -> Any:
            return _jacobian(chosen_only, arguments, flat, mode, isinstance(argnums, int), has_aux)

        if current_trace() is not None:
            return program(*points)
        return computed(_name("jacobian", function), program, points)

    return call


@overload
def hessian(
    function: Positional[Any, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]: ...


@overload
def hessian(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]: ...


def hessian(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Returns a function that computes the Hessian of a scalar function: the forward Jacobian of its gradient.

    A product with one vector, `tg.jvp(tg.grad(function), (x,), (v,))`, costs only as much as a few gradients.

    Args:
        function: Returns a float scalar.
        argnums: The positions of the arguments to differentiate with respect to; each may be a pytree of tensors.
        has_aux: Whether `function` returns `(value, aux)`; see `tg.value_and_grad`.

    Returns:
        A function of the same arguments; see `jacobian`. For a tensor of shape `s`, its result has shape `s + s`.

    Example:
        >>> tg.hessian(lambda x: tg.sum(x**3))(tg.array([1.0, 2.0]))
        Array([[ 6.,  0.],
         [ 0., 12.]], dtype=f32)
    """
    return jacobian(grad(function, argnums, has_aux), argnums, "forward", has_aux)


def _name(what: str, function: Callable[..., Any]) -> str:
    return f"{what}_{getattr(function, '__name__', 'function')}"


class _Tree:
    """A pytree of float tensors to differentiate with respect to, or that a cotangent must match.

    Attributes:
        leaves: The tensors.
        rebuild: Rebuilds the tree with other leaves.
    """

    def __init__(self, what: str, tree: Any):
        leaves, self.rebuild = trees.flatten(tree)
        self.leaves = [primal(leaf, what) for leaf in leaves]
        self._paths = trees.paths(tree)

    def fit(self, what: str, name: str, tree: Any) -> list[Tensor]:
        """Returns the leaves of a tree that must have the same structure, shapes and dtypes; numbers take the dtype."""
        leaves, paths = trees.flatten(tree)[0], trees.paths(tree)
        if paths != self._paths:
            expected = ", ".join(self._paths) or "no leaves"
            raise ShapeError(f"{what}: {name} must be a tree with the leaves {expected}")
        result: list[Tensor] = []
        for leaf, path, like in zip(leaves, paths, self.leaves, strict=True):
            where = f"{name}{path and '.'}{path}"
            tensor = as_argument(leaf, like.dtype)
            if tensor.shape != like.shape:
                raise ShapeError(f"{what}: {where} has shape {tensor.shape}, expected {like.shape}")
            if tensor.dtype != like.dtype:
                found_dtype, expected_dtype = SHORT[tensor.dtype], SHORT[like.dtype]
                raise DTypeError(f"{what}: {where} is {found_dtype}, expected {expected_dtype}")
            result.append(tensor)
        return result


def _floats_only(value: Any) -> Any:
    """Returns the tree with `None` for leaves that aren't floats."""
    return trees.tree_map(lambda leaf: leaf if is_float(leaf.dtype) else None, value)


def _expected(value: Any) -> _Tree:
    return _Tree("vjp", _floats_only(value))


class _Application:
    """A function applied inside a trace, to copies of its arguments that have no other uses.

    Attributes:
        trace: The trace.
        wrt: The copies.
        value: The tree of results.
        outputs: Its leaves.
        aux: What else it has computed, if it returns that: no tree, or one.
    """

    def __init__(
        self,
        what: str,
        function: Callable[..., Any],
        arguments: Sequence[_Tree],
        points: Sequence[Tensor],
        has_aux: bool,
    ):
        trace = current_trace()
        assert trace is not None
        self.trace: Trace = trace
        copies = iter([self._copy(point) for point in points])
        self.wrt: list[SSAValue] = []
        new: list[Any] = []
        for argument in arguments:
            mine = [next(copies) for _ in argument.leaves]
            self.wrt += [leaf.value for leaf in mine]
            new.append(argument.rebuild(mine))
        name = getattr(function, "__name__", "function")
        value, *self.aux = apart(what, name, function(*new), has_aux)
        leaves, rebuild = trees.flatten(value)
        self.outputs = [as_result(leaf, name) for leaf in leaves]
        self.value = rebuild(self.outputs)
        self.rebuild = rebuild
        self.trace.builder.location = user_location()

    def _copy(self, point: Tensor) -> Traced:
        self.trace.builder.location = user_location()
        value = value_in(self.trace, point)
        return Traced(self.trace, self.trace.builder.emit(ReshapeOp, [value], shape=ints(point.shape)))

    def seeds(self, values: Sequence[SSAValue | None], builder: TensorBuilder) -> dict[SSAValue, SSAValue]:
        """Returns cotangents by value; those of a value that is returned twice are summed."""
        results: dict[SSAValue, SSAValue] = {}
        for output, value in zip(self.outputs, values, strict=True):
            if value is not None and isinstance(output, Traced):
                key = output.value
                results[key] = builder.add(results[key], value) if key in results else value
        return results


def _split(arguments: Sequence[_Tree], leaves: Sequence[Any]) -> tuple[Any, ...]:
    rest = iter(leaves)
    return tuple(argument.rebuild([next(rest) for _ in argument.leaves]) for argument in arguments)


@contextmanager
def _refusals(what: str) -> Iterator[None]:
    try:
        yield
    except DiagnosticException as error:
        raise TraceError(f"{what}: {error}") from None


def _jvp(
    function: Callable[..., Any],
    arguments: Sequence[_Tree],
    points: Sequence[Tensor],
    directions: Sequence[Tensor],
    has_aux: bool,
) -> tuple[Any, ...]:
    done = _Application("jvp", function, arguments, points, has_aux)
    trace, builder = done.trace, TensorBuilder(done.trace.block, location=user_location())
    values = [value_in(trace, direction) for direction in directions]
    traced = [output.value if isinstance(output, Traced) else None for output in done.outputs]
    with _refusals("jvp"):
        known = [value for value in traced if value is not None]
        results = dict(zip(known, tangents(trace.block, known, done.wrt, values, builder), strict=True))
    builder.location = user_location()
    leaves: list[Any] = []
    for output, value in zip(done.outputs, traced, strict=True):
        if not is_float(output.dtype):
            leaves.append(None)
            continue
        moved = None if value is None else results[value]
        leaves.append(Traced(trace, builder.full_like(value_in(trace, output), 0) if moved is None else moved))
    return done.value, done.rebuild(leaves), *done.aux


def _vjp(
    function: Callable[..., Any], arguments: Sequence[_Tree], points: Sequence[Tensor], has_aux: bool
) -> tuple[Any, ...]:
    done = _Application("vjp", function, arguments, points, has_aux)

    @boundary
    def pullback(cotangent: Any) -> tuple[Any, ...]:
        note_derivative()
        for argument in done.wrt:
            check_usable(Traced(done.trace, argument))
        trace = current_trace()
        assert trace is not None
        rest = iter(_expected(done.value).fit("vjp", "the cotangent", cotangent))
        builder = TensorBuilder(trace.block, location=user_location())
        trace.builder.location = user_location()
        seeds = [value_in(trace, next(rest)) if is_float(output.dtype) else None for output in done.outputs]
        gradients = cotangents(done.trace.block, done.seeds(seeds, builder), done.wrt, builder)
        builder.location = user_location()
        pieces = [
            Traced(trace, builder.full_like(value, 0) if piece is None else piece)
            for value, piece in zip(done.wrt, gradients, strict=True)
        ]
        return _split(arguments, pieces)

    return done.value, pullback, *done.aux


def _jacobian(
    function: Callable[..., Any],
    arguments: Sequence[_Tree],
    points: Sequence[Tensor],
    mode: str,
    single: bool,
    has_aux: bool,
) -> Any:
    done = _Application("jacobian", function, arguments, points, has_aux)
    for output in done.outputs:
        if not is_float(output.dtype):
            found_dtype = SHORT[output.dtype]
            raise DTypeError(f"jacobian: a result is {found_dtype}; only floats have derivatives")
    rows = [value_in(done.trace, output) for output in done.outputs]
    with _refusals("jacobian"):
        blocks = (_by_results if mode == "reverse" else _by_arguments)(done, rows)
    leaves: list[Any] = []
    for output in range(len(rows)):
        parts = _split(arguments, [Traced(done.trace, blocks[output, i]) for i in range(len(done.wrt))])
        leaves.append(parts[0] if single else parts)
    return (done.rebuild(leaves), *done.aux) if has_aux else done.rebuild(leaves)


def _by_results(done: _Application, rows: Sequence[SSAValue]) -> dict[tuple[int, int], SSAValue]:
    """Computes a Jacobian in reverse mode, batched over the unit cotangents of each result."""
    note_derivative()
    block, results = done.trace.block, dict[tuple[int, int], SSAValue]()
    builder = TensorBuilder(block, location=user_location())
    for number, row in enumerate(rows):
        scratch, holder = Block(), Block(arg_types=[row.type])
        inner = TensorBuilder(scratch, location=builder.location)
        pieces = cotangents(block, {row: holder.args[0]}, done.wrt, inner)
        repeat = _repeat(scratch, holder.args[0], pieces, builder)
        for i, (column, piece) in enumerate(zip(done.wrt, repeat, strict=True)):
            shape = (*type_of(row).get_shape(), *type_of(column).get_shape())
            zeros = builder.zeros(shape, type_of(column).get_element_type()) if piece is None else piece
            results[number, i] = builder.reshape(zeros, shape)
    return results


def _by_arguments(done: _Application, rows: Sequence[SSAValue]) -> dict[tuple[int, int], SSAValue]:
    """Computes a Jacobian in forward mode, batched over the unit tangents of each argument."""
    block, results = done.trace.block, dict[tuple[int, int], SSAValue]()
    builder = TensorBuilder(block, location=user_location())
    for number, column in enumerate(done.wrt):
        scratch, holder = Block(), Block(arg_types=[column.type])
        inner = TensorBuilder(scratch, location=builder.location)
        pieces = tangents(block, rows, [column], [holder.args[0]], inner)
        repeat = _repeat(scratch, holder.args[0], pieces, builder)
        for i, (row, piece) in enumerate(zip(rows, repeat, strict=True)):
            old, new = type_of(row).get_shape(), type_of(column).get_shape()
            if piece is None:
                results[i, number] = builder.zeros((*old, *new), type_of(row).get_element_type())
                continue
            last = builder.transpose(piece, [*range(1, len(old) + 1), 0])
            results[i, number] = builder.reshape(last, (*old, *new))
    return results


def _repeat(
    scratch: Block, unit: SSAValue, pieces: Sequence[SSAValue | None], builder: TensorBuilder
) -> list[SSAValue | None]:
    """Returns values that are linear in `unit`, for every unit tensor along a new leading axis."""
    builder.location = user_location()
    present = [piece for piece in pieces if piece is not None]
    if not type_of(unit).element_count():
        return [None for _ in pieces]
    units = basis(type_of(unit), builder)
    repeat = iter(repeated(scratch, {unit: units}, present, builder))
    builder.location = user_location()
    return [None if piece is None else next(repeat) for piece in pieces]
