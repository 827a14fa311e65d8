"""Transformers: attention and a feed-forward network, each with a residual connection and layer normalization.

A. Vaswani et al., Attention Is All You Need, 2017.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import tensorgrad as tg
from tensorgrad.errors import OptionError
from tensorgrad.nn.attention import MultiHeadAttention
from tensorgrad.nn.checks import drop_rate, positive
from tensorgrad.nn.dropout import Dropout
from tensorgrad.nn.initializers import zeros
from tensorgrad.nn.layers import Linear
from tensorgrad.nn.module import Module
from tensorgrad.nn.normalization import LayerNorm
from tensorgrad.nn.parameters import Init


class _Layer(Module):
    """The base of both kinds of layers: the feed-forward network, dropout, and the placement of normalization."""

    key_argument: ClassVar[str] = "key"

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Callable[[Any], Any] | None = None,
        layer_norm_eps: float = 1e-5,
        norm_first: bool = False,
        bias: bool = True,
        causal: bool = False,
        dtype: object = "f32",
        *,
        init: Init | None = None,
        bias_init: Init | None = None,
    ):
        super().__init__()
        name = type(self).__name__
        d_model, nhead, dim_feedforward = positive(name, d_model=d_model, nhead=nhead, dim_feedforward=dim_feedforward)
        if activation is not None and not callable(activation):
            raise OptionError(f"{name}: activation must be a function of one tensor, got {activation!r}")
        self.activation, self.norm_first, self.dropout = activation, norm_first, Dropout(dropout)
        self.self_attn = self._attention(d_model, nhead, bias, causal, dtype, init, bias_init)
        self.linear1 = Linear(d_model, dim_feedforward, bias, dtype, init=init, bias_init=bias_init)
        self.linear2 = Linear(dim_feedforward, d_model, bias, dtype, init=init, bias_init=bias_init)
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)

    def _attention(
        self,
        d_model: int,
        nhead: int,
        bias: bool,
        causal: bool,
        dtype: object,
        init: Init | None,
        bias_init: Init | None,
    ) -> MultiHeadAttention:
        return MultiHeadAttention(
            d_model,
            nhead,
            bias=bias,
            causal=causal,
            dropout=self.dropout.p,
            dtype=dtype,
            init=init,
            bias_init=zeros if bias_init is None else bias_init,
        )

    def _perceptron(self, x: Any, keys: Any) -> Any:
        activation = tg.relu if self.activation is None else self.activation
        hidden = self.dropout(activation(self.linear1(x)), keys(0))
        return self.dropout(self.linear2(hidden), keys(1))

    def _residual(self, x: Any, norm: LayerNorm, block: Callable[[Any], Any]) -> Any:
        return x + block(norm(x)) if self.norm_first else norm(x + block(x))


def _keys(key: Any) -> Callable[[int], Any]:
    """Returns a function that makes a separate key for each use in a layer, or None if there is none."""
    return lambda use: None if key is None else tg.random.fold_in(key, use)


class TransformerEncoderLayer(_Layer):
    """Self-attention, followed by a feed-forward network of two layers.

    Args:
        d_model: Features of the input and of the result.
        nhead: The number of heads; it must divide `d_model`.
        dim_feedforward: Features between the layers of the feed-forward network.
        dropout: The probability of dropout: of attention weights, of each block's result, and inside the feed-forward
            network.
        activation: A function of one tensor; `tg.relu` by default.
        layer_norm_eps: Added to variances.
        norm_first: Whether blocks normalize their inputs (pre-norm) rather than sums with their results (post-norm).
        bias: Whether linear layers and normalization have biases.
        causal: Whether a position can't attend to later ones.
        dtype: The dtype of the parameters.
        init: The initial weights of `Linear` layers, including those of attention.
        bias_init: Their initial biases.

    Attributes:
        self_attn: `MultiHeadAttention`.
        linear1, linear2: `Linear`.
        norm1, norm2: `LayerNorm`.

    Raises:
        ShapeError: An extent is not a positive integer, or the heads don't divide `d_model`.
        OptionError: `dropout` is not a number between 0 and 1, or `activation` is not a function.

    Example:
        >>> layer = tg.nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=16, dropout=0.0)
        >>> layer.initialized(0)(tg.ones((2, 5, 8))).shape
        (2, 5, 8)
    """

    def __call__(self, x: Any, key: Any = None, *, mask: Any = None) -> tg.Tensor:
        """Applies the layer.

        Args:
            x: `[..., length, d_model]`.
            key: A random key for dropout, which needs one except in the form of `tg.nn.inference(model)`.
            mask: As for `MultiHeadAttention`.

        Raises:
            ShapeError: The shapes don't match.
            OptionError: There is dropout, and no key.
        """
        drop_rate(self, self.dropout.p, key)
        keys = _keys(key)

        def attend(y: Any) -> Any:
            return self.dropout(self.self_attn(y, mask=mask, dropout_key=keys(2)), keys(3))

        x = self._residual(x, self.norm1, attend)
        return self._residual(x, self.norm2, lambda y: self._perceptron(y, keys))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to a memory, and a feed-forward network of two layers.

    Arguments, attributes and errors are those of `TransformerEncoderLayer`; self-attention is causal by default.

    Attributes:
        multihead_attn: Attention to the memory, `MultiHeadAttention`.
        norm3: The `LayerNorm` of the feed-forward network; `norm2` is that of attention to the memory.

    Example:
        >>> layer = tg.nn.TransformerDecoderLayer(8, nhead=2, dim_feedforward=16, dropout=0.0)
        >>> layer.initialized(0)(tg.ones((2, 5, 8)), tg.ones((2, 7, 8))).shape
        (2, 5, 8)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Callable[[Any], Any] | None = None,
        layer_norm_eps: float = 1e-5,
        norm_first: bool = False,
        bias: bool = True,
        causal: bool = True,
        dtype: object = "f32",
        *,
        init: Init | None = None,
        bias_init: Init | None = None,
    ):
        super().__init__(
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            norm_first,
            bias,
            causal,
            dtype,
            init=init,
            bias_init=bias_init,
        )
        self.multihead_attn = self._attention(d_model, nhead, bias, False, dtype, init, bias_init)
        self.norm3 = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)

    def __call__(self, x: Any, memory: Any, key: Any = None, *, mask: Any = None, memory_mask: Any = None) -> tg.Tensor:
        """Applies the layer.

        Args:
            x: `[..., length, d_model]`.
            memory: `[..., memory length, d_model]`, such as an encoder's result.
            key: A random key for dropout, which needs one except in the form of `tg.nn.inference(model)`.
            mask: The mask of self-attention, as for `MultiHeadAttention`.
            memory_mask: The mask of attention to the memory.

        Raises:
            ShapeError: The shapes don't match.
            OptionError: There is dropout, and no key.
        """
        drop_rate(self, self.dropout.p, key)
        keys = _keys(key)

        def attend(y: Any) -> Any:
            return self.dropout(self.self_attn(y, mask=mask, dropout_key=keys(2)), keys(3))

        def look_up(y: Any) -> Any:
            return self.dropout(self.multihead_attn(y, memory, mask=memory_mask, dropout_key=keys(4)), keys(5))

        x = self._residual(x, self.norm1, attend)
        x = self._residual(x, self.norm2, look_up)
        return self._residual(x, self.norm3, lambda y: self._perceptron(y, keys))


class TransformerEncoder(Module):
    """A stack of encoder layers.

    Args:
        layer: A function that makes a layer, called once for each: `lambda: tg.nn.TransformerEncoderLayer(64, 4)`.
        num_layers: The number of layers.
        norm: A module applied to the result, such as a `LayerNorm` after pre-norm layers; or None.

    Attributes:
        layers: The layers.

    Raises:
        ShapeError: `num_layers` is not a positive integer.
        OptionError: `layer` is not a function.

    Example:
        >>> layer = lambda: tg.nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=16, dropout=0.0)
        >>> tg.nn.TransformerEncoder(layer, num_layers=3).initialized(0)(tg.ones((2, 5, 8))).shape
        (2, 5, 8)
    """

    key_argument: ClassVar[str] = "key"

    def __init__(self, layer: Callable[[], Module], num_layers: int, norm: Module | None = None):
        super().__init__()
        self.layers = _made(type(self).__name__, layer, num_layers)
        self.norm = norm

    def __call__(self, x: Any, key: Any = None, *, mask: Any = None) -> Any:
        """Applies the layers to `[..., length, d_model]`; arguments are those of a layer."""
        keys = _keys(key)
        for i, layer in enumerate(self.layers):
            x = layer(x, keys(i), mask=mask)
        return x if self.norm is None else self.norm(x)


class TransformerDecoder(Module):
    """A stack of decoder layers that all attend to the same memory; arguments as for `TransformerEncoder`.

    Example:
        >>> layer = lambda: tg.nn.TransformerDecoderLayer(8, nhead=2, dim_feedforward=16, dropout=0.0)
        >>> decoder = tg.nn.TransformerDecoder(layer, num_layers=3).initialized(0)
        >>> decoder(tg.ones((2, 5, 8)), tg.ones((2, 7, 8))).shape
        (2, 5, 8)
    """

    key_argument: ClassVar[str] = "key"

    def __init__(self, layer: Callable[[], Module], num_layers: int, norm: Module | None = None):
        super().__init__()
        self.layers = _made(type(self).__name__, layer, num_layers)
        self.norm = norm

    def __call__(self, x: Any, memory: Any, key: Any = None, *, mask: Any = None, memory_mask: Any = None) -> Any:
        """Applies the layers to `[..., length, d_model]`; arguments are those of a layer."""
        keys = _keys(key)
        for i, layer in enumerate(self.layers):
            x = layer(x, memory, keys(i), mask=mask, memory_mask=memory_mask)
        return x if self.norm is None else self.norm(x)


def _made(name: str, layer: Callable[[], Module], num_layers: int) -> list[Any]:
    (num_layers,) = positive(name, num_layers=num_layers)
    if isinstance(layer, Module) or not callable(layer):
        raise OptionError(
            f"{name}: layer must be a function that makes a layer, such as "
            f"lambda: tg.nn.{name}Layer(64, 4), so that layers don't share parameters; got {type(layer).__name__}"
        )
    return [layer() for _ in range(num_layers)]
