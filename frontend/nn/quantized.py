"""Linear layers whose weights are packed integers of few bits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

import tensorgrad as tg
from tensorgrad.errors import ParameterError
from tensorgrad.nn.layers import Linear
from tensorgrad.nn.parameters import Buffer
from tensorgrad.nn.weights import Held, Kept, Weight
from tensorgrad.ops.promotion import as_tensor
from tensorgrad.ops.quantization import SCHEMES, dequantize, packed_codes
from tensorgrad.tracing.dtypes import DType
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Array


class QuantizedLinear(Linear):
    """A linear layer with a frozen weight of few bits, as `tg.nn.quantize` makes of each layer.

    Attributes:
        packed: Buffer of words, u32 `[ceil(in_features / codes_per_word), out_features]`; see `tg.dequantize`.
        scales: Buffer of shape `[ceil(in_features / group), out_features]`.
        zeros: Buffer of the same shape, the integers that stand for 0; None if they are 0, as `tg.nn.quantize` has it.
        bias: Parameter of shape `[out_features]`, or None.
        scheme: The format, `"int8"`, `"int4"` or `"nf4"`.
        group: The number of input features that share a scale.
        extents: `in_features` and `out_features`.
    """

    packed: Any
    scales: Any
    zeros: Any = None
    scheme: str
    group: int
    extents: tuple[int, int]

    @property
    def in_features(self) -> int:
        """The extent of the last axis of `x`."""
        return self.extents[0]

    @property
    def out_features(self) -> int:
        """The extent of the last axis of `y`."""
        return self.extents[1]

    @property
    def dtype(self) -> DType:
        """The dtype of the weight."""
        return self.scales.dtype

    @property
    def weight(self) -> Any:
        """The weight `[in_features, out_features]`, computed from the integers."""
        form = SCHEMES[self.scheme]
        return dequantize(
            self.packed,
            self.scales,
            bits=form.bits,
            group=self.group,
            scheme=self.scheme,
            rows=self.in_features,
            zeros=self.zeros,
        )

    def __call__(self, x: Any) -> tg.Tensor:
        """Applies the layer; its derivative computes the weight again, rather than keep it.

        Raises:
            ShapeError: The last axis of `x` is not of `in_features`.
        """
        product = tg.checkpoint(lambda x: x @ self.weight)(as_tensor(x))
        return product if self.bias is None else product + self.bias

    @weight.setter
    def weight(self, value: object) -> NoReturn:
        raise ParameterError(
            f"{user_line()}: the weight of a quantized layer is computed from its packed integers and can't be "
            "replaced: tg.nn.dequantize(model) is a model with weights"
        )


def store_integers(layer: Any, path: str, form: type[QuantizedLinear], scheme: str, group: int) -> None:
    """Replaces the weight of a layer by integers, in place.

    Args:
        layer: An initialized layer.
        path: Its path.
        form: The class that it is to have.
        scheme: The format.
        group: The number of input features that share a scale.
    """
    weight: Any = vars(layer).pop("weight")
    values = np.asarray(weight)
    packed, scales = packed_codes(values, SCHEMES[scheme], group)
    kept = tg.f32 if values.dtype == tg.bf16 else values.dtype  # a scale rounded to bf16 moves its whole group
    for name, array in (("packed", packed), ("scales", scales.astype(kept))):
        placed = _placed(array, weight)
        vars(layer)[name] = Held.of_path(placed, f"{path}.{name}") if weight.live is None else Kept.of(placed)
    vars(layer).update(scheme=scheme, group=group, extents=weight.shape)
    layer.__class__ = form


def declare_integers(
    layer: Any, form: type[QuantizedLinear], scheme: str, group: int, buffers: Mapping[str, Buffer]
) -> None:
    """Replaces the weight of a declared layer by integers that files hold, in place.

    Args:
        layer: A declared layer.
        form: The class that it is to have.
        scheme: The format.
        group: The number of input features that share a scale.
        buffers: `packed`, `scales` and, if there are any, `zeros`.
    """
    weight: Any = vars(layer).pop("weight")
    vars(layer).update(buffers, scheme=scheme, group=group, extents=weight.shape)
    layer.__class__ = form


def store_weight(layer: Any, values: np.ndarray, form: type[Linear], trainable: bool = True) -> None:
    """Gives a layer other values as its weight, a parameter, in place of a weight or of integers.

    Args:
        layer: An initialized layer.
        values: The weight.
        form: The class that it is to have, which is not that of a quantized layer.
        trainable: Whether the weight is trained.
    """
    weight = layer.weight
    for name in QuantizedLinear.__annotations__:
        vars(layer).pop(name, None)
    layer.__class__ = form
    layer.weight = Weight.trained(_placed(values.astype(weight.dtype), weight), trainable)


def _placed(array: np.ndarray, beside: Any) -> Any:
    """Returns an array as a constant, or on the device of another one."""
    return Array(array) if beside.live is None else tg.tensor(array, array.dtype, device=beside.device)
