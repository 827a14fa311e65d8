"""BERT, for several tasks.

J. Devlin et al., BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding, 2018.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import tensorgrad as tg
from tensorgrad.models.encoder import EncoderOptions, SelfAttention
from tensorgrad.models.pretrained import Pretrained, embedding, linear, padding, positions_of, subkey
from tensorgrad.models.settings import activation


@dataclass(frozen=True, kw_only=True)
class BertOptions(EncoderOptions):
    """Settings of BERT, under transformers' names; the defaults are those of the base model.

    Attributes:
        vocab_size: The number of tokens.
        max_position_embeddings: The greatest length.
        type_vocab_size: The number of types of tokens.
        classifier_dropout: The probability of dropping what a classifier reads; `hidden_dropout_prob` by default.

    Example:
        >>> options = tg.models.BertOptions(num_labels=3)
        >>> options.hidden_size, options.written()["label2id"]
        (768, {'LABEL_0': 0, 'LABEL_1': 1, 'LABEL_2': 2})
    """

    model_types: ClassVar[Mapping[str, Mapping[str, Any]]] = {"bert": {}}
    fixed = {"tie_word_embeddings": True, "position_embedding_type": "absolute"}

    model_type: str = "bert"
    vocab_size: int = 30522
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    classifier_dropout: float | None = None
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1


class BertEmbeddings(tg.nn.Module):
    """The sum of embeddings of tokens, positions and types, normalized."""

    def __init__(self, options: BertOptions):
        super().__init__()
        size = options.hidden_size
        self.word_embeddings = embedding(options, options.vocab_size, size)
        self.position_embeddings = embedding(options, options.max_position_embeddings, size)
        self.token_type_embeddings = embedding(options, options.type_vocab_size, size)
        self.LayerNorm = tg.nn.LayerNorm(size, options.layer_norm_eps)
        self.dropout = tg.nn.Dropout(options.hidden_dropout_prob)

    def __call__(self, input_ids: Any, token_type_ids: Any, position_ids: Any, key: Any) -> Any:
        """Returns embeddings, `[batch, length, hidden_size]`."""
        types = self.token_type_embeddings
        x = self.word_embeddings(input_ids) + (types.weight[0] if token_type_ids is None else types(token_type_ids))
        x = x + positions_of(input_ids, self.position_embeddings, position_ids)
        return self.dropout(self.LayerNorm(x), key)


class BertOutput(tg.nn.Module):
    """A linear layer, whose result is added to what it is given, and normalized."""

    def __init__(self, options: BertOptions, in_features: int):
        super().__init__()
        self.dense = linear(options, in_features, options.hidden_size)
        self.LayerNorm = tg.nn.LayerNorm(options.hidden_size, options.layer_norm_eps)
        self.dropout = tg.nn.Dropout(options.hidden_dropout_prob)

    def __call__(self, inner: Any, x: Any, key: Any) -> Any:
        """Returns the normalized sum, `[batch, length, hidden_size]`."""
        return self.LayerNorm(x + self.dropout(self.dense(inner), key))


class BertLayer(tg.nn.Module):
    """Attention and a feed-forward network, both residual, with normalized results."""

    def __init__(self, options: BertOptions):
        super().__init__()
        size, inner = options.hidden_size, options.intermediate_size
        self.attention = {"self": SelfAttention(options), "output": BertOutput(options, size)}
        self.intermediate = {"dense": linear(options, size, inner)}
        self.output, self.activation = BertOutput(options, inner), activation(options.hidden_act)

    def __call__(self, x: Any, mask: Any, key: Any) -> Any:
        """Applies the block to `[batch, length, hidden_size]`."""
        x = self.attention["output"](self.attention["self"](x, mask, subkey(key, 0)), x, subkey(key, 1))
        return self.output(self.activation(self.intermediate["dense"](x)), x, subkey(key, 2))


class BertModel(Pretrained):
    """BERT without a head: features of each token, and of a text.

    Args:
        options: The settings.
        pooler: Whether there is the layer that computes features of a text, from its first token's.

    Attributes:
        embeddings, encoder, pooler: Its parts; parameters have transformers' names,
            `encoder.layer.0.attention.self.query.weight`.

    Raises:
        ShapeError: An extent is not a positive integer.
        OptionError: There is no such activation function, or a probability is not a number between 0 and 1.

    Example:
        >>> options = tg.models.BertOptions(
        ...     vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4
        ... )
        >>> model = tg.nn.inference(tg.models.BertModel(options).initialized(0))
        >>> [x.shape for x in model([[1, 2, 3]])]
        [(1, 3, 16), (1, 16)]
    """

    options_type = BertOptions
    base, is_base = "bert", True
    head = ("cls.*", "classifier.*", "qa_outputs.*")
    unused = ("embeddings.position_ids",)

    def __init__(self, options: BertOptions, pooler: bool = True):
        super().__init__(options)
        self.embeddings = BertEmbeddings(options)
        self.encoder = {"layer": [BertLayer(options) for _ in range(options.num_hidden_layers)]}
        self.pooler = {"dense": linear(options, options.hidden_size, options.hidden_size)} if pooler else None

    def __call__(
        self,
        input_ids: Any,
        attention_mask: Any = None,
        token_type_ids: Any = None,
        position_ids: Any = None,
        key: Any = None,
    ) -> tuple[Any, Any]:
        """Returns features of tokens, `[batch, length, hidden_size]`, and of texts, `[batch, hidden_size]` or `None`.

        Args:
            input_ids: Tokens, `[batch, length]`, integers.
            attention_mask: `[batch, length]`, 0 or false for padding; or `[batch, length, length]`, for the tokens that
                each one attends to.
            token_type_ids: `[batch, length]`, integers; 0 by default.
            position_ids: `[batch, length]` or `[length]`; 0, 1, 2, ... by default.
            key: A random key for dropout, which needs one except in the form of `tg.nn.inference(model)`.

        Raises:
            ShapeError: The shapes don't match, or the length exceeds `options.max_position_embeddings`.
            OptionError: There is dropout, and no key.
        """
        x, mask = self.embeddings(input_ids, token_type_ids, position_ids, subkey(key, 0)), padding(attention_mask)
        for number, layer in enumerate(self.encoder["layer"], 1):
            x = layer(x, mask, subkey(key, number))
        return x, None if self.pooler is None else tg.tanh(self.pooler["dense"](x[:, 0]))


class _BertTask(Pretrained, ABC):
    """The base of BERT with a head."""

    options_type = BertOptions
    base = "bert"
    head = ("bert.pooler.*", "cls.*", "classifier.*", "qa_outputs.*")
    unused = ("bert.embeddings.position_ids",)
    pools: ClassVar[bool] = False

    def __init__(self, options: BertOptions):
        super().__init__(options)
        self.bert = BertModel(options, self.pools)
        rate = options.classifier_dropout
        self.dropout = tg.nn.Dropout(options.hidden_dropout_prob if rate is None else rate)

    def __call__(
        self,
        input_ids: Any,
        attention_mask: Any = None,
        token_type_ids: Any = None,
        position_ids: Any = None,
        key: Any = None,
    ) -> Any:
        """Returns the head's result of the features that `BertModel` computes from the same arguments.

        Raises:
            ShapeError: The shapes don't match, or the length exceeds `options.max_position_embeddings`.
            OptionError: There is dropout, and no key.
        """
        features, pooled = self.bert(input_ids, attention_mask, token_type_ids, position_ids, subkey(key, 0))
        return self.of_features(pooled if self.pools else features, subkey(key, 1))

    @abstractmethod
    def of_features(self, x: Any, key: Any) -> Any:
        """Returns the head's result."""


