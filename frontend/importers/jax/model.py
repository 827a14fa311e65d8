"""`from_jax`: a function of JAX's arrays as a module here, whose parameters are trained here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np

from tensorgrad.dialects.tg.base import numpy_dtype
from tensorgrad.dialects.tg.build import type_of
from tensorgrad.dialects.tg.call import CallOp
from tensorgrad.errors import ArgumentError, InputError, OptionError
from tensorgrad.importers.jax.derivatives import identity, is_of_floats, pulled_back, with_composites
from tensorgrad.importers.jax.linear_algebra import computed, is_computed_here
from tensorgrad.importers.parts import Part, as_input, declare, leaf_at, value_of
from tensorgrad.importers.stablehlo.evaluation import applied
from tensorgrad.importers.stablehlo.reading import read
from tensorgrad.nn.parameters import param
from tensorgrad.runtime.conversion import kind_of
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.transforms.custom_vjp import CustomVjp, custom_vjp

Around: TypeAlias = Mapping[Any, CustomVjp[tuple[Tensor, ...]]]
Called: TypeAlias = Callable[[Callable[..., tuple[Tensor, ...]], Sequence[Tensor]], Sequence[Tensor]]
"""Returns the results of a call for its body, as a function, and its operands."""


def _library() -> Any:
    """Returns the package `jax`.

    Raises:
        ImportError: It is not installed.
    """
    if find_spec("jax") is None:
        raise ImportError(f"{user_line()}: tg.from_jax needs the package jax: pip install jax")
    return import_module("jax")


@dataclass(frozen=True)
class _Exported:
    """A function of JAX for certain shapes.

    Attributes:
        function: It, on `tg`.
        kept: The positions of the leaves that it takes: those that its results depend on.
        structure: The structure of its results.
        calls: By the name of each call in it, how it is computed from its body and operands.
    """

    function: Any
    kept: tuple[int, ...]
    structure: Any
    calls: Mapping[str, Called]

    def applied(self, leaves: Sequence[Any], what: str) -> Any:
        """Returns the results for leaves: a tree like JAX's, of tensors.

        Args:
            leaves: All leaves of the arguments.
            what: The beginning of error messages.
        """
        block = self.function.body.block
        inputs = [
            as_input(leaves[place], numpy_dtype(type_of(argument)), f"{what} {place}")
            for place, argument in zip(self.kept, block.args, strict=True)
        ]
        return self.structure.unflatten(applied(block, inputs, self._call))

    def _call(self, call: CallOp, operands: Sequence[Tensor]) -> Sequence[Tensor]:
        called = self.calls[call.callee.data]
        return called(lambda *values: tuple(applied(call.body.block, values, self._call)), operands)


@dataclass(frozen=True)
class _WithRule:
    """A function of JAX's arrays with a derivative of its own.

    Attributes:
        name: Its name and what tells it from others.
        exporter: Returns its derivative, within that of the functions around it: it takes the operands and the
            cotangents of float results, to the cotangents of float operands.
        is_float: Whether each operand is of floats.
        around: The functions in whose derivatives it is, by name and the types of operands; it may be one of them.
        derived: It with its derivative, by the same.
    """

    name: tuple[str, str]
    exporter: Callable[[Around], _Exporter]
    is_float: Sequence[bool]
    around: Around
    derived: dict[Any, CustomVjp[tuple[Tensor, ...]]] = field(default_factory=dict[Any, Any])

    def __call__(self, function: Callable[..., tuple[Tensor, ...]], operands: Sequence[Tensor]) -> Sequence[Tensor]:
        """Returns the results of the function, which computes them here."""
        key = self.name, tuple((operand.shape, operand.dtype) for operand in operands)
        own = self.around.get(key) or self.derived.get(key) or self._derive(function, key)
        return own(*operands)

    def _derive(self, function: Callable[..., tuple[Tensor, ...]], key: Any) -> CustomVjp[tuple[Tensor, ...]]:
        """Returns the function with its derivative."""
        own = self.derived[key] = custom_vjp(function)
        exporter = self.exporter({**self.around, key: own})

        def backward(residuals: tuple[Tensor, ...], cotangents: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
            leaves = [*residuals, *(cotangent for cotangent in cotangents if cotangent is not None)]
            exported = exporter.exported(tuple(leaf.shape for leaf in leaves))
            slopes = iter(exported.applied(leaves, "from_jax: leaf"))
            return tuple(next(slopes) if is_float else None for is_float in self.is_float)

        own.defvjp(lambda *values: (function(*values), values), backward)
        return own


@dataclass
class _Exporter:
    """A function of JAX, and the exports of it that were needed so far.

    Attributes:
        jax: The package `jax`.
        function: The function.
        leaves: The example's leaves, as shapes and dtypes of JAX.
        structure: The structure of the example: positional arguments and keywords.
        around: The functions in whose derivatives it is; see `_WithRule`.
    """

    jax: Any
    function: Callable[..., Any]
    leaves: Sequence[Any]
    structure: Any
    around: Around = field(default_factory=dict[Any, Any], repr=False)
    _exports: dict[Any, _Exported] = field(default_factory=dict[Any, _Exported], repr=False)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Exporter:
        return self

    @property
    def tree(self) -> Any:
        """JAX's functions of trees."""
        return self.jax.tree_util

    def exported(self, shapes: tuple[tuple[int, ...], ...]) -> _Exported:
        """Returns the function for leaves of these shapes.

        Raises:
            OptionError: JAX can't trace it for them, or an op of it has no counterpart here.
        """
        if shapes not in self._exports:
            leaves = [
                leaf if leaf.shape == shape else self.jax.ShapeDtypeStruct(shape, leaf.dtype)
                for leaf, shape in zip(self.leaves, shapes, strict=True)
            ]
            self._exports[shapes] = self._export(leaves)
        return self._exports[shapes]

    def _export(self, leaves: Sequence[Any]) -> _Exported:
        jax, core = self.jax, import_module("jax.extend.core")
        args, kwargs = self.tree.tree_unflatten(self.structure, leaves)
        try:
            closed, results = jax.make_jaxpr(self.function, return_shape=True)(*args, **kwargs)
            closed, rules = with_composites(jax, closed)
            flat = jax.jit(core.jaxpr_as_fun(closed))
            result = import_module("jax.export").export(flat)(*leaves)
        except Exception as error:  # whatever the user's function raises while it is traced
            raise OptionError(f"{user_line()}: from_jax: JAX can't export the function: {error}") from error
        function = read(result.mlir_module(), "<jax.export>", "from_jax")
        kept, structure = tuple(result.module_kept_var_idx), self.tree.tree_structure(results)
        return _Exported(function, kept, structure, {name: self._called(rule) for name, rule in rules.items()})

    def _called(self, equation: Any) -> Called:
        """Returns how an equation is computed: by a function here, or with its own derivative.

        The latter is exported when it is first needed.
        """
        if is_computed_here(equation):
            return lambda _, operands: computed(equation, operands)
        is_float = [is_of_floats(self.jax, atom) for atom in equation.invars]
        atoms = [*equation.invars, *(atom for atom in equation.outvars if is_of_floats(self.jax, atom))]
        leaves, structure = self.tree.tree_flatten((tuple(_struct(self.jax, atom.aval) for atom in atoms), {}))
        exporter = partial(_Exporter, self.jax, pulled_back(self.jax, equation), leaves, structure)
        return _WithRule(identity(equation), exporter, is_float, self.around)


