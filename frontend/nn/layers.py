"""Layers over the last axis, and containers of layers."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, overload

import numpy as np

import tensorgrad as tg
from tensorgrad.errors import OptionError, ShapeError
from tensorgrad.nn.checks import check_in_place, drop_rate, listed, number_between, positive, trailing
from tensorgrad.nn.initializers import Initializer, normal, uniform
from tensorgrad.nn.module import Module, check_replaceable
from tensorgrad.nn.parameters import Init, as_initializer, param
from tensorgrad.nn.weights import is_parameter
from tensorgrad.ops.promotion import as_tensor
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.surface.calls import public
from tensorgrad.tracing.dtypes import DType


class Linear(Module):
    """`y = x @ weight + bias` over the last axis of `x`.

    Parameters are initialized as in PyTorch: uniform within `1 / sqrt(in_features)` of zero.

    Args:
        in_features: The extent of the last axis of `x`.
        out_features: The extent of the last axis of `y`.
        bias: Whether there is a bias.
        dtype: The dtype of the parameters.
        init: The initial weight: an initializer, a number or an array, as for `tg.nn.param`.
        bias_init: The initial bias.

    Attributes:
        weight: Parameter of shape `[in_features, out_features]`.
        bias: Parameter of shape `[out_features]`, or None.

    Raises:
        ShapeError: An extent is not a positive integer.

    Example:
        >>> tg.nn.Linear(3, 5).initialized(0)(tg.ones((2, 3))).shape
        (2, 5)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        dtype: object = "f32",
        *,
        init: Init | None = None,
        bias_init: Init | None = None,
    ):
        super().__init__()
        in_features, out_features = positive("Linear", in_features=in_features, out_features=out_features)
        bound = 1 / math.sqrt(in_features)
        near = uniform(-bound, bound)
        self.weight = param((in_features, out_features), near if init is None else init, dtype)
        self.bias = param((out_features,), near if bias_init is None else bias_init, dtype) if bias else None

    @property
    def in_features(self) -> int:
        """The extent of the last axis of `x`."""
        return self.weight.shape[0]

    @property
    def out_features(self) -> int:
        """The extent of the last axis of `y`."""
        return self.weight.shape[1]

    @property
    def dtype(self) -> DType:
        """The dtype of the weight."""
        return self.weight.dtype

    def __setattr__(self, name: str, value: object) -> None:
        before = vars(self).get(name)
        if name == "weight" and is_parameter(before) and is_parameter(value):
            _check_tied(before.shape, value.shape)
        super().__setattr__(name, value)

    def __call__(self, x: Any) -> tg.Tensor:
        """Applies the layer.

        Raises:
            ShapeError: The last axis of `x` is not of `in_features`.
        """
        return _linear(x, self.weight, self.bias)


@public
@recorded_whole
def _linear(x: Any, weight: Any, bias: Any) -> tg.Tensor:
    """Returns `x @ weight + bias`, which eager tensors record as one application."""
    product = x @ weight
    return product if bias is None else product + bias


def _check_tied(shape: tuple[int, ...], tied: tuple[int, ...]) -> None:
    """Checks that a weight used by a linear layer is not transposed.

    Raises:
        ShapeError: It is, like an embedding's table; says what to do.
    """
    if tied == shape[::-1] != shape:
        raise ShapeError(
            f"Linear: the weight is [in, out] here, {list(shape)}, and this one is {list(tied)}: for a "
            "head that shares an embedding's table, call embedding.attend(x) in the place of the layer"
        )


