"""The values of models by path: to read, to load, and to call a model with others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol, Self, TypeAlias, TypeVar

import numpy as np

from tensorgrad.errors import ArgumentError, InputError, ParameterError, TraceError
from tensorgrad.nn.parameters import Buffer, Parameter
from tensorgrad.nn.weights import Initialized, Leaf, is_live
from tensorgrad.runtime.inputs import check_inputs
from tensorgrad.runtime.printable import listed
from tensorgrad.runtime.slots import ArraySlot
from tensorgrad.tracing import trees
from tensorgrad.tracing.arrays import as_numpy, slot_of
from tensorgrad.tracing.dtypes import SHORT, DType, Spec
from tensorgrad.tracing.grad_mode import no_grad
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Array, Tensor, Traced

Kinds: TypeAlias = Mapping[str, tuple[tuple[int, ...], DType]]
"""Shapes and dtypes by name."""


class Loaded(NamedTuple):
    """The names that `load_state_dict` did not find, and those that it ignored.

    Attributes:
        missing: Names that were not given; their values are unchanged.
        unexpected: Names that were given but ignored: they are not the training's or the model's, or belong to a part
            of the state that was not requested.
    """

    missing: tuple[str, ...]
    unexpected: tuple[str, ...]


class Path(str):
    """The path of a parameter or module, such as `layers.0.weight`.

    Unpacking it raises, so that a PyTorch loop over pairs of a name and a parameter gets a helpful error.
    """

    __slots__ = ()

    def __iter__(self) -> NoReturn:
        raise ArgumentError(
            "parameters, buffers and modules come as a dict by path: "
            "for name, parameter in model.named_parameters().items()"
        )


class HasLeaves(Protocol):
    """A module, for what is computed from its parameters and buffers by path."""

    def _leaves(self) -> tuple[dict[str, Leaf], dict[str, Any]]:
        """Returns the declarations of parameters and buffers by path, and their values, or declarations without any."""
        ...

    def _bound(self, values: Mapping[str, Any]) -> Self:
        """Returns the model as a function of the values of all parameters and buffers."""
        ...


Model = TypeVar("Model", bound=HasLeaves)


class NamedValues:
    """What a module offers on its parameters and buffers by path."""

    def with_values(self: Model, values: Any) -> Model:
        """Returns the model with other values for its parameters and buffers, as a function of which it can be called.

        Derivatives propagate through the values, which may be traced: those of the parameters after a step of gradient
        descent, members of a stack in `tg.vmap`, or what another network computes. The model itself stays as it is.

        Args:
            values: Tensors or arrays by path, `{"l1.weight": w}`, also nested, `{"l1": {"weight": w}}`; or a model of
                the same structure, of which the parameters are taken. Those that are left out keep their values.

        Returns:
            The model, to be called; unlike the result of `initialized`, it can't be changed.

        Raises:
            InputError: A name is unknown, a shape or dtype differs, or what is left out has no value, since the model
                is declared.

        Example:
            >>> model = tg.nn.Linear(2, 1).initialized(0)
            >>> loss = lambda model, x: tg.sum(model(x) ** 2)
            >>> def after_a_step(model, x):
            ...     gradients = tg.grad(loss)(model, x).named_parameters()
            ...     values = {name: w - 0.1 * gradients[name] for name, w in model.named_parameters().items()}
            ...     return loss(model.with_values(values), x)
            >>> tg.grad(after_a_step)(model, tg.ones((3, 2))).weight.shape
            (2, 1)
        """
        declared, present = self._leaves()
        named = dict(zip(trees.paths(values), trees.flatten(values)[0], strict=True))
        host = {path: value for path, value in named.items() if not isinstance(value, Tensor) or path not in declared}
        slots = {path: ArraySlot(path, leaf.shape, SHORT[leaf.dtype]) for path, leaf in declared.items()}
        new = {path: Array(value) for path, value in check_inputs(slots, host, what="parameter", partial=True).items()}
        updated = {path: new.get(path, value) for path, value in named.items()}
        check_kinds("with_values", declared, updated)
        absent = [path for path in declared if path not in updated and isinstance(present[path], Parameter | Buffer)]
        if absent:
            raise InputError(
                f"with_values: the model is declared, and has no values for what is missing: {listed(absent)}; "
                "initialized(seed) gives it values"
            )
        return self._bound({**present, **updated})

    def state_dict(self: HasLeaves) -> dict[str, np.ndarray]:
        """Returns copies of the parameters and buffers, by path, as `Training.state_dict(parts="model")` does.

        Raises:
            ParameterError: The parameters are declared, and have no values.
            TraceError: This is inside a trace.
        """
        _, values = self._leaves()
        for path, value in values.items():
            if isinstance(value, Parameter | Buffer):
                raise ParameterError(f"state_dict: {path} is declared and has no values: initialized(seed) draws them")
            if isinstance(value, Traced):
                raise TraceError(f"state_dict: {path} is traced; named_parameters() has the tensors of a traced model")
        return {path: np.array(value) for path, value in values.items()}

    def load_state_dict(self: HasLeaves, values: Mapping[str, Any], strict: bool = True) -> Loaded:
        """Sets the parameters and buffers of a model on a device to values, in place.

        Args:
            values: Arrays by path, such as a result of `state_dict`, or of `tg.nn.from_torch`.
            strict: Whether all names must be given, and no others. Otherwise missing ones keep their values, and
                unknown ones are ignored; the result lists both.

        Returns:
            The names that were missing, and those that were ignored.

        Raises:
            InputError: Names are missing or unexpected, or shapes or dtypes differ. Nothing is changed then.
            ParameterError: The model is not on a device: it is declared, or its values never change.
        """
        _, present = self._leaves()
        for path, value in present.items():
            if not is_live(value):
                raise ParameterError(
                    f"load_state_dict: {path} is not on a device, so it can't be changed: initialized(values=state) "
                    "gives a model with these values, and initialized(device=...) one that can be changed"
                )
        check_layouts("load_state_dict", values)
        expected = {path: (leaf.shape, leaf.dtype) for path, leaf in present.items()}
        arrays, loaded = checked_values("model", expected, values, strict)
        with no_grad():
            for path, value in arrays.items():
                present[path].copy_(value)
        return loaded


def check_kinds(what: str, declared: Mapping[str, Leaf], values: Mapping[str, Any]) -> None:
    """Checks that tensors have the declared shapes and dtypes.

    Raises:
        InputError: A shape or dtype differs.
    """
    for path, value in values.items():
        leaf = declared[path]
        if (value.shape, value.dtype) != (leaf.shape, leaf.dtype):
            raise InputError(
                f"{what}: parameter {path!r} is {SHORT[leaf.dtype]}{list(leaf.shape)}, the "
                f"value {SHORT[value.dtype]}{list(value.shape)}"
            )


def check_has_values(what: str, leaves: Iterable[object]) -> None:
    """Checks that a model is initialized, given its parameters and buffers.

    Raises:
        ParameterError: It is declared.
    """
    if not all(isinstance(leaf, Initialized) for leaf in leaves):
        raise ParameterError(
            f"{user_line()}: {what}: the model is declared and has no values: training.model() has those of a "
            "training, and model.initialized() a model's first ones"
        )


def arrays_to_write(what: str, leaves: Mapping[str, Leaf], values: Mapping[str, Any] | None) -> dict[str, np.ndarray]:
    """Returns an array for each of some parameters and buffers: the value of its path, or by default its own.

    Args:
        what: The function that writes them.
        leaves: The parameters and buffers by path.
        values: Arrays by path, if they are not the model's own.

    Raises:
        ParameterError: There are no values, and the model is declared.
        InputError: Names of values are missing or unknown, or shapes differ.
    """
    if values is None:
        check_has_values(what, leaves.values())
    slots = {path: slot_of(path, Spec(leaf.shape, leaf.dtype)) for path, leaf in leaves.items()}
    return check_inputs(slots, leaves if values is None else values, what="parameter")


def check_layouts(what: str, values: Mapping[str, Any]) -> None:
    """Checks that values to load are no tensors of PyTorch, whose weights of layers have other layouts.

    Raises:
        InputError: One is.
    """
    for name, value in values.items() if isinstance(values, Mapping) else ():
        if type(value).__module__.partition(".")[0] == "torch":
            raise InputError(
                f"{what}: {name} is PyTorch's, which lays weights out otherwise: load what "
                "tg.nn.from_torch(model, state_dict) returns, or arrays of NumPy in our layout"
            )


def checked_values(
    owner: str,
    expected: Kinds,
    values: Mapping[str, Any],
    strict: bool,
    is_wanted: Callable[[str], bool] = lambda name: True,
    advice: str = "strict=False loads what fits",
) -> tuple[dict[str, np.ndarray], Loaded]:
    """Checks values to load against what there is.

    Args:
        owner: What they are loaded into, for messages.
        expected: The shapes and dtypes of what there is, by name.
        values: Arrays by name.
        strict: Whether missing and unexpected names are errors.
        is_wanted: Returns whether a name belongs to what is loaded; if not, it is ignored even if `strict`.
        advice: What to do instead, for the message.

    Returns:
        The values with expected names; and the names that did not match.

    Raises:
        InputError: A shape or dtype differs, or a name is missing or unexpected; lists ten of each, and counts the
            others.
    """
    if not isinstance(values, Mapping):
        raise InputError(f"load_state_dict takes arrays by name, got {type(values).__name__}")
    arrays = {name: as_numpy(name, value) for name, value in values.items() if name in expected}
    loaded = Loaded(
        tuple(name for name in expected if name not in values), tuple(name for name in values if name not in expected)
    )
    wrong = [
        f"{name} is {value.dtype}{list(value.shape)}, expected {expected[name][1]}{list(expected[name][0])}"
        for name, value in arrays.items()
        if (value.shape, value.dtype) != expected[name]
    ]
    unexpected = [name for name in loaded.unexpected if is_wanted(str(name))]
    problems: dict[str, Sequence[str]] = {"missing": loaded.missing, "unexpected": unexpected} if strict else {}
    problems["of another shape or dtype"] = wrong
    if any(problems.values()):
        texts = "; ".join(f"{what}: {listed(names)}" for what, names in problems.items() if names)
        raise InputError(f"the state is not this {owner}'s, nothing is loaded. {texts}. {advice}")
    return arrays, loaded
