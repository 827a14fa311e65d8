"""DistilBERT, for several tasks.

V. Sanh et al., DistilBERT, a distilled version of BERT: smaller, faster, cheaper and lighter, 2019.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import tensorgrad as tg
from tensorgrad.models.pretrained import Pretrained, attended, embedding, linear, padding, positions_of, subkey
from tensorgrad.models.settings import Options, activation

EPS = 1e-12
"""What norms add to variances."""


@dataclass(frozen=True, kw_only=True)
class DistilBertOptions(Options):
    """Settings of DistilBERT, under transformers' names; the defaults are those of the base model.

    Attributes:
        vocab_size: The number of tokens.
        max_position_embeddings: The greatest length.
        n_layers: The number of blocks.
        n_heads: The number of heads.
        dim: The number of features.
        hidden_dim: The number of features within a feed-forward network.
        dropout: The probability of dropping an embedding or a result of a feed-forward network.
        attention_dropout: The probability of dropping a weight of attention.
        activation: The activation function, by transformers' name.
        seq_classif_dropout: The probability of dropping what a classifier reads.

    Example:
        >>> tg.models.DistilBertOptions(dropout=0.0).n_layers
        6
    """

    model_types: ClassVar[Mapping[str, Mapping[str, Any]]] = {"distilbert": {}}
    without_effect = ("sinusoidal_pos_embds", "tie_weights_", "qa_dropout", "output_past")
    fixed = {"tie_word_embeddings": True}

    model_type: str = "distilbert"
    vocab_size: int = 30522
    max_position_embeddings: int = 512
    n_layers: int = 6
    n_heads: int = 12
    dim: int = 768
    hidden_dim: int = 3072
    dropout: float = 0.1
    attention_dropout: float = 0.1
    activation: str = "gelu"
    seq_classif_dropout: float = 0.2


class DistilBertEmbeddings(tg.nn.Module):
    """The sum of embeddings of tokens and positions, normalized."""

    def __init__(self, options: DistilBertOptions):
        super().__init__()
        self.word_embeddings = embedding(options, options.vocab_size, options.dim)
        self.position_embeddings = embedding(options, options.max_position_embeddings, options.dim)
        self.LayerNorm, self.dropout = tg.nn.LayerNorm(options.dim, EPS), tg.nn.Dropout(options.dropout)

    def __call__(self, input_ids: Any, position_ids: Any, key: Any) -> Any:
        """Returns embeddings, `[batch, length, dim]`."""
        x = self.word_embeddings(input_ids) + positions_of(input_ids, self.position_embeddings, position_ids)
        return self.dropout(self.LayerNorm(x), key)


class DistilBertAttention(tg.nn.Module):
    """Attention."""

    def __init__(self, options: DistilBertOptions):
        super().__init__()
        self.heads, self.dropout = options.n_heads, options.attention_dropout
        self.q_lin, self.k_lin, self.v_lin, self.out_lin = (linear(options, options.dim, options.dim) for _ in range(4))

    def __call__(self, x: Any, mask: Any, key: Any) -> Any:
        """Applies the layer to `[batch, length, dim]`."""
        rate = self.dropout if self.training else 0.0
        return self.out_lin(attended(self.q_lin(x), self.k_lin(x), self.v_lin(x), self.heads, mask, rate, key))


class DistilBertLayer(tg.nn.Module):
    """Attention and a feed-forward network, both residual, with normalized results."""

    def __init__(self, options: DistilBertOptions):
        super().__init__()
        self.attention = DistilBertAttention(options)
        self.sa_layer_norm, self.output_layer_norm = (tg.nn.LayerNorm(options.dim, EPS) for _ in range(2))
        inner = linear(options, options.dim, options.hidden_dim)
        self.ffn = {"lin1": inner, "lin2": linear(options, options.hidden_dim, options.dim)}
        self.activation, self.dropout = activation(options.activation), tg.nn.Dropout(options.dropout)

    def __call__(self, x: Any, mask: Any, key: Any) -> Any:
        """Applies the block to `[batch, length, dim]`."""
        x = self.sa_layer_norm(x + self.attention(x, mask, subkey(key, 0)))
        inner = self.ffn["lin2"](self.activation(self.ffn["lin1"](x)))
        return self.output_layer_norm(x + self.dropout(inner, subkey(key, 1)))


class DistilBertModel(Pretrained):
    """DistilBERT without a head: features of each token.

    Args:
        options: The settings.

    Attributes:
        embeddings, transformer: Its parts; parameters have transformers' names,
            `transformer.layer.0.attention.q_lin.weight`.

    Raises:
        ShapeError: An extent is not a positive integer.
        OptionError: There is no such activation function, or a probability is not a number between 0 and 1.

    Example:
        >>> options = tg.models.DistilBertOptions(vocab_size=50, dim=16, hidden_dim=32, n_layers=2, n_heads=4)
        >>> tg.nn.inference(tg.models.DistilBertModel(options).initialized(0))([[1, 2, 3]]).shape
        (1, 3, 16)
    """

    options_type = DistilBertOptions
    base, is_base = "distilbert", True
    head = ("pre_classifier.*", "classifier.*", "vocab_*", "qa_outputs.*")
    unused = ("embeddings.position_ids",)

    def __init__(self, options: DistilBertOptions):
        super().__init__(options)
        self.embeddings = DistilBertEmbeddings(options)
        self.transformer = {"layer": [DistilBertLayer(options) for _ in range(options.n_layers)]}

    def __call__(self, input_ids: Any, attention_mask: Any = None, position_ids: Any = None, key: Any = None) -> Any:
        """Returns features of tokens, `[batch, length, dim]`.

        Args:
            input_ids: Tokens, `[batch, length]`, integers.
            attention_mask: `[batch, length]`, 0 or false for padding; or `[batch, length, length]`, for the tokens that
                each one attends to.
            position_ids: `[batch, length]` or `[length]`; 0, 1, 2, ... by default.
            key: A random key for dropout, which needs one except in the form of `tg.nn.inference(model)`.

        Raises:
            ShapeError: The shapes don't match, or the length exceeds `options.max_position_embeddings`.
            OptionError: There is dropout, and no key.
        """
        x, mask = self.embeddings(input_ids, position_ids, subkey(key, 0)), padding(attention_mask)
        for number, layer in enumerate(self.transformer["layer"], 1):
            x = layer(x, mask, subkey(key, number))
        return x


class _DistilBertTask(Pretrained, ABC):
    """The base of DistilBERT with a head."""

    options_type = DistilBertOptions
    base = "distilbert"
    head = DistilBertModel.head
    unused = ("distilbert.embeddings.position_ids",)

    def __init__(self, options: DistilBertOptions):
        super().__init__(options)
        self.distilbert = DistilBertModel(options)

    def __call__(self, input_ids: Any, attention_mask: Any = None, position_ids: Any = None, key: Any = None) -> Any:
        """Returns the head's result of the features that `DistilBertModel` computes from the same arguments.

        Raises:
            ShapeError: The shapes don't match, or the length exceeds `options.max_position_embeddings`.
            OptionError: There is dropout, and no key.
        """
        return self.of_features(
            self.distilbert(input_ids, attention_mask, position_ids, subkey(key, 0)), subkey(key, 1)
        )

    @abstractmethod
    def of_features(self, x: Any, key: Any) -> Any:
        """Returns the head's result."""


