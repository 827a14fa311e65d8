"""Text out of language models: one program reads the prompts, another one computes each further token."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import tensorgrad as tg
from tensorgrad.errors import OptionError, ShapeError
from tensorgrad.models.pretrained import Pretrained
from tensorgrad.models.settings import Options
from tensorgrad.nn.named_values import check_has_values
from tensorgrad.runtime.sampling import Sampler, check_tokens, checked_count, checked_stops
from tensorgrad.tracing.checks import is_integer
from tensorgrad.tracing.location import user_line

LEAST_PROMPT = 8
"""The shortest prompt that a program is compiled for; longer ones are of a power of two."""

CAPACITIES = 64
"""The capacity of a cache is a multiple of it."""

ENDED = -1
"""What stands for the tokens of a text that has ended."""


class LanguageModel(Pretrained):
    """The base of language models that write texts.

    Example:
        >>> options = tg.models.GPT2Options(vocab_size=50, n_positions=32, n_embd=16, n_layer=2, n_head=4)
        >>> model = tg.models.GPT2LMHeadModel(options).initialized(0)
        >>> isinstance(model, tg.models.LanguageModel)
        True
        >>> len(list(model.stream([1, 2, 3], max_new_tokens=4, device="numpy")))
        4
    """

    def __init__(
        self,
        options: Options,
        vocabulary: int,
        layers: int,
        heads: int,
        features: int,
        most_positions: int | None = None,
    ):
        super().__init__(options)
        self.vocabulary = vocabulary
        self._cached = {"layers": layers, "heads": heads, "features": features}
        self.most_positions = most_positions

    @property
    def stops(self) -> list[int]:
        """The tokens that end a text unless others are given: `eos_token_id` of the model's folder."""
        named = self.options.others.get("eos_token_id")
        tokens = named if isinstance(named, list) else [named]
        return [token for token in tokens if is_integer(token, 0) and token < self.vocabulary]

    @abstractmethod
    def _features(self, *arguments: Any) -> tg.Tensor:
        """Returns what logits are computed from, `[batch, length, features]`, for the arguments of a call, in order."""

    @abstractmethod
    def _logits(self, features: tg.Tensor) -> tg.Tensor:
        """Returns logits."""

    def __call__(
        self,
        input_ids: Any,
        attention_mask: Any = None,
        position_ids: Any = None,
        key: Any = None,
        cache: tg.nn.KeyValueCache | None = None,
    ) -> Any:
        """Returns logits, `[batch, length, vocab_size]`; with a cache, a pair of these and the extended cache.

        Args:
            input_ids: Tokens, `[batch, length]`, integers.
            attention_mask: `[batch, length]`, 0 or false for padding; or `[batch, length, length]`, for the tokens that
                each one attends to.
            position_ids: `[batch, length]` or `[length]`; 0, 1, 2, ... by default.
            key: A random key for dropout, which needs one except in the form of `tg.nn.inference(model)`.
            cache: What earlier tokens left, which knows the positions and what is padding.

        Raises:
            ShapeError: The shapes don't match, or the length exceeds the model's positions.
            OptionError: There is dropout, and no key; or there are a cache and a mask or positions.
        """
        if cache is None:
            return self._logits(self._features(input_ids, attention_mask, position_ids, key, None))
        if attention_mask is not None or position_ids is not None:
            raise OptionError(f"{user_line()}: a cache has the positions and the padding; pass no others beside it")
        count = tg.array(input_ids).shape[-1]
        logits = self._logits(self._features(input_ids, None, cache.positions(count), key, cache))
        return logits, cache.advanced(count)

    def empty_cache(self, capacity: int, batch: int = 1, starts: Sequence[int] | None = None) -> tg.nn.KeyValueCache:
        """Returns an empty cache for the model; see `tg.nn.KeyValueCache`.

        Args:
            capacity: The most positions.
            batch: The number of texts.
            starts: How many positions of padding precede each text; none by default.

        Raises:
            ShapeError: An extent is not a positive integer.
        """
        return tg.nn.KeyValueCache.empty(batch=batch, capacity=capacity, starts=starts, **self._cached)

    def next_logits(self, tokens: Any, cache: tg.nn.KeyValueCache) -> tuple[tg.Tensor, tg.nn.KeyValueCache]:
        """Returns the logits of the token after these, `[batch, vocab_size]`, and the extended cache.

        Args:
            tokens: `[batch, count]`, integers, which follow those of the cache.
            cache: What earlier tokens left.

        Raises:
            ShapeError: The shapes don't match.
            OptionError: There is dropout: `tg.nn.inference(model)` has none.
        """
        count = tg.array(tokens).shape[-1]
        features = self._features(tokens, None, cache.positions(count), None, cache)
        return self._logits(features[:, -1:])[:, 0], cache.advanced(count)

    def generate(
        self,
        prompt: Any,
        max_new_tokens: int = 64,
        *,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        stop: int | Sequence[int] | None = None,
        seed: int = 0,
        device: tg.DeviceName | None = None,
    ) -> list[np.ndarray]:
        """Returns what follows prompts, by the model in its form for inference: what `stream` yields, by prompt.

        Args:
            prompt: Tokens, `[length]` or `[batch, length]`, or a list of prompts of several lengths.
            max_new_tokens: The most tokens that are added to each.
            temperature: As for `stream`, as are the other options and the exceptions.
            top_k: See `stream`.
            top_p: See `stream`.
            stop: See `stream`.
            seed: See `stream`.
            device: See `stream`.

        Returns:
            The new tokens of each prompt, without the prompt and without the token that ended it.

        Example:
            >>> options = tg.models.GPT2Options(vocab_size=50, n_positions=32, n_embd=16, n_layer=2, n_head=4)
            >>> model = tg.models.GPT2LMHeadModel(options).initialized(0)
            >>> texts = model.generate([[1, 2, 3], [4, 5]], max_new_tokens=4, device="numpy")
            >>> [text.shape for text in texts]
            [(4,), (4,)]
        """
        tokens = self.stream(
            prompt,
            max_new_tokens,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            stop=stop,
            seed=seed,
            device=device,
        )
        rows = np.array(list(tokens), np.int32).reshape(-1, len(_rows(prompt))).T
        return [row[row != ENDED] for row in rows]

    def stream(
        self,
        prompt: Any,
        max_new_tokens: int = 64,
        *,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        stop: int | Sequence[int] | None = None,
        seed: int = 0,
        device: tg.DeviceName | None = None,
    ) -> Iterator[np.ndarray]:
        """Yields the next token of each prompt, `[batch]`, as soon as it is computed; -1 once a text has ended.

        The first call compiles two programs: one reads prompts of up to a power of two of tokens, the other computes a
        token from a cache of keys and values, which it changes in place. Later calls of the same extents use them.

        Args:
            prompt: Tokens, `[length]` or `[batch, length]`, or a list of prompts of several lengths.
            max_new_tokens: The most tokens that are added to each.
            temperature: What logits are divided by before a token is drawn; 0 takes the likeliest.
            top_k: Draws among so many of the likeliest.
            top_p: Draws among the likeliest whose probabilities sum up to this (A. Holtzman et al., The Curious Case of
                Neural Text Degeneration, 2020).
            stop: The tokens that end a text; by default those that the model's folder names, `()` for none.
            seed: The seed of what is drawn.
            device: Where the model runs; by default where its parameters are, or as "auto" if they are on the host.

        Raises:
            ParameterError: The model is declared, and has no values.
            InputError: A prompt has a token that the vocabulary hasn't.
            ShapeError: A prompt is empty, or longer with what is added than the model's positions.
            OptionError: An option is out of its range.
        """
        rows, stops = _rows(prompt), self.stops if stop is None else checked_stops(stop, self.vocabulary)
        for row in rows:
            check_tokens(row, self.vocabulary)
        draw, max_new_tokens = Sampler(temperature, top_k, top_p, seed), checked_count(max_new_tokens)
        longest, most = max(map(len, rows)), self.most_positions
        if most is not None and longest + max_new_tokens > most:
            raise ShapeError(
                f"{user_line()}: generate: a prompt of {longest} tokens and {max_new_tokens} new ones exceed the "
                f"model's {most} positions"
            )
        parameters = self.parameters()
        check_has_values("generate", parameters)
        place = "auto" if parameters[0].live is None else parameters[0].device
        return self._tokens(rows, max_new_tokens, stops, draw, place if device is None else device)

    def _tokens(
        self, rows: list[np.ndarray], count: int, stops: list[int], draw: Sampler, device: tg.DeviceName
    ) -> Iterator[np.ndarray]:
        length = LEAST_PROMPT
        while length < max(map(len, rows)):
            length *= 2
        capacity = -(-(length + count) // CAPACITIES) * CAPACITIES
        starts = [length - len(row) for row in rows]
        tokens: Any = np.stack(
            [np.pad(row.astype(np.int32), (start, 0)) for row, start in zip(rows, starts, strict=True)]
        )
        cache: Any = self.empty_cache(capacity, len(rows), starts)
        step, going = self._step(device), np.ones(len(rows), bool)
        for _ in range(count):
            with tg.no_grad():
                logits, cache = step(self, cache, tokens)
            new = draw(np.asarray(logits))
            going &= ~np.isin(new, stops)
            yield np.where(going, new, ENDED).astype(np.int32)
            if not going.any():
                return
            tokens = new[:, None].astype(np.int32)

    def _step(self, device: tg.DeviceName) -> Any:
        """Returns the compiled function of a step, which the model keeps for the next call."""
        assert self._binding is not None
        steps: dict[str, Any] = self._binding.kept.setdefault(LanguageModel, {})
        if device not in steps:
            steps[device] = tg.jit(_next_logits, donate=["cache"], device=device)
        return steps[device]


def _next_logits(model: Any, cache: Any, tokens: Any) -> Any:
    """Returns the logits of the next tokens, and the cache."""
    return tg.nn.inference(model).next_logits(tokens, cache)


def _rows(prompt: Any) -> list[np.ndarray]:
    """Returns prompts as arrays of tokens.

    Raises:
        ShapeError: There is none, one is empty, or one is no vector of integers.
    """
    is_row = isinstance(prompt, np.ndarray | tg.Tensor) and prompt.ndim == 1
    is_row = is_row or (isinstance(prompt, list | tuple) and not any(map(np.ndim, prompt)))
    rows = [np.asarray(row) for row in ([prompt] if is_row else prompt)]
    if not rows or not all(row.ndim == 1 and row.size and row.dtype.kind in "iu" for row in rows):
        hint = "; a tokenizer makes them of text" if any(isinstance(part, str) for part in [prompt, *prompt]) else ""
        raise ShapeError(f"{user_line()}: generate: a prompt is a row of one or more integers, got {prompt!r}{hint}")
    return rows
