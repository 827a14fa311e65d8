"""The last call of a compiled function: the next mostly passes the same model, and looks at other arguments only."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Mapping, Sequence
from enum import Enum, auto
from itertools import compress
from typing import Any

import numpy as np

from tensorgrad.driver.handles.compiled import Specialization
from tensorgrad.tracing.tensor import Array


class Source(Enum):
    """What the array of a leaf may do until the next call."""

    GIVEN = auto()
    """It may change: it is an array of NumPy's, or one that the call uses up or is in the state of a program."""

    LIVE = auto()
    """It stays, but the next call may get another from the same tensor, which can be changed in place."""

    FIXED = auto()
    """The leaf always has it."""


class LastCall:
    """A call of a compiled function.

    Args:
        known: Its static arguments, and the structure of the others.
        leaves: The leaves of the others.
        arrays: Their arrays.
        compiled: The program that ran.
        donated: The names of inputs that the call has used up.

    Attributes:
        compiled: The program.
        varying: The places of the leaves that another call has to look at.
        kinds: The shapes and dtypes of their arrays.
    """

    def __init__(
        self,
        known: Hashable,
        leaves: Sequence[Any],
        arrays: Sequence[Any],
        compiled: Specialization,
        donated: frozenset[str],
    ):
        self.compiled, self._known = compiled, known
        names = compiled.inputs
        self._is_donated = [name in donated for name in names]
        sources = list(map(_source, leaves, self._is_donated))
        self._is_fixed = [source is Source.FIXED for source in sources]
        self._fixed = list(compress(leaves, self._is_fixed))
        self.varying = [place for place, is_fixed in enumerate(self._is_fixed) if not is_fixed]
        self._names = [names[place] for place in self.varying]
        self._sources = [sources[place] for place in self.varying]
        self.kinds = kinds_of([arrays[place] for place in self.varying])
        self._constant: Mapping[str, np.ndarray] = dict(compress(zip(names, arrays, strict=True), self._is_fixed))

    def is_like(self, known: Hashable, leaves: Sequence[Any]) -> bool:
        """Returns whether a call has the same structure and static arguments, and the same fixed leaves.

        The loops over all leaves are in C, as a model may have hundreds.
        """
        return (
            known == self._known
            and all(map(operator.is_, compress(leaves, self._is_fixed), self._fixed))
            and [_source(leaves[place], self._is_donated[place]) for place in self.varying] == self._sources
        )

    def run(self, arrays: Sequence[Any]) -> Any:
        """Runs the program with other arrays for the leaves at `varying`, of the same kinds; returns its results."""
        constant, inputs = self._constant, dict[str, Any]()
        changed: dict[str, np.ndarray] = {}
        for name, source, array in zip(self._names, self._sources, arrays, strict=True):
            if source is Source.GIVEN or type(array) is not np.ndarray:
                inputs[name] = array
            elif array is not constant.get(name):
                changed[name] = array
        if changed or not inputs.keys().isdisjoint(constant):
            # As a new mapping: a program doesn't look again at one that it was given before.
            self._constant = constant = {
                name: array for name, array in {**constant, **changed}.items() if name not in inputs
            }
        return self.compiled.run(inputs, constant)


def _source(leaf: Any, is_donated: bool) -> Source:
    if is_donated or not isinstance(leaf, Array):
        return Source.GIVEN
    return Source.LIVE if leaf.host_array is None else Source.FIXED


def kinds_of(arrays: Sequence[Any]) -> tuple[Hashable, ...]:
    """Returns the shape and dtype of each array."""
    return tuple([(array.shape, array.dtype) for array in arrays])