class DistilBertForMaskedLM(_DistilBertTask):
    """DistilBERT that predicts masked tokens: logits `[batch, length, vocab_size]`.

    Args:
        options: The settings.

    Attributes:
        distilbert: `DistilBertModel`, whose table of embeddings is the output layer too.
        vocab_transform, vocab_layer_norm: What is before it.

    Raises:
        ShapeError: An extent is not a positive integer.
        OptionError: There is no such activation function, or a probability is not a number between 0 and 1.

    Example:
        >>> options = tg.models.DistilBertOptions(vocab_size=50, dim=16, hidden_dim=32, n_layers=2, n_heads=4)
        >>> tg.nn.inference(tg.models.DistilBertForMaskedLM(options).initialized(0))([[1, 2, 3]]).shape
        (1, 3, 50)
    """

    def __init__(self, options: DistilBertOptions):
        super().__init__(options)
        self.vocab_transform = linear(options, options.dim, options.dim)
        self.vocab_layer_norm = tg.nn.LayerNorm(options.dim, EPS)
        self.vocab_projector = {"bias": tg.nn.param((options.vocab_size,), 0.0)}
        self.activation = activation(options.activation)

    def of_features(self, x: Any, key: Any) -> Any:
        """Returns logits."""
        x = self.vocab_layer_norm(self.activation(self.vocab_transform(x)))
        return self.distilbert.embeddings.word_embeddings.attend(x) + self.vocab_projector["bias"]


class DistilBertForSequenceClassification(_DistilBertTask):
    """DistilBERT that classifies texts: logits `[batch, num_labels]`.

    Args:
        options: The settings.

    Attributes:
        distilbert: `DistilBertModel`.
        pre_classifier, classifier: `Linear`.

    Raises:
        ShapeError: An extent is not a positive integer.
        OptionError: There is no such activation function, or a probability is not a number between 0 and 1.

    Example:
        >>> options = tg.models.DistilBertOptions(vocab_size=50, dim=16, hidden_dim=32, n_layers=2, n_heads=4)
        >>> model = tg.models.DistilBertForSequenceClassification(options).initialized(0)
        >>> tg.nn.inference(model)([[1, 2, 3]]).shape
        (1, 2)
    """

    def __init__(self, options: DistilBertOptions):
        super().__init__(options)
        self.pre_classifier = linear(options, options.dim, options.dim)
        self.classifier = linear(options, options.dim, options.num_labels)
        self.dropout = tg.nn.Dropout(options.seq_classif_dropout)

    def of_features(self, x: Any, key: Any) -> Any:
        """Returns logits, of the first token's features."""
        return self.classifier(self.dropout(tg.relu(self.pre_classifier(x[:, 0])), key))
