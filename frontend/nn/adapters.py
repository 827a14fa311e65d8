"""Adapters of low rank (LoRA, DoRA): linear layers whose weights are frozen, and small factors that are trained.

E. Hu et al., LoRA: Low-Rank Adaptation of Large Language Models, 2021. S.-Y. Liu et al., DoRA: Weight-Decomposed
Low-Rank Adaptation, 2024.
"""

from __future__ import annotations

import copy
import difflib
import fnmatch
import math
import zlib
from collections.abc import Iterator, Sequence
from numbers import Real
from typing import Any, TypeVar

import numpy as np

import tensorgrad as tg
from tensorgrad.errors import OptionError, ParameterError
from tensorgrad.nn.ambient import ambient_key
from tensorgrad.nn.checks import drop_rate, number_between, positive
from tensorgrad.nn.initializers import uniform
from tensorgrad.nn.layers import Linear
from tensorgrad.nn.module import Module, walk
from tensorgrad.nn.named_values import check_has_values
from tensorgrad.nn.parameters import Init, Parameter, param
from tensorgrad.nn.quantized import QuantizedLinear, store_weight
from tensorgrad.ops.elementwise.arithmetic import stop_gradient
from tensorgrad.tracing.dtypes import NAMES, promote
from tensorgrad.tracing.location import user_line

T = TypeVar("T", bound=Module)

NAME = "default"
"""The name of an adapter that is given none, which is PEFT's too."""


class LowRank(Module):
    """The factors of an adapter of one layer, in f32 also if its weight is of bf16 or f16: updates would be lost there.

    Attributes:
        a: Parameter of shape `[in_features, rank]`.
        b: Parameter of shape `[rank, out_features]`, initially 0.
        magnitude: The length of each column of the adapted weight, a parameter of shape `[out_features]` (DoRA), or
            None.
        alpha: The product of the factors is scaled by `alpha / rank`.
        dropout: The probability of dropping a feature of what the adapter alone receives.
    """

    def __init__(
        self,
        layer: Linear,
        rank: int,
        alpha: float,
        magnitude: Init | None,
        a: Init | None = None,
        b: Init = 0.0,
        dropout: float = 0.0,
    ):
        super().__init__()
        bound, dtype = 1 / math.sqrt(layer.in_features), promote(layer.dtype, NAMES["f32"])
        self.a = param((layer.in_features, rank), uniform(-bound, bound) if a is None else a, dtype)
        self.b = param((rank, layer.out_features), b, dtype)
        self.magnitude = None if magnitude is None else param((layer.out_features,), magnitude, dtype)
        self.alpha, self.dropout = alpha, dropout

    @property
    def rank(self) -> int:
        """The extent between the factors."""
        return self.a.shape[1]

    def delta(self) -> Any:
        """Returns what is added to the weight, before DoRA's magnitude."""
        return (self.a @ self.b) * (self.alpha / self.rank)

    def scale(self, weight: Any) -> Any:
        """Returns the factor of each column of the adapted weight, whose length is a constant to derivatives (DoRA)."""
        lengths = tg.sqrt(tg.sum(tg.square(weight + self.delta()), axis=0))
        return self.magnitude / stop_gradient(lengths)

    def __call__(self, x: Any, weight: Any) -> Any:
        """Returns what the adapter adds to `x @ weight`.

        Raises:
            OptionError: There is dropout, and no key.
        """
        x = self._dropped(x)
        low = (x @ self.a) @ self.b * (self.alpha / self.rank)
        if self.magnitude is None:
            return low
        scale = self.scale(weight)
        return (scale - 1) * (x @ weight) + scale * low

    def _dropped(self, x: Any) -> Any:
        """Returns the input with features dropped, by the key of the model's call and this adapter's path."""
        key = ambient_key()
        rate = drop_rate(self, self.dropout, key)
        if not rate:
            return x
        path = "" if self._binding is None else self._binding.path
        return tg.random.dropout(tg.random.fold_in(key, zlib.crc32(path.encode())), x, rate)


class AdaptedLinear(Linear):
    """A linear layer with adapters, as `tg.nn.lora` makes of each layer: `x @ weight + bias`, and what they add.

    Attributes:
        adapters: The adapters by name.
        active: The names of those that are applied.
    """

    adapters: dict[str, LowRank]
    active: tuple[str, ...]

    def __call__(self, x: Any) -> tg.Tensor:
        """Applies the layer and its active adapters.

        Raises:
            ShapeError: The last axis of `x` is not of `in_features`.
            OptionError: An adapter has dropout, and no call around was given a key.
        """
        result = super().__call__(x)
        dtype = result.dtype
        for name in self.active:
            result = result + self.adapters[name](x, self.weight)
        return tg.cast(result, dtype)


