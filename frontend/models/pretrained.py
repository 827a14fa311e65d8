"""What models of Hugging Face's folders share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import tensorgrad as tg
from tensorgrad.errors import ShapeError
from tensorgrad.models.settings import Options
from tensorgrad.tracing.dtypes import NAMES, promote
from tensorgrad.tracing.location import user_line


class Pretrained(tg.nn.Module):
    """The base of models whose parameters have the names that transformers gives them.

    Attributes:
        options: The settings.
    """

    key_argument: ClassVar[str] = "key"
    options_type: ClassVar[type[Options]]
    base: ClassVar[str] = ""
    """The name of the part that several tasks share, in files of models for a task."""
    is_base: ClassVar[bool] = False
    """Whether the model is that part alone, whose files omit its name."""
    head: ClassVar[Sequence[str]] = ()
    """Patterns of parameters, named as those of models for a task, that belong to a task."""
    unused: ClassVar[Sequence[str]] = ()
    """Patterns of what files may hold besides."""
    conv1d: ClassVar[Sequence[str]] = ()
    """Patterns of weights that are stored as `[in, out]`."""

    def __init__(self, options: Options):
        super().__init__()
        self.options = options

    @classmethod
    def architectures(cls) -> dict[str, str]:
        """Returns transformers' names of the model, by type of model: by default the class's own."""
        return dict.fromkeys(cls.options_type.model_types, cls.__name__)


def linear(options: Options, in_features: int, out_features: int, bias: bool = True) -> tg.nn.Linear:
    """Returns a linear layer with weights and biases initialized as transformers does."""
    init = tg.initializers.normal(options.initializer_range)
    return tg.nn.Linear(in_features, out_features, bias, init=init, bias_init=0.0)


class Embedding(tg.nn.Embedding):
    """A table of embeddings, whose rows are in f32 also if it is stored in fewer bits."""

    def __call__(self, indices: Any) -> tg.Tensor:
        """Returns the rows at `indices`."""
        return widened(super().__call__(indices))


def embedding(options: Options, count: int, features: int) -> tg.nn.Embedding:
    """Returns an embedding initialized as transformers does."""
    return Embedding(count, features, init=tg.initializers.normal(options.initializer_range))


def widened(x: Any) -> Any:
    """Returns a weight of bf16 or f16 in f32, and others as they are.

    Everything else that models compute is in f32 already, beside which weights of fewer bits are read exactly.
    """
    return tg.cast(x, promote(x.dtype, NAMES["f32"]))


def padding(attention_mask: Any) -> Any:
    """Returns a mask of keys, `[batch, keys]`, or of each query's, `[batch, queries, keys]`, for all heads, or `None`.

    Raises:
        ShapeError: It has another number of axes.
    """
    if attention_mask is None:
        return None
    mask = tg.array(attention_mask)
    if mask.ndim not in (2, 3):
        raise ShapeError(
            f"{user_line()}: attention_mask is [batch, keys] or [batch, queries, keys], got the shape {mask.shape}"
        )
    allowed = mask if mask.dtype == tg.bool_ else mask != 0
    return allowed[:, None] if mask.ndim == 3 else allowed[:, None, None, :]


def attended(q: Any, k: Any, v: Any, heads: int, mask: Any, dropout: float, key: Any) -> tg.Tensor:
    """Returns attention of queries to keys and values, `[batch, length, features]`, by heads that are joined again."""
    parts = (tg.nn.split_heads(part, heads) for part in (q, k, v))
    return tg.nn.merge_heads(tg.nn.scaled_dot_product_attention(*parts, mask=mask, dropout=dropout, dropout_key=key))


def subkey(key: Any, use: int) -> Any:
    """Returns a key for one use of several, or `None` if there is none."""
    return None if key is None else tg.random.fold_in(key, use)


def positions_of(input_ids: Any, table: tg.nn.Embedding, position_ids: Any = None) -> Any:
    """Returns the embeddings of the positions of tokens `[batch, length]`, by default 0, 1, 2, ...

    Raises:
        ShapeError: The length exceeds the table.
    """
    if position_ids is not None:
        return table(position_ids)
    length = tg.array(input_ids).shape[-1]
    if length > table.num_embeddings:
        raise ShapeError(f"{user_line()}: the model has {table.num_embeddings} positions, the text is of {length}")
    return widened(table.weight[:length])