class JaxModule(Part):
    """A function of JAX's arrays as a module here: made by `tg.from_jax`.

    Call it as the function, without the arguments that became parameters; arrays may have other shapes than the
    example's, for which the function is exported anew. Results are trees like the function's, of tensors.
    """

    def __init__(self, exporter: _Exporter, example: tuple[object, ...], params: tuple[int, ...]):
        super().__init__()
        self._exporter = exporter
        self._params = params
        self._omitted: dict[int, str | Tensor] = {}
        """For each leaf that calls leave out: the path of the parameter, or a constant."""
        for place, path, value in _leaves_of(exporter.tree, example, params):
            array = np.asarray(value, _dtype(value))
            if kind_of(array.dtype) == "f":
                declare(self, path, param(array.shape, array, array.dtype))
                self._omitted[place] = path
            else:
                self._omitted[place] = as_input(array, array.dtype, path)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Applies the function.

        Args:
            *args: As in the example, without the arguments that became parameters.
            **kwargs: As in the example.

        Returns:
            The function's results: a tree like JAX's, of tensors.

        Raises:
            InputError: The arguments have another structure than the example's, or a dtype differs.
            OptionError: For these shapes the function can't be exported, or has ops without a counterpart here.
        """
        exporter, tree = self._exporter, self._exporter.tree
        example, _ = tree.tree_unflatten(exporter.structure, range(len(exporter.leaves)))
        others = iter(args)
        count = len(args) + len(self._params)
        filled = tuple(example[place] if place in self._params else next(others) for place in range(count))
        leaves, structure = tree.tree_flatten((filled, kwargs))
        if structure != exporter.structure:
            raise InputError(
                f"{user_line()}: the function takes arguments like the example's, {exporter.structure}, got {structure}"
            )
        values = [self._value(place, leaf) for place, leaf in enumerate(leaves)]
        exported = exporter.exported(tuple(_shape(value) for value in values))
        return exported.applied(values, f"{user_line()}: the call's array")

    def _value(self, place: int, leaf: Any) -> Any:
        """Returns the value of a leaf of a call: a parameter's, or what the call has."""
        path = self._omitted.get(place, leaf)
        return value_of(leaf_at(self, path)) if isinstance(path, str) else path