class AdaptedQuantizedLinear(AdaptedLinear, QuantizedLinear):
    """A quantized linear layer with adapters (QLoRA)."""


ADAPTED: dict[type[Linear], type[AdaptedLinear]] = {Linear: AdaptedLinear, QuantizedLinear: AdaptedQuantizedLinear}
"""The classes of layers that can have adapters, and what each is with them."""


def lora(
    model: Module,
    rank: int = 8,
    alpha: float = 16.0,
    *,
    only: str | Sequence[str] = "*",
    magnitude: bool = False,
    dropout: float = 0.0,
    name: str = NAME,
) -> list[str]:
    """Gives linear layers of a model an adapter of low rank, in place, and freezes everything else.

    Programs compiled from now on train `rank * (in_features + out_features)` numbers for each layer, rather than their
    product. Weights keep their paths; the factors of `layers.0` are `layers.0.adapters.default.a` and `.b`. The first
    ones are uniform within `1 / sqrt(in_features)`, the second ones 0, so that the model computes the same at first.
    Another adapter can be added under another name; `use_lora` says which are applied.

    With dropout, adapters draw from the random key that the model is called with, `model(x, key=key)`, or the innermost
    module in it whose class names such an argument as `key_argument`: each adapter by its path.

    Args:
        model: The model, declared, read from a folder, or initialized; adapters of an initialized model are drawn by
            `tg.compile`, or by `initialized` on the result.
        rank: The rank of the adapters.
        alpha: Their product is scaled by `alpha / rank`.
        only: Paths of layers, or patterns such as `*.q_proj`; by default all linear layers.
        magnitude: Whether the length of each column of the weight is trained on its own (DoRA), for which the model has
            to be initialized.
        dropout: The probability of dropping a feature of what the adapters receive, not in the form of
            `tg.nn.inference(model)`.
        name: The name of the adapter.

    Returns:
        The paths of the adapted layers.

    Raises:
        ShapeError: The rank is not a positive integer.
        OptionError: `alpha` is not a number, `dropout` is not between 0 and 1, or the name is no identifier.
        ParameterError: A pattern matches no linear layer, or one of a subclass of `tg.nn.Linear`; a layer has an
            adapter of this name; or `magnitude` is asked for, and the model is declared. Nothing is changed then.

    Example:
        >>> model = tg.nn.MLP(64, 32, 10).initialized(0)
        >>> tg.nn.lora(model, rank=4, only="layers.0")
        ['layers.0']
        >>> model = model.initialized(1)
        >>> [path for path, value in model.named_parameters().items() if value.trainable]
        ['layers.0.adapters.default.a', 'layers.0.adapters.default.b']
    """
    (rank,) = positive("lora", rank=rank)
    if isinstance(alpha, bool) or not isinstance(alpha, Real) or not math.isfinite(alpha):
        raise OptionError(f"{user_line()}: lora: alpha must be a number, got {alpha!r}")
    if not isinstance(name, str) or not name.isidentifier():
        raise OptionError(f"{user_line()}: lora: the name of an adapter is an identifier, got {name!r}")
    rate = number_between("lora", "dropout", dropout, 0, 1)
    layers = chosen_layers("lora", model, [only] if isinstance(only, str) else only)
    for path, layer in layers.items():
        if name in adapters_of(layer):
            raise ParameterError(
                f"{user_line()}: lora: {path} has an adapter {name!r} already; name= is for another one"
            )
    magnitudes = {path: _lengths(path, layer) for path, layer in layers.items()} if magnitude else {}
    for path, layer in layers.items():
        add(layer, name, LowRank(layer, rank, float(alpha), magnitudes.get(path), dropout=rate))
    use_lora(model, name)
    return list(layers)


def add(layer: Linear, name: str, adapter: LowRank) -> None:
    """Adds an adapter to a layer, in place; it is not applied yet."""
    if not isinstance(layer, AdaptedLinear):
        layer.__class__ = ADAPTED[type(layer)]
        vars(layer).update(adapters={}, active=())
    assert isinstance(layer, AdaptedLinear)
    layer.adapters[name] = adapter


