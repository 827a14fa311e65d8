"""What is known of a tensor's elements, whatever the data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation, SSAValue

from tensorgrad.dialects.tg.base import numpy_dtype
from tensorgrad.dialects.tg.build import shape_of

Array: TypeAlias = NDArray[Any]
Flags: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class ElementFacts:
    """What is known of a tensor's elements, whatever the data.

    Each array has the tensor's rank, and the extent 1 along axes where all elements are alike.

    Attributes:
        padded: They are at a position that exists because of padding.
        reached: They are not, but depend on padding.
        known: They are `value`.
        unequal: They differ from `value`.
        value: 1 where it says nothing.
        origins: The ops through which padding reached them.
        sums: The ops of which they are sums without padding, with the number of terms with it, which no mean may have.
    """

    padded: Flags
    reached: Flags
    known: Flags
    unequal: Flags
    value: Array
    origins: frozenset[Operation] = frozenset()
    sums: frozenset[tuple[Operation, int]] = frozenset()

    @classmethod
    def of(
        cls,
        arrays: Iterable[Array],
        origins: frozenset[Operation] = frozenset(),
        sums: frozenset[tuple[Operation, int]] = frozenset(),
    ) -> ElementFacts:
        """Returns facts of what `arrays` lists."""
        *flags, value = map(compact, arrays)
        padded, reached, known, unequal = (flag.astype(bool) for flag in flags)
        return cls(padded, reached, known, unequal, value, origins, sums)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """All arrays, in the order of the attributes."""
        return self.padded, self.reached, self.known, self.unequal, self.value

    @property
    def is_padding(self) -> bool:
        """Whether all elements are at padded positions."""
        return bool(self.padded.all())

    @property
    def says_anything(self) -> bool:
        """Whether any element has a flag."""
        return any(bool(flags.any()) for flags in self.arrays[:4])

    def are(self, *numbers: float) -> Flags:
        """Returns which elements are known to be one of some numbers."""
        return self.known & np.isin(self.value, numbers)

    def map(self, change: Callable[[Array], Array]) -> ElementFacts:
        """Returns the facts after a change of the elements' arrangement."""
        return ElementFacts.of(map(change, self.arrays), self.origins, self.sums)

    def spread(self, value: SSAValue) -> list[Array]:
        """Returns all arrays with the tensor's shape."""
        return [np.broadcast_to(array, shape_of(value)) for array in self.arrays]


def compact(array: Array) -> Array:
    """Returns an array with the extent 1 along axes where all elements are equal."""
    for axis in range(array.ndim):
        first = array[(slice(None),) * axis + (slice(1),)]
        if array.shape[axis] > 1 and (not array.strides[axis] or bool((array == first).all())):
            array = first
    return array


def unknown(value: SSAValue) -> ElementFacts:
    """Returns what is known of a value that depends on data, and not on padding."""
    ones = (1,) * len(shape_of(value))
    false = np.zeros(ones, bool)
    return ElementFacts(false, false, false, false, np.ones(ones, numpy_dtype(value.type)))


def padded_input(
    shape: Sequence[int], dtype: np.dtype[Any], padding: Mapping[int, float], real: Mapping[int, int]
) -> ElementFacts:
    """Returns what is known of an input that is padded along some axes.

    Args:
        shape: Its shape.
        dtype: Its dtype.
        padding: What it is padded by, by axis.
        real: The number of positions that aren't padded, by the number of positions.
    """
    padded = np.zeros((1,) * len(shape), bool)
    value = np.ones((1,) * len(shape), dtype)
    for axis, number in padding.items():
        position = np.arange(shape[axis]).reshape([-1 if other == axis else 1 for other in range(len(shape))])
        padded = padded | (position >= real[shape[axis]])
        value[...] = number
    return ElementFacts(padded, np.zeros_like(padded), padded, ~padded, value)
