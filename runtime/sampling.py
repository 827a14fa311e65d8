"""Draws tokens from logits, on the host: the same tokens in Python and in a web page, up to the rounding of logits."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from tensorgrad.runtime import keys
from tensorgrad.runtime.errors import InputError, OptionError

WORDS = 2.0**32


class Sampler:
    """Draws a token for each row of logits, at each step.

    The number that decides is the first word of `fold_in(fold_in(key(seed), step), row)`, as `tg.random` computes it:
    the token is the first whose weight, added to those before it, exceeds that part of their sum. With `top_k` or
    `top_p` tokens are in the order of their weights, the first of equals first, and otherwise in their own.

    Args:
        temperature: What logits are divided by before a token is drawn; 0 takes the likeliest.
        top_k: Draws among so many of the likeliest.
        top_p: Draws among the likeliest whose probabilities sum up to this (A. Holtzman et al., The Curious Case of
            Neural Text Degeneration, 2020).
        seed: The seed of what is drawn.

    Raises:
        OptionError: An option is out of its range.
    """

    def __init__(self, temperature: float, top_k: int | None, top_p: float | None, seed: int):
        if not _is_number(temperature) or not math.isfinite(temperature) or temperature < 0:
            raise OptionError(f"generate: temperature must be a number from 0, got {temperature!r}")
        if top_k is not None and (not _is_integer(top_k) or top_k < 1):
            raise OptionError(f"generate: top_k must be an integer from 1, got {top_k!r}")
        if top_p is not None and (not _is_number(top_p) or not 0 < top_p <= 1):
            raise OptionError(f"generate: top_p must be a number in (0, 1], got {top_p!r}")
        if not _is_integer(seed):
            raise OptionError(f"generate: seed must be an integer, got {seed!r}")
        self.temperature, self.top_k, self.top_p = float(temperature), top_k, top_p
        self._key, self._step = keys.key(int(seed)), 0

    def __call__(self, logits: np.ndarray) -> np.ndarray:
        """Returns a token for each row of logits, `[rows, tokens]`: the next step."""
        if not self.temperature:
            return logits.argmax(-1)
        key = keys.fold_in(self._key, self._step)
        self._step += 1
        rows = logits.astype(np.float64) / self.temperature
        return np.array([self._drawn(row, keys.fold_in(key, index)[0] / WORDS) for index, row in enumerate(rows)])

    def _drawn(self, logits: np.ndarray, place: float) -> int:
        order = np.arange(len(logits))
        if self.top_k is not None or self.top_p is not None:
            order = np.argsort(-logits, kind="stable")[: self.top_k]
        sums = np.cumsum(np.exp(logits[order] - logits.max()))
        last = len(sums) - 1
        if self.top_p is not None:
            last = min(int(np.searchsorted(sums, self.top_p * sums[-1])), last)
        return int(order[min(int(np.searchsorted(sums, place * sums[last], side="right")), last)])


def checked_prompt(prompt: Any, vocabulary: int) -> list[int]:
    """Returns the tokens of a prompt.

    Raises:
        InputError: It is empty, or no row of tokens of a vocabulary of this size.
    """
    tokens = prompt.tolist() if isinstance(prompt, np.ndarray) else prompt
    if not isinstance(tokens, Sequence) or not tokens or not all(map(_is_integer, tokens)):
        raise InputError(f"generate: a prompt is a row of one or more tokens, got {prompt!r}")
    check_tokens(tokens, vocabulary)
    return [int(token) for token in tokens]


def check_tokens(tokens: Iterable[int], vocabulary: int) -> None:
    """Checks the tokens of a prompt.

    Raises:
        InputError: One is not of a vocabulary of this size.
    """
    wrong = _unknown(tokens, vocabulary)
    if wrong is not None:
        raise InputError(f"generate: the vocabulary has {vocabulary} tokens, there is none of number {wrong}")


def checked_stops(stop: Any, vocabulary: int) -> list[int]:
    """Returns the tokens that end a text, of one or several.

    Raises:
        OptionError: One is no integer, or not of a vocabulary of this size.
    """
    given = stop.tolist() if isinstance(stop, np.ndarray) else stop
    tokens = [given] if _is_integer(given) else given
    if not isinstance(tokens, Collection) or not all(map(_is_integer, tokens)):
        raise OptionError(f"generate: stop must be a token or several, which are integers, got {stop!r}")
    wrong = _unknown(tokens, vocabulary)
    if wrong is not None:
        raise OptionError(f"generate: stop must be of the vocabulary's {vocabulary} tokens, got {wrong}")
    return [int(token) for token in tokens]


def _unknown(tokens: Iterable[int], vocabulary: int) -> int | None:
    """Returns the first token that a vocabulary of this size doesn't have."""
    return next((int(token) for token in tokens if not 0 <= token < vocabulary), None)


def checked_count(max_new_tokens: Any) -> int:
    """Returns how many tokens are asked for.

    Raises:
        OptionError: It is not an integer from 0.
    """
    if not _is_integer(max_new_tokens) or max_new_tokens < 0:
        raise OptionError(f"generate: max_new_tokens must be an integer from 0, got {max_new_tokens!r}")
    return int(max_new_tokens)


def _is_integer(value: Any) -> bool:
    """Returns whether a value is an integer, of Python or as an array without axes."""
    if isinstance(value, np.ndarray | np.generic):
        return not value.ndim and value.dtype.kind in "iu"
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
