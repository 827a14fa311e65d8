"""Vision Transformers.

A. Dosovitskiy et al., An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale, 2020.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import tensorgrad as tg
from tensorgrad.errors import ShapeError
from tensorgrad.models.encoder import EncoderOptions, SelfAttention
from tensorgrad.models.pretrained import Pretrained, linear, subkey
from tensorgrad.models.settings import activation
from tensorgrad.tracing.location import user_line


@dataclass(frozen=True, kw_only=True)
class ViTOptions(EncoderOptions):
    """Settings of Vision Transformers, under transformers' names; the defaults are those of the base model.

    Attributes:
        image_size: The extent of images, or the two extents.
        patch_size: The extent of patches, or the two extents.
        num_channels: The number of channels of images.
        qkv_bias: Whether the projections of attention have biases.
        pooler_act: The activation function of the pooler.
        pooler_output_size: The pooler's number of features; `hidden_size` by default.

    Example:
        >>> tg.models.ViTOptions(image_size=[32, 64], patch_size=8).hidden_size
        768
    """

    model_types: ClassVar[Mapping[str, Mapping[str, Any]]] = {"vit": {}}
    without_effect = ("encoder_stride",)

    model_type: str = "vit"
    image_size: int | list[int] = 224
    patch_size: int | list[int] = 16
    num_channels: int = 3
    qkv_bias: bool = True
    pooler_act: str = "tanh"
    pooler_output_size: int | None = None


class ViTEmbeddings(tg.nn.Module):
    """Features of patches and of the class token, with learned positions."""

    def __init__(self, options: ViTOptions):
        super().__init__()
        near = tg.initializers.normal(options.initializer_range)
        self.image, patch = _both(options.image_size), _both(options.patch_size)
        count = (self.image[0] // patch[0]) * (self.image[1] // patch[1])
        self.cls_token = tg.nn.param((1, 1, options.hidden_size), near)
        self.position_embeddings = tg.nn.param((1, count + 1, options.hidden_size), near)
        projection = tg.nn.Conv2d(options.num_channels, options.hidden_size, patch, stride=patch, init=near)
        self.patch_embeddings = {"projection": projection}
        self.dropout = tg.nn.Dropout(options.hidden_dropout_prob)

    def __call__(self, pixel_values: Any, key: Any) -> Any:
        """Returns embeddings, `[batch, 1 + patches, hidden_size]`."""
        patches = self.patch_embeddings["projection"](pixel_values)
        if tg.array(pixel_values).shape[2:] != self.image:
            raise ShapeError(f"{user_line()}: the model is for images of {self.image}, got {pixel_values.shape}")
        batch, features = patches.shape[:2]
        rows = tg.swapaxes(tg.reshape(patches, (batch, features, -1)), 1, 2)
        x = tg.concat([tg.broadcast_to(self.cls_token, (batch, 1, features)), rows], 1)
        return self.dropout(x + self.position_embeddings, key)


class ViTLayer(tg.nn.Module):
    """Attention and a feed-forward network, both residual, of normalized inputs."""

    def __init__(self, options: ViTOptions):
        super().__init__()
        size, inner = options.hidden_size, options.intermediate_size
        out = {"dense": linear(options, size, size)}
        self.attention: dict[str, Any] = {"attention": SelfAttention(options, options.qkv_bias), "output": out}
        self.intermediate, self.output = (
            {"dense": linear(options, size, inner)},
            {"dense": linear(options, inner, size)},
        )
        self.layernorm_before, self.layernorm_after = (tg.nn.LayerNorm(size, options.layer_norm_eps) for _ in range(2))
        self.activation, self.dropout = activation(options.hidden_act), tg.nn.Dropout(options.hidden_dropout_prob)

    def __call__(self, x: Any, key: Any) -> Any:
        """Applies the block to `[batch, length, hidden_size]`."""
        attended = self.attention["attention"](self.layernorm_before(x), None, subkey(key, 0))
        x = x + self.dropout(self.attention["output"]["dense"](attended), subkey(key, 1))
        inner = self.activation(self.intermediate["dense"](self.layernorm_after(x)))
        return x + self.dropout(self.output["dense"](inner), subkey(key, 2))


class ViTModel(Pretrained):
    """A Vision Transformer without a head: features of the class token and of each patch, and of an image.

    Args:
        options: The settings.
        pooler: Whether there is the layer that computes features of an image, from the class token's.

    Attributes:
        embeddings, encoder, layernorm, pooler: Its parts; parameters have the names that transformers' files have,
            `encoder.layer.0.attention.attention.query.weight`.

    Raises:
        ShapeError: An extent is not a positive integer.
        OptionError: There is no such activation function, or a probability is not a number between 0 and 1.

    Example:
        >>> options = tg.models.ViTOptions(
        ...     image_size=8, patch_size=4, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
        ...     num_attention_heads=4
        ... )
        >>> model = tg.models.ViTModel(options).initialized(0)
        >>> [x.shape for x in model(tg.ones((1, 3, 8, 8)))]
        [(1, 5, 16), (1, 16)]
    """

    options_type = ViTOptions
    base, is_base = "vit", True
    head = ("classifier.*",)

    def __init__(self, options: ViTOptions, pooler: bool = True):
        super().__init__(options)
        size = options.hidden_size
        self.embeddings = ViTEmbeddings(options)
        self.encoder = {"layer": [ViTLayer(options) for _ in range(options.num_hidden_layers)]}
        self.layernorm = tg.nn.LayerNorm(size, options.layer_norm_eps)
        self.pooler = {"dense": linear(options, size, options.pooler_output_size or size)} if pooler else None
        self.activation = activation(options.pooler_act)

    def __call__(self, pixel_values: Any, key: Any = None) -> tuple[Any, Any]:
        """Returns features of tokens, `[batch, 1 + patches, hidden_size]`, and of images, `[batch, features]` if any.

        Args:
            pixel_values: Images, `[batch, num_channels, height, width]`.
            key: A random key for dropout, which needs one except in the form of `tg.nn.inference(model)`.

        Raises:
            ShapeError: Images have another size than the model.
            OptionError: There is dropout, and no key.
        """
        x = self.embeddings(pixel_values, subkey(key, 0))
        for number, layer in enumerate(self.encoder["layer"], 1):
            x = layer(x, subkey(key, number))
        x = self.layernorm(x)
        return x, None if self.pooler is None else self.activation(self.pooler["dense"](x[:, 0]))


class ViTForImageClassification(Pretrained):
    """A Vision Transformer that classifies images: logits `[batch, num_labels]`.

    Args:
        options: The settings.

    Attributes:
        vit: `ViTModel`.
        classifier: `Linear`.

    Raises:
        ShapeError: An extent is not a positive integer.
        OptionError: There is no such activation function, or a probability is not a number between 0 and 1.

    Example:
        >>> options = tg.models.ViTOptions(
        ...     image_size=8, patch_size=4, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
        ...     num_attention_heads=4, num_labels=10
        ... )
        >>> tg.models.ViTForImageClassification(options).initialized(0)(tg.ones((1, 3, 8, 8))).shape
        (1, 10)
    """

    options_type = ViTOptions
    base = "vit"
    head = ("vit.pooler.*", "classifier.*")

    def __init__(self, options: ViTOptions):
        super().__init__(options)
        self.vit = ViTModel(options, pooler=False)
        self.classifier = linear(options, options.hidden_size, options.num_labels)

    def __call__(self, pixel_values: Any, key: Any = None) -> Any:
        """Returns logits, `[batch, num_labels]`.

        Args:
            pixel_values: Images, `[batch, num_channels, height, width]`.
            key: A random key for dropout, which needs one except in the form of `tg.nn.inference(model)`.

        Raises:
            ShapeError: Images have another size than the model.
            OptionError: There is dropout, and no key.
        """
        return self.classifier(self.vit(pixel_values, key)[0][:, 0])


def _both(extent: int | list[int]) -> tuple[int, int]:
    return (extent, extent) if isinstance(extent, int) else (extent[0], extent[1])