def use_lora(model: Module, *names: str) -> None:
    """Applies the adapters of these names, trains them alone, and leaves out all others; without names, leaves out all.

    Programs compiled from now on are of this form; what several adapters of a layer add is summed.

    Args:
        model: A model with adapters.
        *names: The names of adapters.

    Raises:
        ParameterError: The model has no adapter of a name, or this is inside a trace. Nothing is changed then.

    Example:
        >>> model = tg.nn.MLP(64, 32, 10)
        >>> _ = tg.nn.lora(model, name="french"), tg.nn.lora(model, name="german")
        >>> tg.nn.use_lora(model, "french")
        >>> model.layers[0].active
        ('french',)
    """
    layers = dict(adapted(model))
    known = {name for layer in layers.values() for name in layer.adapters}
    for name in names:
        if name not in known:
            there = ", ".join(sorted(known)) or "none"
            raise ParameterError(f"{user_line()}: use_lora: the model has no adapter {name!r}; it has {there}")
    model.freeze()
    for path, layer in layers.items():
        layer.active = tuple(name for name in names if name in layer.adapters)
        for name in layer.active:
            model.trainable(f"{path}.adapters.{name}.*")


def merge_lora(model: T) -> T:
    """Returns a copy of a model whose linear layers have the sum of their weight and active adapters as weight.

    It has no adapters, and computes what the model does, up to rounding, at the cost of the layers alone. The model
    itself stays as it is, with its adapters.

    Args:
        model: An initialized model with adapters, such as `training.model()`.

    Raises:
        ParameterError: The model has no adapters, or no values.

    Example:
        >>> model = tg.nn.MLP(64, 32, 10)
        >>> _ = tg.nn.lora(model, rank=4)
        >>> merged = tg.nn.merge_lora(model.initialized(0))
        >>> type(merged.layers[0]).__name__, list(merged.named_parameters())[:2]
        ('Linear', ['layers.0.weight', 'layers.0.bias'])
    """
    merged = copy.deepcopy(model)
    layers = [layer for _, layer in adapted(merged)]
    if not layers:
        raise ParameterError(f"{user_line()}: merge_lora: the model has no adapters: tg.nn.lora(model) adds them")
    check_has_values("merge_lora", merged.parameters())
    merged.trainable()
    for layer in layers:
        _merge(layer)
    return merged


def _merge(layer: Any) -> None:
    """Makes a plain layer of one with adapters, in place."""
    weight, result = layer.weight, np.asarray(layer.weight)
    for name in layer.active:
        adapter = layer.adapters[name]
        change = adapter.delta()
        if adapter.magnitude is not None:
            scale = adapter.scale(weight)
            change = (scale - 1) * weight + scale * change
        result = result + np.asarray(change)
    for extra in ("adapters", "active"):
        vars(layer).pop(extra)
    store_weight(layer, result, Linear)


def adapted(model: Module) -> Iterator[tuple[str, AdaptedLinear]]:
    """Yields the layers of a model that have adapters, with their paths."""
    yield from walk(model, lambda value: isinstance(value, AdaptedLinear))


def adapters_of(layer: Linear) -> dict[str, LowRank]:
    """Returns the adapters of a layer by name."""
    return layer.adapters if isinstance(layer, AdaptedLinear) else {}


def linear_layers(model: Module) -> dict[str, Linear]:
    """Returns the linear layers of a model, which can have adapters, by path."""
    return dict(walk(model, lambda value: type(value) in (*ADAPTED, *ADAPTED.values())))


def chosen_layers(what: str, model: Module, patterns: Sequence[str]) -> dict[str, Linear]:
    """Returns the linear layers that match a pattern, by path; `what` is the function's name in error messages.

    Raises:
        ParameterError: A pattern matches none, or one of a subclass, which may compute something else.
    """
    layers = linear_layers(model)
    for path, layer in walk(model, lambda value: isinstance(value, Linear)):
        if path not in layers and any(fnmatch.fnmatchcase(path, str(pattern)) for pattern in patterns):
            kind = type(layer).__name__
            raise ParameterError(f"{user_line()}: {what}: {path} is a {kind}; only= has to name tg.nn.Linear alone")
    for pattern in patterns or ("",):
        if not isinstance(pattern, str) or not fnmatch.filter(layers, pattern):
            near = ", ".join(difflib.get_close_matches(str(pattern), layers, cutoff=0)) or "none"
            raise ParameterError(f"{user_line()}: {what}: {pattern!r} matches no tg.nn.Linear; the nearest are {near}")
    return {
        path: layer for path, layer in layers.items() if any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)
    }


def _lengths(path: str, layer: Linear) -> Any:
    """Returns the length of each column of a layer's weight.

    Raises:
        ParameterError: The layer is declared.
    """
    if isinstance(layer.weight, Parameter):
        raise ParameterError(
            f"{user_line()}: lora: magnitude=True starts from the weight's own, but {path} is declared and has no "
            "values: model.initialized() has them"
        )
    weight = np.asarray(layer.weight).astype(promote(layer.dtype, NAMES["f32"]))
    return np.sqrt(np.sum(np.square(weight), axis=0))