class BertPredictions(tg.nn.Module):
    """A layer and a norm before the table of embeddings, which are used as weights, and a bias."""

    def __init__(self, options: BertOptions):
        super().__init__()
        size = options.hidden_size
        norm = tg.nn.LayerNorm(size, options.layer_norm_eps)
        self.transform = {"dense": linear(options, size, size), "LayerNorm": norm}
        self.bias = tg.nn.param((options.vocab_size,), 0.0)
        self.activation = activation(options.hidden_act)

    def __call__(self, x: Any, table: tg.nn.Embedding) -> Any:
        """Returns logits, `[..., vocab_size]`."""
        return table.attend(self.transform["LayerNorm"](self.activation(self.transform["dense"](x)))) + self.bias


class BertForMaskedLM(_BertTask):
    """BERT that predicts masked tokens: logits `[batch, length, vocab_size]`.

    Args:
        options: The settings.

    Attributes:
        bert: `BertModel`.
        cls: The head, whose output layer is the table of embeddings.

    Raises:
        ShapeError: An extent is not a positive integer.
        OptionError: There is no such activation function, or a probability is not a number between 0 and 1.

    Example:
        >>> options = tg.models.BertOptions(
        ...     vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4
        ... )
        >>> model = tg.models.BertForMaskedLM(options).initialized(0)
        >>> tg.nn.inference(model)([[1, 2, 3]]).shape
        (1, 3, 50)
    """

    def __init__(self, options: BertOptions):
        super().__init__(options)
        self.cls = {"predictions": BertPredictions(options)}

    def of_features(self, x: Any, key: Any) -> Any:
        """Returns logits."""
        return self.cls["predictions"](x, self.bert.embeddings.word_embeddings)


class BertForSequenceClassification(_BertTask):
    """BERT that classifies texts: logits `[batch, num_labels]`.

    Args:
        options: The settings.

    Attributes:
        bert: `BertModel`.
        classifier: `Linear`.

    Raises:
        ShapeError: An extent is not a positive integer.
        OptionError: There is no such activation function, or a probability is not a number between 0 and 1.

    Example:
        >>> options = tg.models.BertOptions(
        ...     vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4
        ... )
        >>> model = tg.models.BertForSequenceClassification(options).initialized(0)
        >>> tg.nn.inference(model)([[1, 2, 3]]).shape
        (1, 2)
    """

    pools = True

    def __init__(self, options: BertOptions):
        super().__init__(options)
        self.classifier = linear(options, options.hidden_size, options.num_labels)

    def of_features(self, x: Any, key: Any) -> Any:
        """Returns logits."""
        return self.classifier(self.dropout(x, key))


class BertForTokenClassification(BertForSequenceClassification):
    """BERT that classifies tokens: logits `[batch, length, num_labels]`.

    Args:
        options: The settings.

    Attributes:
        bert: `BertModel`.
        classifier: `Linear`.

    Raises:
        ShapeError: An extent is not a positive integer.
        OptionError: There is no such activation function, or a probability is not a number between 0 and 1.

    Example:
        >>> options = tg.models.BertOptions(
        ...     vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4
        ... )
        >>> model = tg.models.BertForTokenClassification(options).initialized(0)
        >>> tg.nn.inference(model)([[1, 2, 3]]).shape
        (1, 3, 2)
    """

    pools = False
