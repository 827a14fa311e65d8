"""Containers of layers."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, overload

import tensorgrad as tg
from tensorgrad.errors import OptionError
from tensorgrad.nn.checks import listed, positive
from tensorgrad.nn.dropout import Dropout
from tensorgrad.nn.layers import Linear
from tensorgrad.nn.module import Module, check_replaceable
from tensorgrad.nn.parameters import Init


class Sequential(Module):
    """Layers in sequence.

    Args:
        *layers: Modules or functions of one tensor; or one dict of them by name. Parameters are named by position
            (`0.weight`) or by the dict's names. Like a list, it has items to set and to delete, `append`, `insert` and
            `extend`.

    Raises:
        OptionError: A layer can't be called, or a name is not an identifier.

    Example:
        >>> model = tg.nn.Sequential(tg.nn.Linear(3, 5), tg.nn.ReLU(), tg.nn.Linear(5, 2))
        >>> model.initialized(0)(tg.ones((4, 3))).shape
        (4, 2)
    """

    key_argument: ClassVar[str] = "key"

    def __init__(self, *layers: Callable[..., Any] | Mapping[str, Callable[..., Any]]):
        super().__init__()
        named: Mapping[str, Any] = {str(i): layer for i, layer in enumerate(layers)}
        if len(layers) == 1 and isinstance(layers[0], Mapping):
            named = layers[0]
            for name in named:
                if not isinstance(name, str) or not name.isidentifier() or hasattr(Sequential, name):
                    raise OptionError(f"Sequential: the name of a layer must be a free identifier, got {name!r}")
        _check_layers(named)
        vars(self).update(named)

    def __call__(self, x: Any, key: Any = None) -> Any:
        """Applies the layers.

        Args:
            x: The input of the first layer.
            key: A random key, from which each layer that takes one gets its own, by `tg.random.fold_in` with its
                position: a layer whose class has the argument's name as `key_argument`. Layers that drop need it,
                except in the form of `tg.nn.inference(model)`.
        """
        for i, layer in enumerate(self):
            argument = getattr(layer, "key_argument", None)
            if argument is None:
                x = layer(x)
            else:
                x = layer(x, **{argument: None if key is None else tg.random.fold_in(key, i)})
        return x

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __iter__(self) -> Iterator[Callable[..., Any]]:
        return filter(callable, vars(self).values())

    @overload
    def __getitem__(self, position: int) -> Callable[..., Any]: ...
    @overload
    def __getitem__(self, position: slice) -> Sequential: ...
    def __getitem__(self, position: int | slice) -> Callable[..., Any]:
        """Returns a layer; those of a slice as a `Sequential` that shares them, under their names if they have some."""
        layers = self._layers()
        if not isinstance(position, slice):
            return layers[position][1]
        chosen = layers[position]
        if all(name.isidentifier() for name, _ in chosen):
            return Sequential(dict(chosen))
        return Sequential(*(layer for _, layer in chosen))

    def __setitem__(self, position: int, layer: Callable[..., Any]) -> None:
        """Replaces a layer by another, under its name."""
        layers = self._layers()
        layers[position] = layers[position][0], layer
        self._become(layers)

    def __delitem__(self, position: int | slice) -> None:
        """Removes layers; those after them that are named by position get new names."""
        layers = self._layers()
        del layers[position]
        self._become(layers)

    def append(self, layer: Callable[..., Any]) -> Self:
        """Adds a layer at the end, and returns the module."""
        return self.extend([layer])

    def insert(self, position: int, layer: Callable[..., Any]) -> Self:
        """Adds a layer before the one at a position, and returns the module.

        Raises:
            IndexError: There is no such position.
        """
        layers = self._layers()
        if not -len(layers) <= position <= len(layers):
            raise IndexError(f"position {position} is out of range for {len(layers)} layers")
        layers.insert(position, ("", layer))
        return self._become(layers)

    def extend(self, layers: Iterable[Callable[..., Any]]) -> Self:
        """Adds layers at the end, and returns the module."""
        return self._become([*self._layers(), *(("", layer) for layer in layers)])

    def _layers(self) -> list[tuple[str, Any]]:
        return [(name, layer) for name, layer in vars(self).items() if callable(layer)]

    def _become(self, layers: Sequence[tuple[str, Any]]) -> Self:
        """Makes these its layers. A name that is no identifier becomes the layer's position.

        Raises:
            OptionError: A layer can't be called; nothing has changed then.
            ParameterError: The module is a part of a model that a function returned.
        """
        named = {name if name.isidentifier() else str(i): layer for i, (name, layer) in enumerate(layers)}
        _check_layers(named)
        check_replaceable(self, "a layer", None)
        for name, _ in self._layers():
            del vars(self)[name]
        vars(self).update(named)
        return self


def _check_layers(layers: Mapping[str, Any]) -> None:
    for name, layer in layers.items():
        if isinstance(layer, type):
            raise OptionError(f"Sequential: layer {name} is the class {layer.__name__}: give {layer.__name__}(...)")
        if not callable(layer):
            hint = "; give its layers one by one, as Sequential(*layers)" if isinstance(layer, list | tuple) else ""
            raise OptionError(f"Sequential: layer {name} can't be called: it is a {type(layer).__name__}{hint}")


class MLP(Module):
    """Linear layers with an activation, and dropout, after each but the last.

    Args:
        in_features: The extent of the last axis of the input.
        hidden_features: The extents between: a number for one hidden layer, or several.
        out_features: The extent of the last axis of the result.
        activation: A function of one tensor; `tg.relu` by default.
        bias: Whether the layers have biases.
        dropout: The probability of `Dropout`.
        dtype: The dtype of the parameters.
        init: The initial weight of each layer: an initializer, or a number; by default that of `Linear`.
        bias_init: The initial bias of each layer.

    Attributes:
        layers: The `Linear`s.

    Raises:
        ShapeError: An extent is not a positive integer.
        OptionError: `dropout` is not a number between 0 and 1, or `activation` is not a function.

    Example:
        >>> tg.nn.MLP(3, [16, 16], 2).initialized(0)(tg.ones((4, 3))).shape
        (4, 2)
    """

    key_argument: ClassVar[str] = "key"

    def __init__(
        self,
        in_features: int,
        hidden_features: int | Sequence[int],
        out_features: int,
        activation: Callable[[Any], Any] | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        dtype: object = "f32",
        *,
        init: Init | None = None,
        bias_init: Init | None = None,
    ):
        super().__init__()
        if activation is not None and (not callable(activation) or inspect.isclass(activation)):
            raise OptionError(f"MLP: activation must be a function of one tensor, got {activation!r}")
        hidden = listed("MLP", "hidden_features", hidden_features)
        in_features, out_features = positive("MLP", in_features=in_features, out_features=out_features)
        extents = (in_features, *hidden, out_features)
        self.activation = activation
        self.dropout = Dropout(dropout)
        self.layers = [
            Linear(inputs, outputs, bias, dtype, init=init, bias_init=bias_init)
            for inputs, outputs in itertools.pairwise(extents)
        ]

    def __call__(self, x: Any, key: Any = None) -> tg.Tensor:
        """Applies the layers to `[..., in_features]`.

        Args:
            x: The input.
            key: A random key for dropout, which needs one except in the form of `tg.nn.inference(model)`.

        Raises:
            ShapeError: The last axis of `x` is not of `in_features`.
            OptionError: There is dropout, and no key.
        """
        activation = tg.relu if self.activation is None else self.activation
        for i, layer in enumerate(self.layers[:-1]):
            x = activation(layer(x))
            x = self.dropout(x, None if key is None else tg.random.fold_in(key, i))
        return self.layers[-1](x)