def _leaves_of(tree: Any, example: tuple[object, ...], params: Sequence[int]) -> list[tuple[int, str, Any]]:
    """Returns the leaves of the arguments that become parameters: their places, dotted paths and values."""
    leaves: list[tuple[int, str, Any]] = []
    for place, (path, value) in enumerate(tree.tree_flatten_with_path((example, {}))[0]):
        argument, *rest = path[1:]
        if argument.idx in params:
            words = [str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in rest]
            prefix = [] if len(params) == 1 and words else [f"arg{argument.idx}"]
            leaves.append((place, ".".join([*prefix, *words]), value))
    return leaves


def _dtype(leaf: Any) -> np.dtype[Any]:
    """Returns the dtype that a leaf of JAX's has here: of at most 32 bits for integers."""
    dtype = np.asarray(leaf).dtype
    return np.dtype(f"{dtype.kind}4") if dtype.kind in "iu" and dtype.itemsize == 8 else dtype


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(value.shape) if hasattr(value, "shape") else np.shape(value)


def _struct(jax: Any, leaf: Any) -> Any:
    """Returns the shape and dtype of a leaf of the example, or of a value of a jaxpr."""
    if isinstance(leaf, Tensor):
        leaf = np.asarray(leaf)
    return jax.ShapeDtypeStruct(np.shape(leaf), jax.dtypes.result_type(leaf))


def from_jax(
    function: Callable[..., Any],
    *example: object,
    params: int | Sequence[int] = (),
    **keywords: object,
) -> JaxModule:
    """Returns a function of JAX's arrays as a module here, to train, differentiate, run and export on every device.

    The function is exported by `jax.export` for the example's shapes, and for others when it is called with them. Its
    ops become ops here, with the lines of its author. Derivatives are ours, stop where `lax.stop_gradient` says so, and
    are those of their authors for functions of `jax.custom_jvp` and `jax.custom_vjp`. Integers of 64 bits become those
    of 32. Loops of a known number of iterations, `lax.scan` and `lax.fori_loop`, become `tg.scan`.

    Args:
        function: A function of trees of arrays, such as `model.apply` of Flax.
        *example: Arguments for one call: JAX's or NumPy's arrays, numbers, `jax.ShapeDtypeStruct`s, in any tree.
        params: The positions of the arguments whose floats become parameters, with the example's values as their
            initial ones; other leaves of these arguments are constants. They are named by their paths in the tree, as
            `layers.0.weight`, and calls leave these arguments out.
        **keywords: Keyword arguments for it.

    Returns:
        The module.

    Raises:
        ImportError: The package `jax` is not installed.
        ArgumentError: `function` is not callable, or there is no argument of a position in `params`.
        OptionError: JAX can't trace the function, or it uses ops without a counterpart here, such as a Fourier
            transform or a loop until a condition holds: all are listed, with their author's lines.

    Example:
        Train a function of JAX here:

            import jax.numpy as jnp

            def apply(params, x):
                return jnp.tanh(x @ params["w"]) + params["b"]

            model = tg.from_jax(apply, {"w": w, "b": b}, x, params=0)
            training = tg.compile(model, loss, tg.optim.adam(1e-3), inputs=...)
    """
    if not callable(function):
        raise ArgumentError(
            f"{user_line()}: from_jax takes a function of JAX's arrays and arguments for it, got "
            f"{type(function).__name__}"
        )
    positions = (params,) if isinstance(params, int) else tuple(params)
    for position in positions:
        if not 0 <= position < len(example):
            raise ArgumentError(f"{user_line()}: from_jax: there is no argument {position}, of which params speaks")
    jax = _library()
    leaves, structure = jax.tree_util.tree_flatten((example, keywords))
    exporter = _Exporter(jax, function, [_struct(jax, leaf) for leaf in leaves], structure)
    module = JaxModule(exporter, example, positions)
    exporter.exported(tuple(leaf.shape for leaf in exporter.leaves))
    return module
