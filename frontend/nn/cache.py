"""Keys and values of earlier positions, kept so that the next token costs one position rather than a whole text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorgrad as tg
from tensorgrad.errors import ShapeError
from tensorgrad.nn.checks import positive
from tensorgrad.tracing.location import user_line


@dataclass
class KeyValueCache:
    """The keys and values of a decoder's layers, for texts whose last tokens are aligned.

    It is a pytree. A traced function gets it, passes it through the layers, which extend it, and returns it:
    `tg.jit(step, donate=["cache"])` then changes it in place. Its extents never change, so one program computes every
    token.

    Attributes:
        keys: For each layer, `[batch, heads, capacity, features]`.
        values: For each layer, of the same shape.
        length: How many positions are filled, an i32.
        starts: `[batch]`, the first position of each text, i32; those before it are padding.

    Example:
        >>> cache = tg.nn.KeyValueCache.empty(layers=1, batch=1, heads=1, capacity=4, features=2)
        >>> def step(cache, x):
        ...     keys, values = cache.extend(0, x, x)
        ...     attended = tg.nn.scaled_dot_product_attention(x, keys, values, mask=cache.mask(1))
        ...     return attended, cache.advanced(1)
        >>> for _ in range(3):
        ...     attended, cache = step(cache, tg.ones((1, 1, 1, 2)))
        >>> int(cache.length), attended.shape
        (3, (1, 1, 1, 2))
    """

    keys: list[Any]
    values: list[Any]
    length: Any
    starts: Any

    @classmethod
    def empty(
        cls, layers: int, batch: int, heads: int, capacity: int, features: int, starts: Sequence[int] | None = None
    ) -> KeyValueCache:
        """Returns a cache without positions, of f32.

        Args:
            layers: The number of layers.
            batch: The number of texts.
            heads: The number of heads of keys.
            capacity: The most positions.
            features: The features of a head.
            starts: How many positions of padding precede each text; none by default.

        Raises:
            ShapeError: An extent is not a positive integer.
        """
        layers, batch, heads, capacity, features = positive(
            "KeyValueCache", layers=layers, batch=batch, heads=heads, capacity=capacity, features=features
        )
        shape = (batch, heads, capacity, features)
        return cls(
            [tg.zeros(shape) for _ in range(layers)],
            [tg.zeros(shape) for _ in range(layers)],
            tg.array(0, "i32"),
            tg.array([0] * batch if starts is None else starts, "i32"),
        )

    @property
    def capacity(self) -> int:
        """The most positions."""
        return self.keys[0].shape[2]

    def extend(self, layer: int, keys: Any, values: Any) -> tuple[Any, Any]:
        """Writes the keys and values of new positions, and returns those of all; beyond the capacity none is written.

        Args:
            layer: The number of the layer.
            keys: `[batch, heads, count, features]`, of the positions after those that are filled.
            values: Of the same shape.

        Raises:
            ShapeError: The shapes don't match those of the cache.
        """
        fitting = (*self.keys[layer].shape[:2], keys.shape[2], self.keys[layer].shape[3])
        if keys.shape != fitting or values.shape != fitting or keys.shape[2] > self.capacity:
            raise ShapeError(
                f"{user_line()}: KeyValueCache: keys {keys.shape} and values {values.shape} don't extend those of the "
                f"cache, {self.keys[layer].shape}"
            )
        self.keys[layer], self.values[layer] = (
            self._written(old, new) for old, new in ((self.keys[layer], keys), (self.values[layer], values))
        )
        return self.keys[layer], self.values[layer]

    def advanced(self, count: int) -> KeyValueCache:
        """Returns the cache with `count` more positions, which all layers have written."""
        return KeyValueCache(self.keys, self.values, self.length + count, self.starts)

    def positions(self, count: int) -> Any:
        """Returns the positions of the next `count` tokens in their texts, `[batch, count]`; 0 for padding."""
        return tg.maximum(self._next(count) - self.starts[:, None], 0)

    def mask(self, count: int, window: int | None = None) -> Any:
        """Returns which keys the next `count` tokens attend to, `[batch, 1, count, capacity]`.

        Args:
            count: The number of tokens.
            window: How many keys a token attends to at most, its own and those before it.
        """
        keys = tg.arange(self.capacity)
        queries = self._next(count)[:, None]
        allowed = keys <= queries
        if window is not None:
            allowed = tg.logical_and(allowed, keys > queries - window)
        return tg.logical_and(allowed, keys >= self.starts[:, None, None])[:, None]

    def _next(self, count: int) -> Any:
        return self.length + tg.arange(count)

    def _written(self, old: Any, new: Any) -> Any:
        """Returns keys or values with new ones behind those that are filled."""
        place = tg.arange(self.capacity) - self.length
        count = new.shape[2]
        inside = tg.logical_and(place >= 0, place < count)[:, None]
        return tg.where(inside, new if count == 1 else tg.take(new, tg.clip(place, 0, count - 1), axis=2), old)