class Embedding(Module):
    """The rows of a table, selected by integers.

    The table is initialized as in PyTorch: normally distributed, with standard deviation 1.

    Args:
        num_embeddings: The number of rows.
        embedding_dim: The length of a row.
        padding_idx: A row that is initially zero and gets no gradient, or None; negative ones count from the end.
        init: The initial table: an initializer, a number or an array, as for `tg.nn.param`.
        dtype: The dtype of the table.

    Attributes:
        weight: Parameter of shape `[num_embeddings, embedding_dim]`.

    Raises:
        ShapeError: An extent is not a positive integer.
        OptionError: `padding_idx` is not a row.

    Example:
        >>> tg.nn.Embedding(10, 4).initialized(0)([[1, 2, 3]]).shape
        (1, 3, 4)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        init: Init | None = None,
        dtype: object = "f32",
    ):
        super().__init__()
        num_embeddings, embedding_dim = positive(
            "Embedding", num_embeddings=num_embeddings, embedding_dim=embedding_dim
        )
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise OptionError(f"Embedding: padding_idx must be one of {num_embeddings} rows, got {padding_idx!r}")
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        drawn = normal(1.0) if init is None else as_initializer(init, (num_embeddings, embedding_dim))
        if self.padding_idx is not None:
            drawn = _with_zero_row(drawn, self.padding_idx)
        self.weight = param((num_embeddings, embedding_dim), init=drawn, dtype=dtype)

    @property
    def num_embeddings(self) -> int:
        """The number of rows."""
        return self.weight.shape[0]

    @property
    def embedding_dim(self) -> int:
        """The length of a row."""
        return self.weight.shape[1]

    def __call__(self, indices: Any) -> tg.Tensor:
        """Returns the rows at `indices`, integers: `[*indices.shape, embedding_dim]`; NaN for indices out of range.

        Raises:
            DTypeError: The indices are not integers.
        """
        rows = tg.embedding(self.weight, indices)
        if self.padding_idx is None:
            return rows
        places, row = tg.array(indices), self.padding_idx
        places = places if places.dtype.itemsize >= 4 else tg.cast(places, "i32")
        is_padding = tg.equal(places, row)
        if places.dtype.kind == "i":  # negative indices count from the end
            is_padding = tg.logical_or(is_padding, tg.equal(places, row - self.weight.shape[0]))
        return tg.where(tg.expand_dims(is_padding, -1), tg.stop_gradient(rows), rows)

    def attend(self, x: Any) -> Any:
        """Returns the products of `x`, `[..., embedding_dim]`, with all rows: the logits of tied embeddings.

        Raises:
            ShapeError: The last axis of `x` has a different extent.
        """
        return x @ tg.transpose(self.weight)


def _with_zero_row(initializer: Initializer, row: int) -> Initializer:
    def drawn(key: Any, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        values = np.array(initializer(key, shape, dtype))
        values[row] = 0
        return values

    return drawn


class Dropout(Module):
    """Sets elements to 0 with probability `p` and divides the others by `1 - p`; see `tg.random.dropout`.

    Args:
        p: The probability.
        inplace: Makes no difference: it is PyTorch's.

    Raises:
        OptionError: `p` is not a number between 0 and 1, or `inplace` not True or False.

    Example:
        >>> tg.nn.inference(tg.nn.Dropout(0.5))([1.0, 2.0])
        [1.0, 2.0]
    """

    key_argument: ClassVar[str] = "key"

    def __init__(self, p: float = 0.5, inplace: bool = False):
        super().__init__()
        self.p = number_between("Dropout", "p", p, 0, 1)
        check_in_place(self, inplace)

    def __call__(self, x: Any, key: Any = None) -> Any:
        """Applies the layer; in the form of `tg.nn.inference(model)`, or with `p=0`, it returns `x`, key or not.

        Args:
            x: A tensor of floats.
            key: A random key, different for each layer and step.

        Raises:
            OptionError: `key` is not a key, or there is none.
            DTypeError: `x` is not a float tensor.
        """
        rate = drop_rate(self, self.p, key)
        return tg.random.dropout(key, x, rate) if rate else x


class _ChannelDropout(Dropout):
    """The base of layers that drop whole channels."""

    spatial: ClassVar[int]

    def __call__(self, x: Any, key: Any = None) -> tg.Tensor:
        """Applies the layer to `[batch, channels, spatial...]`; see `Dropout`.

        Args:
            x: A tensor of floats.
            key: A random key, different for each layer and step.

        Raises:
            ShapeError: `x` has another number of axes.
            OptionError: `key` is not a key, or there is none.
            DTypeError: `x` is not a float tensor.
        """
        tensor = as_tensor(x)
        if tensor.ndim != self.spatial + 2:
            raise ShapeError(
                f"{type(self).__name__}: expected {self.spatial + 2} axes, [batch, channels, "
                f"spatial...], got {tensor.shape}"
            )
        rate = drop_rate(self, self.p, key)
        if not rate:
            return tensor
        channels = tg.ones((*tensor.shape[:2], *[1] * self.spatial), dtype=tensor.dtype)
        return tensor * tg.random.dropout(key, channels, rate)


class Dropout1d(_ChannelDropout):
    """Sets channels of `[batch, channels, length]` to 0 with probability `p`, and divides the others by `1 - p`.

    J. Tompson et al., Efficient Object Localization Using Convolutional Networks, 2015. Arguments and errors are those
    of `Dropout`.

    Example:
        >>> tg.nn.inference(tg.nn.Dropout1d(0.5))(tg.ones((2, 3, 4))).shape
        (2, 3, 4)
    """

    spatial = 1


class Dropout2d(_ChannelDropout):
    """Sets channels of `[batch, channels, height, width]` to 0 with probability `p`; see `Dropout1d`.

    Example:
        >>> tg.nn.inference(tg.nn.Dropout2d(0.5))(tg.ones((2, 3, 4, 4))).shape
        (2, 3, 4, 4)
    """

    spatial = 2


class Dropout3d(_ChannelDropout):
    """Sets channels of `[batch, channels, depth, height, width]` to 0 with probability `p`; see `Dropout1d`.

    Example:
        >>> tg.nn.inference(tg.nn.Dropout3d(0.5))(tg.ones((2, 3, 2, 4, 4))).shape
        (2, 3, 2, 4, 4)
    """

    spatial = 3


class Bilinear(Module):
    """`y[k] = x1 @ weight[k] @ x2 + bias[k]`, over the last axes.

    Parameters are initialized as in PyTorch: uniform within `1 / sqrt(in1_features)` of zero.

    Args:
        in1_features: The extent of the last axis of `x1`.
        in2_features: The extent of the last axis of `x2`.
        out_features: The extent of the last axis of the result.
        bias: Whether there is a bias.
        dtype: The dtype of the parameters.
        init: The initial weight: an initializer, a number or an array, as for `tg.nn.param`.
        bias_init: The initial bias.

    Attributes:
        weight: Parameter of shape `[out_features, in1_features, in2_features]`.
        bias: Parameter of shape `[out_features]`, or None.

    Raises:
        ShapeError: An extent is not a positive integer.

    Example:
        >>> tg.nn.Bilinear(3, 4, 2).initialized(0)(tg.ones((5, 3)), tg.ones((5, 4))).shape
        (5, 2)
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        dtype: object = "f32",
        *,
        init: Init | None = None,
        bias_init: Init | None = None,
    ):
        super().__init__()
        in1_features, in2_features, out_features = positive(
            "Bilinear", in1_features=in1_features, in2_features=in2_features, out_features=out_features
        )
        bound = 1 / math.sqrt(in1_features)
        near = uniform(-bound, bound)
        self.weight = param((out_features, in1_features, in2_features), near if init is None else init, dtype)
        self.bias = param((out_features,), near if bias_init is None else bias_init, dtype) if bias else None

    def __call__(self, x1: Any, x2: Any) -> tg.Tensor:
        """Applies the layer to `[..., in1_features]` and `[..., in2_features]` of the same leading axes.

        Raises:
            ShapeError: The shapes don't match.
        """
        left, right = (trailing("Bilinear", x, (n,)) for x, n in zip((x1, x2), self.weight.shape[1:], strict=True))
        if left.shape[:-1] != right.shape[:-1]:
            raise ShapeError(f"Bilinear: leading axes of {left.shape} and {right.shape} differ")
        product = tg.einsum("...i,kij,...j->...k", left, self.weight, right)
        return product if self.bias is None else product + self.bias


class Identity(Module):
    """The identity function as a layer, whatever its arguments are.

    Example:
        >>> tg.nn.Identity()(tg.ones(2))
        Array([1., 1.], dtype=f32)
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()

    def __call__(self, x: Any) -> Any:
        """Returns `x`."""
        return x


class Flatten(Module):
    """Merges the axes from `start_dim` to `end_dim` into one.

    Example:
        >>> tg.nn.Flatten()(tg.ones((2, 3, 4))).shape
        (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def __call__(self, x: Any) -> tg.Tensor:
        """Applies the layer.

        Raises:
            ShapeError: There are no such axes, or they are in the wrong order.
        """
        return tg.flatten(x, self.start_dim, self.end_dim)


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
