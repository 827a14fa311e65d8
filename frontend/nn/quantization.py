"""Replaces the weights of linear layers by packed integers of few bits, and back.

With adapters on top, this is QLoRA: T. Dettmers et al., QLoRA: Efficient Finetuning of Quantized LLMs, 2023.
`tensorgrad.ops.quantization` has the formats.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from tensorgrad.errors import ParameterError
from tensorgrad.nn.adapters import ADAPTED, AdaptedLinear, chosen_layers
from tensorgrad.nn.checks import positive
from tensorgrad.nn.layers import Linear
from tensorgrad.nn.module import Module, walk
from tensorgrad.nn.quantized import QuantizedLinear, store_integers, store_weight
from tensorgrad.nn.weights import Initialized
from tensorgrad.ops.quantization import scheme_of
from tensorgrad.tracing.location import user_line

T = TypeVar("T", bound=Module)

QUANTIZED: dict[type[Linear], Any] = {Linear: QuantizedLinear, AdaptedLinear: ADAPTED[QuantizedLinear]}
"""The classes of layers that can be quantized, and what each is then."""


def quantize(
    model: Module,
    bits: int = 8,
    group: int = 64,
    scheme: str | None = None,
    *,
    only: str | Sequence[str] = "*",
) -> list[str]:
    """Replaces the weights of a model's linear layers by integers of few bits, in place.

    Of a layer `layers.0`, buffers `layers.0.packed` and `.scales` replace the parameter `.weight`: words of packed
    codes, and a scale for each group of input features of an output. They are not trained, but are saved and loaded
    like all buffers. The layer computes its weight from them where a product reads it, by `tg.dequantize`; derivatives
    propagate to its input. Biases, embeddings and other layers stay as they are: `tg.nn.lora(model)` freezes them, and
    gives quantized layers adapters too (QLoRA).

    Args:
        model: An initialized model.
        bits: The bits of a weight: 8 or 4.
        group: The number of input features that share a scale; the last group may have fewer.
        scheme: `"int8"` or `"int4"`, evenly spaced values up to the largest absolute value of a group, or `"nf4"`,
            QLoRA's quantiles of a normal distribution; by default `"int8"` or `"nf4"`.
        only: Paths of layers, or patterns such as `*.q_proj`; by default all linear layers.

    Returns:
        The paths of the quantized layers.

    Raises:
        OptionError: There is no such format.
        ShapeError: The group is not a positive integer.
        ParameterError: A pattern matches no linear layer, or one of a subclass of `tg.nn.Linear`; or a layer is
            declared, and has no values. Nothing is changed then.

    Example:
        >>> model = tg.nn.MLP(64, 32, 10).initialized(0)
        >>> tg.nn.quantize(model, bits=4)
        ['layers.0', 'layers.1']
        >>> model.layers[0].packed.shape, model.layers[0].scales.shape
        ((8, 32), (1, 32))
    """
    (group,) = positive("quantize", group=group)
    name = scheme_of("quantize", bits, scheme)
    layers = chosen_layers("quantize", model, [only] if isinstance(only, str) else only)
    layers = {path: layer for path, layer in layers.items() if not isinstance(layer, QuantizedLinear)}
    for path, layer in layers.items():
        if not isinstance(layer.weight, Initialized):
            raise ParameterError(
                f"{user_line()}: quantize: {path} is declared and has no values: model.initialized() has them"
            )
    for path, layer in layers.items():
        store_integers(layer, path, QUANTIZED[type(layer)], name, group)
    return list(layers)


def dequantize(model: T) -> T:
    """Returns a copy of a model whose quantized layers have weights again: what their integers stand for.

    The weights are parameters, which can be trained, and which `tg.models.save_pretrained` writes; the model itself
    stays as it is. Adapters stay too: `tg.nn.merge_lora` adds them to the weights.

    Args:
        model: An initialized model with quantized layers, such as `training.model()`.

    Raises:
        ParameterError: The model has none, or it has no values.

    Example:
        >>> model = tg.nn.MLP(64, 32, 10).initialized(0)
        >>> _ = tg.nn.quantize(model)
        >>> list(tg.nn.dequantize(model).named_parameters())[:2]
        ['layers.0.bias', 'layers.0.weight']
    """
    plain = copy.deepcopy(model)
    layers = [layer for _, layer in quantized(plain)]
    if not layers:
        raise ParameterError(f"{user_line()}: dequantize: the model has no quantized layers: tg.nn.quantize makes them")
    for layer in layers:
        is_adapted = isinstance(layer, AdaptedLinear)
        store_weight(layer, np.asarray(layer.weight), AdaptedLinear if is_adapted else Linear, not is_adapted)
    return plain


def quantized(model: Module) -> Iterator[tuple[str, QuantizedLinear]]:
    """Yields the layers of a model that are quantized, with their paths."""
    yield from walk(model, lambda value: isinstance(value, QuantizedLinear))
